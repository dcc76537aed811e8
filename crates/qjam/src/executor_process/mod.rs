//! An executor process, as its supervisor sees it.
//!
//! On this machine the master is the supervisor; on another host a process of ours is. The supervisor starts its own
//! executable again ([`process`](crate::process)) with a socket as standard input, reads what user code prints from two
//! pipes, and shares a status page with the executor, so that it knows what the process was doing when it died. This
//! module sends and receives; it decides nothing.

mod known_chunks;
mod throttle;

pub(crate) use known_chunks::{KnownChunks, TaskPart};
pub(crate) use throttle::Throttle;

use crate::arenas::{PeerArenas, Released};
use crate::dataset::CutData;
use crate::memory::Kills;
use crate::process::{Process, Spawned};
use crate::store::{Page, Region};
use crate::transport::{Attachment, Inbox, Outbox};
use qjam_core::ids::{DataSetId, RoundId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::wire::ToWorker;
use qjam_core::wire::host::Line;
use qjam_core::wire::message::{ByteLocation, Ref};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStderr, ChildStdout};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of references that go into one message at most.
const REFS_BYTES_MAX: usize = 1 << 20;
/// Lines kept for the report of a death.
const LAST_LINES: usize = 20;
/// A longer line is cut.
const LINE_BYTES_MAX: usize = 8 << 10;
/// A process whose socket has ended gets this long to end by itself, so that its own exit code is seen.
const END_WITHIN: Duration = Duration::from_millis(300);

/// Bytes of one pipe that are not a whole line yet.
#[derive(Debug, Default)]
struct Unfinished(Vec<u8>);

impl Unfinished {
    fn take_in(&mut self, bytes: &[u8], mut line: impl FnMut(String)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.0.len());
            self.0.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let whole = std::mem::take(&mut self.0);
                line(String::from_utf8_lossy(&whole).trim_end_matches(['\n', '\r']).to_owned());
            }
        }
    }
}

/// An executor, as its supervisor sees it.
pub(crate) struct ExecutorProcess {
    pub(crate) worker: WorkerId,
    pub(crate) slots: u32,
    pub(crate) joined: bool,
    /// Bytes have come that nobody has looked at.
    pub(crate) has_news: bool,
    /// The other end of the socket is closed.
    pub(crate) has_ended: bool,
    process: Process,
    socket: OwnedFd,
    pub(crate) inbox: Inbox,
    outbox: Outbox,
    stdout: ChildStdout,
    stderr: ChildStderr,
    partial: [Unfinished; 2],
    /// What it printed last, of the round it was given last.
    last_lines: VecDeque<String>,
    last_round: Option<RoundId>,
    /// Size of the last allocation that its runtime could not make.
    refused_bytes: Option<u64>,
    pub(crate) page: Arc<Page>,
    memory_bytes_max: Option<u64>,
    /// How often the kernel had killed for memory before this one was started.
    kills: Option<Kills>,
    /// Chunk names it has been told; and the regions introduced, with the data sets that lie in them.
    pub(crate) known: KnownChunks,
    regions: HashMap<u64, HashSet<DataSetId>>,
    /// Arenas of the master it has been introduced to.
    pub(crate) introduced: HashSet<u64>,
    /// Its own arenas, and those it may use again.
    pub(crate) arenas: PeerArenas,
    pub(crate) released: Released,
    /// What has been sent to it.
    pub(crate) bytes_out: u64,
}

impl ExecutorProcess {
    pub(crate) fn new(
        worker: WorkerId,
        slots: u32,
        spawned: Spawned,
        memory_bytes_max: Option<u64>,
    ) -> io::Result<Self> {
        let Spawned { mut process, socket } = spawned;
        let (stdout, stderr) = process.take_pipes()?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        Ok(ExecutorProcess {
            worker,
            slots,
            joined: false,
            has_news: false,
            has_ended: false,
            process,
            socket,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            stdout,
            stderr,
            partial: Default::default(),
            last_lines: VecDeque::new(),
            last_round: None,
            refused_bytes: None,
            page: Arc::new(Page::create()?),
            memory_bytes_max,
            kills: Kills::so_far(),
            known: KnownChunks::default(),
            regions: HashMap::new(),
            introduced: HashSet::new(),
            arenas: PeerArenas::default(),
            released: Released::default(),
            bytes_out: 0,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Socket, standard output, standard error.
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 3] {
        [self.socket.as_fd(), self.stdout.as_fd(), self.stderr.as_fd()]
    }

    pub(crate) fn send(
        &mut self,
        message: &ToWorker,
        tail: &[u8],
        attached: Vec<Attachment>,
    ) -> io::Result<()> {
        self.bytes_out += self.outbox.send(self.socket.as_fd(), message, tail, attached)? as u64;
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        self.outbox.flush(self.socket.as_fd())
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Reads from the socket what is there.
    pub(crate) fn read(&mut self) -> io::Result<crate::transport::Read> {
        self.inbox.read(self.socket.as_fd(), rustix::net::RecvFlags::DONTWAIT)
    }

    /// Reads what user code printed, at most so many bytes of each pipe. Says which pipes have ended.
    pub(crate) fn read_lines(&mut self, mut each: impl FnMut(Line)) -> [bool; 2] {
        let mut ended = [false; 2];
        let mut buffer = [0; 16 << 10];
        for (n, is_error) in [(0, false), (1, true)] {
            for _ in 0..16 {
                let read =
                    if is_error { self.stderr.read(&mut buffer) } else { self.stdout.read(&mut buffer) };
                let Ok(bytes @ 1..) = read else {
                    ended[n] = matches!(read, Ok(0));
                    break;
                };
                let (last_lines, refused_bytes) = (&mut self.last_lines, &mut self.refused_bytes);
                self.partial[n].take_in(&buffer[..bytes], |text| {
                    // Noted as it passes: a backtrace may follow that is longer than what is kept.
                    // A size tells more than none.
                    *refused_bytes = refused(&text).max(*refused_bytes);
                    if !is_frame(&text) {
                        if last_lines.len() == LAST_LINES {
                            last_lines.pop_front();
                        }
                        last_lines.push_back(text.clone());
                    }
                    each(Line { text, is_error });
                });
            }
        }
        ended
    }

    /// What was printed without an end of line, as lines: the round that printed it is over.
    pub(crate) fn take_unfinished(&mut self) -> Vec<Line> {
        let pipes = self.partial.iter_mut().zip([false, true]).filter(|(p, _)| !p.0.is_empty());
        pipes
            .map(|(p, is_error)| Line {
                text: String::from_utf8_lossy(&std::mem::take(&mut p.0)).into_owned(),
                is_error,
            })
            .collect()
    }

    /// A new round begins: what was printed before says nothing about how it ends.
    pub(crate) fn begin(&mut self, round: RoundId) {
        if self.last_round != Some(round) {
            self.last_round = Some(round);
            self.last_lines.clear();
        }
    }

    /// Tells it where chunks are.
    pub(crate) fn send_refs(&mut self, data: &CutData, indices: &[u32]) -> io::Result<()> {
        let mut refs = Vec::new();
        let mut attached = Vec::new();
        let mut bytes = 0;
        for &index in indices {
            let entry = &data.chunks[index as usize];
            use crate::source::location::ChunkLocation;
            let place = match &entry.place {
                ChunkLocation::Shared { region, offset } => {
                    self.in_region(data.located, region.clone(), *offset, &mut attached)
                }
                // What is the user's own memory goes by a copy that can be mapped, made once.
                ChunkLocation::Memory { memory, offset } => {
                    self.in_region(data.located, memory.region()?, *offset, &mut attached)
                }
                ChunkLocation::File { path, offset, stamp } => ByteLocation::File {
                    path: std::path::absolute(path)?.as_os_str().as_bytes().to_vec(),
                    offset: *offset,
                    stamp: (stamp.device, stamp.inode, stamp.bytes, stamp.modified_ns),
                },
            };
            let chunk = Ref { id: entry.id, header: entry.header.clone(), place };
            bytes += 128
                + chunk.header.dtype.len()
                + match &chunk.place {
                    ByteLocation::File { path, .. } => path.len(),
                    ByteLocation::Region { .. } | ByteLocation::Pack { .. } => 0,
                };
            refs.push(chunk);
            if bytes > REFS_BYTES_MAX || attached.len() == crate::transport::FDS_MAX {
                self.send(&ToWorker::Refs(std::mem::take(&mut refs)), &[], std::mem::take(&mut attached))?;
                bytes = 0;
            }
        }
        if !refs.is_empty() {
            self.send(&ToWorker::Refs(refs), &[], attached)?;
        }
        Ok(())
    }

    /// A place in shared memory, whose descriptor goes along the first time.
    fn in_region(
        &mut self,
        user: DataSetId,
        region: Region,
        offset: u64,
        attached: &mut Vec<Attachment>,
    ) -> ByteLocation {
        let users = self.regions.entry(region.id()).or_default();
        let with_fd = users.is_empty();
        users.insert(user);
        let place =
            ByteLocation::Region { region: region.id(), region_bytes: region.len() as u64, with_fd, offset };
        if with_fd {
            attached.push(Attachment::Region(region));
        }
        place
    }

    /// Has it drop a data set that no longer exists.
    pub(crate) fn forget(&mut self, dataset: DataSetId) -> io::Result<()> {
        if !self.known.forget(&dataset) {
            return Ok(());
        }
        let mut regions = Vec::new();
        self.regions.retain(|region, users| {
            users.remove(&dataset);
            if users.is_empty() {
                regions.push(*region);
            }
            !users.is_empty()
        });
        self.send(&ToWorker::Forget { dataset, regions }, &[], Vec::new())
    }

    pub(crate) fn mark_cancelled(&self, round: RoundId) {
        self.page.cancel(round);
    }

    /// Ends the process and everything it started, and says how it ended. `cause` is ours, if it was our decision.
    pub(crate) fn end(mut self, cause: Option<Cause>, mut each: impl FnMut(Line)) -> Death {
        let asked = Instant::now();
        while cause.is_none() && !self.process.has_ended() && asked.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(1)); // it closed its socket and is on its way out
        }
        let status = self.process.end();
        self.read_lines(&mut each);
        let unfinished = self.take_unfinished();
        self.last_lines.extend(unfinished.into_iter().map(|line| line.text));
        let activity = self.page.activity();
        let inside = self.page.inside(self.slots);
        let last_lines: Vec<String> = std::mem::take(&mut self.last_lines).into();
        let cause = cause.unwrap_or_else(|| match status {
            Some(status) => match (status.signal(), self.refused_bytes, self.memory_bytes_max) {
                (Some(_), Some(asked_bytes), Some(limit_bytes)) => {
                    Cause::OutOfMemory { limit_bytes, asked_bytes }
                }
                (Some(9), ..) => match self.kills.as_ref().and_then(Kills::since) {
                    Some((limit_bytes, peak_bytes)) => Cause::KilledForMemory { limit_bytes, peak_bytes },
                    None => Cause::Signal(9),
                },
                (Some(signal), ..) => Cause::Signal(signal),
                (None, ..) => Cause::Exited(status.code().unwrap_or(-1)),
            },
            None => Cause::Signal(9),
        });
        Death { cause, activity, inside, last_lines }
    }
}

/// Whether a line is part of a backtrace. Those are long, and would push out what was said before them.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.split_once(": ").map(|(n, _)| n);
    line.starts_with("at ") || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The size of an allocation that Rust's runtime could not make, if this line says so. Two threads may say it at once. Where the C
/// library found no memory first, nobody says how much was asked for: 0.
fn refused(line: &str) -> Option<u64> {
    if line.contains("Fatal glibc error") && line.contains("out of memory") {
        return Some(0);
    }
    if !line.starts_with("memory allocation of ") {
        return None;
    }
    let said =
        line.rsplit("memory allocation of ").find(|said| said.starts_with(|c: char| c.is_ascii_digit()))?;
    said.split_once(" bytes failed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_where_they_end_and_bounded() {
        let mut lines = Vec::new();
        let mut unfinished = Unfinished::default();
        unfinished.take_in(b"one\r\ntw", |l| lines.push(l));
        unfinished.take_in(b"o\n\nthree", |l| lines.push(l));
        assert_eq!(lines, ["one", "two", ""]);
        unfinished.take_in(&vec![b'x'; 100_000], |l| lines.push(l));
        unfinished.take_in(b"\n", |l| lines.push(l));
        assert!(lines[3].starts_with("threexxx") && lines[3].len() <= LINE_BYTES_MAX);
    }

    #[test]
    fn the_runtimes_last_words_name_the_allocation() {
        assert_eq!(refused("memory allocation of 123 bytes failed"), Some(123));
        assert_eq!(refused("memory allocation of memory allocation of 123 bytes failed"), Some(123));
        assert_eq!(
            refused("memory allocation of 123 bytes failedmemory allocation of 7 bytes failed"),
            Some(7)
        );
        assert_eq!(refused("memory allocation of many bytes failed"), None);
        let glibc = "Fatal glibc error: failed to register TLS destructor: out of memory";
        assert_eq!(refused(glibc), Some(0));
        assert_eq!(refused(&format!("memory allocation of {glibc}")), Some(0));
        assert_eq!(refused("Fatal glibc error: unknown"), None);
        assert_eq!(refused("said: memory allocation of 5 bytes failed"), None);
    }

    #[test]
    fn backtraces_do_not_push_out_what_was_said() {
        assert!(
            is_frame("  23: qjam::worker::run::{{closure}}") && is_frame("             at ./src/x.rs:389:31")
        );
        assert!(
            !is_frame("chunk 23: odd")
                && !is_frame("memory allocation of 5 bytes failed")
                && !is_frame(": x")
        );
    }
}
