//! Starts executors: this same program, or another executable, as a child process with a socket.

use qjam_system::family::Family;
use rustix::fd::OwnedFd;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use qjam_system::process::Process;

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
    command
        .env(ASKED, asked)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // A group of its own: Ctrl-C at the terminal is the master's affair. What user code starts dies with it.
    let process = Process::spawn(&mut command, Family::new()).map_err(|e| match executable {
        Some(path) => io::Error::new(e.kind(), format!("{}: {e}", path.display())),
        None => e,
    })?;
    Ok(Spawned { process, socket: ours.into() })
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
