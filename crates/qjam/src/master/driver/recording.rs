//! What goes into the run file, and what is taken from that of an earlier run.

use super::{Driver, HeldRound};
use crate::codec::Encoder;
use crate::master::options::LogLine;
use crate::master::round::Wanted;
use crate::runs::{Hash, Recall};
use crate::worker::caught;
use qjam_core::ids::RoundId;
use qjam_core::journal::{RoundReport, What};
use std::sync::PoisonError;

impl Driver {
    /// Says something of our own to the user.
    pub(super) fn say(&self, text: String) {
        self.show(&LogLine { worker: "qjam".into(), text, is_error: true });
    }

    /// Notes that a round begins.
    pub(super) fn record_begin(&mut self, round: RoundId, wanted: &Wanted) {
        if let Some(recorder) = &mut self.recorder
            && !round.is_internal()
        {
            recorder.round_began(round.0, &wanted.function, &wanted.data);
        }
    }

    /// Takes the hash of a round's parameters and writes what earlier rounds have left. The workers have their tasks by
    /// now, so that nobody waits for it.
    pub(super) fn record_params(&mut self, round: RoundId, params: &Encoder<'_>) {
        if self.recorder.is_none() || round.is_internal() {
            return;
        }
        // A state is known by the rounds that led to it, so for those it is taken whatever it costs.
        if let Some(running) = self.rounds.get_mut(&round)
            && let Some(mut held) = running.held.take()
        {
            let hash = running.params_hash.unwrap_or_else(|| self.hash_of(Some(&mut held), params));
            if let Some(running) = self.rounds.get_mut(&round) {
                (running.params_hash, running.held) = (Some(hash), Some(held));
            }
        }
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(running) = self.rounds.get_mut(&round)
            && running.params_hash.is_none()
            && !running.is_answered
        {
            running.params_hash = recorder.hash_params(params);
        }
        recorder.write_in_passing();
    }

    /// Answers a round from memory, if there is one and it knows the round. Gives the hash of the parameters if the
    /// round is to be computed.
    pub(super) fn answer_from_memory(
        &mut self,
        round: RoundId,
        wanted: &Wanted,
        held: &mut Option<HeldRound>,
        params: &Encoder<'_>,
    ) -> Result<(), Option<Hash>> {
        if self.memory.is_none() || round.is_internal() {
            return Err(None);
        }
        let hash = self.hash_of(held.as_mut(), params);
        let Some(memory) = &self.memory else { return Err(None) };
        let id = memory.id.clone();
        let payload = match memory.recall(round.0, wanted.function.name(), &wanted.data.id, &hash) {
            Recall::Value(payload) => payload,
            Recall::Compute => return Err(Some(hash)),
            Recall::End => {
                self.memory = None;
                return Err(Some(hash));
            }
            Recall::Differs(why) => {
                self.memory = None;
                self.say(format!("{round} is not that of run {id}: {why}; it and all after it are computed"));
                return Err(Some(hash));
            }
        };
        let decoded = caught(|| wanted.function.decode(payload)).map(Result::ok).unwrap_or_default();
        let Some(value) = decoded else { return Err(Some(hash)) };
        let total_us = wanted.submitted.elapsed().as_micros() as u64;
        let report = RoundReport { round: round.0, total_us, master_us: total_us, ..Default::default() };
        if let Some(recorder) = &mut self.recorder {
            recorder.round_done(&report, Some(hash), &wanted.function, &value, true);
        }
        *wanted.answer.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        wanted.answer.give(Ok(value));
        if let Some(held) = held.take() {
            self.end_held(held, true, None);
        }
        self.answered += 1;
        self.last_report = Some(report);
        self.note(What::RoundRecalled { round });
        Ok(())
    }

    /// The master could not be made.
    pub(crate) fn record_failure(&mut self, error: &crate::Error) {
        if let Some(recorder) = &mut self.recorder {
            recorder.fail(error);
        }
    }

    /// Writes what has waited long enough, and says when that is no longer possible.
    pub(super) fn tend_recorder(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        recorder.tend();
        if let Some(e) = recorder.take_trouble() {
            let id = recorder.id.clone();
            self.say(format!("the run goes on, but its file {id} does not: {e}"));
        }
    }
}
