//! A connection to the supervisor of another host, as the master's loop sees it.
//!
//! It is made by a thread of its own ([`start`](super::start), then [`Link::greet`]) and handed to the loop when the
//! supervisor has said hello. It outlives executors: when one dies the supervisor says so, and is told to start
//! another. When the connection is lost, so is the executor; but the chunks stay on the host's disk.

use super::{Connected, Shipped, StartFailure, Step, start};
use crate::VERSION;
use crate::chunk::ChunkId;
use crate::dataset::CutData;
use crate::engine::HostAddress;
use crate::execution::supervisor::{BEAT_EVERY, SILENT_MAX};
use crate::executor::KnownChunks;
use crate::process::Process;
use crate::source::location::Pieces;
use crate::store::AlignedBuf;
use crate::transport::{Bulk, Inbox, Lanes, Read, Source};
use bytes::Bytes;
use qjam_core::ids::{DataSetId, RoundId, WorkerId};
use qjam_core::wire::frame::Frame;
use qjam_core::wire::host::{HostFacts, KIND_SEGMENT, SEGMENT_BYTES};
use qjam_core::wire::message::MessageError;
use qjam_core::wire::{FromHost, ToHost, ToWorker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ChildStderr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A supervisor says hello within this time.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Longest result.
const PART_BYTES_MAX: u64 = 1 << 40;
/// Lines kept of what ssh, and the host's standard error, said.
const WORDS_MAX: usize = 8;

/// Something that came.
pub(crate) enum Came {
    /// A piece of a result.
    Piece,
    /// A message, its tail, and how long its frame was.
    Message(Box<FromHost>, Bytes, usize),
}

/// Makes a host a worker, up to the supervisor's first words. Blocks.
pub(crate) fn connect(
    address: &HostAddress,
    executable: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Link, StartFailure> {
    let shipped = Shipped::find(executable)?;
    Link::greet(start(address, &shipped, stop, &mut |_, _| {})?)
}

/// The connection.
pub(crate) struct Link {
    process: Process,
    socket: OwnedFd,
    stderr: ChildStderr,
    inbox: Inbox,
    lanes: Lanes,
    pub(crate) facts: HostFacts,
    /// The host's folder of ours.
    pub(crate) dir: String,
    /// When it was last heard of, and when something was last said to it.
    heard: Instant,
    said: Instant,
    /// The executor that was started last.
    pub(crate) worker: Option<WorkerId>,
    /// Its process on that host, once it is ready.
    pub(crate) pid: Option<u32>,
    known: KnownChunks,
    /// Rounds whose parameters it has, or is being sent.
    params: HashSet<RoundId>,
    /// A result that comes in segments, and those that have come.
    arriving: Option<(AlignedBuf, usize)>,
    parts: VecDeque<Bytes>,
    /// Chunks on their way, by ticket, and their names.
    chunks: HashMap<u64, (DataSetId, u32, ChunkId)>,
    leaving: HashSet<ChunkId>,
    /// Data sets that any of its executors has been told of.
    sets: HashSet<DataSetId>,
    next_ticket: u64,
    words: VecDeque<String>,
    /// What has been given to it to send.
    pub(crate) bytes_out: u64,
}

impl Link {
    /// Waits for the supervisor's first words. The socket does not block.
    pub(crate) fn greet(connected: Connected) -> Result<Link, StartFailure> {
        let Connected { process, socket, stderr, leftover, dir, .. } = connected;
        let failed = |what: String, words: &VecDeque<String>| StartFailure {
            step: Step::Handshake,
            what,
            words: words.iter().cloned().collect(),
            remedy: "try again; if it stays, run `qjam check` on the host".into(),
        };
        let now = Instant::now();
        let mut link = Link {
            process,
            socket,
            stderr,
            inbox: Inbox::default(),
            lanes: Lanes::default(),
            facts: HostFacts::default(),
            dir,
            heard: now,
            said: now,
            worker: None,
            pid: None,
            known: KnownChunks::default(),
            params: HashSet::new(),
            arriving: None,
            parts: VecDeque::new(),
            chunks: HashMap::new(),
            leaving: HashSet::new(),
            sets: HashSet::new(),
            next_ticket: 0,
            words: VecDeque::new(),
            bytes_out: 0,
        };
        if let Err(e) = rustix::io::ioctl_fionbio(&link.stderr, true) {
            return Err(failed(e.to_string(), &link.words));
        }
        link.inbox.put(&leftover);
        loop {
            match link.next() {
                Ok(Some(Came::Message(message, ..))) => {
                    let FromHost::Hello(facts) = *message else {
                        return Err(failed("it did not begin with a hello".into(), &link.words));
                    };
                    if facts.version != VERSION {
                        let what = format!("version {} there, {VERSION} here", facts.version);
                        return Err(failed(what, &link.words));
                    }
                    link.facts = facts;
                    return Ok(link);
                }
                Ok(Some(Came::Piece)) => return Err(failed("a piece of nothing".into(), &link.words)),
                Ok(None) => {}
                Err(why) => return Err(failed(why, &link.words)),
            }
            let ended = link.wait_to_read(HELLO_WITHIN.saturating_sub(now.elapsed()), PollFlags::IN);
            if ended || now.elapsed() >= HELLO_WITHIN {
                link.hear_words();
                let what = if ended { "the connection ended" } else { "no hello within 5 s" };
                return Err(failed(what.into(), &link.words));
            }
        }
    }

    /// Waits for bytes, or what else is of interest, and reads them. Says whether the connection has ended.
    fn wait_to_read(&mut self, at_most: Duration, interest: PollFlags) -> bool {
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        let _ = poll(&mut [PollFd::new(&self.socket, interest)], Some(&timeout));
        matches!(self.read(), Ok(Read::Ended) | Err(_))
    }

    /// The next message, while what waits to be sent goes out; `None` when the time is over. For those who have no loop
    /// of their own.
    pub(crate) fn converse(&mut self, deadline: Instant) -> Result<Option<FromHost>, String> {
        let mut ended = false;
        loop {
            match self.next()? {
                Some(Came::Message(message, ..)) => return Ok(Some(*message)),
                Some(Came::Piece) => continue,
                None if ended => return Err("the connection ended".into()),
                None => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if self.is_silent() {
                return Err(format!("it said nothing for {} s", SILENT_MAX.as_secs()));
            }
            self.beat_if_due();
            let interest = match self.flush() {
                Ok(true) => PollFlags::IN,
                Ok(false) => PollFlags::IN | PollFlags::OUT,
                // Why, is told by what it said last, if anything.
                Err(_) => PollFlags::IN,
            };
            ended = self.wait_to_read(left.min(BEAT_EVERY), interest);
        }
    }

    /// The connection and ssh's standard error.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.socket.as_fd(), self.stderr.as_fd()]
    }

    // ---- in ---------------------------------------------------------------------------------------------------

    /// Reads what is there.
    pub(crate) fn read(&mut self) -> io::Result<Read> {
        let read = self.inbox.read_bytes(self.socket.as_fd())?;
        if read == Read::Some {
            self.heard = Instant::now();
        }
        Ok(read)
    }

    /// The next thing that came whole.
    pub(crate) fn next(&mut self) -> Result<Option<Came>, String> {
        let arriving = &mut self.arriving;
        let mut why = None;
        let take = |frame: &Frame<'_>| -> Result<Came, MessageError> {
            if frame.kind == KIND_SEGMENT {
                why = put_piece(arriving, frame.tail).err();
                return Ok(Came::Piece);
            }
            let message = FromHost::from_frame(frame)?;
            let mut tail = AlignedBuf::zeroed(frame.tail.len());
            tail.as_mut_slice().copy_from_slice(frame.tail);
            let bytes = qjam_core::wire::HEADER_BYTES + frame.body.len() + frame.tail.len();
            Ok(Came::Message(Box::new(message), tail.into_bytes(), bytes))
        };
        let came = self.inbox.next_with(take).map_err(|e| e.to_string())?;
        if let Some(why) = why {
            return Err(why);
        }
        self.keep_part();
        if let Some(Came::Message(message, ..)) = &came
            && let FromHost::OpenPart { bytes } = **message
        {
            if self.arriving.is_some() {
                return Err("a result inside another".into());
            }
            let room = (bytes <= PART_BYTES_MAX).then(|| AlignedBuf::try_zeroed(bytes)).flatten();
            self.arriving =
                Some((room.ok_or_else(|| format!("a result of {bytes} bytes: no memory for it"))?, 0));
            self.keep_part();
        }
        Ok(came)
    }

    /// Puts a result that has come whole to the others.
    fn keep_part(&mut self) {
        if let Some((part, at)) = self.arriving.take() {
            if at == part.as_ref().len() {
                self.parts.push_back(part.into_bytes());
            } else {
                self.arriving = Some((part, at));
            }
        }
    }

    /// The next result that came in segments.
    pub(crate) fn take_part(&mut self, bytes: u64) -> Result<Bytes, String> {
        match self.parts.pop_front() {
            Some(part) if part.len() as u64 == bytes => Ok(part),
            _ => Err(format!("a result speaks of {bytes} bytes that did not come before it")),
        }
    }

    /// A new executor begins. What came of the one before it and was not asked for must not be taken for its results.
    pub(crate) fn drop_parts(&mut self) {
        self.parts.clear();
    }

    /// Keeps the last of what ssh and the host said besides. Says whether that is all.
    pub(crate) fn hear_words(&mut self) -> bool {
        let mut buffer = [0; 8 << 10];
        loop {
            let n = match self.stderr.read(&mut buffer) {
                Ok(0) => return true,
                Ok(n) => n,
                Err(_) => return false,
            };
            for line in String::from_utf8_lossy(&buffer[..n]).lines().filter(|l| !l.trim().is_empty()) {
                if self.words.len() == WORDS_MAX {
                    self.words.pop_front();
                }
                let shown: String = line.trim().chars().take(300).filter(|c| !c.is_control()).collect();
                self.words.push_back(shown);
            }
        }
    }

    /// What ssh said last.
    pub(crate) fn last_words(&mut self) -> String {
        self.hear_words();
        self.words.iter().cloned().collect::<Vec<_>>().join("; ")
    }

    // ---- time -------------------------------------------------------------------------------------------------

    /// Whether nothing has come for so long that it is lost.
    pub(crate) fn is_silent(&self) -> bool {
        self.heard.elapsed() >= SILENT_MAX
    }

    /// Whether a byte came lately: then a silent worker there is its own affair.
    pub(crate) fn is_lively(&self) -> bool {
        self.heard.elapsed() < BEAT_EVERY * 3
    }

    /// Says something if nothing was said for a while.
    pub(crate) fn beat_if_due(&mut self) {
        if self.said.elapsed() >= BEAT_EVERY {
            self.urgent(&ToHost::Beat { echo: 0 });
        }
    }

    // ---- out --------------------------------------------------------------------------------------------------

    pub(crate) fn urgent(&mut self, message: &ToHost) {
        self.said = Instant::now();
        self.bytes_out += self.lanes.urgent(message);
    }

    pub(crate) fn send(&mut self, message: &ToHost, tail: Bytes, round: Option<RoundId>) {
        self.said = Instant::now();
        self.bytes_out += self.lanes.send(message, tail, round);
    }

    /// Sends what the connection takes. Says whether everything is gone.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let socket = self.socket.as_fd();
        self.lanes.flush::<ToHost>(|slices| {
            rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
        })
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Starts an executor, the first or the next.
    pub(crate) fn start(&mut self, worker: WorkerId, slots: Option<u32>) {
        self.worker = Some(worker);
        self.pid = None;
        self.known = KnownChunks::default();
        self.send(&ToHost::Start { worker, slots }, Bytes::new(), None);
    }

    /// Chunks that its executor knows by name. A share of a round over this data set is about to be cut into tasks.
    pub(crate) fn known_chunks(&mut self, dataset: DataSetId) -> &mut KnownChunks {
        self.sets.insert(dataset);
        &mut self.known
    }

    /// Sends the parameters of a round.
    pub(crate) fn send_params(&mut self, round: RoundId, source: Box<dyn Source>) {
        self.params.insert(round);
        let opening = ToHost::OpenParams { round, bytes: source.left() };
        let bulk = Bulk { source, round: Some(round), ticket: 0 };
        self.said = Instant::now();
        self.bytes_out += self.lanes.stream(&opening, bulk);
    }

    /// Whether it has, or is being sent, the parameters of a round.
    pub(crate) fn has_params(&self, round: RoundId) -> bool {
        self.params.contains(&round)
    }

    /// Sends the bytes of chunks, except of those that are on their way. Says how many.
    pub(crate) fn send_chunks(&mut self, data: &CutData, indices: &[u32]) -> u64 {
        let mut sent = 0;
        for &index in indices {
            let entry = &data.chunks[index as usize];
            if !self.leaving.insert(entry.id) {
                continue;
            }
            sent += 1;
            self.next_ticket += 1;
            self.chunks.insert(self.next_ticket, (data.located, index, entry.id));
            let opening = ToHost::OpenChunk { id: entry.id, header: entry.header.clone() };
            let source = Box::new(Pieces::of(Arc::clone(entry)));
            let bulk = Bulk { source, round: None, ticket: self.next_ticket };
            self.said = Instant::now();
            self.bytes_out += self.lanes.stream(&opening, bulk);
        }
        sent
    }

    /// Sends bytes that mean nothing, to see how fast they go. The host beats with the largest number when they are there.
    pub(crate) fn send_load(&mut self, bytes: u64) {
        let bulk = Bulk { source: Box::new(Load::new(bytes)), round: None, ticket: 0 };
        self.said = Instant::now();
        self.bytes_out += self.lanes.stream(&ToHost::OpenNothing { bytes }, bulk);
    }

    /// Chunks that could not be read here, with the reason.
    pub(crate) fn take_failed(&mut self) -> Vec<(DataSetId, u32, String)> {
        let mut failed = Vec::new();
        for (ticket, outcome) in self.lanes.take_over() {
            let Some((dataset, index, id)) = self.chunks.remove(&ticket) else { continue };
            self.leaving.remove(&id);
            if let Err(why) = outcome {
                failed.push((dataset, index, why));
            }
        }
        failed
    }

    /// A round is over for this worker: what has not been sent of it need not be.
    pub(crate) fn call_off(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        message: ToWorker,
        dataset: &DataSetId,
    ) {
        if self.lanes.call_off::<ToHost>(round) {
            // Names of chunks may have been among it: they are told again.
            self.known.unsay(dataset);
        }
        self.urgent(&ToHost::Worker { worker, message });
    }

    /// Nobody has anything left to do with a round.
    pub(crate) fn close(&mut self, round: RoundId) {
        if self.params.remove(&round) {
            // For an executor that died, parameters may still be on their way. They must not come after this.
            self.lanes.call_off::<ToHost>(round);
            self.urgent(&ToHost::Closed { round });
        }
    }

    /// A data set is no more.
    pub(crate) fn forget(&mut self, dataset: DataSetId) {
        self.known.forget(&dataset);
        if let (true, Some(worker)) = (self.sets.remove(&dataset), self.worker) {
            let message = ToWorker::Forget { dataset, regions: Vec::new() };
            self.send(&ToHost::Worker { worker, message }, Bytes::new(), None);
        }
    }

    /// Ends the connection; the supervisor ends when it sees that.
    pub(crate) fn end(mut self) -> String {
        let words = self.last_words();
        self.process.end();
        words
    }
}

/// Bytes that no compression makes fewer, so that it is the link that is measured.
struct Load {
    left: u64,
    piece: Bytes,
}

impl Load {
    fn new(bytes: u64) -> Self {
        let mut piece = vec![0; SEGMENT_BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut piece);
        Load { left: bytes, piece: piece.into() }
    }
}

impl Source for Load {
    fn left(&self) -> u64 {
        self.left
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, String> {
        self.left -= bytes as u64;
        Ok(self.piece.slice(..bytes))
    }
}

fn put_piece(arriving: &mut Option<(AlignedBuf, usize)>, piece: &[u8]) -> Result<(), String> {
    let Some((part, at)) = arriving else { return Err("a piece of nothing".into()) };
    let to = *at + piece.len();
    let room = part.as_mut_slice().get_mut(*at..to).ok_or("more of a result than was announced")?;
    room.copy_from_slice(piece);
    *at = to;
    Ok(())
}
