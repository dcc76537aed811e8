//! Rows of real numbers in the four ways they are stored: dense or sparse, of 32 or 64 bits.
//!
//! Readers make them, learners take them. Code that is generic over the kind of chunk goes through
//! [`with_rows!`](crate::with_rows).

use crate::{Csr, DataError, DataSet, DataSetId, Dense};

/// The type of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

/// A data set of rows of either type, dense or sparse. Clones are the same data set.
///
/// ```
/// use qjam::{DataSet, Dtype, Rows};
/// let rows = Rows::from(DataSet::dense(vec![1.0_f32, 2.0, 3.0, 4.0], 2)?);
/// assert_eq!((rows.records(), rows.cols()?, rows.dtype()), (2, 2, Dtype::F32));
/// # Ok::<(), qjam::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Rows {
    /// Dense rows of `f32`.
    DenseF32(DataSet<Dense<f32>>),
    /// Dense rows of `f64`.
    DenseF64(DataSet<Dense<f64>>),
    /// Sparse rows of `f32`.
    CsrF32(DataSet<Csr<f32>>),
    /// Sparse rows of `f64`.
    CsrF64(DataSet<Csr<f64>>),
}

/// Runs the same code on whichever kind of [`Rows`] there is: `with_rows!(rows, data => data.len())`.
#[macro_export]
macro_rules! with_rows {
    ($rows:expr, $data:ident => $body:expr) => {
        match $rows {
            $crate::Rows::DenseF32($data) => $body,
            $crate::Rows::DenseF64($data) => $body,
            $crate::Rows::CsrF32($data) => $body,
            $crate::Rows::CsrF64($data) => $body,
        }
    };
}

macro_rules! from {
    ($($chunk:ty => $variant:ident),*) => {$(
        impl From<DataSet<$chunk>> for Rows {
            fn from(data: DataSet<$chunk>) -> Rows {
                Rows::$variant(data)
            }
        }

        impl From<&DataSet<$chunk>> for Rows {
            fn from(data: &DataSet<$chunk>) -> Rows {
                Rows::$variant(data.clone())
            }
        }
    )*};
}
from!(Dense<f32> => DenseF32, Dense<f64> => DenseF64, Csr<f32> => CsrF32, Csr<f64> => CsrF64);

impl Rows {
    /// Number of rows.
    pub fn records(&self) -> u64 {
        with_rows!(self, data => data.records())
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        with_rows!(self, data => data.len())
    }

    /// Bytes of all chunks together.
    pub fn bytes(&self) -> u64 {
        with_rows!(self, data => data.bytes())
    }

    /// Number of columns. A label that is stored as the last column counts.
    pub fn cols(&self) -> Result<usize, DataError> {
        with_rows!(self, data => Ok(data.chunk(0)?.cols()))
    }

    /// The type of the numbers.
    pub fn dtype(&self) -> Dtype {
        match self {
            Rows::DenseF32(_) | Rows::CsrF32(_) => Dtype::F32,
            Rows::DenseF64(_) | Rows::CsrF64(_) => Dtype::F64,
        }
    }

    /// Whether zeros are not stored.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Rows::CsrF32(_) | Rows::CsrF64(_))
    }

    /// About how many numbers are stored. Depends on the data alone, not on its cut.
    pub fn entries(&self) -> u64 {
        let starts = 8 * self.records();
        match self {
            Rows::DenseF32(data) => data.bytes() / 4,
            Rows::DenseF64(data) => data.bytes() / 8,
            Rows::CsrF32(data) => data.bytes().saturating_sub(starts) / 8,
            Rows::CsrF64(data) => data.bytes().saturating_sub(starts) / 12,
        }
    }

    /// The name of this cut of these rows.
    pub fn id(&self) -> DataSetId {
        with_rows!(self, data => data.id())
    }
}
