//! Waiting with an eye on Python: for signals, for what is to be told, for somebody who closes the master.

use crate::errors::Failed;
use crate::master::Shared;
use pyo3::prelude::*;
use qjam::python::Value;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often a wait looks up.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// A wait with its end, and why it was given up.
pub(crate) struct Patience<'a> {
    shared: &'a Shared,
    tick: &'a Py<PyAny>,
    limit_s: Option<f64>,
    end: Option<Instant>,
    pub(crate) failed: Option<Failed>,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(shared: &'a Shared, tick: &'a Py<PyAny>, limit_s: Option<f64>) -> Self {
        let limit = limit_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        Patience { shared, tick, limit_s, end, failed: None }
    }

    /// How long to wait before the next look.
    pub(crate) fn pause(&self) -> Duration {
        self.end.map_or(PAUSE, |end| end.saturating_duration_since(Instant::now()).min(PAUSE))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Whether to go on.
    pub(crate) fn goes_on(&mut self, pending: &qjam::Pending<Value>) -> bool {
        self.failed = match self.shared.look_up(self.tick) {
            Err(failed) => Some(failed),
            Ok(()) if self.is_over() => Some(Failed::TimedOut {
                limit_s: self.limit_s.unwrap_or(0.0),
                waiting_for: pending.waiting_for(),
            }),
            Ok(()) => None,
        };
        self.failed.is_none()
    }
}

/// Has something done by a thread of its own, so that waiting for it can be given up: then it is finished by that thread,
/// for nobody.
pub(crate) fn apart<R: Send + 'static>(
    py: Python<'_>,
    tick: &Py<PyAny>,
    work: impl FnOnce() -> Result<R, qjam::Error> + Send + 'static,
) -> Result<R, Failed> {
    let (done, result) = mpsc::channel();
    let work = move || {
        // Whoever asked may have gone; then what came of it goes, too.
        let _ = done.send(work());
    };
    let started = std::thread::Builder::new().name("qjam-apart".into()).spawn(work);
    started.map_err(|source| qjam::Error::System { step: "starting a thread", source })?;
    py.detach(move || {
        loop {
            match result.recv_timeout(PAUSE) {
                Ok(result) => return Ok(result?),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(qjam::Error::Cancelled.into()),
            }
            Python::attach(|py| {
                py.check_signals()?;
                tick.call0(py)
            })?;
        }
    })
}
