//! What a run file is made of.
//!
//! ```text
//!   offset 0   "qjam run"            8 bytes
//!          8   version               u16
//!         10   state                 u8: 0; when recording had to stop 1, and when such a run ended, how
//!         11   zeros                 5 bytes
//!         16   records, one after the other:
//!                length of the body  u32
//!                CRC-32 of the body  u32
//!                body                a postcard message, and for a round's result its bytes after it
//! ```
//!
//! Records are only ever added, so a file is good up to where its writer was stopped: what follows the last whole
//! record is not read. The one byte that changes in place can be written on a full disk, too.

use qjam_core::journal::{RoundReport, What};
use serde::{Deserialize, Serialize};

pub(super) const MAGIC: &[u8; 8] = b"qjam run";
pub(super) const VERSION: u16 = 1;
/// Length of what comes before the first record.
pub(super) const HEAD_BYTES: u64 = 16;
/// Where it says whether recording had to stop.
pub(super) const STATE_AT: u64 = 10;
/// Length and checksum before each body.
pub(super) const FRAME_BYTES: usize = 8;
/// Longest result that is kept. Longer ones are told by their hash.
pub(super) const RESULT_BYTES_MAX: usize = 16 << 20;
/// Longest message of a record, without the result after it.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Longest body that is believed.
pub(super) const BODY_BYTES_MAX: usize = RESULT_BYTES_MAX + MESSAGE_BYTES_MAX;

/// The byte of a file that changes in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FileState {
    /// All was recorded so far.
    Whole = 0,
    /// Recording had to stop. The run may have gone on.
    CutShort = 1,
    /// Recording had to stop, and later the run came to its end.
    Finished = 2,
    /// Recording had to stop, and later the run failed.
    Failed = 3,
}

impl FileState {
    /// What that byte says; recording had to stop if it says anything.
    pub(super) fn of(byte: u8) -> FileState {
        match byte {
            0 => FileState::Whole,
            2 => FileState::Finished,
            3 => FileState::Failed,
            _ => FileState::CutShort,
        }
    }
}

/// A BLAKE3 hash.
pub(crate) type Hash = [u8; 32];

/// Who ran, where, and on what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Began {
    /// Microseconds since 1970.
    pub(crate) unix_us: u64,
    /// The process, and a number that all masters of that process share.
    pub(crate) pid: u32,
    pub(crate) process: u64,
    /// How many masters that process had made before.
    pub(crate) nth: u32,
    pub(crate) host: String,
    /// The executable, as the system named it, and what tells it from another build until its hash is known.
    pub(crate) program: Vec<u8>,
    pub(crate) program_bytes: u64,
    pub(crate) program_changed_us: u64,
    pub(crate) arguments: Vec<Vec<u8>>,
    pub(crate) directory: Vec<u8>,
    /// Version of this package.
    pub(crate) version: String,
    pub(crate) workers: String,
    pub(crate) seed: u64,
    /// The run that this one goes on from.
    pub(crate) resumed: Option<String>,
}

/// What is there of a round's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StoredValue {
    /// Nothing: it would have cost too much.
    Nothing,
    /// Its hash.
    Hash(Hash),
    /// All of it: the bytes after the message.
    Bytes,
}

/// One record. Numbers of functions and data sets are given by the records that name them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Record {
    /// The first one.
    Began(Box<Began>),
    /// The hash of the executable, when it was known.
    Executable(Hash),
    Seat {
        seat: u32,
        name: String,
    },
    Function {
        number: u32,
        name: String,
    },
    Data {
        number: u32,
        id: Hash,
        chunks: u32,
        bytes: u64,
    },
    /// An entry of the journal. Rounds have records of their own.
    Happened {
        at_us: u64,
        what: What,
    },
    RoundBegan {
        round: u64,
        at_us: u64,
        function: u32,
        data: u32,
    },
    RoundDone {
        round: u64,
        at_us: u64,
        /// The hash of the parameters, unless that would have cost too much.
        params: Option<Hash>,
        report: RoundReport,
        kept: StoredValue,
        /// Its value was not computed but taken from the run before.
        recalled: bool,
    },
    RoundFailed {
        round: u64,
        at_us: u64,
        error: String,
    },
    /// Somebody was waited for.
    Waited {
        at_us: u64,
        text: String,
    },
    /// From here on rounds are counted, and not recorded.
    Full {
        at_us: u64,
    },
    /// How many rounds there were, of which some are not recorded.
    Counted {
        at_us: u64,
        finished: u64,
        failed: u64,
    },
    /// The last one: how it ended.
    Ended {
        at_us: u64,
        error: Option<String>,
    },
    /// The file that computes, where it is not the executable: what size, time and hash are said of.
    Build(Vec<u8>),
    /// A value that the program got from elsewhere than its rounds, encoded; `None` if it was too long.
    Observed {
        name: String,
        value: Option<Vec<u8>>,
    },
    /// How long each seat computed for a round, in microseconds.
    Shares {
        round: u64,
        shares: Vec<(u32, u64)>,
    },
    /// Short names of the chunks of a data set, in order, to find the chunk in which two data sets differ. In a data set of very
    /// many chunks, a name stands for several neighbours.
    ChunkNames {
        number: u32,
        chunks_each: u32,
        names: Vec<u64>,
    },
    /// A number that the program reported of itself: an objective, a gap.
    Metric {
        at_us: u64,
        /// How many rounds had their value by then.
        rounds: u64,
        name: String,
        value: f64,
    },
    /// What processes of workers on the master's machine have in memory, those they have started included.
    Memory {
        at_us: u64,
        workers: Vec<WorkerMemory>,
    },
}

/// What the process of a worker has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerMemory {
    pub(crate) seat: u32,
    /// Its own.
    pub(crate) private_bytes: u64,
    /// In memory that processes share.
    pub(crate) shared_bytes: u64,
}

impl Record {
    /// Adds the record to `out`, with the bytes that `tail` writes after it. It is to be [sealed](seal) before it is
    /// written.
    pub(super) fn append(&self, out: &mut Vec<u8>, tail: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0; FRAME_BYTES]);
        *out = postcard::to_extend(self, std::mem::take(out))
            .expect("these types can be written, and vectors grow");
        tail(out);
        let bytes = (out.len() - start - FRAME_BYTES) as u32;
        out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
    }

    /// Reads a record, and gives what follows it.
    pub(super) fn parse(body: &[u8]) -> Option<(Record, &[u8])> {
        postcard::take_from_bytes(body).ok()
    }
}

/// Gives the record at the beginning of these bytes its checksum.
pub(super) fn seal(bytes: &mut [u8]) {
    let (frame, rest) = bytes.split_at_mut(FRAME_BYTES);
    let (length, checksum) = frame.split_at_mut(4);
    let bytes = length.iter().rev().fold(0, |bytes, byte| bytes << 8 | usize::from(*byte));
    checksum.copy_from_slice(&crc32fast::hash(&rest[..bytes]).to_le_bytes());
}

/// The beginning of a file.
pub(super) fn head() -> [u8; HEAD_BYTES as usize] {
    let mut head = [0; HEAD_BYTES as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..10].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// Text that is not longer than this.
pub(super) fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
