//! Rows that a learner runs on: a matrix of 32- or 64-bit numbers, dense or sparse, cut and named.

use super::arrays::{Number, numbers};
use crate::buffer::{self, Borrowed};
use crate::data::{Data, Readers, raise};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use qjam::python::{Layout, Raw};
use qjam::{Csr, DataSet, Dtype};
use qjam_algos::clustering::kmeans;

/// Rows for a learner. Made by `qjam.learn`.
#[pyclass(frozen, module = "qjam._native")]
pub(crate) struct Rows {
    pub(super) table: qjam::Rows,
    #[pyo3(get)]
    rows: u64,
    /// Columns without weights.
    #[pyo3(get)]
    pub(super) cols: u64,
    /// Whether rows have weights: in a last column, or as labels of sparse rows.
    #[pyo3(get)]
    pub(super) weighted: bool,
}

impl Rows {
    /// What a raw data set turns out to be.
    fn of(set: &DataSet<Raw>, weighted: bool, shares: bool) -> PyResult<Rows> {
        let header = set.chunk(0).map_err(raise)?.header;
        let cols = header.shape.get(1).copied().unwrap_or(0);
        let cols = cols - u64::from(weighted && header.kind == "dense");
        let set = set.partitions(kmeans::parts(set.records())).map_err(raise)?;
        let set = if shares { set.shared().map_err(raise)? } else { set };
        let table = match (header.kind.as_str(), header.dtype.as_str()) {
            ("dense", "f32") => qjam::Rows::DenseF32(set.typed().map_err(raise)?),
            ("dense", "f64") => qjam::Rows::DenseF64(set.typed().map_err(raise)?),
            ("csr", "f32") => qjam::Rows::CsrF32(set.typed().map_err(raise)?),
            ("csr", "f64") => qjam::Rows::CsrF64(set.typed().map_err(raise)?),
            (kind, dtype) => {
                return Err(PyTypeError::new_err(format!(
                    "a data set of {kind} chunks of {dtype}; learners take dense and csr chunks of f32 and f64"
                )));
            }
        };
        Ok(Rows { rows: set.records(), table, cols, weighted })
    }
}

#[pymethods]
impl Rows {
    /// A matrix, row after row: an object with a contiguous buffer, whether its numbers have 64 bits, and whether the last
    /// of its columns are weights.
    #[staticmethod]
    fn dense(
        py: Python<'_>,
        memory: &Bound<'_, PyAny>,
        doubles: bool,
        rows: u64,
        cols: u64,
        weighted: bool,
        shares: bool,
    ) -> PyResult<Rows> {
        buffer::release_waiting(py);
        let memory = Borrowed::of(memory)?.into_bytes();
        let (dtype, item_bytes) = if doubles { (f64::NUMPY, 8) } else { (f32::NUMPY, 4) };
        let layout =
            Layout { kind: "ndarray".into(), dtype: dtype.into(), shape: vec![rows, cols], item_bytes };
        py.detach(|| {
            let set = DataSet::array(memory, layout, kmeans::parts(rows)).map_err(raise)?;
            Rows::of(&set, weighted, shares)
        })
    }

    /// A sparse matrix: where rows start (64-bit numbers), columns (32-bit), values, and perhaps a weight for each row.
    #[staticmethod]
    fn csr(
        py: Python<'_>,
        starts: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        doubles: bool,
        cols: usize,
        weights: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let (starts, columns) = (Borrowed::of(starts)?, Borrowed::of(columns)?);
        let values = Borrowed::of(values)?;
        let weights = weights.map(Borrowed::of).transpose()?;
        let made = py.detach(|| {
            let weights = weights.as_ref().map(AsRef::as_ref);
            let (starts, columns) = (copied(starts.as_ref())?, copied(columns.as_ref())?);
            let set = match doubles {
                true => sparse::<f64>(starts, columns, values.as_ref(), cols, weights)?,
                false => sparse::<f32>(starts, columns, values.as_ref(), cols, weights)?,
            };
            Rows::of(&set, weights.is_some(), false)
        });
        drop((starts, columns, values, weights));
        buffer::release_waiting(py);
        made
    }

    /// The rows of a data set of the package's.
    #[staticmethod]
    fn data(py: Python<'_>, data: &Data, shares: bool) -> PyResult<Rows> {
        py.detach(|| Rows::of(&data.set(Readers::Anybody, false)?, false, shares))
    }

    /// Whether its numbers have 64 bits.
    #[getter]
    fn doubles(&self) -> bool {
        self.table.dtype() == Dtype::F64
    }

    /// Bytes of all rows together.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.table.bytes()
    }

    /// The name of these rows in their cut, and whether they have weights.
    #[getter]
    fn id(&self) -> String {
        let id = self.table.id();
        let digits: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}{}", if self.weighted { " weighted" } else { "" })
    }

    #[getter]
    fn sparse(&self) -> bool {
        self.table.is_sparse()
    }
}

fn copied<T: bytemuck::Pod>(bytes: &[u8]) -> PyResult<Vec<T>> {
    if !bytes.len().is_multiple_of(size_of::<T>()) {
        return Err(PyValueError::new_err(format!("{} bytes are no whole numbers", bytes.len())));
    }
    Ok(bytemuck::pod_collect_to_vec(bytes))
}

fn sparse<T: Number + qjam::chunk::Element>(
    starts: Vec<u64>,
    columns: Vec<u32>,
    values: &[u8],
    cols: usize,
    weights: Option<&[u8]>,
) -> PyResult<DataSet<Raw>> {
    let values = numbers::<T>(values)?.into_owned();
    let weights = weights.map(|w| numbers::<T>(w).map(|w| w.into_owned())).transpose()?;
    let matrix = Csr::from_vecs(starts, columns, values, cols, weights)
        .map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(DataSet::csr(&matrix).map_err(raise)?.untyped())
}
