//! What `bench/paper` measures: the method of `qjam_algos::linear::drawn`, all of it on a master, and a partition's part alone, for
//! programs that have another system carry data and coordinates; and our own method, down to a target.

use super::arrays::{array, numbers};
use super::errors::Wrong;
use super::running::running;
use crate::buffer::Borrowed;
use crate::master::Master;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qjam::{Csr, DataSet};
use qjam_algos::linear::{
    Drawing, Draws, FitError, Local, Loss, Objective, Params, Partitioned, Penalty, Scaling, Steps, Tuning,
    drawn, fit, local_steps,
};
use std::borrow::Cow;

/// Memory of whole numbers of 32 bits, none of which is negative; a copy where they lie askew, as an empty array's do.
fn places(memory: &Borrowed) -> PyResult<Cow<'_, [u32]>> {
    let bytes = memory.as_ref();
    match bytemuck::try_cast_slice(bytes) {
        Ok(places) => Ok(places.into()),
        Err(_) if bytes.len().is_multiple_of(4) => Ok(bytemuck::pod_collect_to_vec(bytes).into()),
        Err(_) => {
            Err(PyValueError::new_err(format!("{} bytes are no whole numbers of 32 bits", bytes.len())))
        }
    }
}

/// Takes steps on columns: `rows` and `values` are lists with an array for each, of 32-bit whole numbers and of doubles. `settings` are
/// σ', the weights of absolute values and of half the squares, steps, seed, round, partition. Gives what they did to the residual and
/// to the coordinates.
#[pyfunction]
pub(super) fn drawn_steps<'py>(
    py: Python<'py>,
    rows: Vec<Bound<'py, PyAny>>,
    values: Vec<Bound<'py, PyAny>>,
    w: &Bound<'py, PyAny>,
    alpha: &Bound<'py, PyAny>,
    settings: (f64, f64, f64, u64, u64, u64, u32),
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (sigma, l1, l2, count, seed, round, partition) = settings;
    let rows = rows.iter().map(Borrowed::of).collect::<PyResult<Vec<_>>>()?;
    let values = values.iter().map(Borrowed::of).collect::<PyResult<Vec<_>>>()?;
    let (w, alpha) = (Borrowed::of(w)?, Borrowed::of(alpha)?);
    let (w, mut alpha) = (numbers::<f64>(w.as_ref())?, numbers::<f64>(alpha.as_ref())?.into_owned());
    let columns =
        rows.iter().zip(&values).map(|(rows, values)| Ok((places(rows)?, numbers::<f64>(values.as_ref())?)));
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    if columns.len() != alpha.len() {
        let text = format!("{} columns for {} coordinates", columns.len(), alpha.len());
        return Err(PyValueError::new_err(text));
    }
    let steps = Steps { sigma, l1, l2, count, draws: Draws::new(seed, round, partition) };
    let column = |j: usize| (&columns[j].0[..], &columns[j].1[..]);
    let change = local_steps(column, &w, &mut alpha, &steps).ok_or_else(|| {
        PyValueError::new_err(format!("a column has a row that w, of {}, has not", w.len()))
    })?;
    let (m, n) = ([change.len()], [alpha.len()]);
    Ok((array(py, change, &m)?, array(py, alpha, &n)?))
}

/// A matrix by rows, as Python has it: where they start, columns, values.
type Memories<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn matrix(memory: &Memories<'_>, cols: usize) -> PyResult<Csr<f64>> {
    let starts = bytemuck::pod_collect_to_vec::<u8, u64>(Borrowed::of(&memory.0)?.as_ref());
    let columns = places(&Borrowed::of(&memory.1)?)?.into_owned();
    let values = numbers::<f64>(Borrowed::of(&memory.2)?.as_ref())?.into_owned();
    Csr::from_vecs(starts, columns, values, cols, None).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn wrong(error: FitError) -> Wrong {
    match error {
        FitError::Run(e) => Wrong::Round(e),
        other => Wrong::Value(other.to_string()),
    }
}

/// Runs rounds on a master: a matrix by rows, targets, partitions, and λ, η, work, rounds, target, seed. Gives `coordinates`, and for
/// each round `objectives`, `seconds`, `worker_s` and `master_s`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called in one place")]
pub(super) fn drawn_fit<'py>(
    py: Python<'py>,
    master: &Master,
    memory: Memories<'py>,
    cols: usize,
    targets: &Bound<'py, PyAny>,
    partitions: usize,
    settings: (f64, f64, f64, usize, f64, u64),
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let (lambda, eta, h, rounds, target, seed) = settings;
    let how = Drawing { lambda, eta, h, rounds, target, seed };
    let matrix = matrix(&memory, cols)?;
    let targets = numbers::<f64>(Borrowed::of(targets)?.as_ref())?.into_owned();
    let (found, rounds) = running(py, master, tick, "drawn", |master| {
        let data = DataSet::columns_of(&matrix).and_then(|columns| columns.partitions(partitions));
        let data = data.map_err(|e| Wrong::Round(e.into()))?;
        drawn(master, &data, &targets, &how).map_err(wrong)
    })?;
    let told = PyDict::new(py);
    let shape = [found.len()];
    told.set_item("coordinates", array(py, found, &shape)?)?;
    told.set_item("objectives", rounds.iter().map(|round| round.objective).collect::<Vec<_>>())?;
    told.set_item("seconds", rounds.iter().map(|round| round.seconds).collect::<Vec<_>>())?;
    told.set_item("worker_s", rounds.iter().map(|round| round.worker_s).collect::<Vec<_>>())?;
    told.set_item("master_s", rounds.iter().map(|round| round.master_s).collect::<Vec<_>>())?;
    Ok(told)
}

/// Our own method down to a target: a matrix by rows, targets, partitions, and λ, η, rounds, target, seed. H and σ' are `fixed`, or
/// chosen by the clock. Gives `coordinates`, for each round `objectives`, `seconds` and `h`, and of all rounds `worker_s`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called in one place")]
pub(super) fn tuned_fit<'py>(
    py: Python<'py>,
    master: &Master,
    memory: Memories<'py>,
    cols: usize,
    targets: &Bound<'py, PyAny>,
    partitions: usize,
    settings: (f64, f64, usize, f64, u64),
    fixed: Option<(f64, f64)>,
    tick: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let (lambda, eta, rounds, target, seed) = settings;
    let value = |e: &dyn std::fmt::Display| PyValueError::new_err(e.to_string());
    let matrix = matrix(&memory, cols)?;
    let targets = numbers::<f64>(Borrowed::of(targets)?.as_ref())?.into_owned();
    let penalty =
        Penalty::elastic_net(lambda, eta, Scaling::HalfSum, targets.len()).map_err(|e| value(&e))?;
    let local = fixed.map_or(Local::Tuned, |(work, sigma)| Local::Fixed { work, sigma });
    let params = Params::default().with_tolerance(0.0).and_then(|params| params.with_rounds_max(rounds));
    let params = params.and_then(|params| params.with_local(local)).map_err(|e| value(&e))?;
    let params = params.with_tuning(Tuning::Clock).with_seed(seed).with_target(target);
    let (mut objectives, mut seconds, mut works) = (vec![], vec![], vec![]);
    let found = running(py, master, tick, "cocoa", |master| {
        let rows = DataSet::csr(&matrix).map_err(|e| Wrong::Round(e.into()))?;
        let data = Partitioned::columns_of(&rows, partitions).map_err(|e| Wrong::Value(e.to_string()))?;
        let loss = Loss::Squares { targets };
        let objective = Objective { loss, terms: penalty.into(), centred: false, free: false };
        fit(master, &data, &objective, &params, |round| {
            objectives.push(round.objective);
            seconds.push(round.seconds);
            works.push(round.choice.work);
        })
        .map_err(wrong)
    })?;
    let told = PyDict::new(py);
    let shape = [found.coordinates.len()];
    told.set_item("coordinates", array(py, found.coordinates, &shape)?)?;
    told.set_item("objectives", objectives)?;
    told.set_item("seconds", seconds)?;
    told.set_item("h", works)?;
    told.set_item("worker_s", found.times.worker_s)?;
    Ok(told)
}
