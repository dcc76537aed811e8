//! Memory that changes hands for good, or for a call.
//!
//! Beside [`buffer`], which lets each side look at what the other one has: results become Python's own, so arrays over
//! them may be written to.

use crate::buffer::{self, Borrowed};
use bytes::Bytes;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyDict};

/// Up to this length a copy costs less than sharing does.
const COPY_BYTES_MAX: usize = 16 << 10;

/// The bytes of an object with a contiguous buffer, where they are; give them back with [`buffer::release_waiting`]. Who
/// changes them meanwhile changes what is read.
pub(crate) fn lend(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let borrowed = Borrowed::of(object).or_else(|error| {
        // A pickle's buffer of an array in Fortran's order is contiguous only as raw memory.
        match object.getattr_opt(intern!(object.py(), "raw"))? {
            Some(raw) => Borrowed::of(&raw.call0()?),
            None => Err(error),
        }
    })?;
    Ok(borrowed.into_bytes())
}

/// The same in memory of our own.
pub(crate) fn copied(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let lent = lend(object)?;
    let copy = Bytes::copy_from_slice(&lent);
    drop(lent);
    buffer::release_waiting(object.py());
    Ok(copy)
}

/// Memory that was ours and is Python's now.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Given {
    address: usize,
    bytes: usize,
    _owner: Box<dyn Send + Sync>,
}

#[pymethods]
impl Given {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item(intern!(py, "version"), 3)?;
        interface.set_item(intern!(py, "typestr"), intern!(py, "|u1"))?;
        interface.set_item(intern!(py, "shape"), (self.bytes,))?;
        interface.set_item(intern!(py, "data"), (self.address, false))?;
        Ok(interface)
    }
}

/// Bytes as something that arrays over it may change.
pub(crate) fn given(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyAny>> {
    if bytes.len() <= COPY_BYTES_MAX {
        return Ok(PyByteArray::new(py, &bytes).into_any());
    }
    // Copied only if somebody else sees the same memory.
    given_numbers::<u8>(py, bytes.into())
}

/// The memory of numbers, likewise.
pub(crate) fn given_numbers<T>(py: Python<'_>, mut numbers: Vec<T>) -> PyResult<Bound<'_, PyAny>>
where
    T: bytemuck::Pod + Send + Sync,
{
    static AS_ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let bytes = std::mem::size_of_val(numbers.as_slice());
    if bytes <= COPY_BYTES_MAX {
        return Ok(PyByteArray::new(py, bytemuck::cast_slice(&numbers)).into_any());
    }
    let address = numbers.as_mut_ptr() as usize;
    let given = Given { address, bytes, _owner: Box::new(numbers) };
    AS_ARRAY.import(py, "numpy", "asarray")?.call1((given,))
}
