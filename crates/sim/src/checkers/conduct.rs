//! Checks a worker's state machine through its events and actions.

use super::{Verdict, Violation, promise};
use qjam_core::ids::{Attempt, Block, RoundId, WorkerId};
use qjam_core::lease::Returned;
use qjam_core::time::{Span, Time};
use qjam_core::worker::{Action, Delivery, Event};
use std::collections::{BTreeMap, BTreeSet};

/// The blocks of one worker, as its events and actions show them.
#[derive(Debug)]
pub(crate) struct Conduct {
    slots: u32,
    deliver_after: Span,
    /// Blocks it was given and has not sent, with attempt and whether they must run alone.
    given: BTreeMap<(RoundId, Block), (Attempt, bool)>,
    /// Blocks being run, as which attempt.
    running: BTreeMap<(RoundId, Block), Attempt>,
    collecting: BTreeSet<RoundId>,
    /// Finished blocks that wait to be sent, and since when.
    waiting: BTreeMap<(RoundId, Block), Time>,
    /// Rounds in which a block failed.
    failed: BTreeSet<RoundId>,
    /// Rounds it was told to drop and has not.
    told: BTreeSet<RoundId>,
    let_go: BTreeSet<RoundId>,
    /// Blocks that another worker has as well, and those of them known before they could be merged with a neighbour.
    apart: BTreeSet<(RoundId, Block)>,
    apart_in_time: BTreeSet<(RoundId, Block)>,
}

impl Conduct {
    pub(crate) fn new(slots: u32, deliver_after: Span) -> Self {
        Conduct {
            slots,
            deliver_after,
            given: BTreeMap::new(),
            running: BTreeMap::new(),
            collecting: BTreeSet::new(),
            waiting: BTreeMap::new(),
            failed: BTreeSet::new(),
            told: BTreeSet::new(),
            let_go: BTreeSet::new(),
            apart: BTreeSet::new(),
            apart_in_time: BTreeSet::new(),
        }
    }

    /// The tree was told to keep a block by itself, and its value was not there yet.
    pub(crate) fn is_apart_in_time(&mut self, round: RoundId, block: Block) {
        if !self.waiting.contains_key(&(round, block)) {
            self.apart_in_time.insert((round, block));
        }
    }

    pub(crate) fn observe(&mut self, id: WorkerId, now: Time, event: &Event, actions: &[Action]) -> Verdict {
        self.take_in(now, event);
        for action in actions {
            self.observe_action(id, action)?;
        }
        let idle = |round: &RoundId| !self.is_running(*round) && !self.collecting.contains(round);
        let late = self.told.iter().find(|r| idle(r));
        promise!(late.is_none(), "a_cancelled_round_is_let_go_when_its_last_block_ends", "{id}: {late:?}");
        let overdue = |((round, _), since): &(&(RoundId, Block), &Time)| {
            now.since(**since) >= self.deliver_after && !self.collecting.contains(round)
        };
        if let Event::RecallReceived { round, .. } = event {
            let answers = |a: &&Action| matches!(a, Action::Return { round: r, .. } if r == round);
            promise!(
                actions.iter().filter(answers).count() == 1,
                "a_question_is_answered_once",
                "{id}: {round}"
            );
        }
        let is_free = |(round, block): &(RoundId, Block)| {
            self.waiting.contains_key(&(*round, *block)) || self.apart.contains(&(*round, *block))
        };
        let waits_for_none = |(round, _): &&(RoundId, Block)| {
            !self.collecting.contains(round)
                && self.given.range((*round, 0)..=(*round, Block::MAX)).all(|(key, _)| is_free(key))
                && !self.running.keys().any(|key| key.0 == *round && !self.apart.contains(key))
        };
        let kept = self.waiting.keys().find(waits_for_none);
        promise!(kept.is_none(), "nothing_waits_for_what_is_apart", "{id}: {kept:?}");
        let kept = self.waiting.iter().find(overdue);
        promise!(kept.is_none(), "finished_work_goes_out_in_time", "{id}, now {now:?}: {kept:?}");
        Ok(())
    }

    fn is_running(&self, round: RoundId) -> bool {
        self.running.range((round, 0)..=(round, Block::MAX)).next().is_some()
    }

    fn take_in(&mut self, now: Time, event: &Event) {
        match event {
            Event::TaskReceived { round, ranges, .. } if !self.failed.contains(round) => {
                for (block, range) in ranges.iter().flat_map(|s| s.blocks().map(move |b| (b, s))) {
                    self.given.insert((*round, block), (range.attempt, range.alone));
                    if range.apart {
                        self.apart.insert((*round, block));
                    }
                }
            }
            Event::BlockFinished { round, block } => {
                let attempt = self.running.remove(&(*round, *block));
                let is_wanted = !self.failed.contains(round) && !self.told.contains(round);
                // It may have been sent before its end was reported, and be here again.
                if is_wanted && self.given.get(&(*round, *block)).map(|(a, _)| *a) == attempt {
                    self.waiting.insert((*round, *block), now);
                }
            }
            Event::BlockFailed { round, block } => {
                self.running.remove(&(*round, *block));
                self.failed.insert(*round);
                self.waiting.retain(|(r, _), _| r != round);
            }
            Event::Collected { round, .. } => {
                self.collecting.remove(round);
                // What could not be collected is in the hands of a slot that merges it with its neighbour.
                let round = (*round, 0)..=(*round, Block::MAX);
                self.waiting.range_mut(round).for_each(|(_, since)| *since = now);
            }
            Event::ApartReceived { round, block } if self.given.contains_key(&(*round, *block)) => {
                self.apart.insert((*round, *block));
            }
            Event::CancelReceived { round } => {
                self.told.insert(*round);
                self.waiting.retain(|(r, _), _| r != round);
            }
            _ => {}
        }
    }

    fn observe_action(&mut self, id: WorkerId, action: &Action) -> Verdict {
        match action {
            Action::Run { round, block, attempt } => self.run(id, *round, *block, *attempt),
            Action::Collect { round } => {
                promise!(self.collecting.insert(*round), "collecting_is_asked_for_once", "{id}: {round}");
                Ok(())
            }
            Action::Send { round, parts } => parts.iter().try_for_each(|part| self.send(id, *round, part)),
            Action::SetApart { round, block } => {
                let is_known = self.apart.contains(&(*round, *block));
                promise!(
                    is_known,
                    "only_what_somebody_else_has_is_set_apart",
                    "{id}: {round}, block {block}"
                );
                Ok(())
            }
            Action::Return { round, returned } => self.give_back(id, *round, returned),
            Action::LetGo { round } => {
                promise!(self.told.remove(round), "only_cancelled_rounds_are_let_go", "{id}: {round}");
                promise!(!self.is_running(*round), "nobody_runs_what_it_let_go", "{id}: {round} is running");
                self.let_go.insert(*round);
                self.given.retain(|(r, _), _| r != round);
                self.apart.retain(|(r, _)| r != round);
                self.apart_in_time.retain(|(r, _)| r != round);
                Ok(())
            }
            Action::Forget { round } => {
                promise!(!self.is_running(*round), "nobody_forgets_what_is_running", "{id}: {round}");
                self.failed.remove(round);
                Ok(())
            }
            Action::Protest { why } => {
                Err(Violation::new("nobody_is_asked_for_the_impossible", format!("{id}: {why}")))
            }
        }
    }

    fn run(&mut self, id: WorkerId, round: RoundId, block: Block, attempt: Attempt) -> Verdict {
        let is_wanted = !self.let_go.contains(&round) && !self.told.contains(&round);
        promise!(is_wanted, "nobody_runs_what_it_let_go", "{id}: {round}, block {block}");
        let given = self.given.get(&(round, block)).copied();
        let is_given = given.is_some_and(|(a, _)| a == attempt);
        promise!(
            is_given,
            "only_given_blocks_are_run",
            "{id}: {round}, block {block} as {attempt}, given {given:?}"
        );
        promise!(
            self.running.insert((round, block), attempt).is_none() && self.running.len() as u32 <= self.slots,
            "a_slot_runs_one_block",
            "{id}: {:?} in {} slots, and {round}, block {block}",
            self.running,
            self.slots
        );
        let is_risky = |(key, attempt): (&(RoundId, Block), &Attempt)| {
            self.given.get(key).is_some_and(|(given, alone)| given == attempt && *alone)
        };
        promise!(
            self.running.len() == 1 || !self.running.iter().any(is_risky),
            "a_block_that_killed_has_no_company",
            "{id}: {:?}",
            self.running
        );
        Ok(())
    }

    /// What is given back was here and not begun, and what is said of the rest is true.
    fn give_back(&mut self, id: WorkerId, round: RoundId, returned: &Returned) -> Verdict {
        for (block, range) in returned.ranges.iter().flat_map(|s| s.blocks().map(move |b| (b, s))) {
            let key = (round, block);
            let given = self.given.remove(&key);
            promise!(
                given == Some((range.attempt, false)),
                "only_given_blocks_are_given_back",
                "{id}: {round}, block {block} as {}, given {given:?}",
                range.attempt
            );
            promise!(
                self.running.get(&key) != Some(&range.attempt) && !self.waiting.contains_key(&key),
                "what_was_begun_is_not_given_back",
                "{id}: {round}, block {block}"
            );
            self.apart.remove(&key);
            self.apart_in_time.remove(&key);
        }
        if self.failed.contains(&round) || self.told.contains(&round) {
            return Ok(());
        }
        let of_round = || (round, 0)..=(round, Block::MAX);
        let running: Vec<Block> = self.running.range(of_round()).map(|((_, block), _)| *block).collect();
        let said: Vec<Block> = returned.running.iter().map(|(block, _)| *block).collect();
        promise!(said == running, "a_worker_knows_what_it_runs", "{id}: {round}: {said:?}, not {running:?}");
        let is_unstarted = |(key, (attempt, alone)): &(&(RoundId, Block), &(Attempt, bool))| {
            !alone && self.running.get(key) != Some(attempt) && !self.waiting.contains_key(key)
        };
        let unstarted = self.given.range(of_round()).filter(is_unstarted).count();
        promise!(
            returned.unstarted as usize == unstarted,
            "a_worker_knows_what_it_has",
            "{id}: {round}: {} not started, not {unstarted}",
            returned.unstarted
        );
        Ok(())
    }

    fn send(&mut self, id: WorkerId, round: RoundId, part: &Delivery) -> Verdict {
        let blocks: u32 = part.ranges.iter().map(|s| s.len).sum();
        for (block, range) in part.ranges.iter().flat_map(|s| s.blocks().map(move |b| (b, s))) {
            let given = self.given.remove(&(round, block));
            self.waiting.remove(&(round, block));
            self.apart.remove(&(round, block));
            let in_time = self.apart_in_time.remove(&(round, block));
            promise!(!in_time || blocks == 1, "what_is_apart_is_sent_by_itself", "{id}: {round}: {part:?}");
            promise!(
                given.is_some_and(|(attempt, _)| attempt == range.attempt),
                "parts_name_the_attempts_they_were_given",
                "{id}: {round}, block {block} as {}, given {given:?}",
                range.attempt
            );
        }
        Ok(())
    }
}
