//! Dense rows with a label each: matrices whose last column is what is to be learnt.

use super::{Chunk, ChunkError, Dense, Element, Header};
use bytes::Bytes;
use std::fmt;

/// Some rows of a dense matrix, of which the last column is the label.
///
/// In memory and in files this is an ordinary dense matrix, and every dense data set with two columns or more can be
/// seen this way ([`DataSet::labelled`](crate::DataSet::labelled)). So labels travel with their rows, no cut can
/// separate them, and a row's values start at multiples of [`stride`](Self::stride).
///
/// ```
/// use qjam::{Dense, Labelled};
/// let x = Labelled::new(Dense::from_vec(vec![1.0, 2.0, 0.5, 3.0, 4.0, 0.7], 3).unwrap()).unwrap();
/// assert_eq!((x.rows(), x.cols()), (2, 2));
/// assert_eq!((x.row(1), x.label(1)), (&[3.0, 4.0][..], 0.7));
/// assert_eq!(x.labels().collect::<Vec<_>>(), [0.5, 0.7]);
/// ```
#[derive(Clone)]
pub struct Labelled<T: Element>(Dense<T>);

impl<T: Element> Labelled<T> {
    /// A matrix whose last column is the label. It needs another column beside it.
    pub fn new(all: Dense<T>) -> Result<Self, ChunkError> {
        if all.cols() < 2 {
            let shape = vec![all.rows() as u64, all.cols() as u64];
            return Err(ChunkError::Shape {
                kind: "labelled",
                shape,
                bytes: size_of_val(all.as_slice()) as u64,
            });
        }
        Ok(Labelled(all))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Number of columns, without the label.
    pub fn cols(&self) -> usize {
        self.0.cols() - 1
    }

    /// One row, without its label.
    ///
    /// # Panics
    ///
    /// When there are not that many rows, as a slice would.
    #[inline]
    pub fn row(&self, i: usize) -> &[T] {
        &self.0.row(i)[..self.0.cols() - 1]
    }

    /// The label of one row.
    ///
    /// # Panics
    ///
    /// When there are not that many rows, as a slice would.
    #[inline]
    pub fn label(&self, i: usize) -> T {
        self.0.row(i)[self.0.cols() - 1]
    }

    /// The labels in order.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        (0..self.rows()).map(|i| self.label(i))
    }

    /// Values from the start of one row to the start of the next in [`as_slice`](Self::as_slice).
    pub fn stride(&self) -> usize {
        self.0.cols()
    }

    /// All values with the labels, row after row.
    pub fn as_slice(&self) -> &[T] {
        self.0.as_slice()
    }
}

impl<T: Element> Chunk for Labelled<T> {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        Labelled::new(Dense::open(header, bytes)?)
    }
}

impl<T: Element> fmt::Debug for Labelled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Labelled<{}>({} × {} and a label)", T::DTYPE, self.rows(), self.cols())
    }
}
