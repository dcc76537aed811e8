//! The simulated master: passes events to the scheduler and carries out its actions.

use super::queue::{Happening, Part, ToExecutor, ToMaster};
use super::{Engine, Executor, REMOTE_START};
use crate::checkers::{Step, Verdict, Violation, promise};
use crate::letters::Posted;
use crate::network::Direction;
use crate::oracle;
use crate::plan::{Cancel, RoundPlan, SeatPlan, Submit};
use qjam_core::ids::{DataSetId, PartId, RoundId, SeatId, WorkerId};
use qjam_core::job::{Cause, Death, Fault, FaultKind, RoundSpec};
use qjam_core::journal::{Journal, What};
use qjam_core::reduce::tree::Offer;
use qjam_core::reduce::{Node, Tree};
use qjam_core::scheduler::{Action, Config, Event, Scheduler, invariants};
use qjam_core::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// The scheduler and the data of the loop around it.
pub(super) struct Master {
    pub(super) scheduler: Scheduler,
    pub(super) stalled_until: Time,
    /// When the next tick is due, as far as the queue knows.
    tick_at: Option<Time>,
    rounds: BTreeMap<RoundId, OpenRound>,
    journal: Journal,
    told: u64,
    /// Actions that have not been carried out yet.
    todo: VecDeque<Action>,
    /// Values of delivered parts whose verdicts are not carried out yet.
    in_hand: BTreeMap<PartId, Posted>,
    next_part: u64,
}

/// A round that has not been closed.
struct OpenRound {
    tree: Tree<Posted>,
    /// An error while merging on the master.
    broken: Option<Fault>,
    blocks_accepted: u32,
    cancel_is_asked: bool,
}

impl Master {
    pub(super) fn new(config: Config) -> Self {
        Master {
            scheduler: Scheduler::new(config),
            stalled_until: Time(0),
            tick_at: None,
            rounds: BTreeMap::new(),
            journal: Journal::new(64),
            told: 0,
            todo: VecDeque::new(),
            in_hand: BTreeMap::new(),
            next_part: 0,
        }
    }

    /// Postpones an event until the master continues.
    pub(super) fn put_off(&mut self, what: &Happening) {
        if matches!(what, Happening::TickDue) && self.tick_at.is_some_and(|at| at < self.stalled_until) {
            self.tick_at = Some(self.stalled_until);
        }
    }
}

impl Engine<'_> {
    pub(super) fn add_seat(&mut self, seat: SeatId) -> Verdict {
        let SeatPlan { slots, promised, remote, .. } = self.plan.seats[seat.0 as usize];
        let slots = promised.unwrap_or(slots);
        self.tell(Event::SeatAdded { seat, slots, remote })
    }

    /// Ends the worker on a seat, if it is reachable, and reports it.
    fn remove_seat(&mut self, seat: SeatId) -> Verdict {
        for worker in self.on_seat(seat) {
            self.network.close(worker);
            self.unlearned.remove(&worker);
            if self.is_in_reach(worker) {
                self.executors.remove(&worker);
            } else {
                self.hang_up(worker);
            }
        }
        self.tell(Event::SeatRemoved { seat })
    }

    pub(super) fn spec(&self, round: RoundId) -> &RoundPlan {
        &self.plan.rounds[round.0 as usize - 1]
    }

    pub(super) fn step_in_master(&mut self, what: Happening) -> Verdict {
        match what {
            Happening::Heard { from, message } => self.on_heard(from, message),
            Happening::LossLearned { worker, death } => {
                self.network.close(worker);
                self.unlearned.remove(&worker);
                self.tell(Event::WorkerLost { worker, death })
            }
            Happening::TickDue => {
                if self.master.tick_at != Some(self.now) {
                    return Ok(()); // an earlier one took its place
                }
                self.master.tick_at = None;
                if self.master.scheduler.next_deadline().is_some_and(|due| due <= self.now) {
                    self.trace.note(self.now, || "tick".into());
                    self.tell(Event::Ticked)?;
                    let next = self.master.scheduler.next_deadline();
                    promise!(
                        next.is_none_or(|due| due > self.now),
                        "a_tick_does_what_was_due",
                        "at {:?} the next is due at {next:?}",
                        self.now
                    );
                    Ok(())
                } else {
                    self.schedule_tick();
                    Ok(())
                }
            }
            Happening::SeatAsked { seat } => self.add_seat(seat),
            Happening::SeatDropped { seat } => self.remove_seat(seat),
            Happening::StartExpired { worker } => {
                if self.master.scheduler.is_starting(worker) {
                    let cause = Cause::Start(format!("no word from it within {REMOTE_START}"));
                    self.queue.push(self.now, Happening::Killed { worker, cause });
                }
                Ok(())
            }
            Happening::Submitted { round } => self.on_submitted(round),
            Happening::CancelAsked { round } => self.tell(Event::RoundCancelled { round }),
            Happening::MergeFailed { round, fault } => {
                self.tell(Event::Faulted { worker: None, round, fault })
            }
            _ => unreachable!("{what:?} is not the master's"),
        }
    }

    fn on_submitted(&mut self, round: RoundId) -> Verdict {
        let spec = self.spec(round);
        let (cut, cancel, mode) = (spec.cut, spec.cancel, spec.mode);
        let (slots_max, done) = (spec.slots_max, spec.ready);
        let held = spec.is_held.then_some(super::states::HOLD);
        let mut name = [0; 32];
        name[..4].copy_from_slice(&spec.dataset.to_le_bytes());
        let mut tree = Tree::new(cut);
        for block in 0..done {
            let value = oracle::block(value_key(self.plan.seed, round), cut, mode, block);
            let merge = |left: &mut Posted, right: Posted| {
                left.merge(right);
                Ok::<(), ()>(())
            };
            assert!(tree.insert(cut.node(block), value.into(), merge).is_ok(), "this merge cannot fail");
        }
        let here = OpenRound { tree, broken: None, blocks_accepted: 0, cancel_is_asked: false };
        self.master.rounds.insert(round, here);
        if let Some(Cancel::After(span)) = cancel {
            self.queue.push(self.now + span, Happening::CancelAsked { round });
        }
        self.rounds[round.0 as usize - 1].0 = self.now;
        let spec = RoundSpec { slots_max, done, held, ..RoundSpec::new(DataSetId(name), cut) };
        self.tell(Event::RoundSubmitted { round, spec })
    }

    fn on_heard(&mut self, worker: WorkerId, message: ToMaster) -> Verdict {
        if !self.network.delivers(self.now, worker) {
            self.tally.messages_lost += 1;
            return Ok(());
        }
        if let Some((_, until)) = self.network.held(self.now, worker) {
            self.queue.push(until, Happening::Heard { from: worker, message });
            return Ok(());
        }
        if !self.network.is_open(worker) {
            self.tally.messages_late += 1;
            if !self.plan.late_messages {
                return Ok(());
            }
        }
        match message {
            ToMaster::Hello => {
                if let Some(executor) = self.executors.get_mut(&worker) {
                    executor.has_joined = true;
                }
                self.tell(Event::WorkerJoined {
                    worker,
                    slots: self.plan.seats[worker.seat.0 as usize].slots,
                })
            }
            ToMaster::Running | ToMaster::Pong => self.tell(Event::WorkerSpoke { worker }),
            ToMaster::Blocked { dataset, chunks } => {
                let bytes = chunks.len() as u64 * self.chunk_bytes(dataset);
                self.send_to_executor(worker, ToExecutor::Refs { dataset, chunks }, bytes)?;
                self.tell(Event::WorkerSpoke { worker })
            }
            ToMaster::Behind { round, partitions, only_mail } => {
                self.on_behind(worker, round, partitions, only_mail)
            }
            ToMaster::Result { round, parts, busy: span } => {
                let blocks = parts.iter().flat_map(|p| &p.ranges).map(|s| s.len).sum();
                self.tell(Event::Computed { worker, round, blocks, span })?;
                for Part { node, ranges, value } in parts {
                    let part = PartId(self.master.next_part);
                    self.master.next_part += 1;
                    self.master.in_hand.insert(part, value);
                    self.tell(Event::PartDelivered { part, worker, round, node, ranges })?;
                }
                Ok(())
            }
            ToMaster::Error { round, fault } => {
                self.tell(Event::Faulted { worker: Some(worker), round, fault })
            }
            ToMaster::Returned { round, returned } => self.tell(Event::Returned { worker, round, returned }),
            ToMaster::Cancelled { round } => self.tell(Event::RoundLetGo { worker, round }),
        }
    }

    fn chunk_bytes(&self, dataset: u32) -> u64 {
        self.plan.rounds.iter().find(|r| r.dataset == dataset).map_or(0, |r| r.chunk_bytes)
    }

    /// Passes an event to the scheduler, checks the resulting actions, and carries them out.
    ///
    /// Carrying them out may cause further events, which are passed on immediately. Their actions come after the earlier ones, which
    /// are then carried out although the scheduler already knows the later event.
    pub(super) fn tell(&mut self, event: Event) -> Verdict {
        let mut actions = Vec::new();
        let seen = self.plan.is_watched.then(|| event.clone());
        self.master.scheduler.handle(self.now, event, &mut actions);
        self.master.told += 1;
        for action in actions.iter().filter(|a| !matches!(a, Action::Start { .. })) {
            self.trace.note(self.now, || format!("    ▸ {action:?}"));
        }
        if let Some(event) = seen {
            if self.master.told.is_multiple_of(self.check_every) {
                invariants::check(&self.master.scheduler);
            }
            self.observer.observe(&Step { now: self.now, event: &event, actions: &actions }, &self.truth)?;
        }
        let is_outer = self.master.todo.is_empty();
        self.master.todo.extend(actions);
        if is_outer {
            while let Some(action) = self.master.todo.pop_front() {
                self.carry_out(action)?;
            }
        }
        self.schedule_tick();
        Ok(())
    }

    fn schedule_tick(&mut self) {
        let Some(due) = self.master.scheduler.next_deadline() else { return };
        if self.master.tick_at.is_none_or(|at| due < at) {
            // A real loop is never early and rarely exact.
            let at = due.max(self.now) + Span(self.rng.below(2_000));
            if self.master.tick_at.is_none_or(|before| at < before) {
                self.queue.push(at, Happening::TickDue);
                self.master.tick_at = Some(at);
            }
        }
    }

    fn carry_out(&mut self, action: Action) -> Verdict {
        match action {
            Action::Start { worker } => self.start(worker),
            Action::Kill { worker, cause } => {
                self.tally.kills += 1;
                if self.plan.is_sudden {
                    return self.end_at_once(worker, cause);
                }
                let at = self.now + Span(self.rng.below(3_000));
                self.queue.push(at, Happening::Killed { worker, cause });
            }
            Action::Ping { worker } => return self.send_to_executor(worker, ToExecutor::Ping, 0),
            Action::Assign { worker, round, ranges } => {
                let bytes = self.spec(round).params_bytes;
                let base = self.base_of(round);
                return self.send_to_executor(worker, ToExecutor::Task { round, ranges, base }, bytes);
            }
            Action::Recall { worker, round, blocks } => {
                self.tally.recalls += 1;
                return self.send_to_executor(worker, ToExecutor::Recall { round, blocks }, 0);
            }
            Action::Apart { worker, round, block } => {
                return self.send_to_executor(worker, ToExecutor::Apart { round, block }, 0);
            }
            Action::Cancel { worker, round, .. } => {
                return self.send_to_executor(worker, ToExecutor::Cancel { round }, 0);
            }
            Action::Accept { part, round, node } => {
                let value = self.master.in_hand.remove(&part);
                let value = value.expect("the observer saw to it that a part was delivered");
                self.accept(round, node, value);
            }
            Action::Discard { part, .. } => drop(self.master.in_hand.remove(&part)),
            Action::Finish { round } => {
                let has_value = self.finish(round)?;
                self.on_answered(round);
                return self.end_held(round, has_value);
            }
            Action::Fail { round, failure } => {
                promise!(self.plan.is_watched, "every_round_of_a_study_has_a_value", "{round}: {failure:?}");
                self.on_answered(round);
                return self.end_held(round, false);
            }
            Action::Close { round } => {
                self.master.rounds.remove(&round);
                if self.plan.is_watched {
                    self.check_nobody_is_at(round)?;
                }
            }
            Action::Note(what) => self.note(what),
        }
        Ok(())
    }

    fn accept(&mut self, round: RoundId, node: Node, value: Posted) {
        let spec = &self.plan.rounds[round.0 as usize - 1];
        let here = self.master.rounds.get_mut(&round).expect("the observer saw to it that the round is open");
        here.blocks_accepted += spec.cut.blocks_of(node).len() as u32;
        if let Some(Cancel::AtBlock(n)) = spec.cancel
            && here.blocks_accepted >= n
            && !std::mem::replace(&mut here.cancel_is_asked, true)
        {
            self.queue.push(self.now, Happening::CancelAsked { round });
        }
        let (mut node, mut value) = (node, value);
        while here.broken.is_none() {
            let Offer::Merge { node: up, mut left, right } = here.tree.offer(node, value) else { return };
            if spec.bad_merge == Some(up) {
                let fault = merge_fault(round, spec, up);
                here.broken = Some(fault.clone());
                self.queue.push(self.now, Happening::MergeFailed { round, fault });
                return;
            }
            left.merge(right);
            (node, value) = (up, left);
        }
    }

    /// Whether a round has not been answered.
    pub(super) fn is_open(&self, round: RoundId) -> bool {
        self.observer.is_open(round)
    }

    /// All blocks are merged: the value must have the bits of the serial run. Returns whether there is one.
    fn finish(&mut self, round: RoundId) -> Result<bool, Violation> {
        let states = self.spec(round).is_held.then(|| self.states_after(round));
        let spec = &self.plan.rounds[round.0 as usize - 1];
        let here = self.master.rounds.get_mut(&round).expect("a round is finished before it is closed");
        if here.broken.is_some() {
            self.observer.answered_with_fault(round);
            return Ok(false);
        }
        if spec.is_doomed() {
            return Err(Violation::new("a_doomed_round_has_no_value", format!("{round}: {spec:?}")));
        }
        let key = value_key(self.plan.seed, round);
        let expected = match states {
            Some(states) => oracle::serial_of_states(&states),
            None => oracle::serial(key, spec.cut.chunks, spec.cut.level, spec.mode),
        };
        match here.tree.take_root() {
            None => {
                let what = format!("{round} was finished, but its tree has {} roots", here.tree.len());
                Err(Violation::new("a_finished_round_has_the_serial_answer", what))
            }
            Some(Posted { value, .. }) if !value.is_same(&expected) => {
                let what = format!("{round} gave {value:?}, alone it gives {expected:?}");
                Err(Violation::new("a_finished_round_has_the_serial_answer", what))
            }
            Some(Posted { outbox, .. }) => {
                self.hold.outbox = outbox;
                Ok(true)
            }
        }
    }

    fn on_answered(&mut self, round: RoundId) {
        self.answered = self.now;
        self.rounds[round.0 as usize - 1].1 = self.now;
        self.rounds_left -= 1;
        let next = RoundId(round.0 + 1);
        if let Some(RoundPlan { submit: Submit::AfterPrevious(span), .. }) =
            self.plan.rounds.get(round.0 as usize)
        {
            self.queue.push(self.now + *span, Happening::Submitted { round: next });
        }
    }

    /// A closed round's resources are released: no connected worker may still use them.
    fn check_nobody_is_at(&self, round: RoundId) -> Verdict {
        let reachable = |id: &WorkerId| self.network.is_open(*id) && !self.network.is_cut(*id);
        let at_it = |e: &Executor| e.inside().iter().any(|(r, _)| *r == round);
        match self.executors.iter().find(|(id, e)| reachable(id) && at_it(e)) {
            Some((id, _)) => {
                Err(Violation::new("nobody_is_inside_a_closed_round", format!("{id} still runs {round}")))
            }
            None => Ok(()),
        }
    }

    fn start(&mut self, worker: WorkerId) {
        let seat = &self.plan.seats[worker.seat.0 as usize];
        self.network.connect(worker, seat.latency, seat.per_mib);
        if seat.remote {
            let at = self.now + REMOTE_START + seat.start + seat.start;
            self.queue.push(at, Happening::StartExpired { worker });
        }
        if let Some(&(refuses, until)) = self.outages.get(&worker.seat)
            && self.now < until
        {
            self.tally.starts_failed += 1;
            if refuses {
                let death = Death::of(Cause::Start("No route to host".into()));
                self.queue.push(self.now + seat.latency, Happening::LossLearned { worker, death });
            }
            return;
        }
        if let Some(&(silently, until)) = self.failing_starts.get(&worker.seat)
            && self.now < until
        {
            self.tally.starts_failed += 1;
            if !silently {
                let death = Death::of(Cause::Start("no such host".into()));
                let at = self.now + Span(seat.start.0 / 2);
                self.queue.push(at, Happening::LossLearned { worker, death });
            }
            return;
        }
        self.executors.insert(worker, Executor::new(seat, self.plan.deliver_after));
        let at = self.now + Span(seat.start.0 / 2 + self.rng.below(seat.start.0));
        self.queue.push(at, Happening::Ready { executor: worker });
    }

    pub(super) fn send_to_executor(&mut self, worker: WorkerId, message: ToExecutor, bytes: u64) -> Verdict {
        if self.plan.is_sudden
            && let Some(death) = self.unlearned.get(&worker).cloned()
            && self.rng.percent(70)
        {
            return self.learn_at_once(worker, death); // the kernel reports that the other end is gone
        }
        self.tally.messages_out += 1;
        self.tally.bytes_out += bytes;
        let jitter_us = self.rng.below(20);
        let at = self.network.send(self.now, worker, Direction::ToWorker, bytes, jitter_us);
        self.queue.push(at, Happening::Arrived { executor: worker, message });
        Ok(())
    }

    /// Kills a process and waits for its end, as a driver does with its own children.
    fn end_at_once(&mut self, worker: WorkerId, cause: Cause) -> Verdict {
        let mut death = Death::of(cause);
        if let Some(executor) = self.executors.get(&worker)
            && self.is_in_reach(worker)
        {
            death.inside = executor.inside();
            self.executors.remove(&worker);
        }
        self.hang_up(worker);
        self.learn_at_once(worker, death)
    }

    fn learn_at_once(&mut self, worker: WorkerId, death: Death) -> Verdict {
        self.network.close(worker);
        self.unlearned.remove(&worker);
        self.tell(Event::WorkerLost { worker, death })
    }

    fn note(&mut self, what: What) {
        self.tally.note(&what);
        self.master.journal.note(self.now, what);
    }
}

/// The inputs of a round's values.
pub(super) fn value_key(seed: u64, round: RoundId) -> u64 {
    seed.wrapping_mul(31).wrapping_add(round.0)
}

/// The fault that is reported when two halves cannot be merged.
pub(super) fn merge_fault(round: RoundId, spec: &RoundPlan, node: Node) -> Fault {
    Fault {
        kind: FaultKind::Merge,
        chunk: Some(spec.cut.chunks_of(node).start),
        message: round.to_string(),
        location: None,
        backtrace: None,
        carried: Vec::new(),
    }
}
