//! The sparse autoencoder.

use super::arrays::{array, numbers};
use super::errors::Wrong;
use super::options::settings;
use super::rows::Rows;
use super::running::running;
use crate::buffer::{Borrowed, release_waiting};
use crate::master::Master;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use qjam_algos::neural::autoencoder::{self, Autoencoder, Params, Shape};

/// What errors of rounds call it.
const NAME: &str = "autoencoder";

/// Trains a network. Gives its parameters, the cost, how often that was evaluated, and whether it is at a minimum.
#[pyfunction]
pub(super) fn autoencoder_fit<'py>(
    py: Python<'py>,
    master: &Master,
    rows: &Rows,
    options: &Bound<'py, PyDict>,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let settings = settings(py, NAME, options)?;
    let wrong = |wrong: Wrong| wrong.raise(py, NAME);
    let params = Params::from_settings(&settings, rows.cols as usize).map_err(|e| wrong(e.into()))?;
    let seed = settings.integer("random_state").map_err(|e| wrong(e.into()))?;
    let fit = running(py, master, tick, NAME, |master| {
        let theta = autoencoder::initial(&params.shape(), seed);
        match &rows.table {
            qjam::Rows::DenseF64(data) => Ok(autoencoder::fit(master, &params, data, theta, |_| {})?),
            qjam::Rows::DenseF32(data) => Ok(autoencoder::fit(master, &params, data, theta, |_| {})?),
            _ => {
                Err(Wrong::Python(PyTypeError::new_err("the autoencoder takes dense rows, not sparse ones")))
            }
        }
    })?;
    let minimum = fit.minimum;
    let shape = [minimum.x.len()];
    let theta = array(py, minimum.x, &shape)?;
    (theta, minimum.value, minimum.evaluations, minimum.outcome.converged()).into_pyobject(py)
}

/// What a network makes of rows: `activations` of its hidden units, or the rows as it would `reconstruct` them.
#[pyfunction]
pub(super) fn autoencoder_apply<'py>(
    py: Python<'py>,
    theta: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
    cols: usize,
    what: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let (theta, rows) = (Borrowed::of(theta)?, Borrowed::of(rows)?);
    let reconstructs = match what {
        "activations" => false,
        "reconstruct" => true,
        _ => return Err(PyValueError::new_err(format!("{what:?} is no question to a network"))),
    };
    let made = py.detach(|| -> Result<_, Wrong> {
        let model = network(&theta, cols)?;
        let rows = numbers::<f64>(rows.as_ref())?;
        let values = if reconstructs { model.reconstruct(&rows)? } else { model.activations(&rows)? };
        let across = if reconstructs { cols } else { model.shape().hidden() };
        Ok((values, across))
    });
    drop((theta, rows));
    release_waiting(py);
    let (values, across) = made.map_err(|wrong| wrong.raise(py, NAME))?;
    let shape = [values.len() / across, across];
    array(py, values, &shape)
}

pub(super) fn network(theta: &Borrowed, cols: usize) -> Result<Autoencoder, Wrong> {
    let theta = numbers::<f64>(theta.as_ref())?;
    let shape = Shape::of_theta(theta.len(), cols).ok_or_else(|| {
        Wrong::Value(format!("autoencoder: {} parameters are no network for {cols} columns", theta.len()))
    })?;
    Ok(Autoencoder::new(shape, theta.into_owned())?)
}
