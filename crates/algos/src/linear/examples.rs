//! The rows that linear learners learn from, in the four ways they may be stored.

use super::partition::PrepareError;
use qjam::{Csr, DataSet, Dense};

/// Rows, dense or sparse, of 32 or 64 bits.
#[derive(Clone, Copy, Debug)]
pub enum Examples<'a> {
    /// Dense rows in 32 bits.
    DenseF32(&'a DataSet<Dense<f32>>),
    /// Dense rows in 64 bits.
    DenseF64(&'a DataSet<Dense<f64>>),
    /// Sparse rows in 32 bits.
    CsrF32(&'a DataSet<Csr<f32>>),
    /// Sparse rows in 64 bits.
    CsrF64(&'a DataSet<Csr<f64>>),
}

/// Runs the same code for each way of storing rows.
macro_rules! each {
    ($examples:expr, $data:ident => $body:expr) => {
        match $examples {
            $crate::linear::Examples::DenseF32($data) => $body,
            $crate::linear::Examples::DenseF64($data) => $body,
            $crate::linear::Examples::CsrF32($data) => $body,
            $crate::linear::Examples::CsrF64($data) => $body,
        }
    };
}
pub(super) use each;

macro_rules! from {
    ($($chunk:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a DataSet<$chunk>> for Examples<'a> {
            fn from(data: &'a DataSet<$chunk>) -> Self {
                Examples::$variant(data)
            }
        }
    )*};
}
from!(Dense<f32> => DenseF32, Dense<f64> => DenseF64, Csr<f32> => CsrF32, Csr<f64> => CsrF64);

impl Examples<'_> {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        each!(self, data => usize::try_from(data.records()).unwrap_or(usize::MAX))
    }

    /// How many columns they have.
    pub fn columns(&self) -> Result<usize, PrepareError> {
        each!(self, data => Ok(data.chunk(0)?.cols()))
    }

    /// Whether zeros are left out.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Examples::CsrF32(_) | Examples::CsrF64(_))
    }

    /// About how many numbers are stored; a function of the data alone.
    pub fn entries(&self) -> u64 {
        let starts = 8 * self.rows() as u64;
        match self {
            Examples::DenseF32(data) => data.bytes() / 4,
            Examples::DenseF64(data) => data.bytes() / 8,
            Examples::CsrF32(data) => data.bytes().saturating_sub(starts) / 8,
            Examples::CsrF64(data) => data.bytes().saturating_sub(starts) / 12,
        }
    }
}
