//! How many workers a round gets, where the master may choose; and rounds that its caller runs itself.
//!
//! The [`Tuner`] decides; here is what it must know (who there is, what rounds took) and what its word means (a part of the
//! workers, or the caller's thread).

use super::Driver;
use crate::codec::Encoder;
use crate::dataset::CutData;
use crate::engine::SeatKind;
use crate::error::{Error, RemoteFault};
use crate::function::Function;
use crate::function::language;
use crate::master::inline::{self, Inline, InlineDone};
use crate::master::round::Running;
use qjam_core::ids::{DataSetId, RoundId, SeatId};
use qjam_core::job::{FaultKind, RoundSpec};
use qjam_core::journal::{RoundReport, What};
use qjam_core::scheduler::Event;
use qjam_core::tuner::{Explained, Kind, Outcome, Place, Plan, Team, Tuner, Work};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::thread::available_parallelism;

/// What decides, and for whom.
#[derive(Default)]
pub(super) struct Chooser {
    tuner: Tuner,
    /// Number of seats and of slots that the tuner knows of.
    known: (usize, u32),
}

/// What was chosen for a round.
pub(crate) struct Chosen {
    plan: Plan,
    kind: Kind,
    bytes: u64,
    can_inline: bool,
    /// How many slots have the round now.
    slots: u32,
    /// What its caller ran of it: how long, how many blocks.
    begun: Option<(f64, u32)>,
    /// Another round was under way when it began.
    is_disturbed: bool,
}

impl Chosen {
    /// Whether its caller's thread has it.
    pub(crate) fn is_inline(&self) -> bool {
        self.slots == 0
    }

    /// How many slots have it.
    pub(crate) fn slots_max(&self) -> Option<u32> {
        Some(self.slots)
    }

    /// Microseconds that the caller's thread computed, and blocks that it ran.
    pub(crate) fn begun(&self) -> (u64, u32) {
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

    /// Chooses for a round, if that is wanted. The caller's thread can be used only if it waits.
    pub(super) fn choose(
        &mut self,
        round: RoundId,
        function: &Function,
        data: &CutData,
        params: &Encoder<'_>,
        waits: bool,
    ) -> Option<Box<Chosen>> {
        self.chooser.as_ref()?;
        // A call of Python's goes to another process in any case, and there it can be called off.
        let can_inline = waits && self.can_inline() && !language::is_foreign(function.name());
        self.update_teams();
        let is_disturbed = self.rounds.values().any(|r| !r.is_answered);
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
        Some(Box::new(Chosen { plan, kind, bytes, can_inline, slots, begun: None, is_disturbed }))
    }

    /// A limit of time or memory can only be kept by somebody who can be called off.
    fn can_inline(&self) -> bool {
        let is_thread = |kind: &SeatKind| matches!(kind, SeatKind::Local);
        let all_threads = || self.seats.iter().all(|here| is_thread(&here.seat.kind));
        self.options.round_timeout.is_none() && (self.options.memory_bytes_max.is_none() || all_threads())
    }

    /// Tells the tuner who there is, if that has changed.
    fn update_teams(&mut self) {
        let here = || self.seats.iter().filter(|here| !here.removed);
        let known = (here().count(), here().map(|here| here.seat.slots).sum());
        let Some(chooser) = self.chooser.as_mut().filter(|chooser| chooser.known != known) else { return };
        chooser.known = known;
        let is_far = |kind: &SeatKind| matches!(kind, SeatKind::Host(_));
        // In the order in which the scheduler takes them.
        let near = here().filter(|here| !is_far(&here.seat.kind));
        let far = here().filter(|here| is_far(&here.seat.kind));
        let seats = near.chain(far).map(|here| (place(&here.seat.kind), here.seat.slots));
        let cores = available_parallelism().map_or(1, |n| n.get() as u32);
        chooser.tuner.set_teams(teams(seats, cores));
    }

    /// How many threads of a seat take part in a round of so many slots.
    pub(super) fn threads_of(&self, seat: SeatId, slots_max: u32) -> u32 {
        let (seats, n) = (&self.seats, seat.0 as usize);
        let is_before =
            |m: &usize| *m < n && !seats[*m].removed && place(&seats[*m].seat.kind) < Place::Hosts;
        let before: u32 = (0..n).filter(is_before).map(|m| seats[m].seat.slots).sum();
        slots_max.saturating_sub(before).clamp(1, seats[n].seat.slots)
    }

    /// Whether the caller had begun a round before workers got it.
    pub(super) fn has_begun(&self, round: RoundId) -> bool {
        let chosen = self.rounds.get(&round).and_then(|running| running.chosen.as_ref());
        chosen.is_some_and(|chosen| chosen.begun.is_some())
    }

    /// Blocks of a round that its caller runs.
    pub(super) fn inline_blocks(&self, round: RoundId) -> Option<u32> {
        let running = self.rounds.get(&round)?;
        running.chosen.as_ref().filter(|chosen| chosen.is_inline()).map(|_| running.cut.blocks())
    }

    /// Leaves a round to its caller.
    pub(super) fn leave_to_caller(&mut self, round: RoundId) {
        let Some(running) = self.rounds.get(&round) else { return };
        let Some(chosen) = &running.chosen else { return };
        let cut = running.cut;
        self.inline = Some(Inline {
            round,
            cut,
            function: running.function.clone(),
            params: running.params.clone(),
            data: running.data.clone(),
            seed: self.options.seed,
            open: self.open.clone(),
            plan: chosen.plan.clone(),
        });
        running.answer.awaited.get_or_init(std::time::Instant::now);
        self.note(What::RoundStarted { round, chunks: cut.chunks, blocks: cut.blocks() });
    }

    /// The round that the caller is to run, if the last one is such a one.
    pub(crate) fn take_inline(&mut self) -> Option<Inline> {
        self.inline.take()
    }

    /// The caller has run a round, or as much of it as it should.
    pub(crate) fn end_inline(&mut self, done: InlineDone) {
        let InlineDone { round, parts, blocks, effort, took, hands_over } = done;
        let Some(running) = self.rounds.get_mut(&round) else { return };
        running.report.cache_hits += u64::from(effort.hits);
        running.report.cache_misses += u64::from(effort.misses);
        let Some(chosen) = &mut running.chosen else { return };
        chosen.begun = Some((took.as_secs_f64() * 1e6, blocks));
        let parts = match parts {
            Ok(parts) => parts,
            Err(fault) => {
                let chunk_id = fault.chunk.and_then(|n| running.data.chunks.get(n as usize)).map(|c| c.id);
                let function = running.function.name().into();
                // As on threads: what cannot be read is nobody's fault in particular.
                let worker = (fault.kind != FaultKind::Params).then(|| inline::NAME.into());
                let fault = RemoteFault { function, worker, chunk_id, fault };
                return self.close_inline(round, Err(Error::Fault(Box::new(fault))));
            }
        };
        match hands_over {
            Some(slots) if blocks < running.cut.blocks() => self.hand_over(round, slots, blocks, parts),
            _ => {
                let value = parts.into_iter().next().map(|(_, value)| value);
                self.close_inline(round, Ok(value.expect("all blocks were run, so the tree has its root")));
            }
        }
    }

    fn close_inline(&mut self, round: RoundId, value: Result<crate::function::AnyBox, Error>) {
        let finished = value.is_ok();
        self.answer(round, value);
        self.rounds.remove(&round);
        self.note(What::RoundOver { round, finished });
    }

    /// Gives what the caller has not run to workers.
    fn hand_over(
        &mut self,
        round: RoundId,
        slots: u32,
        blocks: u32,
        parts: Vec<(qjam_core::reduce::Node, crate::function::AnyBox)>,
    ) {
        let Some(running) = self.rounds.get_mut(&round) else { return };
        for (node, value) in parts {
            let kept = running.tree.insert(node, value, |_, _| Err(()));
            assert!(kept.is_ok(), "subtrees of the first blocks have no neighbours to be merged with");
        }
        if let Some(chosen) = &mut running.chosen {
            chosen.slots = slots;
        }
        let spec = RoundSpec {
            slots_max: Some(slots),
            done: blocks,
            ..RoundSpec::new(running.data.located, running.cut)
        };
        let why = format!("the rest from block {blocks} on: it takes longer than {slots} slots should");
        self.note(What::WorkersChosen { round, slots, why });
        self.tell(Event::RoundSubmitted { round, spec });
    }

    /// A round has its value: what it took is worth knowing.
    pub(super) fn learn(&mut self, round: RoundId, report: &RoundReport) {
        let is_disturbed = || self.rounds.iter().any(|(id, r)| *id != round && !r.is_answered);
        let Some((running, chosen)) = self.rounds.get(&round).and_then(|r| Some((r, r.chosen.as_ref()?)))
        else {
            return;
        };
        let outcome = Outcome {
            slots: chosen.slots,
            total_us: running.submitted.elapsed().as_secs_f64() * 1e6,
            worker_us: slowest(running),
            begun: chosen.begun.map(|(us, done)| (us, done, running.cut.blocks())),
            bytes_sent: if report.chunks_sent > 0 { report.bytes_out } else { 0 },
            is_cold: report.cache_misses > 0,
            is_disturbed: chosen.is_disturbed || report.lost + report.retries > 0 || is_disturbed(),
        };
        let Chosen { kind, bytes, can_inline, .. } = **chosen;
        let work =
            Work { kind, name: running.function.name(), bytes, chunks: running.cut.chunks, can_inline };
        if let Some(chooser) = &mut self.chooser {
            chooser.tuner.learn(&work, &chosen.plan, &outcome);
        }
    }
}

/// Microseconds that the slowest worker computed.
fn slowest(running: &Running) -> f64 {
    running.compute_us.values().copied().max().unwrap_or(0) as f64
}

/// A number for a name, the same as long as this process lives.
fn number_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn place(kind: &SeatKind) -> Place {
    match kind {
        SeatKind::Local => Place::Threads,
        SeatKind::Proc | SeatKind::Rank => Place::Processes,
        SeatKind::Host(_) => Place::Hosts,
    }
}

/// The numbers of workers that can be chosen: about 1, 2, 4 and so on, and all. Threads are counted one by one; of a process
/// or a host all slots take part or none.
fn teams(seats: impl Iterator<Item = (Place, u32)>, cores: u32) -> Vec<Team> {
    let mut all: Vec<Team> = Vec::new();
    let (mut near, mut far, mut workers, mut farthest) = (0_u32, 0_u32, 0, Place::Threads);
    for (place, slots) in seats {
        workers += 1;
        farthest = farthest.max(place);
        let steps = if place == Place::Threads { (slots, 1) } else { (1, slots) };
        for _ in 0..steps.0 {
            *(if place == Place::Hosts { &mut far } else { &mut near }) += steps.1;
            let slots = near + far;
            all.push(Team {
                slots,
                workers,
                place: farthest,
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

    fn slots(seats: &[(Place, u32)], cores: u32) -> Vec<(u32, u32, f64)> {
        let teams = teams(seats.iter().copied(), cores);
        teams.iter().map(|t| (t.slots, t.workers, t.speedup_max)).collect()
    }

    #[test]
    fn teams_double_up_to_all() {
        let threads = slots(&[(Place::Threads, 6)], 4);
        assert_eq!(threads, [(1, 1, 1.0), (2, 1, 2.0), (4, 1, 4.0), (6, 1, 4.0)]);
        let processes = slots(&[(Place::Processes, 1); 4], 2);
        assert_eq!(processes, [(1, 1, 1.0), (2, 2, 2.0), (4, 4, 2.0)]);
        let wide = slots(&[(Place::Processes, 4); 2], 16);
        assert_eq!(wide, [(4, 1, 4.0), (8, 2, 8.0)]);
        let mixed = slots(&[(Place::Threads, 2), (Place::Hosts, 8), (Place::Hosts, 8)], 2);
        assert_eq!(mixed, [(1, 1, 1.0), (2, 1, 2.0), (10, 2, 10.0), (18, 3, 18.0)]);
        assert_eq!(slots(&[], 2), []);
    }
}
