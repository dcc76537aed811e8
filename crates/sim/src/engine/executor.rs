//! A simulated worker process: carries out the actions of its state machine, runs blocks, and keeps partial reductions.

use super::master::{merge_fault, value_key};
use super::queue::{Happening, Part, ToExecutor, ToMaster};
use super::{Engine, WorkerStates};
use crate::checkers::Verdict;
use crate::checkers::conduct::Conduct;
use crate::letters::Posted;
use crate::network::Direction;
use crate::oracle;
use crate::plan::SeatPlan;
use crate::random::mix;
use qjam_core::ids::{Block, RoundId, Version, WorkerId};
use qjam_core::job::{Cause, Fault, FaultKind};
use qjam_core::lease;
use qjam_core::reduce::tree::Offer;
use qjam_core::reduce::{Node, Tree};
use qjam_core::time::{Span, Time};
use qjam_core::worker::{Action, Delivery, Event, Worker, invariants};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const BEAT: Span = Span::from_ms(1_000);

/// A process with the state machine of a worker.
pub(super) struct Executor {
    pub(super) machine: Worker,
    pub(super) has_joined: bool,
    pub(super) is_stopped: bool,
    /// Events that arrived while it was stopped.
    pub(super) deferred: Vec<Happening>,
    /// Whether it dies while it sends its next result.
    pub(super) dies_sending: bool,
    /// Slowdown factor for blocks and until when it applies.
    pub(super) slow: (u64, Time),
    conduct: Conduct,
    is_inline: bool,
    listens: bool,
    /// Time in user code since the last result, over all slots.
    busy_us: BTreeMap<RoundId, u64>,
    trees: BTreeMap<RoundId, Tree<Posted>>,
    runs: Vec<Run>,
    collected: BTreeMap<RoundId, Vec<(Node, Posted)>>,
    /// Chunks received, by data set.
    fetched: BTreeSet<(u32, u32)>,
    /// Chunks requested, and the rounds that wait for them.
    awaited: BTreeMap<(u32, u32), BTreeSet<RoundId>>,
    /// Messages that arrived while a block ran on the reading thread.
    inbox: VecDeque<ToExecutor>,
    beats: bool,
    prompted: u64,
    pub(super) states: WorkerStates,
}

/// A block in a slot.
struct Run {
    id: u64,
    round: RoundId,
    block: Block,
    stage: Stage,
}

enum Stage {
    Function,
    /// The slot is merging two halves.
    Merging {
        node: Node,
        left: Posted,
        right: Posted,
    },
    /// The value is in the tree; the state machine has not been told yet.
    Reporting,
}

impl Executor {
    pub(super) fn new(seat: &SeatPlan, deliver_after: Span) -> Self {
        Executor {
            machine: Worker::new(seat.slots, deliver_after),
            has_joined: false,
            is_stopped: false,
            deferred: Vec::new(),
            dies_sending: false,
            slow: (1, Time(0)),
            conduct: Conduct::new(seat.slots, deliver_after),
            is_inline: seat.inline,
            listens: seat.listens,
            busy_us: BTreeMap::new(),
            trees: BTreeMap::new(),
            runs: Vec::new(),
            collected: BTreeMap::new(),
            fetched: BTreeSet::new(),
            awaited: BTreeMap::new(),
            inbox: VecDeque::new(),
            beats: false,
            prompted: 0,
            states: WorkerStates::default(),
        }
    }

    /// Blocks whose user code is running, as the status page shows them.
    pub(super) fn inside(&self) -> Vec<(RoundId, Block)> {
        let inside = self.runs.iter().filter(|r| !matches!(r.stage, Stage::Reporting));
        inside.map(|r| (r.round, r.block)).collect()
    }

    fn is_occupied(&self) -> bool {
        self.is_inline && !self.listens && !self.runs.is_empty()
    }
}

impl Engine<'_> {
    pub(super) fn step_in_executor(&mut self, id: WorkerId, what: Happening) -> Verdict {
        match what {
            Happening::Ready { .. } => {
                self.send_to_master(id, ToMaster::Hello, 0);
                Ok(())
            }
            Happening::Arrived { message, .. } => {
                if !self.network.delivers(self.now, id) {
                    self.tally.messages_lost += 1;
                    return Ok(());
                }
                if let Some((_, until)) = self.network.held(self.now, id) {
                    self.queue.push(until, Happening::Arrived { executor: id, message });
                    return Ok(());
                }
                let executor = self.process(id);
                if executor.is_occupied() {
                    executor.inbox.push_back(message);
                    return Ok(());
                }
                self.on_message(id, message)
            }
            Happening::FunctionEnded { run, .. } => self.on_function_ended(id, run),
            Happening::MergeEnded { run, .. } => self.on_merge_ended(id, run),
            Happening::Reported { run, .. } => self.on_block_done(id, run, None),
            Happening::CollectEnded { round, .. } => self.on_collect_ended(id, round),
            Happening::Beat { .. } => self.on_beat(id),
            Happening::CutLearned { .. } => {
                self.executors.remove(&id);
                Ok(())
            }
            Happening::Poisoned { round, block, .. } => {
                self.tally.poisonings += 1;
                self.truth.poisoned(id, round, block);
                let cause = [Cause::Signal(11), Cause::Exited(1), Cause::Signal(9)];
                let cause = self.rng.pick(&cause).clone();
                self.die(id, cause);
                Ok(())
            }
            _ => unreachable!("{what:?} is not a worker's"),
        }
    }

    pub(super) fn process(&mut self, id: WorkerId) -> &mut Executor {
        self.executors.get_mut(&id).expect("things happen in living processes only")
    }

    fn on_message(&mut self, id: WorkerId, message: ToExecutor) -> Verdict {
        match message {
            ToExecutor::Task { round, ranges, base } => self.on_task(id, round, ranges, base),
            ToExecutor::Recipe { round, recipes } => self.on_recipe(id, round, recipes),
            ToExecutor::Refs { dataset, chunks } => {
                let executor = self.process(id);
                let mut ready: BTreeMap<RoundId, Vec<u32>> = BTreeMap::new();
                for chunk in chunks {
                    executor.fetched.insert((dataset, chunk));
                    for round in executor.awaited.remove(&(dataset, chunk)).unwrap_or_default() {
                        ready.entry(round).or_default().push(chunk);
                    }
                }
                for (round, chunks) in ready {
                    self.prompt(id, Event::ChunksArrived { round, chunks })?;
                }
                Ok(())
            }
            ToExecutor::Cancel { round } => self.prompt(id, Event::CancelReceived { round }),
            ToExecutor::Recall { round, blocks } => self.prompt(id, Event::RecallReceived { round, blocks }),
            ToExecutor::Apart { round, block } => self.prompt(id, Event::ApartReceived { round, block }),
            ToExecutor::Ping => {
                self.send_to_master(id, ToMaster::Pong, 0);
                Ok(())
            }
        }
    }

    fn on_task(
        &mut self,
        id: WorkerId,
        round: RoundId,
        ranges: Vec<lease::BlockRange>,
        base: Option<(Version, bool)>,
    ) -> Verdict {
        let spec = &self.plan.rounds[round.0 as usize - 1];
        if spec.bad_params {
            // The state machine is not told; the master will close the round.
            let fault = fault(FaultKind::Params, None, round);
            self.send_to_master(id, ToMaster::Error { round, fault }, 0);
            return Ok(());
        }
        let (cut, dataset) = (spec.cut, spec.dataset);
        let warm_percent = self.plan.seats[id.seat.0 as usize].warm_percent;
        let executor = self.process(id);
        executor.trees.entry(round).or_insert_with(|| Tree::new(cut));
        let (mut missing, mut ask) = (Vec::new(), Vec::new());
        if warm_percent < 100 {
            for chunk in ranges.iter().flat_map(|s| s.blocks()).flat_map(|b| cut.chunks_of(cut.node(b))) {
                let lot = mix(u64::from(id.seat.0) << 40 ^ u64::from(dataset) << 32 ^ u64::from(chunk)) % 100;
                if lot < warm_percent || executor.fetched.contains(&(dataset, chunk)) {
                    continue;
                }
                missing.push(chunk);
                let waiting = executor.awaited.entry((dataset, chunk)).or_default();
                if waiting.is_empty() {
                    ask.push(chunk);
                }
                waiting.insert(round);
            }
        }
        let is_back = |r: &Run| {
            r.round == round
                && matches!(r.stage, Stage::Reporting)
                && ranges.iter().any(|s| s.blocks().contains(&r.block))
        };
        let back = executor.runs.iter().filter(|r| is_back(r)).count();
        let starts_beating = !std::mem::replace(&mut executor.beats, true);
        if starts_beating {
            self.queue.push(self.now + BEAT, Happening::Beat { executor: id });
        }
        self.tally.blocks_back_early += back as u64;
        self.tally.chunks_fetched += ask.len() as u64;
        for chunks in ask.chunks(64) {
            self.send_to_master(id, ToMaster::Blocked { dataset, chunks: chunks.to_vec() }, 0);
        }
        let blocks = || ranges.iter().flat_map(lease::BlockRange::blocks).collect();
        let behind = base.map(|base| self.behind(id, round, base, blocks())).unwrap_or_default();
        self.prompt(id, Event::TaskReceived { round, cut, ranges, missing, behind })
    }

    /// Every second while there is work: sends a heartbeat if a block is running.
    fn on_beat(&mut self, id: WorkerId) -> Verdict {
        let ticks = self.plan.seats[id.seat.0 as usize].ticks;
        let executor = self.process(id);
        let (is_running, is_occupied) = (!executor.inside().is_empty(), executor.is_occupied());
        executor.beats = executor.machine.is_busy();
        if executor.beats {
            self.queue.push(self.now + BEAT, Happening::Beat { executor: id });
        }
        if is_running {
            self.send_to_master(id, ToMaster::Running, 0);
        }
        if ticks && !is_occupied { self.prompt(id, Event::Ticked) } else { Ok(()) }
    }

    /// Passes an event to a worker's state machine, checks the resulting actions, and carries them out.
    pub(super) fn prompt(&mut self, id: WorkerId, event: Event) -> Verdict {
        // Clocks of different hosts differ.
        let now = self.now + Span(u64::from(id.seat.0) * 977 + u64::from(id.incarnation) * 31);
        let check_every = self.check_every;
        let executor = self.executors.get_mut(&id).expect("only living machines are prompted");
        let mut actions = Vec::new();
        let seen = self.plan.is_watched.then(|| event.clone());
        executor.machine.handle(now, event, &mut actions);
        executor.prompted += 1;
        for action in &actions {
            self.trace.note(self.now, || format!("    {id} ▹ {action:?}"));
        }
        if let Some(event) = seen {
            if executor.prompted.is_multiple_of(check_every) {
                invariants::check(&executor.machine);
            }
            executor.conduct.observe(id, now, &event, &actions)?;
        }
        for action in actions {
            // One of them may kill it.
            if self.executors.contains_key(&id) {
                self.act(id, action)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, id: WorkerId, action: Action) -> Verdict {
        match action {
            Action::Run { round, block, .. } => self.run_block(id, round, block)?,
            Action::Collect { round } => {
                let collect = self.plan.seats[id.seat.0 as usize].collect;
                self.queue.push(self.now + collect, Happening::CollectEnded { executor: id, round });
            }
            Action::Send { round, parts } => self.deliver(id, round, parts),
            Action::Forget { round } => {
                let executor = self.process(id);
                executor.trees.remove(&round);
                executor.collected.remove(&round);
                executor.states.forget(round);
            }
            Action::SetApart { round, block } => {
                let (plan, spec) = (self.plan, &self.plan.rounds[round.0 as usize - 1]);
                let executor = self.process(id);
                let tree = executor.trees.get_mut(&round).expect("a round is here while its blocks are");
                tree.set_apart(spec.cut.node(block));
                // A block whose function has returned may already be merged with its neighbour.
                let is_over =
                    |r: &Run| (r.round, r.block) == (round, block) && !matches!(r.stage, Stage::Function);
                if plan.is_watched && !executor.runs.iter().any(is_over) {
                    executor.conduct.is_apart_in_time(round, block);
                }
            }
            Action::Return { round, returned } => {
                self.send_to_master(id, ToMaster::Returned { round, returned }, 0);
            }
            Action::LetGo { round } => self.send_to_master(id, ToMaster::Cancelled { round }, 0),
            Action::Protest { .. } => unreachable!("conduct objects to protests"),
        }
        Ok(())
    }

    fn run_block(&mut self, id: WorkerId, round: RoundId, block: Block) -> Verdict {
        let is_held = self.spec(round).is_held;
        let steps = if is_held { self.enter_state(id, round, block)? } else { 0 };
        self.runs += 1;
        self.tally.blocks_run += 1;
        let run = self.runs;
        let spec = &self.plan.rounds[round.0 as usize - 1];
        let (least, range) = (100 - spec.spread_percent, 2 * spec.spread_percent);
        let span = Span(spec.block.0 * least / 100 + self.rng.below(spec.block.0 * range / 100 + 1));
        let span = Span(span.0 + steps * spec.block.0 / 4);
        let mut span_us = self.plan.seats[id.seat.0 as usize].pace(round, span).0;
        let now = self.now;
        let executor = self.process(id);
        if now < executor.slow.1 {
            span_us *= executor.slow.0;
        }
        *executor.busy_us.entry(round).or_default() += span_us;
        executor.runs.push(Run { id: run, round, block, stage: Stage::Function });
        if spec.poison.contains(&block) {
            let at = self.now + Span(self.rng.below(span_us + 1));
            self.queue.push(at, Happening::Poisoned { executor: id, round, block });
        } else {
            self.queue.push(self.now + Span(span_us), Happening::FunctionEnded { executor: id, run });
        }
        Ok(())
    }

    fn on_function_ended(&mut self, id: WorkerId, run: u64) -> Verdict {
        let (round, block) = self.find_run(id, run);
        let spec = self.spec(round);
        if spec.panics.contains(&block) {
            let chunk = spec.cut.chunks_of(spec.cut.node(block)).start;
            let fault = fault(FaultKind::Panic, Some(chunk), round);
            return self.on_block_done(id, run, Some(fault));
        }
        let node = spec.cut.node(block);
        let value = match spec.is_held {
            true => self.leave_state(id, round, block),
            false => oracle::block(value_key(self.plan.seed, round), spec.cut, spec.mode, block).into(),
        };
        self.offer(id, run, node, value)
    }

    /// Adds a value to the tree, or takes out its neighbour to merge them.
    fn offer(&mut self, id: WorkerId, run: u64, node: Node, value: Posted) -> Verdict {
        let (round, _) = self.find_run(id, run);
        let seat = &self.plan.seats[id.seat.0 as usize];
        let tree = self.process(id).trees.get_mut(&round).expect("a round is not forgotten while it is run");
        match tree.offer(node, value) {
            Offer::Merge { node, left, right } => {
                self.set_stage(id, run, Stage::Merging { node, left, right });
                if seat.merge == Span(0) {
                    return self.on_merge_ended(id, run);
                }
                self.queue.push(self.now + seat.merge, Happening::MergeEnded { executor: id, run });
            }
            Offer::Kept => {
                self.set_stage(id, run, Stage::Reporting);
                let delay = if seat.inline { 0 } else { self.rng.below(seat.report.0 + 1) };
                if delay == 0 {
                    return self.on_block_done(id, run, None);
                }
                self.queue.push(self.now + Span(delay), Happening::Reported { executor: id, run });
            }
        }
        Ok(())
    }

    fn on_merge_ended(&mut self, id: WorkerId, run: u64) -> Verdict {
        let run_here = self.process(id).runs.iter_mut().find(|r| r.id == run).expect("it is running");
        let round = run_here.round;
        let Stage::Merging { node, mut left, right } =
            std::mem::replace(&mut run_here.stage, Stage::Function)
        else {
            unreachable!("{run} was not merging")
        };
        let spec = self.spec(round);
        if spec.bad_merge == Some(node) {
            let fault = merge_fault(round, spec, node);
            return self.on_block_done(id, run, Some(fault));
        }
        left.merge(right);
        self.offer(id, run, node, left)
    }

    /// A slot is free. If one thread does everything, it first reads the messages that arrived meanwhile.
    fn on_block_done(&mut self, id: WorkerId, run: u64, fault: Option<Fault>) -> Verdict {
        let (round, block) = self.find_run(id, run);
        for message in std::mem::take(&mut self.process(id).inbox) {
            self.on_message(id, message)?;
        }
        let Some(executor) = self.executors.get_mut(&id) else { return Ok(()) };
        executor.runs.retain(|r| r.id != run);
        match fault {
            None => self.prompt(id, Event::BlockFinished { round, block }),
            Some(fault) => {
                self.send_to_master(id, ToMaster::Error { round, fault }, 0);
                self.prompt(id, Event::BlockFailed { round, block })
            }
        }
    }

    fn on_collect_ended(&mut self, id: WorkerId, round: RoundId) -> Verdict {
        let executor = self.process(id);
        let taken = executor.trees.get_mut(&round).map(Tree::take).unwrap_or_default();
        let nodes = taken.iter().map(|(node, _)| *node).collect();
        executor.collected.insert(round, taken);
        self.prompt(id, Event::Collected { round, nodes })
    }

    fn deliver(&mut self, id: WorkerId, round: RoundId, deliveries: Vec<Delivery>) {
        let executor = self.process(id);
        let values = executor.collected.remove(&round).expect("only what was collected is sent");
        if executor.dies_sending {
            self.die(id, Cause::Signal(9));
            return;
        }
        let parts: Vec<Part> = values
            .into_iter()
            .zip(deliveries)
            .map(|((_, value), Delivery { node, ranges })| Part { node, ranges, value })
            .collect();
        self.tally.parts += parts.len() as u64;
        let bytes = parts.len() as u64 * self.spec(round).partial_bytes;
        let slots = u64::from(self.plan.seats[id.seat.0 as usize].slots);
        let busy = Span(self.process(id).busy_us.remove(&round).unwrap_or(0) / slots);
        self.send_to_master(id, ToMaster::Result { round, parts, busy }, bytes);
    }

    fn find_run(&mut self, id: WorkerId, run: u64) -> (RoundId, Block) {
        let run = self.process(id).runs.iter().find(|r| r.id == run).expect("it is running");
        (run.round, run.block)
    }

    fn set_stage(&mut self, id: WorkerId, run: u64, stage: Stage) {
        let run = self.process(id).runs.iter_mut().find(|r| r.id == run).expect("it is running");
        run.stage = stage;
    }

    pub(super) fn send_to_master(&mut self, from: WorkerId, message: ToMaster, bytes: u64) {
        self.tally.messages_in += 1;
        self.tally.bytes_in += bytes;
        let jitter_us = self.rng.below(20);
        let at = self.network.send(self.now, from, Direction::ToMaster, bytes, jitter_us);
        let repeats = matches!(
            message,
            ToMaster::Hello
                | ToMaster::Result { .. }
                | ToMaster::Error { .. }
                | ToMaster::Cancelled { .. }
                | ToMaster::Returned { .. }
        );
        if repeats && self.plan.repeated_percent > 0 && self.rng.percent(self.plan.repeated_percent) {
            self.tally.messages_repeated += 1;
            let later = at + Span(self.rng.magnitude(1, 20_000_000));
            self.queue.push(later, Happening::Heard { from, message: message.clone() });
        }
        self.queue.push(at, Happening::Heard { from, message });
    }
}

fn fault(kind: FaultKind, chunk: Option<u32>, round: RoundId) -> Fault {
    Fault { kind, chunk, message: round.to_string(), location: None, backtrace: None, carried: Vec::new() }
}
