//! Data sets of Python's: arrays, slices of objects, files.

use pyo3::prelude::*;
use qjam::DataSet;
use qjam::python::Raw;

/// A data set.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Data {
    set: DataSet<Raw>,
}

#[pymethods]
impl Data {
    #[new]
    fn new(tasks: usize) -> PyResult<Self> {
        let set =
            DataSet::nothing(tasks).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        Ok(Data { set: set.untyped() })
    }
}

impl Data {
    pub(crate) fn set(&self, _shared: bool) -> PyResult<DataSet<Raw>> {
        Ok(self.set.clone())
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Data>()
}
