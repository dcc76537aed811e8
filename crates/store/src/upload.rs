//! How the data of a round comes into a bucket.

use crate::pieces::{Piece, SMALL_BYTES};
use crate::{Bucket, StoreError, job};
use bytes::Bytes;
use qjam::engine::{Failure, Order};
use qjam_core::bucket::race::for_each;
use qjam_core::bucket::{RoundAt, Storage};
use qjam_core::chunk::ChunkId;
use qjam_core::job::{Fault, FaultKind};
use std::cell::Cell;
use std::ops::Range;

/// So many blobs of chunks are on the way into the bucket at a time.
const PIECES_AT_ONCE: usize = 8;

/// Puts pieces of a round's data into the bucket, as far as they are not there. `stops` is asked before each, and `arrived` is told of
/// each. Returns how many chunks were new, and their bytes.
pub(crate) async fn upload(
    bucket: &Bucket,
    at: &RoundAt,
    order: &Order,
    pieces: Vec<Piece>,
    stops: &dyn Fn() -> bool,
    arrived: impl Fn(ChunkId),
) -> Result<(u64, u64), Failure> {
    // Said before they are there, so that nobody removes them meanwhile.
    let used: Vec<u8> = pieces.iter().flat_map(|piece| piece.id.0).collect();
    bucket.put(&job::used_key(at), used.into()).await.map_err(engine)?;
    let (count, bytes) = (Cell::new(0), Cell::new(0));
    let put = |piece: Piece| {
        let (count, bytes, arrived) = (&count, &bytes, &arrived);
        async move {
            if stops() {
                return Err(Failure::Cancelled);
            }
            // Of a small one, asking costs as much as sending.
            let is_there = piece.bytes >= SMALL_BYTES && bucket.has_chunk(&piece.id).await.map_err(engine)?;
            let chunks = piece.chunks.len() as u64;
            let content = || content(order, piece.chunks.clone());
            if !is_there && bucket.put_chunk(&piece.id, content()?).await.map_err(engine)? {
                count.set(count.get() + chunks);
                bytes.set(bytes.get() + piece.bytes);
            }
            arrived(piece.id);
            Ok(())
        }
    };
    for_each(pieces, PIECES_AT_ONCE, put).await?;
    Ok((count.get(), bytes.get()))
}

/// The contents of neighbouring chunks, one after the other.
pub(crate) fn content(order: &Order, chunks: Range<u32>) -> Result<Bytes, Failure> {
    if chunks.len() == 1 {
        return chunk(order, chunks.start);
    }
    let mut all = Vec::new();
    for index in chunks {
        all.extend_from_slice(&chunk(order, index)?);
    }
    Ok(all.into())
}

fn chunk(order: &Order, index: u32) -> Result<Bytes, Failure> {
    order.chunk(index).map_err(|e| Fault::new(FaultKind::Chunk, e.to_string()).into())
}

/// A bucket that cannot be used, as a round is told.
pub(crate) fn engine(error: StoreError) -> Failure {
    Failure::Engine(error.to_string())
}
