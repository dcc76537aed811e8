//! Results between what Rust adds up and what `qjam._worker.values` makes of objects.

use crate::memory::{copied, given, given_numbers, lend};
use bytemuck::Pod;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use qjam::python::{Body, Leaf, Pickled};

/// `("N", shape, leaves)` or `("P", stream, buffers)`. Memory goes over without a copy, and may be written to.
pub(crate) fn to_parts(py: Python<'_>, body: Body) -> PyResult<Bound<'_, PyAny>> {
    match body {
        Body::Pickled(pickled) => {
            let (stream, buffers) = to_pickle(py, pickled)?;
            Ok((intern!(py, "P"), stream, buffers).into_pyobject(py)?.into_any())
        }
        Body::Numbers { shape, leaves } => {
            let list = PyList::empty(py);
            for leaf in leaves {
                let leaf = match leaf {
                    Leaf::F64(numbers) => (intern!(py, "d"), given_numbers(py, numbers)?),
                    Leaf::F32(numbers) => (intern!(py, "f"), given_numbers(py, numbers)?),
                    Leaf::I64(numbers) => (intern!(py, "q"), given_numbers(py, numbers)?),
                    Leaf::Int(number) => (intern!(py, "i"), number.into_pyobject(py)?.into_any()),
                };
                list.append(leaf)?;
            }
            Ok((intern!(py, "N"), PyBytes::new(py, &shape), list).into_pyobject(py)?.into_any())
        }
    }
}

/// Stream and buffers of a pickle.
pub(crate) fn to_pickle<'py>(
    py: Python<'py>,
    pickled: Pickled,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
    let list = PyList::empty(py);
    for buffer in pickled.buffers {
        list.append(given(py, buffer)?)?;
    }
    Ok((PyBytes::new(py, &pickled.stream).into_any(), list))
}

/// What `qjam._worker.values.dump` gave.
pub(crate) fn from_parts(parts: &Bound<'_, PyAny>) -> PyResult<Body> {
    let (tag, first, second): (String, Bound<'_, PyAny>, Bound<'_, PyAny>) = parts.extract()?;
    match tag.as_str() {
        "P" => Ok(Body::Pickled(from_pickle(&first, &second, true)?)),
        "N" => {
            let leaves = second.try_iter()?.map(|leaf| from_leaf(&leaf?)).collect::<PyResult<_>>()?;
            Ok(Body::Numbers { shape: copied(&first)?, leaves })
        }
        _ => Err(PyValueError::new_err("neither numbers nor a pickle")),
    }
}

/// A pickle of Python's; with `copies` in memory of its own.
pub(crate) fn from_pickle(
    stream: &Bound<'_, PyAny>,
    buffers: &Bound<'_, PyAny>,
    copies: bool,
) -> PyResult<Pickled> {
    let take = if copies { copied } else { lend };
    let buffers = buffers.try_iter()?.map(|buffer| take(&buffer?)).collect::<PyResult<_>>()?;
    Ok(Pickled { stream: take(stream)?, buffers })
}

fn from_leaf(leaf: &Bound<'_, PyAny>) -> PyResult<Leaf> {
    let leaf = leaf.cast::<PyTuple>()?;
    let (tag, value) = (leaf.get_item(0)?.extract::<String>()?, leaf.get_item(1)?);
    Ok(match tag.as_str() {
        "d" => Leaf::F64(numbers(&value)?),
        "f" => Leaf::F32(numbers(&value)?),
        "q" => Leaf::I64(numbers(&value)?),
        "i" => Leaf::Int(value.extract()?),
        _ => return Err(PyValueError::new_err("numbers of an unknown type")),
    })
}

fn numbers<T: Pod>(value: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let bytes = copied(value)?;
    if !bytes.len().is_multiple_of(size_of::<T>()) {
        return Err(PyValueError::new_err("half a number"));
    }
    Ok(bytemuck::pod_collect_to_vec(&bytes))
}
