//! Chunks that a worker has opened, kept while there is room.
//!
//! An opened chunk over shared memory costs nothing to keep; one read from a file or decoded from records takes memory,
//! so the ones used longest ago are dropped when the bytes go over the bound. A data set larger than that is read again
//! every round, chunk by chunk.

use crate::chunk::{ChunkId, Header};
use crate::function::{AnyShared, Erased};
use crate::source::place::{ChunkEntry, Place};
use qjam_core::job::{Fault, FaultKind};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Mutex;

/// Opened chunks by name and by what they were opened as.
#[derive(Debug)]
pub(crate) struct OpenChunks {
    bytes_max: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    chunks: HashMap<(ChunkId, TypeId), KeptChunk>,
    bytes: u64,
    clock: u64,
}

#[derive(Debug)]
struct KeptChunk {
    value: AnyShared,
    bytes: u64,
    used: u64,
}

impl OpenChunks {
    pub(crate) fn new(bytes_max: u64) -> Self {
        OpenChunks { bytes_max, kept: Mutex::default() }
    }

    /// The chunk, opened for this function; also whether it was here already.
    pub(crate) fn get(&self, function: &dyn Erased, entry: &ChunkEntry) -> Result<(AnyShared, bool), Fault> {
        let key = (entry.id, function.chunk_type());
        {
            let mut kept = self.lock();
            kept.clock += 1;
            let now = kept.clock;
            if let Some(chunk) = kept.chunks.get_mut(&key) {
                chunk.used = now;
                return Ok((chunk.value.clone(), true));
            }
        }
        let fault = |message: String| Fault {
            kind: FaultKind::Chunk,
            chunk: None,
            message,
            location: None,
            backtrace: None,
        };
        let bytes = entry.load().map_err(|e| fault(e.to_string()))?;
        let value = function.open_chunk(&entry.header, bytes).map_err(|e| fault(e.to_string()))?;
        let cost = cost(&entry.header, &entry.place);
        let mut kept = self.lock();
        let now = kept.clock;
        if let Some(old) = kept.chunks.insert(key, KeptChunk { value: value.clone(), bytes: cost, used: now })
        {
            kept.bytes -= old.bytes; // two slots opened it at once
        }
        kept.bytes += cost;
        if kept.bytes > self.bytes_max {
            kept.shrink(self.bytes_max, key);
        }
        Ok((value, false))
    }

    /// Drops what was opened of these chunks.
    pub(crate) fn forget(&self, gone: impl Fn(&ChunkId) -> bool) {
        let mut kept = self.lock();
        let mut freed = 0;
        kept.chunks.retain(|(id, _), chunk| {
            let keep = !gone(id);
            freed += if keep { 0 } else { chunk.bytes };
            keep
        });
        kept.bytes -= freed;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Kept {
    /// Drops the oldest until an eighth is free again, so that not every chunk pays for a search.
    fn shrink(&mut self, bytes_max: u64, keep: (ChunkId, TypeId)) {
        let mut by_age: Vec<(u64, (ChunkId, TypeId))> = self
            .chunks
            .iter()
            .filter(|(k, c)| **k != keep && c.bytes > 0)
            .map(|(k, c)| (c.used, *k))
            .collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_age {
            if self.bytes <= bytes_max - bytes_max / 8 {
                break;
            }
            if let Some(chunk) = self.chunks.remove(&key) {
                self.bytes -= chunk.bytes;
            }
        }
    }
}

/// What keeping an opened chunk costs: nothing for a view over memory that is there anyway.
fn cost(header: &Header, place: &Place) -> u64 {
    match place {
        Place::Shared { .. } if header.kind != "list" => 0,
        _ => header.bytes,
    }
}
