//! What a model consists of, as Python has it: a dictionary of arrays, and one of words and numbers.

use super::arrays::{array, numbers};
use super::options::value_of;
use crate::buffer::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use qjam_algos::learner::Learner;
use qjam_algos::models::{Parts, Tensor, Values};
use qjam_algos::options::Value;

/// Parts for a model of this learner. The arrays have their numbers row after row.
pub(super) fn parts(
    learner: &dyn Learner,
    tensors: &Bound<'_, PyDict>,
    attributes: Option<&Bound<'_, PyDict>>,
) -> PyResult<Parts> {
    let format = learner.format();
    let tensors = tensors.iter().map(|(name, array)| tensor(&name.extract::<String>()?, &array));
    let tensors = tensors.collect::<PyResult<_>>()?;
    let attributes = attributes.into_iter().flatten().map(|(name, value)| {
        let name: String = name.extract()?;
        let value = value_of(&name, &value)?;
        Ok((name, value))
    });
    let attributes = attributes.collect::<PyResult<_>>()?;
    Ok(Parts { kind: format.kind, version: format.version, tensors, attributes })
}

fn tensor(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let bytes = match shape.iter().product() {
        0 => None,
        _ => Some(Borrowed::of(&array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?)?),
    };
    let bytes = bytes.as_ref().map_or(&[][..], AsRef::as_ref);
    let values = match array.getattr("dtype")?.getattr("str")?.extract::<String>()?.as_str() {
        "<f4" => Values::F32(numbers::<f32>(bytes)?.into_owned()),
        "<f8" => Values::F64(numbers::<f64>(bytes)?.into_owned()),
        other => return Err(PyTypeError::new_err(format!("{name} is an array of {other}; give float64"))),
    };
    Ok(Tensor { name: name.into(), shape, values })
}

/// Adds `tensors` and `attributes` to a dictionary.
pub(super) fn put<'py>(py: Python<'py>, to: &Bound<'py, PyDict>, parts: Parts) -> PyResult<()> {
    let tensors = PyDict::new(py);
    for Tensor { name, shape, values } in parts.tensors {
        match values {
            Values::F32(values) => tensors.set_item(name, array(py, values, &shape)?)?,
            Values::F64(values) => tensors.set_item(name, array(py, values, &shape)?)?,
            Values::Foreign(_) => {}
        }
    }
    to.set_item("tensors", tensors)?;
    to.set_item("attributes", dict(py, &parts.attributes)?)
}

/// Values by name.
pub(super) fn dict<'py, N: AsRef<str>>(
    py: Python<'py>,
    values: &[(N, Value)],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in values {
        let name = name.as_ref();
        match value {
            Value::Integer(n) => dict.set_item(name, n)?,
            Value::Real(x) => dict.set_item(name, x)?,
            Value::Flag(yes) => dict.set_item(name, yes)?,
            Value::Text(text) => dict.set_item(name, text)?,
        }
    }
    Ok(dict)
}
