//! The master: what users hold in their hands.
//!
//! A [`Master`] owns the loop ([`driver`]) and two threads. The [spawner](crate::engine::spawner)'s starts processes. The
//! loop's own turns the loop when no caller waits ([`shared_loop`]): between rounds, and for rounds that were submitted and
//! not waited for. [`builder`] has the choices that a master is made with, [`pending`] rounds under way, [`held`] states.

mod builder;
mod driver;
mod gathering;
mod held;
mod options;
mod pending;
mod shared_loop;
mod watch;

pub use builder::Builder;
pub use held::Held;
pub use options::{Awaited, LogLine, Waiting};
pub use pending::Pending;
pub use watch::watched;

use crate::chunk::Nothing;
use crate::codec::{Encoder, Params};
use crate::ctx::Cancelled;
use crate::dataset::DataSet;
use crate::engine::lent::{Lent, Loan};
use crate::engine::queue::EventQueue;
use crate::engine::spawner::{Spawner, SpawnerThread};
use crate::engine::{self, Caps, Crew, Seat, WorkerString};
use crate::error::{Error, Result};
use crate::function::{Job, Stateless};
use crate::{registry, runs};
pub use driver::LongResults;
use driver::{Driver, RoundRequest};
use options::Options;
use pending::begin;
use qjam_core::ids::{SeatId, WorkerId};
use qjam_core::journal::{Entry, RoundReport};
use qjam_core::tuner::Explained;
use qjam_data::RoundData;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shared_loop::SharedLoop;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a master that is dropped waits for a process that is being started.
const SPAWNER_ENDS_WITHIN: Duration = Duration::from_secs(1);

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
    shared: Arc<SharedLoop>,
    spawner: SpawnerThread,
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

impl Master {
    /// Starts the workers of a [worker string](crate::engine#worker-strings) and waits until all are ready.
    pub fn connect(workers: &str) -> Result<Master> {
        Builder::default().connect(workers)
    }

    /// For what `connect` does not ask: seed, limits, log lines.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(workers: &str, mut options: Options) -> Result<Master> {
        let WorkerString { seats, auto } = WorkerString::parse(workers)?;
        if !seats.iter().all(|seat| seat.can_start(&options.workers)) {
            return Err(Error::NotHooked);
        }
        options.workers.python.must_fit()?;
        options.workers.stop = options.stop.clone().unwrap_or_default();
        options.workers.command = options.runs.program.clone().unwrap_or_default().command();
        let crew = engine::join_crew(&seats, &options.workers)?;
        let unused = if crew.is_none() { engine::unused() } else { None };
        let mut begun = runs::begin(&options.runs, workers, options.seed)?;
        begun.words.extend(unused);
        let master = Master::with_loop(&seats, options, begun, crew, auto)?;
        match master.await_seats(0..usize::MAX) {
            Ok(()) => Ok(master),
            Err(e) => {
                master.shared.with(false, |driver| driver.record_failure(&e));
                Err(e)
            }
        }
    }

    pub(crate) fn start_with_crew(crew: Arc<dyn Crew>, mut options: Options) -> Result<Master> {
        options.workers.stop = options.stop.clone().unwrap_or_default();
        let names: Vec<String> = crew.workers().into_iter().map(|worker| worker.name).collect();
        let begun = runs::begin(&options.runs, &names.join(","), options.seed)?;
        Master::with_loop(&[], options, begun, Some(crew), false)
    }

    fn with_loop(
        seats: &[Seat],
        options: Options,
        begun: runs::Begun,
        crew: Option<Arc<dyn Crew>>,
        auto: bool,
    ) -> Result<Master> {
        let system = |step| move |source| Error::System { step, source };
        let queue = Arc::new(EventQueue::new().map_err(system("eventfd"))?);
        let (executable, limit) =
            (options.workers.local_executable.clone(), options.workers.memory_bytes_max);
        let (spawner, thread) = Spawner::start(queue.clone(), executable, limit.is_some())
            .map_err(system("starting a thread"))?;
        let mut driver = Driver::new(seats, options.clone(), queue.clone(), spawner, begun, crew)?;
        if auto {
            driver.choose_workers();
        }
        let shared = SharedLoop::start(driver, queue).map_err(system("starting a thread"))?;
        Ok(Master { shared, spawner: thread, options })
    }

    /// Takes on more workers while it runs, given as another worker string, and waits until they are ready. Rounds that
    /// begin after that use them; the results are the same. Whether their number is chosen (`auto`) was said when the
    /// master was connected.
    pub fn add_workers(&self, workers: &str) -> Result<()> {
        let seats = WorkerString::parse(workers)?.without_auto(workers)?;
        if seats.iter().any(Seat::is_of_crew) || self.ask(false, |driver| driver.has_crew()) {
            return Err(Error::FixedCrew { added: workers.into() });
        }
        if !seats.iter().all(|seat| seat.can_start(&self.options.workers)) {
            return Err(Error::NotHooked);
        }
        let added = self.ask(true, |driver| driver.add(&seats));
        let ready = self.await_seats(added.clone());
        if ready.is_err() {
            self.ask(true, |driver| added.for_each(|n| driver.remove_seat(SeatId(n as u32))));
        }
        ready
    }

    fn await_seats(&self, seats: std::ops::Range<usize>) -> Result<()> {
        self.ask(false, |driver| driver.await_seats(Some(seats.clone())));
        let is_ready = |driver: Option<&Driver>| driver.and_then(|d| d.readiness(seats.clone()));
        let ready = self.shared.drive(None, is_ready);
        self.shared.with(false, |driver| driver.await_seats(None));
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
    pub fn run<F, M>(
        &self,
        f: F,
        params: &F::Params,
        data: &impl RoundData<Chunk = F::Chunk>,
    ) -> Result<F::Output>
    where
        F: Job<M, State: Stateless>,
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
        data: &impl RoundData<Chunk = F::Chunk>,
        pause: Duration,
        goes_on: impl FnMut(&Pending<F::Output>) -> bool,
        called_off: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<(F::Output, Option<RoundReport>)>
    where
        F: Job<M, State: Stateless>,
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
        F: Job<M, Chunk = Nothing, State: Stateless>,
    {
        let slots: u32 = self.workers().iter().map(|w| w.slots).sum();
        self.run(f, params, &DataSet::nothing(slots as usize)?)
    }

    /// Begins a round and returns at once. It goes on by itself; [`Pending::wait`] gives its value.
    pub fn submit<F, M>(
        &self,
        f: F,
        params: &F::Params,
        data: &impl RoundData<Chunk = F::Chunk>,
    ) -> Result<Pending<F::Output>>
    where
        F: Job<M, State: Stateless>,
    {
        let submitted = Instant::now();
        let mut encoder = Encoder::new();
        params.encode_params(&mut encoder);
        self.begin(f, &encoder, None, data, submitted, None)
    }

    /// A caller that lends the parameters waits at once; otherwise the background thread goes on with the round.
    fn begin<F, M>(
        &self,
        f: F,
        params: &Encoder<'_>,
        lent: Option<Lent>,
        data: &impl RoundData<Chunk = F::Chunk>,
        submitted: Instant,
        called_off: Option<Cancelled>,
    ) -> Result<Pending<F::Output>>
    where
        F: Job<M, State: Stateless>,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "a closure that captures variables, or a function pointer, cannot be run on workers, which find functions by \
                 their names: pass a function with #[qjam::map] or #[qjam::fold] itself, and the variables as its parameters"
            );
        }
        let function = f.erase();
        // Asked on every engine, so that what runs on threads runs anywhere.
        let accumulator_bytes = registry::weigh(function.name())?;
        let data = data.erased();
        data.check()?;
        let (data, answer) = (data.clone(), Arc::default());
        let request = RoundRequest { function, data, answer, submitted, held: None, accumulator_bytes };
        begin(&self.shared, request, params, lent, called_off)
    }

    fn ask<R>(&self, urgent: bool, f: impl FnOnce(&mut Driver) -> R) -> R {
        self.shared.with(urgent, f).expect("a master closes its loop only when it is dropped")
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
                driver.await_interpreters(ready.is_none());
                ready
            });
            if let Some(ready) = ready {
                return ready.map(|()| true);
            }
            let left = end.saturating_duration_since(Instant::now());
            let has_come = |driver: Option<&Driver>| driver?.knows_interpreters().then_some(());
            if self.shared.drive(Some(left), has_come)?.is_none() {
                return Ok(false);
            }
        }
    }

    /// The interpreters that workers on other machines have found for Python functions, each with the name of its worker.
    /// Complete once [`python_ready`](Master::python_ready) has said `true`.
    pub fn python_interpreters(&self) -> Vec<(String, crate::python::InterpreterFacts)> {
        self.ask(false, |driver| driver.interpreters())
    }

    /// Records a value that the program got from elsewhere than its rounds, and that its later rounds depend on: a time that it
    /// measured, for example. A run that is resumed or replayed is given the values that the earlier run recorded under this
    /// name, one after the other, and then decides the same; `value` is called when there are no more. Values of more than
    /// 64 KiB are not recorded.
    ///
    /// ```
    /// # use qjam::Master;
    /// use std::time::Instant;
    ///
    /// let m = Master::connect("local:1")?;
    /// let begun = Instant::now();
    /// // … some rounds …
    /// let seconds = m.observe("first rounds", || begun.elapsed().as_secs_f64());
    /// let batch = if seconds < 0.1 { 1000 } else { 100 };
    /// # assert!(batch > 0);
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn observe<T: Serialize + DeserializeOwned>(&self, name: &str, value: impl FnOnce() -> T) -> T {
        let recalled = self.ask(false, |driver| driver.recall_observation(name));
        let decoded = recalled.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        let value = decoded.unwrap_or_else(value);
        if let Ok(bytes) = postcard::to_stdvec(&value) {
            self.ask(false, |driver| driver.observe(name, &bytes));
        }
        value
    }

    /// Has the run file say that the run failed, and why, when this master is dropped. For programs whose end a master cannot see
    /// by itself, such as an exception of another language. A panic is seen.
    ///
    /// ```
    /// # use qjam::{Master, runs::{Run, State}};
    /// # let folder = std::env::temp_dir().join(format!("qjam-fails-{}", std::process::id()));
    /// let m = Master::builder().run_folder(&folder).connect("local:1")?;
    /// m.record_failure("ValueError: no such column");
    /// drop(m);
    /// let run = Run::read(&qjam::runs::find(Some(&folder), "last")?)?;
    /// assert_eq!(run.state, State::Failed("ValueError: no such column".into()));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_failure(&self, why: &str) {
        self.ask(true, |driver| driver.record_failure(&why));
    }

    /// Records a number that tells how far the program is, such as an objective or a duality gap, in the run file. `qjam report`
    /// draws it over the rounds. It changes nothing else.
    ///
    /// ```
    /// # use qjam::{Master, runs::Story};
    /// # let folder = std::env::temp_dir().join(format!("qjam-metric-{}", std::process::id()));
    /// let m = Master::builder().run_folder(&folder).connect("local:1")?;
    /// m.record_metric("objective", 0.25);
    /// drop(m);
    /// let story = Story::read(&qjam::runs::find(Some(&folder), "last")?)?;
    /// assert_eq!((story.metrics[0].name.as_str(), story.metrics[0].value), ("objective", 0.25));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_metric(&self, name: &str, value: f64) {
        self.ask(false, |driver| driver.record_metric(name, value));
    }

    /// The run file that this master writes, if it writes one.
    pub fn run_file(&self) -> Option<std::path::PathBuf> {
        self.ask(false, |driver| driver.run_file())
    }

    /// Where the time of the last finished round went.
    pub fn last_round(&self) -> Option<RoundReport> {
        self.ask(false, |driver| driver.last_report())
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

    /// Functions whose results are as long as their data, or nearly: making and combining them is much of a round, which fewer and
    /// longer chunks make cheaper. Printed, each says what to write. The cut is not changed by itself, because it decides the last bits of
    /// a result.
    ///
    /// ```
    /// # use qjam::{DataSet, Dense, Master};
    /// #[qjam::map]
    /// fn gradient(theta: &[f64], x: &Dense<f64>) -> Vec<f64> {
    ///     theta.iter().map(|t| t * x.row(0)[0]).collect()
    /// }
    ///
    /// let m = Master::connect("local:2")?;
    /// let x = DataSet::dense(vec![0.5; 1 << 17], 4)?.partitions(128)?; // a megabyte
    /// m.run(gradient, &vec![1.0; 1 << 14], &x)?;
    /// let long = &m.long_results()[0];
    /// assert_eq!(long.results, 128);
    /// println!("{long}");
    /// let x = x.for_results_of(long.result_bytes)?;
    /// assert_eq!(x.len(), 16);
    /// # Ok::<(), qjam::Error>(())
    /// ```
    pub fn long_results(&self) -> Vec<LongResults> {
        self.ask(false, |driver| driver.long_results())
    }

    /// What happened so far, oldest first: workers that came and went, rounds, retries, reports.
    pub fn journal(&self) -> Vec<Entry> {
        self.ask(false, |driver| driver.journal().entries().cloned().collect())
    }

    /// What all workers of this master can do.
    pub fn caps(&self) -> Caps {
        self.ask(false, |driver| driver.caps())
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

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Master").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.shared.close();
        // The spawner's thread may be starting a process that nobody will take in. It ends that process in any case; it is
        // waited for so that nothing is left when this returns, but not for ever: the system may take its time.
        self.spawner.wait(SPAWNER_ENDS_WITHIN);
        self.shared.drop_events();
    }
}
