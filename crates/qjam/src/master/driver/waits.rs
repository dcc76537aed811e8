//! No wait without a word: tells the user whom the master waits for, once a wait takes two seconds.

use super::Driver;
use super::rounds::Round;
use crate::engine::caller;
use crate::master::options::{Awaited, Waiting};
use qjam_core::ids::{RoundId, SeatId, WorkerId};
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

/// Why a round takes long that its caller's thread runs.
const OWN_THREAD: &str = "the thread that waits runs it itself";

/// A wait, and when it was told.
struct Wait {
    since: Instant,
    told: Option<Instant>,
}

impl Wait {
    fn begin() -> Wait {
        Wait { since: Instant::now(), told: None }
    }

    /// How long it has taken, if it is to be told now.
    fn tell_if_due(&mut self, now: Instant) -> Option<Duration> {
        (next(self.since, self.told) <= now).then(|| {
            self.told = Some(now);
            now - self.since
        })
    }
}

/// Waits that are not for a round.
#[derive(Default)]
pub(super) struct Waits {
    /// Seats that a caller is still waiting for.
    seats: Option<(Range<usize>, Wait)>,
    /// A caller waits until the interpreters of hosts are found.
    interpreters: Option<Wait>,
}

/// When a wait is told next.
fn next(since: Instant, told: Option<Instant>) -> Instant {
    told.map_or(since + FIRST, |told| told + NEXT)
}

/// When the wait for a round is told next, if a caller waits for it.
fn next_of(round: &Round) -> Option<Instant> {
    Some(next(*round.caller.answer.awaited.get()?, round.caller.told))
}

impl Driver {
    /// A caller begins, or ceases, to wait for these seats.
    pub(crate) fn await_seats(&mut self, seats: Option<Range<usize>>) {
        self.waits.seats = seats.map(|seats| (seats, Wait::begin()));
    }

    /// A caller waits, or no longer, for the interpreters of hosts.
    pub(crate) fn await_interpreters(&mut self, waits: bool) {
        match waits {
            true => drop(self.waits.interpreters.get_or_insert_with(Wait::begin)),
            false => self.waits.interpreters = None,
        }
    }

    /// When the next wait is to be told.
    pub(super) fn next_word(&self) -> Option<Instant> {
        let of_seats = self.waits.seats.as_ref().map(|(_, wait)| wait);
        let others = of_seats.into_iter().chain(&self.waits.interpreters);
        let others = others.map(|wait| next(wait.since, wait.told));
        self.rounds.open().filter_map(next_of).chain(others).min()
    }

    /// Tells the waits that are due.
    pub(super) fn tell_waits(&mut self) {
        let now = Instant::now();
        if let Some((seats, wait)) = &mut self.waits.seats
            && let Some(since) = wait.tell_if_due(now)
        {
            let seats = seats.clone();
            let workers = self.absent(seats);
            self.tell_wait(Waiting { round: None, workers, since });
        }
        if let Some(wait) = &mut self.waits.interpreters
            && let Some(since) = wait.tell_if_due(now)
        {
            let workers = self.without_interpreter();
            self.tell_wait(Waiting { round: None, workers, since });
        }
        let mut due = Vec::new();
        for round in self.rounds.open_mut() {
            if next_of(round).is_some_and(|at| at <= now)
                && let Some(since) = round.caller.answer.awaited.get()
            {
                round.caller.told = Some(now);
                due.push((round.order.round(), *since));
            }
        }
        for (round, since) in due {
            let workers = self.awaited(round);
            self.tell_wait(Waiting { round: Some(round.0), workers, since: now - since });
        }
    }

    /// Workers that have not delivered all of a round.
    fn awaited(&self, id: RoundId) -> Vec<Awaited> {
        let crew = self.rounds.get(id).and_then(|round| Some((round, &round.crew.as_ref()?.0)));
        let workers: Vec<Awaited> = match crew {
            Some((round, crew)) if crew.caps().in_process => {
                let blocks = round.order.blocks();
                let awaited = |worker| Awaited { worker, blocks, why: OWN_THREAD.into() };
                crew.awaited().into_iter().map(awaited).collect()
            }
            Some((_, crew)) => {
                let awaited = |worker| Awaited { worker, blocks: 0, why: "it has not delivered".into() };
                crew.awaited().into_iter().map(awaited).collect()
            }
            None => {
                let awaited = |(worker, blocks): (WorkerId, u32)| Awaited {
                    worker: self.name_of(worker),
                    blocks,
                    why: self.reason(worker.seat),
                };
                let holders = self.decider.scheduler.holders(id).map(awaited);
                holders.chain(self.owing(id)).collect()
            }
        };
        if workers.is_empty() { self.absent(0..usize::MAX) } else { workers }
    }

    /// The caller's thread, if it is still in a block of a round that workers have for the rest.
    fn owing(&self, id: RoundId) -> Option<Awaited> {
        self.rounds.get(id)?.chosen.as_ref()?.owed.as_ref()?;
        Some(Awaited { worker: caller::NAME.into(), blocks: 1, why: OWN_THREAD.into() })
    }

    /// Workers that have not delivered yet, for people.
    pub(crate) fn waiting_for(&self, round: RoundId) -> String {
        if let Some((crew, _)) = self.rounds.get(round).and_then(|round| round.crew.as_ref()) {
            return crew.awaited().join(", ");
        }
        let holders = self.decider.scheduler.holders(round);
        let names: Vec<String> =
            holders.map(|(worker, n)| format!("{} ({n} blocks)", self.name_of(worker))).collect();
        if names.is_empty() { "a worker to come up".into() } else { names.join(", ") }
    }

    /// Those of these seats that have no worker.
    fn absent(&self, seats: Range<usize>) -> Vec<Awaited> {
        let absent = self.seats.wanted_in(seats).filter(|(seat, _)| !self.decider.scheduler.is_up(*seat));
        absent
            .map(|(seat, record)| Awaited { worker: record.name.clone(), blocks: 0, why: self.reason(seat) })
            .collect()
    }

    fn reason(&self, seat: SeatId) -> String {
        let is_far = self.seats.record(seat).is_some_and(|record| !record.caps.same_machine);
        let starting = if is_far { "it is being connected to" } else { "it is being started" };
        match self.decider.scheduler.standing(self.now(), seat) {
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
        self.recording.waited(&waiting.to_string());
        let _ = catch_unwind(AssertUnwindSafe(|| (self.options.callbacks.on_wait)(&waiting)));
    }
}
