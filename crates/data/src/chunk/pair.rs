//! Two chunks side by side: the same records of two data sets.
//!
//! The bytes are the two headers, as postcard writes them, then the bytes of the left chunk and those of the right one,
//! each from the next multiple of 64 on. Both are seen where they lie.

use super::{Chunk, ChunkError, Header, expect_kind};
use bytes::Bytes;
use std::fmt;

/// Where the bytes of either chunk start.
pub(crate) const ALIGN: u64 = 64;

/// A chunk of each of two data sets that were [zipped](crate::DataSet::zip).
///
/// ```
/// use qjam::{Dense, List, Pair};
///
/// #[qjam::map]
/// fn of_class(class: &str, rows: &Pair<Dense<f64>, List<String>>) -> f64 {
///     let labelled = rows.left.rows_iter().zip(&rows.right);
///     labelled.filter(|(_, label)| *label == class).map(|(row, _)| row[0]).sum()
/// }
///
/// let rows = Dense::from_vec(vec![1.0, 2.0, 4.0], 1).unwrap();
/// let labels = List::from_vec(["a", "b", "a"].map(String::from).into());
/// assert_eq!(of_class("a", &Pair { left: rows, right: labels }), 5.0);
/// ```
#[derive(Clone)]
pub struct Pair<A, B> {
    /// The chunk of the data set that was zipped.
    pub left: A,
    /// The chunk of the one that it was zipped with.
    pub right: B,
}

/// The header of two chunks together, and where their bytes begin.
pub(crate) struct PairLayout {
    pub(crate) header: Header,
    /// What is in front of the bytes of both.
    pub(crate) front: Vec<u8>,
    pub(crate) left_at: u64,
    pub(crate) right_at: u64,
}

impl PairLayout {
    /// Of chunks with these headers.
    pub(crate) fn of(left: &Header, right: &Header) -> PairLayout {
        let front = postcard::to_stdvec(&(left, right)).expect("names and numbers can be encoded");
        let left_at = (front.len() as u64).next_multiple_of(ALIGN);
        let right_at = (left_at + left.bytes).next_multiple_of(ALIGN);
        let header = Header {
            kind: "pair".into(),
            dtype: String::new(),
            shape: vec![left.records()],
            bytes: right_at + right.bytes,
        };
        PairLayout { header, front, left_at, right_at }
    }
}

impl<A: Chunk, B: Chunk> Chunk for Pair<A, B> {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        let &[records] = expect_kind(header, &bytes, "pair")?;
        let wrong = || ChunkError::Shape { kind: "pair", shape: header.shape.clone(), bytes: header.bytes };
        let (left, right): (Header, Header) =
            postcard::take_from_bytes(&bytes).map(|(headers, _)| headers).map_err(|_| wrong())?;
        let is_inside = |part: &Header| part.bytes <= header.bytes;
        if !(is_inside(&left) && is_inside(&right)) {
            return Err(wrong());
        }
        let PairLayout { header: whole, left_at, right_at, .. } = PairLayout::of(&left, &right);
        if whole.bytes != header.bytes || whole.shape != [records] {
            return Err(wrong());
        }
        let part = |from: u64, bytes_there: u64| bytes.slice(from as usize..(from + bytes_there) as usize);
        Ok(Pair {
            left: A::open(&left, part(left_at, left.bytes))?,
            right: B::open(&right, part(right_at, right.bytes))?,
        })
    }
}

impl<A: fmt::Debug, B: fmt::Debug> fmt::Debug for Pair<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pair({:?}, {:?})", self.left, self.right)
    }
}
