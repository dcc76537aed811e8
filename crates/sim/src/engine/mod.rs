//! Runs a plan through virtual time, in place of the loops of master and workers. Makes no scheduling decision.
//!
//! ```text
//!            scheduler::Event            worker::Event
//!   queue ──▶ master.rs ──▶ Scheduler    executor.rs ──▶ Worker, one per living process
//!     ▲           │ Actions                  │ Actions
//!     └───────────┴──── network, blocks ─────┘
//! ```
//!
//! [`master`] carries out the actions of the scheduler, [`executor`] those of a worker's state machine; both put the consequences
//! into the [`queue`]. This module applies faults and ends processes. After every event, the invariants of the state machine and the
//! [`checkers`] run.

mod executor;
mod master;
mod queue;
mod states;

use crate::checkers::{self, Answer, Observer, Truth, Verdict, Violation};
use crate::fault::Fault;
use crate::network::Network;
use crate::plan::{Plan, Submit};
use crate::random::Rng;
use crate::tally::Tally;
use crate::trace::Trace;
use executor::Executor;
use master::Master;
use qjam_core::ids::{RoundId, SeatId, WorkerId};
use qjam_core::job::{Activity, Cause, Death};
use qjam_core::time::{Span, Time};
use queue::{Happening, Queue};
use states::{Hold, WorkerStates};
use std::collections::BTreeMap;

/// A connection to another host that is silent for this long is closed by either side.
const LINK_SILENCE: Span = Span::from_ms(15_000);
/// Time limit for starting a worker on another host.
const REMOTE_START: Span = Span::from_ms(15_000);

/// How a run ended.
#[derive(Debug)]
pub struct Ending {
    /// The answer to each round, in the order of the plan.
    pub answers: Vec<Answer>,
    /// Counts of events.
    pub tally: Tally,
    /// When the last round was answered.
    pub answered: Time,
    /// When each round was submitted and when it was answered.
    pub rounds: Vec<(Time, Time)>,
    /// When the last round was closed and all was quiet.
    pub at: Time,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, ending: &Ending) {
        self.add_run(&ending.tally, &ending.answers);
    }
}

/// Runs a plan to its end, or to the first violation.
pub fn run(plan: &Plan, trace: &mut Trace) -> Result<Ending, Violation> {
    Engine::new(plan, trace).run()
}

struct Engine<'a> {
    plan: &'a Plan,
    trace: &'a mut Trace,
    now: Time,
    queue: Queue,
    network: Network,
    rng: Rng,
    master: Master,
    observer: Observer<'a>,
    /// All living processes, including those that the master has given up.
    executors: BTreeMap<WorkerId, Executor>,
    /// Seats on which starts fail until then, silently or immediately.
    failing_starts: BTreeMap<SeatId, (bool, Time)>,
    /// Hosts that are unreachable until then, and whether the network reports it.
    outages: BTreeMap<SeatId, (bool, Time)>,
    truth: Truth,
    /// Deaths that the master has not learned of.
    unlearned: BTreeMap<WorkerId, Death>,
    tally: Tally,
    answered: Time,
    rounds: Vec<(Time, Time)>,
    /// How many rounds are not answered.
    rounds_left: usize,
    runs: u64,
    /// What the master knows of states.
    hold: Hold,
    /// Expensive invariants are checked once per this many events.
    check_every: u64,
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan, trace: &'a mut Trace) -> Self {
        let mut queue = Queue::default();
        for (round, spec) in (1..).zip(&plan.rounds) {
            match spec.submit {
                Submit::At(at) => queue.push(at, Happening::Submitted { round: RoundId(round) }),
                Submit::AfterPrevious(span) if round == 1 => {
                    queue.push(Time(0) + span, Happening::Submitted { round: RoundId(round) });
                }
                Submit::AfterPrevious(_) => {}
            }
        }
        for (seat, spec) in (0..).zip(&plan.seats).filter(|(_, s)| s.added > Time(0)) {
            queue.push(spec.added, Happening::SeatAsked { seat: SeatId(seat) });
        }
        for (seat, spec) in (0..).zip(&plan.seats) {
            if let Some(at) = spec.removed {
                queue.push(at, Happening::SeatDropped { seat: SeatId(seat) });
            }
        }
        for (fault, (at, _)) in plan.faults.iter().enumerate() {
            queue.push(*at, Happening::Struck { fault });
        }
        let blocks: u64 = plan.rounds.iter().map(|r| u64::from(r.cut.blocks())).max().unwrap_or(1);
        let cost = blocks * blocks / plan.seats.len() as u64 + blocks * plan.seats.len() as u64 / 16;
        Engine {
            plan,
            trace,
            now: Time(0),
            queue,
            network: Network::default(),
            rng: Rng::new(plan.seed).fork(99),
            master: Master::new(plan.config),
            observer: Observer::new(plan),
            executors: BTreeMap::new(),
            failing_starts: BTreeMap::new(),
            outages: BTreeMap::new(),
            truth: Truth::default(),
            answered: Time(0),
            rounds: vec![Default::default(); plan.rounds.len()],
            rounds_left: plan.rounds.len(),
            unlearned: BTreeMap::new(),
            tally: Tally::default(),
            runs: 0,
            hold: Hold::new(plan),
            check_every: 1 + cost / 4096,
        }
    }

    fn run(mut self) -> Result<Ending, Violation> {
        let here = (0..).zip(&self.plan.seats).filter(|(_, s)| s.added == Time(0));
        for (seat, _) in here {
            self.add_seat(SeatId(seat))?;
        }
        let faults_end = self.plan.faults_end();
        let patience = checkers::liveness::patience(self.plan);
        while let Some((at, what)) = self.queue.pop() {
            if at > patience.until || self.tally.events > patience.events {
                return Err(self.stuck(&format!("at {} after {} events", Span(at.0), self.tally.events)));
            }
            assert!(at >= self.now, "time runs forward");
            self.now = at;
            self.tally.events += 1;
            self.step(what)?;
            let is_over = match self.plan.is_watched {
                true => self.now >= faults_end && self.is_quiet(),
                false => self.rounds_left == 0,
            };
            if is_over {
                return self.end();
            }
        }
        if self.is_quiet() { self.end() } else { Err(self.stuck("with nothing left that could happen")) }
    }

    fn end(mut self) -> Result<Ending, Violation> {
        let answers = if self.plan.is_watched {
            self.observer.agrees_with(&self.master.scheduler)?;
            self.tally.parts_overlapping = self.observer.overlaps();
            self.observer.answers()
        } else {
            vec![Answer::Value; self.plan.rounds.len()]
        };
        self.tally.virtual_us = self.now.0;
        Ok(Ending { answers, tally: self.tally, answered: self.answered, rounds: self.rounds, at: self.now })
    }

    /// Whether all rounds are answered and closed, and all workers that can be are up and idle.
    fn is_quiet(&self) -> bool {
        self.observer.is_all_closed()
            && !self.master.scheduler.is_busy()
            && self.observer.is_settled()
            && self.executors.iter().all(|(id, e)| {
                e.is_stopped || !self.network.is_open(*id) || self.network.is_cut(*id) || !e.machine.is_busy()
            })
    }

    fn stuck(&self, when: &str) -> Violation {
        let mut what = format!("{when}: {}", self.observer.open_ends());
        for (id, executor) in &self.executors {
            if executor.machine.is_busy() && what.len() < 2_000 {
                what += &format!("; {id} is busy with {:?}", executor.machine);
            }
        }
        Violation::new("every_round_ends_in_bounded_time", what)
    }

    fn step(&mut self, what: Happening) -> Verdict {
        if let Some(id) = what.executor() {
            let Some(executor) = self.executors.get_mut(&id) else { return Ok(()) };
            if executor.is_stopped {
                executor.deferred.push(what);
                return Ok(());
            }
            self.trace_step(&what);
            return self.step_in_executor(id, what);
        }
        if what.is_masters() {
            if self.now < self.master.stalled_until {
                self.master.put_off(&what);
                self.queue.push(self.master.stalled_until, what);
                return Ok(());
            }
            if !matches!(what, Happening::TickDue) {
                self.trace_step(&what);
            }
            return self.step_in_master(what);
        }
        self.trace_step(&what);
        match what {
            Happening::Continued { executor } => {
                if let Some(process) = self.executors.get_mut(&executor) {
                    process.is_stopped = false;
                    for waiting in std::mem::take(&mut process.deferred) {
                        self.queue.push(self.now, waiting);
                    }
                }
            }
            Happening::Killed { worker, cause } => self.on_killed(worker, cause),
            Happening::LinkExpired { worker } => self.on_link_expired(worker),
            Happening::Struck { fault } => self.strike(fault),
            _ => unreachable!("{what:?} belongs to a process"),
        }
        Ok(())
    }

    fn trace_step(&mut self, what: &Happening) {
        self.trace.note(self.now, || format!("{what:?}"));
    }

    fn strike(&mut self, fault: usize) {
        let fault = &self.plan.faults[fault].1;
        self.tally.faults[fault.kind()] += 1;
        match *fault {
            Fault::Crash { seat } => {
                if let Some(id) = self.newest(seat) {
                    self.die(id, Cause::Signal(9));
                }
            }
            Fault::CrashAll => {
                let all: Vec<WorkerId> = self.executors.keys().copied().collect();
                for id in all {
                    self.die(id, Cause::Signal(9));
                }
            }
            Fault::CrashSending { seat } => {
                if let Some(id) = self.newest(seat) {
                    self.executors.get_mut(&id).expect("it lives").dies_sending = true;
                }
            }
            Fault::Stop { seat, for_span } => {
                let Some(id) = self.newest(seat) else { return };
                self.executors.get_mut(&id).expect("it lives").is_stopped = true;
                if let Some(span) = for_span {
                    self.queue.push(self.now + span, Happening::Continued { executor: id });
                }
            }
            Fault::Cut { seat, master_learns, worker_learns } => {
                let Some(id) = self.newest(seat).filter(|id| !self.network.is_cut(*id)) else { return };
                self.network.cut(self.now, id);
                if let Some(span) = master_learns {
                    let death = Death::of(Cause::Exited(255));
                    self.queue.push(self.now + span, Happening::LossLearned { worker: id, death });
                }
                self.queue.push(self.now + worker_learns, Happening::CutLearned { executor: id });
            }
            Fault::SlowWorker { seat, factor, for_span } => {
                if let Some(id) = self.newest(seat) {
                    self.executors.get_mut(&id).expect("it lives").slow = (factor, self.now + for_span);
                }
            }
            Fault::SlowLink { seat, factor, for_span } => {
                if let Some(id) = self.newest(seat) {
                    self.network.slow_down(id, factor, self.now + for_span);
                }
            }
            Fault::StartsFail { seat, silently, for_span } => {
                self.failing_starts.insert(SeatId(seat), (silently, self.now + for_span));
            }
            Fault::Outage { seat, refuses, for_span } => self.lose_sight(SeatId(seat), refuses, for_span),
            Fault::MasterStalls { for_span } => {
                self.master.stalled_until = self.master.stalled_until.max(self.now + for_span);
            }
        }
    }

    /// A host becomes unreachable. Both sides close connections that stay silent for too long.
    fn lose_sight(&mut self, seat: SeatId, refuses: bool, for_span: Option<Span>) {
        let until = for_span.map_or(Time(u64::MAX), |span| self.now + span);
        let (refuses_at, until_at) = self.outages.entry(seat).or_default();
        (*refuses_at, *until_at) = (refuses, until.max(*until_at));
        for id in self.on_seat(seat) {
            match for_span {
                Some(_) => self.network.hold(self.now, id, until),
                None => self.network.cut(self.now, id),
            }
            let patience = if refuses { Span(self.rng.below(LINK_SILENCE.0)) } else { LINK_SILENCE };
            let expires = self.now + patience + Span(self.rng.below(1_000_000));
            self.queue.push(expires, Happening::LinkExpired { worker: id });
        }
    }

    fn on_link_expired(&mut self, worker: WorkerId) {
        let refuses = self.outages.get(&worker.seat).is_some_and(|(refuses, _)| *refuses);
        let held = self.network.held(self.now, worker);
        let is_silent = held.is_some_and(|(since, _)| refuses || self.now.since(since) >= LINK_SILENCE);
        if !is_silent && !self.network.is_cut(worker) {
            return; // the connection survived
        }
        self.network.cut(self.now, worker);
        let inside = self.executors.remove(&worker).map(|e| e.inside()).unwrap_or_default();
        let death = Death { inside, ..Death::of(Cause::LinkLost("Connection timed out".into())) };
        let at = self.now + Span(self.rng.below(1_000_000));
        self.queue.push(at, Happening::LossLearned { worker, death });
    }

    /// The processes on a seat, oldest first.
    fn on_seat(&self, seat: SeatId) -> Vec<WorkerId> {
        let first = WorkerId { seat, incarnation: 0 };
        let last = WorkerId { seat, incarnation: u32::MAX };
        self.executors.range(first..=last).map(|(id, _)| *id).collect()
    }

    /// The youngest process on a seat.
    fn newest(&self, seat: u32) -> Option<WorkerId> {
        self.on_seat(SeatId(seat)).pop()
    }

    /// A process ends. The master learns of it, unless their connection is already gone.
    fn die(&mut self, id: WorkerId, cause: Cause) {
        let executor = self.executors.remove(&id).expect("only the living die");
        if self.network.is_cut(id) {
            return;
        }
        let activity = match () {
            () if !executor.has_joined => Activity::Starting,
            () if executor.inside().is_empty() => Activity::Idle,
            () => Activity::Mapping,
        };
        let death = Death { cause, activity, inside: executor.inside(), last_lines: Vec::new() };
        if let Some((_, until)) = self.network.held(self.now, id) {
            self.queue.push(until, Happening::LossLearned { worker: id, death });
            return;
        }
        let mut at = self.now + Span(self.rng.below(500));
        if self.rng.percent(70) {
            at = at.max(self.network.quiet_at(id, crate::network::Direction::ToMaster)); // all its messages have arrived
        }
        self.unlearned.insert(id, death.clone());
        self.queue.push(at, Happening::LossLearned { worker: id, death });
    }

    fn on_killed(&mut self, worker: WorkerId, cause: Cause) {
        if self.executors.contains_key(&worker) && self.is_in_reach(worker) {
            self.die(worker, cause);
        } else {
            // The process is gone or unreachable: all that is known is that the connection is closed.
            self.hang_up(worker);
            self.queue.push(self.now, Happening::LossLearned { worker, death: Death::of(cause) });
        }
    }

    fn is_in_reach(&self, worker: WorkerId) -> bool {
        !self.network.is_cut(worker) && self.network.held(self.now, worker).is_none()
    }

    /// The master closes a connection. An unreachable process learns of it when the outage ends.
    fn hang_up(&mut self, worker: WorkerId) {
        if let Some((_, until)) = self.network.held(self.now, worker)
            && self.executors.contains_key(&worker)
        {
            self.queue.push(until, Happening::CutLearned { executor: worker });
        }
    }
}
