//! Model files, which the command and programs in Rust read and write, too. The same for all learners.

use super::errors::Wrong;
use super::options::{find, settings, value_of};
use super::parts::{dict, parts, put};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qjam_algos::models::Notes;
use qjam_algos::options::Value;
use qjam_algos::registry::{assemble, load_as};
use std::path::PathBuf;

/// Keeps a model in a file, with the options that are set, the names of the columns, and what fitting came to.
#[pyfunction]
#[pyo3(signature = (path, learner, tensors, options, columns, fitted, *, attributes=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(super) fn model_save(
    py: Python<'_>,
    path: PathBuf,
    learner: &str,
    tensors: &Bound<'_, PyDict>,
    options: &Bound<'_, PyDict>,
    columns: Vec<String>,
    fitted: &Bound<'_, PyDict>,
    attributes: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let (name, learner) = (learner, find(learner)?);
    let settings = settings(py, name, options)?;
    let fitted = fitted.iter().map(|(name, value)| {
        let name: String = name.extract()?;
        let value = value_of(&name, &value)?;
        Ok((name, value))
    });
    let fitted = fitted.collect::<PyResult<Vec<(String, Value)>>>()?;
    let fitted: Vec<(&str, Value)> =
        fitted.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let notes = Notes::new(&settings, columns, &fitted);
    let parts = parts(learner, tensors, attributes)?;
    let saved = py.detach(|| -> Result<(), Wrong> { Ok(assemble(learner, &parts)?.save(&path, &notes)?) });
    saved.map_err(|wrong| wrong.raise(py, name))
}

/// The model in a file of the kind that this learner fits, by name: `tensors` and `attributes`, the `options` it was fitted with,
/// names of the `columns` if it has them, and what fitting came to (`fitted`).
#[pyfunction]
pub(super) fn model_load<'py>(py: Python<'py>, path: PathBuf, learner: &str) -> PyResult<Bound<'py, PyDict>> {
    let (name, learner) = (learner, find(learner)?);
    let loaded = py.detach(|| -> Result<_, Wrong> { Ok(load_as(learner, &path)?) });
    let (model, contents) = loaded.map_err(|wrong| wrong.raise(py, name))?;
    let told = PyDict::new(py);
    put(py, &told, model.parts())?;
    told.set_item("options", dict(py, &contents.notes.options)?)?;
    told.set_item("fitted", dict(py, &contents.notes.fitted)?)?;
    told.set_item("columns", contents.notes.columns)?;
    Ok(told)
}
