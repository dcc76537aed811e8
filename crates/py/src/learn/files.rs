//! Model files, which the command and programs in Rust read and write, too.

use super::arrays::array;
use super::autoencoder::network;
use super::errors::Wrong;
use super::kmeans::{Given, centres_of};
use super::linear;
use super::options::settings;
use crate::buffer::{Borrowed, release_waiting};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use qjam_algos::clustering::kmeans::Model;
use qjam_algos::linear::LinearModel;
use qjam_algos::models::{self, Notes};
use qjam_algos::neural::autoencoder::Autoencoder;
use qjam_algos::options::Value;
use std::path::PathBuf;

/// What a file says besides the numbers: the options that are set, the names of the columns, and what fitting came to.
fn notes(
    py: Python<'_>,
    learner: &str,
    options: &Bound<'_, PyDict>,
    columns: Vec<String>,
    fitted: Vec<(String, f64)>,
) -> PyResult<Notes> {
    let settings = settings(py, learner, options)?;
    let fitted: Vec<(&str, Value)> =
        fitted.iter().map(|(name, x)| (name.as_str(), Value::Real(*x))).collect();
    Ok(Notes::new(&settings, columns, &fitted))
}

/// Keeps centres in a file.
#[pyfunction]
pub(super) fn kmeans_save(
    py: Python<'_>,
    path: PathBuf,
    centres: &Bound<'_, PyAny>,
    learner: &str,
    options: &Bound<'_, PyDict>,
    columns: Vec<String>,
    fitted: Vec<(String, f64)>,
) -> PyResult<()> {
    let notes = notes(py, learner, options, columns, fitted)?;
    let doubles = centres.getattr("itemsize")?.extract::<usize>()? == 8;
    let given = Given::of(centres)?;
    let saved = py.detach(|| -> Result<(), Wrong> {
        match doubles {
            true => Model::new(given.centres::<f64>()?).save_with(&path, &notes)?,
            false => Model::new(given.centres::<f32>()?).save_with(&path, &notes)?,
        }
        Ok(())
    });
    drop(given);
    release_waiting(py);
    saved.map_err(|wrong| wrong.raise(py, "k-means"))
}

/// The centres in a file, in the numbers that they were kept in, the names of the columns if it has them, and what they were
/// fitted with.
#[pyfunction]
pub(super) fn kmeans_load(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyTuple>> {
    let loaded = py.detach(|| -> Result<_, Wrong> {
        let model = Model::<f64>::load(&path)?;
        Ok((model, models::inspect(&path)?))
    });
    let (model, contents) = loaded.map_err(|wrong| wrong.raise(py, "k-means"))?;
    let singles = contents.tensors.iter().any(|(_, dtype, _)| dtype == "F32");
    let centres = match singles {
        true => {
            let values: Vec<f32> = model.centres().values().iter().map(|v| *v as f32).collect();
            array(py, values, &[model.centres().len(), model.centres().dims()])?
        }
        false => centres_of(py, model.centres())?,
    };
    (centres, contents.notes.columns.clone(), options(py, &contents.notes)?).into_pyobject(py)
}

/// What a model was fitted with.
fn options<'py>(py: Python<'py>, notes: &Notes) -> PyResult<Bound<'py, PyDict>> {
    let options = PyDict::new(py);
    for (name, value) in &notes.options {
        match value {
            Value::Integer(n) => options.set_item(name, n)?,
            Value::Real(x) => options.set_item(name, x)?,
            Value::Flag(yes) => options.set_item(name, yes)?,
            Value::Text(text) => options.set_item(name, text)?,
        }
    }
    Ok(options)
}

/// Keeps a network in a file.
#[pyfunction]
pub(super) fn autoencoder_save(
    py: Python<'_>,
    path: PathBuf,
    theta: &Bound<'_, PyAny>,
    cols: usize,
    options: &Bound<'_, PyDict>,
    columns: Vec<String>,
    fitted: Vec<(String, f64)>,
) -> PyResult<()> {
    let notes = notes(py, "autoencoder", options, columns, fitted)?;
    let theta = Borrowed::of(theta)?;
    let saved = py.detach(|| -> Result<(), Wrong> { Ok(network(&theta, cols)?.save_with(&path, &notes)?) });
    drop(theta);
    release_waiting(py);
    saved.map_err(|wrong| wrong.raise(py, "autoencoder"))
}

/// The parameters of a network in a file, its visible units, the names of the columns if it has them, and what it was
/// fitted with.
#[pyfunction]
pub(super) fn autoencoder_load(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyTuple>> {
    let loaded =
        py.detach(|| -> Result<_, Wrong> { Ok((Autoencoder::load(&path)?, models::inspect(&path)?)) });
    let (model, contents) = loaded.map_err(|wrong| wrong.raise(py, "autoencoder"))?;
    let theta = model.theta().to_vec();
    let len = theta.len();
    let options = options(py, &contents.notes)?;
    (array(py, theta, &[len])?, model.shape().visible(), contents.notes.columns, options).into_pyobject(py)
}

/// What the notes call the name of a class that is no number.
const CLASS: &str = "class ";

/// Keeps a linear model in a file. Classes that are no numbers have names, which the notes keep.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(super) fn linear_save(
    py: Python<'_>,
    path: PathBuf,
    learner: &str,
    coefficients: &Bound<'_, PyAny>,
    intercepts: &Bound<'_, PyAny>,
    classes: Option<Vec<f64>>,
    names: Vec<String>,
    options: &Bound<'_, PyDict>,
    columns: Vec<String>,
    fitted: Vec<(String, f64)>,
    softmax: bool,
) -> PyResult<()> {
    let mut notes = notes(py, learner, options, columns, fitted)?;
    let names = names.into_iter().enumerate();
    notes.fitted.extend(names.map(|(n, name)| (format!("{CLASS}{n}"), Value::Text(name))));
    let model = linear::model(learner, coefficients, intercepts, classes, softmax)?;
    let saved = py.detach(|| -> Result<(), Wrong> { Ok(model?.save_with(&path, &notes)?) });
    release_waiting(py);
    saved.map_err(|wrong| wrong.raise(py, learner))
}

/// The linear model in a file, by name: its learner, its parts, the names of columns and of classes if it has them, and what
/// it was fitted with.
#[pyfunction]
pub(super) fn linear_load(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let loaded =
        py.detach(|| -> Result<_, Wrong> { Ok((LinearModel::load(&path)?, models::inspect(&path)?)) });
    let (model, contents) = loaded.map_err(|wrong| wrong.raise(py, linear::NAME))?;
    let notes = contents.notes;
    let told = linear::of_file(py, &model)?;
    told.set_item("options", options(py, &notes)?)?;
    let name = |n: usize| match notes.fitted.iter().find(|(key, _)| *key == format!("{CLASS}{n}")) {
        Some((_, Value::Text(name))) => Some(name.clone()),
        _ => None,
    };
    let names: Option<Vec<String>> = (0..model.classes().len()).map(name).collect();
    told.set_item("names", names.unwrap_or_default())?;
    told.set_item("columns", notes.columns)?;
    Ok(told)
}
