//! Chunks of any kind, as bytes with their header: what functions of other languages run on.

use super::{Chunk, ChunkError, Header};
use bytes::Bytes;

/// A chunk that nobody has looked into yet.
#[derive(Clone, Debug)]
pub struct Raw {
    /// What the bytes are.
    pub header: Header,
    /// The bytes, where they lie.
    pub bytes: Bytes,
}

impl Chunk for Raw {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        if header.bytes != bytes.len() as u64 {
            return Err(ChunkError::Bytes { expected: header.bytes, found: bytes.len() as u64 });
        }
        Ok(Raw { header: header.clone(), bytes })
    }
}
