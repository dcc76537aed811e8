//! Memory of Python objects in Rust and the other way round, without copies.
//!
//! What PyO3 has for this begins with Python 3.11's stable interface, and this library runs on 3.9. The two functions and
//! the structure they fill have been the same since Python 3.3 and became part of the stable interface as they were.
//!
//! Memory that was borrowed is given back with the interpreter attached. Data sets end on threads that must not wait for
//! it, such as the master's loop, so what they drop goes into a queue, which [`release_waiting`] empties.

use bytes::Bytes;
use pyo3::exceptions::PyOSError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use qjam::store::Region;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// Python's `Py_buffer`.
#[repr(C)]
struct RawBuffer {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// Asks for contiguous memory without a format: what every contiguous array, bytes object or pickle buffer gives.
const SIMPLE: c_int = 0;

#[expect(unsafe_code, reason = "declared here because the stable interface of 3.9 lacks them")]
unsafe extern "C" {
    fn PyObject_GetBuffer(obj: *mut PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// Memory of a Python object, which is kept alive and in its place.
pub(crate) struct Borrowed(Option<Box<RawBuffer>>);

#[expect(unsafe_code, reason = "raw pointers are not Send by themselves")]
// SAFETY: the memory stays where it is until it is released, and that happens with the interpreter attached.
unsafe impl Send for Borrowed {}

#[expect(unsafe_code, reason = "raw pointers are not Sync by themselves")]
// SAFETY: it is only read.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// The memory of an object with a buffer; a `TypeError` or `BufferError` for all others, and for memory that is not
    /// contiguous.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Borrowed> {
        let mut raw = Box::new(RawBuffer {
            buf: std::ptr::null_mut(),
            obj: std::ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: std::ptr::null_mut(),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            suboffsets: std::ptr::null_mut(),
            internal: std::ptr::null_mut(),
        });
        #[expect(unsafe_code, reason = "a call into the interpreter")]
        // SAFETY: the interpreter is attached, both pointers are valid, and the structure does not move from its box,
        // since an exporter may point into it.
        let status = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, SIMPLE) };
        match status {
            0 => Ok(Borrowed(Some(raw))),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// The same for whoever takes bytes.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Some(raw) if raw.len > 0 => {
                #[expect(unsafe_code, reason = "memory of another language")]
                // SAFETY: the exporter promised so many bytes there until the buffer is released, which is when self
                // ends. Their owner may write to them meanwhile; whoever reads treats them as mere bytes, and names
                // them again before they count (the `qjam` crate, `source/array.rs`).
                unsafe {
                    std::slice::from_raw_parts(raw.buf.cast(), raw.len as usize)
                }
            }
            _ => &[],
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(raw) = self.0.take() {
            waiting().push(Borrowed(Some(raw)));
        }
    }
}

/// What is to be given back.
static WAITING: Mutex<Vec<Borrowed>> = Mutex::new(Vec::new());

fn waiting() -> std::sync::MutexGuard<'static, Vec<Borrowed>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives back what was dropped since the last time.
pub(crate) fn release_waiting(_: Python<'_>) {
    let dropped = std::mem::take(&mut *waiting());
    for mut borrowed in dropped {
        if let Some(mut raw) = borrowed.0.take() {
            #[expect(unsafe_code, reason = "a call into the interpreter")]
            // SAFETY: the interpreter is attached, and the structure is as PyObject_GetBuffer left it.
            unsafe {
                PyBuffer_Release(&raw mut *raw);
            }
        }
    }
}

/// Memory of ours for NumPy, which keeps this object as the owner of what it sees.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Memory(Bytes);

#[pymethods]
impl Memory {
    /// Whether it is shared memory that nobody can write to.
    #[getter]
    fn sealed(&self) -> bool {
        Region::around(&self.0).is_some()
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, [self.0.len()])?)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.0.as_ptr() as usize, true))?;
        Ok(interface)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// A copy of an object's memory that other processes can map and nobody can write to.
#[pyfunction]
pub(crate) fn share(py: Python<'_>, memory: &Bound<'_, PyAny>) -> PyResult<Memory> {
    let memory = Borrowed::of(memory)?;
    let copy = py.detach(|| Region::copy_of(memory.as_ref()));
    let bytes = memory.as_ref().len();
    drop(memory);
    release_waiting(py);
    let region = copy.map_err(|e| PyOSError::new_err(format!("{bytes} bytes of shared memory: {e}")))?;
    Ok(Memory(region.bytes(0..bytes)))
}

/// Below this, a copy costs less than an array.
const COPY_BYTES_MAX: usize = 1 << 10;

/// Bytes of ours as a read-only object with a buffer: `bytes` for few, for more a NumPy array of bytes over the memory
/// where it is.
pub(crate) fn view<'py>(py: Python<'py>, bytes: Bytes) -> PyResult<Bound<'py, PyAny>> {
    if bytes.len() <= COPY_BYTES_MAX {
        return Ok(PyBytes::new(py, &bytes).into_any());
    }
    py.import("numpy")?.call_method1("asarray", (Memory(bytes),))
}
