//! What goes into the run file, and what is taken from that of an earlier run.

use super::{Driver, HeldRound};
use crate::codec::Encoder;
use crate::engine::SeatKind;
use crate::master::options::LogLine;
use crate::master::round::{Errands, Running, Wanted};
use crate::runs::{self, Hash, Recall};
use crate::store::AlignedBuf;
use crate::worker::caught;
use qjam_core::ids::RoundId;
use qjam_core::journal::{RoundReport, What};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// The loop stays awake for so long after the first worker of a round is done.
const AWAKE: Duration = Duration::from_micros(500);

/// Something to do when there is nothing else to do.
#[derive(Clone, Copy)]
pub(super) enum Errand {
    /// Logging and hashing the parameters of a round.
    Params(RoundId),
    /// Writing what rounds before it have left.
    Write(RoundId),
}

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
        if round.is_internal() {
            return;
        }
        // A state is known by the rounds that led to it, so for those it is taken whatever it costs.
        if self.recorder.is_some()
            && let Some(running) = self.rounds.get_mut(&round)
            && let Some(mut held) = running.held.take()
        {
            let hash =
                running.params_hash.unwrap_or_else(|| self.hash_of(Some(&mut held), runs::hash(params)));
            if let Some(running) = self.rounds.get_mut(&round) {
                (running.params_hash, running.held) = (Some(hash), Some(held));
            }
        }
        let Some(recorder) = &mut self.recorder else { return };
        if let Some(running) = self.rounds.get_mut(&round)
            && running.params_hash.is_none()
            && !running.is_answered
        {
            running.params_hash = recorder.hash_params(params.payload_bytes(), || runs::hash(params));
        }
        recorder.write_in_passing();
    }

    /// Whether there are as many workers as cores. Whatever the loop does while they all compute keeps one of them from its
    /// core, and the round waits for that one; so what can wait should, until one of them is done.
    pub(super) fn is_crowded(&self) -> bool {
        let here = || self.seats.iter().filter(|here| !here.removed);
        here().all(|here| here.seat.kind == SeatKind::Proc)
            && here().map(|here| here.seat.slots as usize).sum::<usize>() >= self.cores
    }

    /// Does what could be put off.
    pub(super) fn run_errands_at_once(&mut self, round: RoundId) {
        self.run_errands_of(round);
        self.run_errand(Errand::Write(round));
    }

    /// What was put off and should be done now: a worker is done, and others are not.
    pub(super) fn next_errand(&self) -> Option<Errand> {
        let is_time = |r: &&Running| !r.is_answered && !r.compute_us.is_empty();
        let mut rounds = self.rounds.iter().filter(|(_, r)| r.errands != Errands::None);
        let (round, running) = rounds.find(|(_, running)| is_time(running))?;
        match running.errands {
            Errands::None => None,
            Errands::All => Some(Errand::Params(*round)),
            Errands::Write => Some(Errand::Write(*round)),
        }
    }

    /// Whether the loop should not sleep: a worker has just left its core, and the others are likely to be done soon. To
    /// be woken from an idle core takes longer than to read what they have left.
    pub(super) fn stays_awake(&self) -> bool {
        let is_soon = |at: Instant| at.elapsed() < AWAKE;
        self.rounds.values().any(|r| !r.is_answered && r.first_done.is_some_and(is_soon))
    }

    /// Does one of the things that were put off.
    pub(super) fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::Params(round) => self.run_errands_of(round),
            Errand::Write(round) => {
                if let Some(running) = self.rounds.get_mut(&round) {
                    running.errands = Errands::None;
                }
                if let Some(recorder) = &mut self.recorder {
                    recorder.write_in_passing();
                }
            }
        }
    }

    /// Logs and hashes parameters of which that was put off.
    pub(super) fn run_errands_of(&mut self, round: RoundId) {
        let Some(running) = self.rounds.get_mut(&round).filter(|r| r.errands == Errands::All) else { return };
        running.errands = Errands::Write;
        let Some(placed) = &running.placed else { return };
        let params = &self.arenas.memory(placed.arena)[..placed.bytes as usize];
        let mut held = running.held.take();
        if let Some(held) = &mut held {
            held.keep_params(|| {
                let mut copy = AlignedBuf::zeroed(params.len());
                copy.as_mut_slice().copy_from_slice(params);
                copy.into_bytes()
            });
        }
        let hash = match &mut self.recorder {
            Some(_) if held.is_some() => Some(runs::hash_bytes(params)),
            Some(recorder) if !round.is_internal() => {
                recorder.hash_params(params.len(), || runs::hash_bytes(params))
            }
            _ => None,
        };
        let hash = hash.map(|hash| self.hash_of(held.as_mut(), hash));
        if let Some(running) = self.rounds.get_mut(&round) {
            running.params_hash = running.params_hash.or(hash);
            running.held = held;
        }
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
        let hash = self.hash_of(held.as_mut(), runs::hash(params));
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
