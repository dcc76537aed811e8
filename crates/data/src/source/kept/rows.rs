//! Rows of equal length, as a reader finds them.

use super::super::DataError;
use super::super::cut::{Rule, chunk_rows};
use super::sink::Sink;
use super::{ConvertedChunks, Keep};
use crate::chunk::{Element, Header};
use std::marker::PhantomData;

/// Rows are gone through again in pieces of about this many bytes.
const REVISE_BYTES: usize = 4 << 20;

/// Takes rows of a dense matrix and gives a data set of them.
///
/// ```
/// use qjam::source::kept::{Keep, RowsWriter};
/// let mut rows = RowsWriter::create(&Keep::Memory, 2)?;
/// rows.push(&[1.0, 2.0, 3.0, 4.0])?;
/// rows.push(&[5.0, 6.0])?;
/// let x = rows.finish(Vec::new())?;
/// assert_eq!(x.chunk(0)?.row(2), [5.0, 6.0]);
/// # Ok::<(), qjam::DataError>(())
/// ```
pub struct RowsWriter<T: Element> {
    sink: Sink,
    cols: usize,
    kind: PhantomData<T>,
}

impl<T: Element> RowsWriter<T> {
    /// Starts a matrix of so many columns.
    pub fn create(keep: &Keep, cols: usize) -> Result<Self, DataError> {
        if cols == 0 {
            return Err(DataError::NoColumns);
        }
        Ok(RowsWriter { sink: Sink::create(keep)?, cols, kind: PhantomData })
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.sink.at() / self.row_bytes()
    }

    fn row_bytes(&self) -> u64 {
        (self.cols * size_of::<T>()) as u64
    }

    /// Adds whole rows.
    pub fn push(&mut self, values: &[T]) -> Result<(), DataError> {
        if !values.len().is_multiple_of(self.cols) {
            return Err(DataError::Ragged { values: values.len(), cols: self.cols });
        }
        self.sink.write(bytemuck::cast_slice(values))
    }

    /// Shows all rows again, some at a time, to be changed in place. The function says whether it changed any.
    pub fn revise(&mut self, mut change: impl FnMut(&mut [T]) -> bool) -> Result<(), DataError> {
        let row_bytes = self.row_bytes();
        let piece = (REVISE_BYTES as u64 / row_bytes).max(1) * row_bytes;
        let mut values = vec![T::zeroed(); piece as usize / size_of::<T>()];
        let mut at = 0;
        while at < self.sink.at() {
            let bytes = piece.min(self.sink.at() - at);
            let some = &mut values[..bytes as usize / size_of::<T>()];
            self.sink.read_at(at, bytemuck::cast_slice_mut(some))?;
            if change(some) {
                self.sink.write_at(at, bytemuck::cast_slice(some))?;
            }
            at += bytes;
        }
        Ok(())
    }

    /// The rows in chunks, with the reader's notes.
    pub(crate) fn written(self, notes: Vec<u8>) -> Result<ConvertedChunks, DataError> {
        let (rows, bytes) = (self.rows(), self.sink.at());
        if rows == 0 {
            return Err(DataError::Empty { what: "rows" });
        }
        let mut at = 0;
        let counts = Rule::Standard.counts(rows, chunk_rows(bytes, self.row_bytes()))?;
        let pieces = counts.map(|rows| {
            let header = Header::dense(T::DTYPE, rows, self.cols as u64);
            let start = at;
            at += header.bytes;
            (header, start)
        });
        let pieces = pieces.collect();
        ConvertedChunks::finish(self.sink, pieces, rows, bytes, notes)
    }
}
