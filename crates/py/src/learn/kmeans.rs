//! K-means and its mini-batch variant.

use super::arrays::{Number, array, labels, numbers};
use super::errors::Wrong;
use super::options::settings;
use super::rows::{Rows, with_rows};
use super::running::running;
use crate::buffer::{Borrowed, release_waiting};
use crate::master::Master;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use qjam::{DataSet, Dense};
use qjam_algos::clustering::kmeans::{self, Centres, Fit, Model, Outcome, Params};
use qjam_algos::kernels::nearest::Real;
use std::path::PathBuf;

/// What errors of rounds call it.
const NAME: &str = "k-means";

/// An array of centres, as Python has it.
struct Given {
    memory: Borrowed,
    cols: usize,
}

impl Given {
    fn of(array: &Bound<'_, PyAny>) -> PyResult<Given> {
        let cols = array.getattr("shape")?.get_item(1)?.extract()?;
        let bytes = array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?;
        Ok(Given { memory: Borrowed::of(&bytes)?, cols })
    }

    fn centres<T: Real + Number>(&self) -> Result<Centres<T>, Wrong> {
        let values = numbers::<T>(self.memory.as_ref())?.into_owned();
        let (count, cols) = (values.len(), self.cols);
        Centres::new(values, cols)
            .ok_or_else(|| Wrong::Value(format!("k-means: {count} numbers are no centres of {cols} columns")))
    }
}

/// A fit with labels and the weights that centres were given, if asked for.
type Told<T> = (Fit<T>, Option<Vec<u32>>);

/// Fits centres. Gives centres, inertia, iterations, why it ended, how many centres have no rows, and the labels.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(super) fn kmeans_fit<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    options: &Bound<'py, PyDict>,
    init: Option<Bound<'py, PyAny>>,
    with_labels: bool,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let params = params(py, "kmeans", options, rows.weighted)?;
    let init = init.map(|init| Given::of(&init)).transpose()?;
    with_rows!(&rows.table, data => {
        let told = running(py, master, tick, NAME, |master| {
            let fit = match init {
                None => kmeans::fit(master, &params, data, |_| {})?,
                Some(given) => kmeans::fit_from(master, &params, data, given.centres()?, |_| {})?,
            };
            let found = with_labels.then(|| labelled(master, &fit.model, data, &params)).transpose()?;
            Ok((fit, found))
        })?;
        tell(py, told)
    })
}

/// The same on batches. The labels are followed by the weight of all rows that each centre was given.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called from one place")]
pub(super) fn minibatch_fit<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    options: &Bound<'py, PyDict>,
    init: Option<Bound<'py, PyAny>>,
    with_labels: bool,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let params = params(py, "minibatch-kmeans", options, rows.weighted)?;
    let _init = init.map(|init| Given::of(&init)).transpose()?;
    with_rows!(&rows.table, data => {
        let told = running(py, master, tick, NAME, |master| {
            let fit = kmeans::fit_minibatch(master, &params, params.batch_rows(), data, |_| {})?;
            let found = with_labels.then(|| labelled(master, &fit.model, data, &params)).transpose()?;
            Ok((fit, found))
        })?;
        tell(py, told)
    })
}

fn params(py: Python<'_>, learner: &str, options: &Bound<'_, PyDict>, weighted: bool) -> PyResult<Params> {
    let settings = settings(py, learner, options)?;
    let params = Params::from_settings(&settings).map_err(|e| Wrong::from(e).raise(py, NAME))?;
    Ok(params.with_weights_last(weighted))
}

fn labelled<T: Real>(
    master: &qjam::Master,
    model: &Model<T>,
    data: &DataSet<Dense<T>>,
    _params: &Params,
) -> Result<Vec<u32>, Wrong> {
    Ok(model.predict_all(master, data)?)
}

fn tell<'py, T: Real + Number>(py: Python<'py>, (fit, found): Told<T>) -> PyResult<Bound<'py, PyTuple>> {
    let centres = fit.model.centres();
    let shape = [centres.len(), centres.dims()];
    let outcome = match fit.outcome {
        Outcome::FixedPoint => "fixed point",
        Outcome::Tolerance => "tolerance",
        Outcome::IterationsUsedUp => "iterations used up",
    };
    let centres = array(py, centres.values().to_vec(), &shape)?;
    let found = found.map(|found| labels(py, found)).transpose()?;
    (centres, fit.inertia, fit.iterations, outcome, fit.empty, found).into_pyobject(py)
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
        let (found, k) = running(py, master, tick, NAME, |_| {
            let model = Model::new(given.centres()?);
            let mut found = vec![];
            for n in 0..data.len() {
                found.extend(model.transform(data.chunk(n)?.as_slice())?);
            }
            Ok((found, model.centres().len()))
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
        let centres = given.centres()?;
        let params = Params::new(centres.len())?.with_weights_last(rows.weighted);
        Ok(kmeans::Lloyd::from(master, &params, data, centres)?.inertia()?)
    }))
}

/// Keeps centres in a file.
#[pyfunction]
pub(super) fn kmeans_save(py: Python<'_>, path: PathBuf, centres: &Bound<'_, PyAny>) -> PyResult<()> {
    let doubles = centres.getattr("itemsize")?.extract::<usize>()? == 8;
    let given = Given::of(centres)?;
    let saved = py.detach(|| -> Result<(), Wrong> {
        match doubles {
            true => Model::new(given.centres::<f64>()?).save(&path)?,
            false => Model::new(given.centres::<f32>()?).save(&path)?,
        }
        Ok(())
    });
    drop(given);
    release_waiting(py);
    saved.map_err(|wrong| wrong.raise(py, NAME))
}

/// The centres in a file.
#[pyfunction]
pub(super) fn kmeans_load(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let loaded = py.detach(|| Ok::<_, Wrong>(Model::<f64>::load(&path)?));
    let model = loaded.map_err(|wrong| wrong.raise(py, NAME))?;
    let shape = [model.centres().len(), model.centres().dims()];
    array(py, model.centres().values().to_vec(), &shape)
}
