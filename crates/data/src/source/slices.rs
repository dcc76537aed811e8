//! Slices of Python objects, each pickled as one chunk.
//!
//! A chunk is a pickle of protocol 5 with the memory of its arrays behind it, so that whoever maps the chunk unpickles
//! arrays without copying them:
//!
//! ```text
//!   length of the pickle, number of buffers, length of each buffer      (u64, little-endian)
//!   the pickle
//!   each buffer, at the next multiple of 64
//! ```
//!
//! The user's slices are the chunks: only Python could put two of them together, so there is no other cut.

use super::cut::Rule;
use super::location::{Backing, ChunkEntry};
use super::{DataError, Source};
use crate::chunk::Header;
use crate::store::{Region, RegionWriter};
use std::io::{BufWriter, Write};

/// Where buffers and chunks start.
const ALIGN: u64 = 64;

/// Takes slices in, one after the other, and makes a data set of them.
///
/// ```
/// use qjam::python::Slices;
/// let mut slices = Slices::new()?;
/// slices.push(30, b"a pickle", &[&[1, 2, 3]])?;
/// slices.push(12, b"another", &[])?;
/// let set = slices.finish()?;
/// assert_eq!((set.records(), set.len()), (42, 2));
/// # Ok::<(), qjam::DataError>(())
/// ```
pub struct Slices {
    out: BufWriter<RegionWriter>,
    at: u64,
    pieces: Vec<(Header, u64)>,
    records: u64,
}

impl Slices {
    /// None yet.
    pub fn new() -> Result<Slices, DataError> {
        let writer = RegionWriter::create().map_err(|source| DataError::Memory { bytes: 0, source })?;
        let out = BufWriter::with_capacity(1 << 16, writer);
        Ok(Slices { out, at: 0, pieces: Vec::new(), records: 0 })
    }

    /// The next slice: how many records it has, its pickle, and the memory of the arrays in it.
    pub fn push(&mut self, records: u64, stream: &[u8], buffers: &[&[u8]]) -> Result<(), DataError> {
        self.pad(ALIGN)?;
        let start = self.at;
        each_part(stream, buffers, |part| self.write(part))?;
        let header = Header {
            kind: "pickle5".into(),
            dtype: String::new(),
            shape: vec![records, buffers.len() as u64],
            bytes: self.at - start,
        };
        self.pieces.push((header, start));
        self.records += records;
        Ok(())
    }

    /// All slices so far, as a source.
    pub(crate) fn written(self) -> Result<Pickles, DataError> {
        let Slices { out, at, pieces, records } = self;
        if pieces.is_empty() {
            return Err(DataError::Empty { what: "slices" });
        }
        let failed = |source| DataError::Memory { bytes: at, source };
        let writer = out.into_inner().map_err(|error| failed(error.into_error()))?;
        let region = writer.seal().map_err(failed)?;
        Ok(Pickles { region, pieces, records })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let at = self.at;
        self.out.write_all(bytes).map_err(|source| DataError::Memory { bytes: at, source })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn pad(&mut self, align: u64) -> Result<(), DataError> {
        self.write(&[0; ALIGN as usize][..(self.at.next_multiple_of(align) - self.at) as usize])
    }
}

/// Goes through the bytes of a chunk in order.
fn each_part<E>(
    stream: &[u8],
    buffers: &[&[u8]],
    mut part: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let lengths = [stream.len(), buffers.len()].into_iter().chain(buffers.iter().map(|b| b.len()));
    let front: Vec<u8> = lengths.flat_map(|n| (n as u64).to_le_bytes()).collect();
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        at += bytes.len();
        part(bytes).map(|()| at)
    };
    put(&front)?;
    let mut at = put(stream)?;
    for buffer in buffers {
        put(&[0; ALIGN as usize][..at.next_multiple_of(ALIGN as usize) - at])?;
        at = put(buffer)?;
    }
    Ok(())
}

/// Whether a chunk is exactly this slice.
pub(crate) fn is_slice(chunk: &[u8], stream: &[u8], buffers: &[&[u8]]) -> bool {
    let mut rest = chunk;
    let matched = each_part(stream, buffers, |part| {
        let (front, behind) = rest.split_at_checked(part.len()).ok_or(())?;
        rest = behind;
        if front == part { Ok(()) } else { Err(()) }
    });
    matched.is_ok() && rest.is_empty()
}

/// Slices in shared memory.
pub(crate) struct Pickles {
    region: Region,
    pieces: Vec<(Header, u64)>,
    records: u64,
}

impl Source for Pickles {
    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(header, _)| header.bytes).sum()
    }

    fn cut(&self, _: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        if self.pieces.len() > u32::MAX as usize {
            return Err(DataError::TooManyChunks { chunks: self.pieces.len() as u64 });
        }
        Backing::Shared(self.region.clone()).name(self.pieces.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_where_they_can_be_used_in_place() {
        let mut slices = Slices::new().unwrap();
        slices.push(1, b"x", &[]).unwrap();
        slices.push(2, b"stream", &[&[1; 100], &[], &[2; 64]]).unwrap();
        let set = slices.finish().unwrap();
        let chunk = set.chunk(1).unwrap();
        assert_eq!(chunk.bytes.as_ptr() as usize % 64, 0);
        let number = |at: usize| u64::from_le_bytes(chunk.bytes[8 * at..][..8].try_into().unwrap());
        assert_eq!([0, 1, 2, 3, 4].map(number), [6, 3, 100, 0, 64]);
        assert_eq!(chunk.bytes[40..46], *b"stream");
        assert_eq!(chunk.bytes[64..164], [1; 100]);
        assert_eq!(chunk.bytes[192..], [2; 64]);
        assert_eq!(chunk.header.shape, [2, 3]);
    }

    #[test]
    fn a_chunk_is_compared_with_a_slice_part_by_part() {
        let mut slices = Slices::new().unwrap();
        slices.push(1, b"stream", &[&[1; 100], &[2; 3]]).unwrap();
        let set = slices.finish().unwrap();
        let check = |stream: &[u8], buffers: &[&[u8]], expected| {
            assert_eq!(set.is_slice(0, stream, buffers), expected);
        };
        check(b"stream", &[&[1; 100], &[2; 3]], true);
        check(b"Stream", &[&[1; 100], &[2; 3]], false);
        check(b"stream", &[&[1; 100], &[2; 4]], false);
        check(b"stream", &[&[1; 100]], false);
        check(b"stream", &[&[1; 99], &[2; 3]], false);
        check(b"stream", &[&[1; 100], &[2; 3], &[]], false);
        assert!(!set.is_slice(1, b"stream", &[]));
    }

    #[test]
    fn no_slices_make_no_data_set() {
        assert!(matches!(Slices::new().unwrap().finish(), Err(DataError::Empty { .. })));
    }
}
