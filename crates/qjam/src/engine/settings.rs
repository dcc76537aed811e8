//! What every engine needs to know to start workers and to keep them within bounds.
//!
//! Filled in by the master's builder; engines only read it.

use crate::{memory, python};
use bytes::Bytes;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Most bytes that are told of Python: a frame has room for twice as many.
pub(crate) const SETUP_BYTES_MAX: usize = 2 << 20;

/// Settings that are the same for all workers of a master.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSettings {
    /// Most bytes of private memory of one worker process.
    pub(crate) memory_bytes_max: Option<u64>,
    /// Most bytes of opened chunks that one worker keeps.
    pub(crate) cache_bytes_max: Option<u64>,
    /// Most bytes of the cache on a host's disk.
    pub(crate) disk_bytes_max: Option<u64>,
    /// The executable that is copied to hosts instead of this one.
    pub(crate) ship: Option<PathBuf>,
    /// The executable that child processes are started from instead of this one.
    pub(crate) local_executable: Option<PathBuf>,
    pub(crate) python: PythonOptions,
    /// Makes attempts to reach hosts end early.
    pub(crate) stop: Arc<AtomicBool>,
    /// Engines with a library that adds up results may use it.
    pub(crate) any_order: bool,
    /// How long a worker may hold finished work while it has more to do.
    pub(crate) deliver_after: Duration,
    pub(crate) lines_per_second_max: u32,
    /// How this program is started again: the program, and its arguments without known secrets.
    pub(crate) command: Vec<OsString>,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        WorkerSettings {
            memory_bytes_max: None,
            cache_bytes_max: None,
            disk_bytes_max: None,
            ship: None,
            local_executable: None,
            python: PythonOptions::default(),
            stop: Arc::default(),
            any_order: false,
            deliver_after: Duration::from_secs(2),
            lines_per_second_max: 1000,
            command: Vec::new(),
        }
    }
}

impl WorkerSettings {
    /// Most bytes of opened chunks that one of so many workers of a machine keeps.
    pub(crate) fn cache_bytes(&self, own_limit: Option<u64>, machine_bytes: u64, workers: usize) -> u64 {
        self.cache_bytes_max.unwrap_or_else(|| memory::cache_bytes(own_limit, machine_bytes, workers))
    }

    /// [`deliver_after`](WorkerSettings::deliver_after) in microseconds.
    pub(crate) fn deliver_after_us(&self) -> u64 {
        self.deliver_after.as_micros() as u64
    }
}

/// What workers are told of Python.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonOptions {
    /// The bundle of modules, and the version of Python that made it. Without it workers are told nothing.
    pub(crate) support: Option<(Bytes, (u8, u8))>,
    pub(crate) interpreter: Option<String>,
    pub(crate) path: Vec<String>,
    pub(crate) wanted: Option<String>,
}

impl PythonOptions {
    /// Refuses what would be too long for a welcome.
    pub(crate) fn must_fit(&self) -> io::Result<()> {
        let bytes = self.support.as_ref().map_or(0, |(support, _)| support.len())
            + self.path.iter().map(String::len).sum::<usize>();
        if bytes > SETUP_BYTES_MAX {
            let why = format!(
                "{bytes} bytes of modules for Python on workers; at most {SETUP_BYTES_MAX} can be sent"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(())
    }

    /// For a worker of this machine, whose workers have so many slots together; `None` for one of another machine.
    pub(crate) fn setup(&self, slots_here: Option<u32>) -> Option<Vec<u8>> {
        let is_here = slots_here.is_some();
        let (support, version) = self.support.as_ref()?;
        let setup = python::WorkerSetup {
            version: *version,
            interpreter: self.interpreter.clone().filter(|_| is_here),
            path: if is_here { self.path.clone() } else { Vec::new() },
            wanted: self.wanted.clone().filter(|_| !is_here),
            slots_here: slots_here.unwrap_or(0),
            numerics: if is_here { Vec::new() } else { python::numerics::of_environment() },
            support: support.to_vec(),
        };
        Some(setup.to_bytes())
    }
}
