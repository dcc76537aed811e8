//! The messages between a master and the supervisor on another host.
//!
//! Messages between the master and the executor on the host pass through the supervisor inside [`ToHost::Worker`] and
//! [`FromHost::Worker`]. Payloads that are too large for a frame (parameters, chunks, results) are announced by an *opening* and follow in
//! frames of the kind [`KIND_SEGMENT`], which have no body: their tails, concatenated, are the bytes. At most one opening is active in each
//! direction, and the message that refers to it comes after its last segment. Short messages may come between two segments, so that a
//! heartbeat never waits behind a gigabyte.
//!
//! ```text
//!   master                                         supervisor                     executor
//!     │ ◀──────────────────────────────────── hello │
//!     │ ── welcome, start ────────────────────────▶ │ ── (starts it) ───────────▶ │
//!     │ ◀─────────────────────────────────── joined │ ◀─ hello ────────────────── │
//!     │ ── opening: params, segments …, task ─────▶ │ ── task (θ in an arena) ──▶ │
//!     │ ◀─ state (what is in no cache either) ───── │ ◀─ state (blocked) ──────── │
//!     │ ── opening: chunk, segments … ────────────▶ │ ── refs (place on disk) ──▶ │
//!     │ ◀─ opening: part, segments …, result ────── │ ◀─ result (in an arena) ─── │
//!     │ ◀─ died (cause, blocks inside, last lines) ─│ ◀─ ✗                        │
//! ```

use super::frame::Frame;
use super::message::{MessageError, ToMaster, ToWorker, body_of};
use crate::chunk::{ChunkId, Header};
use crate::ids::{RoundId, WorkerId};
use crate::job::Death;
use serde::{Deserialize, Serialize};

/// Kind of a frame from the master to a supervisor.
pub const KIND_TO_HOST: u8 = 3;
/// Kind of a frame from a supervisor to the master.
pub const KIND_FROM_HOST: u8 = 4;
/// Kind of a frame whose tail is the next piece of what was opened, in either direction.
pub const KIND_SEGMENT: u8 = 5;
/// Longest segment we send. A short message waits behind one of them at most.
pub const SEGMENT_BYTES: usize = 256 << 10;

/// From the master to a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHost {
    /// Answers `hello`: how the executors are to be kept.
    Welcome {
        /// Most bytes of private memory of an executor.
        memory_bytes_max: Option<u64>,
        /// Most bytes of opened chunks that an executor keeps.
        cache_bytes_max: u64,
        /// Most bytes of the cache on disk, where the user says so.
        disk_bytes_max: Option<u64>,
        /// Executors deliver finished work after this much time even if there is more to do.
        deliver_after_us: u64,
        /// Most lines of output per second that are passed on.
        lines_per_second_max: u32,
        /// What executors need to run functions of another language, if the master has any. Not read here.
        runtime: Option<Vec<u8>>,
    },
    /// Start an executor.
    Start {
        /// Who it will be.
        worker: WorkerId,
        /// How many blocks it runs at once; `None` for one per core.
        slots: Option<u32>,
    },
    /// End the executor, whatever it does.
    Kill {
        /// Which.
        worker: WorkerId,
    },
    /// For the executor.
    Worker {
        /// Which.
        worker: WorkerId,
        /// What it is told.
        message: ToWorker,
    },
    /// Parameters of a round follow in segments.
    OpenParams {
        /// Which round.
        round: RoundId,
        /// How many bytes.
        bytes: u64,
    },
    /// A chunk follows in segments; its length is in the header.
    OpenChunk {
        /// Its name.
        id: ChunkId,
        /// What its bytes mean.
        header: Header,
    },
    /// Bytes follow in segments that nobody needs: to see how fast they go.
    OpenNothing {
        /// How many.
        bytes: u64,
    },
    /// The rest of what was opened does not follow.
    Abandon,
    /// Nobody needs the parameters of this round any more.
    Closed {
        /// Which round.
        round: RoundId,
    },
    /// A sign of life, to be answered with the same number.
    Beat {
        /// Any number.
        echo: u64,
    },
    /// Do something with the cache on disk and report.
    Cache(CacheOrder),
    /// Go.
    Bye,
}

/// What to do with a cache on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheOrder {
    /// Say what is there.
    Survey,
    /// Remove what nobody uses.
    Clear,
    /// Compare every chunk with its name; drop those that differ.
    Verify,
    /// Allow at most so many bytes from now on; `None` for the default.
    Cap(Option<u64>),
}

/// What is in a cache on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFacts {
    /// Its folder; empty when there is none.
    pub folder: String,
    /// How many files.
    pub packs: u64,
    /// How many chunks.
    pub chunks: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Most bytes on disk.
    pub cap_bytes: u64,
    /// Bytes that are free on that disk, for this user.
    pub free_bytes: u64,
    /// Bytes that were removed by this order.
    pub removed_bytes: u64,
    /// Chunks that were compared with their names.
    pub verified: u64,
    /// Those of them that differed.
    pub damaged: u64,
    /// What is wrong with it.
    pub trouble: Option<String>,
}

/// What a supervisor knows of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Version of the package.
    pub version: String,
    /// Process of the supervisor.
    pub pid: u32,
    /// What the host calls itself.
    pub hostname: String,
    /// The kernel's name and release.
    pub system: String,
    /// Cores that the user may use there.
    pub cores: u32,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// Memory that is free there.
    pub memory_free_bytes: u64,
}

/// A line that user code printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The line, without its end.
    pub text: String,
    /// Whether it went to standard error.
    pub is_error: bool,
}

/// From a supervisor to the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromHost {
    /// First words.
    Hello(HostFacts),
    /// The executor is ready.
    Joined {
        /// Which.
        worker: WorkerId,
        /// How many blocks it runs at once.
        slots: u32,
        /// Its process.
        pid: u32,
    },
    /// The executor is no more.
    Died {
        /// Which.
        worker: WorkerId,
        /// How that came.
        death: Death,
    },
    /// From the executor.
    Worker {
        /// Which.
        worker: WorkerId,
        /// What it says.
        message: ToMaster,
    },
    /// What user code printed.
    Lines {
        /// Where.
        worker: WorkerId,
        /// The lines, in order.
        lines: Vec<Line>,
        /// How many more there were that are not passed on.
        dropped: u64,
    },
    /// A result follows in segments.
    OpenPart {
        /// How many bytes.
        bytes: u64,
    },
    /// A chunk that came cannot be used: it has another name than was said, or there is no room for it.
    Refused {
        /// The name that was said.
        chunk: ChunkId,
        /// What is the matter with it.
        why: String,
    },
    /// Something the user should know; the run goes on.
    Trouble(String),
    /// A sign of life.
    Beat {
        /// The number that was sent, or 0.
        echo: u64,
    },
    /// What the cache is like, after an order.
    Cached(CacheFacts),
}

impl ToHost {
    /// Reads a frame from the master.
    pub fn from_frame(frame: &Frame<'_>) -> Result<Self, MessageError> {
        let message: Self = body_of(frame, KIND_TO_HOST, "master's")?;
        if let ToHost::Worker { message, .. } = &message {
            message.check()?;
        }
        Ok(message)
    }

    /// The body of the frame.
    pub fn to_body(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("messages are plain data")
    }
}

impl FromHost {
    /// Reads a frame from a supervisor.
    pub fn from_frame(frame: &Frame<'_>) -> Result<Self, MessageError> {
        body_of(frame, KIND_FROM_HOST, "supervisor's")
    }

    /// The body of the frame.
    pub fn to_body(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("messages are plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SeatId;
    use crate::job::Cause;
    use crate::wire::frame;

    #[test]
    fn messages_between_hosts_survive_the_trip() {
        let worker = WorkerId { seat: SeatId(3), incarnation: 2 };
        for message in [
            ToHost::Start { worker, slots: None },
            ToHost::Worker { worker, message: ToWorker::Cancel(RoundId(7)) },
            ToHost::Cache(CacheOrder::Cap(Some(5))),
            ToHost::Welcome {
                memory_bytes_max: None,
                cache_bytes_max: 1,
                disk_bytes_max: None,
                deliver_after_us: 2,
                lines_per_second_max: 3,
                runtime: Some(vec![1; 60_000]),
            },
        ] {
            let bytes = frame::encode(KIND_TO_HOST, &message.to_body(), b"tail");
            let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
            assert_eq!(ToHost::from_frame(&frame), Ok(message));
        }
        let died = FromHost::Died { worker, death: Death::of(Cause::Signal(11)) };
        let bytes = frame::encode(KIND_FROM_HOST, &died.to_body(), b"");
        let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!(FromHost::from_frame(&frame), Ok(died));
        assert_eq!(ToHost::from_frame(&frame), Err(MessageError::Kind(KIND_FROM_HOST)));
    }
}
