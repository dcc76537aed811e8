//! Holds: what the master knows of states that workers keep for it.
//!
//! The state of a partition is a function of its chunk and of the rounds that had a value. So the master keeps no
//! states, but what they can be made from: the last checkpoint and the rounds since, with their parameters. A worker
//! that lacks a state asks, and is given that as a recipe.
//!
//! Mail between partitions is kept the same way: the letters that the last round with a value has sent, for the next one, and
//! those that the rounds since the last checkpoint found. They are committed with the version of the states, and passed on
//! without being read.
//!
//! A checkpoint is a round of our own. It is due when the rounds since the last one took sixty times what that cost,
//! so that all of them together stay under a fiftieth of the time even if one takes longer than the last; or when the
//! parameters since then take much memory.

use super::Driver;
use crate::codec::Encoder;
use crate::dataset::CutData;
use crate::engine::seat::Gone;
use crate::error::Error;
use crate::execution::recipes::{Inboxes, RecipeStep, StateRecipe};
use crate::function::Function;
use crate::master::options::StateCheck;
use crate::runs::{Hash, Saved};
use crate::state::{ErasedState, Portraits};
use bytes::Bytes;
use qjam_core::ids::{HoldId, RoundId, Version};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::journal::What;
use qjam_core::mail::{Mailroom, Outbox};
use qjam_core::order::{HeldTask, MailTask};
use qjam_core::scheduler::Event;
use qjam_data::mail::Sealed;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A checkpoint may take one part in so many of the time.
const COST: u64 = 60;
/// What bringing states home is taken to cost until it has been measured: bytes in a microsecond, and a round.
const BYTES_PER_US: u64 = 100;
const ROUND_US: u64 = 1_000;
/// A checkpoint is due when the rounds since the last take so many bytes.
const LOG_BYTES_MAX: u64 = 256 << 20;
/// What a round in the log takes besides its parameters.
const STEP_BYTES: u64 = 128;
/// What a letter takes besides its content.
const LETTER_BYTES: u64 = 64;

/// A round that had a value.
struct Logged {
    round: RoundId,
    function: Arc<str>,
    params: Bytes,
    /// Length of the letters that it found.
    mail_bytes: u64,
}

impl Logged {
    /// What it takes to remember it.
    fn bytes(&self) -> u64 {
        self.params.len() as u64 + self.mail_bytes + STEP_BYTES
    }
}

/// States that were brought home.
struct Checkpoint {
    version: Version,
    states: Vec<Bytes>,
}

/// What bringing states home is charged with.
pub(crate) enum Cost {
    /// Nothing: the user asked for them.
    None,
    /// What it took; `None` if it took longer for reasons that are not its own, so that the last one says more.
    Took(Option<u64>),
}

/// Time that rounds and checkpoints of a hold took.
#[derive(Default)]
struct Spending {
    /// All rounds, and those since the last checkpoint.
    worked_us: u64,
    since_us: u64,
    /// All checkpoints, and the last one.
    spent_us: u64,
    cost_us: Option<u64>,
}

/// What the master knows of one hold.
struct Hold {
    data: Arc<CutData>,
    /// The function that looks at them.
    look: Function,
    /// As the last round that had a value left them.
    version: Version,
    /// The round that is changing them.
    open: Option<RoundId>,
    checkpoint: Option<Checkpoint>,
    /// Rounds after the checkpoint, oldest first.
    log: Vec<Logged>,
    log_bytes: u64,
    /// Letters that the next round finds, and those that the rounds in the log found.
    mail: Mailroom<Sealed>,
    /// Length of those that the next round finds.
    mail_bytes: u64,
    /// Length of all states together, when that was last seen.
    bytes: u64,
    spending: Spending,
    /// The hash of all rounds that led to the version, where the run is recorded.
    chain: Hash,
    /// Checkpoints of the run that this one goes on from.
    saved: Vec<Saved>,
}

/// What a round has to do with states.
pub(super) struct HeldRound {
    pub(super) task: HeldTask,
    /// Its number, unless it is one of ours.
    round: Option<RoundId>,
    /// What goes into the log when it has its value; nothing if it only reads.
    step: Option<Logged>,
    /// The hash of its parameters, where the run is recorded.
    params: Option<Hash>,
}

impl HeldRound {
    /// Keeps the parameters for the log.
    pub(super) fn keep_params(&mut self, params: impl FnOnce() -> Bytes) {
        if let Some(step) = self.step.as_mut().filter(|step| step.params.is_empty()) {
            step.params = params();
        }
    }
}

impl Hold {
    /// Takes the checkpoint that the earlier run made here, if it did.
    fn recall_checkpoint(&mut self) {
        let (chain, version, partitions) = (self.chain, self.version, self.data.chunks.len());
        let saved = self.saved.iter().find(|saved| (saved.chain, saved.version) == (chain, version));
        if let Some(states) = saved.and_then(|saved| saved.load(partitions)) {
            self.set_checkpoint(Checkpoint { version, states });
        }
    }

    /// What was before a checkpoint is of no more use.
    fn set_checkpoint(&mut self, checkpoint: Checkpoint) {
        self.log.retain(|step| Version::after(step.round) > checkpoint.version);
        self.log_bytes = self.log.iter().map(Logged::bytes).sum();
        self.mail.forget_before(checkpoint.version);
        self.checkpoint = Some(checkpoint);
        self.spending.since_us = 0;
    }

    /// What the next checkpoint may be expected to take.
    fn expected_cost_us(&self) -> u64 {
        self.spending.cost_us.unwrap_or(self.bytes / BYTES_PER_US + ROUND_US)
    }
}

/// All holds of a master.
#[derive(Default)]
pub(super) struct Holds {
    holds: HashMap<HoldId, Hold>,
    next: u64,
}

impl Holds {
    /// Begins to hold states over a data set.
    fn add(&mut self, data: Arc<CutData>, state: &dyn ErasedState, saved: Vec<Saved>) -> HoldId {
        let id = HoldId(self.next);
        self.next += 1;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&data.id.0).update(state.name().as_bytes());
        let hold = Hold {
            data,
            look: state.look(),
            version: Version::MADE,
            open: None,
            checkpoint: None,
            log: Vec::new(),
            log_bytes: 0,
            mail: Mailroom::default(),
            mail_bytes: 0,
            bytes: 0,
            spending: Spending::default(),
            chain: *hasher.finalize().as_bytes(),
            saved,
        };
        self.holds.insert(id, hold);
        id
    }

    fn get(&self, hold: HoldId) -> Option<&Hold> {
        self.holds.get(&hold)
    }

    /// Why a round over these states cannot begin.
    pub(super) fn refusal(&self, hold: HoldId, function: &Function) -> Option<Error> {
        match self.holds.get(&hold) {
            None => Some(Error::Cancelled),
            Some(hold) if hold.open.is_some() && !function.is_internal() => Some(Error::HeldBusy),
            Some(_) => None,
        }
    }

    /// A round over states begins, on workers that may or may not carry mail. Parameters that are not given here are kept
    /// later, before it is over.
    pub(super) fn begin(
        &mut self,
        id: HoldId,
        round: RoundId,
        function: &Function,
        params: Option<&Encoder<'_>>,
        carries_mail: bool,
    ) -> Option<HeldRound> {
        let hold = self.holds.get_mut(&id)?;
        let mail = match carries_mail {
            true if hold.mail.has_mail(hold.version) && !function.only_looks() => MailTask::Letters,
            true => MailTask::Nothing,
            false => MailTask::NotCarried,
        };
        let task = HeldTask { hold: id, base: hold.version, mail };
        if function.is_internal() {
            return Some(HeldRound { task, round: None, step: None, params: None });
        }
        hold.open = Some(round);
        let mail_bytes = hold.mail_bytes;
        let step = (!function.only_looks()).then(|| {
            let params = params.map(Encoder::to_bytes).unwrap_or_default();
            Logged { round, function: function.name().into(), params, mail_bytes }
        });
        Some(HeldRound { task, round: Some(round), step, params: None })
    }

    /// The hash by which a round is found again: that of its parameters, given here, with those of all rounds that led to
    /// the states it begins with.
    pub(super) fn hash_of(&self, held: Option<&mut HeldRound>, hash: Hash) -> Hash {
        let Some(held) = held.filter(|held| held.round.is_some()) else { return hash };
        held.params = Some(hash);
        let chain = self.holds.get(&held.task.hold).map_or([0; 32], |hold| hold.chain);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&chain).update(&hash);
        *hasher.finalize().as_bytes()
    }

    /// A round over states is over. `sent` is what its blocks have sent, if it has a value; `took_us` if it was computed here.
    pub(super) fn end(&mut self, held: HeldRound, sent: Option<Outbox<Sealed>>, took_us: Option<u64>) {
        let HeldRound { task, round: Some(round), step, params } = held else { return };
        let Some(hold) = self.holds.get_mut(&task.hold) else { return };
        if hold.open == Some(round) {
            hold.open = None;
        }
        let (Some(step), Some(sent)) = (step, sent) else { return };
        if let Some(params) = params {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&hold.chain).update(&step.round.0.to_le_bytes());
            hasher.update(step.function.as_bytes()).update(&params);
            hold.chain = *hasher.finalize().as_bytes();
        }
        hold.version = Version::after(step.round);
        hold.mail_bytes =
            sent.iter().map(|envelope| envelope.letter.content.len() as u64 + LETTER_BYTES).sum();
        hold.mail.commit(hold.version, sent);
        hold.log_bytes += step.bytes();
        hold.log.push(step);
        hold.spending.worked_us += took_us.unwrap_or(0);
        hold.spending.since_us += took_us.unwrap_or(0);
        if took_us.is_none() {
            hold.recall_checkpoint();
        }
    }
}

impl Driver {
    /// Begins to hold states over a data set.
    pub(crate) fn hold(&mut self, data: Arc<CutData>, state: &dyn ErasedState) -> HoldId {
        let saved = self.recording.saved_states();
        self.holds.add(data, state, saved)
    }

    /// Nobody wants these states any more.
    pub(crate) fn release(&mut self, hold: HoldId) {
        let Some(gone) = self.holds.holds.remove(&hold) else { return };
        if let Some(round) = gone.open {
            self.cancel(round);
        }
        if !self.has_crew() {
            self.tell(Event::HoldDropped { hold });
        }
        self.announce(Gone::Hold(hold));
    }

    /// What is asked about states that come home.
    pub(crate) fn state_check(&self) -> Option<StateCheck> {
        self.options.callbacks.state_check.clone()
    }

    /// The function that looks at a hold's states.
    pub(crate) fn look_of(&self, hold: HoldId) -> Option<Function> {
        self.holds.get(hold).map(|hold| hold.look.clone())
    }

    /// Holds that have states on the seat of this name.
    pub(crate) fn holds_on(&self, name: &str) -> Vec<(HoldId, Arc<CutData>)> {
        let Some(seat) = self.seats.named(name) else { return Vec::new() };
        let is_home = |hold: &HoldId| self.decider.scheduler.is_home(*hold, seat);
        let mut holds: Vec<_> = self.holds.holds.iter().filter(|(id, _)| is_home(id)).collect();
        holds.sort_by_key(|(id, _)| **id);
        holds.into_iter().map(|(id, hold)| (*id, hold.data.clone())).collect()
    }

    // ---- checkpoints ------------------------------------------------------------------------------------------

    /// Whether states should be brought home before the next round.
    pub(crate) fn checkpoint_is_due(&self, hold: HoldId) -> bool {
        let Some(hold) = self.holds.get(hold) else { return false };
        let spending = &hold.spending;
        // While rounds are answered from an earlier run nobody has the states of the last of them.
        if hold.log.is_empty() || spending.since_us == 0 {
            return false;
        }
        let cost_us = hold.expected_cost_us();
        let is_paid_for =
            spending.since_us >= COST * cost_us && spending.worked_us >= COST * (spending.spent_us + cost_us);
        is_paid_for || hold.log_bytes > LOG_BYTES_MAX
    }

    /// The version that a look at a hold's states would find.
    pub(crate) fn version_of(&self, hold: HoldId) -> Option<Version> {
        self.holds.get(hold).map(|hold| hold.version)
    }

    /// It is known how large the states are.
    pub(crate) fn keep_sizes(&mut self, hold: HoldId, portraits: &Portraits) {
        if let Some(hold) = self.holds.holds.get_mut(&hold) {
            hold.bytes = portraits.0.iter().map(|p| p.bytes).sum();
        }
    }

    /// States have come home.
    pub(crate) fn keep_checkpoint(&mut self, id: HoldId, version: Version, portraits: Portraits, cost: Cost) {
        self.keep_sizes(id, &portraits);
        let Some(hold) = self.holds.holds.get_mut(&id) else { return };
        let states: Option<Vec<Bytes>> = portraits.0.into_iter().map(|p| p.state).collect();
        let is_newer = hold.checkpoint.as_ref().is_none_or(|old| old.version <= version);
        let Some(states) = states.filter(|_| is_newer) else { return };
        let partitions = states.len() as u32;
        let begun = Instant::now();
        let saved = match hold.version == version {
            true => self.recording.save_states(id, hold.chain, version, &states),
            false => Ok(()),
        };
        let saving_us = begun.elapsed().as_micros() as u64;
        hold.set_checkpoint(Checkpoint { version, states });
        let took_us = match cost {
            Cost::None => 0,
            Cost::Took(Some(us)) => us + saving_us,
            Cost::Took(None) => hold.expected_cost_us(),
        };
        if let Cost::Took(Some(_)) = cost {
            hold.spending.cost_us = Some(took_us);
        }
        hold.spending.spent_us += took_us;
        let bytes = hold.bytes;
        self.note(What::Checkpointed { hold: id, version, partitions, bytes, took_us });
        if let Err(e) = saved {
            self.say(format!("a checkpoint could not be written beside the run file: {e}"));
        }
    }

    /// A checkpoint that was due could not be made. It is tried again after as long as if it had been.
    pub(crate) fn miss_checkpoint(&mut self, hold: HoldId, error: &Error) {
        if let Some(hold) = self.holds.holds.get_mut(&hold) {
            hold.spending.since_us = 0;
        }
        self.say(format!("a checkpoint could not be made, and the run goes on without it: {error}"));
    }

    /// How the states of these partitions are made, as a round needs them, and what mail they find; the latter alone if whoever
    /// asks has the states. Where they cannot be made, the round fails.
    pub(super) fn recipe(
        &mut self,
        id: RoundId,
        partitions: &[u32],
        only_mail: bool,
    ) -> Result<Option<StateRecipe>, String> {
        let Some(round) = self.rounds.get(id).filter(|round| !round.is_answered) else { return Ok(None) };
        let Some(HeldTask { hold, base, .. }) = round.order.head.held else {
            return Err(format!("it asked for states, and {id} has none"));
        };
        let chunks = round.order.head.cut.chunks;
        if let Some(partition) = partitions.iter().find(|p| **p >= chunks) {
            return Err(format!("it asked for the state of partition {partition} of {chunks}"));
        }
        let Some(hold) = self.holds.get(hold) else { return Ok(None) };
        let mail_since = |version: Version| {
            let inboxes = move |partition: &u32| -> (u32, Inboxes) {
                let inboxes = hold.mail.inboxes(version..=base, *partition);
                (*partition, inboxes.map(|(version, inbox)| (version, inbox.clone())).collect())
            };
            partitions.iter().map(inboxes)
        };
        if only_mail {
            return Ok(Some(StateRecipe::new(HashMap::new(), Vec::new()).with_mail(mail_since(base))));
        }
        let checkpoint = hold.checkpoint.as_ref();
        if checkpoint.is_some_and(|checkpoint| checkpoint.version > base) {
            // A look that others have overtaken.
            let fault = Fault::new(FaultKind::State, "the states have changed meanwhile".into());
            self.tell(Event::Faulted { worker: None, round: id, fault });
            return Ok(None);
        }
        let start = |partition: u32| match checkpoint {
            Some(Checkpoint { version, states }) => (*version, states.get(partition as usize).cloned()),
            None => (Version::MADE, None),
        };
        let starts = partitions.iter().map(|&partition| (partition, start(partition))).collect();
        let steps = hold.log.iter().filter(|step| Version::after(step.round) <= base);
        let steps =
            steps.map(|s| Arc::new(RecipeStep::new(s.round, s.function.clone(), s.params.clone()))).collect();
        let since = checkpoint.map_or(Version::MADE, |checkpoint| checkpoint.version);
        Ok(Some(StateRecipe::new(starts, steps).with_mail(mail_since(since))))
    }
}
