//! K-means and its mini-batch variant.

use super::arrays::{Number, array, labels, numbers};
use super::errors::Wrong;
use super::options::settings;
use super::rows::Rows;
use super::running::running;
use crate::buffer::Borrowed;
use crate::master::Master;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use qjam::with_rows;
use qjam_algos::clustering::kmeans::{self, Centres, Fit, Model, Outcome, Params};
use qjam_algos::kernels::nearest::Real;

/// What errors of rounds call it.
pub(super) const NAME: &str = "k-means";

/// An array of centres, as Python has it.
pub(super) struct Given {
    memory: Borrowed,
    cols: usize,
}

impl Given {
    pub(super) fn of(array: &Bound<'_, PyAny>) -> PyResult<Given> {
        let cols = array.getattr("shape")?.get_item(1)?.extract()?;
        let bytes = array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?;
        Ok(Given { memory: Borrowed::of(&bytes)?, cols })
    }

    pub(super) fn centres<T: Real + Number>(&self) -> Result<Centres<T>, Wrong> {
        let values = numbers::<T>(self.memory.as_ref())?.into_owned();
        let (count, cols) = (values.len(), self.cols);
        Centres::new(values, cols)
            .ok_or_else(|| Wrong::Value(format!("k-means: {count} numbers are no centres of {cols} columns")))
    }
}

/// Fits centres. Gives centres, inertia, iterations, how many centres have no rows, the weight of the rows of each centre, and
/// the labels if they are asked for.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(super) fn kmeans_fit<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    learner: &str,
    options: &Bound<'py, PyDict>,
    init: Option<Bound<'py, PyAny>>,
    with_labels: bool,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let params = params(py, learner, options, rows.weighted)?;
    let in_batches = learner != "kmeans";
    let given = init.map(|init| Given::of(&init)).transpose()?;
    with_rows!(&rows.table, data => {
        let (fit, found) = running(py, master, tick, NAME, |master| {
            let fit = match (given, in_batches) {
                (None, false) => kmeans::fit(master, &params, data, |_| {})?,
                (Some(given), false) => kmeans::fit_from(master, &params, data, given.centres()?, |_| {})?,
                (None, true) => kmeans::fit_minibatch(master, &params, data, |_| {})?,
                (Some(given), true) => kmeans::fit_minibatch_from(master, &params, data, given.centres()?, |_| {})?,
            };
            let found = with_labels.then(|| fit.model.labels(master, data, &params)).transpose()?;
            Ok((fit, found))
        })?;
        tell(py, fit, found)
    })
}

fn tell<'py, T: Real + Number>(
    py: Python<'py>,
    fit: Fit<T>,
    found: Option<Vec<u32>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let sizes = fit.sizes.len();
    let sizes = array(py, fit.sizes, &[sizes])?;
    let found = found.map(|found| labels(py, found)).transpose()?;
    let ended = fit.outcome != Outcome::IterationsUsedUp;
    (centres_of(py, fit.model.centres())?, fit.inertia, fit.iterations, ended, fit.empty, sizes, found)
        .into_pyobject(py)
}

pub(super) fn centres_of<'py, T: Real + Number>(
    py: Python<'py>,
    centres: &Centres<T>,
) -> PyResult<Bound<'py, PyAny>> {
    array(py, centres.values().to_vec(), &[centres.len(), centres.dims()])
}

fn params(py: Python<'_>, learner: &str, options: &Bound<'_, PyDict>, weighted: bool) -> PyResult<Params> {
    let settings = settings(py, learner, options)?;
    let params = Params::from_settings(&settings).map_err(|e| Wrong::from(e).raise(py, NAME))?;
    Ok(params.with_weights_last(weighted))
}

/// Has centres learn from one more batch: all of these rows. Without centres they are drawn first. Gives centres, the weight
/// of all rows that each was ever given, and, if asked for, labels and inertia of the batch.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(super) fn kmeans_learn<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    options: &Bound<'py, PyDict>,
    init: Option<Bound<'py, PyAny>>,
    counts: Vec<f64>,
    with_labels: bool,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let params = params(py, "minibatch-kmeans", options, rows.weighted)?;
    let given = init.map(|init| Given::of(&init)).transpose()?;
    let mut counts = counts;
    with_rows!(&rows.table, data => {
        let (centres, counts, found) = running(py, master, tick, NAME, |master| {
            let before = match given {
                Some(given) => given.centres()?,
                None => kmeans::first_centres(master, &params, data)?,
            };
            let model = Model::new(kmeans::learn(master, &params, data, &before, &mut counts)?);
            let found = match with_labels {
                true => Some((
                    model.labels(master, data, &params)?,
                    model.inertia_all(master, data, params.weighted())?,
                )),
                false => None,
            };
            Ok((model.centres().clone(), counts, found))
        })?;
        let (found, inertia) = found.unzip();
        let found = found.map(|found| labels(py, found)).transpose()?;
        let len = counts.len();
        (centres_of(py, &centres)?, array(py, counts, &[len])?, found, inertia).into_pyobject(py)
    })
}

/// The nearest centres.
#[pyfunction]
pub(super) fn kmeans_predict<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    centres: &Bound<'py, PyAny>,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given::of(centres)?;
    with_rows!(&rows.table, data => {
        let found = running(py, master, tick, NAME, |master| {
            Ok(Model::new(given.centres()?).predict_all(master, data)?)
        })?;
        labels(py, found)
    })
}

/// The distances to all centres.
#[pyfunction]
pub(super) fn kmeans_transform<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    centres: &Bound<'py, PyAny>,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given::of(centres)?;
    with_rows!(&rows.table, data => {
        let (found, k) = running(py, master, tick, NAME, |master| {
            let model = Model::new(given.centres()?);
            Ok((model.transform_all(master, data)?, model.centres().len()))
        })?;
        let shape = [found.len() / k, k];
        array(py, found, &shape)
    })
}

/// The weighted sum of squared distances to the nearest centres.
#[pyfunction]
pub(super) fn kmeans_inertia(
    py: Python<'_>,
    master: &Master,
    rows: &Rows,
    centres: &Bound<'_, PyAny>,
    tick: &Bound<'_, PyAny>,
) -> PyResult<f64> {
    let given = Given::of(centres)?;
    with_rows!(&rows.table, data => running(py, master, tick, NAME, |master| {
        Ok(Model::new(given.centres()?).inertia_all(master, data, rows.weighted)?)
    }))
}
