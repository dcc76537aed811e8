//! How many workers a round gets, where the master may choose.
//!
//! The [`Tuner`] decides. This module tells it which workers there are and what rounds took, and turns its plan into a number
//! of slots, or into a round that the caller's own thread runs.

use super::rounds::Round;
use super::{Driver, LongResults};
use crate::codec::Encoder;
use crate::engine::caller::Claims;
use crate::engine::{Caps, Order};
use crate::function::language;
use qjam_core::ids::{DataSetId, RoundId, SeatId};
use qjam_core::journal::{RoundReport, What};
use qjam_core::tuner::{Distance, Explained, Kind, Plan, RoundCost, Team, Tuner, Work};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;

/// What decides, and for whom.
#[derive(Default)]
pub(super) struct Chooser {
    tuner: Tuner,
    /// Number of seats and of slots that the tuner knows of.
    known: (usize, u32),
}

/// What was chosen for a round.
pub(super) struct Chosen {
    plan: Plan,
    kind: Kind,
    bytes: u64,
    can_inline: bool,
    /// How many slots have the round now.
    slots: u32,
    /// What its caller ran of it: how long, how many blocks.
    begun: Option<(f64, u32)>,
    /// The blocks that its caller's thread has claimed.
    claims: Arc<Claims>,
    /// Workers have the rest, and the caller's thread is still in its last block.
    pub(super) owed: Option<Owed>,
    /// Another round was under way when it began.
    is_disturbed: bool,
}

/// A part of a round that its caller's thread still runs, while workers have the rest.
pub(super) struct Owed {
    /// Calls the caller's thread off.
    pub(super) flag: Arc<AtomicBool>,
    /// Workers have delivered everything else.
    pub(super) is_finished: bool,
    /// The scheduler has nothing left to do with the round.
    pub(super) is_closed: bool,
}

impl Chosen {
    /// The blocks that the caller's thread has claimed.
    pub(super) fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// Whether its caller's thread has it.
    pub(super) fn is_inline(&self) -> bool {
        self.slots == 0
    }

    /// How many slots have it.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// So many slots have it from now on.
    pub(super) fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }

    /// What the tuner said.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The caller's thread has computed for so many microseconds, and run so many blocks.
    pub(super) fn set_begun(&mut self, begun: (f64, u32)) {
        self.begun = Some(begun);
    }

    /// Microseconds that the caller's thread computed, and blocks that it ran.
    pub(super) fn begun(&self) -> (u64, u32) {
        self.begun.map_or((0, 0), |(us, blocks)| (us as u64, blocks))
    }
}

impl Driver {
    /// Has the number of workers chosen from now on.
    pub(crate) fn choose_workers(&mut self) {
        self.chooser = Some(Box::default());
    }

    /// What is known of costs, if the number of workers is chosen.
    pub(crate) fn explain(&self) -> Vec<Explained> {
        self.chooser.as_ref().map_or(Vec::new(), |chooser| chooser.tuner.explain())
    }

    /// Functions whose results are long beside their data.
    pub(crate) fn long_results(&self) -> Vec<LongResults> {
        self.weigher.long().to_vec()
    }

    /// Chooses for a round, if that is wanted. The caller's thread can be used only if it waits.
    pub(super) fn choose(&mut self, order: &Order, params: &Encoder<'_>, waits: bool) -> Option<Box<Chosen>> {
        self.chooser.as_ref()?;
        let (round, function, data) = (order.round(), &order.function, &order.data);
        // A call of Python's goes to another process in any case, and there it can be called off.
        let can_inline = waits && self.can_inline() && !language::is_foreign(function.name());
        self.update_teams();
        let is_disturbed = self.rounds.open().next().is_some();
        let chooser = self.chooser.as_mut()?;
        let name = params.label().unwrap_or_else(|| function.name());
        let kind = Kind {
            function: number_of(name),
            dataset: DataSetId(data.located.0),
            params_bits: usize::BITS - params.payload_bytes().leading_zeros(),
        };
        let (chunks, bytes) = (data.chunks.len() as u32, data.bytes());
        let work = Work { kind, name, bytes, chunks, can_inline };
        let plan = match self.options.fixed_slots {
            Some(slots) if slots > 0 || can_inline => Plan::fixed(slots),
            Some(_) => Plan::fixed(1),
            None => chooser.tuner.choose(&work),
        };
        let slots = plan.slots;
        if let Some(why) = plan.change.clone() {
            self.note(What::WorkersChosen { round, slots, why });
        }
        Some(Box::new(Chosen {
            plan,
            kind,
            bytes,
            can_inline,
            slots,
            begun: None,
            claims: Arc::default(),
            owed: None,
            is_disturbed,
        }))
    }

    /// A limit of time or memory can only be kept by workers that can be called off.
    fn can_inline(&self) -> bool {
        let all_threads = || self.seats.wanted().all(|(_, record)| record.caps.in_process);
        let has_limit = self.options.workers.memory_bytes_max.is_some();
        self.options.round_timeout.is_none() && (!has_limit || all_threads())
    }

    /// Tells the tuner who there is, if that has changed.
    fn update_teams(&mut self) {
        let seats = || self.seats.wanted().map(|(_, record)| record);
        let known = (seats().count(), seats().map(|record| record.slots).sum());
        let Some(chooser) = self.chooser.as_mut().filter(|chooser| chooser.known != known) else { return };
        chooser.known = known;
        // In the order in which the scheduler takes them.
        let near = seats().filter(|record| record.caps.same_machine);
        let far = seats().filter(|record| !record.caps.same_machine);
        let seats = near.chain(far).map(|record| (distance(record.caps), record.slots));
        let cores = available_parallelism().map_or(1, |n| n.get() as u32);
        chooser.tuner.set_teams(teams(seats, cores));
    }

    /// How many threads of a seat take part in a round, if not all.
    pub(super) fn threads_of(&self, seat: SeatId, round: RoundId) -> Option<u32> {
        let slots_max = self.rounds.get(round)?.chosen.as_ref()?.slots();
        let slots = self.seats.record(seat).filter(|record| record.caps.in_process)?.slots;
        let is_before = |other: &SeatId| *other < seat;
        let near = self.seats.wanted().filter(|(_, record)| record.caps.same_machine);
        let before: u32 = near.filter(|(other, _)| is_before(other)).map(|(_, record)| record.slots).sum();
        Some(slots_max.saturating_sub(before).clamp(1, slots))
    }

    /// Whether the caller's thread had begun a round before workers got it.
    pub(super) fn has_begun(&self, round: RoundId) -> bool {
        let chosen = self.rounds.get(round).and_then(|round| round.chosen.as_ref());
        chosen.is_some_and(|chosen| chosen.begun.is_some())
    }

    /// A round has its value: what it took is worth knowing.
    pub(super) fn learn(&mut self, round: RoundId, report: &RoundReport) {
        let is_disturbed = || self.rounds.open().any(|other| other.order.round() != round);
        let Some((running, chosen)) = self.rounds.get(round).and_then(|r| Some((r, r.chosen.as_ref()?)))
        else {
            return;
        };
        let outcome = RoundCost {
            slots: chosen.slots,
            total_us: running.caller.submitted.elapsed().as_secs_f64() * 1e6,
            worker_us: slowest(running),
            begun: chosen.begun.map(|(us, done)| (us, done, running.order.head.cut.blocks())),
            bytes_sent: if report.chunks_sent > 0 { report.bytes_out } else { 0 },
            is_cold: report.cache_misses > 0,
            is_disturbed: chosen.is_disturbed || report.lost + report.retries > 0 || is_disturbed(),
        };
        let Chosen { kind, bytes, can_inline, .. } = **chosen;
        let chunks = running.order.head.cut.chunks;
        let work = Work { kind, name: running.order.function.name(), bytes, chunks, can_inline };
        if let Some(chooser) = &mut self.chooser {
            chooser.tuner.learn(&work, &chosen.plan, &outcome);
        }
    }
}

/// Microseconds that the slowest worker computed.
fn slowest(running: &Round) -> f64 {
    running.account.compute_us.values().copied().max().unwrap_or(0) as f64
}

/// A number for a name, the same as long as this process lives.
pub(super) fn number_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Where workers with these capabilities are, as the tuner sees it.
fn distance(caps: Caps) -> Distance {
    match (caps.in_process, caps.same_machine) {
        (true, _) => Distance::Threads,
        (false, true) => Distance::Processes,
        (false, false) => Distance::Hosts,
    }
}

/// The numbers of workers that can be chosen: about 1, 2, 4 and so on, and all. Threads are counted one by one; of a process
/// or a host all slots take part or none.
fn teams(seats: impl Iterator<Item = (Distance, u32)>, cores: u32) -> Vec<Team> {
    let mut all: Vec<Team> = Vec::new();
    let (mut near, mut far, mut workers, mut farthest) = (0_u32, 0_u32, 0, Distance::Threads);
    for (distance, slots) in seats {
        workers += 1;
        farthest = farthest.max(distance);
        let steps = if distance == Distance::Threads { (slots, 1) } else { (1, slots) };
        for _ in 0..steps.0 {
            *(if distance == Distance::Hosts { &mut far } else { &mut near }) += steps.1;
            let slots = near + far;
            all.push(Team {
                slots,
                workers,
                distance: farthest,
                speedup_max: f64::from(near.min(cores) + far),
                far_share: f64::from(far) / f64::from(slots),
            });
        }
    }
    let last = all.len().saturating_sub(1);
    let mut next = 1;
    let mut chosen = Vec::new();
    for (n, team) in all.into_iter().enumerate() {
        if team.slots >= next || n == last {
            next = (team.slots + 1).next_power_of_two();
            chosen.push(team);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(seats: &[(Distance, u32)], cores: u32) -> Vec<(u32, u32, f64)> {
        let teams = teams(seats.iter().copied(), cores);
        teams.iter().map(|t| (t.slots, t.workers, t.speedup_max)).collect()
    }

    #[test]
    fn teams_double_up_to_all() {
        let threads = slots(&[(Distance::Threads, 6)], 4);
        assert_eq!(threads, [(1, 1, 1.0), (2, 1, 2.0), (4, 1, 4.0), (6, 1, 4.0)]);
        let processes = slots(&[(Distance::Processes, 1); 4], 2);
        assert_eq!(processes, [(1, 1, 1.0), (2, 2, 2.0), (4, 4, 2.0)]);
        let wide = slots(&[(Distance::Processes, 4); 2], 16);
        assert_eq!(wide, [(4, 1, 4.0), (8, 2, 8.0)]);
        let mixed = slots(&[(Distance::Threads, 2), (Distance::Hosts, 8), (Distance::Hosts, 8)], 2);
        assert_eq!(mixed, [(1, 1, 1.0), (2, 1, 2.0), (10, 2, 10.0), (18, 3, 18.0)]);
        assert_eq!(slots(&[], 2), []);
    }
}
