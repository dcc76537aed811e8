//! Future events, in the order of virtual time.

use crate::letters::{Inboxes, Posted};
use qjam_core::ids::{Block, RoundId, SeatId, Version, WorkerId};
use qjam_core::job::{Cause, Death, Fault};
use qjam_core::lease::{BlockRange, Returned};
use qjam_core::reduce::Node;
use qjam_core::time::{self, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A message to a worker's process.
#[derive(Clone, Debug)]
pub(crate) enum ToExecutor {
    /// With the version of the states it begins with, if it needs any, and whether its blocks find mail.
    Task {
        round: RoundId,
        ranges: Vec<BlockRange>,
        base: Option<(Version, bool)>,
    },
    /// A recipe for each of some partitions.
    Recipe {
        round: RoundId,
        recipes: Vec<(u32, StateRecipe)>,
    },
    Refs {
        dataset: u32,
        chunks: Vec<u32>,
    },
    Cancel {
        round: RoundId,
    },
    Recall {
        round: RoundId,
        blocks: u32,
    },
    Apart {
        round: RoundId,
        block: Block,
    },
    Ping,
}

/// How a state is rebuilt, and what mail its partition finds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateRecipe {
    /// What it begins with, if it is not the chunk alone.
    pub(crate) checkpoint: Option<(Version, u64)>,
    /// The rounds since.
    pub(crate) steps: Vec<RoundId>,
    pub(crate) mail: Inboxes,
}

/// The root of a finished subtree in transit.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) node: Node,
    pub(crate) ranges: Vec<BlockRange>,
    pub(crate) value: Posted,
}

/// A message to the master's process.
#[derive(Clone, Debug)]
pub(crate) enum ToMaster {
    Hello,
    Running,
    Pong,
    Blocked { dataset: u32, chunks: Vec<u32> },
    Behind { round: RoundId, partitions: Vec<u32>, only_mail: bool },
    Result { round: RoundId, parts: Vec<Part>, busy: time::Span },
    Error { round: RoundId, fault: Fault },
    Cancelled { round: RoundId },
    Returned { round: RoundId, returned: Returned },
}

/// One step of the run.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    // In the master's process.
    Heard { from: WorkerId, message: ToMaster },
    LossLearned { worker: WorkerId, death: Death },
    TickDue,
    SeatAsked { seat: SeatId },
    SeatDropped { seat: SeatId },
    StartExpired { worker: WorkerId },
    Submitted { round: RoundId },
    CancelAsked { round: RoundId },
    MergeFailed { round: RoundId, fault: Fault },

    // In a worker's process.
    Ready { executor: WorkerId },
    Arrived { executor: WorkerId, message: ToExecutor },
    FunctionEnded { executor: WorkerId, run: u64 },
    MergeEnded { executor: WorkerId, run: u64 },
    Reported { executor: WorkerId, run: u64 },
    CollectEnded { executor: WorkerId, round: RoundId },
    Beat { executor: WorkerId },
    CutLearned { executor: WorkerId },
    Poisoned { executor: WorkerId, round: RoundId, block: Block },

    // To them.
    Continued { executor: WorkerId },
    Killed { worker: WorkerId, cause: Cause },
    LinkExpired { worker: WorkerId },
    Struck { fault: usize },
}

impl Happening {
    /// The worker process in which it happens, if any: it waits while the process is stopped, and ends with it.
    pub(crate) fn executor(&self) -> Option<WorkerId> {
        match *self {
            Happening::Ready { executor }
            | Happening::Arrived { executor, .. }
            | Happening::FunctionEnded { executor, .. }
            | Happening::MergeEnded { executor, .. }
            | Happening::Reported { executor, .. }
            | Happening::CollectEnded { executor, .. }
            | Happening::Beat { executor }
            | Happening::CutLearned { executor }
            | Happening::Poisoned { executor, .. } => Some(executor),
            _ => None,
        }
    }

    /// Whether it happens in the master's process: it waits while that is stalled.
    pub(crate) fn is_masters(&self) -> bool {
        matches!(
            self,
            Happening::Heard { .. }
                | Happening::LossLearned { .. }
                | Happening::TickDue
                | Happening::SeatAsked { .. }
                | Happening::SeatDropped { .. }
                | Happening::StartExpired { .. }
                | Happening::Submitted { .. }
                | Happening::CancelAsked { .. }
                | Happening::MergeFailed { .. }
        )
    }
}

struct Entry {
    at: Time,
    /// Orders events with the same time.
    turn: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.turn) == (other.at, other.turn)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.turn).cmp(&(other.at, other.turn))
    }
}

/// All future events.
#[derive(Default)]
pub(crate) struct Queue {
    entries: BinaryHeap<Reverse<Entry>>,
    turns: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, what: Happening) {
        self.turns += 1;
        self.entries.push(Reverse(Entry { at, turn: self.turns, what }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Happening)> {
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}
