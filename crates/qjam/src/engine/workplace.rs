//! Where a worker of a crew runs blocks: its threads, the chunks it has opened, and the states it keeps.
//!
//! A crew that runs blocks in other processes or machines makes one [`Workplace`] there and gives it orders. Comes in: an
//! [`Order`] whose chunks are at hand, and states that the workplace lacks, encoded. Goes out: the roots of complete subtrees, and
//! the states that the round has left, encoded, so that the crew can keep them where another worker finds them.

use super::order::{Failure, Order, Parts};
use crate::ctx::Cancelled;
use crate::execution::chunks::OpenChunks;
use crate::execution::recipes::StateRecipe;
use crate::execution::round::{BlockRunner, Stopped};
use crate::execution::slots::Slots;
use crate::execution::states::{RoundStates, States};
use crate::store::AlignedBuf;
use bytes::Bytes;
use qjam_core::ids::{HoldId, Version};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::wire::recipe::Recipe;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

/// Threads, opened chunks and states of one worker.
pub struct Workplace {
    slots: u32,
    threads: Slots,
    open: Arc<OpenChunks>,
    states: Arc<States>,
}

/// What a workplace has made of its blocks.
pub struct Delivered {
    /// The roots of complete subtrees.
    pub parts: Parts,
    /// For functions with a state: partitions and their states after the round, encoded. Empty if the function leaves them alone.
    pub states: Vec<(u32, Bytes)>,
}

/// Where states come from that a workplace lacks, and the mail of its partitions.
#[derive(Clone, Debug, Default)]
pub struct StateSource {
    /// States as the round wants them, encoded, by partition.
    pub states: Vec<(u32, Bytes)>,
    /// A [recipe](super::Assignment::recipe): mail, and how to make states that are not above.
    pub recipe: Option<Bytes>,
}

impl StateSource {
    /// Whether a recipe makes states, or has nothing but mail for workers that have theirs. `false` if it cannot be read.
    pub fn makes_states(recipe: &[u8]) -> bool {
        Recipe::parse(recipe).is_ok_and(|recipe| !recipe.head.starts.is_empty())
    }

    fn into_recipe(self, base: Version) -> Result<StateRecipe, Failure> {
        let recipe = match self.recipe {
            None => StateRecipe::new(HashMap::new(), Vec::new()),
            Some(bytes) => {
                let mut aligned = AlignedBuf::zeroed(bytes.len());
                aligned.as_mut_slice().copy_from_slice(&bytes);
                StateRecipe::from_bytes(&aligned.into_bytes())
                    .map_err(|why| Fault::new(FaultKind::State, why))?
            }
        };
        let start = |(partition, state)| (partition, (base, Some(state)));
        Ok(recipe.with_states(self.states.into_iter().map(start).collect()))
    }
}

/// A block that a thread has run: the state of its partition, if it has one.
type BlockEnd = Result<Option<(u32, Bytes)>, Stopped>;

impl Workplace {
    /// With so many slots, of which each runs a block at a time. Opened chunks take at most so many bytes.
    pub fn new(slots: u32, cache_bytes: u64) -> io::Result<Workplace> {
        let slots = slots.max(1);
        Ok(Workplace {
            slots,
            threads: Slots::start(slots, "qjam-crew")?,
            open: Arc::new(OpenChunks::new(cache_bytes)),
            states: Arc::default(),
        })
    }

    /// Those partitions among the blocks whose states are not here, and cannot be made from their chunks.
    pub fn lacks(&self, order: &Order, blocks: Range<u32>) -> Vec<u32> {
        order.head.held.map_or(Vec::new(), |held| self.states.behind(held, blocks))
    }

    /// Runs blocks on all slots and combines what is complete. `states` brings those that it [lacks](Workplace::lacks), and the mail of all
    /// blocks. `cancelled`
    /// is polled between chunks; when it returns true the round stops.
    pub fn run(
        &self,
        order: &Arc<Order>,
        blocks: Range<u32>,
        states: StateSource,
        cancelled: Cancelled,
    ) -> Result<Delivered, Failure> {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let stops: Cancelled = Arc::new(move || flag.load(Relaxed) || cancelled());
        let runner = order.runner(self.slots, Some(stops))?;
        let is_made_again = states.recipe.as_deref().is_some_and(StateSource::makes_states);
        let recipe = order.head.held.map(|task| states.into_recipe(task.base)).transpose()?;
        let held = order.head.held.zip(recipe).map(|(task, recipe)| {
            let held = RoundStates::new(task, self.states.clone());
            held.give(blocks.len() as u32);
            held.take_in(&Arc::new(recipe));
            held
        });
        let runner = Arc::new(runner.holding(held));
        let (ends, ended) = channel();
        for block in blocks.clone() {
            self.start(order, &runner, block, ends.clone());
        }
        drop(ends);
        let mut states = Vec::new();
        let mut first_failure = None;
        for end in ended {
            match end {
                Ok(state) => states.extend(state),
                Err(stopped) => {
                    is_over.store(true, Relaxed);
                    // Those that stop because of it say no more than that.
                    if first_failure.is_none() || matches!(first_failure, Some(Stopped::Cancelled)) {
                        first_failure = Some(stopped);
                    }
                }
            }
        }
        if let Some(stopped) = first_failure {
            return Err(stopped.into());
        }
        states.sort_by_key(|(partition, _)| *partition);
        let (nodes, mut effort) = runner.collect();
        if !is_made_again {
            // They were brought from where another worker left them.
            effort.restored.clear();
        }
        Ok(Delivered { parts: Parts::with_effort(nodes, effort), states })
    }

    /// Hands a block to a slot.
    fn start(&self, order: &Arc<Order>, runner: &Arc<BlockRunner>, block: u32, ends: Sender<BlockEnd>) {
        let (order, runner_there, open) = (order.clone(), runner.clone(), self.open.clone());
        let run = move |slot: u32| {
            let chunk_at = |index: u32| {
                let entry = order.data.chunks.get(index as usize);
                entry.filter(|entry| !entry.is_absent()).cloned()
            };
            let ran = runner_there.run(slot, block, &open, &chunk_at);
            let end = ran.and_then(|()| Ok(state_after(&order, &runner_there, block, &open)?));
            let _ = ends.send(end);
        };
        self.threads.run_on(runner.slot_of(block), Box::new(run));
    }

    /// Nobody will ask for these states again.
    pub fn release(&self, hold: HoldId) {
        self.states.release(hold);
    }
}

/// The state that a block has left, encoded, by the thread that ran it.
fn state_after(
    order: &Order,
    runner: &BlockRunner,
    block: u32,
    open: &OpenChunks,
) -> Result<Option<(u32, Bytes)>, Fault> {
    let Some(held) = runner.held.as_ref().filter(|_| !order.function.only_looks()) else { return Ok(None) };
    let index = order.head.cut.chunks_of(order.head.cut.node(block)).start;
    let (chunk, _) = runner.open(open, &order.data.chunks[index as usize], index)?;
    let ctx = runner.ctx(order.round().0, index);
    Ok(held.encoded_after(runner, index, &*chunk, &ctx)?.map(|state| (index, state)))
}
