//! A child process that ends with whoever holds it.
//!
//! Between its start and its end a process passes through several hands: the thread that starts it, the letter box of
//! the master's loop, the loop. Whichever of them drops it, it ends, with everything it started that stayed in its
//! group, and is taken note of, so that nothing is left, not even an entry in the table of processes.

use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

/// The environment variable that makes an executable an executor: version, parent's process id, slots.
pub(crate) const ASKED: &str = "QJAM_EXECUTOR";

/// A started executor, before it has said anything.
pub(crate) struct Spawned {
    pub(crate) process: Process,
    pub(crate) socket: OwnedFd,
}

/// Starts an executor. Must be called from a thread that lives as long as the master: the kernel ends the child when
/// the thread that started it ends.
/// It is this same program, or another executable.
pub(crate) fn spawn(executable: Option<&Path>, slots: u32, is_limited: bool) -> io::Result<Spawned> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let asked = format!("1;{};{}", std::process::id(), slots);
    let mut command = Command::new(executable.unwrap_or(Path::new("/proc/self/exe")));
    if executable.is_none()
        && let Some(name) = std::env::args_os().next()
    {
        command.arg0(name);
    }
    if is_limited {
        // When memory runs out the runtime would print a backtrace, run out of memory while it does, and hang. Panics
        // of user code have theirs in any case.
        command.env_remove("RUST_BACKTRACE");
    }
    let child = command
        .env(ASKED, asked)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C at the terminal is the master's affair, and what user code starts dies with it.
        .process_group(0)
        .spawn()
        .map_err(|e| match executable {
            Some(path) => io::Error::new(e.kind(), format!("{}: {e}", path.display())),
            None => e,
        })?;
    Ok(Spawned { process: Process::new(child), socket: ours.into() })
}

#[cfg(test)]
impl Spawned {
    /// A process that does nothing, with a socket whose other end is in the hands of a test.
    pub(crate) fn impostor(socket: OwnedFd) -> io::Result<Spawned> {
        let child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Spawned { process: Process::new(child), socket })
    }
}

/// A child process and its group.
pub(crate) struct Process {
    child: Child,
    /// How it ended, once it has been reaped. From then on its number may be somebody else's.
    status: Option<Option<ExitStatus>>,
}

impl Process {
    /// A child that was started as the first of a group of its own.
    pub(crate) fn new(child: Child) -> Self {
        Process { child, status: None }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output and standard error.
    pub(crate) fn take_pipes(&mut self) -> io::Result<(ChildStdout, ChildStderr)> {
        match (self.child.stdout.take(), self.child.stderr.take()) {
            (Some(stdout), Some(stderr)) => Ok((stdout, stderr)),
            _ => Err(io::Error::other("the child has no pipes")),
        }
    }

    /// Whether it has ended, without taking note of it.
    pub(crate) fn has_ended(&self) -> bool {
        let Some(pid) = self.pid() else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.status.is_some() || !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Ends it, unless it has ended, and whatever it started; says how it ended.
    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        if let Some(status) = self.status {
            return status;
        }
        // Also when it has ended: what it started may live. Until it is reaped the number of its group is its own.
        if let Some(group) = self.pid() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = self.child.wait().ok();
        self.status = Some(status);
        status
    }

    /// Its number, to send a signal to.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
