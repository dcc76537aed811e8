//! Files of nothing but numbers, row after row.

use super::DataError;
use super::location::{Backing, UserFile};
use super::matrix::Matrix;
use crate::chunk::Element;
use std::path::Path;

/// A matrix in a file without any header.
pub(crate) fn open<T: Element>(path: &Path, cols: usize) -> Result<Matrix, DataError> {
    let file = UserFile::open(path)?;
    if cols == 0 {
        return Err(DataError::NoColumns);
    }
    let bytes = file.bytes();
    let row_bytes = (cols as u64).saturating_mul(size_of::<T>() as u64);
    if !bytes.is_multiple_of(row_bytes) {
        return Err(DataError::RawSize { path: path.into(), bytes, row_bytes, cols, dtype: T::DTYPE });
    }
    Matrix::over::<T>(Backing::File(file), 0, bytes / row_bytes, cols as u64)
}

/// A matrix somewhere in a file.
pub(crate) fn open_within<T: Element>(
    path: &Path,
    offset: u64,
    rows: u64,
    cols: u64,
) -> Result<Matrix, DataError> {
    let file = UserFile::open(path)?;
    let row_bytes = cols.saturating_mul(size_of::<T>() as u64);
    let end = rows.checked_mul(row_bytes).and_then(|bytes| bytes.checked_add(offset));
    if end.is_none_or(|end| end > file.bytes()) {
        let bytes = file.bytes().saturating_sub(offset);
        return Err(DataError::RawSize {
            path: path.into(),
            bytes,
            row_bytes,
            cols: cols as usize,
            dtype: T::DTYPE,
        });
    }
    Matrix::over::<T>(Backing::File(file), offset, rows, cols)
}
