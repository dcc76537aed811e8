//! States that a worker keeps between rounds, and how a block finds and changes its own.
//!
//! A round works on a copy, and both are kept: as the round found it and as it left it. The next round names the one it
//! wants: what the round before left, if that had a value, otherwise what it found. So a round that failed, was
//! cancelled or was run only here and there changes nothing, and nobody has to be told to go back.
//!
//! A state that is not here as the round wants it is made: from its chunk, or by a recipe, inside the block that needs
//! it. So whoever dies of it is blamed as for any block, and whoever calls the round off is heard between two steps.

use super::faults::caught;
use super::recipes::{RestoredState, StateRecipe};
use super::round::{BlockRunner, Stopped, plain};
use crate::ctx::Ctx;
use crate::function::AnyBox;
use crate::state::{AnyState, ErasedState, Portraits};
use bytes::Bytes;
use qjam_core::ids::{HoldId, Version};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::order::{HeldTask, MailTask};
use qjam_core::wire::message::Restored;
use qjam_data::mail::Post;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of the round that a state is made in: none that there will be.
const NO_ROUND: u64 = u64::MAX;

/// A state is there so many times: as a round found it, as it left it, and encoded, on its way home or back.
pub(crate) const COPIES: u64 = 3;

/// The states of a hold.
type Partitions = HashMap<u32, Arc<Mutex<PartitionVersions>>>;

/// All states of a worker.
#[derive(Default)]
pub(crate) struct States {
    holds: Mutex<HashMap<HoldId, Partitions>>,
    /// Most bytes of private memory, if there is a limit.
    memory_bytes_max: Option<u64>,
}

/// What partitions of a round lack.
pub(crate) struct Lacking {
    /// Those whose states are not here. The answer brings their letters, too.
    pub(crate) states: Vec<u32>,
    /// Those that lack nothing but their letters.
    pub(crate) mail_only: Vec<u32>,
}

impl Lacking {
    /// All of them.
    pub(crate) fn all(&self) -> Vec<u32> {
        [&self.states[..], &self.mail_only].concat()
    }
}

/// One partition's.
#[derive(Default)]
struct PartitionVersions {
    /// As a round found it and as it left it.
    versions: Vec<(Version, AnyState)>,
    /// Length of one of them, encoded.
    bytes: u64,
    /// The slot that ran its last round.
    slot: Option<u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl States {
    pub(crate) fn new(memory_bytes_max: Option<u64>) -> Self {
        States { holds: Mutex::default(), memory_bytes_max }
    }

    fn of(&self, hold: HoldId, partition: u32) -> Arc<Mutex<PartitionVersions>> {
        lock(&self.holds).entry(hold).or_default().entry(partition).or_default().clone()
    }

    /// What has to be asked for before these partitions can be run.
    pub(crate) fn lacking(&self, held: HeldTask, partitions: impl Iterator<Item = u32>) -> Lacking {
        let partitions: Vec<u32> = partitions.collect();
        let states = self.behind(held, partitions.iter().copied());
        let mail_only = match held.mail {
            MailTask::Letters => {
                let asked: HashSet<u32> = states.iter().copied().collect();
                partitions.into_iter().filter(|partition| !asked.contains(partition)).collect()
            }
            MailTask::Nothing | MailTask::NotCarried => Vec::new(),
        };
        Lacking { states, mail_only }
    }

    /// Those of these partitions whose states are not here as they are wanted, and cannot be made from their chunks.
    pub(crate) fn behind(&self, held: HeldTask, partitions: impl Iterator<Item = u32>) -> Vec<u32> {
        if held.base == Version::MADE {
            return Vec::new();
        }
        let holds = lock(&self.holds);
        let here = holds.get(&held.hold);
        let has = |partition: &u32| {
            here.and_then(|hold| hold.get(partition)).is_some_and(|kept| lock(kept).has(held.base))
        };
        partitions.filter(|partition| !has(partition)).collect()
    }

    /// Nobody will ask for these states again. Dropping them is the user's code.
    pub(crate) fn release(&self, hold: HoldId) {
        let gone = lock(&self.holds).remove(&hold);
        let _ = caught(None, || drop(gone));
    }

    /// Whether there is room for the states of so many partitions of this size.
    fn check_room(&self, hold: HoldId, partitions: u32, bytes: u64) -> Result<(), FaultKind> {
        let Some(limit) = self.memory_bytes_max else { return Ok(()) };
        let holds = lock(&self.holds);
        let others = holds.iter().filter(|(id, _)| **id != hold).flat_map(|(_, hold)| hold.values());
        let others: u64 = others.map(|kept| COPIES * lock(kept).bytes).sum();
        let here = holds.get(&hold).map_or(0, |hold| hold.len() as u32).max(partitions);
        let all = u64::from(here).saturating_mul(bytes.saturating_mul(COPIES)).saturating_add(others);
        // An eighth is left for everything else.
        if all <= limit - limit / 8 {
            return Ok(());
        }
        Err(FaultKind::StateMemory { partitions: here, bytes, limit })
    }
}

impl PartitionVersions {
    fn has(&self, version: Version) -> bool {
        self.versions.iter().any(|(v, _)| *v == version)
    }

    /// A copy of one version, in the memory of the other.
    fn copy(&mut self, kind: &dyn ErasedState, base: Version) -> Option<AnyState> {
        if !self.has(base) {
            return None;
        }
        let other = self.versions.iter().position(|(v, _)| *v != base);
        let old = other.map(|n| self.versions.swap_remove(n).1);
        let (_, state) = self.versions.iter().find(|(v, _)| *v == base)?;
        Some(kind.copy(state, old))
    }

    /// Keeps a state, and besides it only what it was made from.
    fn keep(&mut self, base: Version, version: Version, state: AnyState) {
        self.versions.retain(|(v, _)| *v == base && *v != version);
        self.versions.push((version, state));
    }
}

/// What a round here needs to know of states.
pub(crate) struct RoundStates {
    pub(crate) task: HeldTask,
    states: Arc<States>,
    /// How to make those that are not here.
    recipes: Mutex<HashMap<u32, Arc<StateRecipe>>>,
    /// Those that were made, since the last delivery.
    restored: Mutex<Vec<Restored>>,
    /// How many partitions this worker has been given.
    given: AtomicU32,
}

impl RoundStates {
    pub(crate) fn new(task: HeldTask, states: Arc<States>) -> Self {
        RoundStates {
            task,
            states,
            recipes: Mutex::default(),
            restored: Mutex::default(),
            given: AtomicU32::new(0),
        }
    }

    /// More partitions come.
    pub(crate) fn give(&self, partitions: u32) {
        self.given.fetch_add(partitions, Relaxed);
    }

    /// It is known how to make the states of these partitions.
    pub(crate) fn take_in(&self, recipe: &Arc<StateRecipe>) -> Vec<u32> {
        let partitions: Vec<u32> = recipe.partitions().collect();
        lock(&self.recipes).extend(partitions.iter().map(|p| (*p, recipe.clone())));
        partitions
    }

    /// The slot on which a partition has to run, if it has to run where it ran last.
    pub(crate) fn slot_of(&self, here: &BlockRunner, index: u32) -> Option<u32> {
        if !here.function.state().is_some_and(ErasedState::stays_in_slot) {
            return None;
        }
        let holds = lock(&self.states.holds);
        let kept = holds.get(&self.task.hold).and_then(|hold| hold.get(&index))?;
        lock(kept).slot
    }

    /// What was made since the last time.
    pub(crate) fn take_restored(&self) -> Vec<Restored> {
        std::mem::take(&mut *lock(&self.restored))
    }

    /// Runs a step on the state of its chunk.
    pub(crate) fn run(
        &self,
        here: &BlockRunner,
        slot: u32,
        index: u32,
        chunk: &(dyn Any + Send + Sync),
        ctx: &Ctx,
    ) -> Result<AnyBox, Stopped> {
        let function = &here.function;
        let kind = function.state().ok_or_else(|| {
            plain(FaultKind::State, index, "a function without a state was given one".into())
        })?;
        let HeldTask { hold, base, mail } = self.task;
        let recipe = lock(&self.recipes).remove(&index);
        let inbox = match (mail, &recipe) {
            (MailTask::Letters, None) => {
                return Err(plain(FaultKind::Mail, index, "nobody said what mail there is".into()).into());
            }
            (MailTask::Letters, Some(recipe)) => recipe.inbox(index, base),
            (MailTask::Nothing | MailTask::NotCarried, _) => Vec::new(),
        };
        let kept = self.states.of(hold, index);
        lock(&kept).slot = Some(slot);
        if !lock(&kept).has(base) {
            let mut made = self.make(here, kind, recipe, index, chunk)?;
            let bytes = caught(Some(index), || {
                kind.settle(&mut made, chunk, ctx);
                kind.bytes(&made) as u64
            })?;
            let given = self.given.load(Relaxed);
            self.states.check_room(hold, given, bytes).map_err(|kind| {
                plain(kind, index, "the states of this worker do not fit its memory".into())
            })?;
            let mut kept = lock(&kept);
            kept.bytes = bytes;
            kept.keep(base, base, made);
        }
        if function.only_looks() {
            let mut kept = lock(&kept);
            let state = kept.versions.iter_mut().find(|(v, _)| *v == base);
            let (_, state) = state.ok_or_else(|| gone(index))?;
            return Ok(caught(Some(index), || function.step(&*here.params, chunk, state, ctx))?);
        }
        let mut state = lock(&kept).copy(kind, base).ok_or_else(|| gone(index))?;
        let post = Post::new(index, here.cut.chunks, mail != MailTask::NotCarried, inbox);
        let ctx = ctx.with_post(post.clone());
        let value = caught(Some(index), || function.step(&*here.params, chunk, &mut state, &ctx));
        // What it did wrong with its mail may be why it panicked.
        if let Some(fault) = post.take_fault() {
            return Err(fault.into());
        }
        let value = value?;
        if here.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        lock(&kept).keep(base, Version::after(here.id), state);
        Ok(value)
    }

    /// The state that this round has left, encoded; `None` if it left none. To be called by the thread that ran the step.
    pub(crate) fn encoded_after(
        &self,
        here: &BlockRunner,
        index: u32,
        chunk: &(dyn Any + Send + Sync),
        ctx: &Ctx,
    ) -> Result<Option<Bytes>, Fault> {
        let Some(kind) = here.function.state() else { return Ok(None) };
        let kept = self.states.of(self.task.hold, index);
        let mut kept = lock(&kept);
        let version = Version::after(here.id);
        let Some((_, state)) = kept.versions.iter_mut().find(|(v, _)| *v == version) else { return Ok(None) };
        let look = caught(Some(index), || kind.look().step(&true, chunk, state, ctx))?;
        let portraits = look.downcast::<Portraits>().expect("a look gives portraits");
        Ok(portraits.0.into_iter().next().and_then(|portrait| portrait.state))
    }

    /// Makes a state as the round wants it.
    fn make(
        &self,
        here: &BlockRunner,
        kind: &'static dyn ErasedState,
        recipe: Option<Arc<StateRecipe>>,
        index: u32,
        chunk: &(dyn Any + Send + Sync),
    ) -> Result<AnyState, Stopped> {
        let init = || {
            let ctx = here.ctx(NO_ROUND, index);
            caught(Some(index), || kind.init(chunk, &ctx))
        };
        if self.task.base == Version::MADE {
            return Ok(init()?);
        }
        let recipe = recipe.ok_or_else(|| {
            plain(FaultKind::State, index, format!("nobody said how to make it {}", self.task.base))
        })?;
        let RestoredState { state, from, steps, version } = recipe.cook(here, kind, index, chunk, &init)?;
        if version != self.task.base {
            let why = format!("the recipe made it {version}, and it is wanted {}", self.task.base);
            return Err(plain(FaultKind::State, index, why).into());
        }
        lock(&self.restored).push(Restored { partition: index, from, steps });
        Ok(state)
    }
}

/// A state that was here a moment ago: another slot has run the same partition for another round meanwhile.
fn gone(index: u32) -> Fault {
    plain(FaultKind::State, index, "the state was dropped while it was needed".into())
}
