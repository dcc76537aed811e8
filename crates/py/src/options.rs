//! What a master is told besides its workers, and what interpreters are told that this process starts.

use crate::errors::raise;
use crate::memory::copied;
use crate::news;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use qjam::Builder;
use qjam::engine::{Caps, WorkerString};
use qjam::python;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The master in the making that the options of `qjam.Master` ask for.
pub(crate) fn builder(options: &Bound<'_, PyDict>) -> PyResult<Builder> {
    let mut builder = qjam::Master::builder();
    for (name, value) in options {
        let name: String = name.extract()?;
        let seconds = || Ok::<_, PyErr>(Duration::from_secs_f64(value.extract()?));
        builder = match name.as_str() {
            "seed" => builder.seed(value.extract()?),
            "memory_limit" => builder.memory_limit(value.extract()?),
            "cache_limit" => builder.cache_limit(value.extract()?),
            "disk_limit" => builder.disk_limit(value.extract()?),
            "min_workers" => builder.min_workers(value.extract()?),
            "blocks_per_slot" => builder.blocks_per_slot(value.extract()?),
            "balance" => builder.balance(value.extract()?),
            "deliver_after" => builder.deliver_after(seconds()?),
            "round_timeout" => builder.round_timeout(seconds()?),
            "run_folder" => builder.run_folder(value.extract::<PathBuf>()?),
            "no_run_file" => builder.no_run_file(),
            "resume" => builder.resume(value.extract::<String>()?),
            "resume_anyway" => builder.resume_anyway(),
            "worker_executable" => {
                let path: PathBuf = value.extract()?;
                builder.worker_executable(path.clone()).local_executable(path)
            }
            "program" => {
                let (interpreter, arguments, build): (PathBuf, Vec<OsString>, PathBuf) = value.extract()?;
                builder.program(interpreter, arguments, build)
            }
            "support" => {
                let version = value.py().version_info();
                builder.python_support(copied(&value)?, (version.major, version.minor))
            }
            "interpreter" => {
                let (interpreter, path): (String, Vec<String>) = value.extract()?;
                builder.python_interpreter(interpreter, path)
            }
            "remote_python" => builder.remote_python(value.extract::<String>()?),
            _ => builder,
        };
    }
    Ok(builder
        .on_log(|line| news::line(&line.worker, &line.text))
        .on_wait(|wait| news::wait(wait.to_string())))
}

/// Whether a worker string has threads of this process, other processes here, and other hosts in it.
#[pyfunction]
pub(crate) fn worker_kinds(py: Python<'_>, workers: &str) -> PyResult<(bool, bool, bool)> {
    let parsed = WorkerString::parse(workers).map_err(|e| raise(py, qjam::Error::from(e).into(), ""))?;
    let has = |is: fn(Caps) -> bool| parsed.seats.iter().any(|seat| is(seat.caps()));
    Ok((
        has(|caps| caps.in_process),
        has(|caps| caps.same_machine && !caps.in_process),
        has(|caps| !caps.same_machine && caps.can_replace),
    ))
}

/// What interpreters that this process starts are told.
#[pyfunction]
pub(crate) fn set_up(executable: PathBuf, path: Vec<String>, support: &Bound<'_, PyBytes>) {
    let support = Bytes::copy_from_slice(support.as_bytes());
    python::set_up(python::Setup { executable, path, support });
}
