//! When the loop and its workers stay awake, when they sleep, and what the loop puts off.
//!
//! Waking a process from an idle core takes as long as a short round. Where there are more cores than slots, and short rounds
//! follow each other, loop and workers look for messages without sleeping for as long as they had to wait lately, and never for more
//! than a millisecond ([`Rhythm`]). Where processes outnumber cores, whoever looks keeps another from its core: there they sleep.
//!
//! Whatever the loop does while all cores compute keeps one worker from its core, and the round waits for that worker. So
//! with as many processes as cores, logging and hashing of long parameters wait until a worker is done
//! ([`DeferredWork`]). And then the loop does not sleep for a moment: the other workers are likely to be done soon, and to
//! be woken from an idle core takes longer than to read what they have left.

use super::Driver;
use super::rounds::{DeferredWork, Round};
use crate::codec::Encoder;
use crate::engine::params::INLINE_BYTES_MAX;
use crate::store::Page;
use qjam_core::ids::RoundId;
use qjam_core::journal::RoundReport;
use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The loop stays awake for so long after the first worker of a crowded round is done.
const AWAKE: Duration = Duration::from_micros(500);
/// How many threads can run at once here.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// So many rounds are looked back at.
const ROUNDS: usize = 4;

/// How far rounds were apart lately, and what they took.
#[derive(Default)]
pub(super) struct Rhythm {
    ended: Option<Instant>,
    /// Time between the end of a round and the beginning of the next, of the last rounds in turn.
    pauses: [Duration; ROUNDS],
    /// What they took, beside computing and in all.
    waits: [Duration; ROUNDS],
    totals: [Duration; ROUNDS],
    rounds: usize,
    /// Whether there is a core for everybody.
    is_roomy: bool,
}

impl Rhythm {
    /// A round begins; whether there is a core for everybody meanwhile.
    pub(super) fn begin(&mut self, at: Instant, is_roomy: bool) {
        let pause = self.ended.map_or(Duration::MAX, |ended| at.saturating_duration_since(ended));
        self.pauses[self.rounds % ROUNDS] = pause;
        self.is_roomy = is_roomy;
    }

    /// A round is over.
    pub(super) fn end(&mut self, report: &RoundReport) {
        let wait_us = report.total_us.saturating_sub(report.worker_us);
        self.waits[self.rounds % ROUNDS] = Duration::from_micros(wait_us);
        self.totals[self.rounds % ROUNDS] = Duration::from_micros(report.total_us);
        self.rounds += 1;
        self.ended = Some(Instant::now());
    }

    /// How long a worker that is done should look for its next round: not at all, if that will hardly come while it does.
    pub(super) fn awake(&self) -> Duration {
        let longest = |spans: &[Duration; ROUNDS]| spans.iter().copied().max().unwrap_or_default();
        let idle = longest(&self.pauses).saturating_add(longest(&self.waits));
        match self.is_roomy && self.rounds >= ROUNDS && idle < Page::AWAKE_MAX / 2 {
            true => 2 * idle,
            false => Duration::ZERO,
        }
    }

    /// How long the loop should look for results: not at all, if rounds take longer.
    fn loop_awake(&self) -> Duration {
        let is_short = self.totals.iter().all(|total| *total < Page::AWAKE_MAX);
        if self.is_roomy && self.rounds >= ROUNDS && is_short { Page::AWAKE_MAX } else { Duration::ZERO }
    }
}

/// Work that was put off, and is due.
#[derive(Clone, Copy)]
pub(super) enum Deferred {
    /// Logging and hashing the parameters of a round.
    Params(RoundId),
    /// Writing what rounds before it have left.
    Write(RoundId),
}

/// How many threads can run at once here.
pub(super) fn cores() -> usize {
    *CORES
}

impl Driver {
    /// How long the loop may sleep: until the next deadline of any part of it, and not at all if there is deferred work, long
    /// results wait to be merged, or a crowded round is about to end.
    pub(super) fn next_wait(&self, at_most: Option<Duration>, has_deferred: bool) -> Option<Duration> {
        if has_deferred || self.has_wide_parts() || self.stays_awake() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let scheduler = self.decider.scheduler.next_deadline();
        let due = scheduler.map(|at| Duration::from_micros(at.since(self.time_at(now)).0));
        let others = [self.next_end(), self.next_word(), self.seats.next_tick()];
        let others = others.into_iter().flatten().map(|at| at.saturating_duration_since(now));
        let due = due.into_iter().chain(others).chain(self.recording.due_in());
        let looks = self.recording.has_recorder() && self.rounds.open().next().is_some();
        let look = looks.then(|| self.recording.memory.wakes_in(now));
        due.chain(self.next_relief()).chain(look).chain(at_most).min()
    }

    /// Whether the loop should spin: a worker has just left its core, and the others are likely to be done soon.
    fn stays_awake(&self) -> bool {
        let is_soon = |round: &Round| {
            let first_done = round.crowded.as_ref().and_then(|first_done| first_done.get());
            first_done.is_some_and(|at| at.elapsed() < AWAKE)
        };
        let awake = self.rounds.rhythm.loop_awake();
        let is_short = |round: &Round| round.crew.is_none() && round.caller.submitted.elapsed() < awake;
        self.rounds.open().any(|round| is_soon(round) || !awake.is_zero() && is_short(round))
    }

    /// A round begins that workers run.
    pub(super) fn begin_in_rhythm(&mut self, id: RoundId) {
        let Some(submitted) = self.rounds.get(id).map(|round| round.caller.submitted) else { return };
        let seats = || self.seats.wanted().map(|(_, record)| record);
        // The loop needs a core, too; and other programs may need as many as these.
        let slots = seats().map(|seat| seat.slots as usize).sum::<usize>();
        let is_roomy = 2 * (slots + 1) <= *CORES && seats().all(|seat| seat.caps.is_child());
        self.rounds.rhythm.begin(submitted, is_roomy);
    }

    /// Whether logging and hashing of these parameters waits until the tasks are out, if they are put into shared memory.
    pub(super) fn defers(&self, params: &Encoder<'_>) -> bool {
        params.payload_bytes() > INLINE_BYTES_MAX && !self.recording.has_earlier() && !self.has_crew()
    }

    /// Whether there are as many processes as cores.
    pub(super) fn is_crowded(&self) -> bool {
        let seats = || self.seats.wanted().map(|(_, record)| record);
        seats().all(|seat| seat.caps.is_child())
            && seats().map(|seat| seat.slots as usize).sum::<usize>() >= *CORES
    }

    /// Deferred work of a round of which a worker is done and others are not.
    pub(super) fn next_deferred(&self) -> Option<Deferred> {
        let is_time =
            |round: &&Round| round.deferred != DeferredWork::None && !round.account.compute_us.is_empty();
        let round = self.rounds.open().find(is_time)?;
        let id = round.order.round();
        match round.deferred {
            DeferredWork::None => None,
            DeferredWork::All => Some(Deferred::Params(id)),
            DeferredWork::Write => Some(Deferred::Write(id)),
        }
    }

    /// Does a piece of deferred work.
    pub(super) fn do_deferred(&mut self, deferred: Deferred) {
        match deferred {
            Deferred::Params(round) => self.log_params(round),
            Deferred::Write(id) => {
                if let Some(round) = self.rounds.get_mut(id) {
                    round.deferred = DeferredWork::None;
                }
                self.look_at_memory(true);
                self.recording.write_in_passing();
            }
        }
    }

    /// Does all deferred work of a round.
    pub(super) fn do_all_deferred(&mut self, round: RoundId) {
        self.log_params(round);
        self.do_deferred(Deferred::Write(round));
    }
}
