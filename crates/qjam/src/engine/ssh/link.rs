//! A connection to the supervisor of another host, as the master's loop sees it.
//!
//! It is made by a thread of its own ([`start`](super::start), then [`Link::greet`]) and handed to the loop when the
//! supervisor has said hello. It outlives executors: when one dies the supervisor says so, and is told to start
//! another. When the connection is lost, so is the executor; but the chunks stay on the host's disk.

use super::arriving::ArrivingParts;
use super::complaints::Complaints;
use super::outgoing::Outgoing;
use super::sent::SentData;
use super::{Connected, Patience, Shipped, StartFailure, Step, start};
use crate::VERSION;
use crate::dataset::CutData;
use crate::engine::HostAddress;
use crate::execution::supervisor::{BEAT_EVERY, SILENT_MAX};
use crate::executor_process::KnownChunks;
use crate::process::Process;
use crate::source::location::Pieces;
use crate::store::AlignedBuf;
use crate::transport::{Bulk, Inbox, Read, Source};
use bytes::Bytes;
use qjam_core::ids::{DataSetId, RoundId, WorkerId};
use qjam_core::wire::frame::Frame;
use qjam_core::wire::host::{HostFacts, KIND_SEGMENT, SEGMENT_BYTES};
use qjam_core::wire::message::MessageError;
use qjam_core::wire::{FromHost, ToHost, ToWorker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A supervisor says hello within this time.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

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
    patience: Patience,
    stop: &AtomicBool,
) -> Result<Link, StartFailure> {
    let shipped = Shipped::find(executable)?;
    Link::greet(start(address, &shipped, patience, stop, &mut |_, _| {})?)
}

/// The connection.
pub(crate) struct Link {
    process: Process,
    socket: OwnedFd,
    complaints: Complaints,
    inbox: Inbox,
    out: Outgoing,
    pub(crate) facts: HostFacts,
    /// The host's folder of ours.
    pub(crate) dir: String,
    /// When it was last heard of.
    heard: Instant,
    /// The executor that was started last.
    pub(crate) worker: Option<WorkerId>,
    /// Its process on that host, once it is ready.
    pub(crate) pid: Option<u32>,
    parts: ArrivingParts,
    sent: SentData,
}

impl Link {
    /// Waits for the supervisor's first words. The socket does not block.
    pub(crate) fn greet(connected: Connected) -> Result<Link, StartFailure> {
        let Connected { process, socket, stderr, leftover, dir, .. } = connected;
        let failed = |what: String, complaints: Option<&Complaints>| StartFailure {
            step: Step::Handshake,
            what,
            words: complaints.into_iter().flat_map(Complaints::lines).map(Into::into).collect(),
            remedy: "try again; if it stays, run `qjam check` on the host".into(),
        };
        let now = Instant::now();
        let complaints = Complaints::new(stderr).map_err(|e| failed(e.to_string(), None))?;
        let mut link = Link {
            process,
            socket,
            complaints,
            inbox: Inbox::default(),
            out: Outgoing::new(),
            facts: HostFacts::default(),
            dir,
            heard: now,
            worker: None,
            pid: None,
            parts: ArrivingParts::default(),
            sent: SentData::default(),
        };
        link.inbox.put(&leftover);
        loop {
            match link.next() {
                Ok(Some(Came::Message(message, ..))) => {
                    let FromHost::Hello(facts) = *message else {
                        return Err(failed("it did not begin with a hello".into(), Some(&link.complaints)));
                    };
                    if facts.version != VERSION {
                        let what = format!("version {} there, {VERSION} here", facts.version);
                        return Err(failed(what, Some(&link.complaints)));
                    }
                    link.facts = facts;
                    return Ok(link);
                }
                Ok(Some(Came::Piece)) => {
                    return Err(failed("a piece of nothing".into(), Some(&link.complaints)));
                }
                Ok(None) => {}
                Err(why) => return Err(failed(why, Some(&link.complaints))),
            }
            let ended = link.wait_to_read(HELLO_WITHIN.saturating_sub(now.elapsed()), PollFlags::IN);
            if ended || now.elapsed() >= HELLO_WITHIN {
                link.hear_words();
                let what = if ended { "the connection ended" } else { "no hello within 5 s" };
                return Err(failed(what.into(), Some(&link.complaints)));
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
        [self.socket.as_fd(), self.complaints.fd()]
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
        let parts = &mut self.parts;
        let mut why = None;
        let take = |frame: &Frame<'_>| -> Result<Came, MessageError> {
            if frame.kind == KIND_SEGMENT {
                why = parts.put(frame.tail).err();
                return Ok(Came::Piece);
            }
            let message = FromHost::from_frame(frame)?;
            if let FromHost::OpenPart { bytes } = message {
                why = parts.open(bytes).err();
            }
            let mut tail = AlignedBuf::zeroed(frame.tail.len());
            tail.as_mut_slice().copy_from_slice(frame.tail);
            let bytes = qjam_core::wire::HEADER_BYTES + frame.body.len() + frame.tail.len();
            Ok(Came::Message(Box::new(message), tail.into_bytes(), bytes))
        };
        let came = self.inbox.next_with(take).map_err(|e| e.to_string())?;
        match why {
            Some(why) => Err(why),
            None => Ok(came),
        }
    }

    /// The next result that came in segments.
    pub(crate) fn take_part(&mut self, bytes: u64) -> Result<Bytes, String> {
        self.parts.take(bytes)
    }

    /// A new executor begins. What came of the one before it and was not asked for must not be taken for its results.
    pub(crate) fn drop_parts(&mut self) {
        self.parts.clear();
    }

    /// Keeps the last of what ssh and the host said besides. Says whether that is all.
    pub(crate) fn hear_words(&mut self) -> bool {
        self.complaints.read()
    }

    /// What ssh said last.
    pub(crate) fn last_words(&mut self) -> String {
        self.hear_words();
        self.complaints.lines().collect::<Vec<_>>().join("; ")
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
        if self.out.said.elapsed() >= BEAT_EVERY {
            self.urgent(&ToHost::Beat { echo: 0 });
        }
    }

    // ---- out --------------------------------------------------------------------------------------------------

    pub(crate) fn urgent(&mut self, message: &ToHost) {
        self.out.urgent(message);
    }

    pub(crate) fn send(&mut self, message: &ToHost, tail: Bytes, round: Option<RoundId>) {
        self.out.send(message, tail, round);
    }

    /// Sends what the connection takes. Says whether everything is gone.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        self.out.flush(self.socket.as_fd())
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.out.lanes.is_empty()
    }

    /// Bytes that were given to it to send.
    pub(crate) fn bytes_out(&self) -> u64 {
        self.out.bytes
    }

    /// Starts an executor, the first or the next.
    pub(crate) fn start(&mut self, worker: WorkerId, slots: Option<u32>) {
        self.worker = Some(worker);
        self.pid = None;
        self.sent.known = KnownChunks::default();
        self.send(&ToHost::Start { worker, slots }, Bytes::new(), None);
    }

    /// Chunks that its executor knows by name. A share of a round over this data set is about to be cut into tasks.
    pub(crate) fn known_chunks(&mut self, dataset: DataSetId) -> &mut KnownChunks {
        self.sent.sets.insert(dataset);
        &mut self.sent.known
    }

    /// Sends the parameters of a round.
    pub(crate) fn send_params(&mut self, round: RoundId, source: Box<dyn Source>) {
        self.sent.params.insert(round);
        let opening = ToHost::OpenParams { round, bytes: source.left() };
        self.out.stream(&opening, Bulk { source, round: Some(round), ticket: 0 });
    }

    /// Whether it has, or is being sent, the parameters of a round.
    pub(crate) fn has_params(&self, round: RoundId) -> bool {
        self.sent.params.contains(&round)
    }

    /// Sends the bytes of chunks, except of those that are on their way. Says how many.
    pub(crate) fn send_chunks(&mut self, data: &CutData, indices: &[u32]) -> u64 {
        let mut sent = 0;
        for &index in indices {
            let entry = &data.chunks[index as usize];
            let Some(ticket) = self.sent.ticket(data.located, index, entry.id) else { continue };
            sent += 1;
            let opening = ToHost::OpenChunk { id: entry.id, header: entry.header.clone() };
            let source = Box::new(Pieces::of(Arc::clone(entry)));
            self.out.stream(&opening, Bulk { source, round: None, ticket });
        }
        sent
    }

    /// Sends bytes that mean nothing, to see how fast they go. The host beats with the largest number when they are there.
    pub(crate) fn send_load(&mut self, bytes: u64) {
        let bulk = Bulk { source: Box::new(Load::new(bytes)), round: None, ticket: 0 };
        self.out.stream(&ToHost::OpenNothing { bytes }, bulk);
    }

    /// Chunks that could not be read here, with the reason.
    pub(crate) fn take_failed(&mut self) -> Vec<(DataSetId, u32, String)> {
        let mut failed = Vec::new();
        for (ticket, sent) in self.out.lanes.take_over() {
            let Some((dataset, index)) = self.sent.left(ticket) else { continue };
            if let Err(why) = sent {
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
        if self.out.lanes.call_off::<ToHost>(round) {
            // Names of chunks may have been among it: they are told again.
            self.sent.known.unsay(dataset);
        }
        self.urgent(&ToHost::Worker { worker, message });
    }

    /// Nobody has anything left to do with a round.
    pub(crate) fn close(&mut self, round: RoundId) {
        if self.sent.params.remove(&round) {
            // For an executor that died, parameters may still be on their way. They must not come after this.
            self.out.lanes.call_off::<ToHost>(round);
            self.urgent(&ToHost::Closed { round });
        }
    }

    /// A data set is no more.
    pub(crate) fn forget(&mut self, dataset: DataSetId) {
        self.sent.known.forget(&dataset);
        if let (true, Some(worker)) = (self.sent.sets.remove(&dataset), self.worker) {
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
