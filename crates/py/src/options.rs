//! What a master is told besides its workers, and what interpreters are told that this process starts.

use crate::errors::raise;
use crate::interpreter::attach;
use crate::memory::copied;
use crate::news;
use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
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
            "state_reader" => {
                let reader = value.unbind();
                builder.state_check(move |state: python::Memory| check_state(&reader, state))
            }
            // Goes into every call.
            "library_threads" => builder,
            unknown => {
                return Err(PyTypeError::new_err(format!(
                    "a master has no option {unknown}; qjam's Python part and its native part are of different versions: \
                     install the package again"
                )));
            }
        };
    }
    Ok(builder
        .on_log(|line| news::line(&line.worker, &line.text, line.level))
        .on_wait(|wait| news::wait(wait.to_string())))
}

/// A text from elsewhere as it may be shown: see [`qjam::printable`].
#[pyfunction]
pub(crate) fn printable(text: &str) -> String {
    qjam::printable(text).into_owned()
}

/// Module, name and uses.
type Name = (String, String, u8);

fn as_tuples(names: Vec<python::named::Named>) -> Vec<Name> {
    names.into_iter().map(|named| (named.module, named.name, named.uses)).collect()
}

/// What a pickle names, with its uses, and nothing of it run: see [`python::named`].
#[pyfunction]
pub(crate) fn names_in(pickle: &[u8]) -> PyResult<Vec<Name>> {
    Ok(as_tuples(python::named::names_in(pickle).map_err(PyValueError::new_err)?))
}

/// What a pickle names, with its uses, and the pickle with guards, or `None` if it needs none: see [`python::named`].
#[pyfunction]
pub(crate) fn guarded<'py>(
    py: Python<'py>,
    pickle: &[u8],
) -> PyResult<(Vec<Name>, Option<Bound<'py, PyBytes>>)> {
    let guarded = python::named::guarded(pickle).map_err(PyValueError::new_err)?;
    Ok((as_tuples(guarded.names), guarded.stream.map(|stream| PyBytes::new(py, &stream))))
}

/// Whether a state from a worker may be passed on to others, by what it names. What it does with that is found out by the worker that
/// reads it, with guards.
fn check_state(reader: &Py<PyAny>, state: python::Memory) -> Result<Option<python::Memory>, String> {
    let Some(pickled) = state.into_pickle() else { return Ok(None) };
    attach(|py| {
        if !reader.getattr(py, intern!(py, "is_strict"))?.extract::<bool>(py)? {
            return Ok(None);
        }
        let names = names_in(&pickled.stream)?;
        if names.is_empty() {
            // Without a name nothing is called.
            return Ok(None);
        }
        reader.call_method1(py, intern!(py, "check"), (names,))?;
        let has_guards = reader.getattr(py, intern!(py, "guards_states"))?.extract::<bool>(py)?;
        Ok(has_guards.then(|| python::Memory::of_foreign_pickle(pickled)))
    })
    .map_err(|e: PyErr| attach(|py| e.value(py).to_string()))
}

/// A worker string without names of clusters, which the user's configuration file has; or why that file is wrong. Workers of this
/// machine alone need no file. The ssh command of the file is used for hosts from now on.
#[pyfunction]
pub(crate) fn named_workers(workers: &str) -> (Option<String>, Option<String>) {
    if !qjam_config::names_others(workers) {
        return (Some(workers.to_owned()), None);
    }
    // A `qjam.toml` of the working folder is for the command alone.
    let places = qjam_config::Places { project: None, ..qjam_config::Places::here() };
    let found = qjam_config::Config::read(&places).and_then(|config| {
        if let Some(ssh) = config.get("ssh") {
            qjam::hosts::use_ssh(&ssh.value);
        }
        Ok(config.workers(workers)?.text)
    });
    match found {
        Ok(text) => (Some(text), None),
        Err(e) => (None, Some(e.to_string())),
    }
}

/// Whether a worker string has threads of this process, other processes here, other hosts, and workers elsewhere that nobody here
/// starts in it.
#[pyfunction]
pub(crate) fn worker_kinds(py: Python<'_>, workers: &str) -> PyResult<(bool, bool, bool, bool)> {
    let parsed = WorkerString::parse(workers).map_err(|e| raise(py, qjam::Error::from(e).into(), ""))?;
    let has = |is: fn(Caps) -> bool| parsed.seats.iter().any(|seat| is(seat.caps()));
    Ok((
        has(|caps| caps.in_process),
        has(|caps| caps.same_machine && !caps.in_process),
        has(|caps| !caps.same_machine && caps.can_replace),
        has(|caps| !caps.same_machine && !caps.can_replace),
    ))
}

/// What interpreters that this process starts are told.
#[pyfunction]
pub(crate) fn set_up(executable: PathBuf, path: Vec<String>, support: &Bound<'_, PyBytes>) {
    let support = Bytes::copy_from_slice(support.as_bytes());
    python::set_up(python::Setup { executable, path, support });
}
