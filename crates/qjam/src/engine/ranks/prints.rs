//! What user code prints on a rank, kept until its round is over.
//!
//! Standard output and error become files in memory: writing to them never waits, and nobody has to read along. What was
//! printed goes up with the results; what is left when a rank ends is written where it would have gone.

use super::wire::RankLine;
use qjam_core::wire::host::Line;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, OFlags};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// So many lines of a round are passed on, and the rest is counted.
const LINES_MAX: usize = 2000;
/// A line is cut off here.
const LINE_BYTES_MAX: usize = 8 << 10;
/// So much of what was printed in a round is looked at.
const READ_BYTES_MAX: u64 = 16 << 20;
/// A file longer than this is emptied when all of it has been read.
const EMPTIED_BYTES: u64 = 1 << 20;

/// Where last words go.
static REAL_ERROR: AtomicI32 = AtomicI32::new(2);
/// The two files, and how much of each has been read.
static FILES: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];
static READ: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// What is left to say: the descriptor to say it by, and twice a descriptor to read from with
/// the offset to begin at.
fn left() -> (i32, [(i32, u64); 2]) {
    let file = |n: usize| (FILES[n].load(Relaxed), READ[n].load(Relaxed));
    (REAL_ERROR.load(Relaxed), [file(0), file(1)])
}

/// The two files.
pub(super) struct Prints([std::fs::File; 2]);

impl Prints {
    /// Puts them in the place of standard output and error.
    pub(super) fn take_over() -> io::Result<Prints> {
        let real = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 10)?;
        let out = file()?;
        let error = file()?;
        rustix::stdio::dup2_stdout(&out)?;
        rustix::stdio::dup2_stderr(&error)?;
        REAL_ERROR.store(real.as_raw_fd(), Relaxed);
        FILES[0].store(out.as_raw_fd(), Relaxed);
        FILES[1].store(error.as_raw_fd(), Relaxed);
        // It stays for as long as the process does.
        std::mem::forget(real);
        Ok(Prints([out.into(), error.into()]))
    }

    /// What was printed since the last time.
    pub(super) fn take(&self, rank: u32) -> Vec<RankLine> {
        let _ = io::stdout().flush();
        let mut lines = Vec::new();
        for (n, file) in self.0.iter().enumerate() {
            let Ok(end) = file.metadata().map(|m| m.len()) else { continue };
            let from = READ[n].load(Relaxed);
            if end <= from {
                continue;
            }
            let bytes = (end - from).min(READ_BYTES_MAX);
            let mut text = vec![0; bytes as usize];
            if file.read_exact_at(&mut text, from).is_err() {
                continue;
            }
            let mut dropped = usize::from(end - from > bytes);
            for line in text.strip_suffix(b"\n").unwrap_or(&text).split(|b| *b == b'\n') {
                if lines.len() >= LINES_MAX {
                    dropped += 1;
                    continue;
                }
                let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]).into_owned();
                lines.push(RankLine { rank, line: Line { text, is_error: n == 1 } });
            }
            if dropped > 0 {
                let text = format!("({dropped} more lines were dropped)");
                lines.push(RankLine { rank, line: Line { text, is_error: true } });
            }
            READ[n].store(end, Relaxed);
            if end > EMPTIED_BYTES && file.set_len(0).is_ok() {
                READ[n].store(0, Relaxed);
            }
        }
        lines
    }
}

/// A file in memory that is only ever appended to.
fn file() -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("qjam-prints", MemfdFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(fd.as_fd())?;
    rustix::fs::fcntl_setfl(fd.as_fd(), flags | OFlags::APPEND)?;
    Ok(fd)
}

/// Writes what was printed and not passed on, and then last words. Does nothing that a signal handler may not do.
pub fn say_last(how: &str) {
    use rustix::fd::BorrowedFd;
    let (real, files) = left();
    #[expect(unsafe_code, reason = "descriptors that stay open for as long as the process lives")]
    // SAFETY: all of them are set once to descriptors that are never closed, or are 2, or are not used.
    let fd = |raw: i32| unsafe { BorrowedFd::borrow_raw(raw) };
    let write_all = |mut bytes: &[u8]| {
        while let Ok(n) = rustix::io::write(fd(real), bytes) {
            bytes = &bytes[n.min(bytes.len())..];
            if n == 0 || bytes.is_empty() {
                break;
            }
        }
    };
    for (file, from) in files.into_iter().filter(|(file, _)| *file >= 0) {
        let (mut at, mut buf) = (from, [0; 1024]);
        while let Ok(n) = rustix::io::pread(fd(file), &mut buf, at) {
            if n == 0 || at - from > EMPTIED_BYTES {
                break;
            }
            write_all(&buf[..n]);
            at += n as u64;
        }
    }
    let mut words = [0; 600];
    let bytes = super::words::last_words(how, &mut words);
    write_all(&words[..bytes]);
}
