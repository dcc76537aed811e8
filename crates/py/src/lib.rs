//! The native part of the Python package: masters, data sets and errors, as thin as they can be.
//!
//! Everything with a decision in it lives in the `qjam` crate (how rounds are run) or in the Python package (what users
//! write and see). Here values change hands. Two rules keep it safe: whoever touches a master has let go of the
//! interpreter first, because the master's loop may want the interpreter to combine results; and memory of Python objects
//! is only read while its owner is kept alive.

mod buffer;
mod cluster;
mod data;
mod errors;
mod held;
mod interpreter;
mod learn;
mod master;
mod memory;
mod news;
mod options;
mod pending;
mod reading;
mod shared;
mod told;
mod values;
mod wait;

use pyo3::prelude::*;
// Workers `store:URL`.
use qjam_store as _;

/// The module `qjam._native`.
#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    cluster::register(m)?;
    data::register(m)?;
    learn::register(m)?;
    reading::register(m)?;
    master::register(m)
}
