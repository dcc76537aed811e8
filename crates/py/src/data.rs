//! Data sets of Python's: arrays, slices of objects, files.
//!
//! The package decides what a data set is made of and when; here bytes get their names. Arrays stay in Python's memory
//! (`buffer`), so a [`Data`] of an array can be asked whether that memory is still what was named.

use crate::buffer::{self, Borrowed};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use qjam::python::{Array, Layout, Raw, Slices, Traffic, checksum};
use qjam::{DataError, DataSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<buffer::Memory>()?;
    m.add_class::<Data>()?;
    m.add_class::<SliceWriter>()?;
    m.add_function(wrap_pyfunction!(checksum_of, m)?)?;
    m.add_function(wrap_pyfunction!(buffer::share, m)?)?;
    m.add_function(wrap_pyfunction!(traffic, m)?)?;
    m.add_function(wrap_pyfunction!(standard_rows, m)?)
}

/// A data set that is cut and named. Made by the classes of `qjam.dataset`.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Data {
    inner: Mutex<Inner>,
    /// After the data, which it is to give back to Python.
    _release: Release,
}

/// Gives back what was borrowed when it ends, which is with the interpreter attached.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        Python::try_attach(buffer::release_waiting);
    }
}

struct Inner {
    kind: Kind,
    /// The same with its bytes in shared memory, once that was asked for.
    shared: Option<DataSet<Raw>>,
}

enum Kind {
    /// In memory of Python's.
    Array(Box<Array>),
    /// In a file, and the same where the user has mapped it.
    Mapped(DataSet<Raw>, DataSet<Raw>),
    /// Anything else; nobody can write to it.
    Set(DataSet<Raw>),
}

impl Inner {
    fn set(&self) -> &DataSet<Raw> {
        match &self.kind {
            Kind::Array(array) => array.set(),
            Kind::Mapped(set, _) | Kind::Set(set) => set,
        }
    }
}

impl From<Kind> for Data {
    fn from(kind: Kind) -> Data {
        Data { inner: Mutex::new(Inner { kind, shared: None }), _release: Release }
    }
}

impl From<DataSet<Raw>> for Data {
    fn from(set: DataSet<Raw>) -> Data {
        Kind::Set(set).into()
    }
}

/// Who reads the data of a round. The numbers are those of `_master.py`.
#[derive(Clone, Copy)]
pub(crate) enum Readers {
    /// Whoever gets it from this process.
    Anybody,
    /// Interpreters that this process has started, and nobody else: they map what lies in shared memory or in a mapped file.
    Interpreters,
    /// Other processes of this host, which can map all of it, or read files.
    Processes,
}

impl FromPyObject<'_, '_> for Readers {
    type Error = PyErr;

    fn extract(number: pyo3::Borrowed<'_, '_, PyAny>) -> PyResult<Readers> {
        match number.extract()? {
            0_u8 => Ok(Readers::Anybody),
            1 => Ok(Readers::Interpreters),
            2 => Ok(Readers::Processes),
            other => Err(PyValueError::new_err(format!("there are no readers {other}"))),
        }
    }
}

impl Data {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data set for a round, or with `lasting` for all rounds to come of a hold.
    pub(crate) fn set(&self, readers: Readers, lasting: bool) -> PyResult<DataSet<Raw>> {
        let mut inner = self.lock();
        match (readers, &mut inner.kind) {
            (Readers::Interpreters, Kind::Array(array)) => return Ok(array.for_interpreters(lasting)),
            (Readers::Interpreters, Kind::Mapped(_, set)) => return Ok(set.clone()),
            (Readers::Anybody | Readers::Interpreters, _) => return Ok(inner.set().clone()),
            (Readers::Processes, _) => {}
        }
        if let Some(set) = &inner.shared {
            return Ok(set.clone());
        }
        let set = match &inner.kind {
            Kind::Array(array) => array.shared().map_err(raise)?,
            Kind::Mapped(set, _) | Kind::Set(set) => set.shared().map_err(raise)?,
        };
        inner.shared = Some(set.clone());
        Ok(set)
    }
}

#[pymethods]
impl Data {
    /// An array: an object with a contiguous buffer, and what its bytes are.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "called in one place, by names")]
    fn array(
        py: Python<'_>,
        memory: &Bound<'_, PyAny>,
        kind: String,
        dtype: String,
        shape: Vec<u64>,
        item_bytes: u64,
        slice_size: Option<u64>,
        may_change: bool,
    ) -> PyResult<Data> {
        buffer::release_waiting(py);
        let memory = Borrowed::of(memory)?.into_bytes();
        let layout = Layout { kind, dtype, shape, item_bytes };
        let array = py.detach(|| Array::new(memory, layout, slice_size, may_change)).map_err(raise)?;
        Ok(Kind::Array(Box::new(array)).into())
    }

    /// An array in a file, from `offset` on, which the user has mapped to `memory`.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "called in one place, by names")]
    fn array_file(
        py: Python<'_>,
        path: PathBuf,
        offset: u64,
        kind: String,
        dtype: String,
        shape: Vec<u64>,
        item_bytes: u64,
        slice_size: Option<u64>,
        memory: &Bound<'_, PyAny>,
    ) -> PyResult<Data> {
        buffer::release_waiting(py);
        let memory = Borrowed::of(memory)?.into_bytes();
        let layout = Layout { kind, dtype, shape, item_bytes };
        let sets = py.detach(|| {
            // Named by reading: a file that becomes shorter is an error then, and no signal.
            let set = DataSet::array_file(path, offset, layout, slice_size)?;
            let mapped = set.mapped(memory, offset)?;
            Ok((set, mapped))
        });
        let (set, mapped) = sets.map_err(raise)?;
        Ok(Kind::Mapped(set, mapped).into())
    }

    /// A text file of numbers with equally long lines.
    #[staticmethod]
    fn number_lines(py: Python<'_>, path: PathBuf, cols: u64, slice_size: Option<u64>) -> PyResult<Data> {
        let set = py.detach(|| DataSet::number_lines(path, cols, slice_size)).map_err(raise)?;
        Ok(Kind::Set(set).into())
    }

    /// The lines of a text file.
    #[staticmethod]
    fn lines(py: Python<'_>, path: PathBuf, slice_size: Option<u64>) -> PyResult<Data> {
        let set = py.detach(|| {
            let lines = DataSet::lines(path)?;
            match slice_size {
                Some(n) => lines.chunk_records(n as usize),
                None => Ok(lines),
            }
        });
        Ok(Kind::Set(set.map_err(raise)?.untyped()).into())
    }

    /// So many calls without data.
    #[staticmethod]
    fn nothing(tasks: usize) -> PyResult<Data> {
        Ok(Kind::Set(DataSet::nothing(tasks).map_err(raise)?.untyped()).into())
    }

    /// The same array in another cut; `None` for anything but arrays in memory.
    fn recut(&self, py: Python<'_>, slice_size: Option<u64>) -> PyResult<Option<Data>> {
        py.detach(|| match &self.lock().kind {
            Kind::Array(array) => {
                let array = array.recut(slice_size).map_err(raise)?;
                Ok(Some(Kind::Array(Box::new(array)).into()))
            }
            Kind::Mapped(..) | Kind::Set(_) => Ok(None),
        })
    }

    /// The same rows in another cut, so many in each slice. What is cut that way already stays as it is.
    fn cut(&self, py: Python<'_>, slice_size: usize) -> PyResult<Data> {
        let set = self.lock().set().clone();
        let cut = py.detach(|| {
            // Its first slice tells, since all but the last have as many records.
            let (records, first) = (set.records(), set.chunk(0)?.header);
            let is_even = first.kind == "dense" && first.shape.first() == Some(&(slice_size as u64));
            if is_even && set.len() as u64 == records.div_ceil(slice_size as u64) {
                return Ok(set.clone());
            }
            set.chunk_records(slice_size)
        });
        Ok(Kind::Set(cut.map_err(raise)?).into())
    }

    /// Looks whether the array's memory is still what was named, and names again what is not. Says whether that was so.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| {
            let mut inner = self.lock();
            let changed = match &mut inner.kind {
                Kind::Array(array) => array.refresh().map_err(raise)?,
                Kind::Mapped(..) | Kind::Set(_) => false,
            };
            if changed {
                inner.shared = None;
            }
            Ok(changed)
        })
    }

    /// Whether the array's memory is no longer what was named.
    fn changed(&self, py: Python<'_>) -> bool {
        py.detach(|| match &self.lock().kind {
            Kind::Array(array) => array.changed(),
            Kind::Mapped(..) | Kind::Set(_) => false,
        })
    }

    /// Whether a chunk is exactly this pickle with these buffers.
    fn is_slice(
        &self,
        py: Python<'_>,
        index: usize,
        stream: &Bound<'_, PyAny>,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (stream, buffers) = borrow_all(stream, &buffers)?;
        let same = detached(py, &stream, &buffers, |stream, buffers| {
            self.lock().set().is_slice(index, stream, buffers)
        });
        drop((stream, buffers));
        buffer::release_waiting(py);
        Ok(same)
    }

    /// The content hash of a chunk.
    fn hash(&self, index: usize) -> PyResult<String> {
        let inner = self.lock();
        let id = inner.set().chunk_id(index).ok_or_else(|| {
            PyIndexError::new_err(format!("there is no slice {index}: there are {}", inner.set().len()))
        })?;
        Ok(id.0.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A chunk as workers get it: kind, element type, shape, and its bytes where they lie.
    fn chunk<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<(String, String, Vec<u64>, Bound<'py, PyAny>)> {
        let set = self.lock().set().clone();
        let Raw { header, bytes } = py.detach(|| set.chunk(index)).map_err(raise)?;
        Ok((header.kind, header.dtype, header.shape, buffer::view(py, bytes)?))
    }

    fn __len__(&self) -> usize {
        self.lock().set().len()
    }

    /// Number of rows, lines or items.
    #[getter]
    fn records(&self) -> u64 {
        self.lock().set().records()
    }

    /// Bytes of all chunks together.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.lock().set().bytes()
    }

    /// The name of this cut of this content.
    #[getter]
    fn id(&self) -> String {
        self.lock().set().id().0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Takes slices of objects in, one after the other.
#[pyclass(frozen, module = "qjam._native")]
struct SliceWriter(Mutex<Option<Slices>>);

#[pymethods]
impl SliceWriter {
    #[new]
    fn new() -> PyResult<SliceWriter> {
        Ok(SliceWriter(Mutex::new(Some(Slices::new().map_err(raise)?))))
    }

    /// The next slice: how many records, its pickle, and the buffers of the arrays in it.
    fn push(
        &self,
        py: Python<'_>,
        records: u64,
        stream: &Bound<'_, PyAny>,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (stream, buffers) = borrow_all(stream, &buffers)?;
        let pushed = detached(py, &stream, &buffers, |stream, buffers| {
            let mut slices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slices.as_mut().map(|slices| slices.push(records, stream, buffers))
        });
        drop((stream, buffers));
        buffer::release_waiting(py);
        pushed.ok_or_else(finished)?.map_err(raise)
    }

    /// The data set of all of them.
    fn finish(&self, py: Python<'_>) -> PyResult<Data> {
        let slices = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let set = py.detach(|| slices.map(Slices::finish)).ok_or_else(finished)?.map_err(raise)?;
        Ok(Kind::Set(set).into())
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the slices were finished already")
}

/// Does something with a slice, and lets others have the interpreter meanwhile if it is long.
fn detached<R: Send>(
    py: Python<'_>,
    stream: &Borrowed,
    buffers: &[Borrowed],
    f: impl FnOnce(&[u8], &[&[u8]]) -> R + Send,
) -> R {
    let buffers: Vec<&[u8]> = buffers.iter().map(AsRef::as_ref).collect();
    let stream = stream.as_ref();
    let bytes = stream.len() + buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
    if bytes < 1 << 16 { f(stream, &buffers) } else { py.detach(|| f(stream, &buffers)) }
}

fn borrow_all(
    stream: &Bound<'_, PyAny>,
    buffers: &[Bound<'_, PyAny>],
) -> PyResult<(Borrowed, Vec<Borrowed>)> {
    Ok((Borrowed::of(stream)?, buffers.iter().map(Borrowed::of).collect::<PyResult<_>>()?))
}

/// A fast checksum of an object's memory, to see whether it was written to.
#[pyfunction(name = "checksum")]
fn checksum_of<'py>(py: Python<'py>, memory: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let memory = Borrowed::of(memory)?;
    let sum = py.detach(|| checksum(memory.as_ref()));
    drop(memory);
    buffer::release_waiting(py);
    Ok(PyBytes::new(py, &sum.to_le_bytes()))
}

/// Bytes of chunks that this process has hashed, summed and copied so far.
#[pyfunction]
fn traffic() -> (u64, u64, u64) {
    let Traffic { named, summed, copied } = qjam::python::traffic();
    (named, summed, copied)
}

/// Rows in a slice when nobody says how many.
#[pyfunction]
fn standard_rows(nbytes: u64, row_bytes: u64) -> u64 {
    qjam::python::standard_rows(nbytes, row_bytes)
}

/// The exception that Python would raise for it.
pub(crate) fn raise(error: DataError) -> PyErr {
    // It may quote the file.
    let text = qjam::printable(&error.to_string()).into_owned();
    match error {
        DataError::Io { source, .. } | DataError::Memory { source, .. } => match source.raw_os_error() {
            // With the number, Python makes FileNotFoundError and its like of it.
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        },
        DataError::NotAFile { .. } => PyOSError::new_err(text),
        DataError::NoSuchChunk { .. } => PyIndexError::new_err(text),
        DataError::Chunk { .. } | DataError::Record { .. } => PyTypeError::new_err(text),
        DataError::Changed { .. } | DataError::ChangedMeanwhile { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
