//! Data sets of Python's: arrays, slices of objects, files.

use pyo3::prelude::*;

pub(crate) fn register(_: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
