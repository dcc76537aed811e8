//! What a round asks for and how it can fail, in words that need no user types.
//!
//! The machines know a round by its [`RoundSpec`]; what the user's function is and what its bytes mean is the
//! business of the crate around them. A [`Fault`] is a failure inside user code or user data that a worker reports;
//! a [`Death`] is the end of a worker as its supervisor saw it.

use crate::ids::{Block, DataSetId, HoldId, RoundId, WorkerId};
use crate::reduce::Cut;
use crate::time::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A round as the scheduler sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundSpec {
    /// The data it runs over.
    pub dataset: DataSetId,
    /// Its chunks and blocks.
    pub cut: Cut,
    /// As many workers take part as have so many slots together, if not all should.
    pub slots_max: Option<u32>,
    /// The first so many blocks were run by the master itself; not all of them.
    pub done: u32,
    /// The states it needs, if any: then its blocks are single chunks, and each goes where its state is.
    pub held: Option<HoldId>,
}

impl RoundSpec {
    /// A round of all workers, with nothing done yet.
    pub fn new(dataset: DataSetId, cut: Cut) -> Self {
        RoundSpec { dataset, cut, slots_max: None, done: 0, held: None }
    }
}

/// What kind of thing went wrong while a worker did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// The user's function panicked.
    Panic,
    /// The user's function in another language, or what combines its results, raised an exception or ended its
    /// interpreter.
    Raised,
    /// The executable has no function of that name.
    UnknownFunction,
    /// The parameters could not be read.
    Params,
    /// A chunk could not be had or opened.
    Chunk,
    /// Two results could not be combined.
    Merge,
    /// A result could not be read back.
    Result,
    /// The state of a partition could not be had.
    State,
    /// The states of a worker would take more memory than it may.
    StateMemory {
        /// How many partitions it has.
        partitions: u32,
        /// Bytes of the state of one.
        bytes: u64,
        /// Most bytes of private memory.
        limit: u64,
    },
}

/// A failure inside user code or user data. It fails its round at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// On which chunk, where that is known.
    pub chunk: Option<u32>,
    /// What it said.
    pub message: String,
    /// Source file and line, where known.
    pub location: Option<String>,
    /// The remote backtrace, where there is one.
    pub backtrace: Option<String>,
    /// What is needed to make the error again as the function's own language has it; only that
    /// language reads it.
    pub carried: Vec<u8>,
}

/// Why a worker is no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It ended by itself with this code.
    Exited(i32),
    /// A signal ended it.
    Signal(i32),
    /// It asked for more memory than its limit allows.
    OutOfMemory {
        /// The limit.
        limit_bytes: u64,
        /// What it asked for when it was refused.
        asked_bytes: u64,
    },
    /// It said nothing for this many microseconds.
    Silent(u64),
    /// It did not let go of a round that was over.
    Unresponsive,
    /// It broke the protocol in this way.
    Protocol(String),
    /// It could not be started.
    Start(String),
    /// The connection to its host was lost; with the last words of whatever held it.
    LinkLost(String),
    /// The kernel killed it because memory ran out for all that share a limit with it.
    KilledForMemory {
        /// That limit.
        limit_bytes: u64,
        /// Most that they had together.
        peak_bytes: u64,
    },
}

impl Cause {
    /// Whether such an end says something about the blocks the worker was inside. It does not when the master ended it
    /// for not letting go of another round, when it never got as far as running any, or when it is only out of reach.
    pub fn is_telling(&self) -> bool {
        !matches!(self, Cause::Unresponsive | Cause::Protocol(_) | Cause::Start(_) | Cause::LinkLost(_))
    }
}

/// What an executor was doing, as far as its supervisor could see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Activity {
    /// Not yet through the handshake.
    Starting,
    /// Reading a task or taking in chunks.
    Receiving,
    /// Inside the user's function.
    Mapping,
    /// Handing results over.
    Sending,
    /// Waiting for work.
    Idle,
}

/// The end of a worker: cause, circumstances, last words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Why.
    pub cause: Cause,
    /// What it was doing.
    pub activity: Activity,
    /// Blocks it was inside when it died: these are the ones to blame.
    pub inside: Vec<(RoundId, Block)>,
    /// The last lines it printed.
    pub last_lines: Vec<String>,
}

impl Death {
    /// A death of which only the cause is known.
    pub fn of(cause: Cause) -> Self {
        Death { cause, activity: Activity::Idle, inside: Vec::new(), last_lines: Vec::new() }
    }
}

/// Why a round failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundFailure {
    /// User code or user data failed on a worker.
    Fault {
        /// Whose report it is; `None` when the master itself found it.
        worker: Option<WorkerId>,
        /// What happened.
        fault: Fault,
    },
    /// A block ended its executor as often as we try.
    Poison {
        /// The block.
        block: Block,
        /// Who died of it, and how, oldest first.
        deaths: Vec<(WorkerId, Death)>,
    },
    /// No worker is left and none can be started.
    NoWorkers {
        /// The last death on each seat.
        deaths: Vec<(WorkerId, Death)>,
    },
    /// The user cancelled it.
    Cancelled,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Exited(code) => write!(f, "exited with code {code}"),
            Cause::Signal(n) => write!(f, "killed by signal {n} ({})", signal_name(*n)),
            Cause::OutOfMemory { limit_bytes, asked_bytes } => {
                write!(f, "out of memory: asked for {asked_bytes} bytes more under a limit of {limit_bytes}")
            }
            Cause::Silent(us) => write!(f, "silent for {}", Span(*us)),
            Cause::Unresponsive => f.write_str("did not stop when its round was over, so it was killed"),
            Cause::Protocol(why) => write!(f, "broke the protocol: {why}"),
            Cause::Start(why) => write!(f, "could not be started: {why}"),
            Cause::LinkLost(why) if why.is_empty() => f.write_str("lost the connection"),
            Cause::LinkLost(why) => write!(f, "lost the connection: {why}"),
            Cause::KilledForMemory { limit_bytes, peak_bytes } => write!(
                f,
                "killed by the kernel when memory ran out: everything under the same limit had up to {peak_bytes} bytes of {limit_bytes}"
            ),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        if !self.last_lines.is_empty() {
            write!(f, "; its last lines:")?;
            for line in &self.last_lines {
                write!(f, "\n    | {line}")?;
            }
        }
        Ok(())
    }
}

/// The name of a signal on Linux.
pub fn signal_name(n: i32) -> &'static str {
    match n {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL, an illegal instruction",
        5 => "SIGTRAP",
        6 => "SIGABRT, an abort",
        7 => "SIGBUS, a bad memory access",
        8 => "SIGFPE, an arithmetic error",
        9 => "SIGKILL, by someone else or by the kernel when memory ran out",
        11 => "SIGSEGV, a bad memory access",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU, its time limit",
        31 => "SIGSYS, a forbidden system call",
        _ => "no common one",
    }
}
