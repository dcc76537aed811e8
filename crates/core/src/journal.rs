//! What happened, in order: the one source for progress, reports and replay.
//!
//! The scheduler says what to note; the driver puts the time to it and keeps the [`Journal`], which forgets its
//! oldest entries when it is full. Numbers that only the driver knows (bytes, time split) are in the [`RoundReport`]
//! that ends a round.

use crate::ids::{Block, HoldId, RoundId, SeatId, Version, WorkerId};
use crate::job::Death;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A worker was started.
    WorkerStarted(WorkerId),
    /// A worker is ready.
    WorkerJoined(WorkerId),
    /// A worker has been silent for long; others get its blocks too.
    WorkerSuspected(WorkerId),
    /// A suspected worker spoke again.
    WorkerReturned(WorkerId),
    /// A worker is gone.
    WorkerLost(WorkerId, Death),
    /// A seat stays empty from now on.
    SeatGivenUp(WorkerId),
    /// A seat is no longer wanted.
    SeatRemoved(SeatId),
    /// A round began.
    RoundStarted {
        /// Which.
        round: RoundId,
        /// How many chunks.
        chunks: u32,
        /// In how many blocks.
        blocks: u32,
    },
    /// Blocks were given out again.
    Retried {
        /// Of which round.
        round: RoundId,
        /// To whom.
        worker: WorkerId,
        /// How many.
        blocks: u32,
    },
    /// Blocks that were not started were taken back, for somebody who is idle.
    Stolen {
        /// Of which round.
        round: RoundId,
        /// From whom.
        worker: WorkerId,
        /// How many.
        blocks: u32,
    },
    /// A late block was given to somebody else, too.
    BackedUp {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
        /// Who is late with it.
        late: WorkerId,
        /// Who has it now, too.
        worker: WorkerId,
    },
    /// A result came that no longer counted.
    Discarded {
        /// Of which round.
        round: RoundId,
        /// From whom.
        worker: WorkerId,
        /// How many blocks it covered.
        blocks: u32,
    },
    /// A round is over.
    RoundOver {
        /// Which.
        round: RoundId,
        /// Whether it has a value.
        finished: bool,
    },
    /// What a finished round cost.
    Report(RoundReport),
    /// A round was not computed: its value was known from an earlier run.
    RoundRecalled {
        /// Which.
        round: RoundId,
    },
    /// The number of workers was chosen, and it is not what it was for such work before.
    WorkersChosen {
        /// From which round on.
        round: RoundId,
        /// How many blocks at once; 0 is the caller's own thread.
        slots: u32,
        /// Why.
        why: String,
    },
    /// The states of a hold were brought home.
    Checkpointed {
        /// Which hold.
        hold: HoldId,
        /// The states as they were then.
        version: Version,
        /// Of how many partitions.
        partitions: u32,
        /// Bytes of them all.
        bytes: u64,
        /// What it took.
        took_us: u64,
    },
    /// A worker made the state of a partition again.
    Restored {
        /// Of which hold.
        hold: HoldId,
        /// For which round.
        round: RoundId,
        /// Who.
        worker: WorkerId,
        /// Which partition.
        partition: u32,
        /// What it began from: a checkpoint, or nothing.
        from: Version,
        /// How many rounds it ran again.
        steps: u32,
    },
    /// Partitions go to a worker that has none.
    Moved {
        /// Of which hold.
        hold: HoldId,
        /// Which partitions.
        partitions: Vec<u32>,
        /// From where.
        from: SeatId,
        /// To where.
        to: SeatId,
    },
}

/// Where the time and the bytes of a round went.
///
/// `total = worker + master + overhead`: the slowest worker's own computing, the master's encoding and combining, and
/// the rest, which is what distribution costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundReport {
    /// Number of the round.
    pub round: u64,
    /// From submission to value.
    pub total_us: u64,
    /// Time that the slowest worker spent in the user's function and in merging, per slot.
    pub worker_us: u64,
    /// Time that the master spent encoding parameters and combining results.
    pub master_us: u64,
    /// The rest.
    pub overhead_us: u64,
    /// Bytes to the workers: messages, parameters, chunks.
    pub bytes_out: u64,
    /// Bytes from the workers: messages and partial results.
    pub bytes_in: u64,
    /// Chunks whose bytes were sent to other hosts, because they were in no cache there.
    pub chunks_sent: u64,
    /// Chunks that workers had at hand.
    pub cache_hits: u64,
    /// Chunks that had to be sent or opened.
    pub cache_misses: u64,
    /// Blocks given out again after a loss.
    pub retries: u64,
    /// Blocks whose results came but no longer counted.
    pub discarded: u64,
    /// Blocks that were taken back before they were started, for workers who were idle.
    pub stolen: u64,
    /// Late blocks that were given to somebody else, too.
    pub backups: u64,
    /// Workers lost while it ran.
    pub lost: u64,
    /// Partitions whose states were made again.
    pub restored: u64,
    /// Rounds that were run again for that, over all those partitions.
    pub replayed: u64,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
}

/// The last entries, oldest first.
#[derive(Debug)]
pub struct Journal {
    entries: VecDeque<Entry>,
    entries_max: usize,
    forgotten: u64,
}

impl Journal {
    /// A journal that remembers so many entries.
    pub fn new(entries_max: usize) -> Self {
        Journal { entries: VecDeque::new(), entries_max: entries_max.max(1), forgotten: 0 }
    }

    /// Adds an entry and forgets the oldest if there is no room.
    pub fn note(&mut self, at: Time, what: What) {
        if self.entries.len() == self.entries_max {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(Entry { at, what });
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// How many entries are no longer here.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_journal_forgets_the_oldest_and_says_how_many() {
        let mut journal = Journal::new(3);
        for n in 0..10 {
            journal.note(Time(n), What::RoundOver { round: RoundId(n), finished: true });
        }
        let left: Vec<u64> = journal.entries().map(|e| e.at.0).collect();
        assert_eq!((left, journal.forgotten()), (vec![7, 8, 9], 7));
    }
}
