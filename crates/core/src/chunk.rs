//! A chunk is an immutable piece of a data set, named by its content and nothing else.
//!
//! A chunk is a small [`Header`] (kind, element type, shape) and one buffer of bytes. Its name, the [`ChunkId`], is
//! the BLAKE3 hash of both. So the same rows have the same name in every process, on every host and in every run; a changed row
//! changes the name; and a damaged byte is found by hashing again.
//!
//! Data sets create and open chunks in other crates; this crate only names them.
//!
//! ```
//! use qjam_core::chunk::{ChunkId, Header};
//! let header = Header::dense("f64", 1, 2);
//! let a = ChunkId::of(&header, &[0; 16]);
//! assert_eq!(a, ChunkId::of(&header, &[0; 16]));
//! assert_ne!(a, ChunkId::of(&Header::dense("f64", 2, 1), &[0; 16]));
//! ```

use crate::ids::DataSetId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum size of a chunk in bytes. A header with a larger size is refused before anything is allocated.
pub const CHUNK_BYTES_MAX: u64 = 1 << 36;

/// The name of a chunk: the hash of its header and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChunkId(pub [u8; 32]);

/// Describes the bytes of a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Header {
    /// Which kind of chunk: `dense`, `list`, `lines`, `nothing`.
    pub kind: String,
    /// Type of the elements: `f64`, `u8`, or the name of the record's type for lists.
    pub dtype: String,
    /// Rows and columns for a matrix; number of records for a list or for lines.
    pub shape: Vec<u64>,
    /// Length of the buffer in bytes.
    pub bytes: u64,
}

impl Header {
    /// The header of a dense row-major matrix.
    pub fn dense(dtype: &str, rows: u64, cols: u64) -> Self {
        let width = match dtype {
            "u8" | "i8" => 1,
            "f32" | "i32" | "u32" => 4,
            _ => 8,
        };
        Header {
            kind: "dense".into(),
            dtype: dtype.into(),
            shape: vec![rows, cols],
            bytes: rows * cols * width,
        }
    }
}

impl Header {
    /// How many records the chunk has: the first number of every shape. A task without data is one.
    pub fn records(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }
}

impl ChunkId {
    /// Hashes a chunk. Every field of the header is preceded by its length, so that different chunks have different input.
    pub fn of(header: &Header, buffer: &[u8]) -> Self {
        let mut hasher = Hasher::new(header);
        hasher.update(buffer);
        hasher.finish()
    }
}

/// Hashes a chunk whose bytes arrive piece by piece.
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Starts with the header.
    pub fn new(header: &Header) -> Self {
        let mut h = blake3::Hasher::new();
        h.update(b"qjam chunk 1\0");
        for text in [&header.kind, &header.dtype] {
            h.update(&(text.len() as u64).to_le_bytes());
            h.update(text.as_bytes());
        }
        h.update(&(header.shape.len() as u64).to_le_bytes());
        for n in header.shape.iter().chain([&header.bytes]) {
            h.update(&n.to_le_bytes());
        }
        Hasher(h)
    }

    /// Adds the next bytes of the buffer.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The name.
    pub fn finish(self) -> ChunkId {
        ChunkId(*self.0.finalize().as_bytes())
    }
}

impl DataSetId {
    /// The hash of the names of all chunks, in order.
    pub fn of<'a>(chunks: impl IntoIterator<Item = &'a ChunkId>) -> Self {
        let mut h = blake3::Hasher::new();
        h.update(b"qjam data set 1\0");
        for chunk in chunks {
            h.update(&chunk.0);
        }
        DataSetId(*h.finalize().as_bytes())
    }
}

pub(crate) fn short_hex(hash: &[u8; 32]) -> String {
    hash[..6].iter().map(|b| format!("{b:02x}")).collect()
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short_hex(&self.0))
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkId({self})")
    }
}

impl fmt::Debug for DataSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataSetId({})", short_hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_depends_on_every_part_of_the_header() {
        let base = Header { kind: "list".into(), dtype: "u8".into(), shape: vec![3], bytes: 4 };
        let name = ChunkId::of(&base, b"abcd");
        for other in [
            Header { kind: "lines".into(), ..base.clone() },
            Header { dtype: "u16".into(), ..base.clone() },
            Header { shape: vec![4], ..base.clone() },
            Header { shape: vec![3, 1], ..base.clone() },
        ] {
            assert_ne!(name, ChunkId::of(&other, b"abcd"), "{other:?}");
        }
        assert_ne!(name, ChunkId::of(&base, b"abce"));
    }

    #[test]
    fn name_does_not_depend_on_how_the_bytes_come() {
        let header = Header::dense("u8", 10, 10);
        let bytes: Vec<u8> = (0..100).collect();
        let mut hasher = Hasher::new(&header);
        bytes.chunks(7).for_each(|piece| hasher.update(piece));
        assert_eq!(hasher.finish(), ChunkId::of(&header, &bytes));
    }
}
