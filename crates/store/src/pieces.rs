//! Small chunks that travel together, where every blob costs a request.
//!
//! Which chunks do follows from their order, names and lengths alone. So submitter and workers find the same without a word: a run of
//! neighbours that are small is one blob, with their contents one after the other, named by a hash of their names. A chunk that
//! has none beside it is a blob of its own name.

use qjam_core::chunk::{ChunkId, Header};
use std::ops::Range;

/// Chunks of this length travel alone.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;

/// Chunks that are one blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The name of the blob.
    pub(crate) id: ChunkId,
    /// Which chunks of the data set.
    pub(crate) chunks: Range<u32>,
    /// Its length.
    pub(crate) bytes: u64,
}

/// The pieces of a data set, in its order. None is longer than `bytes_max`, except for single chunks; 0 keeps all chunks apart.
pub(crate) fn pieces<'a>(chunks: impl Iterator<Item = (ChunkId, &'a Header)>, bytes_max: u64) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut names = blake3::Hasher::new();
    for ((id, header), index) in chunks.zip(0..) {
        let is_small = header.bytes < SMALL_BYTES;
        match pieces.last_mut() {
            Some(last)
                if bytes_max > 0 && is_small && last.bytes + header.bytes <= bytes_max && last.is_open() =>
            {
                if last.chunks.len() == 1 {
                    names = blake3::Hasher::new();
                    names.update(b"qjam piece").update(&last.id.0);
                }
                names.update(&id.0);
                last.chunks.end = index + 1;
                last.bytes += header.bytes;
                last.id = ChunkId(*names.finalize().as_bytes());
            }
            _ => pieces.push(Piece { id, chunks: index..index + 1, bytes: header.bytes }),
        }
    }
    pieces
}

impl Piece {
    /// Whether others may join: it is no single chunk that travels alone.
    fn is_open(&self) -> bool {
        self.chunks.len() > 1 || self.bytes < SMALL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[u64], bytes_max: u64) -> Vec<(Range<u32>, u64)> {
        let headers: Vec<(ChunkId, Header)> = lengths
            .iter()
            .zip(0..)
            .map(|(bytes, n)| (ChunkId([n; 32]), Header::dense("u8", *bytes, 1)))
            .collect();
        let found = pieces(headers.iter().map(|(id, header)| (*id, header)), bytes_max);
        for piece in &found {
            let is_alone = piece.chunks.len() == 1;
            assert_eq!(is_alone, piece.id == ChunkId([piece.chunks.start as u8; 32]), "{piece:?}");
        }
        found.into_iter().map(|piece| (piece.chunks, piece.bytes)).collect()
    }

    #[test]
    fn small_neighbours_travel_together() {
        assert_eq!(of(&[], 100), []);
        assert_eq!(of(&[10, 20, 30], 0), [(0..1, 10), (1..2, 20), (2..3, 30)]);
        assert_eq!(of(&[10, 20, 30, 50], 60), [(0..3, 60), (3..4, 50)]);
        let large = SMALL_BYTES;
        assert_eq!(
            of(&[1, large, 2, 3, large, large], 1 << 20),
            [(0..1, 1), (1..2, large), (2..4, 5), (4..5, large), (5..6, large)]
        );
        assert_eq!(of(&[0; 5], 1), [(0..5, 0)]);
        assert_eq!(of(&[0, 0], 0), [(0..1, 0), (1..2, 0)]);
    }

    #[test]
    fn another_chunk_is_another_piece() {
        let header = Header::dense("u8", 8, 1);
        let id_of = |names: &[u8]| {
            let chunks: Vec<ChunkId> = names.iter().map(|n| ChunkId([*n; 32])).collect();
            pieces(chunks.iter().map(|id| (*id, &header)), 100)[0].id
        };
        let ids = [id_of(&[1, 2]), id_of(&[2, 1]), id_of(&[1, 2, 3]), id_of(&[1, 3])];
        assert!(ids.iter().all(|id| ids.iter().filter(|other| *other == id).count() == 1));
        assert_eq!(id_of(&[1, 2]), id_of(&[1, 2]));
    }
}
