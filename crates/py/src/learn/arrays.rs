//! Numbers that change hands: arrays of ours that NumPy may write to, and arrays of Python's as slices.

use bytemuck::Pod;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use qjam_algos::learner::Answer;
use std::sync::{Mutex, PoisonError};

/// Memory that was given away: only the array over it reads and writes it, and ends it.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Given {
    memory: ArrayMemory,
    shape: Vec<usize>,
}

enum ArrayMemory {
    F32(Mutex<Vec<f32>>),
    F64(Mutex<Vec<f64>>),
    I32(Mutex<Vec<i32>>),
}

fn start<T>(memory: &Mutex<Vec<T>>) -> usize {
    // Held by nobody: it is locked for the length of this question.
    memory.lock().unwrap_or_else(PoisonError::into_inner).as_mut_ptr() as usize
}

#[pymethods]
impl Given {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (at, kind) = match &self.memory {
            ArrayMemory::F32(memory) => (start(memory), "<f4"),
            ArrayMemory::F64(memory) => (start(memory), "<f8"),
            ArrayMemory::I32(memory) => (start(memory), "<i4"),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", kind)?;
        interface.set_item("data", (at, false))?;
        Ok(interface)
    }
}

/// Numbers that can be given away.
pub(super) trait Number: Pod + Send + Sync {
    /// The element type as NumPy writes it.
    const NUMPY: &'static str;
    /// These, to be given away.
    fn given(values: Vec<Self>, shape: Vec<usize>) -> Given;
}

impl Number for f32 {
    const NUMPY: &'static str = "<f4";
    fn given(values: Vec<f32>, shape: Vec<usize>) -> Given {
        Given { memory: ArrayMemory::F32(Mutex::new(values)), shape }
    }
}

impl Number for f64 {
    const NUMPY: &'static str = "<f8";
    fn given(values: Vec<f64>, shape: Vec<usize>) -> Given {
        Given { memory: ArrayMemory::F64(Mutex::new(values)), shape }
    }
}

/// Numbers as an array that belongs to Python.
pub(super) fn array<'py, T: Number>(
    py: Python<'py>,
    values: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    debug_assert_eq!(values.len(), shape.iter().product::<usize>());
    numpy(py, T::given(values, shape.to_vec()))
}

/// What a model answers, as an array; one number for all rows as a number.
pub(super) fn answer(py: Python<'_>, answer: Answer) -> PyResult<Bound<'_, PyAny>> {
    let rows = |len: usize, columns: usize| [len / columns.max(1), columns];
    match answer {
        Answer::Labels(found) => labels(py, found),
        Answer::Values(values) => {
            let shape = [values.len()];
            array(py, values, &shape)
        }
        Answer::Singles(values, columns) => {
            let shape = rows(values.len(), columns);
            array(py, values, &shape)
        }
        Answer::Doubles(values, columns) => {
            let shape = rows(values.len(), columns);
            array(py, values, &shape)
        }
        Answer::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
    }
}

/// Labels as scikit-learn has them.
fn labels(py: Python<'_>, labels: Vec<u32>) -> PyResult<Bound<'_, PyAny>> {
    let shape = vec![labels.len()];
    let labels = labels.into_iter().map(|label| label as i32).collect();
    numpy(py, Given { memory: ArrayMemory::I32(Mutex::new(labels)), shape })
}

fn numpy(py: Python<'_>, given: Given) -> PyResult<Bound<'_, PyAny>> {
    py.import("numpy")?.call_method1("asarray", (given,))
}

/// Numbers in bytes of Python's, where they lie; a copy where they lie askew.
pub(super) fn numbers<T: Number>(bytes: &[u8]) -> PyResult<std::borrow::Cow<'_, [T]>> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) => Ok(values.into()),
        Err(bytemuck::PodCastError::TargetAlignmentGreaterAndInputNotAligned) => {
            Ok(bytemuck::pod_collect_to_vec(bytes).into())
        }
        Err(e) => Err(PyValueError::new_err(format!("{} bytes are no numbers: {e}", bytes.len()))),
    }
}
