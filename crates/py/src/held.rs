//! States that stay with the data.

use crate::buffer::release_waiting;
use crate::errors::{Failed, raise};
use crate::interpreter;
use crate::pending::Pending;
use crate::shared::{Code, Shared, detached};
use crate::values::{to_parts, to_pickle};
use crate::wait::{Patience, apart};
use pyo3::prelude::*;
use pyo3::types::PyList;
use qjam::python::{self, Memory};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The states of all chunks of a data set.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Held {
    shared: Arc<Shared>,
    /// `None` once it is let go of.
    held: Arc<Mutex<Option<qjam::Held<Memory>>>>,
    partitions: usize,
}

/// A state as it travels: a pickle and its buffers, or nothing where it has not been made yet.
type StateParts<'py> = Option<(Bound<'py, PyAny>, Bound<'py, PyList>)>;

impl Held {
    pub(crate) fn new(shared: Arc<Shared>, held: qjam::Held<Memory>) -> Self {
        let partitions = held.partitions();
        Held { shared, held: Arc::new(Mutex::new(Some(held))), partitions }
    }

    fn lock(&self) -> MutexGuard<'_, Option<qjam::Held<Memory>>> {
        locked(&self.held)
    }

    /// Does something that takes long and cannot be called off.
    fn apart<R: Send + 'static>(
        &self,
        py: Python<'_>,
        tick: &Py<PyAny>,
        name: &str,
        f: impl FnOnce(&mut qjam::Held<Memory>) -> Result<R, qjam::Error> + Send + 'static,
    ) -> PyResult<R> {
        self.must_be_held(py)?;
        let held = self.held.clone();
        let done = apart(py, tick, move || locked(&held).as_mut().ok_or(qjam::Error::NoMaster).and_then(f));
        done.map_err(|failed| raise(py, failed, name))
    }

    /// Whether there are states to work on, and a master that can.
    fn must_be_held(&self, py: Python<'_>) -> PyResult<()> {
        let master = self.shared.master(py)?;
        let is_held = py.detach(|| {
            drop(master);
            self.lock().is_some()
        });
        if is_held { Ok(()) } else { Err(raise(py, Failed::Released, "")) }
    }
}

fn locked(held: &Mutex<Option<qjam::Held<Memory>>>) -> MutexGuard<'_, Option<qjam::Held<Memory>>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Held {
    /// Runs a step over all chunks, each with its state, and gives the parts of the combined value.
    #[pyo3(signature = (code, stream, buffers, timeout, tick, step=None))]
    #[expect(clippy::too_many_arguments, reason = "called from one place, once per round")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        code: &Code,
        stream: &Bound<'py, PyAny>,
        buffers: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        tick: &Bound<'py, PyAny>,
        step: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.must_be_held(py)?;
        let call = self.shared.call(code, stream, buffers, false, step)?;
        let patience = Patience::new(&self.shared, tick, timeout);
        let pause = patience.pause();
        let result = py.detach(|| {
            let mut held = self.lock();
            let held = held.as_mut().ok_or(qjam::Error::NoMaster)?;
            let goes_on = |pending: &qjam::Pending<_>| patience.goes_on(|| pending.waiting_for());
            let result = held.run_while(python::step, &call, pause, goes_on);
            drop(call);
            result
        });
        release_waiting(py);
        match result {
            Ok((value, report)) => {
                self.shared.keep_report(report);
                to_parts(py, value.body)
            }
            Err(error) => {
                interpreter::call_off(py)?;
                Err(raise(py, patience.failed().unwrap_or(Failed::Round(error)), &code.name))
            }
        }
    }

    /// Begins a round.
    #[pyo3(signature = (code, stream, buffers, step=None))]
    fn submit(
        &self,
        py: Python<'_>,
        code: Py<Code>,
        stream: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        step: Option<u64>,
    ) -> PyResult<Pending> {
        self.must_be_held(py)?;
        let call = self.shared.call(code.get(), stream, buffers, true, step)?;
        let pending = py.detach(|| {
            self.lock()
                .as_mut()
                .ok_or(qjam::Error::NoMaster)
                .and_then(|held| held.submit(python::step, &call))
        });
        let pending = pending.map_err(|e| raise(py, e.into(), &code.get().name))?;
        Ok(Pending::new(self.shared.clone(), code, pending))
    }

    /// Brings all states home, in the order of the chunks.
    fn collect<'py>(&self, py: Python<'py>, tick: Py<PyAny>) -> PyResult<Vec<StateParts<'py>>> {
        let states = self.apart(py, &tick, "collect", |held| held.collect())?;
        states
            .into_iter()
            .map(|state| state.into_pickle().map(|pickled| to_pickle(py, pickled)).transpose())
            .collect()
    }

    /// Makes a checkpoint now.
    fn checkpoint(&self, py: Python<'_>, tick: Py<PyAny>) -> PyResult<()> {
        self.apart(py, &tick, "checkpoint", qjam::Held::checkpoint)
    }

    /// How many states there are.
    fn __len__(&self) -> usize {
        self.partitions
    }

    /// Has the workers drop the states.
    fn release(&self, py: Python<'_>) {
        if !self.shared.is_elsewhere() {
            py.detach(|| {
                let held = self.lock().take();
                drop(held);
            });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = std::mem::take(&mut self.held);
        if self.shared.is_elsewhere() {
            std::mem::forget(held);
        } else {
            detached(|| drop(held));
        }
    }
}
