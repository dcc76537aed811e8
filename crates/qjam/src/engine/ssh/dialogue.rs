//! A running `ssh`, and what is said over it before frames are.
//!
//! `ssh` has one socket for standard input and output, since that is what frames will travel over, and a pipe for its
//! errors. Nothing here waits without an end.

use super::words::LastLines;
use super::{Patience, Shipped, Step, options, script};
use crate::engine::HostAddress;
use crate::process::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The environment variable that names another `ssh`, perhaps with arguments.
const SSH: &str = "QJAM_SSH";
/// The command where the variable names none.
static CONFIGURED: RwLock<String> = RwLock::new(String::new());
/// A host that prints more than this instead of what was asked is not waited for any longer.
const NOISE_BYTES_MAX: usize = 1 << 20;
/// A longer line of `ssh` is cut.
const SAID_BYTES_MAX: usize = 8 << 10;
/// How much of the executable is read at once.
const PIECE_BYTES: usize = 256 << 10;
/// How often a start looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(100);
/// After `ssh` has closed its socket it gets this long to write its last messages and to exit.
const END_WITHIN: Duration = Duration::from_millis(500);

/// Sets the command for hosts that are connected from now on, if `QJAM_SSH` names none.
pub(crate) fn use_command(command: &str) {
    *CONFIGURED.write().unwrap_or_else(PoisonError::into_inner) = command.to_owned();
}

/// The command: what `QJAM_SSH` names, or what was set, or `ssh`.
pub(crate) fn command() -> String {
    let named = std::env::var(SSH).unwrap_or_default();
    let configured = || CONFIGURED.read().unwrap_or_else(PoisonError::into_inner).clone();
    let of = |text: String| Some(text).filter(|text| !text.trim().is_empty());
    of(named).or_else(|| of(configured())).unwrap_or_else(|| "ssh".into())
}

/// How a host is reached.
pub(super) struct Route<'a> {
    /// The program and its first arguments.
    pub(super) ssh: Vec<String>,
    pub(super) address: &'a HostAddress,
    /// Set by whoever does not want it any more.
    pub(super) stop: &'a AtomicBool,
    pub(super) patience: Patience,
    /// Options that `ssh` has said it does not know, in lower case.
    pub(super) left_out: RefCell<Vec<String>>,
}

impl<'a> Route<'a> {
    /// By the `ssh` that `QJAM_SSH` names, or the one that is found first.
    pub(super) fn to(address: &'a HostAddress, stop: &'a AtomicBool) -> Self {
        Route::by(command().split_whitespace().map(Into::into).collect(), address, stop)
    }

    /// By this program, with its first arguments.
    pub(super) fn by(ssh: Vec<String>, address: &'a HostAddress, stop: &'a AtomicBool) -> Self {
        Route { ssh, address, stop, patience: Patience::USUAL, left_out: RefCell::default() }
    }

    pub(super) fn program(&self) -> &str {
        self.ssh.first().map_or("ssh", String::as_str)
    }
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line of the script or the worker, without its mark.
    Line(String),
    /// `ssh` has got past this step.
    Passed(Step),
    /// Nothing, until the time was over.
    Silence,
    /// More noise than anybody reads.
    Babble,
    /// Nobody wants it any more.
    Stopped,
    /// `ssh` has closed the connection.
    End,
}

/// Why the executable could not be sent.
#[derive(Debug)]
pub(super) enum Stuck {
    /// Nothing was accepted for too long.
    Stalled,
    /// Something is accepted now and then, but it takes too long.
    Slow,
    /// Nobody wants it any more.
    Stopped,
    /// `ssh` has closed the connection.
    End,
    /// The file cannot be read.
    File(io::Error),
}

/// How it was in the end.
pub(super) struct Parting {
    pub(super) status: Option<ExitStatus>,
    /// What `ssh` and the host wrote to standard error last.
    pub(super) said: LastLines,
    /// What else came on standard output.
    pub(super) noise: LastLines,
}

/// A running `ssh`.
pub(super) struct Dialogue<'a> {
    stop: &'a AtomicBool,
    process: Process,
    socket: OwnedFd,
    stderr: ChildStderr,
    stderr_ended: bool,
    socket_ended: bool,
    marker: String,
    /// Standard output that is not a whole line yet.
    heard: Vec<u8>,
    /// Standard error that is not a whole line yet.
    saying: Vec<u8>,
    passed: VecDeque<Step>,
    said: LastLines,
    noise: LastLines,
    noise_bytes: usize,
}

impl<'a> Dialogue<'a> {
    /// Starts `ssh` to run a command on a host.
    pub(super) fn open(route: &Route<'a>, command: &str, nonce: &str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let address = route.address;
        let mut ssh = Command::new(route.program());
        ssh.args(options::arguments(route));
        let mut child = ssh
            .args(["--", &address.host, command])
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C at the terminal is the master's affair, and what it starts ends with it.
            .process_group(0)
            .spawn()?;
        // Its copies of the other end go with it: whoever holds one keeps the connection from ending.
        drop(ssh);
        let stderr = child.stderr.take();
        let process = Process::new(child);
        let stderr = stderr.ok_or_else(|| io::Error::other("the child has no pipe"))?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        Ok(Dialogue {
            stop: route.stop,
            process,
            socket: ours.into(),
            stderr,
            stderr_ended: false,
            socket_ended: false,
            marker: script::marker(nonce),
            heard: Vec::new(),
            saying: Vec::new(),
            passed: VecDeque::new(),
            said: LastLines::default(),
            noise: LastLines::default(),
            noise_bytes: 0,
        })
    }

    /// Waits for something to be said.
    pub(super) fn listen(&mut self, deadline: Instant) -> Heard {
        loop {
            if let Some(step) = self.passed.pop_front() {
                return Heard::Passed(step);
            }
            if let Some(line) = self.next_line() {
                return Heard::Line(line);
            }
            if self.noise_bytes + self.heard.len() > NOISE_BYTES_MAX {
                return Heard::Babble;
            }
            if self.socket_ended {
                return Heard::End;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Heard::Silence;
            }
            if self.stop.load(Relaxed) {
                return Heard::Stopped;
            }
            self.wait(left.min(GLANCE), PollFlags::IN);
            self.take_in();
        }
    }

    /// Sends the whole executable, until the deadline, unless nothing is accepted for as long as `patience`.
    pub(super) fn send(
        &mut self,
        shipped: &Shipped,
        patience: Duration,
        deadline: Instant,
    ) -> Result<(), Stuck> {
        let mut piece = vec![0; PIECE_BYTES];
        let (mut offset, mut progress) = (0, Instant::now());
        while offset < shipped.length {
            let wanted = piece.len().min((shipped.length - offset) as usize);
            let got = shipped.read_at(offset, &mut piece[..wanted]).map_err(Stuck::File)?;
            if got == 0 {
                return Err(Stuck::File(io::ErrorKind::UnexpectedEof.into()));
            }
            let mut rest = &piece[..got];
            while !rest.is_empty() {
                match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                    Ok(sent) => {
                        rest = &rest[sent..];
                        progress = Instant::now();
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {
                        let left = patience.saturating_sub(progress.elapsed());
                        if left.is_zero() {
                            return Err(Stuck::Stalled);
                        }
                        if Instant::now() >= deadline {
                            return Err(Stuck::Slow);
                        }
                        if self.stop.load(Relaxed) {
                            return Err(Stuck::Stopped);
                        }
                        self.wait(left.min(GLANCE), PollFlags::IN | PollFlags::OUT);
                        self.take_in();
                    }
                    Err(_) => self.socket_ended = true,
                }
                if self.socket_ended {
                    return Err(Stuck::End);
                }
            }
            offset += got as u64;
        }
        Ok(())
    }

    /// Ends `ssh`, after its last words if it is ending.
    pub(super) fn end(mut self) -> Parting {
        let deadline = Instant::now() + END_WITHIN;
        while self.socket_ended && !(self.stderr_ended && self.process.has_ended()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if self.stderr_ended {
                std::thread::sleep(Duration::from_millis(5));
            } else {
                self.wait(left, PollFlags::empty());
            }
            self.take_in();
        }
        while self.next_line().is_some() {}
        self.noise.push(&String::from_utf8_lossy(&self.heard));
        let last = std::mem::take(&mut self.saying);
        self.hear(&String::from_utf8_lossy(&last));
        Parting { status: self.process.end(), said: self.said, noise: self.noise }
    }

    /// What frames will travel over: the process, our end of its socket, its errors, and bytes that are here already.
    pub(super) fn hand_over(self) -> (Process, OwnedFd, ChildStderr, Vec<u8>) {
        (self.process, self.socket, self.stderr, self.heard)
    }

    /// Waits until the socket is ready for something, or standard error is, or the time is over.
    fn wait(&self, left: Duration, interest: PollFlags) {
        let timeout = Timespec::try_from(left).ok();
        let mut fds = vec![];
        if !self.socket_ended {
            fds.push(PollFd::new(&self.socket, interest));
        }
        if !self.stderr_ended {
            fds.push(PollFd::new(&self.stderr, PollFlags::IN));
        }
        // When interrupted, the caller finds nothing and waits again.
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// Takes in what is there.
    fn take_in(&mut self) {
        let mut buffer = [0; 16 << 10];
        while !self.socket_ended && self.heard.len() <= NOISE_BYTES_MAX {
            match recv(self.socket.as_fd(), &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.socket_ended = true,
                Ok((n, _)) => self.heard.extend_from_slice(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.socket_ended = true,
            }
        }
        // Bounded, because a host that never stops writing must not keep us here.
        for _ in 0..16 {
            match self.stderr.read(&mut buffer) {
                Ok(0) => {
                    self.stderr_ended = true;
                    break;
                }
                Ok(n) => self.take_words(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.stderr_ended |= e.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
    }

    /// The next line that is marked as ours. What is not is noise; so is what stands before the mark on its line.
    fn next_line(&mut self) -> Option<String> {
        let (mut at, mut found) = (0, None);
        while let Some(length) = self.heard[at..].iter().position(|b| *b == b'\n').filter(|_| found.is_none())
        {
            let line = String::from_utf8_lossy(&self.heard[at..at + length]);
            let (noise, ours) = match line.split_once(&self.marker) {
                Some((noise, ours)) => (noise, Some(ours.trim_end().to_owned())),
                None => (&*line, None),
            };
            self.noise.push(noise);
            self.noise_bytes += noise.len();
            at += length + 1;
            found = ours;
        }
        self.heard.drain(..at);
        found
    }

    fn take_words(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let room = SAID_BYTES_MAX.saturating_sub(self.saying.len());
            self.saying.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.saying);
                self.hear(&String::from_utf8_lossy(&line));
            }
        }
    }

    /// Notes a step. A host can print the same line as often as it likes, and nobody listens during a copy.
    fn pass(&mut self, step: Step) {
        if !self.passed.contains(&step) {
            self.passed.push_back(step);
        }
    }

    /// A line of standard error.
    fn hear(&mut self, line: &str) {
        // As `LogVerbose` has it: `sshconnect.c:ssh_login():1585 (pid=26053): Authenticating to …`, with or without a
        // level before it.
        let asked_for = line.contains("sshconnect").then(|| line.split_once("): ")).flatten();
        match asked_for {
            Some((before, text)) if before.contains("(pid=") => {
                if text.starts_with("Authenticating to ") {
                    self.pass(Step::Connect);
                } else if text.starts_with("Authenticated to ") {
                    self.pass(Step::Authenticate);
                } else if !before.starts_with("debug") {
                    self.said.push(text);
                }
            }
            // Ornaments of its warnings, and what it says when all is well: also that it cannot do what it must not do.
            _ if line.starts_with("@@@@") || line.starts_with("Warning: Permanently added") => {}
            _ if line.contains("Unsupported option \"gssapidelegatecredentials\"") => {}
            _ => self.said.push(line),
        }
    }
}
