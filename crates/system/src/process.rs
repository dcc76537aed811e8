//! A child process that ends with its owner.
//!
//! Between its start and its end a process passes through several hands: the thread that starts it, the letter box of
//! the master's loop, the loop. Whichever of them drops it, the process is killed, with everything it started
//! ([`Family`]), and reaped, so that nothing is left, not even an entry in the table of processes.

use crate::family::Family;
use crate::watcher::Watched;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long a killed process usually takes to end, at most.
const ENDS_WITHIN: Duration = Duration::from_millis(200);

/// A child process, its group, and all that descends from it.
pub struct Process {
    child: Child,
    family: Option<Family>,
    /// Has what it started end when this process is killed.
    _watched: Option<Watched>,
    /// How it ended, once it has been reaped. From then on its number may be somebody else's.
    status: Option<Option<ExitStatus>>,
}

impl Process {
    /// Starts a process as the first of a group and of a family of its own.
    ///
    /// It must start nothing before it has read something from this process: what it starts is marked as it is.
    pub fn spawn(command: &mut Command, mut family: Family) -> io::Result<Self> {
        family.mark(command);
        let child = command.process_group(0).spawn()?;
        let is_root = family.begin(Pid::from_raw(child.id() as i32));
        let watched = is_root.then(Watched::begin).flatten();
        Ok(Process { child, family: Some(family), _watched: watched, status: None })
    }

    /// A child that was started as the first of a group of its own. What leaves the group survives it.
    pub fn new(child: Child) -> Self {
        Process { child, family: None, _watched: None, status: None }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output and standard error.
    pub fn take_pipes(&mut self) -> io::Result<(ChildStdout, ChildStderr)> {
        match (self.child.stdout.take(), self.child.stderr.take()) {
            (Some(stdout), Some(stderr)) => Ok((stdout, stderr)),
            _ => Err(io::Error::other("the child has no pipes")),
        }
    }

    /// Whether it has ended, without taking note of it.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.pid() else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.status.is_some() || !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Ends it, unless it has ended, and whatever it started; says how it ended.
    pub fn end(&mut self) -> Option<ExitStatus> {
        if let Some(status) = self.status {
            return status;
        }
        let _ = self.child.kill();
        if let Some(family) = &self.family {
            // Then nobody but its descendants has to be looked for.
            let begun = Instant::now();
            while !self.has_ended() && begun.elapsed() < ENDS_WITHIN {
                std::thread::sleep(Duration::from_micros(200));
            }
            family.end();
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
    pub fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
