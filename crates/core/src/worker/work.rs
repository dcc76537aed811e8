//! What a worker has of one round.

use super::Delivery;
use crate::ids::{Attempt, Block};
use crate::reduce::{Cut, Node};
use crate::time::Time;
use crate::wire::message::Span;
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
    /// Not yet started, in the order they came.
    pub(super) queue: VecDeque<Block>,
    /// Being run, as which attempt. While the end of a run is still to be reported its value may be delivered, found
    /// overtaken, and the block given out again: then it is queued here under another attempt than it runs as.
    pub(super) running: BTreeMap<Block, Attempt>,
    /// Run, and known to be in the tree.
    pub(super) finished: BTreeSet<Block>,
    /// Chunks that have been asked for.
    pub(super) missing: BTreeSet<u32>,
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
            queue: VecDeque::new(),
            running: BTreeMap::new(),
            finished: BTreeSet::new(),
            missing: BTreeSet::new(),
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
        self.missing.is_empty()
            || self.missing.range(self.cut.chunks_of(self.cut.node(block))).next().is_none()
    }

    /// Whether there is nothing left to run.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty()
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
        self.missing.clear();
        self.waiting_since = None;
        let running = &self.running;
        self.attempts.retain(|block, (attempt, _)| running.get(block) == Some(attempt));
    }

    /// Strikes the blocks of a collected subtree off and says which attempts they were. A block whose end has not been
    /// reported yet may be among them: its value was in the tree.
    pub(super) fn release(&mut self, node: Node) -> Delivery {
        let mut spans: Vec<Span> = Vec::new();
        for block in self.cut.blocks_of(node) {
            let (attempt, alone) =
                self.attempts.remove(&block).expect("only blocks that are here are collected");
            self.finished.remove(&block);
            match spans.last_mut() {
                Some(last) if last.attempt == attempt && last.alone == alone => last.len += 1,
                _ => spans.push(Span { first: block, len: 1, attempt, alone }),
            }
        }
        Delivery { node, spans }
    }
}
