//! How an executor begins: it takes over its socket, greets the master, and is welcomed with its settings.

use super::watch::start_watch;
use super::{Common, Executor, ExecutorError, io_at};
use crate::VERSION;
use crate::arenas::{OwnArenas, PeerArenas};
use crate::execution::SLOTS_MAX;
use crate::execution::chunks::OpenChunks;
use crate::execution::data::WorkerData;
use crate::execution::own_limit::OwnLimit;
use crate::execution::slots::{BLOCKS_PER_THREAD, Slots};
use crate::execution::states::States;
use crate::function::language;
use crate::store::Page;
use crate::transport::{Inbox, Read, send_all};
use qjam_core::time::Span;
use qjam_core::wire::{ToMaster, ToWorker};
use qjam_core::worker::Worker;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// Serves until the master closes the socket.
pub(in crate::execution) fn serve(asked: &str) -> Result<(), ExecutorError> {
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
        introduced: HashSet::new(),
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
    if slots == 0 || slots > Page::SLOTS_MAX.min(SLOTS_MAX) {
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
