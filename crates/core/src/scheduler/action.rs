//! What the scheduler wants done. Actions are imperatives, carried out in order by whoever drives it.

use crate::ids::{Block, PartId, RoundId, WorkerId};
use crate::job::{Cause, RoundFailure};
use crate::journal::What;
use crate::lease::BlockRun;
use crate::reduce::Node;

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start this incarnation; answer with `WorkerJoined` or `WorkerLost`.
    Start {
        /// Which.
        worker: WorkerId,
    },
    /// End this worker, whatever it does, and answer with `WorkerLost`.
    Kill {
        /// Which.
        worker: WorkerId,
        /// Why.
        cause: Cause,
    },
    /// Ask a worker for a sign of life.
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
        spans: Vec<BlockRun>,
    },
    /// Tell a worker that a round is over.
    Cancel {
        /// Whom.
        worker: WorkerId,
        /// Which round.
        round: RoundId,
        /// Whether it may take its time: the round has its value, and the worker was merely late.
        is_patient: bool,
    },
    /// Ask a worker to give back blocks it has not started, and to say how it stands; answer with `Returned`.
    Recall {
        /// Whom.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// How many at most.
        blocks: u32,
    },
    /// Tell a worker that somebody else has one of its blocks, too: it is to deliver that by itself.
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
    /// All blocks of a round are in: hand its value to the user.
    Finish {
        /// Which.
        round: RoundId,
    },
    /// A round failed: hand the reason to the user.
    Fail {
        /// Which.
        round: RoundId,
        /// Why.
        failure: RoundFailure,
    },
    /// No worker has anything of this round any more: what was kept for it can go.
    Close {
        /// Which.
        round: RoundId,
    },
    /// Write this into the journal.
    Note(What),
}
