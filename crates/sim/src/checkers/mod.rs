//! Properties that every run must have, checked from outside the state machines.
//!
//! An [`Observer`] sees each event of the scheduler and the resulting actions, keeps its own [`picture`] of who has what, and checks
//! every action against it. [`conduct`] does the same for a worker's state machine. [`liveness`] bounds the duration of a run. A check
//! is named after the property, so that a failure names the violated property. Checkers see interfaces only, and change nothing.
//!
//! | file | promise |
//! |---|---|
//! | [`parts`] | a result counts exactly when all its blocks are held as named; accepted ones are disjoint and cover everything |
//! | [`leases`] | blocks go to the living, under a new attempt, twice only when the first holder is silent; no round is closed early |
//! | [`help`] | blocks are asked for when somebody is idle, and go there; late ones are doubled once, and apart |
//! | [`homes`] | blocks go where their states are, and wait for who comes back there, but not for long |
//! | [`mail`] | a block finds each letter of the round before once, in order, and no other |
//! | [`answers`] | each round is answered once, with the right kind of answer |
//! | [`blame`] | a block that kills is found in time, and no innocent one is blamed for it |
//! | [`kills`] | only those who deserve it are killed; seats are filled in time, given up for a reason and left alone when removed |
//! | [`conduct`] | a worker runs what it was given, delivers in time, and lets go when told |
//! | [`liveness`] | after the faults, every round ends in bounded time |

pub(crate) mod answers;
pub(crate) mod blame;
pub(crate) mod conduct;
pub(crate) mod help;
pub(crate) mod homes;
pub(crate) mod kills;
pub(crate) mod leases;
pub(crate) mod liveness;
pub(crate) mod mail;
pub(crate) mod parts;
pub(crate) mod picture;
pub(crate) mod team;

pub use answers::Answer;

use crate::fault::Fault;
use crate::plan::Plan;
use picture::{Picture, SeatPicture};
use qjam_core::ids::{Block, RoundId, SeatId, WorkerId};
use qjam_core::journal::What;
use qjam_core::scheduler::{Action, Event, Scheduler};
use qjam_core::time::Time;
use std::collections::BTreeMap;
use std::fmt;

/// A violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property.
    pub check: &'static str,
    /// How it was violated.
    pub what: String,
}

/// The result of a check.
pub(crate) type Verdict = Result<(), Violation>;

impl Violation {
    pub(crate) fn new(check: &'static str, what: impl Into<String>) -> Self {
        Violation { check, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// Fails with the name of the property unless it holds.
macro_rules! promise {
    ($holds:expr, $check:expr, $($what:tt)*) => {
        if !$holds {
            return Err($crate::checkers::Violation::new($check, format!($($what)*)));
        }
    };
}
pub(crate) use promise;

/// Facts that only the simulation knows.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// Processes that a poisonous block ended.
    poisoned: BTreeMap<WorkerId, (RoundId, Block)>,
}

impl Truth {
    pub(crate) fn poisoned(&mut self, worker: WorkerId, round: RoundId, block: Block) {
        self.poisoned.insert(worker, (round, block));
    }
}

/// One call of the scheduler: what went in and what came out.
pub(crate) struct Step<'a> {
    pub(crate) now: Time,
    pub(crate) event: &'a Event,
    pub(crate) actions: &'a [Action],
}

/// Watches the scheduler.
pub(crate) struct Observer<'a> {
    plan: &'a Plan,
    picture: Picture,
    /// Whether the master may be late for reasons of its own.
    stalls: bool,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let stalls = plan.faults.iter().any(|(_, fault)| matches!(fault, Fault::MasterStalls { .. }));
        Observer { plan, picture: Picture::default(), stalls }
    }

    /// Checks one step: applies the event, then checks each action in turn, then the state afterwards.
    pub(crate) fn observe(&mut self, step: &Step<'_>, truth: &Truth) -> Verdict {
        let expected = self.picture.take_in(step.now, step.event, &self.plan.config);
        parts::is_answered_as_expected(step, expected)?;
        for action in step.actions {
            self.observe_action(step, action, truth)?;
        }
        answers::cancelling_answers(&self.picture, step.event)?;
        blame::killers_are_stopped(&self.picture, step.event, &self.plan.config)?;
        kills::useful_seats_are_filled_at_once(&self.picture, step.event, &self.plan.config)?;
        let (picture, config) = (&self.picture, &self.plan.config);
        kills::lone_hosts_are_not_lost_for_ever(picture, step.now, step.event, config, self.stalls)?;
        help::what_was_given_back_is_given_out(&self.picture, step.event)?;
        if !self.stalls {
            homes::nobody_waits_for_long(&self.picture, step.now, &self.plan.config)?;
        }
        leases::silent_holders_are_doubled(&self.picture)
    }

    fn observe_action(&mut self, step: &Step<'_>, action: &Action, truth: &Truth) -> Verdict {
        kills::removed_seats_are_left_alone(&self.picture, action)?;
        let (now, picture, plan) = (step.now, &mut self.picture, self.plan);
        match action {
            Action::Start { worker } => {
                kills::is_started_after_its_pause(picture, now, *worker, &plan.config, self.stalls)?;
                picture.start(now, *worker);
            }
            Action::Kill { worker, cause } => {
                kills::is_deserved(picture, now, *worker, cause, &plan.config)?;
                picture.kill(*worker);
            }
            Action::Ping { worker } => picture.ask(now, *worker),
            Action::Assign { worker, round, ranges } => {
                team::gets_blocks(picture, *worker, *round)?;
                help::goes_to_the_idle(picture, step.event, *worker, *round)?;
                homes::assign(picture, now, *worker, *round, ranges, &plan.config)?;
                leases::assign(picture, *worker, *round, ranges)?;
            }
            Action::Recall { round, .. } | Action::Apart { round, .. } if picture.rounds[round].is_held => {
                return Err(Violation::new("nobody_is_helped_with_states", format!("{action:?}")));
            }
            Action::Recall { worker, round, .. } => help::recall(picture, *worker, *round)?,
            Action::Apart { worker, round, block } => help::apart(picture, *worker, *round, *block)?,
            Action::Cancel { worker, round, is_patient } => {
                help::only_the_late_are_spared(picture, *worker, *round, *is_patient)?;
                picture.tell_to_let_go(now, *worker, *round, *is_patient);
            }
            Action::Accept { round, node, .. } => parts::accept(picture, step.event, *round, *node)?,
            Action::Discard { .. } => {}
            Action::Finish { round } => {
                parts::covers_everything(picture, *round)?;
                answers::finish(picture, &plan.rounds[round.0 as usize - 1], *round)?;
            }
            Action::Fail { round, failure } => {
                let spec = &plan.rounds[round.0 as usize - 1];
                answers::fail(picture, step.event, spec, *round, failure, &plan.config, truth)?;
            }
            Action::Close { round } => leases::close(picture, *round)?,
            Action::Note(What::WorkerJoined(worker)) => {
                let Event::WorkerJoined { slots, .. } = step.event else {
                    return Err(Violation::new("who_joins_has_said_so", worker.to_string()));
                };
                picture.join(now, *worker, *slots, &plan.config);
            }
            Action::Note(What::Moved { partitions, from, to, .. }) => {
                homes::moved(picture, step.event, partitions, *from, *to)?;
            }
            Action::Note(What::WorkerSuspected(worker)) => picture.suspect(*worker, true),
            Action::Note(What::WorkerReturned(worker)) => picture.suspect(*worker, false),
            Action::Note(What::SeatGivenUp(worker)) => {
                kills::is_given_up_for_a_reason(picture, now, worker.seat, &plan.config)?;
                picture.give_up(worker.seat);
            }
            Action::Note(_) => {}
        }
        Ok(())
    }

    /// Whether a round has been submitted and not been answered.
    pub(crate) fn is_open(&self, round: RoundId) -> bool {
        self.picture.rounds.get(&round).is_some_and(|r| r.answer.is_none())
    }

    /// The answer of a round was changed by the driver: it could not merge what it had accepted.
    pub(crate) fn answered_with_fault(&mut self, round: RoundId) {
        self.picture.rounds.get_mut(&round).expect("it was answered").answer = Some(Answer::Fault);
    }

    /// How many results came of which a part was done already and a part was not.
    pub(crate) fn overlaps(&self) -> u64 {
        self.picture.overlaps
    }

    /// Whether every round of the plan is closed.
    pub(crate) fn is_all_closed(&self) -> bool {
        self.picture.closed == self.plan.rounds.len()
    }

    /// Whether every seat has been asked for, and has a living worker, was given up, or is tried for ever in vain.
    pub(crate) fn is_settled(&self) -> bool {
        let Picture { seats, removed, up, .. } = &self.picture;
        let is_tried_in_vain = |seat: &SeatId| {
            let is_lost = |fault: &Fault| matches!(fault, Fault::Outage { seat: s, for_span: None, .. } if *s == seat.0);
            *up > 0 && self.plan.faults.iter().any(|(_, fault)| is_lost(fault))
        };
        seats.len() + removed.len() == self.plan.seats.len()
            && seats.iter().all(|(id, s)| s.is_given_up || s.is_up || s.is_remote && is_tried_in_vain(id))
    }

    /// The answers, in the order of the plan. All rounds are answered.
    pub(crate) fn answers(&self) -> Vec<Answer> {
        self.picture.rounds.values().map(|r| r.answer.clone().expect("all are answered")).collect()
    }

    /// What the scheduler tells its driver when asked is what an observer saw.
    pub(crate) fn agrees_with(&self, scheduler: &Scheduler) -> Verdict {
        let seats = &self.picture.seats;
        let gone: Vec<SeatId> = scheduler.given_up().map(|(worker, _)| worker.seat).collect();
        let seen: Vec<SeatId> = seats.iter().filter(|(_, s)| s.is_given_up).map(|(id, _)| *id).collect();
        promise!(gone == seen, "the_scheduler_tells_the_truth", "given up are {gone:?}, seen {seen:?}");
        let complete = seats.values().all(|s| s.is_up);
        promise!(
            scheduler.is_complete() == complete,
            "the_scheduler_tells_the_truth",
            "complete: not {complete}"
        );
        promise!(
            scheduler.up_count() == self.picture.up,
            "the_scheduler_tells_the_truth",
            "{} are up, not {}",
            scheduler.up_count(),
            self.picture.up
        );
        let waiting: Vec<SeatId> = scheduler.unstarted().map(|(worker, _)| worker.seat).collect();
        let is_unstarted = |s: &SeatPicture| s.is_remote && !s.has_been_up && s.failed_starts > 0;
        let unstarted: Vec<SeatId> =
            seats.iter().filter(|(_, s)| is_unstarted(s)).map(|(id, _)| *id).collect();
        promise!(
            waiting == unstarted,
            "the_scheduler_tells_the_truth",
            "never started are {waiting:?}, seen {unstarted:?}"
        );
        let sum: u32 = seats.values().filter(|s| !s.is_given_up).map(|s| s.slots).sum();
        promise!(
            scheduler.slots() == sum,
            "the_scheduler_tells_the_truth",
            "{} slots, not {sum}",
            scheduler.slots()
        );
        Ok(())
    }

    /// What the run is still waiting for.
    pub(crate) fn open_ends(&self) -> String {
        let mut ends = Vec::new();
        for n in 1..=self.plan.rounds.len() as u64 {
            let round = RoundId(n);
            match self.picture.rounds.get(&round) {
                None => ends.push(format!("{round} was never submitted")),
                Some(r) if r.answer.is_none() => {
                    let done = r.blocks.iter().filter(|b| b.done).count();
                    ends.push(format!("{round} is open with {done} of {} blocks done", r.blocks.len()));
                }
                Some(r) if !r.is_closed => ends.push(format!("{round} is over but not closed")),
                Some(_) => {}
            }
        }
        let empty = self.picture.seats.iter().filter(|(_, s)| !s.is_given_up && !s.is_up);
        ends.extend(empty.map(|(seat, _)| format!("{seat} is empty")).take(8));
        if ends.is_empty() { "a worker is still busy".into() } else { ends.join(", ") }
    }
}
