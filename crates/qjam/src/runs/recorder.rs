//! What a run file records of a run, by whoever turns the master's loop.
//!
//! The loop tells what happens; the [`Recorder`] decides what of it the file has, within [`Quota`]s, and [`Writer`] when it is
//! written: when the tasks of the next round are out, so that no round waits for it, as
//! long as that takes no more than a small share of the time, and in any case when it has waited for
//! a moment. What has been written stays when the process is killed. So a killed run has lost the round it was in and
//! at most the one before, or, when rounds take a millisecond and less, a hundredth of a second.
//!
//! What costs little is always recorded. Hashing long parameters, and encoding, keeping and writing long results, may
//! take a set share of the run's time ([`super::effort`]), and is left out for a while when it has taken more.

use super::effort::Effort;
use super::folder;
use super::names::Names;
use super::observed::OBSERVED_BYTES_MAX;
use super::process::{Build, Program};
use super::record::{
    Began, FileState, Hash, MESSAGE_BYTES_MAX, RESULT_BYTES_MAX, Record, StoredValue, WorkerMemory, shortened,
};
use super::writer::Writer;
use crate::dataset::CutData;
use crate::execution::caught;
use crate::function::{AnyBox, Function};
use bytes::Bytes;
use qjam_core::ids::{HoldId, Version};
use qjam_core::journal::{RoundReport, What};
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Values up to this length cost too little to be counted.
const LIGHT_BYTES: usize = 1 << 10;
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

/// How much of what has a bound was recorded.
#[derive(Default)]
struct Quota {
    results_bytes: u64,
    entries: u64,
    metrics: u64,
    /// Rounds that began, whether recorded or not.
    rounds: u64,
}

impl Quota {
    /// Whether the file has all rounds it may have, so that rounds are only counted.
    fn is_full(&self) -> bool {
        self.rounds > ROUNDS_MAX
    }

    fn take_entry(&mut self) -> bool {
        let is_left = self.entries < ENTRIES_MAX;
        self.entries += u64::from(is_left);
        is_left
    }
}

/// How many rounds ended, and how.
struct Ended {
    finished: u64,
    failed: u64,
    /// When the numbers were last written to a full file.
    counted_at: Instant,
    /// How the last round ended, if badly.
    error: Option<String>,
    /// Why the run failed, if that was not a round; whatever later rounds do.
    fate: Option<String>,
}

/// Writes a run file.
pub(crate) struct Recorder {
    writer: Writer,
    pub(crate) id: String,
    folder: PathBuf,
    names: Names,
    quota: Quota,
    ended: Ended,
    build: Arc<Build>,
    /// Whether the hash of the executable is recorded: it is computed while the run goes on.
    has_executable: bool,
    /// Memory for the shares of a round, used again in the next.
    shares: Vec<(u32, u64)>,
}

impl Recorder {
    /// Makes the file and writes who runs. `cost` is the share of the time that long values may take.
    pub(super) fn create(folder: &Path, program: &Program, began: Began, cost: f64) -> io::Result<Recorder> {
        let (file, id) = folder::create(folder)?;
        let effort = Effort::new(cost);
        let counted_at = effort.started;
        let mut recorder = Recorder {
            writer: Writer::new(file, effort),
            id,
            folder: folder.to_owned(),
            names: Names::default(),
            quota: Quota::default(),
            ended: Ended { finished: 0, failed: 0, counted_at, error: None, fate: None },
            build: program.build().clone(),
            has_executable: false,
            shares: Vec::new(),
        };
        recorder.writer.put(&Record::Began(Box::new(began)));
        if let Some(path) = program.build().path() {
            recorder.writer.put(&Record::Build(path.as_os_str().as_bytes().to_vec()));
        }
        recorder.write();
        match recorder.writer.take_trouble() {
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
        self.writer.effort.started.elapsed().as_micros() as u64
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
        if self.writer.is_over() {
            return Ok(());
        }
        super::saved::write(&self.folder, &self.id, hold.0, chain, version, states)
    }

    /// Names a worker's place.
    pub(crate) fn seat(&mut self, seat: u32, name: &str) {
        self.writer.put(&Record::Seat { seat, name: name.into() });
    }

    /// An entry of the journal. Rounds have records of their own.
    pub(crate) fn happened(&mut self, what: &What) {
        let is_of_round = matches!(
            what,
            What::RoundStarted { .. } | What::RoundOver { .. } | What::Report(_) | What::RoundRecalled { .. }
        );
        if is_of_round || !self.quota.take_entry() {
            return;
        }
        let record = Record::Happened { at_us: self.at_us(), what: what.clone() };
        let before = self.writer.waiting_bytes();
        self.writer.put(&record);
        if self.writer.waiting_bytes() - before > MESSAGE_BYTES_MAX {
            self.writer.cut(before); // last words without end
        }
    }

    /// Somebody was waited for.
    pub(crate) fn waited(&mut self, text: &str) {
        if self.quota.take_entry() {
            let (at_us, text) = (self.at_us(), shortened(text, TEXT_BYTES_MAX));
            self.writer.put(&Record::Waited { at_us, text });
        }
    }

    /// The program reports a number of itself.
    pub(crate) fn metric(&mut self, name: &str, value: f64) {
        if !self.quota.is_full() && self.quota.metrics < METRICS_MAX {
            self.quota.metrics += 1;
            let (at_us, name) = (self.at_us(), shortened(name, METRIC_NAME_BYTES_MAX));
            self.writer.put(&Record::Metric { at_us, rounds: self.ended.finished, name, value });
        }
    }

    /// Notes what workers have in memory.
    pub(crate) fn memory(&mut self, workers: Vec<WorkerMemory>) {
        if !self.quota.is_full() && !workers.is_empty() {
            let at_us = self.at_us();
            self.writer.put(&Record::Memory { at_us, workers });
        }
    }

    /// Notes how long each seat computed for a round that has its value.
    pub(crate) fn shares(&mut self, round: u64, shares: impl Iterator<Item = (u32, u64)>) {
        if self.quota.is_full() {
            return;
        }
        let mut sorted = std::mem::take(&mut self.shares);
        sorted.extend(shares.take(SHARES_MAX));
        sorted.sort_unstable();
        if sorted.is_empty() {
            return;
        }
        let record = Record::Shares { round, shares: sorted };
        self.writer.put(&record);
        if let Record::Shares { mut shares, .. } = record {
            shares.clear();
            self.shares = shares;
        }
    }

    /// The program got a value from elsewhere than its rounds.
    pub(crate) fn observed(&mut self, name: &str, value: &[u8]) {
        if self.quota.is_full() {
            return;
        }
        let total = self.quota.results_bytes + value.len() as u64;
        let is_short = value.len() <= OBSERVED_BYTES_MAX && total <= RESULTS_BYTES_MAX;
        let value = is_short.then(|| value.to_vec());
        self.quota.results_bytes += value.as_ref().map_or(0, |value| value.len() as u64);
        self.writer.put(&Record::Observed { name: shortened(name, TEXT_BYTES_MAX), value });
    }

    /// Runs what may cost much if it may; counts what it did.
    fn spend<R>(&mut self, light: bool, work: impl FnOnce(&mut Self) -> R) -> Option<R> {
        if light {
            return Some(work(self));
        }
        if !self.writer.effort.allows_long() {
            return None;
        }
        let start = Instant::now();
        let result = work(self);
        self.writer.effort.took(start.elapsed(), true);
        Some(result)
    }

    /// The hash of parameters of so many bytes, if it can be afforded.
    pub(crate) fn hash_params(&mut self, bytes: usize, hash: impl FnOnce() -> Hash) -> Option<Hash> {
        if self.quota.is_full() || self.writer.is_over() {
            return None;
        }
        self.spend(bytes <= LIGHT_BYTES, |_| hash())
    }

    /// A round was submitted.
    pub(crate) fn round_began(&mut self, round: u64, function: &Function, data: &CutData) {
        self.quota.rounds += 1;
        if self.quota.is_full() {
            if self.quota.rounds == ROUNDS_MAX + 1 {
                let at_us = self.at_us();
                self.writer.put(&Record::Full { at_us });
            }
            return;
        }
        let function = self.names.number_of(function.name(), &mut self.writer);
        let data = self.names.number_of_data(data, &mut self.writer);
        let at_us = self.at_us();
        self.writer.put(&Record::RoundBegan { round, at_us, function, data });
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
        self.ended.finished += 1;
        self.ended.error = None;
        if self.writer.is_over() || self.quota.is_full() {
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
        let last_bytes = self.names.last_result_bytes(function.name());
        let before = self.writer.waiting_bytes();
        // What is carried over from an earlier run has been paid for there.
        let kept = self.spend(recalled || last_bytes <= LIGHT_BYTES, |this| {
            caught(|| {
                function.encode(value, &mut |encoded| {
                    let bytes = encoded.payload_bytes();
                    this.names.set_result_bytes(function.name(), bytes);
                    let total = this.quota.results_bytes + bytes as u64;
                    if bytes > RESULT_BYTES_MAX || total > RESULTS_BYTES_MAX {
                        this.writer.put(&done(at_us, StoredValue::Hash(super::hash(encoded))));
                        return;
                    }
                    this.quota.results_bytes = total;
                    this.writer.put_with(&done(at_us, StoredValue::Bytes), |out| {
                        out.reserve(bytes);
                        encoded.each_piece(|piece| out.extend_from_slice(piece));
                    });
                });
            })
        });
        if !matches!(kept, Some(Ok(()))) {
            self.writer.cut(before);
            self.writer.put(&done(at_us, StoredValue::Nothing));
        }
        if self.writer.is_full() {
            self.write();
        }
    }

    /// A round has failed; `is_wanted` if somebody cancelled it.
    pub(crate) fn round_failed(&mut self, round: u64, error: &dyn Display, is_wanted: bool) {
        self.ended.failed += 1;
        let error = shortened(&error.to_string(), TEXT_BYTES_MAX);
        if !self.quota.is_full() || self.ended.failed < 1000 {
            let at_us = self.at_us();
            self.writer.put(&Record::RoundFailed { round, at_us, error: error.clone() });
        }
        if !is_wanted {
            self.ended.error = Some(error);
        }
        self.write();
    }

    /// The run fails for another reason than a round.
    pub(crate) fn fail(&mut self, error: &dyn Display) {
        self.ended.fate = Some(shortened(&error.to_string(), TEXT_BYTES_MAX));
    }

    /// In a full file only the count goes on.
    fn count(&mut self) {
        if self.ended.counted_at.elapsed() >= COUNT_EVERY {
            self.ended.counted_at = Instant::now();
            self.put_count();
        }
    }

    fn put_count(&mut self) {
        let (finished, failed) = (self.ended.finished, self.ended.failed);
        let record = Record::Counted { at_us: self.at_us(), finished, failed };
        self.writer.put(&record);
    }

    /// How long what waits may go on waiting.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.writer.due_in()
    }

    /// Writes what has waited long enough.
    pub(crate) fn tend(&mut self) {
        if self.writer.is_due() {
            self.write();
        }
    }

    /// Writes what rounds before the one that is under way have left, unless that has taken too much.
    pub(crate) fn write_in_passing(&mut self) {
        if self.writer.may_write_in_passing() {
            self.write();
        }
    }

    fn write(&mut self) {
        if !self.has_executable
            && !self.writer.is_over()
            && let Some(hash) = self.build.hash()
        {
            self.has_executable = true;
            self.writer.put(&Record::Executable(hash));
        }
        self.writer.write();
    }

    /// Why nothing is recorded any more; told once.
    pub(crate) fn take_trouble(&mut self) -> Option<io::Error> {
        self.writer.take_trouble()
    }
}

impl Recorder {
    #[cfg(test)]
    pub(super) fn file(&self) -> &std::fs::File {
        &self.writer.file
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let panicked = std::thread::panicking().then(super::why_unwinding);
        if self.quota.is_full() {
            self.put_count();
        }
        let error = panicked.or(self.ended.fate.take()).or(self.ended.error.take());
        let end = if error.is_some() { FileState::Failed } else { FileState::Finished };
        let record = Record::Ended { at_us: self.at_us(), error };
        self.writer.put(&record);
        self.write();
        if self.writer.is_over() {
            // The record of the end could not be added, so this byte tells it.
            self.writer.set_state(end);
        }
        self.writer.unlock();
    }
}
