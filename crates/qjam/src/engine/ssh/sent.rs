//! What a host has been told and sent: names of chunks, parameters of rounds, and chunks on their way.

use crate::chunk::ChunkId;
use crate::executor_process::KnownChunks;
use qjam_core::ids::{DataSetId, RoundId};
use std::collections::{HashMap, HashSet};

/// What a host has, as far as the master has sent it.
#[derive(Default)]
pub(super) struct SentData {
    /// Chunks that its executor knows by name.
    pub(super) known: KnownChunks,
    /// Data sets that any of its executors has been told of.
    pub(super) sets: HashSet<DataSetId>,
    /// Rounds whose parameters it has, or is being sent.
    pub(super) params: HashSet<RoundId>,
    /// Chunks on their way, by ticket, and their names.
    chunks: HashMap<u64, (DataSetId, u32, ChunkId)>,
    leaving: HashSet<ChunkId>,
    next_ticket: u64,
}

impl SentData {
    /// A ticket for a chunk that is to be sent; none if it is on its way.
    pub(super) fn ticket(&mut self, dataset: DataSetId, index: u32, id: ChunkId) -> Option<u64> {
        if !self.leaving.insert(id) {
            return None;
        }
        self.next_ticket += 1;
        self.chunks.insert(self.next_ticket, (dataset, index, id));
        Some(self.next_ticket)
    }

    /// A chunk is no longer on its way; gives its data set and index.
    pub(super) fn left(&mut self, ticket: u64) -> Option<(DataSetId, u32)> {
        let (dataset, index, id) = self.chunks.remove(&ticket)?;
        self.leaving.remove(&id);
        Some((dataset, index))
    }
}
