//! The executor: a process that serves its master over a socket until that is closed.
//!
//! With one slot the main thread does everything: read a task, run its blocks one after the other, send. Between
//! two blocks it looks whether anything came. With more slots the main thread reads and sends, and threads run.
//!
//! A second, small thread sends a sign of life every second while a block runs, since the main thread cannot. When a
//! block runs for long it also listens in its place: blocks that wait behind it can be given back, and finished work
//! goes out. It sleeps while nothing is run, and is no party to short rounds.
//!
//! The process dies with its master whatever happens: the kernel sends it SIGKILL when the master's thread that started
//! it ends, and the socket's end is its own end.

use super::chunks::OpenChunks;
use super::data::{Entries, WorkerData};
use super::faults;
use super::own_limit::OwnLimit;
use super::recipes::{Arriving, StateRecipe};
use super::round::{BlockRunner, Effort, Stopped};
use super::slots::{BLOCKS_PER_THREAD, Slots};
use super::states::{RoundStates, States};
use crate::arenas::{OwnArenas, PeerArenas};
use crate::codec::Encoder;
use crate::function::AnyBox;
use crate::function::language;
use crate::store::Page;
use crate::transport::{Attachment, Inbox, Read, send_all};
use crate::{VERSION, registry};
use bytes::Bytes;
use qjam_core::ids::{Block, RoundId};
use qjam_core::job::{Activity, Fault, FaultKind};
use qjam_core::lease::BlockRun;
use qjam_core::order::OrderHead;
use qjam_core::reduce::Node;
use qjam_core::time::{Span, Time};
use qjam_core::wire::frame::TAIL_BYTES_MAX;
use qjam_core::wire::message::{Part, Payload, ResultMessage, State, Task};
use qjam_core::wire::{ToMaster, ToWorker};
use qjam_core::worker::{Action, Delivery, Event, Worker};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why an executor gives up. The master sees the text among its last lines.
#[derive(Debug, Error)]
pub(super) enum ExecutorError {
    #[error("started with `{0}`, which this version does not understand")]
    Asked(String),
    #[error("{step}: {source}")]
    Io { step: &'static str, source: io::Error },
    #[error("the master broke the protocol: {0}")]
    Protocol(String),
}

fn io_at(step: &'static str) -> impl Fn(io::Error) -> ExecutorError {
    move |source| ExecutorError::Io { step, source }
}

/// Payloads up to this length travel inside frames.
pub(crate) const INLINE_BYTES_MAX: usize = 32 << 10;

/// The stack of the thread that looks for an interpreter: a process with a tight limit has room for it.
const STACK_BYTES: usize = 256 << 10;
/// How often it is looked whether a block runs for long.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while blocks come and go: waking up costs, and short blocks need nobody to listen.
const LOOK_SELDOM: Duration = Duration::from_millis(50);
/// How often a sign of life is given.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// What slots share with the main thread.
struct Common {
    socket: OwnedFd,
    /// Held while a frame is sent, so that the heartbeat does not fall into a result.
    sending: Mutex<()>,
    page: Page,
    open: OpenChunks,
    /// Blocks being run.
    busy: AtomicU32,
    /// Blocks begun so far: what has not changed between two looks is the same block.
    begun: AtomicU64,
    /// Whether the thread that watches sleeps until a block is begun; and which it is.
    dozes: AtomicBool,
    watch: OnceLock<Thread>,
    /// Blocks that threads have finished, and the eventfd that says so.
    done: Mutex<Vec<Done>>,
    bell: OwnedFd,
}

struct Done {
    round: RoundId,
    block: Block,
    result: Result<(), Stopped>,
}

impl Common {
    fn send(&self, message: &ToMaster, tail: &[u8], attached: &[Attachment]) -> Result<(), ExecutorError> {
        let _turn = lock(&self.sending);
        send_all(self.socket.as_fd(), message, tail, attached).map_err(io_at("sending to the master"))?;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Executor {
    common: Arc<Common>,
    slots: u32,
    /// Threads, when there is more than one slot.
    threads: Option<Slots>,
    inbox: Inbox,
    machine: Worker,
    started: Instant,
    todo: VecDeque<Action>,
    rounds: HashMap<RoundId, (Arc<BlockRunner>, Entries)>,
    data: WorkerData,
    states: Arc<States>,
    /// Recipes of which not all is here; by round and question.
    arriving: HashMap<(RoundId, u32), Arriving>,
    questions: u32,
    theirs: PeerArenas,
    ours: OwnArenas,
    memory: OwnLimit,
    /// Which of our arenas the master has been introduced to.
    introduced: Vec<u64>,
    /// Collected, to be sent.
    collected: HashMap<RoundId, (Vec<(Node, AnyBox)>, Effort)>,
    /// Whether the main thread is in user code.
    is_inside: bool,
    stopping: bool,
}

/// Serves until the master closes the socket.
pub(super) fn serve(asked: &str) -> Result<(), ExecutorError> {
    let slots = understand(asked)?;
    let socket = take_stdin().map_err(io_at("taking over standard input"))?;
    send_all(
        socket.as_fd(),
        &ToMaster::Hello { slots, pid: std::process::id(), version: VERSION.into() },
        &[],
        &[],
    )
    .map_err(io_at("greeting the master"))?;
    let mut inbox = Inbox::default();
    let Some((welcome, page)) = await_welcome(&socket, &mut inbox)? else { return Ok(()) };
    let ToWorker::Welcome { memory_bytes_max, deliver_after_us, cache_bytes_max, runtime, .. } = welcome
    else {
        return Err(ExecutorError::Protocol(format!("{welcome:?} before a welcome")));
    };
    if let Some(setup) = runtime
        && !language::welcome(&setup)
    {
        return Err(ExecutorError::Protocol("a welcome whose runtime cannot be read".into()));
    }
    let memory = OwnLimit::set(memory_bytes_max, if slots == 1 { 1 } else { slots + 1 })
        .map_err(io_at("setting the memory limit"))?;
    let bell =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| io_at("eventfd")(e.into()))?;
    let (threads, at_once) = match slots {
        1 => (None, 1),
        n => {
            let threads = Slots::start(n, "qjam-slot").map_err(io_at("starting threads"))?;
            (Some(threads), n * BLOCKS_PER_THREAD)
        }
    };
    let common = Arc::new(Common {
        socket,
        sending: Mutex::new(()),
        page,
        open: OpenChunks::expendable(memory.cache_bytes(cache_bytes_max)),
        busy: AtomicU32::new(0),
        begun: AtomicU64::new(0),
        dozes: AtomicBool::new(false),
        watch: OnceLock::new(),
        done: Mutex::default(),
        bell,
    });
    let executor = Executor {
        common: common.clone(),
        slots,
        threads,
        inbox,
        machine: Worker::new(at_once, Span(deliver_after_us)),
        started: Instant::now(),
        todo: VecDeque::new(),
        rounds: HashMap::new(),
        data: WorkerData::default(),
        states: Arc::new(States::new(memory_bytes_max)),
        arriving: HashMap::new(),
        questions: 0,
        theirs: PeerArenas::default(),
        ours: memory_bytes_max.map_or_else(OwnArenas::default, OwnArenas::within),
        memory,
        introduced: Vec::new(),
        collected: HashMap::new(),
        is_inside: false,
        stopping: false,
    };
    let executor = Arc::new(Mutex::new(executor));
    start_watch(common, (slots == 1).then(|| executor.clone())).map_err(io_at("starting a thread"))?;
    Executor::serve(&executor)
}

/// Slots, from `1;PARENT;SLOTS`. An executor whose parent has died already has nobody to serve.
fn understand(asked: &str) -> Result<u32, ExecutorError> {
    let wrong = || ExecutorError::Asked(asked.chars().take(80).collect());
    let mut fields = asked.split(';');
    let ("1", parent, slots, None) = (
        fields.next().unwrap_or_default(),
        fields.next().and_then(|f| f.parse::<i32>().ok()).ok_or_else(wrong)?,
        fields.next().and_then(|f| f.parse::<u32>().ok()).ok_or_else(wrong)?,
        fields.next(),
    ) else {
        return Err(wrong());
    };
    if slots == 0 || slots > Page::SLOTS_MAX.min(super::SLOTS_MAX) {
        return Err(wrong());
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| io_at("asking to die with the master")(e.into()))?;
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
        std::process::exit(0);
    }
    Ok(slots)
}

/// The socket is standard input; user code that reads from there gets nothing instead.
fn take_stdin() -> io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 10)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(socket)
}

fn await_welcome(socket: &OwnedFd, inbox: &mut Inbox) -> Result<Option<(ToWorker, Page)>, ExecutorError> {
    loop {
        if let Some(incoming) =
            inbox.next(ToWorker::from_frame).map_err(|e| ExecutorError::Protocol(e.to_string()))?
        {
            let fd = inbox.take_fd().ok_or_else(|| ExecutorError::Protocol("no status page".into()))?;
            let page = Page::open(fd).map_err(io_at("mapping the status page"))?;
            return Ok(Some((incoming.message, page)));
        }
        let read =
            inbox.read(socket.as_fd(), RecvFlags::empty()).map_err(io_at("reading from the master"))?;
        if read == Read::Ended {
            return Ok(None);
        }
    }
}

/// Starts the thread that says every second that this process lives while a block runs, and listens while the only
/// thread that could is inside a long one.
fn start_watch(common: Arc<Common>, executor: Option<Arc<Mutex<Executor>>>) -> io::Result<()> {
    let here = common.clone();
    let watch = std::thread::Builder::new().name("qjam-watch".into()).spawn(move || {
        if let Err(e) = watch(&common, executor.as_deref()) {
            std::process::exit(super::give_up("executor", &e));
        }
    })?;
    let _ = here.watch.set(watch.thread().clone());
    Ok(())
}

fn watch(common: &Common, executor: Option<&Mutex<Executor>>) -> Result<(), ExecutorError> {
    let (mut seen, mut said) = (0, Instant::now());
    loop {
        let begun = common.begun.load(SeqCst);
        if common.busy.load(SeqCst) == 0 && begun == seen {
            common.dozes.store(true, SeqCst);
            // Whoever begins a block counts it first and then looks whether this thread sleeps.
            if common.begun.load(SeqCst) == seen {
                std::thread::park();
            }
            common.dozes.store(false, SeqCst);
            said = Instant::now();
            continue;
        }
        let is_long = begun == seen;
        seen = begun;
        let heard = match executor.filter(|_| is_long) {
            Some(_) => {
                let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
                let mut fds = [PollFd::new(&common.socket, PollFlags::IN)];
                poll(&mut fds, Some(&timeout)).unwrap_or(0) > 0
            }
            None => {
                std::thread::sleep(LOOK_SELDOM);
                false
            }
        };
        let beats = said.elapsed() >= BEAT_EVERY;
        // If somebody is at it, the main thread is awake and reads itself.
        if let Some(executor) = executor.filter(|_| heard || beats && is_long)
            && let Ok(mut here) = executor.try_lock()
            && here.is_inside
        {
            here.listen()?;
        } else if heard {
            std::thread::sleep(LOOK_EVERY);
        }
        if beats && common.busy.load(Relaxed) > 0 {
            said = Instant::now();
            common.send(&ToMaster::State(State::Running), &[], &[])?;
        }
    }
}

impl Executor {
    fn serve(shared: &Mutex<Executor>) -> Result<(), ExecutorError> {
        let mut here = lock(shared);
        loop {
            while let Some(incoming) =
                here.inbox.next(ToWorker::from_frame).map_err(|e| ExecutorError::Protocol(e.to_string()))?
            {
                here.common.page.set_activity(Activity::Receiving);
                here.on_message(incoming.message, &incoming.tail)?;
                while let Some((round, block)) = here.work()? {
                    // Not held while user code runs, so that somebody else can listen.
                    let job = here.enter(round, block);
                    drop(here);
                    let result = job(0);
                    here = lock(shared);
                    here.leave(Done { round, block, result })?;
                }
            }
            if here.stopping {
                return Ok(());
            }
            let is_idle = here.common.busy.load(Relaxed) == 0;
            here.common.page.set_activity(if is_idle { Activity::Idle } else { Activity::Mapping });
            if !here.wait_for_more()? {
                return Ok(());
            }
        }
    }

    /// Reads and answers while the main thread is inside a block.
    fn listen(&mut self) -> Result<(), ExecutorError> {
        if self.read(RecvFlags::DONTWAIT)? == Read::Ended {
            std::process::exit(0);
        }
        self.take_messages()?;
        // Finished work may have waited for long enough.
        self.tell(Event::Ticked);
        let run = self.work()?;
        assert!(run.is_none(), "the only slot is taken");
        self.common.page.set_activity(Activity::Mapping);
        Ok(())
    }

    fn take_messages(&mut self) -> Result<(), ExecutorError> {
        while let Some(incoming) =
            self.inbox.next(ToWorker::from_frame).map_err(|e| ExecutorError::Protocol(e.to_string()))?
        {
            self.on_message(incoming.message, &incoming.tail)?;
            // One message at a time: what one of them has dropped, the next may bring again.
            let run = self.work()?;
            assert!(run.is_none(), "the only slot is taken");
        }
        Ok(())
    }

    /// Blocks until a message or the end of a block comes. Says whether the master is still there.
    fn wait_for_more(&mut self) -> Result<bool, ExecutorError> {
        if self.threads.is_some() {
            let mut fds = [
                PollFd::new(&self.common.socket, PollFlags::IN),
                PollFd::new(&self.common.bell, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(io_at("waiting for work")(e.into())),
            }
            let rung = !fds[1].revents().is_empty();
            let heard = !fds[0].revents().is_empty();
            if rung {
                self.take_done()?;
            }
            if !heard {
                return Ok(true);
            }
        }
        self.read(RecvFlags::empty()).map(|read| read != Read::Ended)
    }

    fn read(&mut self, flags: RecvFlags) -> Result<Read, ExecutorError> {
        self.inbox.read(self.common.socket.as_fd(), flags).map_err(io_at("reading from the master"))
    }

    fn now(&self) -> Time {
        Time(self.started.elapsed().as_micros() as u64)
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.machine.handle(self.now(), event, &mut actions);
        self.todo.extend(actions);
    }

    fn on_message(&mut self, message: ToWorker, tail: &Bytes) -> Result<(), ExecutorError> {
        match message {
            ToWorker::Task(task) => self.on_task(task, tail)?,
            ToWorker::Refs(refs) => {
                let inbox = &mut self.inbox;
                let ready = self.data.arrived(refs, || inbox.take_fd()).map_err(ExecutorError::Protocol)?;
                for (round, chunks) in ready {
                    self.tell(Event::ChunksArrived { round, chunks });
                }
            }
            ToWorker::Recipe { round, question, offset, bytes } => {
                self.on_recipe(round, question, (offset, bytes), tail)?;
            }
            ToWorker::Release(hold) => self.states.release(hold),
            ToWorker::Forget { dataset, regions } => {
                let gone = self.data.forget(dataset, &regions);
                self.common.open.forget(|id| gone.contains(id));
            }
            ToWorker::Released(arenas) => {
                self.release(arenas);
            }
            ToWorker::Cancel(round) | ToWorker::Spare(round) => self.tell(Event::CancelReceived { round }),
            ToWorker::Recall { round, blocks } => self.tell(Event::RecallReceived { round, blocks }),
            ToWorker::Apart { round, block } => self.tell(Event::ApartReceived { round, block }),
            ToWorker::Ping => self.common.send(&ToMaster::Pong, &[], &[])?,
            ToWorker::Bye => self.stopping = true,
            ToWorker::FindRuntime => self.find_runtime()?,
            ToWorker::Welcome { .. } => return Err(ExecutorError::Protocol("a second welcome".into())),
        }
        Ok(())
    }

    /// Has a thread of its own look for an interpreter: that takes a moment, and nobody else should wait for it.
    fn find_runtime(&self) -> Result<(), ExecutorError> {
        let common = self.common.clone();
        let look = move || {
            // Should it fail, the main thread will see the same.
            let _ = common.send(&ToMaster::Runtime(language::find()), &[], &[]);
        };
        let started =
            std::thread::Builder::new().name("qjam-find".into()).stack_size(STACK_BYTES).spawn(look);
        started.map(drop).or_else(|e| {
            let why = format!("there is no thread to look for an interpreter: {e}");
            self.common.send(&ToMaster::Runtime(Err(why)), &[], &[])
        })
    }

    /// The master has taken these results; a round that gave short ones has none.
    fn release(&mut self, arenas: Vec<u64>) {
        if arenas.is_empty() {
            return;
        }
        for arena in arenas {
            self.ours.release(arena);
        }
        self.memory.shared(self.ours.touched_bytes());
    }

    fn on_task(&mut self, task: Task, tail: &Bytes) -> Result<(), ExecutorError> {
        let Task { order, chunks, spans, params, released } = task;
        let OrderHead { round, cut, dataset, held, .. } = order;
        self.release(released);
        let inbox = &mut self.inbox;
        let params = self.theirs.read(&params, tail, || inbox.take_fd()).map_err(ExecutorError::Protocol)?;
        self.data.introduce(dataset, &chunks);
        if !self.rounds.contains_key(&round) {
            let fault = Fault::new;
            let opened = registry::lookup(&order.function)
                .map_err(|e| fault(FaultKind::UnknownFunction, e.to_string()))
                .and_then(|function| match faults::caught(None, || function.open_params(params))? {
                    Ok(params) => Ok((function, params)),
                    Err(e) => Err(fault(FaultKind::Params, e.to_string())),
                });
            let (function, params) = match opened {
                Ok(pair) => pair,
                // The machine never hears of it; the master will say that the round is over.
                Err(fault) => return self.common.send(&ToMaster::Error { round, fault }, &[], &[]),
            };
            let common = self.common.clone();
            // Once seen it stays: the page has room for the last few rounds only.
            let seen = AtomicBool::new(false);
            let cancelled = Arc::new(move || {
                seen.load(Relaxed)
                    || common.page.is_cancelled(round) && {
                        seen.store(true, Relaxed);
                        true
                    }
            });
            let here = BlockRunner::new(&order, function, params, self.slots, Some(cancelled))
                .holding(held.map(|held| RoundStates::new(held, self.states.clone())));
            self.rounds.insert(round, (Arc::new(here), self.data.entries(dataset)));
        }
        let (missing, ask) =
            self.data.missing(round, dataset, cut, &spans).map_err(ExecutorError::Protocol)?;
        for names in ask.chunks(16 << 10) {
            let state = State::Blocked { round, missing: names.to_vec() };
            self.common.send(&ToMaster::State(state), &[], &[])?;
        }
        let behind = self.behind(round, &spans)?;
        self.tell(Event::TaskReceived { round, cut, spans, missing, behind });
        Ok(())
    }

    /// Asks how to make the states of these blocks that are not here; says which those are.
    fn behind(&mut self, round: RoundId, spans: &[BlockRun]) -> Result<Vec<u32>, ExecutorError> {
        let Some(held) = self.rounds.get(&round).and_then(|(here, _)| here.held.as_ref()) else {
            return Ok(Vec::new());
        };
        held.give(spans.iter().map(|span| span.len).sum());
        let behind = self.states.behind(held.task, spans.iter().flat_map(BlockRun::blocks));
        for partitions in behind.chunks(64 << 10) {
            self.questions += 1;
            let question = self.questions;
            let state = State::Behind { round, question, partitions: partitions.to_vec() };
            self.common.send(&ToMaster::State(state), &[], &[])?;
        }
        Ok(behind)
    }

    /// A piece of a recipe: at which offset, and of how many bytes.
    fn on_recipe(
        &mut self,
        round: RoundId,
        question: u32,
        (offset, bytes): (u64, u64),
        piece: &Bytes,
    ) -> Result<(), ExecutorError> {
        let Some(here) = self.rounds.get(&round).map(|(here, _)| here.clone()) else {
            return Ok(()); // it was called off while this was on its way
        };
        let key = (round, question);
        if offset == 0 {
            match Arriving::new(bytes) {
                Some(arriving) => self.arriving.insert(key, arriving),
                None => {
                    let message = format!("no memory for a recipe of {bytes} bytes");
                    let kind = FaultKind::State;
                    let fault = Fault {
                        kind,
                        chunk: None,
                        message,
                        location: None,
                        backtrace: None,
                        carried: Vec::new(),
                    };
                    return self.common.send(&ToMaster::Error { round, fault }, &[], &[]);
                }
            };
        }
        let Some(arriving) = self.arriving.get_mut(&key) else { return Ok(()) };
        if !arriving.put(offset, piece).map_err(ExecutorError::Protocol)? {
            return Ok(());
        }
        let whole = self.arriving.remove(&key).map(Arriving::into_bytes).unwrap_or_default();
        let recipe = Arc::new(StateRecipe::from_bytes(&whole).map_err(ExecutorError::Protocol)?);
        if let Some(held) = &here.held {
            let chunks = held.take_in(&recipe);
            self.tell(Event::RecipesArrived { round, chunks });
        }
        Ok(())
    }

    /// Does what the machine wants until it wants nothing, or a block to be run on the main thread: says which.
    fn work(&mut self) -> Result<Option<(RoundId, Block)>, ExecutorError> {
        while let Some(action) = self.todo.pop_front() {
            match action {
                Action::Run { round, block, .. } if self.threads.is_none() => {
                    return Ok(Some((round, block)));
                }
                Action::Run { round, block, .. } => self.run(round, block),
                Action::SetApart { round, block } => self.rounds[&round].0.set_apart(block),
                Action::Return { round, returned } => {
                    self.common.send(&ToMaster::Returned { round, returned }, &[], &[])?;
                }
                Action::Collect { round } => {
                    let collected = self.rounds[&round].0.collect();
                    let nodes = collected.0.iter().map(|(node, _)| *node).collect();
                    self.collected.insert(round, collected);
                    self.tell(Event::Collected { round, nodes });
                }
                Action::Send { round, parts } => {
                    self.common.page.set_activity(Activity::Sending);
                    self.deliver(round, parts)?;
                }
                Action::Forget { round } => {
                    self.rounds.remove(&round);
                    self.collected.remove(&round);
                    self.arriving.retain(|(whose, _), _| *whose != round);
                }
                Action::LetGo { round } => self.common.send(&ToMaster::Cancelled(round), &[], &[])?,
                Action::Protest { why } => return Err(ExecutorError::Protocol(why)),
            }
        }
        Ok(None)
    }

    /// Prepares for running a block, in whatever slot it will be.
    fn enter(
        &mut self,
        round: RoundId,
        block: Block,
    ) -> impl FnOnce(u32) -> Result<(), Stopped> + Send + 'static {
        let (here, entries) = self.rounds[&round].clone();
        let common = self.common.clone();
        common.page.set_activity(Activity::Mapping);
        common.busy.fetch_add(1, SeqCst);
        common.begun.fetch_add(1, SeqCst);
        if common.dozes.load(SeqCst)
            && let Some(watch) = common.watch.get()
        {
            watch.unpark();
        }
        self.is_inside = true;
        move |slot: u32| {
            common.page.enter(slot, round, block);
            let chunk_at =
                |index: u32| entries.read().unwrap_or_else(PoisonError::into_inner).get(&index).cloned();
            let result = here.run(slot, block, &common.open, &chunk_at);
            // What the function printed goes out before its result does.
            let _ = io::stdout().flush();
            common.page.leave(slot);
            common.busy.fetch_sub(1, SeqCst);
            result
        }
    }

    /// Has a thread run a block.
    fn run(&mut self, round: RoundId, block: Block) {
        let job = self.enter(round, block);
        let common = self.common.clone();
        let threads = self.threads.as_ref().expect("the caller looked");
        let urgency = threads.urgency(1);
        threads.run(Box::new(move |slot| {
            let urgency = urgency();
            let result = job(slot);
            let is_bad = result.is_err();
            lock(&common.done).push(Done { round, block, result });
            if is_bad || urgency.is_pressing() {
                let _ = rustix::io::write(&common.bell, &1u64.to_ne_bytes());
            }
        }));
    }

    /// The main thread has run a block.
    fn leave(&mut self, done: Done) -> Result<(), ExecutorError> {
        self.is_inside = false;
        // Something may have come meanwhile, a cancellation say; after the last block it is soon enough after sending.
        if self.machine.has_unstarted() && self.read(RecvFlags::DONTWAIT)? == Read::Ended {
            std::process::exit(0);
        }
        self.take_messages()?;
        self.on_done(done)
    }

    fn take_done(&mut self) -> Result<(), ExecutorError> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.common.bell, &mut count);
        let done = std::mem::take(&mut *lock(&self.common.done));
        for done in done {
            self.on_done(done)?;
            self.work()?;
        }
        Ok(())
    }

    fn on_done(&mut self, Done { round, block, result }: Done) -> Result<(), ExecutorError> {
        match result {
            Ok(()) => self.tell(Event::BlockFinished { round, block }),
            Err(stopped) => {
                if let Stopped::Fault(fault) = stopped {
                    self.common.send(&ToMaster::Error { round, fault }, &[], &[])?;
                }
                // Where it was cancelled, the master's word of it is on its way.
                self.tell(Event::BlockFailed { round, block });
            }
        }
        Ok(())
    }

    /// Sends collected subtrees: small ones in the frame, large ones through shared memory.
    fn deliver(&mut self, round: RoundId, deliveries: Vec<Delivery>) -> Result<(), ExecutorError> {
        let (values, effort) = self.collected.remove(&round).unwrap_or_default();
        let function = self.rounds[&round].0.function.clone();
        let mut effort = effort;
        let mut parts = Vec::with_capacity(values.len());
        let mut tail = Vec::new();
        let mut attached = Vec::new();
        for ((node, value), Delivery { spans, .. }) in values.into_iter().zip(deliveries) {
            let mut placed = Ok(Payload::Tail { offset: 0, bytes: 0 });
            let encoded = faults::caught(None, || {
                function.encode(&value, &mut |out: &Encoder<'_>| {
                    let bytes = out.payload_bytes();
                    if bytes <= INLINE_BYTES_MAX {
                        let offset = tail.len().next_multiple_of(64);
                        tail.resize(offset + bytes, 0);
                        out.write_to(&mut tail[offset..]);
                        placed = Ok(Payload::Tail { offset: offset as u32, bytes: bytes as u32 });
                    } else {
                        let make_room = || self.common.open.forget(|_| true);
                        placed = self.ours.place_within(out, &mut self.memory, make_room).map(|placed| {
                            let new = !self.introduced.contains(&placed.arena);
                            if new {
                                self.introduced.push(placed.arena);
                                attached.push(Attachment::File(placed.fd.clone()));
                            }
                            placed.payload(new)
                        });
                    }
                });
            });
            if let Err(fault) = encoded {
                // Its encoding is the user's code. What was encoded before it has been promised its arenas.
                self.send_parts(round, &mut parts, &mut tail, &mut attached, &mut effort)?;
                return self.common.send(&ToMaster::Error { round, fault }, &[], &[]);
            }
            let payload = placed.map_err(io_at("shared memory for a result"))?;
            parts.push(Part { node, spans, payload });
            let full = tail.len() + INLINE_BYTES_MAX + 64 > TAIL_BYTES_MAX as usize
                || attached.len() == crate::transport::FDS_MAX;
            if full {
                self.send_parts(round, &mut parts, &mut tail, &mut attached, &mut effort)?;
            }
        }
        self.send_parts(round, &mut parts, &mut tail, &mut attached, &mut effort)
    }

    fn send_parts(
        &mut self,
        round: RoundId,
        parts: &mut Vec<Part>,
        tail: &mut Vec<u8>,
        attached: &mut Vec<Attachment>,
        effort: &mut Effort,
    ) -> Result<(), ExecutorError> {
        if parts.is_empty() {
            return Ok(());
        }
        let Effort { compute_us, hits: cache_hits, misses: cache_misses, restored } = std::mem::take(effort);
        let parts = std::mem::take(parts);
        let outcome = ResultMessage { round, parts, compute_us, cache_hits, cache_misses, restored };
        self.common.send(&ToMaster::Result(outcome), tail, attached)?;
        tail.clear();
        attached.clear();
        Ok(())
    }
}
