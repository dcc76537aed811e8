//! Fitting, the same for all learners.

use super::arrays::{answer, array, numbers};
use super::errors::Wrong;
use super::options::{find, settings};
use super::parts::{dict, parts, put};
use super::rows::Rows;
use super::running::running;
use crate::buffer::{Borrowed, release_waiting};
use crate::master::Master;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qjam_algos::learner::{Fitted, Job, Training, Weights};
use std::borrow::Cow;

/// Fits a model, or with `batch` has one learn from one more batch. `targets` and `weights` are 64-bit numbers, one for each row;
/// `start` are tensors to begin from. Gives by name: `tensors` and `attributes` of the model, `facts`, `lists`, `choices` and
/// `remarks` of the report, and with `answers` the model's `answer` for these rows.
#[pyfunction]
#[pyo3(signature = (master, rows, learner, options, tick, *, targets=None, weights=None, start=None, answers=false, batch=false))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(super) fn learner_fit<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    learner: &str,
    options: &Bound<'py, PyDict>,
    tick: &Bound<'py, PyAny>,
    targets: Option<&Bound<'py, PyAny>>,
    weights: Option<&Bound<'py, PyAny>>,
    start: Option<&Bound<'py, PyDict>>,
    answers: bool,
    batch: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (name, learner) = (learner, find(learner)?);
    let settings = settings(py, name, options)?;
    learner.check(&settings).map_err(|e| Wrong::from(e).raise(py, name))?;
    let start = start.map(|tensors| parts(learner, tensors, None)).transpose()?;
    let targets = targets.map(Borrowed::of).transpose()?;
    let weights = weights.map(Borrowed::of).transpose()?;
    let fitted = running(py, master, tick, name, |master| {
        let (targets, weights) = (read(targets.as_ref())?, read(weights.as_ref())?);
        let weights = match &weights {
            Some(weights) => Weights::Each(weights),
            None if rows.weighted => Weights::InRows,
            None => Weights::None,
        };
        let (targets, start) = (targets.as_deref(), start.as_ref());
        let training = Training { targets, weights, start, answers, ..Training::new(&rows.table) };
        let mut job =
            Job { master, settings: &settings, training, memory_limit: None, observer: &mut |_| {} };
        Ok(if batch { learner.update(&mut job)? } else { learner.fit(&mut job)? })
    });
    drop((targets, weights));
    release_waiting(py);
    told(py, fitted?)
}

fn read(memory: Option<&Borrowed>) -> Result<Option<Cow<'_, [f64]>>, Wrong> {
    Ok(memory.map(|memory| numbers::<f64>(memory.as_ref())).transpose()?)
}

fn told(py: Python<'_>, fitted: Fitted) -> PyResult<Bound<'_, PyDict>> {
    let Fitted { model, report, answer: found } = fitted;
    let told = PyDict::new(py);
    put(py, &told, model.parts())?;
    told.set_item("facts", dict(py, &report.facts)?)?;
    let lists = PyDict::new(py);
    for (name, numbers) in report.lists {
        let shape = [numbers.len()];
        lists.set_item(name, array(py, numbers, &shape)?)?;
    }
    told.set_item("lists", lists)?;
    let choices = report.choices.iter().map(|choice| dict(py, choice));
    told.set_item("choices", choices.collect::<PyResult<Vec<_>>>()?)?;
    told.set_item("remarks", report.remarks)?;
    told.set_item("answer", found.map(|found| answer(py, found)).transpose()?)?;
    Ok(told)
}
