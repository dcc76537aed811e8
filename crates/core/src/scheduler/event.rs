//! What can happen to the scheduler. Events are past facts.

use crate::ids::{HoldId, PartId, RoundId, SeatId, WorkerId};
use crate::job::{Death, Fault, RoundSpec};
use crate::lease::{BlockRun, Returned};
use crate::reduce::Node;
use crate::time;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The user asked for a worker here that runs so many blocks at once.
    SeatAdded {
        /// Where.
        seat: SeatId,
        /// How many at once, until its worker says otherwise.
        slots: u32,
        /// Whether it is on another host: whoever starts workers there keeps the deadlines of each step and reports
        /// in the end, and a loss may pass with the trouble of a network.
        remote: bool,
    },
    /// The user no longer wants a seat, and whoever was there has been ended. Its name is never used again.
    SeatRemoved {
        /// Which.
        seat: SeatId,
    },
    /// A started worker is through the handshake.
    WorkerJoined {
        /// Which.
        worker: WorkerId,
        /// How many blocks it runs at once.
        slots: u32,
    },
    /// A worker said something that is of no other interest here.
    WorkerSpoke {
        /// Which.
        worker: WorkerId,
    },
    /// A worker is gone, or could not be started. The answer to every [`Kill`](super::Action::Kill), too.
    WorkerLost {
        /// Which.
        worker: WorkerId,
        /// How.
        death: Death,
    },
    /// The user asked for a round.
    RoundSubmitted {
        /// Its number, never used before.
        round: RoundId,
        /// What it is.
        spec: RoundSpec,
    },
    /// The user does not want a round any more.
    RoundCancelled {
        /// Which.
        round: RoundId,
    },
    /// Nobody will ask for these states again.
    HoldDropped {
        /// Which.
        hold: HoldId,
    },
    /// A worker handed over the root of a finished subtree.
    PartDelivered {
        /// The number that the verdict names it by, never used before.
        part: PartId,
        /// Who.
        worker: WorkerId,
        /// Of which round.
        round: RoundId,
        /// Which subtree.
        node: Node,
        /// The blocks under it, as they were given out.
        spans: Vec<BlockRun>,
    },
    /// What a worker is about to hand over took it so long.
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
    /// A worker gave back blocks that it had not started, and said how it stands with the rest.
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
    /// A worker dropped what it had of a round, as it was told.
    RoundLetGo {
        /// Who.
        worker: WorkerId,
        /// Which round.
        round: RoundId,
    },
    /// Time passed.
    Ticked,
}
