//! What `ssh` and a host print to standard error besides the conversation: the last of it explains a lost connection.

use super::words::shown;
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::process::ChildStderr;

/// Lines that are kept.
const LINES_MAX: usize = 8;
/// Reads in a row: a host that never stops talking must not keep the master's loop here. What is left is read when the loop comes
/// round again.
const READS_MAX: usize = 16;

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
        for _ in 0..READS_MAX {
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
        false
    }

    /// The last lines, oldest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::OwnedFd;
    use std::io::{Seek, Write};

    #[test]
    fn who_never_stops_talking_does_not_keep_the_reader() {
        // A file stands for who always has more to say.
        let path = std::env::temp_dir().join(format!("qjam-complaints-{}", std::process::id()));
        let mut file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for n in 0..100_000 {
            writeln!(file, "trouble {n}").unwrap();
        }
        file.rewind().unwrap();
        let mut complaints = Complaints::new(ChildStderr::from(OwnedFd::from(file))).unwrap();
        let mut reads = 1;
        while !complaints.read() {
            assert_eq!(complaints.lines().count(), LINES_MAX);
            reads += 1;
        }
        assert!(reads > 8, "it read on and on");
        assert_eq!(complaints.lines().last(), Some("trouble 99999"));
    }
}
