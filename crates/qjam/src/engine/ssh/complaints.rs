//! What `ssh` and a host print to standard error besides the conversation: the last of it explains a lost connection.

use super::words::shown;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::process::ChildStderr;

/// Lines that are kept.
const LINES_MAX: usize = 8;

/// Standard error of an `ssh`, and its last lines.
pub(super) struct Complaints {
    stderr: ChildStderr,
    lines: VecDeque<String>,
}

impl Complaints {
    /// Reading does not block from now on.
    pub(super) fn new(stderr: ChildStderr) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&stderr, true)?;
        Ok(Complaints { stderr, lines: VecDeque::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stderr.as_fd()
    }

    /// Keeps the last lines. Says whether no more can come.
    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 8 << 10];
        loop {
            let n = match self.stderr.read(&mut buffer) {
                Ok(0) => return true,
                Ok(n) => n,
                Err(_) => return false,
            };
            for line in String::from_utf8_lossy(&buffer[..n]).lines().filter(|l| !l.trim().is_empty()) {
                if self.lines.len() == LINES_MAX {
                    self.lines.pop_front();
                }
                self.lines.push_back(shown(line.trim()));
            }
        }
    }

    /// The last lines, oldest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
