//! Writing a run file, by whoever turns the master's loop.
//!
//! Records gather in memory. They are written when the tasks of the next round are out, so that nobody waits for it, as
//! long as that takes no more than a small share of the time ([`WRITE_COST`]), and in any case when they have waited for
//! a moment. What has been written stays when the process is killed. So a killed run has lost the round it was in and
//! at most the one before, or, when rounds take a millisecond and less, a hundredth of a second.
//!
//! What costs little is always recorded. Hashing long parameters, and encoding, keeping and writing long results, may
//! take a set share of the run's time ([`COST`]), and is left out for a while when it has taken more.

use super::folder;
use super::observed::OBSERVED_BYTES_MAX;
use super::process::{Build, Program};
use super::record::{
    self, Began, FileState, Hash, MESSAGE_BYTES_MAX, RESULT_BYTES_MAX, Record, STATE_AT, StoredValue,
    shortened,
};
use super::story;
use crate::dataset::CutData;
use crate::execution::caught;
use crate::function::{AnyBox, Function};
use bytes::Bytes;
use qjam_core::ids::{DataSetId, HoldId, Version};
use qjam_core::journal::{RoundReport, What};
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The share of the time that hashing and keeping long values may take.
pub(super) const COST: f64 = 0.02;
/// What it may take besides: a run that is over at once is recorded whole, and one of a quarter of a second not slowed down.
const CREDIT: Duration = Duration::from_millis(10);
/// Values up to this length cost too little to be counted.
const LIGHT_BYTES: usize = 1 << 10;
/// A write of more than this is one of long values.
const LIGHT_WRITE_BYTES: usize = 16 << 10;
/// The share of the time that short writes may take. Beyond it there is one in every so often.
const WRITE_COST: f64 = 0.0025;
const WRITE_EVERY: Duration = Duration::from_millis(10);
/// Nothing waits longer than this to be written.
const WRITE_WITHIN: Duration = Duration::from_millis(50);
/// A buffer that had to hold a very long result is not kept.
const BUFFER_BYTES: usize = 4 << 20;
/// So much of all results is kept, so many rounds are recorded, and so many entries of the journal.
const RESULTS_BYTES_MAX: u64 = 256 << 20;
const ROUNDS_MAX: u64 = 1_000_000;
const ENTRIES_MAX: u64 = 100_000;
/// So many metrics are recorded, with names no longer than this.
const METRICS_MAX: u64 = 2_000_000;
const METRIC_NAME_BYTES_MAX: usize = 64;
/// The computing time of so many seats is recorded for each round.
const SHARES_MAX: usize = 4096;
/// In a full file the count of rounds is written so often.
const COUNT_EVERY: Duration = Duration::from_secs(10);
const TEXT_BYTES_MAX: usize = 16 << 10;

/// What is known of a function. Programs have few, so they are found by looking at each.
struct Known {
    name: &'static str,
    /// Length of its last result.
    result_bytes: usize,
}

/// Writes a run file.
pub(crate) struct Recorder {
    file: File,
    pub(crate) id: String,
    folder: PathBuf,
    started: Instant,
    buffer: Vec<u8>,
    /// Where records begin in it: their checksums are taken when they are written, when nobody waits for it.
    unsealed: Vec<usize>,
    /// Good length of the file.
    written: u64,
    /// Since when something waits to be written.
    waiting_since: Option<Instant>,
    last_write: Instant,
    /// What short writes have taken.
    writing: Duration,
    functions: Vec<Known>,
    data: HashMap<DataSetId, u32>,
    /// The one that was used last: mostly it is used again.
    last_data: Option<(DataSetId, u32)>,
    results_bytes: u64,
    entries: u64,
    metrics: u64,
    rounds: u64,
    finished: u64,
    failed: u64,
    counted_at: Instant,
    /// The share of the time that long values may cost, and what they have.
    cost: f64,
    spent: Duration,
    build: Arc<Build>,
    has_executable: bool,
    /// How the last round ended, if badly.
    error: Option<String>,
    /// Why the run failed, if that was not a round; whatever later rounds do.
    fate: Option<String>,
    /// Why writing failed; told once.
    trouble: Option<io::Error>,
    is_over: bool,
}

impl Recorder {
    /// Makes the file and writes who runs.
    pub(super) fn create(folder: &Path, program: &Program, began: Began, cost: f64) -> io::Result<Recorder> {
        let (file, id) = folder::create(folder)?;
        let now = Instant::now();
        let mut recorder = Recorder {
            file,
            id,
            folder: folder.to_owned(),
            started: now,
            buffer: record::head().to_vec(),
            unsealed: Vec::new(),
            written: 0,
            waiting_since: Some(now),
            last_write: now,
            writing: Duration::ZERO,
            functions: Vec::new(),
            data: HashMap::new(),
            last_data: None,
            results_bytes: 0,
            entries: 0,
            metrics: 0,
            rounds: 0,
            finished: 0,
            failed: 0,
            counted_at: now,
            cost,
            spent: Duration::ZERO,
            build: program.build().clone(),
            has_executable: false,
            error: None,
            fate: None,
            trouble: None,
            is_over: false,
        };
        recorder.put(&Record::Began(Box::new(began)));
        if let Some(path) = program.build().path() {
            recorder.put(&Record::Build(path.as_os_str().as_bytes().to_vec()));
        }
        recorder.write();
        match recorder.trouble.take() {
            None => Ok(recorder),
            Some(e) => {
                // An empty file tells nobody anything.
                let _ = std::fs::remove_file(folder::path_of(folder, &recorder.id));
                Err(e)
            }
        }
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        folder::path_of(&self.folder, &self.id)
    }

    fn at_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn put(&mut self, record: &Record) {
        self.put_with(record, |_| {});
    }

    fn put_with(&mut self, record: &Record, tail: impl FnOnce(&mut Vec<u8>)) {
        if !self.is_over {
            self.waiting_since.get_or_insert_with(Instant::now);
            self.unsealed.push(self.buffer.len());
            record.append(&mut self.buffer, tail);
        }
    }

    /// Takes back what was put from there on.
    fn cut(&mut self, length: usize) {
        self.buffer.truncate(length);
        self.unsealed.retain(|start| *start < length);
    }

    /// Keeps the states of a hold beside the file, for a run that goes on from this one.
    pub(crate) fn save_states(
        &mut self,
        hold: HoldId,
        chain: Hash,
        version: Version,
        states: &[Bytes],
    ) -> io::Result<()> {
        // The rounds that led to them first: without those they would be of no use.
        self.write();
        if self.is_over {
            return Ok(());
        }
        super::saved::write(&self.folder, &self.id, hold.0, chain, version, states)
    }

    /// Names a worker's place.
    pub(crate) fn seat(&mut self, seat: u32, name: &str) {
        self.put(&Record::Seat { seat, name: name.into() });
    }

    /// An entry of the journal. Rounds have records of their own.
    pub(crate) fn happened(&mut self, what: &What) {
        let is_of_round = matches!(
            what,
            What::RoundStarted { .. } | What::RoundOver { .. } | What::Report(_) | What::RoundRecalled { .. }
        );
        if is_of_round || self.entries >= ENTRIES_MAX {
            return;
        }
        self.entries += 1;
        let record = Record::Happened { at_us: self.at_us(), what: what.clone() };
        let before = self.buffer.len();
        self.put(&record);
        if self.buffer.len() - before > MESSAGE_BYTES_MAX {
            self.cut(before); // last words without end
        }
    }

    /// Somebody was waited for.
    pub(crate) fn waited(&mut self, text: &str) {
        if self.entries < ENTRIES_MAX {
            self.entries += 1;
            let (at_us, text) = (self.at_us(), shortened(text, TEXT_BYTES_MAX));
            self.put(&Record::Waited { at_us, text });
        }
    }

    /// The program reports a number of itself.
    pub(crate) fn metric(&mut self, name: &str, value: f64) {
        if self.rounds <= ROUNDS_MAX && self.metrics < METRICS_MAX {
            self.metrics += 1;
            let (at_us, name) = (self.at_us(), shortened(name, METRIC_NAME_BYTES_MAX));
            self.put(&Record::Metric { at_us, rounds: self.finished, name, value });
        }
    }

    /// Notes how long each seat computed for a round that has its value.
    pub(crate) fn shares(&mut self, round: u64, shares: impl Iterator<Item = (u32, u64)>) {
        if self.rounds <= ROUNDS_MAX {
            let mut shares: Vec<(u32, u64)> = shares.take(SHARES_MAX).collect();
            shares.sort_unstable();
            if !shares.is_empty() {
                self.put(&Record::Shares { round, shares });
            }
        }
    }

    /// The program got a value from elsewhere than its rounds.
    pub(crate) fn observed(&mut self, name: &str, value: &[u8]) {
        if self.rounds > ROUNDS_MAX {
            return;
        }
        let total = self.results_bytes + value.len() as u64;
        let is_short = value.len() <= OBSERVED_BYTES_MAX && total <= RESULTS_BYTES_MAX;
        let value = is_short.then(|| value.to_vec());
        self.results_bytes += value.as_ref().map_or(0, |value| value.len() as u64);
        self.put(&Record::Observed { name: shortened(name, TEXT_BYTES_MAX), value });
    }

    /// Whether a long value may be looked at now.
    fn can_afford(&self) -> bool {
        self.spent.as_secs_f64() <= CREDIT.as_secs_f64() + self.started.elapsed().as_secs_f64() * self.cost
    }

    /// Runs what may cost much if it may; counts what it did.
    fn spend<R>(&mut self, light: bool, work: impl FnOnce(&mut Self) -> R) -> Option<R> {
        if light {
            return Some(work(self));
        }
        if !self.can_afford() {
            return None;
        }
        let start = Instant::now();
        let result = work(self);
        self.spent += start.elapsed();
        Some(result)
    }

    /// The hash of parameters of so many bytes, if it can be afforded.
    pub(crate) fn hash_params(&mut self, bytes: usize, hash: impl FnOnce() -> Hash) -> Option<Hash> {
        if self.rounds > ROUNDS_MAX || self.is_over {
            return None;
        }
        self.spend(bytes <= LIGHT_BYTES, |_| hash())
    }

    /// A round was submitted.
    pub(crate) fn round_began(&mut self, round: u64, function: &Function, data: &CutData) {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            if self.rounds == ROUNDS_MAX + 1 {
                let at_us = self.at_us();
                self.put(&Record::Full { at_us });
            }
            return;
        }
        let function = self.number_of(function.name());
        let data = match self.last_data {
            Some((id, number)) if id == data.id => number,
            _ => self.number_of_data(data),
        };
        let at_us = self.at_us();
        self.put(&Record::RoundBegan { round, at_us, function, data });
    }

    fn number_of_data(&mut self, data: &CutData) -> u32 {
        let next = self.data.len() as u32;
        let number = *self.data.entry(data.id).or_insert(next);
        if number == next {
            let bytes = data.chunks.iter().map(|c| c.header.bytes).sum();
            self.put(&Record::Data { number, id: data.id.0, chunks: data.chunks.len() as u32, bytes });
            self.put(&story::chunk_names(number, data));
        }
        self.last_data = Some((data.id, number));
        number
    }

    fn place_of(&self, name: &'static str) -> Option<usize> {
        let is_same = |known: &Known| std::ptr::eq(known.name, name) || known.name == name;
        self.functions.iter().position(is_same)
    }

    fn number_of(&mut self, name: &'static str) -> u32 {
        if let Some(number) = self.place_of(name) {
            return number as u32;
        }
        let number = self.functions.len() as u32;
        self.functions.push(Known { name, result_bytes: 0 });
        self.put(&Record::Function { number, name: shortened(name, TEXT_BYTES_MAX) });
        number
    }

    /// A round has its value.
    pub(crate) fn round_done(
        &mut self,
        report: &RoundReport,
        params: Option<Hash>,
        function: &Function,
        value: &AnyBox,
        recalled: bool,
    ) {
        self.finished += 1;
        self.error = None;
        if self.is_over || self.rounds > ROUNDS_MAX {
            return self.count();
        }
        let done = |at_us, kept| Record::RoundDone {
            round: report.round,
            at_us,
            params,
            report: *report,
            kept,
            recalled,
        };
        let at_us = self.at_us();
        let place = self.place_of(function.name());
        let last_bytes = place.map_or(0, |n| self.functions[n].result_bytes);
        let before = self.buffer.len();
        // What is carried over from an earlier run has been paid for there.
        let kept = self.spend(recalled || last_bytes <= LIGHT_BYTES, |this| {
            caught(|| {
                function.encode(value, &mut |encoded| {
                    let bytes = encoded.payload_bytes();
                    if let Some(n) = place {
                        this.functions[n].result_bytes = bytes;
                    }
                    let total = this.results_bytes + bytes as u64;
                    if bytes > RESULT_BYTES_MAX || total > RESULTS_BYTES_MAX {
                        this.put(&done(at_us, StoredValue::Hash(super::hash(encoded))));
                        return;
                    }
                    this.results_bytes = total;
                    this.put_with(&done(at_us, StoredValue::Bytes), |out| {
                        out.reserve(bytes);
                        encoded.each_piece(|piece| out.extend_from_slice(piece));
                    });
                });
            })
        });
        if !matches!(kept, Some(Ok(()))) {
            self.cut(before);
            self.put(&done(at_us, StoredValue::Nothing));
        }
        if self.buffer.len() > BUFFER_BYTES {
            self.write();
        }
    }

    /// A round has failed; `is_wanted` if somebody cancelled it.
    pub(crate) fn round_failed(&mut self, round: u64, error: &dyn Display, is_wanted: bool) {
        self.failed += 1;
        let error = shortened(&error.to_string(), TEXT_BYTES_MAX);
        if self.rounds <= ROUNDS_MAX || self.failed < 1000 {
            let at_us = self.at_us();
            self.put(&Record::RoundFailed { round, at_us, error: error.clone() });
        }
        if !is_wanted {
            self.error = Some(error);
        }
        self.write();
    }

    /// The run fails for another reason than a round.
    pub(crate) fn fail(&mut self, error: &dyn Display) {
        self.fate = Some(shortened(&error.to_string(), TEXT_BYTES_MAX));
    }

    /// In a full file only the count goes on.
    fn count(&mut self) {
        if self.counted_at.elapsed() >= COUNT_EVERY {
            self.counted_at = Instant::now();
            self.put_count();
        }
    }

    fn put_count(&mut self) {
        let record = Record::Counted { at_us: self.at_us(), finished: self.finished, failed: self.failed };
        self.put(&record);
    }

    /// How long what waits may go on waiting.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.waiting_since.map(|since| WRITE_WITHIN.saturating_sub(since.elapsed()))
    }

    /// Writes what has waited long enough.
    pub(crate) fn tend(&mut self) {
        if self.waiting_since.is_some_and(|since| since.elapsed() >= WRITE_WITHIN) {
            self.write();
        }
    }

    /// Writes what rounds before the one that is under way have left, unless that has taken too much.
    pub(crate) fn write_in_passing(&mut self) {
        let may_take = self.started.elapsed().mul_f64(WRITE_COST);
        let is_due = self.writing <= may_take || self.last_write.elapsed() >= WRITE_EVERY;
        if is_due || self.buffer.len() > LIGHT_WRITE_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        if !self.has_executable
            && !self.is_over
            && let Some(hash) = self.build.hash()
        {
            self.has_executable = true;
            self.put(&Record::Executable(hash));
        }
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
        let took = if self.buffer.len() > LIGHT_WRITE_BYTES { &mut self.spent } else { &mut self.writing };
        *took += self.last_write - start;
        match written {
            Ok(()) => self.written += self.buffer.len() as u64,
            Err(e) => {
                // What was written of it is no whole record; what was there before stays good.
                let _ = self.file.set_len(self.written);
                self.set_state(FileState::CutShort);
                self.trouble = Some(e);
                self.is_over = true;
            }
        }
        if self.buffer.capacity() > BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
    }

    /// Changes the one byte that is written in place, which a full disk takes, too.
    fn set_state(&self, state: FileState) {
        let _ = self.file.write_all_at(&[state as u8], STATE_AT);
    }

    /// Why nothing is recorded any more; told once.
    pub(crate) fn take_trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }
}

impl Recorder {
    /// Ends the lock, for all who have the file open. A process that is being started has, until it becomes another program, and
    /// closing the file here would leave the lock with it.
    fn unlock(&self) {
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let panicked = std::thread::panicking().then(super::why_unwinding);
        if self.rounds > ROUNDS_MAX {
            self.put_count();
        }
        let error = panicked.or(self.fate.take()).or(self.error.take());
        let end = if error.is_some() { FileState::Failed } else { FileState::Finished };
        let record = Record::Ended { at_us: self.at_us(), error };
        self.put(&record);
        self.write();
        if self.is_over {
            // The record of the end could not be added, so this byte tells it.
            self.set_state(end);
        }
        self.unlock();
    }
}
