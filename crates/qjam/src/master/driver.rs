//! The master's loop: one thread at a time turns it, over all connections, around the scheduler.
//!
//! Whoever waits for a round turns the loop itself, so that a short round costs no change of threads. It reads what
//! came, tells the scheduler, and does what the scheduler wants: starts and kills executors, sends tasks and
//! references, merges what counts. It never blocks but in `epoll_wait`.

use super::options::{LogLine, Options, Throttle};
use super::round::{Running, Wanted};
use crate::VERSION;
use crate::chunk::ChunkId;
use crate::codec::Encoder;
use crate::dataset::CutData;
use crate::engine::local::{LocalDone, LocalSays, LocalSeat, LocalTask};
use crate::engine::proc::{Executor, Line, Portion, Spawned};
use crate::engine::{Seat, SeatKind};
use crate::error::{self, Error};
use crate::function::{AnyBox, Mode};
use crate::transport::{Attachment, Read};
use crate::worker::arenas::OwnArenas;
use crate::worker::chunks::OpenChunks;
use crate::worker::round::Effort;
use bytes::Bytes;
use qjam_core::ids::{DataSetId, RoundId, SeatId, WorkerId};
use qjam_core::job::{Cause, Death, Fault, FaultKind, RoundFailure, RoundSpec};
use qjam_core::journal::{Journal, RoundReport, What};
use qjam_core::reduce::{Cut, Node, Tree, blocks};
use qjam_core::scheduler::{Action, Config, Event, Scheduler};
use qjam_core::time::{Span, Time};
use qjam_core::wire::message::{self, Outcome, Payload, State, Task};
use qjam_core::wire::{ToMaster, ToWorker};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Parameters up to this length go inside frames.
const INLINE_BYTES_MAX: usize = 32 << 10;
/// What the epoll token of our own bell is.
const BELL: u64 = u64::MAX;

/// What other threads have for the loop.
pub(crate) enum News {
    Spawned { worker: WorkerId, result: io::Result<Spawned> },
    LocalDone(LocalDone),
}

/// Where other threads put it, and the eventfd that says so.
pub(crate) struct NewsBox {
    news: Mutex<Vec<News>>,
    bell: OwnedFd,
}

impl NewsBox {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(NewsBox {
            news: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(crate) fn put(&self, news: News) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
        self.ring();
    }

    /// Has whoever turns the loop look up.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<News> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

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
}

/// A data set that workers have been told about.
struct Known {
    data: Weak<CutData>,
    index: HashMap<ChunkId, u32>,
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
    news: Arc<NewsBox>,
    keeper: Sender<(WorkerId, Seat)>,
    scheduler: Scheduler,
    seats: Vec<SeatHere>,
    rounds: HashMap<RoundId, Running>,
    next_round: u64,
    known: HashMap<DataSetId, Known>,
    arenas: OwnArenas,
    open: Arc<OpenChunks>,
    journal: Journal,
    /// Reports of answered rounds, the latest.
    pub(crate) last_report: Option<RoundReport>,
    /// Actions not yet carried out; carrying one out may bring events that bring more.
    todo: std::collections::VecDeque<Action>,
    /// The part that the scheduler is judging.
    in_hand: Option<(RoundId, Node, Value)>,
    pub(crate) answered: u64,
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
    ) -> Result<Self, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| system("epoll")(e.into()))?;
        epoll::add(&epoll, &news.bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
            .map_err(|e| system("epoll")(e.into()))?;
        let mut driver = Driver {
            started: Instant::now(),
            epoll,
            news,
            keeper,
            scheduler: Scheduler::new(Config::default()),
            seats: Vec::new(),
            rounds: HashMap::new(),
            next_round: 0,
            known: HashMap::new(),
            arenas: OwnArenas::default(),
            open: Arc::new(OpenChunks::new(options.cache_bytes_max)),
            journal: Journal::new(options.journal_entries_max),
            last_report: None,
            todo: Default::default(),
            in_hand: None,
            answered: 0,
            options,
        };
        for (n, seat) in seats.into_iter().enumerate() {
            let slots = seat.slots;
            driver.seats.push(SeatHere { seat, sitting: Sitting::Nobody, throttle: Throttle::default() });
            driver.tell(Event::SeatAdded { seat: SeatId(n as u32), slots });
        }
        Ok(driver)
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

    /// Begins a round. Long parameters are written straight into shared memory if a process needs them.
    pub(crate) fn submit(&mut self, wanted: Wanted, params: &Encoder<'_>) -> RoundId {
        let id = RoundId(self.next_round);
        self.next_round += 1;
        let Wanted { function, data, answer, submitted } = wanted;
        let cut = self.cut(function.mode(), &data, params.payload_bytes() as u64);
        let long = params.payload_bytes() > INLINE_BYTES_MAX;
        let placed = (long && self.has(SeatKind::Proc)).then(|| self.arenas.place(params)).transpose();
        let inline = if !long || self.has(SeatKind::Local) { params.to_bytes() } else { Bytes::new() };
        self.remember(&data);
        let spec = RoundSpec { dataset: data.id, cut };
        let report = RoundReport {
            round: id.0,
            master_us: submitted.elapsed().as_micros() as u64,
            ..Default::default()
        };
        let (placed, failed) = match placed {
            Ok(placed) => (placed, None),
            Err(e) => (None, Some(e)),
        };
        let running = Running {
            function,
            data,
            cut,
            params: inline,
            placed,
            opened: None,
            tree: Tree::new(cut),
            answer,
            submitted,
            report,
            compute_us: HashMap::new(),
            is_answered: false,
        };
        self.rounds.insert(id, running);
        if let Some(e) = failed {
            self.answer(id, Err(system("shared memory for parameters")(e)));
            self.rounds.remove(&id);
            return id;
        }
        self.tell(Event::RoundSubmitted { round: id, spec });
        id
    }

    fn cut(&self, mode: Mode, data: &CutData, params_bytes: u64) -> Cut {
        let chunks = data.chunks.len() as u32;
        let level = match mode {
            Mode::Map => {
                blocks::map_level(chunks, self.scheduler.slots().max(1) * self.options.blocks_per_slot)
            }
            Mode::Fold => {
                let chunk_bytes = data.chunks.iter().map(|c| c.header.bytes).max().unwrap_or(0);
                blocks::fold_level(chunk_bytes, params_bytes)
            }
        };
        Cut::new(chunks, level)
    }

    fn has(&self, kind: SeatKind) -> bool {
        self.seats.iter().any(|s| s.seat.kind == kind)
    }

    pub(crate) fn cancel(&mut self, round: RoundId) {
        self.tell(Event::RoundCancelled { round });
    }

    /// Who has not delivered yet.
    pub(crate) fn waiting_for(&self, round: RoundId) -> String {
        let names: Vec<String> =
            self.scheduler.holders(round).map(|(w, n)| format!("{} ({n} blocks)", self.name_of(w))).collect();
        if names.is_empty() { "a worker to come up".into() } else { names.join(", ") }
    }

    /// Keeps track of data sets, and has workers drop those that are gone.
    fn remember(&mut self, data: &Arc<CutData>) {
        if self.known.contains_key(&data.id) {
            // The same content may have been made anew while the first was dropped.
            if let Some(known) = self.known.get_mut(&data.id).filter(|k| k.data.strong_count() == 0) {
                known.data = Arc::downgrade(data);
            }
            return;
        }
        let gone: Vec<DataSetId> =
            self.known.iter().filter(|(_, k)| k.data.strong_count() == 0).map(|(id, _)| *id).collect();
        for id in gone {
            self.known.remove(&id);
            for n in 0..self.seats.len() {
                if let Sitting::Proc(executor) = &mut self.seats[n].sitting {
                    let worker = executor.worker;
                    let sent = executor.forget(id);
                    self.check_sent(worker, sent);
                }
            }
        }
        let index = (0..).zip(&data.chunks).map(|(n, c)| (c.id, n)).collect();
        self.known.insert(data.id, Known { data: Arc::downgrade(data), index });
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
            }
            Action::Assign { worker, round, spans } => self.assign(worker, round, spans),
            Action::Cancel { worker, round } => self.call_off(worker, round),
            Action::Accept { round, node } => self.accept(round, node),
            Action::Discard { round, node } => {
                let blocks = self.rounds.get(&round).map_or(0, |r| r.cut.blocks_of(node).len() as u64);
                if let Some(running) = self.rounds.get_mut(&round) {
                    running.report.discarded += blocks;
                }
                self.in_hand = None;
            }
            Action::Finish { round } => self.finish(round),
            Action::Fail { round, failure } => self.fail(round, failure),
            Action::Close { round } => {
                if let Some(running) = self.rounds.remove(&round)
                    && let Some(placed) = running.placed
                {
                    self.arenas.release(placed.arena);
                }
            }
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
            What::WorkerLost(..) => {
                for running in self.rounds.values_mut() {
                    running.report.lost += 1;
                }
            }
            _ => {}
        }
        self.journal.note(self.now(), what);
    }

    fn is_local(&self, worker: WorkerId) -> bool {
        matches!(&self.seats[worker.seat.0 as usize].sitting, Sitting::Local(l) if l.worker == worker)
    }

    fn start(&mut self, worker: WorkerId) {
        let seat = self.seats[worker.seat.0 as usize].seat.clone();
        match seat.kind {
            SeatKind::Proc => {
                if self.keeper.send((worker, seat)).is_err() {
                    let death = Death::of(Cause::Start("the thread that starts processes is gone".into()));
                    self.tell(Event::WorkerLost { worker, death });
                }
            }
            SeatKind::Local => {
                let news = self.news.clone();
                let report = Arc::new(move |done| news.put(News::LocalDone(done)));
                let deliver_after = Span(self.options.deliver_after.as_micros() as u64);
                match LocalSeat::start(worker, seat.slots, deliver_after, self.open.clone(), report) {
                    Ok(local) => {
                        self.seats[worker.seat.0 as usize].sitting = Sitting::Local(Box::new(local));
                        self.tell(Event::WorkerJoined { worker });
                    }
                    Err(e) => {
                        let death = Death::of(Cause::Start(e.to_string()));
                        self.tell(Event::WorkerLost { worker, death });
                    }
                }
            }
        }
    }

    /// Ends whoever is there under this name and says how it was.
    fn end(&mut self, worker: WorkerId, cause: Option<Cause>) -> Death {
        let here = &mut self.seats[worker.seat.0 as usize];
        match &here.sitting {
            Sitting::Proc(executor) if executor.worker == worker => {}
            Sitting::Local(local) if local.worker == worker => {
                // Threads cannot be killed: they are left behind, and end when their function does.
                here.sitting = Sitting::Nobody;
                return Death::of(cause.unwrap_or(Cause::Unresponsive));
            }
            // Still being started; the process is ended when it comes.
            _ => return Death::of(cause.unwrap_or(Cause::Signal(9))),
        }
        let Sitting::Proc(executor) = std::mem::replace(&mut here.sitting, Sitting::Nobody) else {
            unreachable!("it was one a moment ago")
        };
        for fd in executor.fds() {
            let _ = epoll::delete(&self.epoll, fd);
        }
        let mut lines = Vec::new();
        let death = executor.end(cause, |line| lines.push(line));
        for line in lines {
            self.log(worker, line);
        }
        death
    }

    fn assign(&mut self, worker: WorkerId, round: RoundId, spans: Vec<message::Span>) {
        if !self.rounds.contains_key(&round) {
            return;
        }
        if self.is_local(worker) {
            self.assign_local(worker, round, spans);
            return;
        }
        let sent = self.assign_proc(worker, round, &spans);
        self.check_sent(worker, sent);
    }

    fn assign_local(&mut self, worker: WorkerId, round: RoundId, spans: Vec<message::Span>) {
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        let params = match &running.opened {
            Some(params) => params.clone(),
            None => match running.function.open_params(running.params.clone()) {
                Ok(params) => running.opened.insert(params).clone(),
                Err(e) => {
                    let fault = fault(FaultKind::Params, e.to_string());
                    self.tell(Event::Faulted { worker: None, round, fault });
                    return;
                }
            },
        };
        let task = LocalTask {
            round,
            cut: running.cut,
            function: running.function.clone(),
            params,
            data: running.data.clone(),
            seed: self.options.seed,
            spans,
        };
        let now = self.now();
        let mut says = Vec::new();
        if let Sitting::Local(local) = &mut self.seats[worker.seat.0 as usize].sitting {
            local.assign(now, task, &mut says);
        }
        self.hear_local(worker, says);
    }

    fn assign_proc(&mut self, worker: WorkerId, round: RoundId, spans: &[message::Span]) -> io::Result<()> {
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        let Some(SeatHere { sitting: Sitting::Proc(executor), .. }) =
            self.seats.get_mut(worker.seat.0 as usize)
        else {
            return Ok(());
        };
        let before = executor.bytes_out;
        for Portion { spans, chunks } in executor.tasks(&running.data, running.cut, spans) {
            let mut attached = Vec::new();
            let (params, tail) = match &running.placed {
                Some(placed) => {
                    let new = executor.introduced.insert(placed.arena);
                    if new {
                        attached.push(Attachment::File(placed.fd.clone()));
                    }
                    running.report.bytes_out += placed.bytes;
                    (placed.payload(new), &[][..])
                }
                None => {
                    (Payload::Tail { offset: 0, bytes: running.params.len() as u32 }, &running.params[..])
                }
            };
            let task = Task {
                round,
                function: running.function.name().into(),
                seed: self.options.seed,
                dataset: running.data.id,
                cut: running.cut,
                chunks,
                spans,
                params,
                released: std::mem::take(&mut executor.released),
            };
            executor.send(&ToWorker::Task(task), tail, attached)?;
        }
        running.report.bytes_out += executor.bytes_out - before;
        Ok(())
    }

    fn call_off(&mut self, worker: WorkerId, round: RoundId) {
        if let Some(executor) = self.executor(worker) {
            executor.mark_cancelled(round);
            let sent = executor.send(&ToWorker::Cancel(round), &[], Vec::new());
            self.check_sent(worker, sent);
        } else if self.is_local(worker) {
            let now = self.now();
            let mut says = Vec::new();
            if let Sitting::Local(local) = &mut self.seats[worker.seat.0 as usize].sitting {
                local.cancel(now, round, &mut says);
            }
            self.hear_local(worker, says);
        }
    }

    /// Registers for writing while something waits, and treats an error as the end of the connection.
    fn check_sent(&mut self, worker: WorkerId, sent: io::Result<()>) {
        match sent {
            Ok(()) => {
                let epoll = self.epoll.as_fd();
                if let Some(SeatHere { sitting: Sitting::Proc(executor), .. }) =
                    self.seats.get(worker.seat.0 as usize)
                    && executor.has_unsent()
                {
                    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
                    let _ = epoll::modify(epoll, executor.fds()[0], token(worker, 0), flags);
                }
            }
            Err(_) => {
                let death = self.end(worker, None);
                self.tell(Event::WorkerLost { worker, death });
            }
        }
    }

    fn accept(&mut self, round: RoundId, node: Node) {
        let Some((in_round, in_node, value)) = self.in_hand.take() else {
            panic!("nothing in hand to accept")
        };
        assert!((in_round, in_node) == (round, node), "another part is in hand");
        let Some(running) = self.rounds.get_mut(&round) else { return };
        if running.is_answered {
            return;
        }
        let start = Instant::now();
        let function = running.function.clone();
        let value = match value {
            Value::Ready(value) => Ok(value),
            Value::Encoded(bytes) => {
                function.decode(bytes).map_err(|e| fault(FaultKind::Result, e.to_string()))
            }
        };
        let merged = value.and_then(|value| {
            running.tree.insert(node, value, |left, right| {
                crate::worker::caught(|| function.merge(left, right))?.map_err(|e| error::merge_fault(&e))
            })
        });
        running.report.master_us += start.elapsed().as_micros() as u64;
        if let Err(fault) = merged {
            // The scheduler may have counted this part as the last one; the user is answered here, once.
            self.fail(round, RoundFailure::Fault { worker: None, fault: fault.clone() });
            self.tell(Event::Faulted { worker: None, round, fault });
        }
    }

    fn finish(&mut self, round: RoundId) {
        let Some(running) = self.rounds.get_mut(&round) else { return };
        let value = running.tree.take_root();
        if running.is_answered {
            return; // merging failed on the last part
        }
        let value = value.expect("all blocks are in, so the tree has its root");
        self.answer(round, Ok(value));
    }

    fn fail(&mut self, round: RoundId, failure: RoundFailure) {
        let Some(running) = self.rounds.get(&round) else { return };
        if running.is_answered {
            return;
        }
        let error = error::from_failure(
            failure,
            running.function.name(),
            |worker| self.name_of(worker),
            |chunk| running.data.chunks.get(chunk as usize).map(|c| c.id),
            |block| running.cut.chunks_of(running.cut.node(block)),
        );
        self.answer(round, Err(error));
    }

    fn answer(&mut self, round: RoundId, value: Result<AnyBox, Error>) {
        // What user code printed before its last result is in the pipes by now.
        self.drain_lines();
        let finished = value.is_ok();
        let running = self.rounds.get_mut(&round).expect("the caller looked");
        running.is_answered = true;
        let report = running.closed_report();
        *running.answer.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        running.answer.give(value);
        self.answered += 1;
        if finished {
            self.last_report = Some(report);
            self.note(What::Report(report));
        }
    }

    // ---- events -----------------------------------------------------------------------------------------------

    /// Waits for something to happen, at most so long, and deals with it.
    pub(crate) fn turn(&mut self, at_most: Option<Duration>) -> Result<(), Error> {
        let due = self.scheduler.next_deadline().map(|at| Duration::from_micros(at.since(self.now()).0));
        let wait = match (due, at_most) {
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
        for event in events.iter() {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == BELL {
                self.take_news();
            } else {
                let (worker, fd) = from_token(data);
                self.on_ready(worker, fd, flags);
            }
        }
        if self.scheduler.next_deadline().is_some_and(|at| at <= self.now()) {
            self.tell(Event::Ticked);
        }
        Ok(())
    }

    fn take_news(&mut self) {
        for news in self.news.take() {
            match news {
                News::LocalDone(done) => {
                    let (now, worker) = (self.now(), done.worker);
                    let mut says = Vec::new();
                    if let Some(SeatHere { sitting: Sitting::Local(local), .. }) =
                        self.seats.get_mut(worker.seat.0 as usize)
                        && local.worker == worker
                    {
                        local.done(now, done, &mut says);
                    }
                    self.hear_local(worker, says);
                    self.tell(Event::WorkerSpoke { worker });
                }
                News::Spawned { worker, result } => self.on_spawned(worker, result),
            }
        }
    }

    fn on_spawned(&mut self, worker: WorkerId, result: io::Result<Spawned>) {
        let slots = self.seats[worker.seat.0 as usize].seat.slots;
        let executor =
            result.and_then(|spawned| Executor::new(worker, slots, spawned, self.options.memory_bytes_max));
        let registered = executor.and_then(|executor| {
            for (n, fd) in executor.fds().into_iter().enumerate() {
                epoll::add(&self.epoll, fd, token(worker, n as u64), epoll::EventFlags::IN)?;
            }
            Ok(executor)
        });
        match registered {
            Ok(executor) => {
                if !self.scheduler.is_starting(worker) {
                    return; // nobody waits for it any more; dropping it ends it
                }
                self.seats[worker.seat.0 as usize].sitting = Sitting::Proc(Box::new(executor));
            }
            Err(e) => {
                let death = Death::of(Cause::Start(e.to_string()));
                self.tell(Event::WorkerLost { worker, death });
            }
        }
    }

    fn on_ready(&mut self, worker: WorkerId, fd: u64, flags: epoll::EventFlags) {
        let Some(executor) = executor_in(&mut self.seats, worker) else { return };
        if fd > 0 {
            let mut lines = Vec::new();
            let ended = executor.read_lines(|line| lines.push(line));
            for (n, _) in ended.iter().enumerate().filter(|(_, ended)| **ended) {
                let _ = epoll::delete(&self.epoll, executor.fds()[n + 1]);
            }
            for line in lines {
                self.log(worker, line);
            }
            return;
        }
        if flags.contains(epoll::EventFlags::OUT) {
            match executor.flush() {
                Ok(true) => {
                    let _ = epoll::modify(
                        &self.epoll,
                        executor.fds()[0],
                        token(worker, 0),
                        epoll::EventFlags::IN,
                    );
                }
                Ok(false) => {}
                Err(e) => return self.check_sent(worker, Err(e)),
            }
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return;
        }
        let Some(executor) = self.executor(worker) else { return };
        let read = executor.read();
        self.take_messages(worker);
        if matches!(read, Ok(Read::Ended) | Err(_)) && self.executor(worker).is_some() {
            let death = self.end(worker, None);
            self.tell(Event::WorkerLost { worker, death });
        }
    }

    fn take_messages(&mut self, worker: WorkerId) {
        loop {
            let Some(executor) = self.executor(worker) else { return };
            match executor.inbox.next(ToMaster::from_frame) {
                Ok(None) => return,
                Ok(Some(incoming)) => {
                    let outcome =
                        self.on_message(worker, incoming.message, &incoming.tail, incoming.frame_bytes);
                    if let Err(why) = outcome {
                        return self.expel(worker, why);
                    }
                }
                Err(e) => return self.expel(worker, e.to_string()),
            }
        }
    }

    /// Ends a worker that broke the protocol.
    fn expel(&mut self, worker: WorkerId, why: String) {
        let death = self.end(worker, Some(Cause::Protocol(why)));
        self.tell(Event::WorkerLost { worker, death });
    }

    fn on_message(
        &mut self,
        worker: WorkerId,
        message: ToMaster,
        tail: &Bytes,
        bytes: usize,
    ) -> Result<(), String> {
        let Some(executor) = executor_in(&mut self.seats, worker) else { return Ok(()) };
        if !executor.joined && !matches!(message, ToMaster::Hello { .. }) {
            return Err("a message before its hello".into());
        }
        match message {
            ToMaster::Hello { slots, version, .. } => {
                if std::mem::replace(&mut executor.joined, true)
                    || slots != executor.slots
                    || version != VERSION
                {
                    return Err(format!(
                        "a hello with {slots} slots and version {version}; this is version {VERSION}"
                    ));
                }
                let page = executor.page.as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
                let welcome = ToWorker::Welcome {
                    worker,
                    memory_bytes_max: self.options.memory_bytes_max,
                    cache_bytes_max: self.options.cache_bytes_max,
                    deliver_after_us: self.options.deliver_after.as_micros() as u64,
                };
                let sent = executor.send(&welcome, &[], vec![Attachment::File(Arc::new(page))]);
                self.check_sent(worker, sent);
                self.tell(Event::WorkerJoined { worker });
            }
            ToMaster::State(State::Running) | ToMaster::Pong => self.tell(Event::WorkerSpoke { worker }),
            ToMaster::State(State::Blocked { round, missing }) => {
                self.on_blocked(worker, round, &missing)?;
                self.tell(Event::WorkerSpoke { worker });
            }
            ToMaster::Result(outcome) => {
                if let Some(running) = self.rounds.get_mut(&outcome.round) {
                    running.report.bytes_in += bytes as u64;
                }
                self.on_result(worker, outcome, tail)?;
            }
            ToMaster::Error { round, fault } => {
                self.tell(Event::Faulted { worker: Some(worker), round, fault })
            }
            ToMaster::Cancelled(round) => self.tell(Event::RoundLetGo { worker, round }),
        }
        Ok(())
    }

    fn on_blocked(&mut self, worker: WorkerId, round: RoundId, missing: &[ChunkId]) -> Result<(), String> {
        let Some(running) = self.rounds.get_mut(&round) else {
            // The round closed while the question travelled; the worker has been told to drop it.
            return Ok(());
        };
        let data = running.data.clone();
        let known = self.known.get(&data.id).ok_or("a data set nobody knows")?;
        let indices = missing
            .iter()
            .map(|id| {
                known
                    .index
                    .get(id)
                    .copied()
                    .ok_or_else(|| format!("it asked for chunk {id}, which is not of its data set"))
            })
            .collect::<Result<Vec<u32>, String>>()?;
        let Some(executor) = self.executor(worker) else { return Ok(()) };
        let before = executor.bytes_out;
        let sent = executor.send_refs(&data, &indices);
        let bytes = executor.bytes_out - before;
        if let Some(running) = self.rounds.get_mut(&round) {
            running.report.bytes_out += bytes;
        }
        self.check_sent(worker, sent);
        Ok(())
    }

    fn on_result(&mut self, worker: WorkerId, outcome: Outcome, tail: &Bytes) -> Result<(), String> {
        let Outcome { round, parts, compute_us, cache_hits, cache_misses } = outcome;
        self.count_effort(worker, round, Effort { compute_us, hits: cache_hits, misses: cache_misses });
        let mut payloads = Vec::with_capacity(parts.len());
        {
            let Some(executor) = self.executor(worker) else { return Ok(()) };
            for part in parts {
                let inbox = &mut executor.inbox;
                let bytes = executor.arenas.read(&part.payload, tail, || inbox.take_fd())?;
                payloads.push((part, bytes));
            }
        }
        for (part, bytes) in payloads {
            let arena = match part.payload {
                Payload::Arena { arena, bytes, .. } => {
                    if let Some(running) = self.rounds.get_mut(&round) {
                        running.report.bytes_in += bytes;
                    }
                    Some(arena)
                }
                Payload::Tail { .. } => None,
            };
            self.deliver(worker, round, part.node, part.spans, Value::Encoded(bytes));
            // It was copied out or dropped; its owner may write there again.
            if let (Some(arena), Some(executor)) = (arena, self.executor(worker)) {
                executor.released.push(arena);
            }
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        node: Node,
        spans: Vec<message::Span>,
        value: Value,
    ) {
        self.in_hand = Some((round, node, value));
        self.tell(Event::PartDelivered { worker, round, node, spans });
    }

    fn count_effort(&mut self, worker: WorkerId, round: RoundId, effort: Effort) {
        if let Some(running) = self.rounds.get_mut(&round) {
            *running.compute_us.entry(worker.seat).or_default() += effort.compute_us;
            running.report.cache_hits += u64::from(effort.hits);
            running.report.cache_misses += u64::from(effort.misses);
        }
    }

    fn hear_local(&mut self, worker: WorkerId, says: Vec<LocalSays>) {
        for said in says {
            match said {
                LocalSays::Effort { round, effort } => self.count_effort(worker, round, effort),
                LocalSays::Part { round, delivery, value } => {
                    self.deliver(worker, round, delivery.node, delivery.spans, Value::Ready(value));
                }
                LocalSays::Faulted { round, fault } => {
                    self.tell(Event::Faulted { worker: Some(worker), round, fault })
                }
                LocalSays::LetGo { round } => self.tell(Event::RoundLetGo { worker, round }),
            }
        }
    }

    // ---- lines ------------------------------------------------------------------------------------------------

    fn drain_lines(&mut self) {
        for n in 0..self.seats.len() {
            let here = &mut self.seats[n];
            let Sitting::Proc(executor) = &mut here.sitting else { continue };
            let worker = executor.worker;
            let mut lines = Vec::new();
            executor.read_lines(|line| lines.push(line));
            for line in lines {
                self.log(worker, line);
            }
        }
        for n in 0..self.seats.len() {
            let dropped = std::mem::take(&mut self.seats[n].throttle.dropped);
            if dropped > 0 {
                let text = format!("({dropped} more lines were dropped)");
                (self.options.on_log)(&LogLine {
                    worker: self.seats[n].seat.name.clone(),
                    text,
                    is_error: true,
                });
            }
        }
    }

    fn log(&mut self, worker: WorkerId, line: Line) {
        let (now_us, max) = (self.now().0, self.options.lines_per_second_max);
        let on_log = self.options.on_log.clone();
        let Some(here) = self.seat(worker) else { return };
        if here.throttle.passes(now_us, max) {
            on_log(&LogLine { worker: here.seat.name.clone(), text: line.text, is_error: line.is_error });
        }
    }

    // ---- what others may ask ----------------------------------------------------------------------------------

    /// Whether all seats are filled, or why one never will be.
    pub(crate) fn readiness(&self) -> Option<Result<(), Error>> {
        if let Some((worker, death)) = self.scheduler.given_up().next() {
            let death = death.cloned().unwrap_or_else(|| Death::of(Cause::Start("nobody knows why".into())));
            return Some(Err(Error::Start { worker: self.name_of(worker), death }));
        }
        self.scheduler.is_complete().then_some(Ok(()))
    }

    /// Name, process and slots of everybody who is up.
    pub(crate) fn workers(&self) -> Vec<(String, Option<u32>, u32)> {
        self.seats
            .iter()
            .map(|s| {
                let pid = match &s.sitting {
                    Sitting::Proc(executor) => Some(executor.pid()),
                    _ => None,
                };
                (s.seat.name.clone(), pid, s.seat.slots)
            })
            .collect()
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.scheduler.is_busy()
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
    Fault { kind, chunk: None, message, location: None, backtrace: None }
}

/// Seat, incarnation and which of its three descriptors, in one number.
fn token(worker: WorkerId, fd: u64) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(worker.incarnation) << 32 | u64::from(worker.seat.0) << 2 | fd)
}

fn from_token(token: u64) -> (WorkerId, u64) {
    let seat = SeatId((token as u32) >> 2);
    (WorkerId { seat, incarnation: (token >> 32) as u32 }, token & 3)
}
