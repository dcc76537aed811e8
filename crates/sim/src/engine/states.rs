//! Simulated states: what workers keep, what the master keeps to rebuild them, and their expected values.
//!
//! A state is a number that every round changes in its own way. So if a round is omitted, run twice or run on the wrong state, all
//! later rounds show it. In plans with mail it is also changed by the letters that it finds, and some have checkpoints: the
//! state machines under test do not know these, but they decide which letters are kept.

use super::Engine;
use super::queue::{StateRecipe, ToExecutor, ToMaster};
use crate::checkers::{Verdict, mail, promise};
use crate::engine::master::value_key;
use crate::letters::{self, Inboxes, Letter, Posted};
use crate::oracle::{self, Value};
use crate::plan::Plan;
use qjam_core::ids::{Block, HoldId, RoundId, Version, WorkerId};
use qjam_core::mail::{Inbox, Mailroom, Outbox};
use qjam_core::scheduler::Event;
use qjam_core::worker;
use std::collections::{BTreeMap, BTreeSet};

/// The only hold of a plan.
pub(super) const HOLD: HoldId = HoldId(3);

/// The master's data about the hold, and the expected states.
pub(super) struct Hold {
    pub(super) version: Version,
    log: Vec<RoundId>,
    /// The states that a single process without failures would have.
    states: Vec<u64>,
    /// The letters that they would find in the next round.
    inboxes: Vec<Inbox<Letter>>,
    /// The letters of the round that has just been finished.
    pub(super) outbox: Outbox<Letter>,
    mailroom: Mailroom<Letter>,
    checkpoint: Option<(Version, Vec<u64>)>,
    rounds_left: usize,
}

/// The states on one worker.
#[derive(Default)]
pub(super) struct WorkerStates {
    /// At most two versions of each partition.
    kept: BTreeMap<u32, Vec<(Version, u64)>>,
    /// The version that each round begins with.
    bases: BTreeMap<RoundId, Version>,
    /// Rounds whose blocks find mail.
    with_mail: BTreeSet<RoundId>,
    recipes: BTreeMap<(RoundId, u32), StateRecipe>,
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
            inboxes: vec![Vec::new(); chunks as usize],
            outbox: Outbox::default(),
            mailroom: Mailroom::default(),
            checkpoint: None,
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
        self.with_mail.remove(&round);
        self.recipes.retain(|(whose, _), _| *whose != round);
    }
}

impl Engine<'_> {
    /// The version that a round begins with, if it needs states, and whether its blocks find mail.
    pub(super) fn base_of(&self, round: RoundId) -> Option<(Version, bool)> {
        let base = self.hold.version;
        self.spec(round).is_held.then(|| (base, self.hold.mailroom.has_mail(base)))
    }

    /// The expected value of a round over states.
    pub(super) fn states_after(&self, round: RoundId) -> Vec<u64> {
        let key = value_key(self.plan.seed, round);
        let read = self.hold.states.iter().zip(&self.hold.inboxes).map(|(s, inbox)| letters::read(*s, inbox));
        read.map(|state| oracle::next_state(state, key)).collect()
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
            self.hold.inboxes = match self.spec(round).has_mail {
                true => letters::serial(&self.hold.states, round),
                false => vec![Vec::new(); self.hold.states.len()],
            };
            self.commit_mail();
        }
        self.hold.rounds_left -= 1;
        if self.hold.rounds_left == 0 {
            self.tell(Event::HoldDropped { hold: HOLD })?;
        }
        Ok(())
    }

    /// The letters of the round count; now and then the states are copied, and what they were made from is forgotten.
    fn commit_mail(&mut self) {
        let hold = &mut self.hold;
        hold.mailroom.commit(hold.version, std::mem::take(&mut hold.outbox));
        let every = self.plan.checkpoint_every;
        if every > 0 && (hold.log.len() as u64).is_multiple_of(every) {
            hold.log.clear();
            hold.mailroom.forget_before(hold.version);
            hold.checkpoint = Some((hold.version, hold.states.clone()));
        }
    }

    /// A worker lacks states or mail: the master sends recipes, if the round still needs them.
    pub(super) fn on_behind(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        partitions: Vec<u32>,
        only_mail: bool,
    ) -> Verdict {
        if self.is_open(round) {
            let recipes: Vec<(u32, StateRecipe)> =
                partitions.into_iter().map(|p| (p, self.recipe(p, only_mail))).collect();
            let steps: usize = recipes.iter().map(|(_, recipe)| recipe.steps.len()).max().unwrap_or(0);
            let bytes = steps as u64 * self.spec(round).params_bytes;
            self.send_to_executor(worker, ToExecutor::Recipe { round, recipes }, bytes)?;
        }
        self.tell(Event::WorkerSpoke { worker })
    }

    fn recipe(&self, partition: u32, only_mail: bool) -> StateRecipe {
        let hold = &self.hold;
        let mail = |since: Version| -> Inboxes {
            let inboxes = hold.mailroom.inboxes(since..=hold.version, partition);
            inboxes.map(|(version, inbox)| (version, inbox.clone())).collect()
        };
        if only_mail {
            return StateRecipe { mail: mail(hold.version), ..StateRecipe::default() };
        }
        let checkpoint =
            hold.checkpoint.as_ref().map(|(version, states)| (*version, states[partition as usize]));
        let since = checkpoint.map_or(Version::MADE, |(version, _)| version);
        StateRecipe { checkpoint, steps: hold.log.clone(), mail: mail(since) }
    }

    /// The blocks whose states are missing in the version that the round needs, and those that lack their mail; requests both.
    pub(super) fn behind(
        &mut self,
        id: WorkerId,
        round: RoundId,
        (base, has_mail): (Version, bool),
        blocks: Vec<Block>,
    ) -> Vec<u32> {
        let states = &mut self.process(id).states;
        states.bases.insert(round, base);
        if base == Version::MADE {
            return Vec::new();
        }
        if has_mail {
            states.with_mail.insert(round);
        }
        let (here, behind): (Vec<u32>, Vec<u32>) =
            blocks.into_iter().partition(|block| states.get(*block, base).is_some());
        let only_mail = if has_mail { here } else { Vec::new() };
        self.tally.states_asked += behind.len() as u64;
        self.tally.mail_asked += only_mail.len() as u64;
        for (partitions, only_mail) in [(&behind, false), (&only_mail, true)] {
            if !partitions.is_empty() {
                let partitions = partitions.clone();
                self.send_to_master(id, ToMaster::Behind { round, partitions, only_mail }, 0);
            }
        }
        [behind, only_mail].concat()
    }

    pub(super) fn on_recipe(
        &mut self,
        id: WorkerId,
        round: RoundId,
        recipes: Vec<(u32, StateRecipe)>,
    ) -> Verdict {
        let states = &mut self.process(id).states;
        if !states.bases.contains_key(&round) {
            return Ok(()); // cancelled meanwhile
        }
        let chunks = recipes.iter().map(|(partition, _)| *partition).collect();
        states.recipes.extend(recipes.into_iter().map(|(partition, recipe)| ((round, partition), recipe)));
        self.prompt(id, worker::Event::RecipesArrived { round, chunks })
    }

    /// Finds or rebuilds the state that a block begins with, and reads its mail. Returns the number of rounds that were run again.
    pub(super) fn enter_state(
        &mut self,
        id: WorkerId,
        round: RoundId,
        block: Block,
    ) -> Result<u64, crate::Violation> {
        let seed = self.plan.seed;
        let (is_open, truth) = (self.is_open(round), (self.hold.version, self.hold.states[block as usize]));
        let expected = self.hold.inboxes[block as usize].clone();
        let states = &mut self.process(id).states;
        let base = states.bases[&round];
        let recipe = states.recipes.remove(&(round, block));
        promise!(
            recipe.is_some() || !states.with_mail.contains(&round),
            "no_block_is_run_without_its_mail",
            "{id}: {round}, block {block}"
        );
        let recipe = recipe.unwrap_or_default();
        let mut steps = 0;
        let state = match states.get(block, base) {
            Some(state) => state,
            None => {
                steps = recipe.steps.len() as u64;
                let made = (Version::MADE, oracle::made_state(seed, block));
                let (mut version, mut state) = recipe.checkpoint.unwrap_or(made);
                for step in &recipe.steps {
                    let inbox = recipe.mail.get(&version).cloned().unwrap_or_default();
                    state = oracle::next_state(letters::read(state, &inbox), value_key(seed, *step));
                    version = Version::after(*step);
                }
                promise!(
                    version == base,
                    "no_block_is_run_without_its_state",
                    "{id}: {round}, block {block}: {recipe:?} for {base}"
                );
                states.keep(block, base, base, state);
                state
            }
        };
        let inbox = recipe.mail.get(&base).cloned().unwrap_or_default();
        states.entered.insert((round, block), letters::read(state, &inbox));
        self.tally.letters_read += inbox.len() as u64;
        self.tally.states_restored += u64::from(steps > 0);
        promise!(
            !is_open || truth == (base, state),
            "a_block_is_run_on_the_state_that_the_rounds_before_left",
            "{id}: {round}, block {block}: {base}, should be {}",
            truth.0
        );
        if is_open {
            mail::found((id, round, block, base), &inbox, &expected)?;
        }
        Ok(steps)
    }

    /// A block has run: its new state is kept beside the old one. Gives its value and its letters.
    pub(super) fn leave_state(&mut self, id: WorkerId, round: RoundId, block: Block) -> Posted {
        let key = value_key(self.plan.seed, round);
        let is_open = self.is_open(round);
        let states = &mut self.process(id).states;
        let found = states.entered.remove(&(round, block)).expect("it was there when the block was begun");
        let state = oracle::next_state(found, key);
        if is_open {
            let base = states.bases[&round];
            states.keep(block, base, Version::after(round), state);
        }
        let mut posted = Posted::from(Value::of_chunk(state, 0));
        let spec = self.spec(round);
        if spec.has_mail {
            for (to, letter) in letters::sent(state, round, spec.cut.chunks) {
                posted.outbox.put(block, to, letter);
            }
        }
        posted
    }
}
