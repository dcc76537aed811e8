//! The master: what users hold in their hands.
//!
//! Where a round is so short that nobody should be woken for it, its caller runs it: [`inline`].
//!
//! A [`Master`] owns the loop ([`driver`]) and two threads. The *keeper* starts processes, because a process dies with
//! the thread that started it and the user's threads come and go. The *tender* turns the loop when nobody waits:
//! between rounds, and for rounds that were submitted and not waited for.

mod driver;
mod held;
mod inline;
mod lent;
mod options;
mod round;
mod tender;
mod watch;

pub use held::Held;
pub(crate) use options::Throttle;
pub use options::{Awaited, LogLine, Waiting};
pub use watch::watched;

use crate::chunk::Nothing;
use crate::codec::{Encoder, Params};
use crate::ctx::Cancelled;
use crate::dataset::{CutData, DataSet};
use crate::engine::ranks::{self, RanksError};
use crate::engine::{Seat, SeatKind, WorkerString, child};
use crate::error::{Error, Result};
use crate::function::{Function, Job};
use crate::{registry, runs};
use driver::{Driver, Helm, News, NewsBox};
use lent::{Lent, Loan};
use options::Options;
use qjam_core::ids::{HoldId, RoundId, WorkerId};
use qjam_core::journal::{Entry, RoundReport};
use qjam_core::tuner::Explained;
use round::{Answer, Wanted};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tender::Tended;

/// How long a master that is dropped waits for a process that is being started.
const KEEPER_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Runs functions over data sets on the workers it was connected to.
///
/// ```
/// use qjam::{DataSet, Dense, Master};
///
/// #[qjam::map]
/// fn squares(scale: &f64, x: &Dense<f64>) -> f64 {
///     x.as_slice().iter().map(|v| scale * v * v).sum()
/// }
///
/// let m = Master::connect("local:2")?;
/// let x = DataSet::dense((0..1000).map(f64::from).collect(), 10)?;
/// assert_eq!(m.run(squares, &2.0, &x)?, 665_667_000.0);
/// # Ok::<(), qjam::Error>(())
/// ```
///
/// Results have the same bits whatever the workers are. Dropping the master ends all its workers.
pub struct Master {
    tended: Arc<Tended>,
    /// Closed when the keeper's thread is over.
    keeper: Mutex<mpsc::Receiver<Infallible>>,
    options: Options,
}

/// Somebody who works for a master.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// What messages call it: `local`, `proc:0`, `ann@big`.
    pub name: String,
    /// Its process on this machine, when it is one of its own and running.
    pub pid: Option<u32>,
    /// Its process on the host it is on, when that is another and it is running.
    pub remote_pid: Option<u32>,
    /// How many blocks it runs at once.
    pub slots: u32,
}

/// A master in the making.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    options: Options,
}

impl Builder {
    /// The seed that [`Ctx::rng`](crate::Ctx::rng) is keyed by, with round and chunk.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Most bytes of memory that one worker process may take, its results on their way to the master included; more ends
    /// it, and the error says so. Data in files streams through that much, and a round that cannot fit is refused with
    /// [`Error::DoesNotFit`]. Threads (`local`) share this process's memory and are not limited.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.options.memory_bytes_max = Some(bytes);
        self
    }

    /// Most bytes of opened chunks that one worker keeps. Data beyond it is read again every round. If nobody says, it
    /// is half of the [`memory_limit`](Builder::memory_limit), or the worker's share of a quarter of its machine's memory
    /// ([`memory::Limit`](crate::memory::Limit)) if that is less, and never more than 1 GiB.
    pub fn cache_limit(mut self, bytes: u64) -> Self {
        self.options.cache_bytes_max = Some(bytes);
        self
    }

    /// Most bytes that the cache on a host's disk may take, instead of what was set there (`qjam cache`).
    pub fn disk_limit(mut self, bytes: u64) -> Self {
        self.options.disk_bytes_max = Some(bytes);
        self
    }

    /// Goes on with this many workers when others cannot be started. Those are tried again while the run goes on.
    /// Without it every worker that was asked for must be there.
    pub fn min_workers(mut self, workers: usize) -> Self {
        self.options.workers_min = Some(workers);
        self
    }

    /// The executable that is copied to hosts instead of this one: another build of the same program, for example one
    /// that needs no libraries there. The environment variable `QJAM_WORKER` says the same.
    pub fn worker_executable(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.options.ship = Some(path.into());
        self
    }

    /// The executable that `proc` workers are started from instead of this one. Together with
    /// [`worker_executable`](Builder::worker_executable) it lets a program have workers that could not be one itself, as
    /// an interpreter that has loaded this library.
    pub fn local_executable(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.options.local_executable = Some(path.into());
        self
    }

    /// What the run file says of the program, where this executable is only its interpreter: how it is started again,
    /// and the file that computes. Another build of that file is another program to [`resume`](Builder::resume).
    pub fn program(
        mut self,
        interpreter: impl Into<std::path::PathBuf>,
        arguments: Vec<std::ffi::OsString>,
        build: impl AsRef<std::path::Path>,
    ) -> Self {
        self.options.runs.program = Some(runs::Program::new(interpreter.into(), arguments, build.as_ref()));
        self
    }

    /// The modules that interpreters on workers need and may not have, as [`python`](crate::python) functions expect
    /// them, and the version of Python that made them. Every worker process gets them once, when it is welcomed.
    pub fn python_support(mut self, modules: bytes::Bytes, version: (u8, u8)) -> Self {
        self.options.python.support = Some((modules, version));
        self
    }

    /// The interpreter that worker processes of this machine use, and where it looks for modules.
    pub fn python_interpreter(mut self, interpreter: impl Into<String>, path: Vec<String>) -> Self {
        self.options.python.interpreter = Some(interpreter.into());
        self.options.python.path = path;
        self
    }

    /// The interpreter that workers on other hosts use, a path or a name there, and no other. If nobody says they look
    /// for one of the same version.
    pub fn remote_python(mut self, interpreter: impl Into<String>) -> Self {
        self.options.python.wanted = Some(interpreter.into()).filter(|name| !name.is_empty());
        self
    }

    /// Into how many blocks per slot a map is shared out. More even out unequal chunks, fewer cost less. The result is
    /// the same.
    pub fn blocks_per_slot(mut self, blocks: u32) -> Self {
        self.options.blocks_per_slot = blocks.max(1);
        self
    }

    /// Whether slow workers are helped: blocks that they have not started go to the idle, late ones are run by somebody
    /// else, too, and their shares of the next rounds are smaller. On by default. Without it everybody gets the same
    /// blocks of the same data each time, which costs the least in chunks that travel.
    pub fn balance(mut self, on: bool) -> Self {
        self.options.balances = on;
        self
    }

    /// With `auto` workers: has every round run by so many slots, and 0 by the caller's thread, instead of choosing. For
    /// comparisons; a number that cannot be chosen means the next larger one.
    pub fn fixed_slots(mut self, slots: u32) -> Self {
        self.options.fixed_slots = Some(slots);
        self
    }

    /// With ranks (`mpi`): has their library add up results that are a `Vec<f64>` (`MPI_Allreduce`), in an order of its own
    /// choosing. Off by default, because it gives up what everything else keeps: the last bits then depend on the number of
    /// ranks, on the library and the network, and a run that goes on from an earlier one may differ from it by as much. Other
    /// results, and other workers, are not affected.
    pub fn any_order(mut self, on: bool) -> Self {
        self.options.any_order = on;
        self
    }

    /// How long a worker may hold finished work while it has more to do: what its death may cost at most.
    pub fn deliver_after(mut self, time: Duration) -> Self {
        self.options.deliver_after = time;
        self
    }

    /// How long a round may take from its submission before it is cancelled with [`Error::TimedOut`].
    pub fn round_timeout(mut self, limit: Duration) -> Self {
        self.options.round_timeout = Some(limit);
        self
    }

    /// What to do with lines that user code prints on workers, instead of writing them to standard error with the
    /// worker's name before them. It is called by whichever thread turns the master's loop, so it must be short and must
    /// not use the master.
    pub fn on_log(mut self, f: impl Fn(&LogLine) + Send + Sync + 'static) -> Self {
        self.options.on_log = Arc::new(f);
        self
    }

    /// What to do when a wait, for a round or for workers to come up, has taken two seconds, and then every ten, instead
    /// of writing to standard error whom it is for. Like [`on_log`](Builder::on_log) it must be short.
    pub fn on_wait(mut self, f: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.options.on_wait = Arc::new(f);
        self
    }

    /// The folder that this master's [run file](crate::runs) goes into, instead of the user's own or what `QJAM_RUNS`
    /// names.
    pub fn run_folder(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.options.runs.place = Some(runs::At::Folder(folder.into()));
        self
    }

    /// Leaves no run file, whatever `QJAM_RUNS` says.
    pub fn no_run_file(mut self) -> Self {
        self.options.runs.place = Some(runs::At::Nowhere);
        self
    }

    /// The share of the time that it may take to hash long parameters and to keep long results, 0.02 if nobody says. For
    /// what would take more, the run file says only that it happened, and a run that goes on from it computes it again.
    /// `f64::INFINITY` keeps all that fits. `QJAM_RECORD_COST` says the same.
    pub fn record_cost(mut self, share: f64) -> Self {
        self.options.runs.cost = Some(share);
        self
    }

    /// Goes on from an earlier run, given by its name, the end of its name, or the path of its file. The program runs from
    /// its beginning; rounds that are the same as the earlier run's get their values from its file at once. At the
    /// first that is another one all is computed. `last` is the last run of the same program with the same arguments, if it did not
    /// come to its end; without one the run begins like any other. `QJAM_RESUME` says the same for all masters of a program.
    pub fn resume(mut self, run: impl Into<String>) -> Self {
        self.options.runs.resume = Some(run.into());
        self
    }

    /// Goes on from an earlier run although another build of the program made it.
    pub fn resume_anyway(mut self) -> Self {
        self.options.runs.anyway = true;
        self
    }

    /// Gives up on hosts that have not answered yet once this is set, by whichever thread. One master uses it at a time.
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.options.stop = Some(stop);
        self
    }

    /// Starts the workers and waits until all are ready.
    pub fn connect(self, workers: &str) -> Result<Master> {
        Master::start(workers, self.options)
    }
}

impl Master {
    /// Starts the workers of a [worker string](crate::engine#worker-strings) and waits until all are ready.
    pub fn connect(workers: &str) -> Result<Master> {
        Builder::default().connect(workers)
    }

    /// For what `connect` does not ask: seed, limits, log lines.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(workers: &str, options: Options) -> Result<Master> {
        let WorkerString { mut seats, auto } = WorkerString::parse(workers)?;
        if !options.can_start(&seats) {
            return Err(Error::NotHooked);
        }
        options.python.must_fit()?;
        let system = |step| move |source| Error::System { step, source };
        let news = Arc::new(NewsBox::new().map_err(system("eventfd"))?);
        let ranks = match seats.iter().any(|seat| seat.kind == SeatKind::Rank) {
            true => Some(Helm::take(&options, news.clone(), &mut seats)?),
            false => None,
        };
        let (to_keeper, orders) = mpsc::channel();
        let (until_over, keeper) = mpsc::channel();
        let for_keeper = news.clone();
        let is_limited = options.memory_bytes_max.is_some();
        let executable = options.local_executable.clone();
        std::thread::Builder::new()
            .name("qjam-keeper".into())
            .spawn(move || {
                keep(&orders, &for_keeper, executable.as_deref(), is_limited);
                drop(until_over);
            })
            .map_err(system("starting a thread"))?;
        let mut begun = runs::begin(&options.runs, workers, options.seed)?;
        begun.words.extend(if ranks.is_none() { ranks::unused() } else { None });
        let mut driver = Driver::new(seats, options.clone(), news.clone(), to_keeper, begun, ranks)?;
        if auto {
            driver.choose_workers();
        }
        let tended = Tended::start(driver, news).map_err(system("starting a thread"))?;
        let master = Master { tended, keeper: Mutex::new(keeper), options };
        match master.await_seats(0..usize::MAX) {
            Ok(()) => Ok(master),
            Err(e) => {
                master.tended.with(false, |driver| driver.record_failure(&e));
                Err(e)
            }
        }
    }

    /// Takes on more workers while it runs, given as another worker string, and waits until they are ready. Rounds that
    /// begin after that use them; the results are the same. Whether their number is chosen (`auto`) was said when the
    /// master was connected.
    pub fn add_workers(&self, workers: &str) -> Result<()> {
        let seats = WorkerString::parse(workers)?.without_auto(workers)?;
        let are_ranks = |seats: &[Seat]| seats.iter().any(|seat| seat.kind == SeatKind::Rank);
        if are_ranks(&seats) || self.ask(false, |driver| driver.has_ranks()) {
            let instead = "start the program with as many ranks as it should have (`mpirun -n`)";
            return Err(RanksError::Unsupported { what: "workers cannot be added", instead }.into());
        }
        if !self.options.can_start(&seats) {
            return Err(Error::NotHooked);
        }
        let added = self.ask(true, |driver| driver.add(seats));
        let ready = self.await_seats(added.clone());
        if ready.is_err() {
            self.ask(true, |driver| added.for_each(|n| driver.remove_seat(n)));
        }
        ready
    }

    fn await_seats(&self, seats: std::ops::Range<usize>) -> Result<()> {
        self.ask(false, |driver| driver.await_seats(Some(seats.clone())));
        let is_ready = |driver: Option<&Driver>| driver.and_then(|d| d.readiness(seats.clone()));
        let ready = self.tended.drive(None, is_ready);
        self.tended.with(false, |driver| driver.await_seats(None));
        ready?.unwrap_or(Ok(()))
    }

    /// Sends a worker away, by its name. What it has not delivered goes to the others, and so do the states it keeps: they
    /// are brought home first. Says whether there was one; ranks (`mpi`) cannot be sent away.
    pub fn remove_worker(&self, name: &str) -> bool {
        self.save_states_on(name);
        self.ask(true, |driver| driver.remove(name))
    }

    /// Runs a function over all chunks of a data set and combines the results: [`submit`](Master::submit) and
    /// [`wait`](Pending::wait).
    pub fn run<F, M>(&self, f: F, params: &F::Params, data: &DataSet<F::Chunk>) -> Result<F::Output>
    where
        F: Job<M, State = ()>,
    {
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        #[expect(unsafe_code, reason = "the caller's memory is lent out while this function waits")]
        // SAFETY: it is dropped when this function returns or unwinds, after the round has been answered or cancelled.
        let loan = unsafe { Loan::new(&encoder) };
        self.begin(f, &encoder, Some(loan.lent()), data, submitted, None)?.wait()
    }

    /// The same for callers that must look up now and then, as an interpreter must for its signals: after every `pause` it is
    /// asked whether to go on. If not, the round is cancelled with [`Error::Cancelled`]. While the caller's own thread runs
    /// the function it cannot be asked; then `called_off` is, by the function's [`Ctx::cancelled`](crate::Ctx::cancelled).
    /// Says where the time went, too.
    ///
    /// ```
    /// # use qjam::{Ctx, DataSet, Dense, Error, Master};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// #[qjam::map]
    /// fn patient(_: &(), x: &Dense<f64>, ctx: &Ctx) -> f64 {
    ///     while !ctx.cancelled() {
    ///         std::thread::sleep(Duration::from_millis(1));
    ///     }
    ///     x.rows() as f64
    /// }
    ///
    /// let x = DataSet::dense(vec![0.0; 8], 1)?;
    /// for workers in ["local:1", "auto:local:1"] {
    ///     let m = Master::connect(workers)?;
    ///     let pause = Duration::from_millis(10);
    ///     let result = m.run_while(patient, &(), &x, pause, |_| false, Arc::new(|| true));
    ///     assert!(result.is_err());
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    pub fn run_while<F, M>(
        &self,
        f: F,
        params: &F::Params,
        data: &DataSet<F::Chunk>,
        pause: Duration,
        goes_on: impl FnMut(&Pending<F::Output>) -> bool,
        called_off: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<(F::Output, Option<RoundReport>)>
    where
        F: Job<M, State = ()>,
    {
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        #[expect(unsafe_code, reason = "the caller's memory is lent out while this function waits")]
        // SAFETY: it is dropped when this function returns or unwinds, after the round has been answered or cancelled.
        let loan = unsafe { Loan::new(&encoder) };
        let pending = self.begin(f, &encoder, Some(loan.lent()), data, submitted, Some(called_off))?;
        pending.wait_while(pause, goes_on)
    }

    /// Runs a function without data once per worker slot and combines the results. How many there are depends on the
    /// workers, and so does the value.
    ///
    /// ```
    /// # use qjam::{Master, Nothing};
    /// #[qjam::map]
    /// fn answer(_: &(), _: &Nothing) -> u64 {
    ///     42
    /// }
    ///
    /// let m = Master::connect("local:2")?;
    /// assert_eq!(m.run_each(answer, &())?, 84);
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn run_each<F, M>(&self, f: F, params: &F::Params) -> Result<F::Output>
    where
        F: Job<M, Chunk = Nothing, State = ()>,
    {
        let slots: u32 = self.workers().iter().map(|w| w.slots).sum();
        self.run(f, params, &DataSet::nothing(slots as usize)?)
    }

    /// Begins a round and returns at once. It goes on by itself; [`Pending::wait`] gives its value.
    pub fn submit<F, M>(
        &self,
        f: F,
        params: &F::Params,
        data: &DataSet<F::Chunk>,
    ) -> Result<Pending<F::Output>>
    where
        F: Job<M, State = ()>,
    {
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        self.begin(f, &encoder, None, data, submitted, None)
    }

    /// A caller that lends the parameters waits at once; otherwise the tender takes the round on.
    fn begin<F, M>(
        &self,
        f: F,
        params: &Encoder<'_>,
        lent: Option<Lent>,
        data: &DataSet<F::Chunk>,
        submitted: Instant,
        called_off: Option<Cancelled>,
    ) -> Result<Pending<F::Output>>
    where
        F: Job<M, State = ()>,
    {
        let function = f.erase();
        // Asked on every engine, so that what runs on threads runs anywhere.
        registry::contains(function.name())?;
        data.must_be_unchanged()?;
        begin(&self.tended, function, params, lent, data.erased(), None, submitted, called_off)
    }

    fn ask<R>(&self, urgent: bool, f: impl FnOnce(&mut Driver) -> R) -> R {
        self.tended.with(urgent, f).expect("a master closes its loop only when it is dropped")
    }

    /// Whether the interpreters on all hosts have what a Python function needs: these packages, NumPy, and the version
    /// that the master was [told](Builder::python_support). Waits for answers of hosts, but not longer than this; `false`
    /// if some are not there by then. Fails with [`Error::PythonMissing`], a table of all hosts, if something is missing.
    /// Without hosts there is nothing to wait for.
    pub fn python_ready(&self, needs: &[String], limit: Duration) -> Result<bool> {
        let end = Instant::now() + limit;
        loop {
            let ready = self.ask(false, |driver| {
                let ready = driver.python_ready(needs);
                driver.await_pythons(ready.is_none());
                ready
            });
            if let Some(ready) = ready {
                return ready.map(|()| true);
            }
            let left = end.saturating_duration_since(Instant::now());
            let has_come = |driver: Option<&Driver>| driver?.knows_pythons().then_some(());
            if self.tended.drive(Some(left), has_come)?.is_none() {
                return Ok(false);
            }
        }
    }

    /// Where the time of the last finished round went.
    pub fn last_round(&self) -> Option<RoundReport> {
        self.ask(false, |driver| driver.last_report)
    }

    /// What is known of the costs of each kind of work, and how many workers follow from that: for masters that were
    /// connected to `auto`, otherwise nothing. Printed, each says all of it on a few lines.
    ///
    /// ```
    /// # use qjam::{DataSet, Dense, Master};
    /// #[qjam::map]
    /// fn total(_: &(), x: &Dense<f64>) -> f64 {
    ///     x.as_slice().iter().sum()
    /// }
    ///
    /// let m = Master::connect("auto")?;
    /// m.run(total, &(), &DataSet::dense(vec![0.5; 8], 1)?)?;
    /// let known = &m.explain()[0];
    /// assert_eq!(known.choice, 0); // nobody is woken for eight numbers
    /// println!("{known}");
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn explain(&self) -> Vec<Explained> {
        self.ask(false, |driver| driver.explain())
    }

    /// What happened so far, oldest first: workers that came and went, rounds, retries, reports.
    pub fn journal(&self) -> Vec<Entry> {
        self.ask(false, |driver| driver.journal().entries().cloned().collect())
    }

    /// Who works for this master now.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.ask(false, |driver| driver.workers())
    }

    /// The worker's name that an entry of the journal speaks of.
    pub fn name_of(&self, worker: WorkerId) -> String {
        self.ask(false, |driver| driver.name_of(worker))
    }
}

/// Begins a round, over states if it is told of which hold.
#[expect(clippy::too_many_arguments, reason = "all that a round is made of, once")]
fn begin<T>(
    tended: &Arc<Tended>,
    function: Function,
    params: &Encoder<'_>,
    lent: Option<Lent>,
    data: &Arc<CutData>,
    held: Option<HoldId>,
    submitted: Instant,
    called_off: Option<Cancelled>,
) -> Result<Pending<T>> {
    let answer: Arc<Answer> = Arc::default();
    let wanted = Wanted { function, data: data.clone(), answer: answer.clone(), submitted, held };
    let urgent = lent.is_none();
    let submit = |driver: &mut Driver| {
        let round = driver.submit(wanted, params, lent);
        (round, driver.take_inline(), driver.take_asked())
    };
    let (round, inline, asked) = tended.with(urgent, submit).ok_or(Error::NoMaster)?;
    if let Some(inline) = inline {
        let done = inline.run(called_off.or_else(watch::current));
        tended.with(false, |driver| driver.end_inline(done));
    } else if let Some(asked) = asked {
        let outcome = asked.run(called_off.or_else(watch::current));
        tended.with(false, |driver| driver.end_on_ranks(round, outcome));
    }
    let tended = tended.clone();
    Ok(Pending { tended, round, answer, is_over: false, report: None, output: PhantomData })
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Master").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.tended.close();
        // The keeper may be starting a process that nobody will take in. It ends that process in any case; it is waited
        // for so that nothing is left when this returns, but not for ever: the system may take its time.
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = keeper.recv_timeout(KEEPER_ENDS_WITHIN);
        self.tended.drop_news();
    }
}

/// The keeper's thread: starts processes until nobody can ask any more.
fn keep(
    orders: &mpsc::Receiver<(WorkerId, Seat)>,
    news: &NewsBox,
    executable: Option<&std::path::Path>,
    is_limited: bool,
) {
    for (worker, seat) in orders {
        news.put(News::Spawned { worker, result: child::spawn(executable, seat.slots, is_limited) });
    }
}

/// A round that was submitted. Dropping it without waiting cancels it.
#[must_use = "a pending round that is dropped is cancelled"]
pub struct Pending<T> {
    tended: Arc<Tended>,
    round: RoundId,
    answer: Arc<Answer>,
    is_over: bool,
    report: Option<RoundReport>,
    output: PhantomData<fn() -> T>,
}

impl<T: 'static> Pending<T> {
    /// Waits for the value.
    pub fn wait(mut self) -> Result<T> {
        Ok(self.answer_within(None)?.expect("without a limit there is an answer"))
    }

    /// Waits for the value, but not longer than this; `None` if it is not there by then. The round goes on.
    ///
    /// # Panics
    /// When the value, or an error, has been given before.
    pub fn wait_at_most(&mut self, limit: Duration) -> Result<Option<T>> {
        self.answer_within(Some(limit))
    }

    fn answer_within(&mut self, limit: Option<Duration>) -> Result<Option<T>> {
        assert!(!self.is_over, "this round has given its value already");
        let answer = &self.answer;
        answer.awaited.get_or_init(Instant::now);
        let wait = |limit| self.tended.drive(limit, |_| answer.is_given().then_some(()));
        let is_there = match (limit, watch::current()) {
            (None, Some(called_off)) => watch::wait(&called_off, wait)?,
            _ => wait(limit)?.is_some(),
        };
        if !is_there {
            return Ok(None);
        }
        self.is_over = true;
        self.report = *answer.report.lock().unwrap_or_else(PoisonError::into_inner);
        let value = answer.take().expect("an answer is taken once")?;
        Ok(Some(*value.downcast().expect("the function gives its own type")))
    }

    fn wait_while(
        mut self,
        pause: Duration,
        mut goes_on: impl FnMut(&Self) -> bool,
    ) -> Result<(T, Option<RoundReport>)> {
        // Who watches this thread is asked as in any other wait, whatever the caller asks by itself.
        let watching = watch::current();
        let pause = if watching.is_some() { pause.min(watch::PAUSE) } else { pause };
        loop {
            if watching.as_ref().is_some_and(|called_off| called_off()) {
                return Err(Error::Cancelled);
            }
            if let Some(value) = self.answer_within(Some(pause))? {
                return Ok((value, self.report));
            }
            if !goes_on(&self) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Who has not delivered yet, for people.
    pub fn waiting_for(&self) -> String {
        let round = self.round;
        self.tended.with(false, |driver| driver.waiting_for(round)).unwrap_or_default()
    }

    /// Whether the value, or an error, is there.
    pub fn is_done(&self) -> bool {
        self.is_over || self.answer.is_given()
    }

    /// Where the time went, once the value has been taken with [`wait_at_most`](Pending::wait_at_most).
    pub fn report(&self) -> Option<RoundReport> {
        self.report
    }

    /// Stops the round. Workers that do not stop by themselves within half a second are killed and started again;
    /// threads (`local`) and ranks (`mpi`) can only be asked, through [`Ctx::cancelled`](crate::Ctx::cancelled).
    pub fn cancel(self) {}
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if !self.is_over {
            let round = self.round;
            self.tended.with(true, |driver| driver.cancel(round));
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.round)
    }
}
