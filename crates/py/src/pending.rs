//! Rounds that were submitted.

use crate::errors::{Failed, raise};
use crate::interpreter;
use crate::shared::{Code, Shared, detached};
use crate::told::report_tuple;
use crate::values::to_parts;
use crate::wait::Patience;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use qjam::journal::RoundReport;
use qjam::python::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A round that was submitted; its value can be taken once.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    code: Py<Code>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The round, until its value was taken or it was given up.
    round: Option<qjam::Pending<Value>>,
    report: Option<RoundReport>,
}

impl Pending {
    pub(crate) fn new(shared: Arc<Shared>, code: Py<Code>, round: qjam::Pending<Value>) -> Self {
        Pending { shared, code, state: Mutex::new(State { round: Some(round), report: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a little; `None` if the value is not there yet.
    fn wait_a_little(&self, pause: std::time::Duration) -> Result<Option<Value>, Failed> {
        let mut state = self.lock();
        let State { round, report } = &mut *state;
        let Some(pending) = round else { return Err(qjam::Error::Cancelled.into()) };
        let answer = pending.wait_at_most(pause);
        if !matches!(answer, Ok(None)) {
            *report = pending.report();
            *round = None;
        }
        Ok(answer?)
    }
}

#[pymethods]
impl Pending {
    /// Waits for the parts of the value; `None` when time is up, and the round goes on.
    #[pyo3(signature = (timeout, tick))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        tick: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.shared.must_be_here(py)?;
        let patience = Patience::new(&self.shared, tick, timeout);
        let answer = py.detach(|| -> Result<Option<Value>, Failed> {
            loop {
                if let Some(value) = self.wait_a_little(patience.pause())? {
                    return Ok(Some(value));
                }
                if patience.is_over() {
                    return Ok(None);
                }
                patience.look_up()?;
            }
        });
        match answer {
            Ok(Some(value)) => {
                self.shared.keep_report(self.lock().report);
                Ok(Some(to_parts(py, value.body)?))
            }
            Ok(None) => Ok(None),
            Err(failed) => Err(raise(py, failed, &self.code.get().name)),
        }
    }

    /// Whether a value or an error is there.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.must_be_here(py)?;
        Ok(py.detach(|| self.lock().round.as_ref().is_none_or(qjam::Pending::is_done)))
    }

    /// Gives the round up.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.must_be_here(py)?;
        py.detach(|| {
            let round = self.lock().round.take();
            drop(round);
        });
        interpreter::call_off(py)
    }

    /// Where the time went, once the value has been taken.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let report = py.detach(|| self.lock().report);
        report.map(|report| report_tuple(py, &report)).transpose()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        if self.shared.is_elsewhere() {
            std::mem::forget(state);
        } else if state.round.is_some() {
            detached(|| drop(state));
        }
    }
}
