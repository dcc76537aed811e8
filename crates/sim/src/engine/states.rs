//! Simulated states: what workers keep, what the master keeps to rebuild them, and their expected values.
//!
//! A state is a number that every round changes in its own way. So if a round is omitted, run twice or run on the wrong state, all
//! later rounds show it. There are no checkpoints: the state machines under test do not know them.

use super::Engine;
use super::queue::{ToExecutor, ToMaster};
use crate::checkers::{Verdict, promise};
use crate::engine::master::value_key;
use crate::oracle;
use crate::plan::Plan;
use qjam_core::ids::{Block, HoldId, RoundId, Version, WorkerId};
use qjam_core::scheduler::Event;
use qjam_core::worker;
use std::collections::BTreeMap;

/// The only hold of a plan.
pub(super) const HOLD: HoldId = HoldId(3);

/// The master's data about the hold, and the expected states.
pub(super) struct Hold {
    pub(super) version: Version,
    log: Vec<RoundId>,
    /// The states that a single process without failures would have.
    states: Vec<u64>,
    rounds_left: usize,
}

/// The states on one worker.
#[derive(Default)]
pub(super) struct WorkerStates {
    /// At most two versions of each partition.
    kept: BTreeMap<u32, Vec<(Version, u64)>>,
    /// The version that each round begins with.
    bases: BTreeMap<RoundId, Version>,
    recipes: BTreeMap<(RoundId, u32), Vec<RoundId>>,
    /// Copies that running blocks modify.
    entered: BTreeMap<(RoundId, Block), u64>,
}

impl Hold {
    pub(super) fn new(plan: &Plan) -> Self {
        let held = || plan.rounds.iter().filter(|r| r.is_held);
        let chunks = held().next().map_or(0, |r| r.cut.chunks);
        Hold {
            version: Version::MADE,
            log: Vec::new(),
            states: (0..chunks).map(|chunk| oracle::made_state(plan.seed, chunk)).collect(),
            rounds_left: held().count(),
        }
    }
}

impl WorkerStates {
    fn get(&self, partition: u32, version: Version) -> Option<u64> {
        self.kept.get(&partition)?.iter().find(|(v, _)| *v == version).map(|(_, state)| *state)
    }

    fn keep(&mut self, partition: u32, base: Version, version: Version, state: u64) {
        let kept = self.kept.entry(partition).or_default();
        kept.retain(|(v, _)| *v == base && *v != version);
        kept.push((version, state));
    }

    pub(super) fn forget(&mut self, round: RoundId) {
        self.bases.remove(&round);
        self.recipes.retain(|(whose, _), _| *whose != round);
    }
}

impl Engine<'_> {
    /// The version that a round begins with, if it needs states.
    pub(super) fn base_of(&self, round: RoundId) -> Option<Version> {
        self.spec(round).is_held.then_some(self.hold.version)
    }

    /// The expected value of a round over states.
    pub(super) fn states_after(&self, round: RoundId) -> Vec<u64> {
        let key = value_key(self.plan.seed, round);
        self.hold.states.iter().map(|state| oracle::next_state(*state, key)).collect()
    }

    /// A round over states is answered.
    pub(super) fn end_held(&mut self, round: RoundId, has_value: bool) -> Verdict {
        if !self.spec(round).is_held {
            return Ok(());
        }
        if has_value {
            self.hold.states = self.states_after(round);
            self.hold.version = Version::after(round);
            self.hold.log.push(round);
        }
        self.hold.rounds_left -= 1;
        if self.hold.rounds_left == 0 {
            self.tell(Event::HoldDropped { hold: HOLD })?;
        }
        Ok(())
    }

    /// A worker lacks states: the master sends a recipe, if the round still needs them.
    pub(super) fn on_behind(&mut self, worker: WorkerId, round: RoundId, partitions: Vec<u32>) -> Verdict {
        if self.is_open(round) {
            let steps = self.hold.log.clone();
            let bytes = steps.len() as u64 * self.spec(round).params_bytes;
            self.send_to_executor(worker, ToExecutor::Recipe { round, partitions, steps }, bytes)?;
        }
        self.tell(Event::WorkerSpoke { worker })
    }

    /// The blocks whose states are missing in the version that the round needs; requests them.
    pub(super) fn behind(
        &mut self,
        id: WorkerId,
        round: RoundId,
        base: Version,
        blocks: Vec<Block>,
    ) -> Vec<u32> {
        let states = &mut self.process(id).states;
        states.bases.insert(round, base);
        if base == Version::MADE {
            return Vec::new();
        }
        let behind: Vec<u32> = blocks.into_iter().filter(|b| states.get(*b, base).is_none()).collect();
        if !behind.is_empty() {
            self.tally.states_asked += behind.len() as u64;
            self.send_to_master(id, ToMaster::Behind { round, partitions: behind.clone() }, 0);
        }
        behind
    }

    pub(super) fn on_recipe(
        &mut self,
        id: WorkerId,
        round: RoundId,
        partitions: Vec<u32>,
        steps: Vec<RoundId>,
    ) -> Verdict {
        let states = &mut self.process(id).states;
        if !states.bases.contains_key(&round) {
            return Ok(()); // cancelled meanwhile
        }
        for partition in &partitions {
            states.recipes.insert((round, *partition), steps.clone());
        }
        self.prompt(id, worker::Event::RecipesArrived { round, chunks: partitions })
    }

    /// Finds or rebuilds the state that a block begins with. Returns the number of rounds that were run again.
    pub(super) fn enter_state(
        &mut self,
        id: WorkerId,
        round: RoundId,
        block: Block,
    ) -> Result<u64, crate::Violation> {
        let seed = self.plan.seed;
        let (is_open, truth) = (self.is_open(round), (self.hold.version, self.hold.states[block as usize]));
        let states = &mut self.process(id).states;
        let base = states.bases[&round];
        let mut steps = 0;
        let state = match states.get(block, base) {
            Some(state) => state,
            None => {
                let recipe = states.recipes.remove(&(round, block)).unwrap_or_default();
                steps = recipe.len() as u64;
                let is_made = recipe.last().map_or(Version::MADE, |last| Version::after(*last)) == base;
                promise!(
                    is_made,
                    "no_block_is_run_without_its_state",
                    "{id}: {round}, block {block}: {recipe:?} for {base}"
                );
                let made = oracle::made_state(seed, block);
                let state = recipe.iter().fold(made, |s, r| oracle::next_state(s, value_key(seed, *r)));
                states.keep(block, base, base, state);
                state
            }
        };
        states.entered.insert((round, block), state);
        self.tally.states_restored += u64::from(steps > 0);
        promise!(
            !is_open || truth == (base, state),
            "a_block_is_run_on_the_state_that_the_rounds_before_left",
            "{id}: {round}, block {block}: {base}, should be {}",
            truth.0
        );
        Ok(steps)
    }

    /// A block has run: its new state is kept beside the old one.
    pub(super) fn leave_state(&mut self, id: WorkerId, round: RoundId, block: Block) -> u64 {
        let key = value_key(self.plan.seed, round);
        let is_open = self.is_open(round);
        let states = &mut self.process(id).states;
        let found = states.entered.remove(&(round, block)).expect("it was there when the block was begun");
        let state = oracle::next_state(found, key);
        if is_open {
            let base = states.bases[&round];
            states.keep(block, base, Version::after(round), state);
        }
        state
    }
}
