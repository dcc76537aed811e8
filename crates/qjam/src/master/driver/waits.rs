//! No wait without a word: whom the master waits for, once that takes long.

use super::{Driver, SeatHere};
use crate::engine::SeatKind;
use crate::master::inline;
use crate::master::options::{Awaited, Waiting};
use qjam_core::ids::{RoundId, SeatId};
use qjam_core::scheduler::Standing;
use qjam_core::time::Span;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A wait is told after so long, and then every so often.
const FIRST: Duration = Duration::from_secs(2);
const NEXT: Duration = Duration::from_secs(10);
/// A worker that computes says so every second. One that has said nothing for longer may be in trouble.
const QUIET: Span = Span::from_ms(1_800);

/// Somebody waits for seats to be filled.
pub(super) struct Starting {
    seats: Range<usize>,
    since: Instant,
    told: Option<Instant>,
}

/// Somebody waits for the interpreters of hosts to be found.
pub(super) struct Finding {
    since: Instant,
    told: Option<Instant>,
}

/// When a wait is told next.
fn next(since: Instant, told: Option<Instant>) -> Instant {
    told.map_or(since + FIRST, |told| told + NEXT)
}

impl Driver {
    /// Somebody begins, or ceases, to wait for these seats.
    pub(crate) fn await_seats(&mut self, seats: Option<Range<usize>>) {
        self.starting = seats.map(|seats| Starting { seats, since: Instant::now(), told: None });
    }

    /// Somebody waits, or no longer, for the interpreters of hosts.
    pub(crate) fn await_pythons(&mut self, waits: bool) {
        match waits {
            true => drop(self.finding.get_or_insert(Finding { since: Instant::now(), told: None })),
            false => self.finding = None,
        }
    }

    /// When the next wait is to be told.
    pub(super) fn next_word(&self) -> Option<Instant> {
        let rounds = self.rounds.values().filter(|r| !r.is_answered);
        let of_rounds = rounds.filter_map(|r| Some(next(*r.answer.awaited.get()?, r.told)));
        let of_seats = self.starting.as_ref().map(|s| next(s.since, s.told));
        let of_pythons = self.finding.as_ref().map(|f| next(f.since, f.told));
        of_rounds.chain(of_seats).chain(of_pythons).min()
    }

    /// Tells the waits that are due.
    pub(super) fn tell_waits(&mut self) {
        let now = Instant::now();
        if let Some(starting) = &mut self.starting
            && next(starting.since, starting.told) <= now
        {
            starting.told = Some(now);
            let (since, seats) = (now - starting.since, starting.seats.clone());
            let workers = self.absent(seats);
            self.tell_wait(Waiting { round: None, workers, since });
        }
        if let Some(finding) = &mut self.finding
            && next(finding.since, finding.told) <= now
        {
            finding.told = Some(now);
            let since = now - finding.since;
            let workers = self.without_python();
            self.tell_wait(Waiting { round: None, workers, since });
        }
        let is_due = |since: &Instant, told| next(*since, told) <= now;
        let due: Vec<(RoundId, Instant)> = self
            .rounds
            .iter_mut()
            .filter(|(_, r)| !r.is_answered)
            .filter_map(|(id, r)| {
                let since = *r.answer.awaited.get()?;
                is_due(&since, r.told).then(|| {
                    r.told = Some(now);
                    (*id, since)
                })
            })
            .collect();
        for (round, since) in due {
            let mut workers: Vec<Awaited> = self
                .scheduler
                .holders(round)
                .map(|(worker, blocks)| Awaited {
                    worker: self.name_of(worker),
                    blocks,
                    why: self.reason(worker.seat),
                })
                .collect();
            if let Some(helm) = &self.ranks {
                let why = "it has not delivered";
                let awaited = |worker: String| Awaited { worker, blocks: 0, why: why.into() };
                workers = helm.awaited().into_iter().map(awaited).collect();
            }
            if let Some(left) = self.inline_blocks(round) {
                let why = "the thread that waits runs it itself".into();
                workers = vec![Awaited { worker: inline::NAME.into(), blocks: left, why }];
            }
            if workers.is_empty() {
                workers = self.absent(0..usize::MAX);
            }
            self.tell_wait(Waiting { round: Some(round.0), workers, since: now - since });
        }
    }

    /// Those of these seats where nobody is.
    fn absent(&self, seats: Range<usize>) -> Vec<Awaited> {
        let is_absent = |n: usize, here: &SeatHere| !here.removed && !self.scheduler.is_up(SeatId(n as u32));
        let here = self.seats.iter().enumerate().filter(|(n, here)| seats.contains(n) && is_absent(*n, here));
        here.map(|(n, here)| {
            let why = self.reason(SeatId(n as u32));
            Awaited { worker: here.seat.name.clone(), blocks: 0, why }
        })
        .collect()
    }

    fn reason(&self, seat: SeatId) -> String {
        let here = self.seats.get(seat.0 as usize);
        let is_far = here.is_some_and(|here| matches!(here.seat.kind, SeatKind::Host(_)));
        let starting = if is_far { "it is being connected to" } else { "it is being started" };
        match self.scheduler.standing(self.now(), seat) {
            Some(Standing::Up(silent)) if silent < QUIET => "it is at work".into(),
            Some(Standing::Up(silent)) => format!("it has said nothing for {} s", silent.0 / 1_000_000),
            Some(Standing::Starting(None)) => starting.into(),
            Some(Standing::Resting(None)) | None => "nobody is there".into(),
            Some(Standing::Starting(Some(death))) => format!("{starting} again; before, it {}", death.cause),
            Some(Standing::Resting(Some(death))) => {
                format!("it {}, and is tried again in a moment", death.cause)
            }
            Some(Standing::GivenUp) => "it was given up".into(),
        }
    }

    /// Hands a wait to the user's own code, whose panics are not ours.
    fn tell_wait(&mut self, waiting: Waiting) {
        if let Some(recorder) = &mut self.recorder {
            recorder.waited(&waiting.to_string());
        }
        let _ = catch_unwind(AssertUnwindSafe(|| (self.options.on_wait)(&waiting)));
    }
}
