//! Chunks that a worker has opened, kept while there is room.
//!
//! An opened chunk over shared memory costs nothing to keep; one read from a file or decoded from records takes memory.
//! Room is made before a chunk is read, so that what is kept never passes its bound. What was used in this round or the
//! one before stays; a chunk for which there is no room beside it is read, used and dropped. A learner goes over all of
//! its data in every round, and dropping the one used longest ago would then drop each chunk just before it is
//! wanted: this way, of data a quarter larger than the bound, four fifths are found here and not none.

use super::own_limit;
use crate::chunk::{ChunkError, ChunkId, Header};
use crate::function::{AnyShared, Erased};
use crate::source::DataError;
use crate::source::location::{ChunkEntry, ChunkLocation};
use bytes::Bytes;
use qjam_core::ids::RoundId;
use qjam_core::job::{Fault, FaultKind};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Mutex;

/// Opened chunks by name and by what they were opened as.
#[derive(Debug)]
pub(crate) struct OpenChunks {
    bytes_max: u64,
    /// Whether this process is there for user code only.
    is_expendable: bool,
    kept: Mutex<OpenSet>,
}

#[derive(Debug, Default)]
struct OpenSet {
    chunks: HashMap<(ChunkId, TypeId), KeptChunk>,
    /// Of those, and of those that are being opened to be kept.
    bytes: u64,
    /// The round in which nothing more was found that could go. Nothing that is used in it becomes old in it.
    barren: Option<RoundId>,
}

#[derive(Debug)]
struct KeptChunk {
    value: AnyShared,
    bytes: u64,
    used: RoundId,
    /// The chunk that it was opened from, or derived from.
    source: ChunkId,
}

/// Opens the bytes of a chunk.
type Opener<'a> = dyn Fn(&Header, Bytes) -> Result<AnyShared, ChunkError> + 'a;

impl OpenChunks {
    pub(crate) fn new(bytes_max: u64) -> Self {
        OpenChunks { bytes_max, is_expendable: false, kept: Mutex::default() }
    }

    /// In a process for user code only: when there is no memory for a chunk, it ends, as at any other allocation that
    /// fails, and the chunk is tried again in a new one. In the master's own process it is the round that fails.
    pub(crate) fn expendable(bytes_max: u64) -> Self {
        OpenChunks { is_expendable: true, ..OpenChunks::new(bytes_max) }
    }

    /// The chunk, opened for this function; also whether it was here already.
    pub(crate) fn get(
        &self,
        function: &dyn Erased,
        entry: &ChunkEntry,
        round: RoundId,
    ) -> Result<(AnyShared, bool), Fault> {
        let opener = |header: &Header, bytes: Bytes| function.open_chunk(header, bytes);
        self.get_as(function.chunk_type(), &opener, entry, round)
    }

    /// The same for whoever knows how to open it, and as what.
    pub(crate) fn get_as(
        &self,
        chunk_type: TypeId,
        opener: &Opener<'_>,
        entry: &ChunkEntry,
        round: RoundId,
    ) -> Result<(AnyShared, bool), Fault> {
        // Memory of the user's own may be written to between rounds and then has another name. A view of it kept under
        // the old one would be a lie, and making it costs nothing.
        if matches!(entry.place, ChunkLocation::Memory { .. }) {
            return self.open(opener, entry).map(|value| (value, true));
        }
        let key = (entry.id, chunk_type);
        let cost = cost(&entry.header, &entry.place);
        let keeps = {
            let mut kept = self.lock();
            if let Some(chunk) = kept.chunks.get_mut(&key) {
                chunk.used = round;
                return Ok((chunk.value.clone(), true));
            }
            kept.make_room(self.bytes_max, cost, round)
        };
        let opened = self.open(opener, entry);
        if keeps {
            let mut kept = self.lock();
            let value = opened.as_ref().ok().cloned();
            let before = value.and_then(|value| {
                kept.insert(key, KeptChunk { value, bytes: cost, used: round, source: entry.id })
            });
            // Two slots may have opened it at once.
            kept.bytes -= if opened.is_err() { cost } else { before.unwrap_or(0) };
        }
        opened.map(|value| (value, false))
    }

    /// A chunk of a derived data set, if it is here.
    pub(crate) fn derived(&self, key: (ChunkId, TypeId), round: RoundId) -> Option<AnyShared> {
        let mut kept = self.lock();
        let chunk = kept.chunks.get_mut(&key)?;
        chunk.used = round;
        Some(chunk.value.clone())
    }

    /// Keeps a chunk of a derived data set and its length, if there is or can be room, for as long as the chunk is known that
    /// it was made from.
    pub(crate) fn keep_derived(
        &self,
        key: (ChunkId, TypeId),
        source: ChunkId,
        (value, bytes): (AnyShared, u64),
        round: RoundId,
    ) {
        let mut kept = self.lock();
        if kept.make_room(self.bytes_max, bytes, round) {
            let before = kept.insert(key, KeptChunk { value, bytes, used: round, source });
            kept.bytes -= before.unwrap_or(0);
        }
    }

    /// Drops what was opened of these chunks, and what was derived from them.
    pub(crate) fn forget(&self, gone: impl Fn(&ChunkId) -> bool) {
        let mut kept = self.lock();
        let mut freed = 0;
        kept.chunks.retain(|_, chunk| {
            let keep = !gone(&chunk.source);
            freed += if keep { 0 } else { chunk.bytes };
            keep
        });
        kept.bytes -= freed;
    }

    /// Reads a chunk and makes the view of it that a function takes. Chunks that are only kept make way for it.
    fn open(&self, opener: &Opener<'_>, entry: &ChunkEntry) -> Result<AnyShared, Fault> {
        let fault = |message: String| Fault {
            kind: FaultKind::Chunk,
            chunk: None,
            message,
            location: None,
            backtrace: None,
            carried: Vec::new(),
        };
        let loaded = entry.load().or_else(|error| match error {
            DataError::ChunkMemory { .. } => {
                self.forget(|_| true);
                entry.load()
            }
            other => Err(other),
        });
        if let (Err(DataError::ChunkMemory { bytes, .. }), true) = (&loaded, self.is_expendable) {
            own_limit::refuse(*bytes, "for a chunk to be read from a file");
        }
        let bytes = loaded.map_err(|e| fault(e.to_string()))?;
        opener(&entry.header, bytes).map_err(|e| fault(e.to_string()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenSet> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl OpenSet {
    /// Puts a chunk in; gives the bytes of the one that was there under its name.
    fn insert(&mut self, key: (ChunkId, TypeId), chunk: KeptChunk) -> Option<u64> {
        self.chunks.insert(key, chunk).map(|old| old.bytes)
    }

    /// Sets room aside for so many bytes, if there is or can be some. Drops what was used longest ago, and an eighth
    /// more than needed, so that not every chunk pays for a search.
    fn make_room(&mut self, bytes_max: u64, bytes: u64, round: RoundId) -> bool {
        let fits = |kept: &OpenSet, spare: u64| kept.bytes.saturating_add(bytes) <= bytes_max - spare;
        if !fits(self, 0) && bytes <= bytes_max && self.barren != Some(round) {
            let is_old = |chunk: &KeptChunk| chunk.bytes > 0 && chunk.used.0.saturating_add(1) < round.0;
            let mut old: Vec<(RoundId, (ChunkId, TypeId))> = self
                .chunks
                .iter()
                .filter(|(_, chunk)| is_old(chunk))
                .map(|(key, c)| (c.used, *key))
                .collect();
            old.sort_unstable_by_key(|(used, _)| *used);
            for (_, key) in old {
                if fits(self, bytes_max / 8) {
                    break;
                }
                self.bytes -= self.chunks.remove(&key).map_or(0, |chunk| chunk.bytes);
            }
            self.barren = (!fits(self, 0)).then_some(round);
        }
        let fits = fits(self, 0);
        self.bytes += if fits { bytes } else { 0 };
        fits
    }
}

/// What keeping an opened chunk costs: nothing for a view over memory that is there anyway.
fn cost(header: &Header, place: &ChunkLocation) -> u64 {
    match place {
        ChunkLocation::Shared { .. } if header.kind != "list" => 0,
        _ => header.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::DataSet;
    use crate::{Dense, Job};
    use std::sync::Arc;

    fn first(_: &(), x: &Dense<u8>) -> u64 {
        u64::from(x.as_slice()[0])
    }

    /// Ten chunks of 100 bytes in a file.
    fn ten(name: &str, value: u8) -> (std::path::PathBuf, DataSet<Dense<u8>>) {
        let path = std::env::temp_dir().join(format!("qjam-open-{name}-{}", std::process::id()));
        std::fs::write(&path, (0..1000).map(|n| value + (n / 100) as u8).collect::<Vec<u8>>()).unwrap();
        let data = DataSet::<Dense<u8>>::raw(&path, 1).unwrap().chunk_records(100).unwrap();
        (path, data)
    }

    /// Goes over all chunks; says how many were found, and sees that the bound holds all along.
    fn pass(open: &OpenChunks, data: &DataSet<Dense<u8>>, round: u64) -> usize {
        let function = first.erase();
        let one = |entry| {
            let (_, found) = open.get(&*function, entry, RoundId(round)).unwrap();
            let kept = open.lock();
            let bytes: u64 = kept.chunks.values().map(|chunk| chunk.bytes).sum();
            assert!(bytes == kept.bytes && bytes <= open.bytes_max, "{bytes} of {}", open.bytes_max);
            found
        };
        data.erased().chunks.iter().filter(|entry| one(entry)).count()
    }

    #[test]
    fn data_larger_than_the_bound_is_found_as_far_as_there_is_room() {
        let (path, data) = ten("room", 0);
        let open = OpenChunks::new(800);
        assert_eq!((0..4).map(|round| pass(&open, &data, round)).collect::<Vec<_>>(), [0, 8, 8, 8]);
        let nothing = OpenChunks::new(99);
        assert_eq!((0..3).map(|round| pass(&nothing, &data, round)).sum::<usize>(), 0);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_not_used_any_more_makes_room() {
        let (one, first) = ten("one", 0);
        let (other, second) = ten("other", 100);
        let open = OpenChunks::new(1000);
        assert_eq!([pass(&open, &first, 0), pass(&open, &first, 1)], [0, 10]);
        // The round after, the first may still be wanted; then no longer.
        assert_eq!([2, 3, 4].map(|round| pass(&open, &second, round)), [0, 0, 10]);
        assert_eq!(pass(&open, &first, 5), 0);
        for path in [one, other] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_chunk_that_cannot_be_read_takes_no_room() {
        let (path, data) = ten("gone", 0);
        let open = OpenChunks::new(1000);
        std::fs::remove_file(path).unwrap();
        let function = first.erase();
        for entry in &data.erased().chunks {
            assert!(open.get(&*function, entry, RoundId(0)).is_err());
        }
        assert_eq!(open.lock().bytes, 0);
    }

    #[test]
    fn what_was_derived_is_kept_within_the_bound_and_goes_with_its_source() {
        let open = OpenChunks::new(1000);
        let id = |n: u8| ChunkId([n; 32]);
        let key = |n: u8| (id(n), TypeId::of::<u64>());
        let keep = |n: u8, source: u8, bytes, round| {
            open.keep_derived(key(n), id(source), (Arc::new(u64::from(n)), bytes), RoundId(round));
        };
        keep(1, 101, 600, 0);
        keep(2, 102, 600, 0); // no room beside the first
        assert!(open.derived(key(1), RoundId(0)).is_some() && open.derived(key(2), RoundId(0)).is_none());
        keep(1, 101, 600, 0); // made twice at once
        assert_eq!(open.lock().bytes, 600);
        keep(3, 103, 900, 9); // the first is old by now
        assert!(open.derived(key(1), RoundId(9)).is_none());
        let value = open.derived(key(3), RoundId(9)).unwrap();
        assert_eq!(value.downcast_ref(), Some(&3_u64));
        open.forget(|source| *source == id(103));
        assert!(open.derived(key(3), RoundId(9)).is_none() && open.lock().bytes == 0);
    }
}
