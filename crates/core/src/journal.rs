//! The journal: events of a run in order, the source of progress, reports and replay.
//!
//! Comes in: notes of the scheduler, with the time added by the master's loop. Goes out: entries for users and the run file. The
//! [`Journal`] is bounded and drops its oldest entries. Figures that only the loop knows (bytes, times) are in the [`RoundReport`]
//! that ends a round.

use crate::ids::{Block, HoldId, RoundId, SeatId, Version, WorkerId};
use crate::job::Death;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A worker was started.
    WorkerStarted(WorkerId),
    /// A worker is ready.
    WorkerJoined(WorkerId),
    /// A worker is suspected because of silence; other workers also get its blocks.
    WorkerSuspected(WorkerId),
    /// A suspected worker sent a message again.
    WorkerReturned(WorkerId),
    /// A worker was lost.
    WorkerLost(WorkerId, Death),
    /// A seat was given up.
    SeatGivenUp(WorkerId),
    /// A seat was removed.
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
    /// Blocks were assigned again.
    Retried {
        /// Of which round.
        round: RoundId,
        /// To whom.
        worker: WorkerId,
        /// How many.
        blocks: u32,
    },
    /// Blocks that were not started were taken back, for an idle worker.
    Stolen {
        /// Of which round.
        round: RoundId,
        /// From whom.
        worker: WorkerId,
        /// How many.
        blocks: u32,
    },
    /// A late block was also assigned to another worker.
    BackedUp {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
        /// The late worker.
        late: WorkerId,
        /// The other worker.
        worker: WorkerId,
    },
    /// A result arrived that no longer counted.
    Discarded {
        /// Of which round.
        round: RoundId,
        /// From whom.
        worker: WorkerId,
        /// How many blocks it covered.
        blocks: u32,
    },
    /// A round ended.
    RoundOver {
        /// Which.
        round: RoundId,
        /// Whether it has a value.
        finished: bool,
    },
    /// The report of a finished round.
    Report(RoundReport),
    /// A round was not computed: its value was recorded in an earlier run.
    RoundRecalled {
        /// Which.
        round: RoundId,
    },
    /// The number of workers chosen for a kind of work has changed.
    WorkersChosen {
        /// From which round on.
        round: RoundId,
        /// Number of slots; 0 is the caller's own thread.
        slots: u32,
        /// Why.
        why: String,
    },
    /// A checkpoint of the states of a hold was made.
    Checkpointed {
        /// Which hold.
        hold: HoldId,
        /// Their version.
        version: Version,
        /// Number of partitions.
        partitions: u32,
        /// Total bytes.
        bytes: u64,
        /// Duration.
        took_us: u64,
    },
    /// A worker rebuilt the state of a partition.
    Restored {
        /// Of which hold.
        hold: HoldId,
        /// For which round.
        round: RoundId,
        /// Who.
        worker: WorkerId,
        /// Which partition.
        partition: u32,
        /// The version it started from: a checkpoint, or the initial state.
        from: Version,
        /// Number of rounds run again.
        steps: u32,
    },
    /// Partitions were moved to a worker that had none.
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
    /// An interpreter of a worker ended, and the call that it was working on is repeated in another one.
    InterpreterLost {
        /// The worker, which goes on.
        worker: WorkerId,
        /// In which round it was noticed.
        round: RoundId,
        /// How it ended.
        death: Death,
    },
}

/// Where the time and the bytes of a round went.
///
/// `total = worker + master + overhead`: the computing time of the slowest worker, the master's encoding and combining, and the rest,
/// which is the cost of distribution.
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
    /// Chunks sent to other hosts because they were not in a cache there.
    pub chunks_sent: u64,
    /// Chunks that workers had open.
    pub cache_hits: u64,
    /// Chunks that had to be sent or opened.
    pub cache_misses: u64,
    /// Blocks assigned again after a loss.
    pub retries: u64,
    /// Blocks whose results arrived but no longer counted.
    pub discarded: u64,
    /// Blocks taken back before they were started, for idle workers.
    pub stolen: u64,
    /// Late blocks that were also assigned to another worker.
    pub backups: u64,
    /// Workers lost during the round, and interpreters of workers.
    pub lost: u64,
    /// Partitions whose states were rebuilt.
    pub restored: u64,
    /// Rounds run again to rebuild them, summed over these partitions.
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
    /// A journal with room for this many entries.
    pub fn new(entries_max: usize) -> Self {
        Journal { entries: VecDeque::new(), entries_max: entries_max.max(1), forgotten: 0 }
    }

    /// Adds an entry, and drops the oldest if the journal is full.
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

    /// Number of entries dropped so far.
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
