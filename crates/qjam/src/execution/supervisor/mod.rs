//! The supervisor: the one process on a host that talks to the master, and never runs user code.
//!
//! It holds the connection, the cache on disk ([`shelf`]) and the status page, and keeps one executor ([`keeping`]),
//! which it starts just as a master does on its own machine. Between the two it translates: what came over the
//! connection in segments is put into shared memory or onto the disk and told by its place, and what the executor left
//! in shared memory goes out in segments. So a crash, an exit or an endless loop in user code costs the executor; the
//! supervisor says what it died of and inside which blocks, and is there to start another.
//!
//! It says something every second, and ends, with everything it started, when the connection does or when the master
//! has said nothing for [`SILENT_MAX`].

mod keeping;
mod shelf;
mod stamps;

pub(crate) use shelf::carry_out;

use super::entry::Stdio;
use crate::VERSION;
use crate::arenas::{OwnArenas, Placed};
use crate::transport::{Inbox, Lanes, Read};
use bytes::Bytes;
use keeping::ExecutorRecord;
use qjam_core::chunk::{ChunkId, Header};
use qjam_core::ids::{DataSetId, RoundId, WorkerId};
use qjam_core::wire::frame::Frame;
use qjam_core::wire::host::{HostFacts, KIND_SEGMENT};
use qjam_core::wire::message::MessageError;
use qjam_core::wire::{FromHost, ToHost};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use shelf::{Shelf, ShelfRequest};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

/// A master that has said nothing for so long is gone, or out of reach for good.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(15);
/// Something is said at least this often, on either side.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(1);
/// No more is read from the connection while so much is on its way to the disk.
const QUEUED_BYTES_MAX: usize = 8 << 20;
/// Reads in a row before looking at anything else.
const READS_MAX: usize = 16;
/// No more of what user code prints is read while so many messages wait to be sent.
const MESSAGES_MAX: usize = 1000;
/// For so many rounds back it is known which data set they are about.
const ROUNDS_MAX: usize = 1 << 16;

/// How executors are to be kept, as the master said.
struct Settings {
    memory_bytes_max: Option<u64>,
    cache_bytes_max: u64,
    deliver_after_us: u64,
    lines_per_second_max: u32,
    runtime: Option<Vec<u8>>,
}

/// What segments are pieces of.
enum Opened {
    Params { round: RoundId, placed: Placed, at: usize },
    Chunk { left: u64 },
    Nothing { left: u64 },
}

struct Supervisor {
    input: OwnedFd,
    output: OwnedFd,
    inbox: Inbox,
    lanes: Lanes,
    started: Instant,
    /// When the master was last heard of, and when something was last said to it.
    heard: Instant,
    said: Instant,
    settings: Option<Settings>,
    opened: Option<Opened>,
    /// Parameters of rounds, as far as they came in segments.
    params: HashMap<RoundId, Placed>,
    arenas: OwnArenas,
    shelf: Shelf,
    /// Which data set a round is about, of the latest; and the packs that a data set has chunks in.
    rounds: BTreeMap<RoundId, DataSetId>,
    packs: HashMap<DataSetId, HashSet<u64>>,
    /// Chunks that the master has been asked for and that have not come.
    requested: HashSet<ChunkId>,
    /// Results on their way out: whose they are, and in which arena of theirs.
    tickets: HashMap<u64, (WorkerId, u64)>,
    next_ticket: u64,
    kept: Option<ExecutorRecord>,
    stopping: bool,
}

/// Serves until the master closes the connection or falls silent.
pub(crate) fn serve(stdio: Stdio) -> io::Result<()> {
    let Stdio { input, output, dir } = stdio;
    rustix::io::ioctl_fionbio(&input, true)?;
    rustix::io::ioctl_fionbio(&output, true)?;
    let now = Instant::now();
    let mut supervisor = Supervisor {
        input,
        output,
        inbox: Inbox::default(),
        lanes: Lanes::default(),
        started: now,
        heard: now,
        said: now,
        settings: None,
        opened: None,
        params: HashMap::new(),
        arenas: OwnArenas::default(),
        shelf: Shelf::start(dir)?,
        rounds: BTreeMap::new(),
        packs: HashMap::new(),
        requested: HashSet::new(),
        tickets: HashMap::new(),
        next_ticket: 0,
        kept: None,
        stopping: false,
    };
    supervisor.say(&FromHost::Hello(facts()));
    supervisor.serve()
}

/// What this host is like.
fn facts() -> HostFacts {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let memory = read("/proc/meminfo");
    let kib = |key: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    HostFacts {
        version: VERSION.into(),
        pid: std::process::id(),
        hostname: word(system.nodename()),
        system: format!("{} {} {}", word(system.sysname()), word(system.release()), word(system.machine())),
        cores: cores(),
        memory_bytes: crate::memory::Limit::here().bytes,
        memory_free_bytes: kib("MemAvailable:"),
    }
}

/// Cores that this user may use here.
fn cores() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |n| n.get().min(crate::execution::SLOTS_MAX as usize) as u32)
}

impl Supervisor {
    fn serve(&mut self) -> io::Result<()> {
        while !self.stopping {
            self.flush()?;
            let ready = self.wait()?;
            if ready.shelf {
                self.take_replies()?;
            }
            if ready.input && !self.read_input()? {
                return Ok(());
            }
            self.tend_executor(ready)?;
            let now = Instant::now();
            if now.duration_since(self.heard) >= SILENT_MAX {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the master said nothing for 15 s"));
            }
            if now.duration_since(self.said) >= BEAT_EVERY {
                self.beat(0);
            }
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&mut self) -> io::Result<Ready> {
        let read_more = self.shelf.queued_bytes() < QUEUED_BYTES_MAX;
        let hear_lines = self.lanes.waiting() < MESSAGES_MAX;
        let mut fds = Vec::with_capacity(6);
        let when = |wanted: bool, flags: PollFlags| if wanted { flags } else { PollFlags::empty() };
        fds.push(PollFd::new(&self.input, when(read_more, PollFlags::IN)));
        fds.push(PollFd::new(&self.output, when(!self.lanes.is_empty(), PollFlags::OUT)));
        fds.push(PollFd::from_borrowed_fd(self.shelf.as_fd(), PollFlags::IN));
        if let Some(kept) = &self.kept {
            let [socket, stdout, stderr] = kept.executor.fds();
            let unsent = when(kept.executor.has_unsent(), PollFlags::OUT);
            fds.push(PollFd::from_borrowed_fd(socket, PollFlags::IN | unsent));
            for (pipe, ended) in [stdout, stderr].into_iter().zip(kept.ended) {
                if hear_lines && !ended {
                    fds.push(PollFd::from_borrowed_fd(pipe, PollFlags::IN));
                }
            }
        }
        let mut nap = BEAT_EVERY.saturating_sub(self.said.elapsed());
        if let Some(at) = self.kept.as_ref().and_then(ExecutorRecord::next_deadline) {
            nap = nap.min(at.saturating_duration_since(Instant::now()));
        }
        let nap = nap.max(Duration::from_millis(1));
        let timeout = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let is = |n: usize| fds.get(n).is_some_and(|fd| !fd.revents().is_empty());
        Ok(Ready {
            // The end of the connection is told even while nothing is read from it.
            input: is(0) && (read_more || fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
            shelf: is(2),
            socket: is(3),
            pipes: is(4) || is(5),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let output = self.output.as_fd();
        self.lanes.flush::<FromHost>(|slices| rustix::io::writev(output, slices))?;
        for (ticket, _) in self.lanes.take_over() {
            self.release(ticket);
        }
        Ok(())
    }

    /// Something in order, to be sent as soon as may be.
    fn say(&mut self, message: &FromHost) {
        self.say_with(message, Bytes::new());
    }

    fn say_with(&mut self, message: &FromHost, tail: Bytes) {
        self.said = Instant::now();
        self.lanes.send(message, tail, None);
    }

    fn beat(&mut self, echo: u64) {
        self.said = Instant::now();
        self.lanes.urgent(&FromHost::Beat { echo });
        // One that has not said hello expects its welcome first.
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.executor.joined) {
            // Its answer is passed on, so that the master knows that both of us live.
            let _ = kept.executor.send(&qjam_core::wire::ToWorker::Ping, &[], Vec::new());
        }
    }

    // ---- from the master --------------------------------------------------------------------------------------

    /// Reads what came. Says whether the connection is still there.
    fn read_input(&mut self) -> io::Result<bool> {
        // Several times, because a connection gives little at once and waiting costs more than reading.
        for _ in 0..READS_MAX {
            match self.inbox.read_bytes(self.input.as_fd())? {
                Read::Ended => return Ok(false),
                Read::Nothing => return Ok(true),
                Read::Some => self.heard = Instant::now(),
            }
            while let Some(came) = self.next()? {
                match came {
                    Came::Segment(bytes) => self.on_segment(bytes)?,
                    Came::Message(message, tail) => self.on_message(*message, tail)?,
                }
            }
        }
        Ok(true)
    }

    fn next(&mut self) -> io::Result<Option<Came>> {
        let take = |frame: &Frame<'_>| -> Result<Came, MessageError> {
            if frame.kind == KIND_SEGMENT {
                return Ok(Came::Segment(frame.tail.to_vec()));
            }
            let message = ToHost::from_frame(frame)?;
            let mut tail = crate::store::AlignedBuf::zeroed(frame.tail.len());
            tail.as_mut_slice().copy_from_slice(frame.tail);
            Ok(Came::Message(Box::new(message), tail.into_bytes()))
        };
        self.inbox.next_with(take).map_err(|e| wrong(e.to_string()))
    }

    fn on_message(&mut self, message: ToHost, tail: Bytes) -> io::Result<()> {
        match message {
            ToHost::Welcome {
                memory_bytes_max,
                cache_bytes_max,
                disk_bytes_max,
                deliver_after_us,
                lines_per_second_max,
                runtime,
            } => {
                self.shelf.order(ShelfRequest::Open { bytes_max: disk_bytes_max });
                self.settings = Some(Settings {
                    memory_bytes_max,
                    cache_bytes_max,
                    deliver_after_us,
                    lines_per_second_max,
                    runtime,
                });
            }
            ToHost::Start { worker, slots } => self.start(worker, slots.unwrap_or_else(cores)),
            ToHost::Kill { worker } => self.kill(worker),
            ToHost::Worker { worker, message } => self.pass_down(worker, message, &tail)?,
            ToHost::OpenParams { round, bytes } => {
                let placed = self.arenas.reserve(usize::try_from(bytes).map_err(io::Error::other)?)?;
                self.open(Opened::Params { round, placed, at: 0 })?;
                if bytes == 0 {
                    self.close_params();
                }
            }
            ToHost::OpenChunk { id, header } => self.open_chunk(id, header)?,
            ToHost::OpenNothing { bytes } => self.open(Opened::Nothing { left: bytes })?,
            ToHost::Abandon => match self.opened.take() {
                Some(Opened::Params { placed, .. }) => self.arenas.release(placed.arena),
                Some(Opened::Chunk { .. }) => self.shelf.order(ShelfRequest::Abandon),
                Some(Opened::Nothing { .. }) | None => {}
            },
            ToHost::Closed { round } => {
                if let Some(placed) = self.params.remove(&round) {
                    self.arenas.release(placed.arena);
                }
            }
            ToHost::Beat { echo } => {
                self.lanes.urgent(&FromHost::Beat { echo });
            }
            ToHost::Cache(order) => self.shelf.order(ShelfRequest::Cache(order)),
            ToHost::Bye => self.stopping = true,
        }
        Ok(())
    }

    fn open(&mut self, opened: Opened) -> io::Result<()> {
        match self.opened.replace(opened) {
            None => Ok(()),
            Some(_) => Err(wrong("a payload inside another".into())),
        }
    }

    fn open_chunk(&mut self, id: ChunkId, header: Header) -> io::Result<()> {
        if header.bytes > qjam_core::chunk::CHUNK_BYTES_MAX {
            return Err(wrong(format!("chunk {id} of {} bytes", header.bytes)));
        }
        let left = header.bytes;
        self.shelf.order(ShelfRequest::Begin(id, header));
        if left > 0 { self.open(Opened::Chunk { left }) } else { Ok(()) }
    }

    fn on_segment(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let len = bytes.len() as u64;
        let is_over = match &mut self.opened {
            None => return Err(wrong("a segment of nothing".into())),
            Some(Opened::Params { placed, at, .. }) => {
                let to = *at + bytes.len();
                if to as u64 > placed.bytes {
                    return Err(wrong("more parameters than were announced".into()));
                }
                self.arenas.memory(placed.arena)[*at..to].copy_from_slice(&bytes);
                *at = to;
                to as u64 == placed.bytes
            }
            Some(Opened::Chunk { left }) => {
                *left = left
                    .checked_sub(len)
                    .ok_or_else(|| wrong("more of a chunk than was announced".into()))?;
                let is_over = *left == 0;
                self.shelf.order(ShelfRequest::Write(bytes));
                is_over
            }
            Some(Opened::Nothing { left }) => {
                *left = left.saturating_sub(len);
                *left == 0
            }
        };
        if is_over && !self.close_params() && matches!(self.opened.take(), Some(Opened::Nothing { .. })) {
            self.beat(u64::MAX);
        }
        Ok(())
    }

    /// Keeps parameters that have come whole. Says whether it was those that came.
    fn close_params(&mut self) -> bool {
        match self.opened.take() {
            Some(Opened::Params { round, placed, .. }) => {
                if let Some(old) = self.params.insert(round, placed) {
                    self.arenas.release(old.arena);
                }
                true
            }
            other => {
                self.opened = other;
                false
            }
        }
    }
}

/// What there is to do.
#[derive(Clone, Copy)]
struct Ready {
    input: bool,
    shelf: bool,
    socket: bool,
    pipes: bool,
}

enum Came {
    Segment(Vec<u8>),
    Message(Box<ToHost>, Bytes),
}

/// The master does not keep to the protocol.
fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
