//! The events of the scheduler: past facts.

use crate::ids::{HoldId, PartId, RoundId, SeatId, WorkerId};
use crate::job::{Death, Fault, RoundSpec};
use crate::lease::{BlockRange, Returned};
use crate::reduce::Node;
use crate::time;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The user added a seat.
    SeatAdded {
        /// Where.
        seat: SeatId,
        /// Number of slots, until its worker reports it.
        slots: u32,
        /// Whether it is on another host: the engine then enforces the deadlines of each step of a start and reports the result, and
        /// a loss may be a temporary problem of the network.
        remote: bool,
    },
    /// The user removed a seat, and its worker has been ended. Its number is never reused.
    SeatRemoved {
        /// Which.
        seat: SeatId,
    },
    /// A started worker has completed the handshake.
    WorkerJoined {
        /// Which.
        worker: WorkerId,
        /// Number of its slots.
        slots: u32,
    },
    /// A worker sent a message that is otherwise irrelevant to the scheduler.
    WorkerSpoke {
        /// Which.
        worker: WorkerId,
    },
    /// A worker ended, or could not be started. Also the answer to every [`Kill`](super::Action::Kill).
    WorkerLost {
        /// Which.
        worker: WorkerId,
        /// How.
        death: Death,
    },
    /// The user submitted a round.
    RoundSubmitted {
        /// Its number, never used before.
        round: RoundId,
        /// What it is.
        spec: RoundSpec,
    },
    /// The user cancelled a round.
    RoundCancelled {
        /// Which.
        round: RoundId,
    },
    /// The user dropped a hold.
    HoldDropped {
        /// Which.
        hold: HoldId,
    },
    /// A worker delivered the root of a finished subtree.
    PartDelivered {
        /// Its number, never used before; the verdict refers to it.
        part: PartId,
        /// Who.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// Which subtree.
        node: Node,
        /// The blocks under it, with their attempts.
        ranges: Vec<BlockRange>,
    },
    /// A worker reports its computing time for blocks that it is about to deliver.
    Computed {
        /// Who.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// How many blocks.
        blocks: u32,
        /// Time of its busiest slot.
        span: time::Span,
    },
    /// A worker returned blocks that it had not started, and reported its progress.
    Returned {
        /// Who.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// What.
        returned: Returned,
    },
    /// User code or user data failed, on a worker or (`None`) while the master combined results.
    Faulted {
        /// Who says so.
        worker: Option<WorkerId>,
        /// In which round.
        round: RoundId,
        /// What.
        fault: Fault,
    },
    /// A worker dropped a round, as it was told.
    RoundLetGo {
        /// Who.
        worker: WorkerId,
        /// Which round.
        round: RoundId,
    },
    /// Time passed.
    Ticked,
}
