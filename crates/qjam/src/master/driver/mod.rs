//! The master's loop: one thread at a time turns it, over all connections, around the scheduler.
//!
//! The caller that waits for a round turns the loop itself, so that a short round costs no change of threads. A turn reads
//! what came, tells the scheduler, and carries out the scheduler's actions. It blocks only in `epoll_wait`.
//!
//! The loop owns little itself. Each of these is a type with its own invariants; the loop connects them:
//!
//! ```text
//!   submit ── prepare ─▶ admit ─▶ place ─▶ hand over        submitting  a request becomes a round
//!                │         │         │          │
//!            recording  admission   (engine)  Scheduler or Crew          rounds, holding, choosing
//!                                               │ actions: start, assign, cancel …
//!   seats ◀─────────────────────────────────────┘
//!     └── Said ─▶ hearing ─▶ Event ─▶ Scheduler ─▶ accept, finish, fail ─▶ verdicts ─▶ the caller
//!   merging: long results, on all cores that are idle
//!   waits, lines, interpreters: what the user is told, and what is known of hosts; pacing: when to spin, sleep, defer
//! ```

mod admission;
mod choosing;
mod crews;
mod data;
mod hearing;
mod holding;
mod interpreters;
mod lines;
mod memory;
mod merging;
mod pacing;
mod readiness;
mod recording;
mod rounds;
mod seats;
mod submitting;
#[cfg(test)]
mod tests;
mod verdicts;
mod waits;
mod weighing;

pub(crate) use holding::Cost;
pub(crate) use rounds::{Answer, RoundRequest};
pub use weighing::LongResults;

use super::options::Options;
use crate::engine::poller::{Poller, Ready};
use crate::engine::queue::{self, EventQueue};
use crate::engine::seat::{Gone, Notice, Share};
use crate::engine::spawner::Spawner;
use crate::engine::{Crew, Seat};
use crate::error::Error;
use crate::execution::chunks::OpenChunks;
use crate::runs::Begun;
use admission::Admission;
use choosing::Chooser;
use crews::Crews;
use data::KnownData;
use holding::Holds;
use qjam_core::ids::{RoundId, SeatId, WorkerId};
use qjam_core::job::Cause;
use qjam_core::journal::{Journal, RoundReport, What};
use qjam_core::lease::BlockRange;
use qjam_core::scheduler::{Action, Config, Event, Scheduler};
use qjam_core::time::Time;
use recording::Recording;
use rounds::Rounds;
use seats::{SeatTools, Seats};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use waits::Waits;
use weighing::Weigher;

/// The scheduler, and what is left to do: actions to be carried out, then seats to be heard. Either may bring more of both;
/// [`Driver::pump`] does one after the other, so that nothing is done in the middle of something else.
struct Decider {
    scheduler: Scheduler,
    started: Instant,
    actions: VecDeque<Action>,
    /// What the scheduler has just decided; kept for its memory.
    decided: Vec<Action>,
    /// Seats that may have something to say, each once.
    to_hear: VecDeque<SeatId>,
    is_pumping: bool,
    /// What woke the loop last; kept for its memory.
    ready: Vec<Ready>,
}

/// The loop.
pub(crate) struct Driver {
    options: Options,
    decider: Decider,
    seats: Seats,
    rounds: Rounds,
    holds: Holds,
    data: KnownData,
    admission: Admission,
    recording: Recording,
    waits: Waits,
    /// Chooses how many workers a round gets, if not all are to take part.
    chooser: Option<Box<Chooser>>,
    crews: Crews,
    weigher: Weigher,
}

fn system(step: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { step, source }
}

impl Driver {
    pub(crate) fn new(
        seats: &[Seat],
        options: Options,
        queue: Arc<EventQueue>,
        spawner: Spawner,
        begun: Begun,
        crew: Option<Arc<dyn Crew>>,
    ) -> Result<Self, Error> {
        let poller = Poller::new(&queue).map_err(|e| system("epoll")(e.into()))?;
        let admission = Admission::look();
        let memory_bytes = admission.limit_bytes();
        let workers_here = seats.iter().filter(|seat| seat.caps().same_machine).count();
        // Threads share what this process has, and have no limit of their own.
        let open = OpenChunks::new(options.workers.cache_bytes(None, memory_bytes, workers_here));
        let settings = options.workers.clone();
        let tools =
            SeatTools { poller, queue: queue.clone(), spawner, settings, open: Arc::new(open), memory_bytes };
        let scheduler = Scheduler::new(Config { balances: options.balances, ..options.deadlines });
        let mut driver = Driver {
            decider: Decider {
                scheduler,
                started: Instant::now(),
                actions: VecDeque::new(),
                decided: Vec::new(),
                to_hear: VecDeque::new(),
                is_pumping: false,
                ready: Vec::new(),
            },
            seats: Seats::new(tools),
            rounds: Rounds::default(),
            holds: Holds::default(),
            data: KnownData::default(),
            admission,
            recording: Recording::new(
                begun.recorder,
                begun.memory,
                begun.observations,
                options.journal_entries_max,
            ),
            waits: Waits::default(),
            chooser: None,
            crews: Crews::new(crew, queue),
            weigher: Weigher::default(),
            options,
        };
        for text in begun.words {
            driver.say(text);
        }
        driver.add_crew();
        driver.add(seats);
        Ok(driver)
    }

    /// Takes on workers; says which seats they have.
    pub(crate) fn add(&mut self, seats: &[Seat]) -> Range<usize> {
        let first = self.seats.len();
        for seat in seats.iter().filter(|seat| !seat.is_of_crew()) {
            let remote = !seat.caps().same_machine;
            let id = self.seats.add(seat);
            self.record_seat(id);
            self.tell(Event::SeatAdded { seat: id, slots: seat.slots, remote });
        }
        first..self.seats.len()
    }

    /// Sends the worker of that name away; says whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let seat = self.seats.named(name);
        seat.map(|seat| self.remove_seat(seat)).is_some()
    }

    pub(crate) fn remove_seat(&mut self, seat: SeatId) {
        if !self.seats.remove(seat) {
            return;
        }
        self.with_seat(seat, |engine, cx| engine.close(cx));
        self.tell(Event::SeatRemoved { seat });
    }

    fn now(&self) -> Time {
        self.time_at(Instant::now())
    }

    fn time_at(&self, now: Instant) -> Time {
        Time(now.saturating_duration_since(self.decider.started).as_micros() as u64)
    }

    /// Tells the scheduler. What it wants is done before this returns, unless something else is being done: then after it.
    fn tell(&mut self, event: Event) {
        let now = self.now();
        let Decider { scheduler, decided, actions, .. } = &mut self.decider;
        scheduler.handle(now, event, decided);
        actions.extend(decided.drain(..));
        self.pump();
    }

    /// Has a seat heard: at once, or after what is being done.
    fn hear(&mut self, seat: SeatId) {
        if let Some(record) = self.seats.record_mut(seat)
            && !std::mem::replace(&mut record.is_to_be_heard, true)
        {
            self.decider.to_hear.push_back(seat);
        }
        self.pump();
    }

    /// Carries out actions and hears seats until there is nothing left.
    fn pump(&mut self) {
        if std::mem::replace(&mut self.decider.is_pumping, true) {
            return;
        }
        loop {
            if let Some(action) = self.decider.actions.pop_front() {
                self.act(action);
            } else if let Some(&seat) = self.decider.to_hear.front() {
                if !self.hear_next(seat) {
                    self.decider.to_hear.pop_front();
                    if let Some(record) = self.seats.record_mut(seat) {
                        record.is_to_be_heard = false;
                    }
                }
            } else {
                break;
            }
        }
        self.decider.is_pumping = false;
    }

    /// What messages call a worker.
    pub(crate) fn name_of(&self, worker: WorkerId) -> String {
        self.seats.record(worker.seat).map_or_else(|| worker.to_string(), |record| record.name.clone())
    }

    pub(crate) fn cancel(&mut self, round: RoundId) {
        match self.rounds.get(round).and_then(|round| round.crew.as_ref()) {
            Some((_, flag)) => {
                flag.store(true, Relaxed);
                if self.rounds.get(round).is_some_and(|round| !round.is_answered) {
                    self.answer(round, Err(Error::Cancelled));
                }
            }
            None => {
                let chosen = self.rounds.get(round).and_then(|round| round.chosen.as_ref());
                if let Some(owed) = chosen.and_then(|chosen| chosen.owed.as_ref()) {
                    owed.flag.store(true, Relaxed);
                }
                self.tell(Event::RoundCancelled { round });
            }
        }
    }

    // ---- actions ----------------------------------------------------------------------------------------------

    fn act(&mut self, action: Action) {
        match action {
            Action::Start { worker } => self.with_seat(worker.seat, |engine, cx| engine.start(worker, cx)),
            Action::Kill { worker, cause } => self.kill(worker, cause),
            Action::Ping { worker } => self.notify(worker, Notice::Ping),
            Action::Assign { worker, round, ranges } => self.assign(worker, round, ranges),
            Action::Cancel { worker, round, is_patient } => {
                let Some(dataset) = self.rounds.get(round).map(|round| round.order.data.located) else {
                    return;
                };
                self.notify(worker, Notice::Cancel { round, dataset, is_patient });
            }
            Action::Recall { worker, round, blocks } => {
                self.notify(worker, Notice::Recall { round, blocks });
            }
            Action::Apart { worker, round, block } => self.notify(worker, Notice::Apart { round, block }),
            Action::Accept { part, round, node } => self.accept(part, round, node),
            Action::Discard { part, round, node } => {
                drop(self.rounds.take_part(part));
                if let Some(round) = self.rounds.get_mut(round) {
                    let blocks = round.order.head.cut.blocks_of(node).len() as u64;
                    round.account.report.discarded += blocks;
                }
            }
            Action::Finish { round } => self.finish(round),
            Action::Fail { round, failure } => self.fail(round, failure),
            Action::Close { round } => self.close(round),
            // The caller's thread had begun it.
            Action::Note(What::RoundStarted { round, .. }) if self.has_begun(round) => {}
            Action::Note(what) => self.note(what),
        }
    }

    /// Forgets a round with which nobody has anything left to do; if its caller's thread has, then later.
    fn close(&mut self, round: RoundId) {
        let chosen = self.rounds.get_mut(round).and_then(|round| round.chosen.as_mut());
        if let Some(owed) = chosen.and_then(|chosen| chosen.owed.as_mut()) {
            owed.is_closed = true;
            return;
        }
        if let Some(placed) = self.rounds.remove(round).as_ref().and_then(|r| r.order.params.placed()) {
            self.data.arenas.release(placed.arena);
        }
        self.announce(Gone::Round(round));
    }

    fn kill(&mut self, worker: WorkerId, cause: Cause) {
        let started = self.decider.started;
        let death =
            self.seats.with(worker.seat, started, false, |engine, cx| engine.end(worker, Some(cause), cx));
        self.hear(worker.seat);
        if let Some((death, _)) = death {
            self.tell(Event::WorkerLost { worker, death });
        }
    }

    fn assign(&mut self, worker: WorkerId, id: RoundId, ranges: Vec<BlockRange>) {
        let started = self.decider.started;
        let threads_max = self.threads_of(worker.seat, id);
        let awake = self.rounds.rhythm.awake();
        let Some(round) = self.rounds.get_mut(id) else { return };
        let share = Share {
            order: &mut round.order,
            ranges,
            arenas: &mut self.data.arenas,
            views: &round.views,
            threads_max,
            awake,
        };
        let sent =
            self.seats.with(worker.seat, started, false, |engine, cx| engine.assign(worker, share, cx));
        if let Some(((), traffic)) = sent {
            round.account.add(traffic);
        }
        self.hear(worker.seat);
    }

    /// Tells a worker something. What travels counts for no round.
    fn notify(&mut self, worker: WorkerId, notice: Notice) {
        self.with_seat(worker.seat, |engine, cx| engine.notify(worker, notice, cx));
    }

    /// Tells all workers that something is no longer needed.
    fn announce(&mut self, gone: Gone) {
        self.crews.announce(gone);
        for n in 0..self.seats.len() {
            self.with_seat(SeatId(n as u32), |engine, cx| engine.announce(gone, cx));
        }
    }

    fn note(&mut self, what: What) {
        match &what {
            What::Retried { round, blocks, .. } => {
                self.rounds.report(*round, |report| report.retries += u64::from(*blocks));
            }
            What::Stolen { round, blocks, .. } => {
                self.rounds.report(*round, |report| report.stolen += u64::from(*blocks));
            }
            What::BackedUp { round, .. } => self.rounds.report(*round, |report| report.backups += 1),
            What::InterpreterLost { round, .. } => self.rounds.report(*round, |report| report.lost += 1),
            What::WorkerLost(..) => {
                self.rounds.all_mut().for_each(|round| round.account.report.lost += 1);
            }
            _ => {}
        }
        let now = self.now();
        self.recording.note(now, what);
    }

    // ---- events -----------------------------------------------------------------------------------------------

    /// Waits for something to happen, at most so long, and deals with it.
    pub(crate) fn turn(&mut self, at_most: Option<Duration>) -> Result<(), Error> {
        let deferred = self.next_deferred();
        let wait = self.next_wait(at_most, deferred.is_some());
        let mut ready = std::mem::take(&mut self.decider.ready);
        ready.clear();
        match self.seats.tools.poller.wait(wait, &mut ready) {
            Ok(()) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(system("waiting for workers")(e.into())),
        }
        // Only where nothing has come meanwhile. What others can help with comes last if they do.
        if ready.is_empty() {
            match deferred {
                Some(deferred) if !self.has_wide_parts() || self.idle_cores() > 0 => {
                    self.do_deferred(deferred)
                }
                _ => self.merge_wide_part(),
            }
        }
        for &ready in &ready {
            match ready {
                Ready::Queue => self.take_events(),
                Ready::Pipes => self.read_pipes(),
                Ready::Seat { worker, descriptor, flags } => {
                    self.with_seat(worker.seat, |engine, cx| engine.on_ready(worker, descriptor, flags, cx));
                }
            }
        }
        self.decider.ready = ready;
        // One reading of the clock for all deadlines: a turn has only begun to take time.
        let now = Instant::now();
        for seat in self.seats.due(now) {
            self.with_seat(seat, |engine, cx| engine.tick(cx));
        }
        if self.decider.scheduler.next_deadline().is_some_and(|at| at <= self.time_at(now)) {
            self.tell(Event::Ticked);
        }
        if self.next_end().is_some_and(|at| at <= now) {
            self.end_late_rounds();
        }
        if self.next_word().is_some_and(|at| at <= now) {
            self.tell_waits();
        }
        self.relieve_callers();
        self.tend_wide();
        self.look_at_memory(false);
        self.tend_recorder();
        Ok(())
    }

    /// What other threads have done.
    fn take_events(&mut self) {
        for event in self.seats.tools.queue.take() {
            match event {
                queue::Event::Seat(worker, event) => self.pass_on(worker, event),
                queue::Event::CrewDone(round, outcome) => self.end_on_crew(round, *outcome),
            }
        }
    }

    // ---- what others may ask ----------------------------------------------------------------------------------

    pub(crate) fn journal(&self) -> &Journal {
        self.recording.journal()
    }

    /// The report of the last round that had a value.
    pub(crate) fn last_report(&self) -> Option<RoundReport> {
        self.rounds.last_report
    }

    /// How many rounds were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.rounds.answered
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.decider.scheduler.is_busy() || self.has_crew() && self.rounds.open().next().is_some()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.options.workers.stop.store(true, Relaxed);
        for round in self.rounds.all_mut() {
            if let Some((_, flag)) = &round.crew {
                flag.store(true, Relaxed);
            }
            if let Some(owed) = round.chosen.as_ref().and_then(|chosen| chosen.owed.as_ref()) {
                owed.flag.store(true, Relaxed);
            }
        }
    }
}
