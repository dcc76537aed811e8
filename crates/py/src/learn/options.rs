//! The options of learners: their tables as Python sees them, and values on their way back.

use super::errors::Wrong;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use qjam_algos::learner::Learner;
use qjam_algos::options::{Kind, Opt, Preset, Settings, Spelling, Value};
use qjam_algos::registry;

/// The learner of this name.
pub(super) fn find(name: &str) -> PyResult<&'static dyn Learner> {
    registry::find(name).ok_or_else(|| PyValueError::new_err(format!("there is no learner {name:?}")))
}

/// The table of a learner: what it does, and of each option its name, default, kind, what is allowed, and what it does.
#[pyfunction]
pub(super) fn learner_options<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    let learner = find(name)?.table();
    let table = PyDict::new(py);
    table.set_item("class", learner.class)?;
    table.set_item("about", learner.about)?;
    table.set_item("detail", learner.detail)?;
    let entries = learner.options.iter().map(|option| entry(py, option));
    table.set_item("options", entries.collect::<PyResult<Vec<_>>>()?)?;
    Ok(table)
}

fn entry<'py>(py: Python<'py>, option: &Opt) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("name", option.name)?;
    entry.set_item("flag", option.flag)?;
    let kind = match option.kind {
        Kind::Integer { .. } => "integer",
        Kind::Integers { .. } => "integers",
        Kind::Real { .. } => "real",
        Kind::Flag => "flag",
        Kind::Word => "word",
        Kind::File => "file",
        Kind::Seed => "seed",
    };
    entry.set_item("kind", kind)?;
    match option.default {
        Preset::Needed => entry.set_item("default", py.None())?,
        Preset::Integer(n) => entry.set_item("default", n)?,
        Preset::Real(x) => entry.set_item("default", x)?,
        Preset::Flag(yes) => entry.set_item("default", yes)?,
        Preset::Word(word) => entry.set_item("default", word)?,
    }
    entry.set_item("words", option.words.to_vec())?;
    entry.set_item("allowed", option.allowed())?;
    entry.set_item("help", option.help)?;
    entry.set_item("detail", option.detail)?;
    Ok(entry)
}

/// Settings that a dictionary of Python's names has; what is not in it is the default.
pub(super) fn settings(py: Python<'_>, name: &str, given: &Bound<'_, PyDict>) -> PyResult<Settings> {
    let mut settings = Settings::new(find(name)?.table(), Spelling::Python);
    for (option, value) in given {
        let option: String = option.extract()?;
        let set = settings.set(&option, value_of(&option, &value)?);
        set.map_err(|e| Wrong::from(e).raise(py, name))?;
    }
    Ok(settings)
}

/// The value that an object of Python's is.
pub(super) fn value_of(option: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    // A bool is an int to Python.
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Flag(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        // What is negative, or too long for a whole number here, is for the option to refuse, with what it allows.
        let as_real = |_| value.extract().map(Value::Real);
        let too_large = |_| PyValueError::new_err(format!("{option} is {value}; that is out of range"));
        return value.extract().map(Value::Integer).or_else(as_real).map_err(too_large);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Real(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::Text(value.extract()?));
    }
    Err(PyTypeError::new_err(format!("{option} is a {}; give a number or a word", value.get_type().name()?)))
}
