//! The bytes of a run file: gathers records in memory and writes them.
//!
//! Records come from the [`Recorder`](super::Recorder), which decides what is recorded; here is decided when it is written. A
//! record's checksum is taken when it is written, when no round waits for it. A write that fails, as on a full disk, ends the recording: what was
//! written of it is taken back, so the file stays good up to there, and one byte in its head says that it was cut short.

use super::effort::Effort;
use super::record::{self, FileState, Record, STATE_AT};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// A write of more than this is one of long values.
const LIGHT_WRITE_BYTES: usize = 16 << 10;
/// Short writes beyond their share of the time are made once in so long.
const WRITE_EVERY: Duration = Duration::from_millis(10);
/// Nothing waits longer than this to be written.
const WRITE_WITHIN: Duration = Duration::from_millis(50);
/// A buffer that had to hold a very long result is not kept.
const BUFFER_BYTES: usize = 4 << 20;

/// Appends records to a run file.
pub(super) struct Writer {
    pub(super) file: File,
    buffer: Vec<u8>,
    /// Where records begin in the buffer: those whose checksums are to be taken.
    unsealed: Vec<usize>,
    /// Good length of the file.
    written: u64,
    /// Since when something waits to be written.
    waiting_since: Option<Instant>,
    last_write: Instant,
    pub(super) effort: Effort,
    /// Why writing failed; told once.
    trouble: Option<io::Error>,
    is_over: bool,
}

impl Writer {
    pub(super) fn new(file: File, effort: Effort) -> Writer {
        let now = Instant::now();
        Writer {
            file,
            buffer: record::head().to_vec(),
            unsealed: Vec::new(),
            written: 0,
            waiting_since: Some(now),
            last_write: now,
            effort,
            trouble: None,
            is_over: false,
        }
    }

    /// Whether a write has failed, so that nothing is recorded any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Why nothing is recorded any more; told once.
    pub(super) fn take_trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    pub(super) fn put(&mut self, record: &Record) {
        self.put_with(record, |_| {});
    }

    /// Puts a record that ends with bytes of its own.
    pub(super) fn put_with(&mut self, record: &Record, tail: impl FnOnce(&mut Vec<u8>)) {
        if !self.is_over {
            self.waiting_since.get_or_insert_with(Instant::now);
            self.unsealed.push(self.buffer.len());
            record.append(&mut self.buffer, tail);
        }
    }

    /// How many bytes wait to be written.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Takes back all records beyond so many waiting bytes.
    pub(super) fn cut(&mut self, length: usize) {
        self.buffer.truncate(length);
        self.unsealed.retain(|start| *start < length);
    }

    /// How long what waits may go on waiting.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.waiting_since.map(|since| WRITE_WITHIN.saturating_sub(since.elapsed()))
    }

    /// Whether something has waited long enough.
    pub(super) fn is_due(&self) -> bool {
        self.waiting_since.is_some_and(|since| since.elapsed() >= WRITE_WITHIN)
    }

    /// Whether a write between two rounds costs little enough.
    pub(super) fn may_write_in_passing(&self) -> bool {
        self.effort.allows_short()
            || self.last_write.elapsed() >= WRITE_EVERY
            || self.buffer.len() > LIGHT_WRITE_BYTES
    }

    /// Whether more waits than a buffer should hold.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() > BUFFER_BYTES
    }

    /// Writes all that waits.
    pub(super) fn write(&mut self) {
        self.waiting_since = None;
        if self.is_over || self.buffer.is_empty() {
            return;
        }
        let start = Instant::now();
        for start in self.unsealed.drain(..) {
            record::seal(&mut self.buffer[start..]);
        }
        let written = self.file.write_all(&self.buffer);
        self.last_write = Instant::now();
        self.effort.took(self.last_write - start, self.buffer.len() > LIGHT_WRITE_BYTES);
        match written {
            Ok(()) => self.written += self.buffer.len() as u64,
            Err(e) => self.end(e),
        }
        if self.buffer.capacity() > BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
    }

    /// What was written last is no whole record; what was there before stays good.
    fn end(&mut self, trouble: io::Error) {
        let _ = self.file.set_len(self.written);
        self.set_state(FileState::CutShort);
        self.trouble = Some(trouble);
        self.is_over = true;
    }

    /// Changes the one byte that is written in place, which a full disk takes, too.
    pub(super) fn set_state(&self, state: FileState) {
        let _ = self.file.write_all_at(&[state as u8], STATE_AT);
    }

    /// Ends the lock, for all who have the file open. A process that is being started has, until it becomes another program, and
    /// closing the file here would leave the lock with it.
    pub(super) fn unlock(&self) {
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}
