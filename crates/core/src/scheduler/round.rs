//! What the scheduler believes of a round and its blocks.

use crate::ids::{Attempt, Block, WorkerId};
use crate::job::{Death, RoundSpec};
use std::collections::BTreeMap;

/// Someone who is to run a block.
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
///     └──── discarded with others ──┘        a silent holder makes a held block needy of a second one
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockRecord {
    /// Whether a result of it was accepted.
    pub(crate) done: bool,
    /// How often it was given out.
    pub(crate) attempts: Attempt,
    /// Executors that died inside it.
    pub(crate) kills: u32,
    /// Who has it now. Two only while the first is silent.
    pub(crate) leases: [Option<Lease>; 2],
}

impl BlockRecord {
    pub(crate) fn leases(&self) -> impl Iterator<Item = Lease> + '_ {
        self.leases.iter().flatten().copied()
    }

    pub(crate) fn is_held_as(&self, worker: WorkerId, attempt: Attempt) -> bool {
        self.leases().any(|l| l.worker == worker && l.attempt == attempt)
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
}

impl RoundRecord {
    pub(crate) fn new(spec: RoundSpec) -> Self {
        let blocks = vec![BlockRecord::default(); spec.cut.blocks() as usize];
        RoundRecord { spec, blocks, done: 0, leased: 0, over: false, deaths: BTreeMap::new() }
    }

    /// Blocks that nobody dependable is at work on.
    pub(crate) fn needy(&self, is_suspect: impl Fn(WorkerId) -> bool) -> Vec<Block> {
        if self.over {
            return Vec::new();
        }
        let needs = |b: &BlockRecord| {
            let mut leases = b.leases();
            match (leases.next(), leases.next()) {
                (None, _) => true,
                (Some(only), None) => is_suspect(only.worker),
                (Some(_), Some(_)) => false,
            }
        };
        (0..).zip(&self.blocks).filter(|(_, b)| !b.done && needs(b)).map(|(n, _)| n).collect()
    }
}
