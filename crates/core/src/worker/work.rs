//! A worker's record of one round.

use super::Delivery;
use crate::ids::{Attempt, Block};
use crate::lease::{BlockRange, Returned};
use crate::reduce::{Cut, Node};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Whether a round is still wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Wanted.
    Open,
    /// A block failed here; the master will say that it is over.
    Failed,
    /// The master said so.
    Cancelled,
}

/// Blocks of a round that are here and not delivered.
#[derive(Debug)]
pub(super) struct RoundWork {
    pub(super) cut: Cut,
    pub(super) phase: Phase,
    /// Every block that is here: attempt, and whether it must run alone.
    pub(super) attempts: BTreeMap<Block, (Attempt, bool)>,
    /// Those of them that somebody else has, too.
    pub(super) apart: BTreeSet<Block>,
    /// Not yet started, in the order they came.
    pub(super) queue: VecDeque<Block>,
    /// Being run, as which attempt. While the end of a run is still to be reported its value may be delivered, found
    /// overtaken, and the block given out again: then it is queued here under another attempt than it runs as.
    pub(super) running: BTreeMap<Block, Attempt>,
    /// Since when, of the same.
    pub(super) started: BTreeMap<Block, Time>,
    /// Run, and known to be in the tree.
    pub(super) finished: BTreeSet<Block>,
    /// Chunks that have been asked for.
    pub(super) missing: BTreeSet<u32>,
    /// Chunks whose states cannot be had yet.
    pub(super) behind: BTreeSet<u32>,
    /// Whether the body is taking subtrees out.
    pub(super) collecting: bool,
    /// When the oldest finished block finished.
    pub(super) waiting_since: Option<Time>,
}

impl RoundWork {
    pub(super) fn new(cut: Cut) -> Self {
        RoundWork {
            cut,
            phase: Phase::Open,
            attempts: BTreeMap::new(),
            apart: BTreeSet::new(),
            queue: VecDeque::new(),
            running: BTreeMap::new(),
            started: BTreeMap::new(),
            finished: BTreeSet::new(),
            missing: BTreeSet::new(),
            behind: BTreeSet::new(),
            collecting: false,
            waiting_since: None,
        }
    }

    /// Takes the next block from the queue that can run now; one that must run alone only if it is quiet.
    pub(super) fn next_runnable(&mut self, quiet: bool) -> Option<Block> {
        let at = self.queue.iter().position(|b| (quiet || !self.attempts[b].1) && self.can_run(*b))?;
        self.queue.remove(at)
    }

    /// Whether there is a block that could run if it were quiet.
    pub(super) fn waits_for_quiet(&self) -> bool {
        self.queue.iter().any(|b| self.attempts[b].1 && self.can_run(*b))
    }

    /// Whether a block is running that must do so alone.
    pub(super) fn runs_risky(&self) -> bool {
        self.running.iter().any(|(block, attempt)| self.attempts.get(block) == Some(&(*attempt, true)))
    }

    fn can_run(&self, block: Block) -> bool {
        !self.running.contains_key(&block) && self.has_chunks(block)
    }

    fn has_chunks(&self, block: Block) -> bool {
        [&self.missing, &self.behind].iter().all(|lacking| {
            lacking.is_empty() || lacking.range(self.cut.chunks_of(self.cut.node(block))).next().is_none()
        })
    }

    /// Whether there is nothing left that finished work could wait for. What is apart keeps nobody waiting.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.running.keys().all(|block| self.apart.contains(block))
    }

    /// Takes so many unstarted blocks out, the last ones first, and says how it stands with the rest. Blocks that killed
    /// before stay: wherever they are, they wait until nothing else is at stake.
    pub(super) fn give_back(&mut self, now: Time, blocks: u32) -> Returned {
        let mut taken: Vec<Block> = Vec::new();
        let mut at = self.queue.len();
        while at > 0 && taken.len() < blocks as usize {
            at -= 1;
            if !self.attempts[&self.queue[at]].1 {
                taken.extend(self.queue.remove(at));
            }
        }
        // Whole subtrees are worth a quarter of what was asked for, and seldom cost as much: both send fewer roots.
        let grain = ((taken.len() as u32 / 4) + 1).next_power_of_two() >> 1;
        while grain > 1 && taken.len() > 1 && taken.last().is_some_and(|first| first % grain != 0) {
            self.queue.extend(taken.pop());
        }
        taken.sort_unstable();
        let mut ranges: Vec<BlockRange> = Vec::new();
        for block in taken {
            let apart = self.apart.remove(&block);
            let (attempt, alone) = self.attempts.remove(&block).expect("what is queued is here");
            join(&mut ranges, BlockRange { first: block, len: 1, attempt, alone, apart });
        }
        let unstarted = self.queue.iter().filter(|b| !self.attempts[b].1).count() as u32;
        let running = self.started.iter().map(|(block, since)| (*block, now.since(*since).0)).collect();
        Returned { ranges, unstarted, running }
    }

    /// Whether finished work is here that nobody is taking out.
    pub(super) fn has_finished(&self) -> bool {
        self.phase == Phase::Open && !self.collecting && !self.finished.is_empty()
    }

    /// Drops what is not running.
    pub(super) fn stop(&mut self, phase: Phase) {
        if self.phase != Phase::Cancelled {
            self.phase = phase;
        }
        self.queue.clear();
        self.finished.clear();
        self.apart.clear();
        self.missing.clear();
        self.behind.clear();
        self.waiting_since = None;
        let running = &self.running;
        self.attempts.retain(|block, (attempt, _)| running.get(block) == Some(attempt));
    }

    /// Strikes the blocks of a collected subtree off and says which attempts they were. A block whose end has not been
    /// reported yet may be among them: its value was in the tree.
    pub(super) fn release(&mut self, node: Node) -> Delivery {
        let mut ranges: Vec<BlockRange> = Vec::new();
        for block in self.cut.blocks_of(node) {
            let (attempt, alone) =
                self.attempts.remove(&block).expect("only blocks that are here are collected");
            self.finished.remove(&block);
            let apart = self.apart.remove(&block);
            join(&mut ranges, BlockRange { first: block, len: 1, attempt, alone, apart });
        }
        Delivery { node, ranges }
    }
}

/// Adds a block to the last range if they are neighbours that were given out alike.
fn join(ranges: &mut Vec<BlockRange>, next: BlockRange) {
    match ranges.last_mut() {
        Some(last)
            if last.blocks().end == next.first
                && (last.attempt, last.alone, last.apart) == (next.attempt, next.alone, next.apart) =>
        {
            last.len += 1;
        }
        _ => ranges.push(next),
    }
}
