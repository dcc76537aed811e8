//! What all objects of a master share: the master itself, whether it is closed, and what it says of its rounds.

use crate::errors::{Failed, closed, forked};
use crate::interpreter::{attach, call_python};
use crate::values::from_pickle;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use qjam::journal::RoundReport;
use qjam::python::{self, Call};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long closing waits for threads that are inside a call.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);

/// A function with all that it needs, as it travels.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Code {
    pub(crate) code: python::Code,
    pub(crate) name: String,
}

#[pymethods]
impl Code {
    #[new]
    fn new(blob: &Bound<'_, PyBytes>, name: String) -> Self {
        Code { code: python::Code::new(Bytes::copy_from_slice(blob.as_bytes())).named(&name), name }
    }

    /// Its name among all code.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.code.id().0)
    }
}

/// What all that belongs to a master shares.
pub(crate) struct Shared {
    pub(crate) master: RwLock<Option<Arc<qjam::Master>>>,
    pub(crate) is_closed: AtomicBool,
    pub(crate) pid: u32,
    pub(crate) in_process: bool,
    pub(crate) version: (u8, u8),
    pub(crate) remote_python: Option<String>,
    pub(crate) library_threads: u16,
    pub(crate) last_round: Mutex<Option<RoundReport>>,
    /// Workers lost in all rounds so far.
    pub(crate) lost: AtomicU64,
}

impl Shared {
    /// The master, if it can be used here and now.
    pub(crate) fn master(&self, py: Python<'_>) -> PyResult<Arc<qjam::Master>> {
        self.must_be_here(py)?;
        let master = self.master.read().unwrap_or_else(PoisonError::into_inner);
        master.clone().filter(|_| !self.is_closed.load(Relaxed)).ok_or_else(|| closed(py))
    }

    pub(crate) fn must_be_here(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_elsewhere() { Err(forked(py, self.pid)) } else { Ok(()) }
    }

    /// Whether this process was forked from the one that the master is in.
    pub(crate) fn is_elsewhere(&self) -> bool {
        std::process::id() != self.pid
    }

    pub(crate) fn keep_report(&self, report: Option<RoundReport>) {
        if let Some(known) = &report {
            self.lost.fetch_add(known.lost, Relaxed);
            *self.last_round.lock().unwrap_or_else(PoisonError::into_inner) = report;
        }
    }

    /// What a round is given. With `copies` the parameters may go their own ways once this returns.
    pub(crate) fn call(
        &self,
        code: &Code,
        stream: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        copies: bool,
        step: Option<u64>,
    ) -> PyResult<Call> {
        let mut call = Call::new(code.code.clone(), from_pickle(stream, buffers, copies)?, self.version);
        call.in_process = self.in_process;
        call.remote_python.clone_from(&self.remote_python);
        call.library_threads = self.library_threads;
        call.step = step;
        Ok(call)
    }

    /// One look up from a wait.
    pub(crate) fn look_up(&self, tick: &Py<PyAny>) -> Result<(), Failed> {
        attach(|py| {
            py.check_signals()?;
            call_python(tick.bind(py), PyTuple::empty(py))?;
            if self.is_closed.load(Relaxed) { Err(Failed::Closed) } else { Ok(()) }
        })
    }
}

impl Shared {
    /// Ends the workers, or leaves that to the last thread that is inside a call. Without the interpreter.
    pub(crate) fn end(&self, why: Option<&str>) {
        let Some(mut master) = self.master.write().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        if let Some(why) = why {
            master.record_failure(why);
        }
        let begun = Instant::now();
        while begun.elapsed() < CLOSES_WITHIN {
            match Arc::try_unwrap(master) {
                Ok(master) => return drop(master),
                Err(shared) => master = shared,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let master = self.master.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.is_elsewhere() {
            // Its threads are not in this process, and whoever waited for them would wait for ever.
            std::mem::forget(master);
        } else {
            detached(|| drop(master));
        }
    }
}

/// Does something without the interpreter, whether this thread has it or not.
pub(crate) fn detached(f: impl FnOnce() + Send) {
    Python::try_attach(|py| py.detach(f));
}
