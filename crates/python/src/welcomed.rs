//! What a worker process was told of Python when it was welcomed.
//!
//! It comes with the first message of the master, or of the supervisor, which has it from the master. So it is here
//! before any task can be, and stays as long as the process.

use super::numerics::Variable;
use super::runtime::WorkerSetup;
use bytes::Bytes;
use std::sync::OnceLock;

/// What the master said.
#[derive(Debug)]
pub(crate) struct Welcomed {
    /// The master's version: major and minor.
    pub(crate) version: (u8, u8),
    /// The master's interpreter, if it is on this machine.
    pub(crate) interpreter: Option<String>,
    /// Where that one looks for modules.
    pub(crate) path: Vec<String>,
    /// What `QJAM_REMOTE_PYTHON` says on the master, if this is another machine.
    pub(crate) remote_python: Option<String>,
    /// How many slots that master has on this machine; 0 if it has no others than this process.
    pub(crate) slots_here: u32,
    /// The master's settings of how libraries compute, if this is another machine.
    pub(crate) numerics: Vec<Variable>,
    /// Modules that interpreters need and may not have.
    pub(crate) support: Bytes,
}

static WELCOMED: OnceLock<Welcomed> = OnceLock::new();

/// Keeps what the welcome brought. A process is welcomed once. `false` if the bytes cannot be read.
pub fn welcome(bytes: &[u8]) -> bool {
    let Some(setup) = WorkerSetup::from_bytes(bytes) else { return false };
    let WorkerSetup { version, interpreter, path, wanted, slots_here, numerics, support } = setup;
    let support = support.into();
    let remote_python = wanted;
    let welcomed = Welcomed { version, interpreter, path, remote_python, slots_here, numerics, support };
    let _ = WELCOMED.set(welcomed);
    true
}

/// What this process was told; `None` if its master has no Python functions, or if it is a master itself.
pub(crate) fn welcomed() -> Option<&'static Welcomed> {
    WELCOMED.get()
}
