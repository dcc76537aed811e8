//! The `local` engine: slots that are threads of this process.
//!
//! It is a worker like any other, with its own machine, but its body lives in the master's loop: tasks and results are
//! handed over as values, and nothing is encoded but the parameters. Threads cannot be killed: a function that does not
//! come back is left to itself, its thread with it, and new threads take the seat.

use crate::ctx::Cancelled;
use crate::dataset::CutData;
use crate::function::language;
use crate::function::{AnyBox, AnyShared, Function};
use crate::worker::chunks::OpenChunks;
use crate::worker::recipes::RecipeHere;
use crate::worker::round::{Effort, RoundHere, Stopped};
use crate::worker::slots::Slots;
use crate::worker::states::{HeldHere, States};
use qjam_core::ids::{Block, HoldId, RoundId, WorkerId};
use qjam_core::job::Fault;
use qjam_core::reduce::{Cut, Node};
use qjam_core::time::{Span, Time};
use qjam_core::wire::message;
use qjam_core::worker::{Action, Delivery, Event, Worker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How many blocks the machine takes for running per thread. One runs; with so many behind it the master's loop, which has
/// other things to do and no core to itself, need not be woken for every short one.
const BLOCKS_PER_THREAD: u32 = 8;

/// A block that a thread has run.
pub(crate) struct LocalDone {
    pub(crate) worker: WorkerId,
    pub(crate) round: RoundId,
    pub(crate) block: Block,
    pub(crate) result: Result<(), Stopped>,
}

/// Leaves word for the master's loop that a block is done, from any thread, and has it look up at once if, after that, it
/// still is said to be pressing.
pub(crate) type Report = Arc<dyn Fn(LocalDone, &dyn Fn() -> bool) + Send + Sync>;

/// What the seat has for the master.
pub(crate) enum LocalSays {
    Part { round: RoundId, delivery: Delivery, value: AnyBox },
    Effort { round: RoundId, blocks: u32, effort: Effort },
    Returned { round: RoundId, returned: message::Returned },
    Faulted { round: RoundId, fault: Fault },
    LetGo { round: RoundId },
    Behind { round: RoundId, partitions: Vec<u32> },
}

/// A round as the threads see it.
pub(crate) struct LocalTask {
    pub(crate) round: RoundId,
    pub(crate) cut: Cut,
    pub(crate) function: Function,
    pub(crate) params: AnyShared,
    pub(crate) data: Arc<CutData>,
    pub(crate) seed: u64,
    /// How many of the threads take part, if not all.
    pub(crate) threads_max: Option<u32>,
    pub(crate) spans: Vec<message::Span>,
    pub(crate) held: Option<message::HeldTask>,
}

struct RoundKept {
    here: Arc<RoundHere>,
    cancelled: Arc<AtomicBool>,
    data: Arc<CutData>,
    threads_max: Option<u32>,
}

/// The seat.
pub(crate) struct LocalSeat {
    pub(crate) worker: WorkerId,
    slots: u32,
    machine: Worker,
    threads: Slots,
    rounds: HashMap<RoundId, RoundKept>,
    open: Arc<OpenChunks>,
    states: Arc<States>,
    collected: HashMap<RoundId, Vec<(Node, AnyBox)>>,
    todo: VecDeque<Action>,
    report: Report,
    /// Most private memory of an interpreter that a thread has. What runs in the threads themselves has no limit.
    memory_bytes_max: Option<u64>,
}

impl LocalSeat {
    pub(crate) fn start(
        worker: WorkerId,
        slots: u32,
        deliver_after: Span,
        open: Arc<OpenChunks>,
        report: Report,
        memory_bytes_max: Option<u64>,
    ) -> io::Result<Self> {
        Ok(LocalSeat {
            worker,
            slots,
            machine: Worker::new(slots * BLOCKS_PER_THREAD, deliver_after),
            threads: Slots::start(slots, "qjam-local")?,
            rounds: HashMap::new(),
            open,
            states: Arc::default(),
            collected: HashMap::new(),
            todo: VecDeque::new(),
            report,
            memory_bytes_max,
        })
    }

    /// Takes on blocks.
    pub(crate) fn assign(&mut self, now: Time, task: LocalTask, out: &mut Vec<LocalSays>) {
        let LocalTask { round, cut, function, params, data, seed, threads_max, spans, held } = task;
        let kept = self.rounds.entry(round).or_insert_with(|| {
            let cancelled = Arc::new(AtomicBool::new(false));
            let flag = cancelled.clone();
            let asked: Cancelled = Arc::new(move || flag.load(Relaxed));
            let here = RoundHere::new(round, cut, function, params, seed, self.slots, Some(asked))
                .holding(held.map(|held| HeldHere::new(held, self.states.clone())));
            RoundKept { here: Arc::new(here), cancelled, data, threads_max }
        });
        let mut behind = Vec::new();
        if let Some(held) = &kept.here.held {
            held.give(spans.iter().map(|span| span.len).sum());
            behind = self.states.behind(held.task, spans.iter().flat_map(message::Span::blocks));
        }
        self.limit_threads();
        if !behind.is_empty() {
            out.push(LocalSays::Behind { round, partitions: behind.clone() });
        }
        self.tell(now, Event::TaskReceived { round, cut, spans, missing: Vec::new(), behind }, out);
    }

    /// It is known how to make states.
    pub(crate) fn take_in(
        &mut self,
        now: Time,
        round: RoundId,
        recipe: &Arc<RecipeHere>,
        out: &mut Vec<LocalSays>,
    ) {
        let held = self.rounds.get(&round).and_then(|kept| kept.here.held.as_ref());
        if let Some(chunks) = held.map(|held| held.take_in(recipe)) {
            self.tell(now, Event::RecipesArrived { round, chunks }, out);
        }
    }

    /// Nobody will ask for these states again.
    pub(crate) fn release(&self, hold: HoldId) {
        self.states.release(hold);
    }

    /// A round is over.
    pub(crate) fn cancel(&mut self, now: Time, round: RoundId, out: &mut Vec<LocalSays>) {
        if let Some(kept) = self.rounds.get(&round) {
            kept.cancelled.store(true, Relaxed);
        }
        self.tell(now, Event::CancelReceived { round }, out);
    }

    /// Somebody is idle.
    pub(crate) fn recall(&mut self, now: Time, round: RoundId, blocks: u32, out: &mut Vec<LocalSays>) {
        self.tell(now, Event::RecallReceived { round, blocks }, out);
    }

    /// Somebody else has a block, too.
    pub(crate) fn apart(&mut self, now: Time, round: RoundId, block: Block, out: &mut Vec<LocalSays>) {
        self.tell(now, Event::ApartReceived { round, block }, out);
    }

    /// A thread has run a block.
    pub(crate) fn done(&mut self, now: Time, done: LocalDone, out: &mut Vec<LocalSays>) {
        let LocalDone { round, block, result, .. } = done;
        match result {
            Ok(()) => self.tell(now, Event::BlockFinished { round, block }, out),
            Err(stopped) => {
                if let Stopped::Fault(fault) = stopped {
                    out.push(LocalSays::Faulted { round, fault });
                }
                self.tell(now, Event::BlockFailed { round, block }, out);
            }
        }
    }

    fn tell(&mut self, now: Time, event: Event, out: &mut Vec<LocalSays>) {
        let mut actions = Vec::new();
        self.machine.handle(now, event, &mut actions);
        self.todo.extend(actions);
        while let Some(action) = self.todo.pop_front() {
            match action {
                Action::Run { round, block, .. } => self.run(round, block),
                Action::Collect { round } => {
                    let (parts, effort) = self.rounds[&round].here.collect();
                    let nodes: Vec<Node> = parts.iter().map(|(node, _)| *node).collect();
                    let cut = self.rounds[&round].here.cut;
                    let blocks = nodes.iter().map(|node| cut.blocks_of(*node).len() as u32).sum();
                    out.push(LocalSays::Effort { round, blocks, effort });
                    self.collected.insert(round, parts);
                    let mut more = Vec::new();
                    self.machine.handle(now, Event::Collected { round, nodes }, &mut more);
                    self.todo.extend(more);
                }
                Action::Send { round, parts } => {
                    let values = self.collected.remove(&round).unwrap_or_default();
                    for ((_, value), delivery) in values.into_iter().zip(parts) {
                        out.push(LocalSays::Part { round, delivery, value });
                    }
                }
                Action::SetApart { round, block } => self.rounds[&round].here.set_apart(block),
                Action::Return { round, returned } => out.push(LocalSays::Returned { round, returned }),
                Action::Forget { round } => {
                    self.rounds.remove(&round);
                    self.collected.remove(&round);
                    self.limit_threads();
                }
                Action::LetGo { round } => out.push(LocalSays::LetGo { round }),
                Action::Protest { why } => {
                    panic!("the master asked its own threads for the impossible: {why}")
                }
            }
        }
    }

    /// As many threads as the round that wants the most of them.
    fn limit_threads(&self) {
        let wanted = self.rounds.values().map(|kept| kept.threads_max.unwrap_or(self.slots)).max();
        self.threads.limit(wanted.unwrap_or(self.slots));
    }

    fn run(&self, round: RoundId, block: Block) {
        let kept = &self.rounds[&round];
        let (here, data) = (kept.here.clone(), kept.data.clone());
        let (open, report, worker) = (self.open.clone(), self.report.clone(), self.worker);
        let urgency = self.threads.urgency(BLOCKS_PER_THREAD as usize / 2);
        let memory_bytes_max = self.memory_bytes_max;
        self.threads.run(Box::new(move |slot| {
            let urgency = urgency();
            language::limit_memory(memory_bytes_max);
            let result = here.run(slot, block, &open, &|index| data.chunks.get(index as usize).cloned());
            drop((here, data));
            let is_bad = result.is_err();
            report(LocalDone { worker, round, block, result }, &|| is_bad || urgency.is_pressing());
        }));
    }
}

impl Drop for LocalSeat {
    fn drop(&mut self) {
        for kept in self.rounds.values() {
            kept.cancelled.store(true, Relaxed);
        }
    }
}
