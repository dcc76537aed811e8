//! What goes into the run file and the journal, and what is taken from the file of an earlier run.
//!
//! Recording never decides a value: a round has the same bits with and without it. Long parameters are hashed, and results
//! written, when workers have their tasks, so that nobody waits for it; [`pacing`](super::pacing) says when.

use super::Driver;
use super::holding::HeldRound;
use super::memory::MemoryLooks;
use super::rounds::{Caller, DeferredWork};
use crate::codec::Encoder;
use crate::engine::Order;
use crate::error::Error;
use crate::execution::caught;
use crate::function::AnyBox;
use crate::id_map::IdMap;
use crate::runs::{self, EarlierRun, Hash, Observations, Recalled, Recorder, Saved, WorkerMemory};
use crate::store::AlignedBuf;
use bytes::Bytes;
use qjam_core::ids::{HoldId, RoundId, SeatId, Version};
use qjam_core::journal::{Journal, RoundReport, What};
use qjam_core::time::Time;
use std::fmt::Display;
use std::io;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The run file, the earlier run that this one goes on from, and the journal.
pub(super) struct Recording {
    recorder: Option<Box<Recorder>>,
    /// The earlier run, as long as this one does the same.
    earlier: Option<Box<EarlierRun>>,
    /// What the earlier run, or one that is replayed, observed and this one has not asked for yet.
    observations: Observations,
    journal: Journal,
    pub(super) memory: MemoryLooks,
}

impl Recording {
    pub(super) fn new(
        recorder: Option<Box<Recorder>>,
        earlier: Option<Box<EarlierRun>>,
        observations: Observations,
        entries_max: usize,
    ) -> Recording {
        let (journal, memory) = (Journal::new(entries_max), MemoryLooks::new(Instant::now()));
        Recording { recorder, earlier, observations, journal, memory }
    }

    /// Whether there is a run file.
    pub(super) fn has_recorder(&self) -> bool {
        self.recorder.is_some()
    }

    /// Notes what workers have in memory.
    pub(super) fn record_memory(&mut self, workers: Vec<WorkerMemory>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.memory(workers);
        }
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Whether rounds may be answered from an earlier run.
    pub(super) fn has_earlier(&self) -> bool {
        self.earlier.is_some()
    }

    /// Notes something that happened.
    pub(super) fn note(&mut self, now: Time, what: What) {
        if let What::RoundStarted { round, .. } | What::RoundOver { round, .. } = &what
            && round.is_internal()
        {
            return; // told in its own words when it is over
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.happened(&what);
        }
        self.journal.note(now, what);
    }

    /// Notes that a round begins.
    pub(super) fn begin(&mut self, order: &Order) {
        if let Some(recorder) = self.recorder.as_mut().filter(|_| !order.round().is_internal()) {
            recorder.round_began(order.round().0, &order.function, &order.data);
        }
    }

    /// Notes how a round ended.
    pub(super) fn end(
        &mut self,
        order: &Order,
        report: &RoundReport,
        shares: &IdMap<SeatId, u64>,
        params_hash: Option<Hash>,
        value: &Result<AnyBox, Error>,
    ) {
        let round = order.round();
        let Some(recorder) = self.recorder.as_mut().filter(|_| !round.is_internal()) else { return };
        match value {
            Ok(value) => {
                recorder.round_done(report, params_hash, &order.function, value, false);
                recorder.shares(round.0, shares.iter().map(|(seat, us)| (seat.0, *us)));
            }
            Err(error) => recorder.round_failed(round.0, error, matches!(error, Error::Cancelled)),
        }
    }

    /// The next value of this name that the earlier run observed.
    pub(super) fn recall_observation(&mut self, name: &str) -> Option<Vec<u8>> {
        self.observations.take(name)
    }

    /// Notes a value that the program got from elsewhere than its rounds.
    pub(super) fn observe(&mut self, name: &str, value: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.observed(name, value);
        }
    }

    /// From here on the program goes another way than the earlier run did.
    fn part_from_earlier(&mut self) {
        self.earlier = None;
        self.observations = Observations::default();
    }

    /// Notes a wait that took long.
    pub(super) fn waited(&mut self, text: &str) {
        if let Some(recorder) = &mut self.recorder {
            recorder.waited(text);
        }
    }

    /// Writes what rounds before have left.
    pub(super) fn write_in_passing(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.write_in_passing();
        }
    }

    /// When something should be written.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.recorder.as_ref().and_then(|recorder| recorder.due_in())
    }

    /// Checkpoints of the earlier run.
    pub(super) fn saved_states(&self) -> Vec<Saved> {
        self.earlier.as_ref().map(|earlier| earlier.saved_states()).unwrap_or_default()
    }

    /// Writes a checkpoint beside the run file.
    pub(super) fn save_states(
        &mut self,
        hold: HoldId,
        chain: Hash,
        version: Version,
        states: &[Bytes],
    ) -> io::Result<()> {
        match &mut self.recorder {
            Some(recorder) => recorder.save_states(hold, chain, version, states),
            None => Ok(()),
        }
    }

    /// The hash of parameters that may be long: taken whatever it costs if states depend on it, and otherwise only if the
    /// recorder has time for it.
    fn hash(
        &mut self,
        is_held: bool,
        is_internal: bool,
        bytes: usize,
        hash: impl FnOnce() -> Hash,
    ) -> Option<Hash> {
        match &mut self.recorder {
            Some(_) if is_held => Some(hash()),
            Some(recorder) if !is_internal => recorder.hash_params(bytes, hash),
            _ => None,
        }
    }
}

impl Driver {
    /// Says something of our own to the user.
    pub(super) fn say(&self, text: String) {
        self.show("qjam".into(), text, true);
    }

    /// Notes the name of a seat.
    pub(super) fn record_seat(&mut self, seat: SeatId) {
        if let (Some(recorder), Some(record)) = (&mut self.recording.recorder, self.seats.record(seat)) {
            recorder.seat(seat.0, &record.name);
        }
    }

    /// Takes the hash of a round's parameters and writes what earlier rounds have left. The workers have their tasks by
    /// now, so that nobody waits for it.
    pub(super) fn record_params(&mut self, id: RoundId, params: &Encoder<'_>) {
        if id.is_internal() || self.recording.recorder.is_none() {
            return;
        }
        if let Some(round) = self.rounds.get_mut(id) {
            let is_held = round.held.is_some();
            if round.params_hash.is_none() && (is_held || !round.is_answered) {
                let bytes = params.payload_bytes();
                let hash = self.recording.hash(is_held, false, bytes, || runs::hash(params));
                round.params_hash = hash.map(|hash| self.holds.hash_of(round.held.as_mut(), hash));
            }
        }
        self.look_at_memory(true);
        self.recording.write_in_passing();
    }

    /// Logs and hashes parameters in shared memory, if that was deferred.
    pub(super) fn log_params(&mut self, id: RoundId) {
        let Some(round) = self.rounds.get_mut(id).filter(|r| r.deferred == DeferredWork::All) else { return };
        round.deferred = DeferredWork::Write;
        let Some(placed) = round.order.params.placed() else { return };
        let params = &self.data.arenas.memory(placed.arena)[..placed.bytes as usize];
        if let Some(held) = &mut round.held {
            held.keep_params(|| {
                let mut copy = AlignedBuf::zeroed(params.len());
                copy.as_mut_slice().copy_from_slice(params);
                copy.into_bytes()
            });
        }
        let is_held = round.held.is_some();
        let hash = self.recording.hash(is_held, id.is_internal(), params.len(), || runs::hash_bytes(params));
        let hash = hash.map(|hash| self.holds.hash_of(round.held.as_mut(), hash));
        round.params_hash = round.params_hash.or(hash);
    }

    /// Answers a round from the earlier run, if there is one and it knows the round. Otherwise gives the hash of the
    /// parameters, if it was taken.
    pub(super) fn recall(
        &mut self,
        order: &Order,
        caller: &Caller,
        held: &mut Option<HeldRound>,
        params: &Encoder<'_>,
    ) -> Result<(), Option<Hash>> {
        let (round, function) = (order.round(), &order.function);
        let Some(earlier) = self.recording.earlier.as_ref().filter(|_| !round.is_internal()) else {
            return Err(None);
        };
        let hash = self.holds.hash_of(held.as_mut(), runs::hash(params));
        let id = earlier.id.clone();
        let payload = match earlier.recall(round.0, function.name(), &order.data.id, &hash) {
            Recalled::Value(payload) => payload,
            Recalled::Compute => return Err(Some(hash)),
            Recalled::End => {
                self.recording.earlier = None;
                return Err(Some(hash));
            }
            Recalled::Differs(why) => {
                self.recording.part_from_earlier();
                self.say(format!("{round} is not that of run {id}: {why}; it and all after it are computed"));
                return Err(Some(hash));
            }
        };
        let decoded = caught(|| function.decode(payload)).map(Result::ok).unwrap_or_default();
        let Some(value) = decoded else { return Err(Some(hash)) };
        let total_us = caller.submitted.elapsed().as_micros() as u64;
        let report = RoundReport { round: round.0, total_us, master_us: total_us, ..Default::default() };
        if let Some(recorder) = &mut self.recording.recorder {
            recorder.round_done(&report, Some(hash), function, &value, true);
        }
        *caller.answer.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        let (value, sent) = function.unpost(value);
        caller.answer.give(Ok(value));
        if let Some(held) = held.take() {
            self.holds.end(held, Some(sent), None);
        }
        self.rounds.answered += 1;
        self.rounds.last_report = Some(report);
        self.note(What::RoundRecalled { round });
        Ok(())
    }

    /// The next value of this name that the earlier run observed.
    pub(crate) fn recall_observation(&mut self, name: &str) -> Option<Vec<u8>> {
        self.recording.recall_observation(name)
    }

    /// Notes a value that the program got from elsewhere than its rounds.
    pub(crate) fn observe(&mut self, name: &str, value: &[u8]) {
        self.recording.observe(name, value);
    }

    /// Notes a number that the program reports of itself.
    pub(crate) fn record_metric(&mut self, name: &str, value: f64) {
        if let Some(recorder) = &mut self.recording.recorder {
            recorder.metric(name, value);
        }
    }

    /// The run file, if there is one.
    pub(crate) fn run_file(&self) -> Option<std::path::PathBuf> {
        self.recording.recorder.as_ref().map(|recorder| recorder.path())
    }

    /// Notes why the run failed, if that was not a round.
    pub(crate) fn record_failure(&mut self, error: &dyn Display) {
        if let Some(recorder) = &mut self.recording.recorder {
            recorder.fail(error);
        }
    }

    /// Writes what has waited long enough, and says when that is no longer possible.
    pub(super) fn tend_recorder(&mut self) {
        let Some(recorder) = &mut self.recording.recorder else { return };
        recorder.tend();
        if let Some(e) = recorder.take_trouble() {
            let id = recorder.id.clone();
            self.say(format!("the run goes on, but its file {id} does not: {e}"));
        }
    }
}
