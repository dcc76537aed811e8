//! Choices that a master is made with.

use super::Master;
use super::options::{LogLine, Options, StateCheck, Waiting};
use crate::codec::Encoder;
use crate::engine::Crew;
use crate::error::Result;
use crate::runs;
use crate::state::State;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A master in the making.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(super) options: Options,
}

impl Builder {
    /// The seed that [`Ctx::rng`](crate::Ctx::rng) is keyed by, with round and chunk.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Most bytes of memory that one worker process may take, its results on their way to the master included; more ends
    /// it, and the error says so. Data in files streams through that much, and a round that cannot fit is refused with
    /// [`Error::DoesNotFit`](crate::Error::DoesNotFit). Threads (`local`) share this process's memory and are not limited.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.options.workers.memory_bytes_max = Some(bytes);
        self
    }

    /// Most bytes of opened chunks that one worker keeps. Data beyond it is read again every round. If nobody says, it
    /// is half of the [`memory_limit`](Builder::memory_limit), or the worker's share of a quarter of its machine's memory
    /// ([`memory::Limit`](crate::memory::Limit)) if that is less, and never more than 1 GiB.
    pub fn cache_limit(mut self, bytes: u64) -> Self {
        self.options.workers.cache_bytes_max = Some(bytes);
        self
    }

    /// Most bytes that the cache on a host's disk may take, instead of what was set there (`qjam cache`).
    pub fn disk_limit(mut self, bytes: u64) -> Self {
        self.options.workers.disk_bytes_max = Some(bytes);
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
        self.options.workers.ship = Some(path.into());
        self
    }

    /// The executable that `proc` workers are started from instead of this one. Together with
    /// [`worker_executable`](Builder::worker_executable) it lets a program have workers that could not be one itself, as
    /// an interpreter that has loaded this library.
    pub fn local_executable(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.options.workers.local_executable = Some(path.into());
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
        self.options.workers.python.support = Some((modules, version));
        self
    }

    /// The interpreter that worker processes of this machine use, and where it looks for modules.
    pub fn python_interpreter(mut self, interpreter: impl Into<String>, path: Vec<String>) -> Self {
        self.options.workers.python.interpreter = Some(interpreter.into());
        self.options.workers.python.path = path;
        self
    }

    /// The interpreter that workers on other hosts use, a path or a name there, and no other. If nobody says they look
    /// for one of the same version.
    pub fn remote_python(mut self, interpreter: impl Into<String>) -> Self {
        self.options.workers.python.wanted = Some(interpreter.into()).filter(|name| !name.is_empty());
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

    /// Deadlines of the scheduler instead of the usual ones. For tests, whose verdicts must not depend on how soon a busy
    /// machine comes to something.
    #[doc(hidden)]
    pub fn deadlines(mut self, deadlines: qjam_core::scheduler::Config) -> Self {
        self.options.deadlines = deadlines;
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
        self.options.workers.any_order = on;
        self
    }

    /// How long a worker may hold finished work while it has more to do: what its death may cost at most.
    pub fn deliver_after(mut self, time: Duration) -> Self {
        self.options.workers.deliver_after = time;
        self
    }

    /// How long a round may take from its submission before it is cancelled with [`Error::TimedOut`](crate::Error::TimedOut).
    pub fn round_timeout(mut self, limit: Duration) -> Self {
        self.options.round_timeout = Some(limit);
        self
    }

    /// What to do with lines that user code prints on workers, instead of writing them to standard error with the
    /// worker's name before them. It is called by whichever thread turns the master's loop, so it must be short and must
    /// not use the master.
    pub fn on_log(mut self, f: impl Fn(&LogLine) + Send + Sync + 'static) -> Self {
        self.options.callbacks.on_log = Arc::new(f);
        self
    }

    /// What to do when a wait, for a round or for workers to come up, has taken two seconds, and then every ten, instead
    /// of writing to standard error whom it is for. Like [`on_log`](Builder::on_log) it must be short.
    pub fn on_wait(mut self, f: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.options.callbacks.on_wait = Arc::new(f);
        self
    }

    /// Looks at every state of this type that workers send home, before it is kept as a checkpoint and passed on to other workers. It
    /// gives what is passed on instead, or `None` for the state as it is. A state that it gives a reason against fails the checkpoint
    /// with [`Error::StateRefused`](crate::Error::StateRefused).
    pub fn state_check<S: State>(
        mut self,
        f: impl Fn(S) -> std::result::Result<Option<S>, String> + Send + Sync + 'static,
    ) -> Self {
        let check = move |state: &bytes::Bytes| {
            let decoded = crate::function::state::decode::<S>(state.clone()).map_err(|e| e.to_string())?;
            Ok(f(decoded)?.map(|state| {
                let mut encoder = Encoder::new();
                state.encode(&mut encoder);
                encoder.to_bytes()
            }))
        };
        self.options.callbacks.state_check =
            Some(StateCheck { kind: std::any::type_name::<S>(), check: Arc::new(check) });
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

    /// Has a [`Crew`] run all rounds, instead of workers of this crate's engines.
    pub fn crew(self, crew: Arc<dyn Crew>) -> Result<Master> {
        Master::start_with_crew(crew, self.options)
    }
}
