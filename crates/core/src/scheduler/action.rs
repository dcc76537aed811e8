//! The actions of the scheduler: imperatives, which the master's loop carries out in order.

use crate::ids::{Block, PartId, RoundId, WorkerId};
use crate::job::{Cause, RoundFailure};
use crate::journal::What;
use crate::lease::BlockRange;
use crate::reduce::Node;

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start this incarnation; answer with `WorkerJoined` or `WorkerLost`.
    Start {
        /// Which.
        worker: WorkerId,
    },
    /// End this worker and answer with `WorkerLost`.
    Kill {
        /// Which.
        worker: WorkerId,
        /// Why.
        cause: Cause,
    },
    /// Ping a worker.
    Ping {
        /// Which.
        worker: WorkerId,
    },
    /// Give blocks to a worker.
    Assign {
        /// To whom.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// Which blocks.
        ranges: Vec<BlockRange>,
    },
    /// Tell a worker that a round has ended.
    Cancel {
        /// Whom.
        worker: WorkerId,
        /// Which round.
        round: RoundId,
        /// Whether it need not hurry: the round has its value, and the worker was only late.
        is_patient: bool,
    },
    /// Ask a worker to return blocks that it has not started, and to report its progress; answer with `Returned`.
    Recall {
        /// Whom.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// How many at most.
        blocks: u32,
    },
    /// Tell a worker that another worker also has one of its blocks: it must deliver that block unmerged.
    Apart {
        /// Whom.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
    },
    /// A delivered part counts: merge it.
    Accept {
        /// Its number.
        part: PartId,
        /// Of which round.
        round: RoundId,
        /// Which subtree.
        node: Node,
    },
    /// A delivered part does not count: drop it.
    Discard {
        /// Its number.
        part: PartId,
        /// Of which round.
        round: RoundId,
        /// Which subtree.
        node: Node,
    },
    /// All blocks of a round are merged: return its value to the user.
    Finish {
        /// Which.
        round: RoundId,
    },
    /// A round failed: return the reason to the user.
    Fail {
        /// Which.
        round: RoundId,
        /// Why.
        failure: RoundFailure,
    },
    /// No worker has anything of this round any more: release its resources.
    Close {
        /// Which.
        round: RoundId,
    },
    /// Write this into the journal.
    Note(What),
}
