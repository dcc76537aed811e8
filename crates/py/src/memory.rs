//! Memory that changes hands between Python and Rust without being copied.
//!
//! One library serves all versions of Python from 3.9 on, and what those have in common has no buffer protocol in it.
//! NumPy is there in any case, so its array interface, an address and a length, takes that place in both directions.

use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyDict};

/// Up to this length a copy costs less than sharing does.
const COPY_BYTES_MAX: usize = 16 << 10;

/// The memory of a Python object that stays as long as this does.
struct Lent {
    address: *const u8,
    bytes: usize,
    /// Whoever has the memory, or holds on to who has.
    _owner: Py<PyAny>,
}

#[expect(unsafe_code, reason = "memory of Python objects does not move, whichever thread reads it")]
// SAFETY: the owner keeps the memory where it is; reading it needs no interpreter.
unsafe impl Send for Lent {}
#[expect(unsafe_code, reason = "it is only ever read")]
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    #[expect(unsafe_code, reason = "a slice from an address that Python gave")]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: address and length come from the object that is kept in `_owner`, which does not move its memory.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }
}

/// The bytes of an object (`bytes`, or anything with a contiguous buffer), where they are. Who changes them while they
/// are lent changes what is read.
pub(crate) fn lend(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(lend_bytes(bytes));
    }
    let array = view(object)?;
    let interface = array.getattr(intern!(object.py(), "__array_interface__"))?;
    let (address, _): (usize, bool) = interface.get_item(intern!(object.py(), "data"))?.extract()?;
    let bytes = array.len()?;
    if bytes == 0 {
        return Ok(Bytes::new());
    }
    Ok(Bytes::from_owner(Lent { address: address as *const u8, bytes, _owner: array.unbind() }))
}

/// The same for `bytes`. Short ones are copied.
pub(crate) fn lend_bytes(bytes: &Bound<'_, PyBytes>) -> Bytes {
    let slice = bytes.as_bytes();
    if slice.len() <= COPY_BYTES_MAX {
        return Bytes::copy_from_slice(slice);
    }
    let (address, length) = (slice.as_ptr(), slice.len());
    Bytes::from_owner(Lent { address, bytes: length, _owner: bytes.clone().unbind().into_any() })
}

/// Its buffer as an array of bytes.
fn view<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static FROM_BUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let from_buffer = FROM_BUFFER.import(py, "numpy", "frombuffer")?;
    // A pickle's buffer of an array in Fortran's order is contiguous only as raw memory.
    let object = match object.getattr_opt(intern!(py, "raw"))? {
        Some(raw) => raw.call0()?,
        None => object.clone(),
    };
    from_buffer.call1((object, intern!(py, "u1"))).map_err(|e| {
        let error = PyTypeError::new_err("expected bytes or something with a contiguous buffer");
        error.set_cause(py, Some(e));
        error
    })
}

/// Memory of ours as NumPy finds it.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Memory {
    address: usize,
    bytes: usize,
    is_writable: bool,
    _owner: Box<dyn Send + Sync>,
}

#[pymethods]
impl Memory {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item(intern!(py, "version"), 3)?;
        interface.set_item(intern!(py, "typestr"), intern!(py, "|u1"))?;
        interface.set_item(intern!(py, "shape"), (self.bytes,))?;
        interface.set_item(intern!(py, "data"), (self.address, !self.is_writable))?;
        Ok(interface)
    }
}

/// Bytes as something that NumPy and pickles read without a copy, and cannot change.
pub(crate) fn shown(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyAny>> {
    if bytes.len() <= COPY_BYTES_MAX {
        return Ok(PyBytes::new(py, &bytes).into_any());
    }
    let (address, length) = (bytes.as_ptr() as usize, bytes.len());
    array(py, Memory { address, bytes: length, is_writable: false, _owner: Box::new(bytes) })
}

/// Bytes as something that arrays over it may change: it is Python's from now on.
pub(crate) fn given(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyAny>> {
    if bytes.len() <= COPY_BYTES_MAX {
        return Ok(PyByteArray::new(py, &bytes).into_any());
    }
    // Copied only if somebody else sees the same memory.
    let bytes: Vec<u8> = bytes.into();
    given_numbers(py, bytes)
}

/// The memory of numbers, likewise.
pub(crate) fn given_numbers<T: Number>(py: Python<'_>, mut numbers: Vec<T>) -> PyResult<Bound<'_, PyAny>> {
    let bytes = std::mem::size_of_val(numbers.as_slice());
    if bytes <= COPY_BYTES_MAX {
        return Ok(PyByteArray::new(py, bytemuck::cast_slice(&numbers)).into_any());
    }
    let address = numbers.as_mut_ptr() as usize;
    array(py, Memory { address, bytes, is_writable: true, _owner: Box::new(numbers) })
}

/// What arrays are made of.
pub(crate) trait Number: bytemuck::Pod + Send + Sync {}

impl Number for u8 {}
impl Number for f32 {}
impl Number for f64 {}
impl Number for i64 {}

fn array(py: Python<'_>, memory: Memory) -> PyResult<Bound<'_, PyAny>> {
    static AS_ARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    AS_ARRAY.import(py, "numpy", "asarray")?.call1((memory,))
}
