//! Files of nothing but numbers, row after row.

use super::DataError;
use super::matrix::Matrix;
use super::place::{Backing, UserFile};
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
