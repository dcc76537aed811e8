//! Arrays of any element type and number of dimensions, cut along the first: what Python's arrays are to us.
//!
//! The bytes come from an array that lives in the user's interpreter, or from a file. Small arrays are copied into
//! shared memory, where child interpreters map them without another copy; large ones stay where they are (`memory`) until
//! they have been left alone for a round (`dataset::array`).

use super::cut::{Rule, python_chunk_bytes, rows_in};
use super::location::{Backing, ChunkEntry, UserFile, spread};
use super::memory::UserMemory;
use super::{DataError, Source};
use crate::chunk::{Element, Header};
use crate::store::{Region, traffic};
use bytes::Bytes;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// Arrays up to this size are copied into shared memory.
pub(crate) const COPY_BYTES_MAX: usize = 64 << 20;

/// What an array is: how its chunks are opened, and how its bytes are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How Python opens a chunk: `ndarray`, `matrix`, and both with `.T` for the transposed view.
    pub kind: String,
    /// The element type as NumPy writes it.
    pub dtype: String,
    /// Length of every dimension; the first is cut.
    pub shape: Vec<u64>,
    /// Bytes of one element.
    pub item_bytes: u64,
}

impl Layout {
    /// Bytes of one row, and of all; `None` when they cannot be counted.
    fn bytes(&self) -> Option<(u64, u64)> {
        let (rows, rest) = self.shape.split_first()?;
        let row = rest.iter().try_fold(self.item_bytes, |bytes, n| bytes.checked_mul(*n))?;
        Some((row, row.checked_mul(*rows)?))
    }

    /// The header of so many rows. Matrices of the element types that learners in Rust know are such as these take.
    fn header(&self, rows: u64, row_bytes: u64) -> Header {
        if let ("ndarray", &[_, cols], Some(dtype)) =
            (self.kind.as_str(), &self.shape[..], dense_dtype(&self.dtype))
            && cols > 0
        {
            return Header::dense(dtype, rows, cols);
        }
        let mut shape = self.shape.clone();
        shape[0] = rows;
        Header { kind: self.kind.clone(), dtype: self.dtype.clone(), shape, bytes: rows * row_bytes }
    }
}

fn dense_dtype(numpy: &str) -> Option<&'static str> {
    fn names<T: Element>() -> (&'static str, &'static str) {
        (T::NPY, T::DTYPE)
    }
    let known = [names::<f32>(), names::<f64>(), names::<i32>(), names::<i64>(), names::<u8>()];
    known.into_iter().find(|(npy, _)| *npy == numpy).map(|(_, dtype)| dtype)
}

/// The rows of an array, wherever they lie.
pub(crate) struct Rows {
    pub(crate) backing: Backing,
    start: u64,
    layout: Layout,
    row_bytes: u64,
}

impl Rows {
    pub(crate) fn over(backing: Backing, start: u64, layout: Layout, found: u64) -> Result<Rows, DataError> {
        let (row_bytes, bytes) =
            layout.bytes().ok_or_else(|| DataError::Array { shape: layout.shape.clone(), found })?;
        if layout.shape.first() == Some(&0) {
            return Err(DataError::Empty { what: "rows" });
        }
        if start.checked_add(bytes).is_none_or(|end| end > found) {
            return Err(DataError::Array { shape: layout.shape, found });
        }
        Ok(Rows { backing, start, layout, row_bytes })
    }

    /// What every chunk is and where it starts.
    pub(crate) fn pieces(&self, rule: Rule) -> Result<Vec<(Header, u64)>, DataError> {
        let standard = standard_rows(self.bytes(), self.row_bytes);
        let mut at = self.start;
        let pieces = rule.counts(self.records(), standard)?.map(|rows| {
            let header = self.layout.header(rows, self.row_bytes);
            let start = at;
            at += header.bytes;
            (header, start)
        });
        Ok(pieces.collect())
    }
}

impl Source for Rows {
    fn records(&self) -> u64 {
        self.layout.shape[0]
    }

    fn bytes(&self) -> u64 {
        self.records() * self.row_bytes
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        self.backing.name(self.pieces(rule)?)
    }
}

/// An array in a file, from `offset` on.
pub(crate) fn open(path: &Path, offset: u64, layout: Layout) -> Result<Rows, DataError> {
    let file = UserFile::open(path)?;
    let found = file.bytes();
    Rows::over(Backing::File(file), offset, layout, found)
}

/// What became of an array's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residence {
    /// It is shared memory already, and nobody can write to it.
    Sealed,
    /// It was copied into shared memory.
    Copied,
    /// It is read where it is.
    InPlace,
}

/// An array in the user's memory.
pub(crate) fn over(memory: &Bytes, layout: Layout) -> Result<(Rows, Residence), DataError> {
    let found = memory.len() as u64;
    let (backing, start, residence) = match Region::around(memory) {
        Some((region, start)) => (Backing::Shared(region), start as u64, Residence::Sealed),
        None if memory.len() <= COPY_BYTES_MAX => (Backing::Shared(copy(memory)?), 0, Residence::Copied),
        None => (Backing::Memory(UserMemory::over(memory.clone())), 0, Residence::InPlace),
    };
    Ok((Rows::over(backing, start, layout, start + found)?, residence))
}

pub(crate) fn copy(memory: &[u8]) -> Result<Region, DataError> {
    traffic::note_copied(memory.len() as u64);
    Region::copy_of(memory).map_err(|source| DataError::Memory { bytes: memory.len() as u64, source })
}

/// Rows in a chunk of Python's when nobody says how many, for rows of about this length in so many bytes.
///
/// ```
/// use qjam::python::standard_rows;
/// assert_eq!(standard_rows(1 << 30, 8 * 128), 4096); // chunks of 4 MiB
/// ```
pub fn standard_rows(bytes: u64, row_bytes: u64) -> u64 {
    rows_in(python_chunk_bytes(bytes), row_bytes)
}

/// A fast checksum of any memory, by all cores: whether two are the same says whether it was written to.
///
/// ```
/// use qjam::python::checksum;
/// assert_ne!(checksum(&[1, 2, 3]), checksum(&[1, 2, 4]));
/// ```
pub fn checksum(memory: &[u8]) -> u128 {
    traffic::note_summed(memory.len() as u64);
    let pieces: Vec<&[u8]> = memory.chunks(4 << 20).collect();
    let sums = spread(&pieces, memory.len() as u64, |piece| xxh3_128(piece).to_le_bytes());
    xxh3_128(&sums.concat())
}
