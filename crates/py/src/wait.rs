//! Waiting with an eye on Python: for signals, for what is to be told, for somebody who closes the master.

use crate::errors::Failed;
use crate::interpreter::{attach, call_python};
use crate::shared::Shared;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How often a wait looks up.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// A wait with its end, and why it was given up.
pub(crate) struct Patience(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    tick: Py<PyAny>,
    limit_s: Option<f64>,
    end: Option<Instant>,
    state: Mutex<State>,
}

struct State {
    looked: Instant,
    failed: Option<Failed>,
}

impl Patience {
    pub(crate) fn new(shared: &Arc<Shared>, tick: &Bound<'_, PyAny>, limit_s: Option<f64>) -> Self {
        let now = Instant::now();
        let limit = limit_s.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Patience(Arc::new(Inner {
            shared: shared.clone(),
            tick: tick.clone().unbind(),
            limit_s,
            end: limit.and_then(|limit| now.checked_add(limit)),
            state: Mutex::new(State { looked: now, failed: None }),
        }))
    }

    /// How long to wait before the next look.
    pub(crate) fn pause(&self) -> Duration {
        self.0.end.map_or(PAUSE, |end| end.saturating_duration_since(Instant::now()).min(PAUSE))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Looks up. Without the interpreter.
    pub(crate) fn look_up(&self) -> Result<(), Failed> {
        self.0.shared.look_up(&self.0.tick)
    }

    /// Whether to go on with a round.
    pub(crate) fn goes_on(&self, waiting_for: impl FnOnce() -> String) -> bool {
        let failed = match self.look_up() {
            Err(failed) => Some(failed),
            Ok(()) if self.is_over() => {
                let limit_s = self.0.limit_s.unwrap_or(0.0);
                Some(Failed::TimedOut { limit_s, waiting_for: waiting_for() })
            }
            Ok(()) => None,
        };
        let mut state = self.lock();
        state.looked = Instant::now();
        let goes_on = failed.is_none();
        if state.failed.is_none() {
            state.failed = failed;
        }
        goes_on
    }

    /// Whether a round that this thread runs itself has been called off; asked more often than there is to look up.
    pub(crate) fn called_off(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        let patience = Patience(self.0.clone());
        Arc::new(move || {
            let state = patience.lock();
            let (is_off, is_fresh) = (state.failed.is_some(), state.looked.elapsed() < PAUSE);
            drop(state);
            is_off || (!is_fresh && !patience.goes_on(|| "the function, on this thread".into()))
        })
    }

    /// Why it was given up, if it was.
    pub(crate) fn failed(&self) -> Option<Failed> {
        self.lock().failed.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            attach(|py| {
                py.check_signals()?;
                call_python(tick.bind(py), PyTuple::empty(py)).map(drop)
            })?;
        }
    })
}
