//! Rounds that a crew runs, beside the scheduler.
//!
//! A crew runs a round on the thread that calls it: the caller's own if it waits for the round, otherwise a thread of the
//! master's that runs one round after the other. The loop keeps what it keeps of any round.

use super::Driver;
use super::choosing::{Chosen, Owed};
use super::rounds::Round;
use crate::engine::caller;
use crate::engine::crew::{Assignment, CrewJob};
use crate::engine::order::{Begun, Failure, Order, Outcome, Value};
use crate::engine::params::Parameters;
use crate::engine::queue::{Event, EventQueue};
use crate::engine::seat::Gone;
use crate::engine::{Caps, Crew, CrewWorker};
use crate::error::{Error, Result};
use crate::execution::caught;
use crate::function::AnyBox;
use qjam_core::ids::{HoldId, RoundId, SeatId, Version, WorkerId};
use qjam_core::job::RoundFailure;
use qjam_core::journal::What;
use qjam_core::order::MailTask;
use qjam_core::scheduler;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often the loop looks after a caller that runs a round itself, where somebody turns it meanwhile: after a quarter of the time
/// that the round has taken, within these bounds.
const RELIEF: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));

/// The crew of a master that has one instead of seats, and what is known of it.
pub(super) struct Crews {
    exclusive: Option<Arc<dyn Crew>>,
    /// The version in which the crew's last round over a hold left its states.
    left: HashMap<HoldId, Version>,
    /// The thread that runs rounds nobody waits for, once there is one.
    jobs: OnceLock<Sender<(RoundId, CrewJob)>>,
    queue: Arc<EventQueue>,
}

impl Crews {
    pub(super) fn new(exclusive: Option<Arc<dyn Crew>>, queue: Arc<EventQueue>) -> Crews {
        Crews { exclusive, left: HashMap::new(), jobs: OnceLock::new(), queue }
    }

    /// The crew that runs all rounds, if there is one.
    pub(super) fn exclusive(&self) -> Option<Arc<dyn Crew>> {
        self.exclusive.clone()
    }

    /// Tells the crew that something is no longer needed.
    pub(super) fn announce(&mut self, gone: Gone) {
        let Some(crew) = &self.exclusive else { return };
        match gone {
            Gone::DataSet(dataset) => crew.forget(dataset),
            Gone::Hold(hold) => {
                self.left.remove(&hold);
                crew.release(hold);
            }
            Gone::Round(_) => {}
        }
    }

    /// Leaves a round to the thread that runs those nobody waits for.
    fn leave_to_thread(&self, round: RoundId, job: CrewJob) -> io::Result<()> {
        if self.jobs.get().is_none() {
            let (jobs, taken) = channel::<(RoundId, CrewJob)>();
            let queue = self.queue.clone();
            std::thread::Builder::new().name("qjam-crew".into()).spawn(move || {
                for (round, job) in taken {
                    queue.put(Event::CrewDone(round, Box::new(job.run(None))));
                }
            })?;
            let _ = self.jobs.set(jobs);
        }
        // The thread ends only when nobody can hand it anything.
        if let Some(jobs) = self.jobs.get() {
            let _ = jobs.send((round, job));
        }
        Ok(())
    }
}

impl Driver {
    /// Gives the crew's workers their records.
    pub(super) fn add_crew(&mut self) {
        let Some(crew) = self.crews.exclusive() else { return };
        self.add_members(crew.workers(), crew.caps());
    }

    fn add_members(&mut self, members: Vec<CrewWorker>, caps: Caps) {
        for member in members {
            let seat = self.seats.add_member(member, caps);
            self.record_seat(seat);
        }
    }

    /// Takes on members that have come since.
    fn add_newcomers(&mut self) {
        let Some(crew) = self.crews.exclusive() else { return };
        let newcomers = crew.newcomers(self.seats.count());
        self.add_members(newcomers, crew.caps());
    }

    /// Whether a crew runs all rounds.
    pub(crate) fn has_crew(&self) -> bool {
        self.crews.exclusive.is_some()
    }

    /// Gives a round to a crew; gives the job back if the caller is to run it.
    pub(super) fn give_to_crew(&mut self, id: RoundId, crew: Arc<dyn Crew>, waits: bool) -> Option<CrewJob> {
        let recipe = self.recipe_for_crew(id);
        let open = self.seats.tools.open.clone();
        let round = self.rounds.get_mut(id)?;
        let flag = Arc::new(AtomicBool::new(false));
        round.crew = Some((crew.clone(), flag.clone()));
        let order = copy_for_crew(&mut round.order);
        let cancelled = Arc::new(move || flag.load(Relaxed));
        let job = CrewJob { crew, assignment: Assignment { order, cancelled, open, recipe } };
        // A caller that waits can be asked whether to stop, but not by a clock.
        let caller_runs = waits && self.options.round_timeout.is_none();
        if caller_runs {
            round.caller.answer.awaited.get_or_init(std::time::Instant::now);
        }
        self.note_started(id);
        if caller_runs {
            return Some(job);
        }
        if let Err(source) = self.crews.leave_to_thread(id, job) {
            self.close_on_crew(id, Err(Error::System { step: "starting a thread", source }));
        }
        None
    }

    /// How to make the states of a round, if its crew may lack some, and what mail it finds. Where nothing was lost, workers
    /// have what the last round left.
    fn recipe_for_crew(&mut self, id: RoundId) -> Option<crate::execution::recipes::StateRecipe> {
        let head = &self.rounds.get(id)?.order.head;
        let (task, chunks) = (head.held?, head.cut.chunks);
        let is_there = task.base == Version::MADE || self.crews.left.get(&task.hold) == Some(&task.base);
        if is_there && task.mail != MailTask::Letters {
            return None;
        }
        self.recipe(id, &(0..chunks).collect::<Vec<u32>>(), is_there).ok().flatten()
    }

    /// A crew has done what it does of a round.
    pub(crate) fn end_on_crew(&mut self, id: RoundId, outcome: Outcome) {
        let Outcome { value, efforts, lines, mut traffic, merging, caller } = outcome;
        self.add_newcomers();
        for (worker, line) in lines {
            self.log(member(worker), line);
        }
        let Some(round) = self.rounds.get_mut(id) else { return };
        round.account.report.master_us += merging.as_micros() as u64;
        round.account.add(std::mem::take(&mut traffic));
        for (worker, effort) in efforts {
            let Some(round) = self.rounds.get_mut(id) else { return };
            round.account.report.cache_hits += u64::from(effort.hits);
            round.account.report.cache_misses += u64::from(effort.misses);
            if caller.is_none() {
                *round.account.compute_us.entry(SeatId(worker)).or_default() += effort.compute_us;
            }
            self.count_restored(member(worker), id, &effort.restored);
        }
        let Some(round) = self.rounds.get_mut(id) else { return };
        if let (Some(chosen), Some(begun)) = (&mut round.chosen, caller) {
            chosen.set_begun(begun);
        }
        if round.chosen.as_ref().is_some_and(|chosen| chosen.owed.is_some()) {
            return self.pay(id, value);
        }
        if round.is_answered {
            // It was called off, or took too long, before it came to its end.
            let _ = caught(|| drop(value));
            self.rounds.remove(id);
            return self.note(What::RoundOver { round: id, finished: false });
        }
        match value {
            Ok(Value::Begun(begun)) => self.give_rest_to_workers(id, begun),
            Ok(Value::Whole(value)) => {
                self.keep_version(id);
                self.close_on_crew(id, Ok(value));
            }
            Err(failure) => {
                let error = self.crew_error(id, failure);
                self.close_on_crew(id, Err(error));
            }
        }
    }

    /// A round over states has its value: the crew has them in this version.
    fn keep_version(&mut self, id: RoundId) {
        let Some(round) = self.rounds.get(id) else { return };
        if let Some(task) = round.order.head.held.filter(|_| !round.order.function.only_looks()) {
            self.crews.left.insert(task.hold, Version::after(id));
        }
    }

    fn crew_error(&self, id: RoundId, failure: Failure) -> Error {
        let Some(round) = self.rounds.get(id) else { return Error::Cancelled };
        match failure {
            Failure::Cancelled => Error::Cancelled,
            Failure::Engine(why) => Error::System { step: "running a round", source: io::Error::other(why) },
            Failure::Fault { worker, fault } => {
                // The caller's thread is no seat.
                let is_caller = !self.has_crew();
                let name_of = |worker| if is_caller { caller::NAME.into() } else { self.name_of(worker) };
                let failure = RoundFailure::Fault { worker: worker.map(member), fault };
                round.error(failure, name_of)
            }
        }
    }

    /// Gives what the caller's thread has not run to workers.
    fn give_rest_to_workers(&mut self, id: RoundId, begun: Begun) {
        let Begun { parts, blocks, slots } = begun;
        let Some(round) = self.rounds.get_mut(id) else { return };
        for (node, value) in parts.nodes {
            let kept = round.result.tree.insert(node, value, |_, _| Err(()));
            assert!(kept.is_ok(), "subtrees of the first blocks have no neighbours to be merged with");
        }
        self.submit_rest(id, blocks, slots);
    }

    /// Gives a round to workers, from this block on.
    fn submit_rest(&mut self, id: RoundId, blocks: u32, slots: u32) {
        let Some(round) = self.rounds.get_mut(id) else { return };
        round.crew = None;
        if let Some(chosen) = &mut round.chosen {
            chosen.set_slots(slots);
        }
        round.order.head.slots_max = Some(slots);
        let spec = round.order.head.spec(blocks);
        let why = format!("the rest from block {blocks} on: it takes longer than {slots} slots should");
        self.note(What::WorkersChosen { round: id, slots, why });
        self.tell(scheduler::Event::RoundSubmitted { round: id, spec });
    }

    /// When the caller of a round that runs it itself should be looked after first, if ever.
    pub(crate) fn relief_after(&self, round: RoundId) -> Option<Duration> {
        let (chosen, _) = rest_of(self.rounds.get(round)?)?;
        Some(Duration::from_micros(chosen.plan().relief_after_us()? as u64))
    }

    /// When callers that run a round themselves should be looked after next.
    pub(super) fn next_relief(&self) -> Option<Duration> {
        self.chooser.as_ref()?;
        let has_rest = |round: &&Round| rest_of(round).is_some();
        let after = |round: &Round| (round.caller.submitted.elapsed() / 4).clamp(RELIEF.0, RELIEF.1);
        self.rounds.open().filter(has_rest).map(after).min()
    }

    /// Gives workers the rest of rounds whose caller's thread has been in a block for too long.
    pub(super) fn relieve_callers(&mut self) {
        if self.chooser.is_none() {
            return;
        }
        let late = |round: &Round| {
            let (chosen, claimed) = rest_of(round)?;
            let took_us = round.caller.submitted.elapsed().as_secs_f64() * 1e6;
            let slots = chosen.plan().relieves(took_us, claimed, round.order.blocks())?;
            Some((round.order.round(), took_us, slots))
        };
        let late: Vec<(RoundId, f64, u32)> = self.rounds.open().filter_map(late).collect();
        for (id, took_us, slots) in late {
            let Some(round) = self.rounds.get_mut(id) else { continue };
            let blocks = round.order.blocks();
            let (Some(chosen), Some((_, flag))) = (&mut round.chosen, &round.crew) else { continue };
            // It may have come to its end meanwhile.
            let Some(rest) = chosen.claims().rest(blocks) else { continue };
            chosen.owed = Some(Owed { flag: flag.clone(), is_finished: false, is_closed: false });
            chosen.set_begun((took_us, rest.start));
            self.submit_rest(id, rest.start, slots);
        }
    }

    /// The caller's thread has come to the end of its last block, and workers have the rest.
    fn pay(&mut self, id: RoundId, value: Result<Value, Failure>) {
        let Some(round) = self.rounds.get_mut(id) else { return };
        let Some(owed) = round.chosen.as_mut().and_then(|chosen| chosen.owed.take()) else { return };
        match value {
            _ if round.is_answered => {
                let _ = caught(|| drop(value));
            }
            Ok(Value::Begun(begun)) => {
                for (node, value) in begun.parts.nodes {
                    self.merge_in(id, node, Ok(value));
                }
                if owed.is_finished {
                    self.finish(id);
                }
            }
            Ok(Value::Whole(_)) => unreachable!("somebody else has claimed blocks of it"),
            Err(failure) => {
                let error = self.crew_error(id, failure);
                self.answer(id, Err(error));
                self.tell(scheduler::Event::RoundCancelled { round: id });
            }
        }
        if owed.is_closed {
            self.close(id);
        }
    }

    fn close_on_crew(&mut self, round: RoundId, value: Result<AnyBox>) {
        let finished = value.is_ok();
        self.answer(round, value);
        self.rounds.remove(round);
        self.note(What::RoundOver { round, finished });
    }
}

/// What was chosen for a round that its caller's thread runs, and how many blocks that has claimed, if some are left.
fn rest_of(round: &Round) -> Option<(&Chosen, u32)> {
    let chosen = round.chosen.as_deref().filter(|chosen| chosen.is_inline() && round.crew.is_some())?;
    let claimed = chosen.claims().count();
    (claimed < round.order.blocks()).then_some((chosen, claimed))
}

/// The order for the crew. The round keeps its own, with parameters only if workers may need them later.
fn copy_for_crew(order: &mut Order) -> Order {
    let Order { head, function, data, params } = order;
    let (head, function, data) = (head.clone(), function.clone(), data.clone());
    let params = match params.has_buffer() {
        true => std::mem::take(params),
        false => Parameters::of(params.whole()),
    };
    Order { head, function, data, params }
}

/// The worker that a crew's member is.
fn member(position: u32) -> WorkerId {
    WorkerId { seat: SeatId(position), incarnation: 0 }
}
