//! Blocks as they are given out and as they come back.
//!
//! The scheduler gives out blocks in [`BlockRun`]s, workers keep account in them, and a worker that is asked to gives
//! blocks back as [`Returned`]. Both machines and the messages between them use these types.

use crate::ids::{Attempt, Block};
use serde::{Deserialize, Serialize};

/// Neighbouring blocks that were given out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRun {
    /// First block.
    pub first: Block,
    /// How many.
    pub len: u32,
    /// Which attempt this is, the same for all of them.
    pub attempt: Attempt,
    /// Whether to run it with nothing else at stake: a block that killed before takes no finished work with it.
    pub alone: bool,
    /// Whether another worker has it, too: its value is delivered by itself, since only one of the two will count.
    pub apart: bool,
}

impl BlockRun {
    /// The blocks.
    pub fn blocks(&self) -> std::ops::Range<Block> {
        self.first..self.first.saturating_add(self.len)
    }
}

/// What a worker gives back of a round, and how it stands with the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Blocks that were not started, and never will be under these attempts.
    pub spans: Vec<BlockRun>,
    /// How many more are not started.
    pub unstarted: u32,
    /// Blocks that are being run, and for how many microseconds.
    pub running: Vec<(Block, u64)>,
}
