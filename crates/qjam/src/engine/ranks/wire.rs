//! What ranks say to each other.
//!
//! All ranks are the same executable, which is checked when they meet, and nobody else can send to them: so bodies are
//! postcard and lengths are believed.

use super::sum::{Decision, Summable};
use crate::chunk::{ChunkId, Header};
use crate::execution::round::Effort;
use qjam_core::ids::{DataSetId, HoldId, RoundId};
use qjam_core::job::Fault;
use qjam_core::order::HeldTask;
use qjam_core::order::OrderHead;
use qjam_core::reduce::{Cut, Node};
use qjam_core::wire::host::Line;
use serde::{Deserialize, Serialize};

/// Kinds of messages.
pub(super) mod tag {
    /// From rank 0, or passed on for it: what to do.
    pub(crate) const COMMAND: i32 = 1;
    /// To rank 0: what was asked for.
    pub(crate) const REPLY: i32 = 2;
    /// Up the tree of ranks: results.
    pub(crate) const RESULT: i32 = 3;
    /// After one of those: what did not fit in it.
    pub(crate) const PAYLOAD: i32 = 4;
    /// From rank 0: nobody wants the round any more.
    pub(crate) const CANCEL: i32 = 5;
    /// To rank 0: the round has failed, and the others need not go on.
    pub(crate) const FAILED: i32 = 6;
}

/// A number that tells the masters of a program apart.
pub(super) type MasterId = u64;

/// What rank 0 wants.
#[derive(Serialize, Deserialize)]
pub(super) enum Command {
    /// Say who you are.
    Greet,
    /// A master begins.
    Begin { master: MasterId, cache_bytes_max: u64 },
    /// Chunks that blocks of this rank are made of. It says which of them it cannot find, and gets those.
    Introduce { master: MasterId, dataset: DataSetId, machine: String, chunks: Vec<Introduced> },
    /// Say which states of your blocks you lack, and make them by what you are sent.
    Behind { master: MasterId, round: RoundId, held: HeldTask, cut: Cut },
    /// A round, for all ranks at once. Its parameters are at the end of this message or come as a broadcast.
    Round(RoundCommand),
    /// What becomes of the results of the round that everybody has just run.
    Decided(Decision),
    /// Nobody will ask for these states again.
    Release { master: MasterId, hold: HoldId },
    /// Nobody will ask for this data again.
    Forget { master: MasterId, dataset: DataSetId },
    /// A master is gone.
    End { master: MasterId },
    /// The program is at its end.
    Leave,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RoundCommand {
    pub(super) master: MasterId,
    /// Counts the rounds of all masters: what is said of one by itself names it by this.
    pub(super) turn: u64,
    pub(super) order: OrderHead,
    pub(super) params_bytes: u64,
    /// Whether the parameters follow in this very message.
    pub(super) is_short: bool,
    /// Whether the library may add results up.
    pub(super) any_order: bool,
}

/// A chunk, and where it may be found.
#[derive(Serialize, Deserialize)]
pub(super) struct Introduced {
    pub(super) index: u32,
    pub(super) id: ChunkId,
    pub(super) header: Header,
    pub(super) place: Shown,
}

/// Where a chunk may be found by a process of the same machine, or by one that shares its files.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Shown {
    /// It has no bytes.
    Empty,
    /// In shared memory of rank 0: process, descriptor, device, inode, length of all; and where in it.
    Memory { pid: u32, fd: i32, device: u64, inode: u64, bytes: u64, offset: u64 },
    /// In a file: its path, where in it, and what it was when it was hashed.
    File { path: Vec<u8>, offset: u64, stamp: (u64, u64, u64, i128) },
    /// Only rank 0 has it.
    Nowhere,
}

/// Who a rank is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) pid: u32,
    pub(super) host: String,
    /// What tells this machine from others, as long as it is up.
    pub(super) machine: String,
    /// Version and hash of the functions it has.
    pub(super) build: String,
    pub(super) memory_bytes: u64,
}

/// What goes up the tree of ranks.
#[derive(Serialize, Deserialize)]
pub(super) enum Upward {
    /// A value that is long: it comes in messages after this one.
    Long { round: RoundId, node: Node, bytes: u64 },
    /// The rest: short values, which follow in this message, and how it went.
    Rest(Box<Gathered>),
}

/// What a rank, and those whose results it has merged, have of a round besides long values.
#[derive(Serialize, Deserialize)]
pub(super) struct Gathered {
    pub(super) round: RoundId,
    /// Short values, one after the other.
    pub(super) parts: Vec<(Node, u32)>,
    pub(super) failure: Option<Failure>,
    pub(super) efforts: Vec<RankEffort>,
    pub(super) lines: Vec<RankLine>,
    /// Where values stay for the time being: whether the library could add them up.
    pub(super) summable: Summable,
}

/// Why there is no value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// User code or user data is to blame, on this rank.
    Fault(u32, Fault),
    /// Nobody wants it any more.
    Cancelled,
}

/// What a rank did for a round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RankEffort {
    pub(crate) rank: u32,
    pub(crate) effort: Effort,
    /// Bytes of values that it sent to another rank.
    pub(crate) sent_bytes: u64,
}

/// What user code printed on a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RankLine {
    pub(crate) rank: u32,
    pub(crate) line: Line,
}

/// A body, in bytes.
pub(super) fn encoded<T: Serialize>(body: &T) -> Vec<u8> {
    postcard::to_stdvec(body).expect("memory is all that encoding needs")
}
