//! The actions of a worker's state machine: imperatives, carried out in order by the executor or thread around it.

use crate::ids::{Attempt, Block, RoundId};
use crate::lease::{BlockRange, Returned};
use crate::reduce::Node;

/// A finished subtree and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The subtree.
    pub node: Node,
    /// Its blocks and the attempts they were given out as.
    pub ranges: Vec<BlockRange>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run a block in a free slot; answer with `BlockFinished` or `BlockFailed`.
    Run {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
        /// As which attempt.
        attempt: Attempt,
    },
    /// Take the finished subtrees out of the tree; answer with `Collected`.
    Collect {
        /// Of which round.
        round: RoundId,
    },
    /// Send what was collected.
    Send {
        /// Of which round.
        round: RoundId,
        /// In the order of `Collected`.
        parts: Vec<Delivery>,
    },
    /// Keep this block by itself in the tree: it is not to be merged with its neighbours.
    SetApart {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
    },
    /// Tell the master what is given back, and how it stands with the rest.
    Return {
        /// Of which round.
        round: RoundId,
        /// What.
        returned: Returned,
    },
    /// Nothing of this round is left here: drop its tree and its parameters.
    Forget {
        /// Which.
        round: RoundId,
    },
    /// Tell the master that the round was dropped.
    LetGo {
        /// Which.
        round: RoundId,
    },
    /// The master asked for something impossible: say why and leave.
    Protest {
        /// Why.
        why: String,
    },
}
