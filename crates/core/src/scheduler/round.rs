//! The scheduler's records of rounds and their blocks.

use super::median::Median;
use super::speeds::{Key, Work};
use crate::ids::{Attempt, Block, SeatId, WorkerId};
use crate::job::{Death, RoundSpec};
use crate::lease::Returned;
use crate::time::Time;
use std::collections::BTreeMap;

/// A worker that has a block, and under which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    pub(crate) attempt: Attempt,
}

/// A block.
///
/// ```text
///              given out                      accepted
///   needy ───────────────────▶ held (1 or 2) ───────────▶ done
///     ▲    lost, let go, or         │
///     └─ discarded, given back ─────┘        a silent or late holder makes a held block needy of a second one
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockRecord {
    /// Whether a result of it was accepted.
    pub(crate) done: bool,
    /// How often it was assigned.
    pub(crate) attempts: Attempt,
    /// Executors that died inside it.
    pub(crate) kills: u32,
    /// Whether it was late and somebody else got it, too. That happens once.
    pub(crate) is_backed_up: bool,
    /// Who has it now. Two only if the first was silent, or late with it.
    pub(crate) leases: [Option<Lease>; 2],
}

impl BlockRecord {
    pub(crate) fn leases(&self) -> impl Iterator<Item = Lease> + '_ {
        self.leases.iter().flatten().copied()
    }

    pub(crate) fn is_held_as(&self, worker: WorkerId, attempt: Attempt) -> bool {
        self.leases().any(|l| l.worker == worker && l.attempt == attempt)
    }

    /// Whether it is not done and nobody dependable is at work on it.
    pub(crate) fn is_needy(&self, is_suspect: impl Fn(WorkerId) -> bool) -> bool {
        let mut leases = self.leases();
        !self.done
            && match (leases.next(), leases.next()) {
                (None, _) => true,
                (Some(only), None) => is_suspect(only.worker),
                (Some(_), Some(_)) => false,
            }
    }

    /// Whether somebody else may get it while this worker is at it. A block that killed could do so twice.
    pub(crate) fn may_be_backed_up(&self, worker: WorkerId) -> bool {
        let is_his_alone = self.leases().map(|l| l.worker).eq([worker]);
        is_his_alone && !self.done && !self.is_backed_up && self.kills == 0
    }

    /// Gives the block out once more.
    pub(crate) fn grant(&mut self, worker: WorkerId) -> Attempt {
        self.attempts += 1;
        let place = self.leases.iter_mut().find(|l| l.is_none()).expect("a block has at most two holders");
        *place = Some(Lease { worker, attempt: self.attempts });
        self.attempts
    }

    /// Takes the block back; says whether the worker had it.
    pub(crate) fn revoke(&mut self, worker: WorkerId) -> bool {
        for lease in &mut self.leases {
            if lease.is_some_and(|l| l.worker == worker) {
                *lease = None;
                return true;
            }
        }
        false
    }
}

/// A worker's progress in a round, as the scheduler knows it.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When it got the first of its blocks, or last delivered one.
    pub(crate) since: Time,
    /// Its last report about them. `None` once it got more blocks.
    pub(crate) progress: Option<Box<WorkerProgress>>,
}

/// A worker's own report about its blocks of a round.
#[derive(Debug)]
pub(crate) struct WorkerProgress {
    /// When it said so.
    pub(crate) at: Time,
    /// Blocks it had not started and kept.
    pub(crate) unstarted: u32,
    /// Blocks it was running, and since when.
    pub(crate) running: Vec<(Block, Time)>,
    /// How many blocks it did in a microsecond.
    pub(crate) rate: f64,
}

/// A round.
#[derive(Debug)]
pub(crate) struct RoundRecord {
    pub(crate) spec: RoundSpec,
    pub(crate) blocks: Vec<BlockRecord>,
    /// How many blocks are done.
    pub(crate) done: u32,
    /// How many leases are out, over all blocks and workers.
    pub(crate) leased: u32,
    /// Whether the user has been answered. Then only leases keep the record.
    pub(crate) over: bool,
    /// Who died inside which block.
    pub(crate) deaths: BTreeMap<Block, Vec<(WorkerId, Death)>>,
    /// How everybody who has blocks gets on.
    pub(crate) paces: BTreeMap<WorkerId, Pace>,
    /// Who was asked to give back how many blocks, and has not answered.
    pub(crate) recalls: BTreeMap<WorkerId, u32>,
    /// How often each was asked.
    pub(crate) times_asked: BTreeMap<WorkerId, u32>,
    /// Late blocks that were given to somebody else, too.
    pub(crate) backups: u32,
    /// What each seat has done.
    pub(crate) work: BTreeMap<SeatId, Work>,
    /// What a block took in a slot, by delivery.
    pub(crate) block_times: Median,
    /// When it was submitted.
    pub(crate) begun: Time,
    /// Whether slow workers were looked for.
    pub(crate) is_looked_at: bool,
    /// When they were last looked for.
    pub(crate) looked: Time,
    /// Before then there is no use in looking for them again. `None`: look when somebody is idle.
    pub(crate) look_at: Option<Time>,
}

impl RoundRecord {
    pub(crate) fn new(spec: RoundSpec, begun: Time) -> Self {
        let mut blocks = vec![BlockRecord::default(); spec.cut.blocks() as usize];
        blocks.iter_mut().take(spec.done as usize).for_each(|block| block.done = true);
        RoundRecord {
            done: spec.done,
            spec,
            blocks,
            leased: 0,
            over: false,
            deaths: BTreeMap::new(),
            paces: BTreeMap::new(),
            recalls: BTreeMap::new(),
            times_asked: BTreeMap::new(),
            backups: 0,
            work: BTreeMap::new(),
            block_times: Median::default(),
            begun,
            is_looked_at: false,
            looked: Time(0),
            look_at: None,
        }
    }

    /// Whether slow workers can be helped with it: not with what needs their states.
    pub(crate) fn may_be_helped(&self) -> bool {
        !self.over && self.spec.held.is_none()
    }

    /// What measured speeds belong to.
    pub(crate) fn key(&self) -> Key {
        (self.spec.dataset, self.spec.cut.level)
    }

    /// How many late blocks may be given to somebody else, too.
    pub(crate) fn backups_max(&self) -> u32 {
        (self.blocks.len() as u32 / 10).max(1)
    }

    /// What a block takes in a slot, as far as anything was delivered.
    pub(crate) fn median_block_us(&self) -> Option<u64> {
        self.block_times.get()
    }

    /// Counts blocks that were finished by a backup as if their first worker finished them now: a worker that delivers
    /// nothing would otherwise leave no trace of how slow it is.
    pub(crate) fn count_the_late(&mut self, now: Time) {
        for (worker, pace) in &self.paces {
            let late = pace.progress.iter().flat_map(|progress| &progress.running);
            for (_, since) in late.filter(|(block, _)| self.blocks[*block as usize].is_backed_up) {
                let work = self.work.entry(worker.seat).or_default();
                work.blocks += 1;
                work.busy_us += now.since(*since).0;
            }
        }
    }

    /// Records a worker's progress. `held`: the blocks it keeps besides those it returned.
    pub(crate) fn see(&mut self, now: Time, worker: WorkerId, held: u32, returned: &Returned) {
        let blocks = self.blocks.len() as u32;
        let Some(pace) = self.paces.get_mut(&worker) else { return };
        let running: Vec<(Block, Time)> = returned
            .running
            .iter()
            .filter(|(block, _)| *block < blocks)
            .map(|(block, us)| (*block, Time(now.0.saturating_sub(*us))))
            .collect();
        let finished = held.saturating_sub(returned.unstarted.saturating_add(running.len() as u32));
        // A worker without a finished block counts as half through one.
        let rate = f64::from(finished).max(0.5) / now.since(pace.since).0.max(1) as f64;
        pace.progress =
            Some(Box::new(WorkerProgress { at: now, unstarted: returned.unstarted, running, rate }));
    }

    /// Blocks that are with no worker, or with suspected workers alone.
    pub(crate) fn needy(&self, is_suspect: impl Fn(WorkerId) -> bool) -> Vec<Block> {
        if self.over {
            return Vec::new();
        }
        (0..).zip(&self.blocks).filter(|(_, b)| b.is_needy(&is_suspect)).map(|(n, _)| n).collect()
    }
}
