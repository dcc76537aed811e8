//! The events of a worker's state machine: past facts.

use crate::ids::{Block, RoundId};
use crate::lease::BlockRange;
use crate::reduce::{Cut, Node};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The master gave blocks.
    TaskReceived {
        /// Of which round.
        round: RoundId,
        /// How that is cut.
        cut: Cut,
        /// Which blocks.
        ranges: Vec<BlockRange>,
        /// Chunks of those blocks that are not here; the body has asked for them.
        missing: Vec<u32>,
        /// Chunks whose states are not here as the round wants them; the body has asked how to make them.
        behind: Vec<u32>,
    },
    /// It is known how to make the states of these chunks.
    RecipesArrived {
        /// For which round.
        round: RoundId,
        /// Their indices.
        chunks: Vec<u32>,
    },
    /// Chunks are here that were missing.
    ChunksArrived {
        /// For which round.
        round: RoundId,
        /// Their indices.
        chunks: Vec<u32>,
    },
    /// A block has been run and its value offered to the tree.
    BlockFinished {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
    },
    /// A block failed in user code or data; the body has reported it.
    BlockFailed {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
    },
    /// The finished subtrees were taken out of the tree.
    Collected {
        /// Of which round.
        round: RoundId,
        /// Which.
        nodes: Vec<Node>,
    },
    /// The master asks for blocks that are not started.
    RecallReceived {
        /// Of which round.
        round: RoundId,
        /// How many at most.
        blocks: u32,
    },
    /// The master has given a block that is here to somebody else, too.
    ApartReceived {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
    },
    /// The master says that a round is over.
    CancelReceived {
        /// Which.
        round: RoundId,
    },
    /// Time passed.
    Ticked,
}
