//! The master's loop: one thread at a time turns it, over all connections, around the scheduler.
//!
//! Whoever waits for a round turns the loop itself, so that a short round costs no change of threads. It reads what
//! came, tells the scheduler, and does what the scheduler wants: starts and kills executors, sends tasks and
//! references, merges what counts. It never blocks but in `epoll_wait`.
//!
//! [`intake`] brings events in; [`orders`] and [`verdicts`] carry actions out; [`hosts`] is about other machines.

mod admission;
mod choosing;
mod holding;
mod hosts;
mod intake;
mod lines;
mod news;
mod orders;
mod pythons;
mod ranks;
mod recording;
#[cfg(test)]
mod tests;
mod verdicts;
mod waits;

pub(crate) use choosing::Chosen;
pub(crate) use holding::{Cost, HeldRound};
pub(crate) use news::{News, NewsBox};
pub(crate) use ranks::Helm;

use super::WorkerInfo;
use super::inline::Inline;
use super::lent::Lent;
use super::options::{Options, Throttle};
use super::round::{Errands, Running, Wanted};
use crate::chunk::ChunkId;
use crate::codec::Encoder;
use crate::dataset::CutData;
use crate::engine::local::LocalSeat;
use crate::engine::proc::Executor;
use crate::engine::ssh::StartFailure;
use crate::engine::ssh::link::Link;
use crate::engine::{Seat, SeatKind};
use crate::error::Error;
use crate::function::{AnyBox, Mode};
use crate::runs::{Begun, Memory, Recorder};
use crate::worker::arenas::OwnArenas;
use crate::worker::chunks::OpenChunks;
use bytes::Bytes;
use qjam_core::ids::{DataSetId, HoldId, PartId, RoundId, SeatId, WorkerId};
use qjam_core::job::{Cause, Death, Fault, FaultKind, RoundSpec};
use qjam_core::journal::{Journal, RoundReport, What};
use qjam_core::reduce::{Cut, Tree, blocks};
use qjam_core::scheduler::{Action, Config, Event, Scheduler};
use qjam_core::time::Time;
use qjam_core::wire::ToWorker;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Parameters up to this length go inside frames.
const INLINE_BYTES_MAX: usize = 32 << 10;
/// The epoll token of our own bell.
const BELL: u64 = u64::MAX;
/// The epoll token of all pipes together.
const PIPES: u64 = u64::MAX - 1;

/// Who sits on a seat.
enum Sitting {
    Nobody,
    Local(Box<LocalSeat>),
    Proc(Box<Executor>),
}

struct SeatHere {
    seat: Seat,
    sitting: Sitting,
    throttle: Throttle,
    /// The connection, when this is a seat on another host; and the incarnation it was made for.
    link: Option<Box<Link>>,
    generation: u32,
    /// Whether epoll tells when the connection takes more.
    wants_out: bool,
    /// Why the last attempt to reach the host failed.
    failure: Option<StartFailure>,
    /// What is known of Python on that host.
    python: pythons::Interpreter,
    /// The user no longer wants it.
    removed: bool,
}

impl SeatHere {
    fn new(seat: Seat) -> Self {
        SeatHere {
            seat,
            sitting: Sitting::Nobody,
            throttle: Throttle::default(),
            link: None,
            generation: 0,
            wants_out: false,
            failure: None,
            python: pythons::Interpreter::default(),
            removed: false,
        }
    }
}

/// A data set that workers have been told about.
struct Known {
    /// Everybody who has it: the same cut may be made several times.
    data: Vec<Weak<CutData>>,
    index: HashMap<ChunkId, u32>,
    /// What it takes of memory, once that has been found to be there.
    admitted: Option<admission::Admitted>,
}

/// What a delivered part is made of, until the scheduler says whether it counts.
enum Value {
    Ready(AnyBox),
    Encoded(Bytes),
}

/// The loop.
pub(crate) struct Driver {
    options: Options,
    started: Instant,
    epoll: OwnedFd,
    /// What user code prints comes here, apart: whoever ends a round asks once whether there is any.
    pipes: OwnedFd,
    news: Arc<NewsBox>,
    keeper: Sender<(WorkerId, Seat)>,
    scheduler: Scheduler,
    seats: Vec<SeatHere>,
    /// Counts how often workers came or went.
    seats_changed: u64,
    /// What all on this machine may have.
    machine: admission::Machine,
    /// How many threads can run at once here.
    cores: usize,
    rounds: HashMap<RoundId, Running>,
    next_round: u64,
    /// Rounds of our own so far.
    next_internal: u64,
    /// States that workers keep.
    holds: HashMap<HoldId, holding::Hold>,
    next_hold: u64,
    known: HashMap<DataSetId, Known>,
    arenas: OwnArenas,
    open: Arc<OpenChunks>,
    journal: Journal,
    /// Reports of answered rounds, the latest.
    pub(crate) last_report: Option<RoundReport>,
    /// Actions not yet carried out; carrying one out may bring events that bring more.
    todo: VecDeque<Action>,
    /// Values of delivered parts whose verdicts are not carried out yet. Threads may deliver while actions are carried
    /// out, so there may be several.
    in_hand: HashMap<PartId, Value>,
    next_part: u64,
    /// When connections to other hosts should be looked at, if there are any.
    links_due: Option<Instant>,
    /// Has attempts to reach hosts end early: nobody waits for them any more.
    stop: Arc<AtomicBool>,
    pub(crate) answered: u64,
    /// Writes the run file, if there is one.
    recorder: Option<Box<Recorder>>,
    /// The run that this one goes on from, as long as it does the same.
    memory: Option<Box<Memory>>,
    /// Whose coming somebody waits for.
    starting: Option<waits::Starting>,
    /// Somebody waits for the interpreters of hosts.
    finding: Option<waits::Finding>,
    /// Chooses how many workers a round gets, if they are not all to take part.
    chooser: Option<Box<choosing::Chooser>>,
    /// A round that whoever submits it is to run.
    inline: Option<Inline>,
    /// The ranks, if those do the rounds.
    ranks: Option<Helm>,
}

fn system(step: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { step, source }
}

impl Driver {
    pub(crate) fn new(
        seats: Vec<Seat>,
        options: Options,
        news: Arc<NewsBox>,
        keeper: Sender<(WorkerId, Seat)>,
        begun: Begun,
        ranks: Option<Helm>,
    ) -> Result<Self, Error> {
        let epoll_error = |e: rustix::io::Errno| system("epoll")(e.into());
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(epoll_error)?;
        let pipes = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(epoll_error)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &*news, epoll::EventData::new_u64(BELL), readable).map_err(epoll_error)?;
        epoll::add(&epoll, &pipes, epoll::EventData::new_u64(PIPES), readable).map_err(epoll_error)?;
        let machine = admission::Machine::look();
        let workers_here = seats.iter().filter(|seat| !matches!(seat.kind, SeatKind::Host(_))).count();
        // Threads share what this process has, and have no limit of their own.
        let open = OpenChunks::new(options.cache_bytes(None, machine.limit.bytes, workers_here));
        let mut driver = Driver {
            started: Instant::now(),
            epoll,
            pipes,
            news,
            keeper,
            scheduler: Scheduler::new(Config { balances: options.balances, ..Config::default() }),
            seats: Vec::new(),
            seats_changed: 0,
            machine,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            rounds: HashMap::new(),
            next_round: 0,
            next_internal: 0,
            holds: HashMap::new(),
            next_hold: 0,
            known: HashMap::new(),
            arenas: OwnArenas::default(),
            open: Arc::new(open),
            journal: Journal::new(options.journal_entries_max),
            last_report: None,
            todo: Default::default(),
            in_hand: HashMap::new(),
            next_part: 0,
            links_due: None,
            stop: options.stop.clone().unwrap_or_default(),
            answered: 0,
            recorder: begun.recorder,
            memory: begun.memory,
            starting: None,
            finding: None,
            chooser: None,
            inline: None,
            ranks,
            options,
        };
        for text in begun.words {
            driver.say(text);
        }
        driver.add(seats);
        Ok(driver)
    }

    /// Takes on workers; says which seats they have.
    pub(crate) fn add(&mut self, seats: Vec<Seat>) -> std::ops::Range<usize> {
        let first = self.seats.len();
        self.seats_changed += 1;
        for mut seat in seats {
            seat.name = self.free_name(&seat);
            let (slots, remote) = (seat.slots, matches!(seat.kind, SeatKind::Host(_)));
            if let Some(recorder) = &mut self.recorder {
                recorder.seat(self.seats.len() as u32, &seat.name);
            }
            let is_rank = seat.kind == SeatKind::Rank;
            self.seats.push(SeatHere::new(seat));
            let seat = SeatId(self.seats.len() as u32 - 1);
            if !is_rank {
                self.tell(Event::SeatAdded { seat, slots, remote });
            }
        }
        first..self.seats.len()
    }

    /// The name of a seat, or, when somebody has that, the next one like it.
    fn free_name(&self, seat: &Seat) -> String {
        let is_free = |name: &str| self.seats.iter().all(|here| here.seat.name != name);
        let like_it = |n: usize| match seat.kind {
            SeatKind::Proc => format!("proc:{n}"),
            _ => format!("{}#{}", seat.name, n + 2),
        };
        if is_free(&seat.name) {
            return seat.name.clone();
        }
        (0..).map(like_it).find(|name| is_free(name)).unwrap_or_default()
    }

    /// Sends the worker of that name away; says whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let is_meant =
            |here: &SeatHere| here.seat.name == name && !here.removed && here.seat.kind != SeatKind::Rank;
        let found = self.seats.iter().position(is_meant);
        found.map(|n| self.remove_seat(n)).is_some()
    }

    pub(crate) fn remove_seat(&mut self, n: usize) {
        let seat = SeatId(n as u32);
        if std::mem::replace(&mut self.seats[n].removed, true) {
            return;
        }
        self.seats_changed += 1;
        let worker = match &self.seats[n].sitting {
            Sitting::Proc(executor) => Some(executor.worker),
            Sitting::Local(local) => Some(local.worker),
            Sitting::Nobody => None,
        };
        if let Some(worker) = worker {
            self.end(worker, Some(Cause::Unresponsive));
        }
        self.drop_link(seat);
        self.tell(Event::SeatRemoved { seat });
    }

    fn now(&self) -> Time {
        Time(self.started.elapsed().as_micros() as u64)
    }

    /// Tells the scheduler and does what it wants.
    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.scheduler.handle(self.now(), event, &mut actions);
        // Carrying one out may tell the scheduler more; the outermost call does what comes of it, in order.
        let outer = self.todo.is_empty();
        self.todo.extend(actions);
        if outer {
            while let Some(action) = self.todo.pop_front() {
                self.act(action);
            }
        }
    }

    fn seat(&mut self, worker: WorkerId) -> Option<&mut SeatHere> {
        self.seats.get_mut(worker.seat.0 as usize)
    }

    fn executor(&mut self, worker: WorkerId) -> Option<&mut Executor> {
        executor_in(&mut self.seats, worker)
    }

    /// What messages call a worker.
    pub(crate) fn name_of(&self, worker: WorkerId) -> String {
        self.seats.get(worker.seat.0 as usize).map_or_else(|| worker.to_string(), |s| s.seat.name.clone())
    }

    // ---- rounds -----------------------------------------------------------------------------------------------

    /// Begins a round. Long parameters are written straight into shared memory if a process needs them. If only other
    /// hosts do, and the caller lends them, they stay where they are.
    pub(crate) fn submit(&mut self, wanted: Wanted, params: &Encoder<'_>, lent: Option<Lent>) -> RoundId {
        if let Some(error) = wanted.held.and_then(|hold| self.refusal(hold, &wanted.function)) {
            wanted.answer.give(Err(error));
            self.answered += 1;
            return self.internal_round();
        }
        let id = if wanted.function.only_looks() {
            self.internal_round()
        } else {
            self.next_round += 1;
            RoundId(self.next_round - 1)
        };
        // What goes into shared memory is logged from there, when the tasks are out.
        let long = params.payload_bytes() > INLINE_BYTES_MAX;
        let is_here = self.memory.is_none() && self.ranks.is_none();
        let kept = (!long || !is_here).then_some(params);
        let mut held = wanted.held.and_then(|hold| self.begin_held(hold, id, &wanted.function, kept));
        self.record_begin(id, &wanted);
        let params_hash = match self.answer_from_memory(id, &wanted, &mut held, params) {
            Ok(()) => return id,
            Err(hash) => hash,
        };
        if self.ranks.is_some() {
            self.submit_to_ranks(id, wanted, held, params, params_hash, lent.is_some());
            return id;
        }
        let Wanted { function, data, answer, submitted, .. } = wanted;
        let chosen = match held {
            Some(_) => None,
            None => self.choose(id, &function, &data, params, lent.is_some()),
        };
        let is_inline = chosen.as_ref().is_some_and(|chosen| chosen.is_inline());
        let slots_max = chosen.as_ref().and_then(|chosen| chosen.slots_max());
        let slots = slots_max.filter(|_| !is_inline).unwrap_or_else(|| self.scheduler.slots().max(1));
        let cut = self.cut(function.mode(), &data, params.payload_bytes() as u64, slots);
        let (mut proc, mut local, mut host) = (false, false, false);
        for here in self.seats.iter().filter(|here| !here.removed) {
            match here.seat.kind {
                SeatKind::Proc => proc = true,
                SeatKind::Local => local = true,
                SeatKind::Host(_) => host = true,
                SeatKind::Rank => {}
            }
        }
        self.remember(&data);
        let refused = self.admit(&data, cut, if proc { params.payload_bytes() as u64 } else { 0 });
        let placed =
            (long && proc && !is_inline && refused.is_ok()).then(|| self.arenas.place(params)).transpose();
        let lent = lent.filter(|_| long && host && !local && !proc && !is_inline);
        let inline = !long || local || is_inline || (host && lent.is_none());
        let inline = if inline && refused.is_ok() { params.to_bytes() } else { Bytes::new() };
        let spec = RoundSpec {
            slots_max,
            held: held.as_ref().map(|h| h.task.hold),
            ..RoundSpec::new(data.located, cut)
        };
        let report = RoundReport {
            round: id.0,
            master_us: submitted.elapsed().as_micros() as u64,
            ..Default::default()
        };
        let (placed, failed) = match (placed, refused) {
            (Ok(placed), Ok(())) => (placed, None),
            (_, Err(refused)) => (None, Some(Error::DoesNotFit(Box::new(refused)))),
            (Err(e), _) => (None, Some(system("shared memory for parameters")(e))),
        };
        let has_errands = placed.is_some() && is_here;
        if let Some(held) = held.as_mut().filter(|_| !has_errands) {
            held.keep_params(|| params.to_bytes());
        }
        let is_crowded = has_errands && self.is_crowded();
        let running = Running {
            function,
            data,
            cut,
            params: inline,
            params_bytes: params.payload_bytes(),
            lent,
            placed,
            opened: None,
            tree: Tree::new(cut),
            views: Arc::default(),
            answer,
            submitted,
            report,
            compute_us: HashMap::new(),
            is_answered: false,
            // A limit beyond the end of time is none.
            ends_by: self.options.round_timeout.and_then(|limit| submitted.checked_add(limit)),
            params_hash,
            told: None,
            chosen,
            held,
            called_off: None,
            errands: if has_errands { Errands::All } else { Errands::None },
            first_done: None,
            is_crowded,
        };
        self.rounds.insert(id, running);
        if let Some(e) = failed {
            self.answer(id, Err(e));
            self.rounds.remove(&id);
            return id;
        }
        if is_inline {
            self.leave_to_caller(id);
        } else {
            self.tell(Event::RoundSubmitted { round: id, spec });
        }
        match has_errands {
            true if is_crowded => {}
            true => self.run_errands_at_once(id),
            false => self.record_params(id, params),
        }
        id
    }

    fn internal_round(&mut self) -> RoundId {
        self.next_internal += 1;
        RoundId::internal(self.next_internal - 1)
    }

    fn cut(&self, mode: Mode, data: &CutData, params_bytes: u64, slots: u32) -> Cut {
        let chunks = data.chunks.len() as u32;
        let level = match mode {
            Mode::Step => 0,
            Mode::Map => blocks::map_level(chunks, slots.saturating_mul(self.options.blocks_per_slot)),
            Mode::Fold => {
                let chunk_bytes = data.chunks.iter().map(|c| c.header.bytes).max().unwrap_or(0);
                blocks::fold_level(chunk_bytes, params_bytes)
            }
        };
        Cut::new(chunks, level)
    }

    pub(crate) fn cancel(&mut self, round: RoundId) {
        if self.ranks.is_some() {
            return self.cancel_on_ranks(round);
        }
        self.tell(Event::RoundCancelled { round });
    }

    /// Who has not delivered yet.
    pub(crate) fn waiting_for(&self, round: RoundId) -> String {
        if let Some(helm) = &self.ranks {
            return helm.awaited().join(", ");
        }
        let names: Vec<String> =
            self.scheduler.holders(round).map(|(w, n)| format!("{} ({n} blocks)", self.name_of(w))).collect();
        if names.is_empty() { "a worker to come up".into() } else { names.join(", ") }
    }

    /// Keeps track of data sets, and has workers drop those that are gone.
    fn remember(&mut self, data: &Arc<CutData>) {
        if let Some(known) = self.known.get_mut(&data.located) {
            if !known.data.iter().any(|k| std::ptr::eq(k.as_ptr(), Arc::as_ptr(data))) {
                known.data.retain(|k| k.strong_count() > 0);
                known.data.push(Arc::downgrade(data));
            }
            return;
        }
        let is_gone = |known: &Known| known.data.iter().all(|k| k.strong_count() == 0);
        let gone: Vec<DataSetId> = self.known.iter().filter(|(_, k)| is_gone(k)).map(|(id, _)| *id).collect();
        for id in gone {
            let Some(known) = self.known.remove(&id) else { continue };
            self.open.forget(|chunk| known.index.contains_key(chunk));
            self.each_link(|link| link.forget(id));
            if let Some(helm) = &self.ranks {
                helm.forget(id);
            }
            for n in 0..self.seats.len() {
                if let Sitting::Proc(executor) = &mut self.seats[n].sitting {
                    let worker = executor.worker;
                    let sent = executor.forget(id);
                    self.check_sent(worker, sent);
                }
            }
        }
        let index = (0..).zip(&data.chunks).map(|(n, c)| (c.id, n)).collect();
        self.known.insert(data.located, Known { data: vec![Arc::downgrade(data)], index, admitted: None });
    }

    // ---- actions ----------------------------------------------------------------------------------------------

    fn act(&mut self, action: Action) {
        match action {
            Action::Start { worker } => self.start(worker),
            Action::Kill { worker, cause } => {
                let death = self.end(worker, Some(cause));
                self.tell(Event::WorkerLost { worker, death });
            }
            Action::Ping { worker } => {
                if let Some(executor) = self.executor(worker) {
                    let sent = executor.send(&ToWorker::Ping, &[], Vec::new());
                    self.check_sent(worker, sent);
                } else if self.is_local(worker) {
                    self.tell(Event::WorkerSpoke { worker });
                }
                // One on another host is asked by its supervisor, every second.
            }
            Action::Assign { worker, round, spans } => self.assign(worker, round, spans),
            Action::Cancel { worker, round, is_patient } => self.call_off(worker, round, is_patient),
            Action::Recall { worker, round, blocks } => self.recall(worker, round, blocks),
            Action::Apart { worker, round, block } => self.set_apart(worker, round, block),
            Action::Accept { part, round, node } => self.accept(part, round, node),
            Action::Discard { part, round, node } => {
                let blocks = self.rounds.get(&round).map_or(0, |r| r.cut.blocks_of(node).len() as u64);
                if let Some(running) = self.rounds.get_mut(&round) {
                    running.report.discarded += blocks;
                }
                self.in_hand.remove(&part);
            }
            Action::Finish { round } => self.finish(round),
            Action::Fail { round, failure } => self.fail(round, failure),
            Action::Close { round } => {
                let closed = self.rounds.remove(&round);
                if let Some(placed) = closed.and_then(|running| running.placed) {
                    self.arenas.release(placed.arena);
                }
                self.each_link(|link| link.close(round));
            }
            // The caller had begun it.
            Action::Note(What::RoundStarted { round, .. }) if self.has_begun(round) => {}
            Action::Note(what) => self.note(what),
        }
    }

    fn note(&mut self, what: What) {
        match &what {
            What::Retried { round, blocks, .. } => {
                if let Some(running) = self.rounds.get_mut(round) {
                    running.report.retries += u64::from(*blocks);
                }
            }
            What::Stolen { round, blocks, .. } => {
                if let Some(running) = self.rounds.get_mut(round) {
                    running.report.stolen += u64::from(*blocks);
                }
            }
            What::BackedUp { round, .. } => {
                if let Some(running) = self.rounds.get_mut(round) {
                    running.report.backups += 1;
                }
            }
            What::WorkerLost(..) => {
                for running in self.rounds.values_mut() {
                    running.report.lost += 1;
                }
            }
            _ => {}
        }
        if let What::RoundStarted { round, .. } | What::RoundOver { round, .. } = &what
            && round.is_internal()
        {
            return; // told in its own words when it is over
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.happened(&what);
        }
        self.journal.note(self.now(), what);
    }

    // ---- events -----------------------------------------------------------------------------------------------

    /// Waits for something to happen, at most so long, and deals with it.
    pub(crate) fn turn(&mut self, at_most: Option<Duration>) -> Result<(), Error> {
        let due = self.scheduler.next_deadline().map(|at| Duration::from_micros(at.since(self.now()).0));
        let ends = self.next_end().map(|at| at.saturating_duration_since(Instant::now()));
        let word = self.next_word().map(|at| at.saturating_duration_since(Instant::now()));
        let record = self.recorder.as_ref().and_then(|recorder| recorder.due_in());
        let due = due.into_iter().chain(ends).chain(self.look_in()).chain(word).chain(record).min();
        let errand = self.next_errand();
        let wait = match (due, at_most) {
            _ if errand.is_some() || self.stays_awake() => Some(Duration::ZERO),
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let timeout = wait.map(|d| rustix::event::Timespec {
            tv_sec: d.as_secs() as i64,
            tv_nsec: i64::from(d.subsec_nanos()),
        });
        let mut events = [std::mem::MaybeUninit::uninit(); 64];
        let (events, _) = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok(events) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(system("waiting for workers")(e.into())),
        };
        // Only where nobody has come meanwhile.
        if let Some(errand) = errand.filter(|_| events.is_empty()) {
            self.run_errand(errand);
        }
        for event in events.iter() {
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                BELL => self.take_news(),
                PIPES => self.read_pipes(),
                _ => match from_token(data) {
                    (worker, hosts::LINK) => self.on_link_ready(worker, flags),
                    (worker, _) => self.on_ready(worker, flags),
                },
            }
        }
        self.look_at_links();
        if self.scheduler.next_deadline().is_some_and(|at| at <= self.now()) {
            self.tell(Event::Ticked);
        }
        if self.next_end().is_some_and(|at| at <= Instant::now()) {
            self.end_late_rounds();
        }
        if self.next_word().is_some_and(|at| at <= Instant::now()) {
            self.tell_waits();
        }
        self.tend_recorder();
        Ok(())
    }

    // ---- what others may ask ----------------------------------------------------------------------------------

    /// Whether enough seats are filled, or why they will not be.
    pub(crate) fn readiness(&self, of: std::ops::Range<usize>) -> Option<Result<(), Error>> {
        if self.ranks.is_some() {
            return Some(Ok(())); // they were met before there was a loop
        }
        let wanted = |seat: SeatId| {
            let n = seat.0 as usize;
            of.contains(&n) && !self.seats[n].removed
        };
        let seats = || (0..self.seats.len()).map(|n| SeatId(n as u32)).filter(|&seat| wanted(seat));
        let up = seats().filter(|&seat| self.scheduler.is_up(seat)).count();
        if up == seats().count() {
            return Some(Ok(()));
        }
        let unknown = Death::of(Cause::Start("nobody knows why".into()));
        let far = self.scheduler.unstarted().map(|(worker, death)| (worker, death.clone()));
        let near = self
            .scheduler
            .given_up()
            .map(|(worker, death)| (worker, death.cloned().unwrap_or_else(|| unknown.clone())));
        let failed: HashMap<WorkerId, Death> =
            far.chain(near).filter(|(worker, _)| wanted(worker.seat)).collect();
        if failed.is_empty() {
            return None;
        }
        if let Some(min) = self.options.workers_min {
            if up + failed.len() < seats().count() {
                return None; // it is not known yet who comes
            }
            if self.scheduler.up_count() >= min.max(1) {
                return Some(Ok(()));
            }
        }
        Some(Err(self.not_started(failed)))
    }

    /// All that went wrong, in the order of the seats.
    fn not_started(&self, failed: HashMap<WorkerId, Death>) -> Error {
        let mut failed: Vec<(WorkerId, Death)> = failed.into_iter().collect();
        failed.sort_by_key(|(worker, _)| worker.seat);
        let failures: Vec<(String, StartFailure)> = failed
            .iter()
            .filter_map(|(worker, _)| {
                Some((self.name_of(*worker), self.seats[worker.seat.0 as usize].failure.clone()?))
            })
            .collect();
        match failed.into_iter().next() {
            Some((worker, death)) if failures.is_empty() => {
                Error::Start { worker: self.name_of(worker), death }
            }
            _ => Error::Hosts { failures },
        }
    }

    /// Everybody who has a seat.
    pub(crate) fn workers(&self) -> Vec<WorkerInfo> {
        if let Some(helm) = &self.ranks {
            return helm.workers();
        }
        let info = |here: &SeatHere| WorkerInfo {
            name: here.seat.name.clone(),
            pid: match &here.sitting {
                Sitting::Proc(executor) => Some(executor.pid()),
                _ => None,
            },
            remote_pid: here.link.as_ref().and_then(|link| link.pid),
            slots: here.seat.slots,
        };
        self.seats.iter().filter(|here| !here.removed).map(info).collect()
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.scheduler.is_busy() || self.is_busy_on_ranks()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.call_all_off();
    }
}

/// The living process of that name; beside other borrows of the loop.
fn executor_in(seats: &mut [SeatHere], worker: WorkerId) -> Option<&mut Executor> {
    match &mut seats.get_mut(worker.seat.0 as usize)?.sitting {
        Sitting::Proc(executor) if executor.worker == worker => Some(executor),
        _ => None,
    }
}

fn fault(kind: FaultKind, message: String) -> Fault {
    Fault { kind, chunk: None, message, location: None, backtrace: None, carried: Vec::new() }
}

/// Seat, incarnation and which of its descriptors, in one number.
fn token(worker: WorkerId, fd: u64) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(worker.incarnation) << 32 | u64::from(worker.seat.0) << 2 | fd)
}

fn from_token(token: u64) -> (WorkerId, u64) {
    let seat = SeatId((token as u32) >> 2);
    (WorkerId { seat, incarnation: (token >> 32) as u32 }, token & 3)
}
