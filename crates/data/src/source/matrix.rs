//! Rows of equal length, in memory or in a file.

use super::cut::{Rule, chunk_rows};
use super::location::{Backing, ChunkEntry};
use super::{DataError, Source};
use crate::chunk::{Element, Header};
use crate::store::Region;

/// A row-major matrix somewhere in a region or a file.
pub(crate) struct Matrix {
    backing: Backing,
    /// Where the first row starts.
    start: u64,
    rows: u64,
    cols: u64,
    width: u64,
    dtype: &'static str,
}

impl Matrix {
    /// A matrix that lies somewhere already.
    ///
    /// Rows times columns times width has been found not to overflow, by comparing it with what there is.
    pub(crate) fn over<T: Element>(
        backing: Backing,
        start: u64,
        rows: u64,
        cols: u64,
    ) -> Result<Self, DataError> {
        match (rows, cols) {
            (_, 0) => Err(DataError::NoColumns),
            (0, _) => Err(DataError::Empty { what: "rows" }),
            _ => Ok(Matrix { backing, start, rows, cols, width: size_of::<T>() as u64, dtype: T::DTYPE }),
        }
    }

    /// A matrix of values, copied into shared memory.
    pub(crate) fn in_memory<T: Element>(values: &[T], cols: usize) -> Result<Self, DataError> {
        match values.len().checked_rem(cols) {
            None => return Err(DataError::NoColumns),
            Some(0) => {}
            Some(_) => return Err(DataError::Ragged { values: values.len(), cols }),
        }
        let raw: &[u8] = bytemuck::cast_slice(values);
        let region =
            Region::copy_of(raw).map_err(|source| DataError::Memory { bytes: raw.len() as u64, source })?;
        Matrix::over::<T>(Backing::Shared(region), 0, (values.len() / cols) as u64, cols as u64)
    }

    fn row_bytes(&self) -> u64 {
        self.cols * self.width
    }
}

impl Source for Matrix {
    fn records(&self) -> u64 {
        self.rows
    }

    fn bytes(&self) -> u64 {
        self.rows * self.row_bytes()
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        let mut at = self.start;
        let pieces = rule.counts(self.rows, chunk_rows(self.bytes(), self.row_bytes()))?.map(|rows| {
            let header = Header::dense(self.dtype, rows, self.cols);
            let start = at;
            at += header.bytes;
            (header, start)
        });
        self.backing.name(pieces.collect())
    }
}
