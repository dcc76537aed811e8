//! Dense matrices: rows of numbers, one after the other.

use super::{Chunk, ChunkError, Header, expect_kind};
use crate::codec::{Number, Slab};
use bytes::Bytes;
use std::fmt;

/// An element of a dense matrix: `f32`, `f64`, `i32`, `i64` or `u8`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element of dense chunks",
    note = "dense chunks have f32, f64, i32, i64 or u8; other values go into a `List`"
)]
pub trait Element: Number + sealed::Sealed {
    /// Its name in a header.
    const DTYPE: &'static str;
    /// Its name in a `.npy` file.
    #[doc(hidden)]
    const NPY: &'static str;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($kind:ident $npy:literal),*) => {$(
        impl sealed::Sealed for $kind {}
        impl Element for $kind {
            const DTYPE: &'static str = stringify!($kind);
            const NPY: &'static str = $npy;
        }
    )*};
}

elements!(f32 "<f4", f64 "<f8", i32 "<i4", i64 "<i8", u8 "|u1");

/// Some rows of a matrix, row-major, seen where they lie.
///
/// ```
/// use qjam::Dense;
/// let x = Dense::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], 3).unwrap();
/// assert_eq!((x.rows(), x.cols()), (2, 3));
/// assert_eq!(x.row(1), [4.0, 5.0, 6.0]);
/// ```
#[derive(Clone)]
pub struct Dense<T: Element> {
    values: Slab<T>,
    rows: usize,
    cols: usize,
}

impl<T: Element> Dense<T> {
    /// A matrix of its own memory, for tests and serial runs.
    pub fn from_vec(values: Vec<T>, cols: usize) -> Result<Self, ChunkError> {
        match values.len().checked_rem(cols) {
            Some(0) => Ok(Dense { rows: values.len() / cols, cols, values: values.into() }),
            _ => Err(ChunkError::Shape {
                kind: "dense",
                shape: vec![values.len() as u64, cols as u64],
                bytes: size_of_val(&values[..]) as u64,
            }),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// When there are not that many rows, as a slice would.
    #[inline]
    pub fn row(&self, i: usize) -> &[T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        &self.values[i * self.cols..(i + 1) * self.cols]
    }

    /// All values, row after row.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// The rows in order.
    pub fn rows_iter(&self) -> std::slice::ChunksExact<'_, T> {
        // A matrix without columns has no values and so no pieces either way.
        self.values.chunks_exact(self.cols.max(1))
    }

    /// Whether the values lie where their bytes came in, without a copy.
    pub fn is_shared(&self) -> bool {
        self.values.is_shared()
    }
}

impl<T: Element> Chunk for Dense<T> {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        let &[rows, cols] = expect_kind(header, &bytes, "dense")?;
        if header.dtype != T::DTYPE {
            return Err(ChunkError::Type { expected: T::DTYPE, found: header.dtype.clone() });
        }
        let fits =
            rows.checked_mul(cols).and_then(|n| n.checked_mul(size_of::<T>() as u64)) == Some(header.bytes);
        match (usize::try_from(rows), usize::try_from(cols)) {
            (Ok(rows), Ok(cols)) if fits => Ok(Dense { values: Slab::over(bytes), rows, cols }),
            _ => Err(ChunkError::Shape { kind: "dense", shape: header.shape.clone(), bytes: header.bytes }),
        }
    }
}

impl<T: Element> fmt::Debug for Dense<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dense<{}>({} × {})", T::DTYPE, self.rows, self.cols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: Header, bytes: usize, expected: Result<(usize, usize), ChunkError>) {
        let opened = Dense::<f64>::open(&header, Bytes::from(vec![0; bytes]));
        assert_eq!(opened.map(|x| (x.rows(), x.cols())), expected, "{header:?}");
    }

    #[test]
    fn opens_only_what_its_header_describes() {
        let good = Header::dense("f64", 3, 2);
        let shape = |shape: &[u64]| Header { shape: shape.to_vec(), ..good.clone() };
        let refused =
            |shape: &[u64]| Err(ChunkError::Shape { kind: "dense", shape: shape.to_vec(), bytes: 48 });
        check(good.clone(), 48, Ok((3, 2)));
        check(shape(&[6, 1]), 48, Ok((6, 1)));
        check(shape(&[3, 3]), 48, refused(&[3, 3]));
        check(shape(&[6]), 48, refused(&[6]));
        check(shape(&[]), 48, refused(&[]));
        check(shape(&[1 << 63, 2]), 48, refused(&[1 << 63, 2]));
        check(shape(&[u64::MAX, u64::MAX]), 48, refused(&[u64::MAX, u64::MAX]));
        check(good.clone(), 47, Err(ChunkError::Bytes { expected: 48, found: 47 }));
        let other = Header { kind: "lines".into(), ..good.clone() };
        check(other, 48, Err(ChunkError::Kind { expected: "dense", found: "lines".into() }));
        let other = Header { dtype: "i64".into(), ..good };
        check(other, 48, Err(ChunkError::Type { expected: "f64", found: "i64".into() }));
    }

    #[test]
    fn aligned_bytes_are_shared_and_misaligned_ones_copied() {
        let mut buf = crate::store::AlignedBuf::zeroed(49);
        buf.as_mut_slice()[1..9].copy_from_slice(&1.5_f64.to_le_bytes());
        let bytes = buf.into_bytes();
        let header = Header::dense("f64", 3, 2);
        assert!(Dense::<f64>::open(&header, bytes.slice(..48)).unwrap().is_shared());
        let copied = Dense::<f64>::open(&header, bytes.slice(1..)).unwrap();
        assert!(!copied.is_shared());
        assert_eq!(copied.row(0), [1.5, 0.0]);
    }

    #[test]
    fn values_that_are_no_whole_rows_are_refused() {
        assert!(Dense::from_vec(vec![1_u8, 2, 3], 2).is_err());
        assert!(Dense::from_vec(vec![1_u8, 2, 3], 0).is_err());
        assert!(Dense::<u8>::from_vec(vec![], 0).is_err());
        assert_eq!(Dense::<u8>::from_vec(vec![], 4).unwrap().rows_iter().count(), 0);
    }
}
