//! Runs the blocks of one round on one worker.
//!
//! The slots of a worker share a [`BlockRunner`]: function, parameters, and the half-built reduction. A slot runs a block
//! chunk by chunk along the fixed tree, then climbs: while the sibling of its node is in the tree, the slot takes it out
//! and merges the two, outside the lock. [`collect`](BlockRunner::collect) takes out the roots of complete subtrees. Every
//! engine runs user functions through this type, so bits and faults are the same everywhere.

use super::chunks::OpenChunks;
use super::derive::{OpenLineage, Wanted};
use super::faults::caught;
use super::states::RoundStates;
use crate::ctx::{Cancelled, Ctx};
use crate::function::{AnyBox, AnyShared, Function, Mode, language};
use crate::source::location::ChunkEntry;
use qjam_core::ids::{Block, RoundId};
use qjam_core::job::{Death, Fault, FaultKind};
use qjam_core::lineage::Lineage;
use qjam_core::order::OrderHead;
use qjam_core::records::{RecordCounts, RecordStarts};
use qjam_core::reduce::tree::Offer;
use qjam_core::reduce::{Cut, Node, Tree};
use qjam_core::wire::message::Restored;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// One round on one worker.
pub(crate) struct BlockRunner {
    pub(crate) id: RoundId,
    pub(crate) cut: Cut,
    pub(crate) function: Function,
    pub(crate) params: AnyShared,
    pub(crate) seed: u64,
    pub(crate) cancelled: Option<Cancelled>,
    /// The states it needs, if any.
    pub(crate) held: Option<RoundStates>,
    /// Which records each chunk has, if the function may ask.
    records: RecordStarts,
    lineage: Option<Box<Lineage>>,
    opened: OnceLock<Result<OpenLineage, Fault>>,
    tree: Mutex<Tree<AnyBox>>,
    /// Time in user code since the last delivery, per slot; the busiest one counts.
    compute_us: Vec<AtomicU64>,
    hits: AtomicU32,
    misses: AtomicU32,
    /// Interpreters that have ended while they worked on this round.
    losses: Mutex<Vec<Death>>,
}

/// Why a block has no value.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// User code or user data is to blame.
    Fault(Box<Fault>),
    /// Nobody wants it any more.
    Cancelled,
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Stopped::Fault(Box::new(fault))
    }
}

/// What a worker did for a round, since its last delivery.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Effort {
    pub(crate) compute_us: u64,
    pub(crate) hits: u32,
    pub(crate) misses: u32,
    pub(crate) restored: Vec<Restored>,
}

impl BlockRunner {
    pub(crate) fn new(
        head: &OrderHead,
        function: Function,
        params: AnyShared,
        slots: u32,
        cancelled: Option<Cancelled>,
    ) -> Self {
        let &OrderHead { round: id, cut, seed, .. } = head;
        let tree = Mutex::new(Tree::new(cut));
        let compute_us = (0..slots).map(|_| AtomicU64::new(0)).collect();
        let (hits, misses) = (AtomicU32::new(0), AtomicU32::new(0));
        let losses = Mutex::default();
        let records = head.records.as_ref().map(RecordCounts::starts).unwrap_or_default();
        BlockRunner {
            id,
            cut,
            function,
            params,
            seed,
            cancelled,
            held: None,
            records,
            lineage: head.lineage.clone(),
            opened: OnceLock::new(),
            tree,
            compute_us,
            hits,
            misses,
            losses,
        }
    }

    /// Gives the round its states.
    pub(crate) fn holding(self, held: Option<RoundStates>) -> Self {
        BlockRunner { held, ..self }
    }

    /// The slot that has to run a block, because its state is there.
    pub(crate) fn slot_of(&self, block: Block) -> Option<u32> {
        self.held.as_ref()?.slot_of(self, self.cut.chunks_of(self.cut.node(block)).start)
    }

    /// The context of a call for a chunk, as this round or an earlier one has it.
    pub(crate) fn ctx(&self, round: u64, chunk: u32) -> Ctx {
        let ctx = Ctx::new(self.seed, round, chunk, self.cancelled.clone());
        ctx.among(self.cut.chunks, self.records.range(chunk))
    }

    /// How its chunks are made, if its data set is a derived one.
    fn lineage(&self) -> Result<Option<&OpenLineage>, Fault> {
        let Some(lineage) = &self.lineage else { return Ok(None) };
        let opened = self.opened.get_or_init(|| OpenLineage::open(lineage));
        opened.as_ref().map(Some).map_err(Clone::clone)
    }

    /// A chunk as the function takes it; also whether it was open already.
    pub(crate) fn open(
        &self,
        open: &OpenChunks,
        entry: &ChunkEntry,
        index: u32,
    ) -> Result<(AnyShared, bool), Fault> {
        let opened = caught(Some(index), || match self.lineage()? {
            None => open.get(&*self.function, entry, self.id),
            Some(lineage) => lineage.chunk(
                open,
                &Wanted {
                    index,
                    entry,
                    chunk_type: self.function.chunk_type(),
                    function: self.function.name(),
                    round: self.id,
                    records: &self.records,
                },
            ),
        })?;
        opened.map_err(|f| Fault { chunk: Some(index), ..f })
    }

    /// Whether the round was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.as_ref().is_some_and(|asked| asked())
    }

    /// Runs a block and puts its value into the tree.
    pub(crate) fn run(
        &self,
        slot: u32,
        block: Block,
        open: &OpenChunks,
        chunk_at: &dyn Fn(u32) -> Option<Arc<ChunkEntry>>,
    ) -> Result<(), Stopped> {
        let mut stopwatch = Stopwatch { since: Instant::now(), compute_us: &self.compute_us[slot as usize] };
        // Around everything, because values of the user's types are dropped along the way, too.
        let result = caught(None, || {
            let value = self.block_value(slot, block, open, chunk_at)?;
            Ok(self.climb(self.cut.node(block), value, &mut stopwatch)?)
        })
        .unwrap_or_else(|fault| Err(fault.into()));
        if result.is_err() {
            stopwatch.count();
        }
        let losses = language::take_losses();
        if !losses.is_empty() {
            self.losses.lock().unwrap_or_else(PoisonError::into_inner).extend(losses);
        }
        result
    }

    /// Interpreters that have ended while they worked on this round, since this was last asked.
    pub(crate) fn take_losses(&self) -> Vec<Death> {
        std::mem::take(&mut *self.losses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn block_value(
        &self,
        slot: u32,
        block: Block,
        open: &OpenChunks,
        chunk_at: &dyn Fn(u32) -> Option<Arc<ChunkEntry>>,
    ) -> Result<AnyBox, Stopped> {
        let node = self.cut.node(block);
        let mut inner = Tree::new(Cut::new(self.cut.chunks, 0));
        let mut folded = None;
        for index in self.cut.chunks_of(node) {
            // A block may be long; who has called it off should not wait for all of it.
            if self.is_cancelled() {
                return Err(Stopped::Cancelled);
            }
            let entry = chunk_at(index)
                .ok_or_else(|| plain(FaultKind::Chunk, index, "the chunk is not here".into()))?;
            let (chunk, hit) = self.open(open, &entry, index)?;
            if hit { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
            let ctx = self.ctx(self.id.0, index);
            match self.function.mode() {
                Mode::Map => {
                    let value = caught(Some(index), || self.function.map(&*self.params, &*chunk, &ctx))?;
                    inner.insert(Node { level: 0, index }, value, |left, right| {
                        self.merge(left, right, index)
                    })?;
                }
                Mode::Step => {
                    let held = self.held.as_ref().ok_or_else(|| {
                        plain(FaultKind::State, index, "a function with a state was given none".into())
                    })?;
                    folded = Some(held.run(self, slot, index, &*chunk, &ctx)?);
                }
                Mode::Fold => {
                    let mut acc: AnyBox = match folded.take() {
                        Some(acc) => acc,
                        None => caught(Some(index), || self.function.empty())?,
                    };
                    folded = Some(caught(Some(index), || {
                        self.function.fold(&*self.params, &*chunk, &mut acc, &ctx);
                        acc
                    })?);
                }
            }
        }
        let value = folded.or_else(|| inner.take().pop().map(|(_, value)| value));
        Ok(value.expect("a block has at least one chunk"))
    }

    fn merge(&self, left: &mut AnyBox, right: AnyBox, chunk: u32) -> Result<(), Fault> {
        caught(Some(chunk), || self.function.merge(left, right))?
            .map_err(|e| plain(FaultKind::Merge, chunk, e.to_string()))
    }

    /// Offers a value to the tree and merges it with its neighbours as long as they are there.
    fn climb(&self, node: Node, value: AnyBox, stopwatch: &mut Stopwatch<'_>) -> Result<(), Fault> {
        let (mut node, mut value) = (node, value);
        loop {
            // Before the tree has the value, since it may be collected from then on.
            stopwatch.count();
            let offer = self.tree.lock().unwrap_or_else(PoisonError::into_inner).offer(node, value);
            match offer {
                Offer::Kept => return Ok(()),
                Offer::Merge { node: up, mut left, right } => {
                    self.merge(&mut left, right, self.cut.chunks_of(up).start)?;
                    (node, value) = (up, left);
                }
            }
        }
    }

    /// Keeps a block by itself: somebody else has it, too.
    pub(crate) fn set_apart(&self, block: Block) {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner).set_apart(self.cut.node(block));
    }

    /// Takes the finished subtrees out, with the effort since the last ones. While slots are merging there may be none: then
    /// the effort stays here for the next ones.
    pub(crate) fn collect(&self) -> (Vec<(Node, AnyBox)>, Effort) {
        let parts = self.tree.lock().unwrap_or_else(PoisonError::into_inner).take();
        if parts.is_empty() {
            return (parts, Effort::default());
        }
        let compute_us = self.compute_us.iter().map(|us| us.swap(0, Relaxed)).max().unwrap_or(0);
        let restored = self.held.as_ref().map(RoundStates::take_restored).unwrap_or_default();
        let (hits, misses) = (self.hits.swap(0, Relaxed), self.misses.swap(0, Relaxed));
        (parts, Effort { compute_us, hits, misses, restored })
    }
}

/// Counts a slot's time in user code.
struct Stopwatch<'a> {
    since: Instant,
    compute_us: &'a AtomicU64,
}

impl Stopwatch<'_> {
    /// Adds the time since it was counted last.
    fn count(&mut self) {
        let spent = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.compute_us.fetch_add(spent, Relaxed);
        self.since += Duration::from_micros(spent);
    }
}

pub(super) fn plain(kind: FaultKind, chunk: u32, message: String) -> Fault {
    Fault { chunk: Some(chunk), ..Fault::new(kind, message) }
}
