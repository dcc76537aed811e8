//! A child interpreter in the hands of its slot: calls go to it one at a time, and it is waited for.
//!
//! While a call runs the slot also takes in what the child prints, looks whether anybody still wants the result, and
//! notes how much memory it takes, which nobody can ask a process that has ended.

use super::answer::{self, Answer, AnswerHead};
use super::code::CodeId;
use super::letter::{
    self, CallKind, Head, INLINE_BYTES_MAX, Letter, REFERENCE_BYTES, REFERENCES_MAX, Reference,
};
use super::peer::{Peer, number_of};
use super::printed::Printed;
use super::start::{InterpreterRequest, Started, start};
use qjam_data::store::Arena;
use qjam_data::store::traffic::note_copied;
use qjam_system::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Signal, kill_process};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How often it is looked whether anybody still waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often memory is looked at, while a call runs.
const MEASURE_EVERY: Duration = Duration::from_millis(100);
/// What user code gets to leave after it has been interrupted.
const GRACE: Duration = Duration::from_millis(200);
/// How long an interpreter may take to start; hosts with slow disks need some of it.
const START_MAX: Duration = Duration::from_secs(60);
/// Answers inside messages are shorter.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Mappings that one call may bring.
const FDS_MAX: usize = 8;
/// Arenas are made in steps of this.
const ARENA_STEP: usize = 1 << 20;
/// Memory for results stays allocated up to this much; beyond it, it is given back after every result.
const RESULTS_KEPT: usize = 64 << 20;
/// Code that an interpreter keeps.
const CODES_MAX: usize = 8;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// Nobody waits for it any more.
    Cancelled,
    /// The child had ended before it could read the call.
    Gone,
    /// It ended while it worked on the call.
    Ended(Ended),
    /// The system, or what the child says, is wrong.
    Broken(String),
}

/// How a child ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: Option<ExitStatus>,
    /// Its most memory at a time, as far as it was seen.
    pub(super) peak_bytes: u64,
    pub(super) last_lines: Vec<String>,
}

/// A running interpreter.
pub(super) struct Child {
    pub(super) wanted: InterpreterRequest,
    executable: PathBuf,
    process: Process,
    peer: Arc<Peer>,
    printed: Printed,
    /// Memory that this side writes, and its number.
    arena: Option<(Arena, u64)>,
    arenas_made: u64,
    /// Memory that the child writes.
    results: Option<Arena>,
    /// Code it has, the one used last at the end.
    codes: Vec<CodeId>,
    /// The parameters it has.
    params: u64,
    peak_bytes: u64,
    message: Vec<u8>,
    received: Vec<u8>,
    /// Dropped last.
    _of_thread: OfThread,
}

/// Threads that have an interpreter, or are ending one.
static THREADS: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

/// Whether a thread has an interpreter, or is ending one.
pub fn has_interpreter(thread: ThreadId) -> bool {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner).contains(&thread)
}

/// Notes that this thread has an interpreter, until it is dropped.
struct OfThread(ThreadId);

impl OfThread {
    fn new() -> Self {
        let own = std::thread::current().id();
        THREADS.lock().unwrap_or_else(PoisonError::into_inner).push(own);
        OfThread(own)
    }
}

impl Drop for OfThread {
    fn drop(&mut self) {
        let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = threads.iter().position(|thread| *thread == self.0) {
            threads.swap_remove(place);
        }
    }
}

impl Child {
    /// Starts one and waits until it is ready.
    pub(super) fn start(
        wanted: InterpreterRequest,
        memory_bytes_max: Option<u64>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Child, NoAnswer> {
        let of_thread = OfThread::new();
        let started = start(&wanted, memory_bytes_max).map_err(NoAnswer::Broken)?;
        let Started { process, peer, printed, executable } = started;
        let mut child = Child {
            wanted,
            executable,
            process,
            peer,
            printed,
            arena: None,
            arenas_made: 0,
            results: None,
            codes: Vec::new(),
            params: 0,
            peak_bytes: 0,
            message: Vec::new(),
            received: vec![0; MESSAGE_BYTES_MAX],
            _of_thread: of_thread,
        };
        let begun = Instant::now();
        let is_late = || begun.elapsed() > START_MAX;
        match child.wait(&|| is_late() || cancelled(), false) {
            Ok(Answer::Ready) => Ok(child),
            Ok(other) => Err(child.broken(&format!("it began with {other:?}"))),
            // One that was killed is tried again like any other.
            Err(NoAnswer::Ended(Ended { status, last_lines, .. }))
                if status.is_none_or(|status| status.signal().is_none()) =>
            {
                let how = status.map_or_else(|| "it ended".to_owned(), |status| status.to_string());
                Err(child.broken(&format!("it did not start ({how}): {}", last_lines.join("\n"))))
            }
            Err(NoAnswer::Cancelled) if is_late() => {
                Err(child.broken(&format!("it was not ready after {} s", START_MAX.as_secs())))
            }
            Err(other) => Err(other),
        }
    }

    fn broken(&self, why: &str) -> NoAnswer {
        NoAnswer::Broken(format!("the interpreter {}: {why}", self.executable.display()))
    }

    /// Whether it need not be given this code.
    pub(super) fn has_code(&self, code: CodeId) -> bool {
        self.codes.contains(&code)
    }

    /// Whether it need not be given these parameters.
    pub(super) fn has_params(&self, number: u64) -> bool {
        self.params == number
    }

    /// The socket to it.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// The last lines it printed since this was last asked.
    pub(super) fn take_last_lines(&mut self) -> Vec<String> {
        self.printed.take_last()
    }

    /// Hands it a call and waits for the answer.
    pub(super) fn ask(
        &mut self,
        letter: &Letter<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Answer, NoAnswer> {
        self.send(letter)?;
        let answer = self.wait(cancelled, true);
        if let Ok(Answer::Raised(_) | Answer::LacksState) | Err(_) = answer {
            // It has forgotten them, since they may be what was wrong, or has not read them.
            self.codes.retain(|code| *code != letter.code);
            self.params = 0;
        } else if letter.asked == CallKind::Step {
            // A state may keep parameters and change them, so each step gets its own.
            self.params = 0;
        } else if letter.params != 0 {
            self.params = letter.params;
        }
        answer
    }

    fn send(&mut self, letter: &Letter<'_>) -> Result<(), NoAnswer> {
        let system = |e: io::Error| NoAnswer::Broken(format!("memory to share with an interpreter: {e}"));
        let dropped = self.note_code(letter.code);
        let mut mappings: Vec<(u64, u64)> = Vec::new();
        let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
        let loose = || letter.parts.iter().filter(|part| part.place.is_none() && part.tag != b'i');
        let loose_bytes: usize = loose().map(|part| part.bytes.len()).sum();
        let beside = loose_bytes > INLINE_BYTES_MAX || letter.parts.len() > REFERENCES_MAX;
        let peer = self.peer.clone();
        let mut there = peer.mappings();
        if beside {
            let room: usize = loose().map(|part| letter::align(part.bytes.len())).sum();
            let room = room + letter.parts.len() * REFERENCE_BYTES;
            if self.arena.as_ref().is_none_or(|(arena, _)| arena.len() < room) {
                if let Some((_, number)) = self.arena.take() {
                    there.there.remove(&number);
                    there.gone.push(number);
                }
                let arena = Arena::create(room.next_multiple_of(ARENA_STEP)).map_err(system)?;
                self.arenas_made += 1;
                self.arena = Some((arena, 2 * self.arenas_made + 1));
            }
        }
        // Where each part is.
        let mut references = Vec::with_capacity(letter.parts.len());
        let mut at = 0;
        for part in &letter.parts {
            let (region, offset, length) = match &part.place {
                _ if part.tag == b'i' => (0, 0, part.number),
                Some((mapped, offset)) => {
                    let number = number_of(mapped.id);
                    let end = (*offset + part.bytes.len()) as u64;
                    if there.there.get(&number).is_none_or(|bytes| *bytes < end)
                        && !mappings.iter().any(|(n, _)| *n == number)
                    {
                        // Packs of the cache grow, and are mapped as long as they may become.
                        let size =
                            rustix::fs::fstat(mapped.fd()).map_err(|e| system(e.into()))?.st_size as u64;
                        there.there.insert(number, size);
                        mappings.push((number, size));
                        fds.push(mapped.fd());
                    }
                    (number, *offset, part.bytes.len() as i64)
                }
                None => {
                    let offset = at;
                    at = if beside { letter::align(at + part.bytes.len()) } else { at + part.bytes.len() };
                    // Vectors in a message begin where numbers may.
                    at = at.next_multiple_of(16);
                    (0, offset, part.bytes.len() as i64)
                }
            };
            references.push(Reference { tag: part.tag, region, offset: offset as u64, length });
        }
        self.message.clear();
        if let (true, Some((arena, number))) = (beside, &mut self.arena) {
            let memory = arena.as_mut_slice();
            for (part, reference) in letter.parts.iter().zip(&mut references) {
                if part.place.is_none() && part.tag != b'i' {
                    let start = reference.offset as usize;
                    memory[start..start + part.bytes.len()].copy_from_slice(part.bytes);
                    if part.tag == b'k' {
                        note_copied(part.bytes.len() as u64);
                    }
                    reference.region = *number;
                }
            }
            if references.len() > REFERENCES_MAX {
                let mut table = Vec::with_capacity(references.len() * REFERENCE_BYTES);
                references.iter().for_each(|reference| reference.write(&mut table));
                memory[at..at + table.len()].copy_from_slice(&table);
                let (offset, length) = (at as u64, table.len() as i64);
                references = vec![Reference { tag: b'*', region: *number, offset, length }];
            }
            if !there.there.contains_key(number) {
                there.there.insert(*number, memory.len() as u64);
                mappings.push((*number, memory.len() as u64));
            }
        }
        if let Some((arena, number)) = &self.arena
            && mappings.iter().any(|(n, _)| n == number)
        {
            fds.push(arena.fd());
        }
        let gone = std::mem::take(&mut there.gone);
        drop(there);
        let head = Head { letter, dropped, mappings: &mappings, gone: &gone, references: references.len() };
        let inline = head.bytes().next_multiple_of(16);
        head.write(&mut self.message);
        for reference in &mut references {
            if reference.region == 0 && reference.tag != b'i' {
                reference.offset += inline as u64;
            }
            reference.write(&mut self.message);
        }
        if !beside {
            for (part, reference) in letter.parts.iter().zip(&references) {
                if part.place.is_none() && part.tag != b'i' {
                    self.message.resize(reference.offset as usize, 0);
                    self.message.extend_from_slice(part.bytes);
                }
            }
        }
        match send_with(self.peer.socket.as_fd(), &self.message, &fds) {
            Ok(()) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(NoAnswer::Gone),
            Err(e) => Err(NoAnswer::Broken(format!("sending to an interpreter: {e}"))),
        }
    }

    /// Notes that it has this code; says what it is to drop.
    fn note_code(&mut self, code: CodeId) -> CodeId {
        let none = CodeId([0; 16]);
        if self.codes.last() == Some(&code) {
            return none;
        }
        self.codes.retain(|other| *other != code);
        self.codes.push(code);
        if self.codes.len() > CODES_MAX { self.codes.remove(0) } else { none }
    }

    /// Waits for an answer. When nobody wants it any more, user code is asked to leave before it is made to.
    fn wait(&mut self, cancelled: &dyn Fn() -> bool, is_inside: bool) -> Result<Answer, NoAnswer> {
        let begun = Instant::now();
        let mut measured = begun;
        let mut interrupted: Option<Instant> = None;
        loop {
            if self.look(LOOK_EVERY)? {
                match self.receive(interrupted.is_some())? {
                    Answer::NeedsRoom(bytes) => self.give_room(bytes)?,
                    answer => return Ok(answer),
                }
                continue;
            }
            if self.process.has_ended() {
                // What it said last may be there all the same.
                return if self.look(Duration::ZERO)? {
                    self.receive(interrupted.is_some())
                } else {
                    Err(NoAnswer::Ended(self.end()))
                };
            }
            if measured.elapsed() >= MEASURE_EVERY {
                measured = Instant::now();
                self.measure();
            }
            match interrupted {
                None if cancelled() => {
                    if !is_inside {
                        self.process.end();
                        return Err(NoAnswer::Cancelled);
                    }
                    interrupted = Some(Instant::now());
                    if let Some(pid) = self.process.pid() {
                        let _ = kill_process(pid, Signal::INT);
                    }
                }
                Some(at) if at.elapsed() >= GRACE => {
                    self.process.end();
                    return Err(NoAnswer::Cancelled);
                }
                _ => {}
            }
        }
    }

    /// Waits for so long, and takes in what is printed; whether there is something from the socket.
    fn look(&mut self, at_most: Duration) -> Result<bool, NoAnswer> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(at_most.subsec_nanos()) };
        // In this order: who sees an answer then also sees what was printed before it.
        let socket = PollFd::new(&self.peer.socket, PollFlags::IN);
        let (heard, prints) = match self.printed.pipe() {
            Some(pipe) => {
                let mut fds = [socket, PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
                poll(&mut fds, Some(&timeout))
                    .map(|_| (!fds[0].revents().is_empty(), !fds[1].revents().is_empty()))
            }
            None => {
                let mut fds = [socket];
                poll(&mut fds, Some(&timeout)).map(|_| (!fds[0].revents().is_empty(), false))
            }
        }
        .or_else(|e| if e == Errno::INTR { Ok((false, false)) } else { Err(e) })
        .map_err(|e| NoAnswer::Broken(format!("waiting for an interpreter: {e}")))?;
        if prints {
            self.printed.read();
        }
        Ok(heard)
    }

    fn receive(&mut self, is_interrupted: bool) -> Result<Answer, NoAnswer> {
        let bytes = match receive(self.peer.socket.as_fd(), &mut self.received) {
            Ok(0) | Err(Errno::CONNRESET) => {
                return Err(if is_interrupted {
                    self.process.end();
                    NoAnswer::Cancelled
                } else {
                    NoAnswer::Ended(self.end())
                });
            }
            Ok(bytes) => bytes,
            Err(e) => return Err(NoAnswer::Broken(format!("reading from an interpreter: {e}"))),
        };
        let message = &self.received[..bytes];
        let nonsense = || NoAnswer::Broken("an interpreter answers what makes no sense".into());
        let head = AnswerHead::read(message).ok_or_else(nonsense)?;
        if head.is_kept
            && let Some((_, number)) = self.arena.take()
        {
            // User code has kept something that lies there: it must stay as it is.
            let mut there = self.peer.mappings();
            there.there.remove(&number);
            there.gone.push(number);
        }
        let results = self.results.as_ref().map(Arena::as_slice).unwrap_or_default();
        let answer = answer::read(head, message, results).ok_or_else(nonsense)?;
        if let Some(results) = self.results.as_ref().filter(|results| results.len() > RESULTS_KEPT) {
            // It has been copied out, and may be the last one of its kind.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(results.fd(), flags, 0, results.len() as u64);
        }
        match answer {
            Answer::NeedsRoom(bytes) => Ok(Answer::NeedsRoom(bytes)),
            _ if is_interrupted => Err(NoAnswer::Cancelled),
            answer => Ok(answer),
        }
    }

    /// Makes memory for results, and hands it over.
    fn give_room(&mut self, bytes: usize) -> Result<(), NoAnswer> {
        self.results = None;
        let failed = |e: io::Error| NoAnswer::Broken(format!("no memory for a result of {bytes} bytes: {e}"));
        let arena = Arena::create(bytes.next_multiple_of(ARENA_STEP)).map_err(failed)?;
        let message = letter::room(arena.len() as u64);
        match send_with(self.peer.socket.as_fd(), &message, &[arena.fd()]) {
            // Its end is seen by who waits.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(e) => return Err(failed(e.into())),
        }
        self.results = Some(arena);
        Ok(())
    }

    fn measure(&mut self) {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        self.peak_bytes = self.peak_bytes.max(kib.unwrap_or(0) << 10);
    }

    /// Ends it; says how it ended.
    pub(super) fn end(&mut self) -> Ended {
        // Its socket is closed a little before it has ended, and how it ended is what is asked here.
        let begun = Instant::now();
        while !self.process.has_ended() && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let status = self.process.end();
        Ended { status, peak_bytes: self.peak_bytes, last_lines: self.printed.take_last() }
    }

    /// Whether it can be given another call.
    pub(super) fn lives(&self) -> bool {
        !self.process.has_ended()
    }
}

fn send_with(socket: BorrowedFd<'_>, message: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let pushed = control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(pushed, "{} files in one message", fds.len());
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> rustix::io::Result<usize> {
    let (bytes, _) = rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut *into, RecvFlags::empty()))?;
    Ok(bytes)
}
