//! Threads of this process as one worker.
//!
//! The group has the machine of a worker, like an executor process, but its body lives in the master's loop: rounds and
//! results are handed over as values, and nothing is encoded but the parameters.

use super::Heard;
use crate::dataset::CutData;
use crate::engine::queue::{self, EventQueue, SeatEvent};
use crate::engine::seat::{PartValue, Said, SeatContext, Share};
use crate::execution::chunks::OpenChunks;
use crate::execution::recipes::StateRecipe;
use crate::execution::round::{BlockRunner, Stopped};
use crate::execution::slots::Slots;
use crate::execution::states::{RoundStates, States};
use crate::function::AnyBox;
use crate::function::language;
use crate::id_map::IdMap;
use qjam_core::ids::{Block, HoldId, RoundId, WorkerId};
use qjam_core::job::Fault;
use qjam_core::lease::BlockRange;
use qjam_core::reduce::Node;
use qjam_core::time::{Span, Time};
use qjam_core::worker::{Action, Delivery, Event, Worker};
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How many blocks the machine takes for running per thread. One runs; with so many behind it the master's loop, which has
/// other things to do and no core to itself, need not be woken for every short one.
const BLOCKS_PER_THREAD: u32 = 8;

/// A block that a thread has run.
pub(crate) struct BlockDone {
    pub(crate) round: RoundId,
    pub(crate) block: Block,
    pub(crate) result: Result<(), Stopped>,
}

/// A round that the threads have blocks of.
struct RoundRecord {
    runner: Arc<BlockRunner>,
    cancelled: Arc<AtomicBool>,
    data: Arc<CutData>,
    threads_max: Option<u32>,
}

/// The threads.
pub(super) struct ThreadGroup {
    pub(super) worker: WorkerId,
    slots: u32,
    machine: Worker,
    threads: Slots,
    rounds: IdMap<RoundId, RoundRecord>,
    open: Arc<OpenChunks>,
    states: Arc<States>,
    collected: IdMap<RoundId, Vec<(Node, AnyBox)>>,
    todo: VecDeque<Action>,
    /// What the machine has just asked for; kept for its memory.
    asked: Vec<Action>,
    queue: Arc<EventQueue>,
    /// Most private memory of an interpreter that a thread has. What runs in the threads themselves has no limit.
    memory_bytes_max: Option<u64>,
}

impl ThreadGroup {
    pub(super) fn start(worker: WorkerId, slots: u32, cx: &SeatContext<'_>) -> io::Result<Self> {
        let deliver_after = Span(cx.settings.deliver_after_us());
        Ok(ThreadGroup {
            worker,
            slots,
            machine: Worker::new(slots * BLOCKS_PER_THREAD, deliver_after),
            threads: Slots::start(slots, "qjam-local")?,
            rounds: IdMap::default(),
            open: cx.open.clone(),
            states: Arc::default(),
            collected: IdMap::default(),
            todo: VecDeque::new(),
            asked: Vec::new(),
            queue: cx.queue.clone(),
            memory_bytes_max: cx.settings.memory_bytes_max,
        })
    }

    /// Takes on blocks. Fails if the parameters cannot be read.
    pub(super) fn assign(&mut self, now: Time, share: Share<'_>, out: &mut Heard<'_>) -> Result<(), Fault> {
        let Share { order, ranges, threads_max, .. } = share;
        let (round, cut) = (order.round(), order.head.cut);
        let record = match self.rounds.entry(round) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let cancelled = Arc::new(AtomicBool::new(false));
                let flag = cancelled.clone();
                let runner = order.runner(self.slots, Some(Arc::new(move || flag.load(Relaxed))))?;
                let held = order.head.held.map(|held| RoundStates::new(held, self.states.clone()));
                let runner = Arc::new(runner.holding(held));
                entry.insert(RoundRecord { runner, cancelled, data: order.data.clone(), threads_max })
            }
        };
        let mut behind = Vec::new();
        if let Some(held) = &record.runner.held {
            held.give(ranges.iter().map(|span| span.len).sum());
            let lacking = self.states.lacking(held.task, ranges.iter().flat_map(BlockRange::blocks));
            behind = lacking.all();
            for (partitions, only_mail) in [(lacking.states, false), (lacking.mail_only, true)] {
                if !partitions.is_empty() {
                    out.push(Said::Behind { round, question: 0, partitions, only_mail });
                }
            }
        }
        self.limit_threads();
        self.tell(now, Event::TaskReceived { round, cut, ranges, missing: Vec::new(), behind }, out);
        Ok(())
    }

    /// Learns how to make states that it lacks.
    pub(super) fn take_in(
        &mut self,
        now: Time,
        round: RoundId,
        recipe: &Arc<StateRecipe>,
        out: &mut Heard<'_>,
    ) {
        let held = self.rounds.get(&round).and_then(|record| record.runner.held.as_ref());
        if let Some(chunks) = held.map(|held| held.take_in(recipe)) {
            self.tell(now, Event::RecipesArrived { round, chunks }, out);
        }
    }

    /// Drops states.
    pub(super) fn release(&self, hold: HoldId) {
        self.states.release(hold);
    }

    /// Stops a round.
    pub(super) fn cancel(&mut self, now: Time, round: RoundId, out: &mut Heard<'_>) {
        if let Some(record) = self.rounds.get(&round) {
            record.cancelled.store(true, Relaxed);
        }
        self.tell(now, Event::CancelReceived { round }, out);
    }

    /// Gives back blocks that were not started.
    pub(super) fn recall(&mut self, now: Time, round: RoundId, blocks: u32, out: &mut Heard<'_>) {
        self.tell(now, Event::RecallReceived { round, blocks }, out);
    }

    /// Keeps the value of a block apart, because another worker has the block, too.
    pub(super) fn apart(&mut self, now: Time, round: RoundId, block: Block, out: &mut Heard<'_>) {
        self.tell(now, Event::ApartReceived { round, block }, out);
    }

    /// A thread has run a block.
    pub(super) fn done(&mut self, now: Time, done: BlockDone, out: &mut Heard<'_>) {
        let BlockDone { round, block, result } = done;
        let losses = self.rounds.get(&round).map(|record| record.runner.take_losses());
        for death in losses.into_iter().flatten() {
            out.push(Said::InterpreterLost { round, death });
        }
        match result {
            Ok(()) => self.tell(now, Event::BlockFinished { round, block }, out),
            Err(stopped) => {
                if let Stopped::Fault(fault) = stopped {
                    out.push(Said::Faulted { round, fault, is_ours: false });
                }
                self.tell(now, Event::BlockFailed { round, block }, out);
            }
        }
    }

    fn tell(&mut self, now: Time, event: Event, out: &mut Heard<'_>) {
        self.machine.handle(now, event, &mut self.asked);
        self.todo.extend(self.asked.drain(..));
        while let Some(action) = self.todo.pop_front() {
            match action {
                Action::Run { round, block, .. } => self.run(round, block),
                Action::Collect { round } => {
                    let (parts, effort) = self.rounds[&round].runner.collect();
                    let nodes: Vec<Node> = parts.iter().map(|(node, _)| *node).collect();
                    let cut = self.rounds[&round].runner.cut;
                    let blocks = nodes.iter().map(|node| cut.blocks_of(*node).len() as u32).sum();
                    out.push(Said::Effort { round, blocks, effort, bytes: 0 });
                    self.collected.insert(round, parts);
                    self.machine.handle(now, Event::Collected { round, nodes }, &mut self.asked);
                    self.todo.extend(self.asked.drain(..));
                }
                Action::Send { round, parts } => {
                    let values = self.collected.remove(&round).unwrap_or_default();
                    for ((_, value), delivery) in values.into_iter().zip(parts) {
                        let Delivery { node, ranges } = delivery;
                        let value = PartValue::Ready(value);
                        out.push(Said::Part { round, node, ranges, value });
                    }
                }
                Action::SetApart { round, block } => self.rounds[&round].runner.set_apart(block),
                Action::Return { round, returned } => out.push(Said::Returned { round, returned }),
                Action::Forget { round } => {
                    self.rounds.remove(&round);
                    self.collected.remove(&round);
                    self.limit_threads();
                }
                Action::LetGo { round } => out.push(Said::LetGo { round }),
                Action::Protest { why } => {
                    panic!("the master asked its own threads for the impossible: {why}")
                }
            }
        }
    }

    /// As many threads as the round that wants the most of them.
    fn limit_threads(&self) {
        let wanted = self.rounds.values().map(|record| record.threads_max.unwrap_or(self.slots)).max();
        self.threads.limit(wanted.unwrap_or(self.slots));
    }

    fn run(&self, round: RoundId, block: Block) {
        let record = &self.rounds[&round];
        let (here, data) = (record.runner.clone(), record.data.clone());
        let (open, queue, worker) = (self.open.clone(), self.queue.clone(), self.worker);
        let urgency = self.threads.urgency(BLOCKS_PER_THREAD as usize / 2);
        let memory_bytes_max = self.memory_bytes_max;
        let bound_to = here.slot_of(block);
        self.threads.run_on(
            bound_to,
            Box::new(move |slot| {
                let urgency = urgency();
                language::limit_memory(memory_bytes_max);
                let result = here.run(slot, block, &open, &|index| data.chunks.get(index as usize).cloned());
                drop((here, data));
                let is_bad = result.is_err();
                let done = SeatEvent::BlockDone(BlockDone { round, block, result });
                queue.put_and(queue::Event::Seat(worker, done), &|| is_bad || urgency.is_pressing());
            }),
        );
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        for record in self.rounds.values() {
            record.cancelled.store(true, Relaxed);
        }
    }
}
