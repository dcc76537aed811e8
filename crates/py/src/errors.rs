//! Errors of the system as Python's exceptions.
//!
//! Which class it becomes is decided by `qjam.errors`; here an error is taken apart into a kind, its text and facts.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use qjam::Error;
use qjam::job::FaultKind;
use qjam::python::Raised;

/// What can end a wait.
pub(crate) enum Failed {
    /// The round, or the master.
    Round(Error),
    /// Python has something else to do: a signal, a callback that raised.
    Python(PyErr),
    /// It took longer than this call was allowed; who was waited for.
    TimedOut { limit_s: f64, waiting_for: String },
    /// Somebody closed the master.
    Closed,
    /// The states were released.
    Released,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Round(error)
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Self {
        Failed::Python(error)
    }
}

/// The exception; `function` is what the user calls what was run.
pub(crate) fn raise(py: Python<'_>, failed: Failed, function: &str) -> PyErr {
    match failed {
        Failed::Python(error) => error,
        Failed::Round(error) => from_error(py, error, function).unwrap_or_else(|e| e),
        Failed::TimedOut { limit_s, waiting_for } => {
            let text = format!(
                "the round took longer than {limit_s} s and was cancelled; it waited for {waiting_for}"
            );
            made(py, "timed out", &text, &PyDict::new(py)).unwrap_or_else(|e| e)
        }
        Failed::Closed => closed(py),
        Failed::Released => {
            let text = "these states have been released, by release() or the end of their with block; hold the data set \
                        again with Master.hold(...)";
            made(py, "released", text, &PyDict::new(py)).unwrap_or_else(|e| e)
        }
    }
}

/// What a master says that is no more.
pub(crate) fn closed(py: Python<'_>) -> PyErr {
    let text = "this master has been closed; make a new one with Master(...)";
    made(py, "closed", text, &PyDict::new(py)).unwrap_or_else(|e| e)
}

/// What a master says in a process that it was not made in.
pub(crate) fn forked(py: Python<'_>, made_in: u32) -> PyErr {
    let text = format!(
        "this master was made by process {made_in}, and this one was forked from it: threads and connections do not \
         come along; make a master here, or use `spawn` instead of `fork`"
    );
    made(py, "closed", &text, &PyDict::new(py)).unwrap_or_else(|e| e)
}

fn made(py: Python<'_>, kind: &str, text: &str, facts: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "qjam.errors", "_from_native")?;
    Ok(PyErr::from_value(make.call1((kind, text, facts))?))
}

fn from_error(py: Python<'_>, error: Error, function: &str) -> PyResult<PyErr> {
    let facts = PyDict::new(py);
    let mut text = error.to_string();
    let kind = match &error {
        Error::WorkerString(_) => "worker string",
        Error::Data(_) => "data",
        Error::Start { .. } | Error::NotHooked => "start",
        Error::NoWorkers { .. } => "no workers",
        Error::DoesNotFit(_) | Error::StateMemory { .. } => "does not fit",
        Error::PythonMissing(_) => "missing",
        Error::Cancelled => "cancelled",
        Error::TimedOut { .. } => "timed out",
        Error::StateRefused { .. } => "refused",
        Error::HeldBusy => "busy",
        Error::NoMaster => "closed",
        Error::Resume { .. } => "resume",
        Error::Hosts { failures } => {
            let by_host = PyDict::new(py);
            for (host, failure) in failures {
                by_host.set_item(host, failure.to_string())?;
            }
            facts.set_item("failures", by_host)?;
            "hosts"
        }
        Error::Poison { chunks, deaths } => {
            facts.set_item("chunk", chunks.start)?;
            facts.set_item("function", function)?;
            if let Some((worker, death)) = deaths.last() {
                facts.set_item("host", worker)?;
                facts.set_item("last_lines", &death.last_lines)?;
            }
            "poison"
        }
        Error::Fault(remote) => {
            facts.set_item("function", function)?;
            facts.set_item("host", &remote.worker)?;
            facts.set_item("chunk", remote.fault.chunk)?;
            facts.set_item("chunk_hash", remote.chunk_id.map(|id| id.to_string()))?;
            text.clone_from(&remote.fault.message);
            if remote.fault.kind == FaultKind::Raised {
                let raised = Raised::of_fault(&remote.fault);
                facts.set_item("remote_traceback", raised.traceback)?;
                facts.set_item("last_lines", raised.last_lines)?;
                facts.set_item("died", raised.died)?;
                facts.set_item("pickled", PyBytes::new(py, &raised.pickled))?;
            }
            "fault"
        }
        _ => "system",
    };
    made(py, kind, &text, &facts)
}
