//! Sparse matrices: of every row, or of every column, the places that are not zero and what stands there.
//!
//! A chunk's bytes are, one after the other and without gaps: where each line starts (`u64`, one more than there are
//! lines), the values, the labels if there are any (one per line), and the places within the line (`u32`). The header's
//! shape is `[lines, across, values, labels per line]`, where lines are rows in a `csr` chunk and columns in a `csc`
//! chunk. Whatever the bytes, what [`Chunk::open`] accepts is in order: starts never fall, places are below `across`
//! and rise strictly within a line.

use super::{Chunk, ChunkError, Element, Header, expect_kind};
use crate::codec::Slab;
use bytes::Bytes;
use std::fmt;

/// What [`Csr`] and [`Csc`] share.
#[derive(Clone)]
pub(crate) struct Compressed<T: Element> {
    starts: Slab<u64>,
    values: Slab<T>,
    labels: Option<Slab<T>>,
    places: Slab<u32>,
    across: usize,
}

/// The header of a sparse chunk.
pub(crate) fn header(kind: &str, dtype: &str, shape: Shape) -> Header {
    Header {
        kind: kind.into(),
        dtype: dtype.into(),
        shape: vec![shape.lines, shape.across, shape.values, u64::from(shape.labelled)],
        bytes: shape.bytes().unwrap_or(u64::MAX),
    }
}

/// The numbers that say where everything lies in a sparse chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) lines: u64,
    pub(crate) across: u64,
    pub(crate) values: u64,
    pub(crate) labelled: bool,
    /// Bytes of a value.
    pub(crate) width: u64,
}

impl Shape {
    /// Bytes of such a chunk, if they can be counted.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let starts = self.lines.checked_add(1)?.checked_mul(8)?;
        let values = self.values.checked_mul(self.width + 4)?;
        let labels = if self.labelled { self.lines.checked_mul(self.width)? } else { 0 };
        starts.checked_add(values)?.checked_add(labels)
    }
}

impl<T: Element> Compressed<T> {
    fn open(header: &Header, bytes: Bytes, kind: &'static str) -> Result<Self, ChunkError> {
        let &[lines, across, values, labels] = expect_kind(header, &bytes, kind)?;
        if header.dtype != T::DTYPE {
            return Err(ChunkError::Type { expected: T::DTYPE, found: header.dtype.clone() });
        }
        let width = size_of::<T>() as u64;
        let shape = Shape { lines, across, values, labelled: labels == 1, width };
        if shape.bytes() != Some(header.bytes) || labels > 1 || across > 1 << 32 {
            return Err(ChunkError::Shape { kind, shape: header.shape.clone(), bytes: header.bytes });
        }
        // All of these are below the length of the bytes, which are there.
        let (values_at, labels_at) = ((lines + 1) * 8, (lines + 1) * 8 + values * width);
        let places_at = labels_at + labels * lines * width;
        let part = |from: u64, to: u64| bytes.slice(from as usize..to as usize);
        let opened = Compressed {
            starts: Slab::over(part(0, values_at)),
            values: Slab::over(part(values_at, labels_at)),
            labels: shape.labelled.then(|| Slab::over(part(labels_at, places_at))),
            places: Slab::over(part(places_at, header.bytes)),
            across: across as usize,
        };
        opened.check(kind)?;
        Ok(opened)
    }

    /// What the length alone does not show.
    fn check(&self, kind: &'static str) -> Result<(), ChunkError> {
        let wrong = |line: usize, what| Err(ChunkError::Sparse { kind, line: line as u64, what });
        let (starts, places) = (&*self.starts, &*self.places);
        let lines = starts.len() - 1;
        if starts[0] != 0 || starts[lines] != places.len() as u64 {
            return wrong(
                lines,
                "the first starts elsewhere than at 0 or the last does not end at the last value",
            );
        }
        if let Some(line) = starts.windows(2).position(|pair| pair[0] > pair[1]) {
            return wrong(line, "it ends before it starts");
        }
        for line in 0..lines {
            // In range, since starts rise from 0 to the number of values.
            let line_places = &places[starts[line] as usize..starts[line + 1] as usize];
            if !line_places.is_sorted_by(|a, b| a < b) {
                return wrong(line, "its places do not rise, or one is there twice");
            }
            if line_places.last().is_some_and(|last| *last as usize >= self.across) {
                return wrong(line, "it has a place beyond the width of the matrix");
            }
        }
        Ok(())
    }

    fn from_vecs(
        kind: &'static str,
        starts: Vec<u64>,
        places: Vec<u32>,
        values: Vec<T>,
        across: usize,
        labels: Option<Vec<T>>,
    ) -> Result<Self, ChunkError> {
        let lines = starts.len().saturating_sub(1);
        let labels_fit = labels.as_ref().is_none_or(|labels| labels.len() == lines);
        if starts.is_empty() || places.len() != values.len() || !labels_fit {
            let n = labels.map_or(0, |labels| labels.len());
            return Err(ChunkError::Lengths {
                kind,
                starts: starts.len(),
                places: places.len(),
                values: values.len(),
                labels: n,
            });
        }
        let made = Compressed {
            starts: starts.into(),
            values: values.into(),
            labels: labels.map(Into::into),
            places: places.into(),
            across,
        };
        made.check(kind)?;
        Ok(made)
    }

    fn line(&self, i: usize) -> (&[u32], &[T]) {
        let starts = &*self.starts;
        let range = starts[i] as usize..starts[i + 1] as usize;
        (&self.places[range.clone()], &self.values[range])
    }

    /// The header and the bytes of this as a chunk.
    pub(crate) fn to_chunk(&self, kind: &'static str) -> (Header, Vec<u8>) {
        let shape = Shape {
            lines: self.starts.len() as u64 - 1,
            across: self.across as u64,
            values: self.values.len() as u64,
            labelled: self.labels.is_some(),
            width: size_of::<T>() as u64,
        };
        let mut bytes = bytemuck::cast_slice::<u64, u8>(&self.starts).to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(&self.values));
        if let Some(labels) = &self.labels {
            bytes.extend_from_slice(bytemuck::cast_slice(labels));
        }
        bytes.extend_from_slice(bytemuck::cast_slice(&self.places));
        (header(kind, T::DTYPE, shape), bytes)
    }
}

/// Some rows of a sparse matrix, each with the columns that are not zero, seen where they lie. Rows may have a label.
///
/// ```
/// use qjam::Csr;
/// // 0 5 0
/// // 1 0 2
/// let x = Csr::from_vecs(vec![0, 1, 3], vec![1, 0, 2], vec![5.0, 1.0, 2.0], 3, Some(vec![-1.0, 1.0])).unwrap();
/// assert_eq!((x.rows(), x.cols(), x.values().len()), (2, 3, 3));
/// assert_eq!(x.row(1), (&[0, 2][..], &[1.0, 2.0][..]));
/// assert_eq!(x.labels(), Some(&[-1.0, 1.0][..]));
/// ```
#[derive(Clone)]
pub struct Csr<T: Element>(pub(crate) Compressed<T>);

impl<T: Element> Csr<T> {
    /// A matrix of its own memory: where each row starts (and one more, where the last ends), the columns and the values
    /// of all rows, the number of columns, and labels, one a row.
    pub fn from_vecs(
        starts: Vec<u64>,
        columns: Vec<u32>,
        values: Vec<T>,
        cols: usize,
        labels: Option<Vec<T>>,
    ) -> Result<Self, ChunkError> {
        Compressed::from_vecs("csr", starts, columns, values, cols, labels).map(Csr)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.starts.len() - 1
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.0.across
    }

    /// The columns of one row that are not zero, in order, and the values there.
    ///
    /// # Panics
    ///
    /// When there are not that many rows, as a slice would.
    #[inline]
    pub fn row(&self, i: usize) -> (&[u32], &[T]) {
        self.0.line(i)
    }

    /// Where each row starts in [`columns`](Self::columns) and [`values`](Self::values), and where the last ends.
    pub fn starts(&self) -> &[u64] {
        &self.0.starts
    }

    /// The columns, row after row.
    pub fn columns(&self) -> &[u32] {
        &self.0.places
    }

    /// The values, row after row.
    pub fn values(&self) -> &[T] {
        &self.0.values
    }

    /// The label of each row, if they have any.
    pub fn labels(&self) -> Option<&[T]> {
        self.0.labels.as_deref()
    }
}

/// Some columns of a sparse matrix, each with the rows that are not zero, seen where they lie.
///
/// ```
/// use qjam::Csc;
/// // 0 5 0
/// // 1 0 2
/// let x = Csc::from_vecs(vec![0, 1, 2, 3], vec![1, 0, 1], vec![1.0, 5.0, 2.0], 2).unwrap();
/// assert_eq!((x.rows(), x.cols()), (2, 3));
/// assert_eq!(x.col(1), (&[0][..], &[5.0][..]));
/// ```
#[derive(Clone)]
pub struct Csc<T: Element>(pub(crate) Compressed<T>);

impl<T: Element> Csc<T> {
    /// A matrix of its own memory: where each column starts (and one more, where the last ends), the rows and the values
    /// of all columns, and the number of rows.
    pub fn from_vecs(
        starts: Vec<u64>,
        rows_at: Vec<u32>,
        values: Vec<T>,
        rows: usize,
    ) -> Result<Self, ChunkError> {
        Compressed::from_vecs("csc", starts, rows_at, values, rows, None).map(Csc)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.0.across
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.0.starts.len() - 1
    }

    /// The rows of one column that are not zero, in order, and the values there.
    ///
    /// # Panics
    ///
    /// When there are not that many columns, as a slice would.
    #[inline]
    pub fn col(&self, j: usize) -> (&[u32], &[T]) {
        self.0.line(j)
    }

    /// Where each column starts in [`rows_at`](Self::rows_at) and [`values`](Self::values), and where the last ends.
    pub fn starts(&self) -> &[u64] {
        &self.0.starts
    }

    /// The rows, column after column.
    pub fn rows_at(&self) -> &[u32] {
        &self.0.places
    }

    /// The values, column after column.
    pub fn values(&self) -> &[T] {
        &self.0.values
    }
}

impl<T: Element> Chunk for Csr<T> {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        Compressed::open(header, bytes, "csr").map(Csr)
    }
}

impl<T: Element> Chunk for Csc<T> {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        Compressed::open(header, bytes, "csc").map(Csc)
    }
}

impl<T: Element> fmt::Debug for Csr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Csr<{}>({} × {}, {} values)", T::DTYPE, self.rows(), self.cols(), self.values().len())
    }
}

impl<T: Element> fmt::Debug for Csc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Csc<{}>({} × {}, {} values)", T::DTYPE, self.rows(), self.cols(), self.values().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Csr<f64> {
        Csr::from_vecs(vec![0, 1, 1, 3], vec![1, 0, 2], vec![5.0, 1.0, 2.0], 3, Some(vec![1.0, 2.0, 3.0]))
            .unwrap()
    }

    #[test]
    fn a_chunk_comes_back_as_it_went() {
        let (header, bytes) = matrix().0.to_chunk("csr");
        let back = Csr::<f64>::open(&header, bytes.into()).unwrap();
        assert_eq!((back.rows(), back.cols()), (3, 3));
        assert_eq!(back.row(0), (&[1][..], &[5.0][..]));
        assert_eq!(back.row(1), (&[][..], &[][..]));
        assert_eq!(back.row(2), (&[0, 2][..], &[1.0, 2.0][..]));
        assert_eq!(back.labels(), Some(&[1.0, 2.0, 3.0][..]));
    }

    #[test]
    fn lines_out_of_order_are_refused() {
        let make = |starts: &[u64], places: &[u32]| {
            Csr::from_vecs(starts.to_vec(), places.to_vec(), vec![1.0; places.len()], 3, None)
                .map(|x| x.rows())
        };
        assert_eq!(make(&[0, 2, 2], &[0, 2]), Ok(2));
        assert!(make(&[], &[]).is_err());
        assert!(make(&[1, 2], &[0, 2]).is_err());
        assert!(make(&[0, 1], &[0, 2]).is_err());
        assert!(make(&[0, 3, 2], &[0, 2]).is_err());
        assert!(make(&[0, 2], &[2, 0]).is_err());
        assert!(make(&[0, 2], &[1, 1]).is_err());
        assert!(make(&[0, 2], &[1, 3]).is_err());
        assert!(Csr::from_vecs(vec![0, 1], vec![0], vec![1.0], 3, Some(vec![])).is_err());
    }

    #[test]
    fn any_change_of_any_byte_is_refused_or_opens_in_order() {
        let (header, bytes) = matrix().0.to_chunk("csr");
        for at in 0..bytes.len() {
            for flip in 1..=255_u8 {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                if let Ok(x) = Csr::<f64>::open(&header, changed.into()) {
                    for i in 0..x.rows() {
                        assert!(x.row(i).0.iter().all(|column| *column < 3));
                    }
                }
            }
        }
        for shape in
            [[u64::MAX, 3, 3, 1], [3, 3, u64::MAX, 0], [3, 3, 3, 2], [3, u64::MAX, 3, 1], [0, 3, 3, 1]]
        {
            let header = Header { shape: shape.to_vec(), ..header.clone() };
            assert!(Csr::<f64>::open(&header, bytes.clone().into()).is_err(), "{shape:?}");
        }
        assert!(Csc::<f64>::open(&header, bytes.clone().into()).is_err());
        assert!(Csr::<f32>::open(&header, bytes.into()).is_err());
    }
}
