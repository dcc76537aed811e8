//! What a child interpreter prints, line by line.

use super::level::split_level;
use super::setup;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Lines that are kept for reports of errors.
const LINES_KEPT: usize = 20;
/// A longer line is broken.
const LINE_BYTES_MAX: usize = 8 << 10;

/// The pipe that standard output and standard error of a child end in.
#[derive(Debug)]
pub(super) struct Printed {
    pipe: OwnedFd,
    is_closed: bool,
    worker: String,
    line: Vec<u8>,
    last: VecDeque<String>,
}

impl Printed {
    /// `pipe` must not block.
    pub(super) fn new(pipe: OwnedFd) -> Self {
        // Threads are named after what they are to the master, and how many of it.
        let name = std::thread::current().name().unwrap_or("qjam").to_owned();
        let worker = name.strip_prefix("qjam-").unwrap_or(&name).to_owned();
        Printed { pipe, is_closed: false, worker, line: Vec::new(), last: VecDeque::new() }
    }

    /// The pipe, as long as anything can come from it.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_closed).then(|| self.pipe.as_fd())
    }

    /// Takes in what is there.
    pub(super) fn read(&mut self) {
        let mut bytes = [0; 4096];
        while !self.is_closed {
            match rustix::io::read(&self.pipe, &mut bytes) {
                Ok(0) => self.is_closed = true,
                Ok(n) => self.take(&bytes[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.is_closed = true,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
            }
            if *byte == b'\n' || self.line.len() >= LINE_BYTES_MAX {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        setup::print(&self.worker, &line);
        if self.last.len() == LINES_KEPT {
            self.last.pop_front();
        }
        self.last.push_back(split_level(&line).1.to_owned());
    }

    /// What was printed last, also of a line that has not ended. From here on lines count anew.
    pub(super) fn take_last(&mut self) -> Vec<String> {
        self.read();
        if !self.line.is_empty() {
            self.end_line();
        }
        self.last.drain(..).collect()
    }
}
