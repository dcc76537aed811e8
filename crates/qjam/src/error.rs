//! What can go wrong in a run: what failed, where, why, and what to do.

use crate::engine::WorkerStringError;
use crate::reduce::MergeError;
use crate::registry::UnknownFunction;
use crate::source::DataError;
use qjam_core::job::{Death, Fault, FaultKind, RoundFailure};
use std::fmt;
use std::io;
use std::ops::Range;
use std::time::Duration;
use thiserror::Error;

/// The usual result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A run that did not succeed. The master stays usable after any of these.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The worker string makes no sense.
    #[error(transparent)]
    WorkerString(#[from] WorkerStringError),

    /// The data set could not be made or read.
    #[error(transparent)]
    Data(#[from] DataError),

    /// Workers could not be started.
    #[error("{worker} could not be started: {death}\n  remedy: {}", start_remedy(.death))]
    Start {
        /// Which worker.
        worker: String,
        /// How the last attempt ended.
        death: Death,
    },

    /// The function is not in the executable's table.
    #[error(transparent)]
    UnknownFunction(#[from] UnknownFunction),

    /// The function panicked, or something it was given could not be used.
    #[error("{}", ShowFault(.0))]
    Fault(Box<RemoteFault>),

    /// A block of the data ended every process that ran it.
    #[error(
        "chunks {chunks:?} end every process that runs them; tried {} times:{}\n  remedy: run the function on these chunks in this process (`data.chunk(i)`) under a debugger",
        .deaths.len(),
        ShowDeaths(.deaths)
    )]
    Poison {
        /// The chunks.
        chunks: Range<u32>,
        /// Who died of it, and how, oldest first.
        deaths: Vec<(String, Death)>,
    },

    /// No worker is left, and starting them again came to nothing.
    #[error("no worker is left and none can be started:{}", ShowDeaths(.deaths))]
    NoWorkers {
        /// The last death on each seat.
        deaths: Vec<(String, Death)>,
    },

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

impl fmt::Display for ShowFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RemoteFault { function, worker, chunk_id, fault } = self.0;
        let what = match fault.kind {
            FaultKind::Panic => "panicked",
            FaultKind::UnknownFunction => "is not known to the worker",
            FaultKind::Params => "was given parameters that cannot be read",
            FaultKind::Chunk => "was given a chunk that cannot be used",
            FaultKind::Merge => "gave results that cannot be combined",
            FaultKind::Result => "gave a result that cannot be read",
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
        write!(f, ": {}", fault.message)?;
        if let Some(location) = &fault.location {
            write!(f, "\n  at {location}")?;
        }
        if let Some(backtrace) = &fault.backtrace {
            write!(f, "\n  remote backtrace:\n{backtrace}")?;
        }
        Ok(())
    }
}

struct ShowDeaths<'a>(&'a [(String, Death)]);

impl fmt::Display for ShowDeaths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (worker, death) in self.0 {
            write!(f, "\n  {worker}: {death}")?;
        }
        Ok(())
    }
}

fn start_remedy(death: &Death) -> &'static str {
    use qjam_core::job::Cause;
    match &death.cause {
        Cause::Start(_) => {
            "the executable must be able to start itself: put #[qjam::main] on its main function, or qjam::worker_hook!() into a test"
        }
        Cause::Protocol(_) => "master and worker must be the same build",
        _ => "see its last lines; `local` workers need no processes",
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

impl Error {
    /// The fault, when user code or user data is to blame.
    pub fn fault(&self) -> Option<&RemoteFault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

/// A failed merge found by the master.
pub(crate) fn merge_fault(error: &MergeError) -> Fault {
    Fault { kind: FaultKind::Merge, chunk: None, message: error.to_string(), location: None, backtrace: None }
}
