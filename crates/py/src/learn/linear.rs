//! Linear models: trained by whatever solver suits the shape of the data.

use super::arrays::{array, numbers};
use super::errors::Wrong;
use super::options::settings;
use super::rows::Rows;
use super::running::running;
use crate::buffer::{Borrowed, release_waiting};
use crate::master::Master;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use qjam_algos::linear::{self, Choice, Kind, LinearModel, Outcome, Spec, Trained};

/// What errors of rounds call it where no learner is named.
pub(super) const NAME: &str = "linear";

/// Trains a model. `targets` are numbers, or indices of classes; `weights` of rows and coefficients to `start` with may be
/// missing. Gives all there is to know of it, by name.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(super) fn linear_fit<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    learner: &str,
    options: &Bound<'py, PyDict>,
    targets: &Bound<'py, PyAny>,
    weights: Option<&Bound<'py, PyAny>>,
    start: Option<Bound<'py, PyAny>>,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let settings = settings(py, learner, options)?;
    let spec = Spec::from_settings(&settings).map_err(|e| Wrong::from(e).raise(py, learner))?;
    let targets = Borrowed::of(targets)?;
    let weights = weights.map(Borrowed::of).transpose()?;
    let spec = match start {
        Some(start) => spec.with_start(numbers::<f64>(Borrowed::of(&start)?.as_ref())?.into_owned()),
        None => spec,
    };
    let trained = running(py, master, tick, learner, |master| {
        let targets = numbers::<f64>(targets.as_ref())?;
        let weights = weights.as_ref().map(|weights| numbers::<f64>(weights.as_ref())).transpose()?;
        Ok(linear::train(master, &rows.table, &targets, weights.as_deref(), &spec, |_| {})?)
    });
    drop((targets, weights));
    release_waiting(py);
    told(py, trained?)
}

fn told(py: Python<'_>, trained: Trained) -> PyResult<Bound<'_, PyDict>> {
    let told = PyDict::new(py);
    parts(py, &told, &trained.model)?;
    told.set_item("softmax", trained.model.is_softmax())?;
    told.set_item("objective", trained.objective)?;
    told.set_item("gap", trained.gap)?;
    told.set_item("rounds", trained.rounds)?;
    told.set_item("converged", trained.outcome == Outcome::Converged)?;
    told.set_item("outcome", trained.outcome.name())?;
    told.set_item("solver", trained.solver.name())?;
    told.set_item("why", trained.why)?;
    told.set_item("remarks", trained.remarks)?;
    let choices = trained.fit.iter().flat_map(|fit| &fit.choices).map(|choice| chosen(py, choice));
    told.set_item("choices", PyList::new(py, choices.collect::<PyResult<Vec<_>>>()?)?)?;
    Ok(told)
}

/// Coefficients, intercepts and classes as arrays.
fn parts<'py>(py: Python<'py>, told: &Bound<'py, PyDict>, model: &LinearModel) -> PyResult<()> {
    let (outputs, features) = (model.outputs(), model.features());
    told.set_item("coefficients", array(py, model.coefficients().to_vec(), &[outputs, features])?)?;
    told.set_item("intercepts", array(py, model.intercepts().to_vec(), &[outputs])?)?;
    told.set_item("classes", array(py, model.classes().to_vec(), &[model.classes().len()])?)
}

fn chosen<'py>(py: Python<'py>, choice: &Choice) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("round", choice.round)?;
    told.set_item("work", choice.work)?;
    told.set_item("sigma", choice.sigma)?;
    told.set_item("reason", choice.reason.to_string())?;
    Ok(told)
}

/// The product of every row with each row of coefficients, and the intercept: for rows that are not in Python's memory.
#[pyfunction]
pub(super) fn linear_decide<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    coefficients: &Bound<'py, PyAny>,
    intercepts: &Bound<'py, PyAny>,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (coefficients, intercepts) = (read(coefficients)?, read(intercepts)?);
    let (outputs, features) = (intercepts.len(), coefficients.len() / intercepts.len().max(1));
    let found = running(py, master, tick, NAME, |master| {
        let mut all = vec![];
        for (coefficients, intercept) in coefficients.chunks(features.max(1)).zip(&intercepts) {
            // One output is one output, whatever it is of.
            let model = LinearModel::new(Kind::Ridge, coefficients.to_vec(), vec![*intercept], vec![])?;
            all.push(model.decision(master, &rows.table)?);
        }
        Ok(all)
    })?;
    let count = found.first().map_or(0, Vec::len);
    let by_rows = (0..count).flat_map(|row| found.iter().map(move |output| output[row])).collect();
    array(py, by_rows, &[count, outputs])
}

fn read(memory: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    Ok(numbers::<f64>(Borrowed::of(memory)?.as_ref())?.into_owned())
}

/// A model of these parts, of classes that were learnt together or apart. Without classes it is a regression.
pub(super) fn model(
    learner: &str,
    coefficients: &Bound<'_, PyAny>,
    intercepts: &Bound<'_, PyAny>,
    classes: Option<Vec<f64>>,
    softmax: bool,
) -> PyResult<Result<LinearModel, Wrong>> {
    let (coefficients, intercepts) = (read(coefficients)?, read(intercepts)?);
    let Some(kind) = Kind::named(learner) else {
        return Ok(Err(Wrong::Value(format!("{learner} is no linear learner"))));
    };
    let model = LinearModel::new(kind, coefficients, intercepts, classes.unwrap_or_default());
    let model = model.map(|model| if softmax { model.with_softmax() } else { model });
    Ok(model.map_err(Wrong::from))
}

/// Adds what a model consists of to what is told of a file.
pub(super) fn of_file<'py>(py: Python<'py>, model: &LinearModel) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("learner", model.kind().name())?;
    told.set_item("softmax", model.is_softmax())?;
    parts(py, &told, model)?;
    Ok(told)
}
