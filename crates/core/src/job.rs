//! The description of a round and of its failures, without user types.
//!
//! The state machines know a round by its [`RoundSpec`]; functions and the meaning of bytes belong to other crates. A [`Fault`] is a
//! failure in user code or user data, reported by a worker; a [`Death`] is the end of a worker, as its supervisor observed it.

use crate::ids::{Block, DataSetId, HoldId, RoundId, WorkerId};
use crate::reduce::Cut;
use crate::text::printable;
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
    /// Maximum number of slots that take part, if not all.
    pub slots_max: Option<u32>,
    /// Number of first blocks that the master has run itself; not all of them.
    pub done: u32,
    /// The hold whose states it needs, if any: then blocks are single chunks, and each is assigned to the home of its state.
    pub held: Option<HoldId>,
}

impl RoundSpec {
    /// A round on all workers, with no block done.
    pub fn new(dataset: DataSetId, cut: Cut) -> Self {
        RoundSpec { dataset, cut, slots_max: None, done: 0, held: None }
    }
}

/// The kind of a fault.
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
    /// A chunk could not be obtained or opened.
    Chunk,
    /// Two results could not be combined.
    Merge,
    /// A result could not be read back.
    Result,
    /// The state of a partition could not be obtained.
    State,
    /// The states of a worker would exceed its memory limit.
    StateMemory {
        /// Number of its partitions.
        partitions: u32,
        /// Bytes of one state.
        bytes: u64,
        /// Limit of private memory in bytes.
        limit: u64,
    },
    /// A letter was sent to a partition that does not exist.
    NoReceiver {
        /// The partition that sent it.
        from: u32,
        /// The partition it was sent to.
        to: u32,
        /// Number of partitions.
        partitions: u32,
    },
    /// A letter was sent where nobody carries mail.
    NoMail,
    /// Mail could not be obtained or read.
    Mail,
}

/// A failure in user code or user data. It fails its round immediately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// The chunk, if known.
    pub chunk: Option<u32>,
    /// The message.
    pub message: String,
    /// Source file and line, if known.
    pub location: Option<String>,
    /// The remote backtrace, if there is one.
    pub backtrace: Option<String>,
    /// The error as an object of the function's own language, serialised by that language.
    pub carried: Vec<u8>,
}

impl Fault {
    /// A fault of which only the kind and the message are known.
    pub fn new(kind: FaultKind, message: String) -> Self {
        Fault { kind, chunk: None, message, location: None, backtrace: None, carried: Vec::new() }
    }
}

/// Why a worker ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it.
    Signal(i32),
    /// It requested more memory than its limit allows.
    OutOfMemory {
        /// The limit.
        limit_bytes: u64,
        /// The size that was refused; 0 if that is not known.
        asked_bytes: u64,
    },
    /// It was silent for this many microseconds.
    Silent(u64),
    /// It did not drop a round that had ended.
    Unresponsive,
    /// It violated the protocol in this way.
    Protocol(String),
    /// It could not be started.
    Start(String),
    /// The connection to its host was lost; with the last output of the ssh process.
    LinkLost(String),
    /// The kernel killed it because the memory of its control group or machine was exhausted.
    KilledForMemory {
        /// The limit of that group.
        limit_bytes: u64,
        /// The peak of that group.
        peak_bytes: u64,
    },
}

impl Cause {
    /// Whether this cause counts against the blocks that the worker was running. It does not if the master ended the worker for not
    /// dropping another round, if it never ran a block, or if it is only unreachable.
    pub fn is_telling(&self) -> bool {
        !matches!(self, Cause::Unresponsive | Cause::Protocol(_) | Cause::Start(_) | Cause::LinkLost(_))
    }
}

/// What an executor was doing when it ended, as its supervisor observed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Activity {
    /// Before the end of the handshake.
    Starting,
    /// Reading a task or receiving chunks.
    Receiving,
    /// Inside the user's function.
    Mapping,
    /// Sending results.
    Sending,
    /// Waiting for work.
    Idle,
}

/// The end of a worker: cause, circumstances, last output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Why.
    pub cause: Cause,
    /// What it was doing.
    pub activity: Activity,
    /// Blocks it was running when it died, which count against them.
    pub inside: Vec<(RoundId, Block)>,
    /// The last lines it printed.
    pub last_lines: Vec<String>,
}

impl Death {
    /// A death with only a cause.
    pub fn of(cause: Cause) -> Self {
        Death { cause, activity: Activity::Idle, inside: Vec::new(), last_lines: Vec::new() }
    }
}

/// Why a round failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundFailure {
    /// User code or user data failed on a worker.
    Fault {
        /// The worker that reported it; `None` for the master itself.
        worker: Option<WorkerId>,
        /// What happened.
        fault: Fault,
    },
    /// A block ended its executor as often as is allowed.
    Poison {
        /// The block.
        block: Block,
        /// The workers that died of it, and how, oldest first.
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
            Cause::OutOfMemory { limit_bytes, asked_bytes: 0 } => {
                write!(f, "out of memory under a limit of {limit_bytes}")
            }
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
        f.write_str(&printable(&self.cause.to_string()))?;
        if !self.last_lines.is_empty() {
            write!(f, "; its last lines:")?;
            for line in &self.last_lines {
                write!(f, "\n    | {}", printable(line))?;
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
