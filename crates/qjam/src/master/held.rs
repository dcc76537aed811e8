//! States that stay with the data, as users see them.

use super::Master;
use super::driver::{Cost, Driver, RoundRequest};
use super::options::StateCheck;
use super::pending::{Pending, begin};
use super::shared_loop::SharedLoop;
use crate::codec::{Encoder, Params};
use crate::dataset::{CutData, DataSet};
use crate::engine::lent::{Lent, Loan};
use crate::error::{Error, Result};
use crate::function::{Function, Job};
use crate::registry;
use crate::state::{self, Portraits, State};
use qjam_core::ids::{HoldId, Version};
use qjam_core::journal::RoundReport;
use qjam_data::RoundData;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The states of all chunks of a data set, each on the worker that has the chunk. Made by [`Master::hold`].
///
/// A function that takes the state as `&mut` is [`run`](Held::run) like any other: a round over all chunks, whose results
/// are combined in the fixed order. What it changed counts only if the round has a value. A state that is lost with its
/// worker is made again elsewhere, with the same bits, from the last checkpoint and the rounds since; the others stay as
/// they are. Checkpoints are made by themselves, and take at most a fiftieth of the time.
///
/// Dropping it has the workers drop their states.
///
/// A function for another state, or for none, does not compile:
///
/// ```compile_fail,E0271
/// # use qjam::{Ctx, DataSet, Dense, Master, State};
/// #[derive(Clone, qjam::Wire)] struct Alpha(f64);
/// #[derive(Clone, qjam::Wire)] struct Beta(f64);
/// # impl State for Alpha { type Chunk = Dense<f64>; fn init(_: &Dense<f64>, _: &Ctx) -> Self { Alpha(0.0) } }
/// # impl State for Beta { type Chunk = Dense<f64>; fn init(_: &Dense<f64>, _: &Ctx) -> Self { Beta(0.0) } }
/// #[qjam::map]
/// fn step(_: &(), _: &Dense<f64>, beta: &mut Beta) -> f64 { beta.0 }
///
/// fn wrong(m: &Master, x: &DataSet<Dense<f64>>) -> qjam::Result<f64> {
///     m.hold::<Alpha>(x)?.run(step, &())          // `step` changes a `Beta`
/// }
/// ```
pub struct Held<S: State> {
    shared: Arc<SharedLoop>,
    hold: HoldId,
    data: DataSet<S::Chunk>,
    state: PhantomData<fn() -> S>,
}

impl Master {
    /// Has the workers make and keep a state for each chunk of a data set. For as many states as you like, cut it with
    /// [`partitions`](DataSet::partitions) first.
    ///
    /// Where worker processes have a [memory limit](super::Builder::memory_limit) it is refused with
    /// [`Error::StateMemory`] if they do not fit: each is there three times, as a round found it, as it left it, and on its way
    /// home for a checkpoint. An eighth of the limit is left for everything else.
    pub fn hold<S: State>(&self, data: &impl RoundData<Chunk = S::Chunk>) -> Result<Held<S>> {
        let kind = registry::state(std::any::type_name::<S>())?;
        let cut = data.erased().clone();
        cut.check()?;
        let hold = self.ask(false, |driver| driver.hold(cut, kind));
        let held =
            Held { shared: self.shared.clone(), hold, data: data.as_set(), state: PhantomData::<fn() -> S> };
        let portraits = held.looker().look(false)?.portraits;
        self.ask(false, |driver| driver.keep_sizes(hold, &portraits));
        Ok(held)
    }

    /// Brings home what is on a worker that is about to leave, so that others need not make it again.
    pub(super) fn save_states_on(&self, name: &str) {
        for (hold, data) in self.ask(false, |driver| driver.holds_on(name)) {
            let look = self.ask(false, |driver| driver.look_of(hold));
            let Some(function) = look else { continue };
            let looker = Looker { shared: &self.shared, hold, data: &data, function };
            if let Err(e) = looker.checkpoint() {
                self.ask(false, |driver| driver.miss_checkpoint(hold, &e));
            }
        }
    }
}

impl<S: State> Held<S> {
    /// Runs a function over all chunks, each with its state, and combines the results.
    pub fn run<F, M>(&mut self, f: F, params: &F::Params) -> Result<F::Output>
    where
        F: Job<M, Chunk = S::Chunk, State = S>,
    {
        self.checkpoint_if_due();
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        #[expect(unsafe_code, reason = "the caller's memory is lent out while this function waits")]
        // SAFETY: it is dropped when this function returns or unwinds, after the round has been answered or cancelled.
        let loan = unsafe { Loan::new(&encoder) };
        self.begin(f.erase(), &encoder, Some(loan.lent()), submitted)?.wait()
    }

    /// The same for callers that must look up now and then: see [`Master::run_while`].
    pub fn run_while<F, M>(
        &mut self,
        f: F,
        params: &F::Params,
        pause: Duration,
        goes_on: impl FnMut(&Pending<F::Output>) -> bool,
    ) -> Result<(F::Output, Option<RoundReport>)>
    where
        F: Job<M, Chunk = S::Chunk, State = S>,
    {
        self.checkpoint_if_due();
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        #[expect(unsafe_code, reason = "the caller's memory is lent out while this function waits")]
        // SAFETY: it is dropped when this function returns or unwinds, after the round has been answered or cancelled.
        let loan = unsafe { Loan::new(&encoder) };
        self.begin(f.erase(), &encoder, Some(loan.lent()), submitted)?.wait_while(pause, goes_on)
    }

    /// Begins a round and returns at once; [`Pending::wait`] gives its value. The next one can begin when it is over: until
    /// then this fails with [`Error::HeldBusy`].
    pub fn submit<F, M>(&mut self, f: F, params: &F::Params) -> Result<Pending<F::Output>>
    where
        F: Job<M, Chunk = S::Chunk, State = S>,
    {
        self.checkpoint_if_due();
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        self.begin(f.erase(), &encoder, None, submitted)?.unless_busy()
    }

    fn begin<T>(
        &self,
        function: Function,
        params: &Encoder<'_>,
        lent: Option<Lent>,
        submitted: Instant,
    ) -> Result<Pending<T>> {
        registry::weigh(function.name())?;
        self.data.must_be_unchanged()?;
        let (data, answer) = (self.data.erased().clone(), Arc::default());
        let request = RoundRequest {
            function,
            data,
            answer,
            submitted,
            held: Some(self.hold),
            accumulator_bytes: None,
        };
        begin(&self.shared, request, params, lent, None)
    }

    /// Brings all states home, in the order of the chunks.
    pub fn collect(&self) -> Result<Vec<S>> {
        let Look { mut portraits, version, .. } = self.looker().look(true)?;
        let read = |portrait: &state::Portrait| {
            let state = portrait.state.clone().unwrap_or_default();
            state::decode::<S>(state).map_err(|source| Error::State { partition: portrait.partition, source })
        };
        let states = portraits.0.iter().map(read).collect::<Result<Vec<S>>>()?;
        self.looker().check(&mut portraits)?;
        // As good as a checkpoint, and paid for.
        with_loop(&self.shared, |driver| driver.keep_checkpoint(self.hold, version, portraits, Cost::None))?;
        Ok(states)
    }

    /// Makes a checkpoint now, besides those that are made when it is time.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.looker().checkpoint()
    }

    /// How many states there are: one for each chunk of the data set.
    pub fn partitions(&self) -> usize {
        self.data.len()
    }

    /// The data set they belong to. If it is a [derived](crate::Derived) one, the number of its records is that of its source.
    pub fn data(&self) -> &DataSet<S::Chunk> {
        &self.data
    }

    fn checkpoint_if_due(&self) {
        let hold = self.hold;
        if self.shared.with(false, |driver| driver.checkpoint_is_due(hold)) != Some(true) {
            return;
        }
        // If it fails for a reason that matters, so does the round.
        if let Err(e) = self.looker().checkpoint() {
            self.shared.with(false, |driver| driver.miss_checkpoint(hold, &e));
        }
    }

    fn looker(&self) -> Looker<'_> {
        let function = state::look::<S>();
        Looker { shared: &self.shared, hold: self.hold, data: self.data.erased(), function }
    }
}

/// Looks at the states of a hold, whatever their type.
struct Looker<'a> {
    shared: &'a Arc<SharedLoop>,
    hold: HoldId,
    data: &'a Arc<CutData>,
    function: Function,
}

/// What was seen.
struct Look {
    portraits: Portraits,
    /// As which round left them.
    version: Version,
    /// What it took, unless something else did.
    took_us: Option<u64>,
}

impl Looker<'_> {
    /// The states, or only how large they are.
    fn look(&self, whole: bool) -> Result<Look> {
        let mut encoder = Encoder::new();
        whole.encode_params(&mut encoder);
        let (function, submitted) = (self.function.clone(), Instant::now());
        let version =
            with_loop(self.shared, |driver| driver.version_of(self.hold))?.ok_or(Error::Cancelled)?;
        let (data, answer) = (self.data.clone(), Arc::default());
        let request = RoundRequest {
            function,
            data,
            answer,
            submitted,
            held: Some(self.hold),
            accumulator_bytes: None,
        };
        let mut pending: Pending<Portraits> = begin(self.shared, request, &encoder, None, None)?;
        let portraits = pending.answer_within(None)?.expect("without a limit there is an answer");
        // Where states had to be made again first, that would have had to be in any case.
        let is_calm = pending.report().is_none_or(|r| r.lost + r.restored == 0);
        let took_us = is_calm.then(|| submitted.elapsed().as_micros() as u64);
        Ok(Look { portraits, version, took_us })
    }

    fn checkpoint(&self) -> Result<()> {
        let Look { mut portraits, version, took_us } = self.look(true)?;
        self.check(&mut portraits)?;
        with_loop(self.shared, |driver| {
            driver.keep_checkpoint(self.hold, version, portraits, Cost::Took(took_us))
        })
    }

    /// Asks the user's check about states that have come home, without holding the loop: it may take time.
    fn check(&self, portraits: &mut Portraits) -> Result<()> {
        let Some(StateCheck { kind, check }) = with_loop(self.shared, |driver| driver.state_check())? else {
            return Ok(());
        };
        if self.function.name().strip_prefix(state::LOOK) != Some(kind) {
            return Ok(());
        }
        for portrait in &mut portraits.0 {
            match portrait.state.as_ref().map(|state| check(state)) {
                Some(Ok(Some(state))) => portrait.state = Some(state),
                Some(Ok(None)) | None => {}
                Some(Err(why)) => return Err(Error::StateRefused { partition: portrait.partition, why }),
            }
        }
        Ok(())
    }
}

/// Does something with the loop, unless its master is gone.
fn with_loop<R>(shared: &SharedLoop, f: impl FnOnce(&mut Driver) -> R) -> Result<R> {
    shared.with(false, f).ok_or(Error::NoMaster)
}

impl<S: State> Drop for Held<S> {
    fn drop(&mut self) {
        let hold = self.hold;
        self.shared.with(true, |driver| driver.release(hold));
    }
}

impl<S: State> fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({} of {} partitions)", std::any::type_name::<S>(), self.partitions())
    }
}
