//! Asking models, the same for all of them.

use super::arrays::{answer, numbers};
use super::errors::Wrong;
use super::options::find;
use super::parts::parts;
use super::rows::Rows;
use super::running::running;
use crate::buffer::{Borrowed, release_waiting};
use crate::master::Master;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qjam_algos::learner::{About, Question, Scope, Weights};
use qjam_algos::registry::assemble;

fn question(name: &str) -> PyResult<Question> {
    Question::named(name).ok_or_else(|| PyValueError::new_err(format!("{name:?} is no question to a model")))
}

/// What a model of these parts answers about rows: labels, numbers, or rows of numbers.
#[pyfunction]
#[pyo3(signature = (master, rows, learner, tensors, asked, tick, *, attributes=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(super) fn model_answer<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    learner: &str,
    tensors: &Bound<'py, PyDict>,
    asked: &str,
    tick: &Bound<'py, PyAny>,
    attributes: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (name, learner, question) = (learner, find(learner)?, question(asked)?);
    let parts = parts(learner, tensors, attributes)?;
    let weights = if rows.weighted { Weights::InRows } else { Weights::None };
    let found = running(py, master, tick, name, |master| {
        let about = About { rows: &rows.table, scope: Scope::All(master), weights };
        Ok(assemble(learner, &parts)?.answer(question, &about)?)
    })?;
    answer(py, found)
}

/// The same for dense rows of 64-bit numbers in Python's memory, on this thread.
#[pyfunction]
#[pyo3(signature = (memory, learner, tensors, asked, *, attributes=None))]
pub(super) fn model_answer_here<'py>(
    py: Python<'py>,
    memory: &Bound<'py, PyAny>,
    learner: &str,
    tensors: &Bound<'py, PyDict>,
    asked: &str,
    attributes: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (name, learner, question) = (learner, find(learner)?, question(asked)?);
    let parts = parts(learner, tensors, attributes)?;
    let memory = Borrowed::of(memory)?;
    let found = py.detach(|| -> Result<_, Wrong> {
        let rows = numbers::<f64>(memory.as_ref())?;
        Ok(assemble(learner, &parts)?.answer_here(question, &rows)?)
    });
    drop(memory);
    release_waiting(py);
    answer(py, found.map_err(|wrong| wrong.raise(py, name))?)
}
