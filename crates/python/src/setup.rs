//! What the master's process says of its own interpreter, and where what children print goes.

use super::level::split_level;
use super::welcomed::welcomed;
use bytes::Bytes;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// How child interpreters of this process are started.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The interpreter.
    pub executable: PathBuf,
    /// Where it looks for modules.
    pub path: Vec<String>,
    /// Modules that it is given, packed; only Python reads it.
    pub support: Bytes,
}

/// Takes the name of a worker and a line, from which [`split_level`] takes the level.
pub type Log = Arc<dyn Fn(&str, &str) + Send + Sync>;

static SETUP: RwLock<Option<Arc<Setup>>> = RwLock::new(None);
static LOG: RwLock<Option<Log>> = RwLock::new(None);

/// Says how child interpreters of this process are started. The last one counts, for those that are started after it.
pub fn set_up(setup: Setup) {
    *SETUP.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(setup));
}

/// Has every line that child interpreters of this process print handed to a function. Without one they go to standard
/// output.
pub fn set_log(log: Log) {
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

pub(super) fn current() -> Option<Arc<Setup>> {
    SETUP.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Passes a line on.
pub(super) fn print(worker: &str, line: &str) {
    let log = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
    match log {
        Some(log) => log(worker, line),
        // Whoever started this process reads it from there, with its level if that is a master or a supervisor.
        None => {
            let line = if welcomed().is_some() { line } else { split_level(line).1 };
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    }
}
