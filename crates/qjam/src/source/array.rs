//! Arrays of any element type and number of dimensions, cut along the first: what Python's arrays are to us.
//!
//! The bytes come from an array that lives in the user's interpreter, or from a file. Small arrays are copied into
//! shared memory, where child interpreters map them without another copy; large ones stay where they are (`memory`).
//! Either way their owner may write to them between rounds, so [`Array::refresh`] looks: a small one is compared with its
//! copy, of a large one the checksum of every chunk was kept. Only chunks that differ are named again.
//!
//! The checksum is fast and not cryptographic. It guards against change, not against an adversary, who would be the
//! user; names stay cryptographic.

use super::cut::{Rule, python_chunk_bytes, rows_in};
use super::memory::Memory;
use super::place::{Backing, ChunkEntry, Place, UserFile, spread};
use super::{DataError, Source};
use crate::chunk::{Element, Header};
use crate::dataset::DataSet;
use crate::python::Raw;
use crate::store::Region;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// Arrays up to this size are copied into shared memory.
const COPY_BYTES_MAX: usize = 64 << 20;

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
struct Rows {
    backing: Backing,
    start: u64,
    layout: Layout,
    row_bytes: u64,
}

impl Rows {
    fn over(backing: Backing, start: u64, layout: Layout, found: u64) -> Result<Rows, DataError> {
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
    fn pieces(&self, rule: Rule) -> Result<Vec<(Header, u64)>, DataError> {
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

fn rule(slice_size: Option<u64>) -> Rule {
    slice_size.map_or(Rule::Standard, Rule::Records)
}

/// An array in a file, from `offset` on.
pub(crate) fn open(
    path: &Path,
    offset: u64,
    layout: Layout,
    slice_size: Option<u64>,
) -> Result<DataSet<Raw>, DataError> {
    let file = UserFile::open(path)?;
    let found = file.bytes();
    DataSet::cut(Arc::new(Rows::over(Backing::File(file), offset, layout, found)?), rule(slice_size))
}

/// An array in the user's memory that nobody writes to while the data set is in use, in so many chunks.
pub(crate) fn parts(memory: Bytes, layout: Layout, chunks: u64) -> Result<DataSet<Raw>, DataError> {
    if chunks == 0 {
        return Err(DataError::ZeroCut { what: "0 partitions" });
    }
    let rows = Rows::over(backing(&memory)?, 0, layout, memory.len() as u64)?;
    DataSet::cut(Arc::new(rows), Rule::Partitions(chunks))
}

fn backing(memory: &Bytes) -> Result<Backing, DataError> {
    Ok(match memory.len() <= COPY_BYTES_MAX {
        true => Backing::Shared(copy(memory)?),
        false => Backing::Memory(Memory::over(memory.clone())),
    })
}

/// An array in the user's memory as a data set, and what is needed to notice that it was written to.
#[derive(Debug)]
pub struct Array {
    memory: Bytes,
    layout: Layout,
    slice_size: Option<u64>,
    watch: Watch,
    set: DataSet<Raw>,
}

/// How changes are noticed.
#[derive(Debug)]
enum Watch {
    /// Nobody can write to it.
    Not,
    /// By comparing with the copy that the data set lies in.
    Copy,
    /// By the checksums of the chunks.
    Sums(Vec<u128>),
}

impl Array {
    /// Cuts and names an array, `slice_size` rows to a chunk or as fits its size. `may_change`: whether anybody may
    /// write to the memory as long as the data set is in use.
    ///
    /// ```
    /// use qjam::python::{Array, Layout};
    /// let layout =
    ///     Layout { kind: "ndarray".into(), dtype: "<i2".into(), shape: vec![3, 2], item_bytes: 2 };
    /// let array = Array::new(vec![0; 12].into(), layout, Some(2), false)?;
    /// assert_eq!((array.set().records(), array.set().len()), (3, 2));
    /// # Ok::<(), qjam::DataError>(())
    /// ```
    pub fn new(
        memory: Bytes,
        layout: Layout,
        slice_size: Option<u64>,
        may_change: bool,
    ) -> Result<Array, DataError> {
        if slice_size == Some(0) {
            return Err(DataError::ZeroCut { what: "chunks of 0 records" });
        }
        let is_small = memory.len() <= COPY_BYTES_MAX;
        let backing = backing(&memory)?;
        let rows = Rows::over(backing, 0, layout.clone(), memory.len() as u64)?;
        let watch = match (may_change, is_small) {
            (false, _) => Watch::Not,
            (true, true) => Watch::Copy,
            // Summed before it is named: what changes in between is seen the next time.
            (true, false) => Watch::Sums(sums(&memory, &rows.pieces(rule(slice_size))?)),
        };
        let set = DataSet::cut(Arc::new(rows), rule(slice_size))?;
        Ok(Array { memory, layout, slice_size, watch, set })
    }

    /// The data set.
    pub fn set(&self) -> &DataSet<Raw> {
        &self.set
    }

    /// The same cut in memory that other processes can map. What is copied is compared with what was named, because the
    /// copy is what will be used from then on.
    pub fn shared(&self) -> Result<DataSet<Raw>, DataError> {
        let shared = self.set.shared()?;
        if let Watch::Sums(sums) = &self.watch {
            let chunks: Vec<_> = shared.erased().chunks.iter().zip(sums).collect();
            let same = spread(&chunks, shared.bytes(), |(chunk, sum)| {
                chunk.load().is_ok_and(|bytes| xxh3_128(&bytes) == **sum)
            });
            if let Some(index) = same.iter().position(|same| !same) {
                return Err(DataError::ChangedMeanwhile { index });
            }
        }
        Ok(shared)
    }

    /// The same array in another cut.
    pub fn recut(&self, slice_size: Option<u64>) -> Result<Array, DataError> {
        let may_change = !matches!(self.watch, Watch::Not);
        Array::new(self.memory.clone(), self.layout.clone(), slice_size, may_change)
    }

    /// Whether the memory is no longer what was named.
    pub fn changed(&self) -> bool {
        let chunks = &self.set.erased().chunks;
        match &self.watch {
            Watch::Not => false,
            Watch::Copy => spread(chunks, self.memory.len() as u64, |chunk| {
                let Place::Shared { region, offset } = &chunk.place else { return true };
                let range = *offset as usize..(*offset + chunk.header.bytes) as usize;
                region.bytes(range.clone()) != self.memory[range]
            })
            .contains(&true),
            Watch::Sums(sums) => self.sums_now() != *sums,
        }
    }

    /// Looks whether the memory is still what was named; where it is not, chunks get their new names. Says whether that
    /// was so.
    pub fn refresh(&mut self) -> Result<bool, DataError> {
        let Array { memory, layout, .. } = &*self;
        let now = match &self.watch {
            Watch::Not => return Ok(false),
            Watch::Copy if !self.changed() => return Ok(false),
            Watch::Copy => Backing::Shared(copy(memory)?),
            Watch::Sums(_) => {
                let Some(Place::Memory { memory, .. }) =
                    self.set.erased().chunks.first().map(|chunk| &chunk.place)
                else {
                    return Ok(false);
                };
                Backing::Memory(memory.again())
            }
        };
        let rows = Rows::over(now, 0, layout.clone(), memory.len() as u64)?;
        let pieces = rows.pieces(rule(self.slice_size))?;
        let before = &self.set.erased().chunks;
        let (changed, new_sums) = match &self.watch {
            Watch::Sums(old) => {
                let new = self.sums_now();
                if new == *old {
                    return Ok(false);
                }
                (old.iter().zip(&new).map(|(old, new)| old != new).collect(), Some(new))
            }
            _ => {
                // The new copy with the old one: the memory itself may change at any moment.
                let differs = |chunk: &Arc<ChunkEntry>| {
                    let (Place::Shared { region, offset }, Backing::Shared(now)) =
                        (&chunk.place, &rows.backing)
                    else {
                        return true;
                    };
                    let range = *offset as usize..(*offset + chunk.header.bytes) as usize;
                    region.bytes(range.clone()) != now.bytes(range)
                };
                (spread(before, memory.len() as u64, differs), None)
            }
        };
        let again: Vec<_> = pieces.into_iter().zip(before.iter().zip(changed)).collect();
        let entries = spread(&again, memory.len() as u64, |((header, offset), (before, changed))| {
            let id = if *changed { rows.backing.name_one(header, *offset)? } else { before.id };
            Ok(ChunkEntry { id, header: header.clone(), place: rows.backing.place(*offset) })
        });
        let entries = entries.into_iter().collect::<Result<Vec<_>, DataError>>()?;
        self.set = DataSet::of_chunks(entries, Arc::new(rows));
        if let Some(new) = new_sums {
            self.watch = Watch::Sums(new);
        }
        Ok(true)
    }

    fn sums_now(&self) -> Vec<u128> {
        let pieces: Vec<(Header, u64)> =
            self.set.erased().chunks.iter().map(|c| (c.header.clone(), offset(c))).collect();
        sums(&self.memory, &pieces)
    }
}

/// Where a chunk starts in the user's memory.
fn offset(chunk: &ChunkEntry) -> u64 {
    match &chunk.place {
        Place::Shared { offset, .. } | Place::File { offset, .. } | Place::Memory { offset, .. } => *offset,
    }
}

fn copy(memory: &[u8]) -> Result<Region, DataError> {
    Region::copy_of(memory).map_err(|source| DataError::Memory { bytes: memory.len() as u64, source })
}

fn sums(memory: &[u8], pieces: &[(Header, u64)]) -> Vec<u128> {
    spread(pieces, memory.len() as u64, |(header, offset)| {
        xxh3_128(&memory[*offset as usize..(offset + header.bytes) as usize])
    })
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
    let pieces: Vec<&[u8]> = memory.chunks(4 << 20).collect();
    let sums = spread(&pieces, memory.len() as u64, |piece| xxh3_128(piece).to_le_bytes());
    xxh3_128(&sums.concat())
}

#[cfg(test)]
mod tests;
