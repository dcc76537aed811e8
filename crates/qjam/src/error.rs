//! What can go wrong in a run: what failed, where, why, and what to do.

use crate::engine::WorkerStringError;
use crate::engine::provider::JoinError;
pub use crate::engine::ssh::{StartFailure, Step};
use crate::memory::DoesNotFit;
use crate::registry::UnknownFunction;
use crate::runs::CannotResume;
use crate::source::DataError;
use qjam_core::job::{Cause, Death, Fault, FaultKind, RoundFailure};
use qjam_core::text::printable;
use std::fmt;
use std::io;
use std::ops::Range;
use std::time::Duration;
use thiserror::Error;

/// The usual result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A run that did not succeed. The master stays usable after any of these.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The worker string makes no sense.
    #[error(transparent)]
    WorkerString(#[from] WorkerStringError),

    /// The data set could not be made or read.
    #[error(transparent)]
    Data(#[from] DataError),

    /// Workers could not be started.
    #[error("{worker} {death}{}", start_remedy(.death))]
    Start {
        /// Which worker.
        worker: String,
        /// How the last attempt ended.
        death: Death,
    },

    /// Hosts could not be reached, or would not work.
    #[error("{}", ShowFailures(.failures))]
    Hosts {
        /// The hosts, each with what failed there.
        failures: Vec<(String, StartFailure)>,
    },

    /// Worker processes were asked for by a program that would not serve as one.
    #[error(
        "worker processes are this same program started again, and it would not serve: put #[qjam::main] on its main function, or qjam::worker_hook!() into a test; `local` workers need neither"
    )]
    NotHooked,

    /// The workers cannot keep states between rounds.
    #[error(
        "{workers} cannot keep states between rounds; use threads, processes or hosts for functions with a state"
    )]
    NoState {
        /// Which workers.
        workers: String,
    },

    /// Workers cannot be added to a crew.
    #[error(
        "`{added}` cannot be added: ranks and the workers of a bucket or of Spark join by their own means, and no other workers join them; start more where they run (`mpirun -n`, `qjam store serve`)"
    )]
    FixedCrew {
        /// The workers that were to be added.
        added: String,
    },

    /// The workers carry no mail between partitions.
    #[error(
        "{function} sends mail to other partitions, and {workers} carry none; use threads, processes, hosts, ranks, a bucket or Spark"
    )]
    NoMail {
        /// Name of the function.
        function: String,
        /// Who ran it.
        workers: String,
    },

    /// A letter was sent to a partition that does not exist.
    #[error(
        "{function} sent a letter from partition {from} to partition {to}, and there are {partitions}, from 0 on{}",
        .location.as_deref().map(|at| format!("\n  at {at}")).unwrap_or_default()
    )]
    NoSuchPartition {
        /// Name of the function.
        function: String,
        /// The partition that sent it.
        from: u32,
        /// The partition it was sent to.
        to: u32,
        /// How many partitions there are.
        partitions: u32,
        /// Source file and line, if known.
        location: Option<String>,
    },

    /// A crew of another crate cannot be joined.
    #[error("{0}")]
    Crew(crate::engine::provider::CrewError),

    /// Ranks cannot be had, or cannot do what was asked for.
    #[error(transparent)]
    Ranks(#[from] crate::engine::ranks::RanksError),

    /// The function is not in the executable's table.
    #[error(transparent)]
    UnknownFunction(#[from] UnknownFunction),

    /// The function panicked, or something it was given could not be used.
    #[error("{}", ShowFault(.0))]
    Fault(Box<RemoteFault>),

    /// A block of the data ended every process that ran it.
    #[error(
        "chunks {chunks:?} end every process that runs them; tried {} times:{}\n  remedy: {}",
        .deaths.len(),
        ShowDeaths(.deaths),
        poison_remedy(.deaths)
    )]
    Poison {
        /// The chunks.
        chunks: Range<u32>,
        /// Who died of it, and how, oldest first.
        deaths: Vec<(String, Death)>,
    },

    /// No worker is left, and starting them again came to nothing.
    #[error("no worker is left and none can be started:{}{}", ShowDeaths(.deaths), memory_remedy(.deaths))]
    NoWorkers {
        /// The last death on each seat.
        deaths: Vec<(String, Death)>,
    },

    /// The round cannot fit into memory; nothing of it was begun.
    #[error(transparent)]
    DoesNotFit(Box<DoesNotFit>),

    /// Hosts lack what a Python function needs; nothing was sent there.
    #[error("{0}")]
    PythonMissing(Box<crate::python::Table>),

    /// The round was cancelled.
    #[error("the round was cancelled")]
    Cancelled,

    /// The round took longer than it was allowed.
    #[error("the round took longer than {limit:?} and was cancelled; it waited for {waiting_for}")]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// Who had not delivered.
        waiting_for: String,
    },

    /// The states of a worker's partitions do not fit its memory.
    #[error(
        "{worker} cannot keep the states of {partitions} partitions: {bytes} bytes each, three times (as a round finds and leaves it, and on its way home), is {} bytes in all, and its memory limit is {limit}\n  remedy: more workers, a higher `memory_limit`, or smaller states",
        crate::execution::states::COPIES * u64::from(*.partitions) * .bytes
    )]
    StateMemory {
        /// Which worker.
        worker: String,
        /// How many partitions it has.
        partitions: u32,
        /// Length of the state of one of them.
        bytes: u64,
        /// Its limit.
        limit: u64,
    },

    /// A state that was brought home cannot be read.
    #[error("the state of partition {partition} cannot be read: {source}")]
    State {
        /// Which partition.
        partition: u32,
        /// Why.
        source: crate::DecodeError,
    },

    /// A state that was brought home is not passed on to other workers.
    #[error("the state of partition {partition} is refused: {why}")]
    StateRefused {
        /// Which partition.
        partition: u32,
        /// Why.
        why: String,
    },

    /// A round that changes states was asked for while another one did.
    #[error("a round over these states is not over yet: wait for it, or drop it, before the next one")]
    HeldBusy,

    /// The master is gone that something belonged to.
    #[error("the master that this belonged to has been dropped")]
    NoMaster,

    /// The run to go on from cannot be used.
    #[error("cannot go on from run {run}: {source}")]
    Resume {
        /// Which.
        run: String,
        /// Why.
        source: Box<crate::runs::RunError>,
    },

    /// Input or output of your own, so that `?` works on it in a `main` that returns [`Result`].
    #[error(transparent)]
    Io(#[from] io::Error),

    /// Something of the system failed on this machine.
    #[error("{step}: {source}")]
    System {
        /// What was being done.
        step: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// A fault together with where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFault {
    /// Name of the function.
    pub function: String,
    /// Who ran it; `None` when the master did, combining results.
    pub worker: Option<String>,
    /// Name (hash) of the chunk, where one is to blame.
    pub chunk_id: Option<crate::chunk::ChunkId>,
    /// What happened.
    pub fault: Fault,
}

struct ShowFault<'a>(&'a RemoteFault);

impl From<JoinError> for Error {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Ranks(error) => Error::Ranks(error),
            JoinError::Crew(error) => Error::Crew(error),
        }
    }
}

impl fmt::Display for ShowFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RemoteFault { function, worker, chunk_id, fault } = self.0;
        let what = match fault.kind {
            FaultKind::Panic => "panicked",
            FaultKind::Raised => "raised",
            FaultKind::UnknownFunction => "is not known to the worker",
            FaultKind::Params => "was given parameters that cannot be read",
            FaultKind::Chunk => "was given a chunk that cannot be used",
            FaultKind::Merge => "gave results that cannot be combined",
            FaultKind::Result => "gave a result that cannot be read",
            FaultKind::State => "could not have the state it needs",
            FaultKind::StateMemory { .. } => "needs states that do not fit the memory",
            FaultKind::NoReceiver { .. } => "sent a letter to a partition that does not exist",
            FaultKind::NoMail => "sends mail to other partitions, which is not carried here",
            FaultKind::Mail => "could not have its mail",
        };
        write!(f, "{function} {what}")?;
        match worker {
            Some(worker) => write!(f, " on {worker}")?,
            None => write!(f, " (found by the master)")?,
        }
        if let Some(chunk) = fault.chunk {
            write!(f, ", chunk {chunk}")?;
            if let Some(id) = chunk_id {
                write!(f, " ({id})")?;
            }
        }
        write!(f, ": {}", printable(&fault.message))?;
        if let Some(location) = &fault.location {
            write!(f, "\n  at {}", printable(location))?;
        }
        if let Some(backtrace) = &fault.backtrace {
            write!(f, "\n  remote backtrace:\n{}", printable(backtrace))?;
        }
        Ok(())
    }
}

struct ShowDeaths<'a>(&'a [(String, Death)]);

impl fmt::Display for ShowDeaths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<&Death> = None;
        for (worker, death) in self.0 {
            match before {
                // The same words three times say no more than once.
                Some(b) if b.cause == death.cause && b.last_lines == death.last_lines => {
                    write!(f, "\n  {worker}: the same")?;
                }
                _ => write!(f, "\n  {worker} {death}")?,
            }
            before = Some(death);
        }
        Ok(())
    }
}

struct ShowFailures<'a>(&'a [(String, StartFailure)]);

impl fmt::Display for ShowFailures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (host, failure)) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{host}: {failure}")?;
        }
        Ok(())
    }
}

/// As a user sees it in `Error: …` at the end of a `main`, and in a test's `unwrap`: the message, not the fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.to_string()))
    }
}

fn start_remedy(death: &Death) -> &'static str {
    match &death.cause {
        Cause::Protocol(_) => "\n  remedy: master and worker must be the same build",
        Cause::Exited(_) | Cause::Signal(_) => {
            "\n  remedy: see its last lines; `local` workers need no processes"
        }
        _ => "",
    }
}

fn poison_remedy(deaths: &[(String, Death)]) -> &'static str {
    match deaths.last().map(|(_, death)| &death.cause) {
        Some(Cause::OutOfMemory { .. }) => {
            "raise the limit, or cut the data into smaller chunks (`chunk_records`, `partitions`)"
        }
        Some(Cause::KilledForMemory { .. }) => {
            "give the program more memory or fewer workers, cut the data into smaller chunks, or set `memory_limit`, so that \
             one worker ends before all suffer"
        }
        Some(Cause::Exited(_)) => "a function must return or panic, not end its process",
        Some(Cause::Signal(9)) => {
            "if nobody killed them, memory ran out: see `memory_limit`, or cut smaller chunks"
        }
        _ => "run the function on these chunks in this process (`data.chunk(i)`) under a debugger",
    }
}

/// What to do when the last of them ran out of memory outside of any block: reading parameters, or sending a result.
fn memory_remedy(deaths: &[(String, Death)]) -> &'static str {
    match deaths.last().map(|(_, death)| &death.cause) {
        Some(Cause::OutOfMemory { .. }) => {
            "\n  remedy: raise the limit (`memory_limit`); parameters that are seen as `&[f64]` need no memory of the worker's, \
             and a result needs its length twice on its way out"
        }
        _ => "",
    }
}

/// What the machines' word for a failure is to the user.
pub(crate) fn from_failure(
    failure: RoundFailure,
    function: &str,
    name_of: impl Fn(qjam_core::ids::WorkerId) -> String,
    chunk_id: impl Fn(u32) -> Option<crate::chunk::ChunkId>,
    chunks_of: impl Fn(u32) -> Range<u32>,
) -> Error {
    let named = |deaths: Vec<(qjam_core::ids::WorkerId, Death)>| {
        deaths.into_iter().map(|(worker, death)| (name_of(worker), death)).collect()
    };
    match failure {
        RoundFailure::Fault {
            worker: Some(worker),
            fault: Fault { kind: FaultKind::StateMemory { partitions, bytes, limit }, .. },
        } => Error::StateMemory { worker: name_of(worker), partitions, bytes, limit },
        RoundFailure::Fault {
            fault: Fault { kind: FaultKind::NoReceiver { from, to, partitions }, location, .. },
            ..
        } => Error::NoSuchPartition { function: function.into(), from, to, partitions, location },
        RoundFailure::Fault { worker, fault: Fault { kind: FaultKind::NoMail, .. } } => {
            let workers = worker.map_or_else(|| "these workers".into(), &name_of);
            Error::NoMail { function: function.into(), workers }
        }
        RoundFailure::Fault { worker, fault } => Error::Fault(Box::new(RemoteFault {
            function: function.into(),
            worker: worker.map(&name_of),
            chunk_id: fault.chunk.and_then(chunk_id),
            fault,
        })),
        RoundFailure::Poison { block, deaths } => {
            Error::Poison { chunks: chunks_of(block), deaths: named(deaths) }
        }
        RoundFailure::NoWorkers { deaths } => Error::NoWorkers { deaths: named(deaths) },
        RoundFailure::Cancelled => Error::Cancelled,
    }
}

impl From<CannotResume> for Error {
    fn from(CannotResume { run, why }: CannotResume) -> Self {
        Error::Resume { run, source: Box::new(why) }
    }
}

impl Error {
    /// The fault, when user code or user data is to blame.
    pub fn fault(&self) -> Option<&RemoteFault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}
