//! Blocks as they are assigned and returned.
//!
//! The scheduler assigns blocks in [`BlockRange`]s, workers keep track of them, and a worker that is asked to returns blocks as
//! [`Returned`]. Both state machines and the messages between them use these types.

use crate::ids::{Attempt, Block};
use serde::{Deserialize, Serialize};

/// Neighbouring blocks that were assigned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRange {
    /// First block.
    pub first: Block,
    /// How many.
    pub len: u32,
    /// The attempt, the same for all of them.
    pub attempt: Attempt,
    /// Whether to run it alone: if a block that killed before kills again, no other work is lost.
    pub alone: bool,
    /// Whether another worker has it as well: its value is delivered unmerged, because only one of the two counts.
    pub apart: bool,
}

impl BlockRange {
    /// The blocks.
    pub fn blocks(&self) -> std::ops::Range<Block> {
        self.first..self.first.saturating_add(self.len)
    }
}

/// Blocks that a worker returns, and its progress with the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Blocks that it has not started, and will not start under these attempts.
    pub ranges: Vec<BlockRange>,
    /// Number of further blocks not started.
    pub unstarted: u32,
    /// Running blocks, with their run time in microseconds.
    pub running: Vec<(Block, u64)>,
}
