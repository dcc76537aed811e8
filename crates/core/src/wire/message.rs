//! The messages, and their bodies.
//!
//! Bodies are encoded by postcard and contain no large data. A [`Payload`] (parameters, a partial result) is either a range of the frame's
//! tail or a range of an *arena*, a region of shared memory with a number. The first message that refers to an arena carries its file
//! descriptor; later ones only its number.

use crate::chunk::{ChunkId, Header};
use crate::ids::{Block, DataSetId, HoldId, RoundId, Version, WorkerId};
use crate::job::{Death, Fault};
pub use crate::lease::{BlockRange, Returned};
use crate::order::OrderHead;
pub use crate::order::{HeldTask, MailTask};
use crate::reduce::Node;
use crate::wire::frame::{Frame, FrameError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// In this frame's tail.
    Tail {
        /// Where they begin.
        offset: u32,
        /// How many.
        bytes: u32,
    },
    /// In shared memory.
    Arena {
        /// Its number, chosen by its owner.
        arena: u64,
        /// Size of the whole arena.
        arena_bytes: u64,
        /// Whether its file descriptor comes with this frame.
        with_fd: bool,
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// In the segments that came before this message, on a connection between hosts: the parameters of its round, or
    /// the next of the results.
    Streamed {
        /// How many.
        bytes: u64,
    },
}

/// Where the bytes of a chunk are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ByteLocation {
    /// In shared memory that the master filled.
    Region {
        /// Number of the region, chosen by the master.
        region: u64,
        /// Size of the whole region.
        region_bytes: u64,
        /// Whether its file descriptor comes with this frame.
        with_fd: bool,
        /// Where the chunk begins.
        offset: u64,
    },
    /// In a file of this host's cache.
    Pack {
        /// Number of the file, chosen by the supervisor.
        pack: u64,
        /// How long it may become. The chunk lies before what is its end now.
        pack_bytes: u64,
        /// Whether its file descriptor comes with this frame.
        with_fd: bool,
        /// Where the chunk begins.
        offset: u64,
    },
    /// In a file of the user's on this host.
    File {
        /// Its path, absolute.
        path: Vec<u8>,
        /// Where the chunk begins.
        offset: u64,
        /// What the file was when it was hashed: device, inode, length, time of change in nanoseconds.
        stamp: (u64, u64, u64, i128),
    },
}

/// Asks for blocks of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The round.
    pub order: OrderHead,
    /// Names of chunks that this worker has not been told yet: first index and the names from there on.
    pub chunks: Vec<(u32, Vec<ChunkId>)>,
    /// What to do.
    pub ranges: Vec<BlockRange>,
    /// The parameters. Every task of a round says where they are: a worker that delivered all it had of a round
    /// forgets them, and may get more of it later.
    pub params: Payload,
    /// Arenas of this worker that the master has finished reading.
    pub released: Vec<u64>,
}

/// The state of a partition was made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Which partition.
    pub partition: u32,
    /// What it was made from.
    pub from: Version,
    /// How many rounds were run again.
    pub steps: u32,
}

/// One chunk and where to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ref {
    /// Its name.
    pub id: ChunkId,
    /// What its bytes mean.
    pub header: Header,
    /// Where they are.
    pub place: ByteLocation,
}

/// The root of a finished subtree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which.
    pub node: Node,
    /// The blocks under it and the attempts they were given out as.
    pub ranges: Vec<BlockRange>,
    /// Its value.
    pub payload: Payload,
}

/// Finished subtrees of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// Which round.
    pub round: RoundId,
    /// The subtrees.
    pub parts: Vec<Part>,
    /// Time that the busiest slot spent in the user's function and in merging since the last result.
    pub compute_us: u64,
    /// Chunks that were open already, since the last result.
    pub cache_hits: u32,
    /// Chunks that had to be opened, since the last result.
    pub cache_misses: u32,
    /// States that had to be made again, since the last result.
    pub restored: Vec<Restored>,
}

/// What a worker is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Computing; sent as a heartbeat.
    Running,
    /// Waiting for these chunks.
    Blocked {
        /// For which round.
        round: RoundId,
        /// What is missing.
        missing: Vec<ChunkId>,
    },
    /// Waiting to be told how to make the states of these partitions again, or for their letters.
    Behind {
        /// For which round.
        round: RoundId,
        /// A number for this question, chosen by who asks.
        question: u32,
        /// The partitions.
        partitions: Vec<u32>,
        /// Their states are here, and only the letters that they find are not.
        only_mail: bool,
    },
    /// An interpreter of this worker ended, and was replaced.
    InterpreterLost {
        /// In which round it was noticed.
        round: RoundId,
        /// How it ended.
        death: Death,
    },
}

/// From the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Answers `hello`. Comes with the file descriptor of the status page.
    Welcome {
        /// Who you are.
        worker: WorkerId,
        /// Most bytes of private memory.
        memory_bytes_max: Option<u64>,
        /// Most bytes of opened chunks to keep.
        cache_bytes_max: u64,
        /// Deliver finished work after this much time even if there is more to do.
        deliver_after_us: u64,
        /// What the worker needs to run functions of another language, if the master has any. Not read here.
        runtime: Option<Vec<u8>>,
    },
    /// Work.
    Task(Task),
    /// Chunks that were missing.
    Refs(Vec<Ref>),
    /// A piece of the answer to `behind`, in this frame's tail. The pieces of an answer come in order; together they are a
    /// [`recipe`](super::recipe).
    Recipe {
        /// For which round.
        round: RoundId,
        /// Which question.
        question: u32,
        /// Where in the answer the piece belongs.
        offset: u64,
        /// Length of the whole answer.
        bytes: u64,
    },
    /// Nobody will ask for these states again.
    Release(HoldId),
    /// Nobody will ask for this data set again: drop what is kept of it.
    Forget {
        /// The data set.
        dataset: DataSetId,
        /// Regions (or packs) that no other data set of this worker lies in.
        regions: Vec<u64>,
    },
    /// A round is over: drop it and say so.
    Cancel(RoundId),
    /// The same, of a round that has its value without what is here. Nobody is ended for being slow about it.
    Spare(RoundId),
    /// Somebody is idle: give back so many blocks that are not started, the last ones first, and say how it stands.
    Recall {
        /// Of which round.
        round: RoundId,
        /// How many at most.
        blocks: u32,
    },
    /// Somebody else has this block now, too: deliver it by itself, and do not let the others wait for it.
    Apart {
        /// Of which round.
        round: RoundId,
        /// Which.
        block: Block,
    },
    /// Say something.
    Ping,
    /// Go.
    Bye,
    /// Arenas of this worker that the master has finished reading, told at once because more results are to come.
    Released(Vec<u64>),
    /// Look for what runs the master's functions of another language on this host, and say what it is like.
    FindRuntime,
}

/// From a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMaster {
    /// First words.
    Hello {
        /// How many blocks it runs at once.
        slots: u32,
        /// Its process.
        pid: u32,
        /// Version of the package it was built from.
        version: String,
    },
    /// What it is doing.
    State(State),
    /// Finished work.
    Result(ResultMessage),
    /// A fault in user code or data.
    Error {
        /// In which round.
        round: RoundId,
        /// What happened.
        fault: Fault,
    },
    /// The round was dropped.
    Cancelled(RoundId),
    /// Blocks given back, as was asked.
    Returned {
        /// Of which round.
        round: RoundId,
        /// Which.
        returned: Returned,
    },
    /// Alive.
    Pong,
    /// Answers `FindRuntime`: what was found, in bytes that are not read here, or why there is nothing.
    Runtime(Result<Vec<u8>, String>),
}

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Not even a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame of a kind that nobody sends in this direction.
    #[error("a message of kind {0}, which nobody sends in this direction")]
    Kind(u8),
    /// The body does not say what its kind should.
    #[error("a body that is no {kind} message: {why}")]
    Body {
        /// Which message it should be.
        kind: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// Kind of a frame from the master.
pub const KIND_TO_WORKER: u8 = 1;
/// Kind of a frame from a worker.
pub const KIND_TO_MASTER: u8 = 2;

pub(super) fn body_of<'a, T: Deserialize<'a>>(
    frame: &Frame<'a>,
    kind: u8,
    name: &'static str,
) -> Result<T, MessageError> {
    if frame.kind != kind {
        return Err(MessageError::Kind(frame.kind));
    }
    match postcard::take_from_bytes(frame.body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => {
            Err(MessageError::Body { kind: name, why: format!("{} bytes too many", rest.len()) })
        }
        Err(e) => Err(MessageError::Body { kind: name, why: e.to_string() }),
    }
}

impl ToWorker {
    /// Reads a frame from the master.
    pub fn from_frame(frame: &Frame<'_>) -> Result<Self, MessageError> {
        let message: Self = body_of(frame, KIND_TO_WORKER, "master's")?;
        message.check()?;
        Ok(message)
    }

    /// What a machine relies on and the types do not say.
    pub(super) fn check(&self) -> Result<(), MessageError> {
        match self {
            ToWorker::Task(Task { order, .. }) if !order.is_possible() => {
                let why = format!("{:?} is impossible", order.cut);
                Err(MessageError::Body { kind: "master's", why })
            }
            _ => Ok(()),
        }
    }

    /// The body of the frame.
    pub fn to_body(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("messages are plain data")
    }
}

impl ToMaster {
    /// Reads a frame from a worker.
    pub fn from_frame(frame: &Frame<'_>) -> Result<Self, MessageError> {
        body_of(frame, KIND_TO_MASTER, "worker's")
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
    use crate::lineage::{Lineage, Operation, OperationKind, Stretch};
    use crate::records::RecordCounts;
    use crate::reduce::Cut;
    use crate::wire::frame;

    fn round_trip(message: ToWorker) {
        let bytes = frame::encode(KIND_TO_WORKER, &message.to_body(), b"");
        let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!(ToWorker::from_frame(&frame), Ok(message));
    }

    fn lineage(chunks: u32) -> Lineage {
        let sample = OperationKind::Sample { fraction: 1 << 50, seed: 7 };
        let operations =
            [(OperationKind::Map, "a::parse"), (sample, ""), (OperationKind::Rows { cols: 3 }, "a::row")];
        let operation =
            |(kind, function): (_, &str)| Operation { kind, function: function.into(), params: vec![1, 2] };
        let stretches = vec![
            Stretch { chunks: 1, source: "lines".into(), operations: Vec::new() },
            Stretch {
                chunks: chunks - 1,
                source: "lines".into(),
                operations: operations.map(operation).into(),
            },
        ];
        Lineage { stretches }
    }

    #[test]
    fn messages_survive_the_trip() {
        let range = BlockRange { first: 3, len: 4, attempt: 1, alone: false, apart: false };
        round_trip(ToWorker::Task(Task {
            order: OrderHead {
                round: RoundId(9),
                function: "a::b".into(),
                seed: 1,
                dataset: DataSetId([7; 32]),
                cut: Cut::new(100, 2),
                held: None,
                slots_max: None,
                records: Some(RecordCounts::of((0..100).map(|chunk| if chunk == 99 { 3 } else { 10 }))),
                lineage: Some(lineage(100).into()),
            },
            chunks: vec![(3, vec![ChunkId([1; 32]), ChunkId([2; 32])])],
            ranges: vec![range],
            params: Payload::Arena { arena: 1, arena_bytes: 1 << 20, with_fd: true, offset: 64, bytes: 8 },
            released: vec![4],
        }));
        round_trip(ToWorker::Recipe { round: RoundId(3), question: 1, offset: 1 << 20, bytes: 1 << 33 });
        round_trip(ToWorker::Release(HoldId(7)));
        let worker = WorkerId { seat: SeatId(1), incarnation: 0 };
        round_trip(ToWorker::Welcome {
            worker,
            memory_bytes_max: None,
            cache_bytes_max: 1,
            deliver_after_us: 5,
            runtime: None,
        });
        round_trip(ToWorker::Welcome {
            worker,
            memory_bytes_max: Some(1),
            cache_bytes_max: 1,
            deliver_after_us: 5,
            runtime: Some(vec![7; 60_000]),
        });
        round_trip(ToWorker::FindRuntime);
        round_trip(ToWorker::Bye);
    }

    #[test]
    fn what_was_found_on_a_host_survives_the_trip() {
        for found in [Ok(vec![7; 10_000]), Err("nothing of that version here".to_owned())] {
            let message = ToMaster::Runtime(found);
            let bytes = frame::encode(KIND_TO_MASTER, &message.to_body(), b"");
            let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
            assert_eq!(ToMaster::from_frame(&frame), Ok(message));
        }
    }

    fn head(cut: Cut) -> OrderHead {
        OrderHead {
            round: RoundId(0),
            function: String::new(),
            seed: 0,
            dataset: DataSetId([0; 32]),
            cut,
            held: None,
            slots_max: None,
            records: None,
            lineage: None,
        }
    }

    /// Whether a task of such a round is understood.
    fn is_understood(order: OrderHead) -> bool {
        let params = Payload::Tail { offset: 0, bytes: 0 };
        let task = Task { order, chunks: vec![], ranges: vec![], params, released: vec![] };
        let bytes = frame::encode(KIND_TO_WORKER, &ToWorker::Task(task).to_body(), b"");
        let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
        match ToWorker::from_frame(&frame) {
            Ok(_) => true,
            Err(MessageError::Body { .. }) => false,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn an_impossible_cut_is_refused() {
        for cut in [Cut { chunks: 3, level: 64 }, Cut { chunks: 0, level: 0 }] {
            assert!(!is_understood(head(cut)), "{cut:?}");
        }
    }

    #[test]
    fn what_is_said_of_another_number_of_chunks_is_refused() {
        let counts = |chunks: usize| Some(RecordCounts::of(std::iter::repeat_n(5, chunks)));
        let lineage = |chunks| Some(Box::new(lineage(chunks)));
        for (records, lineage, is_good) in
            [(counts(8), lineage(8), true), (counts(7), None, false), (None, lineage(9), false)]
        {
            assert_eq!(is_understood(OrderHead { records, lineage, ..head(Cut::new(8, 1)) }), is_good);
        }
    }

    #[test]
    fn states_belong_to_single_chunks() {
        let base = Version::after(RoundId(4));
        let held = Some(HeldTask { hold: HoldId(1), base, mail: MailTask::Letters });
        for (level, is_good) in [(0, true), (1, false)] {
            assert_eq!(
                is_understood(OrderHead { held, ..head(Cut::new(8, level)) }),
                is_good,
                "level {level}"
            );
        }
    }

    #[test]
    fn a_message_for_the_other_side_is_refused() {
        let bytes = frame::encode(KIND_TO_MASTER, &ToMaster::Pong.to_body(), b"");
        let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
        assert_eq!(ToWorker::from_frame(&frame), Err(MessageError::Kind(KIND_TO_MASTER)));
    }

    #[test]
    fn bytes_behind_the_message_are_refused() {
        let mut body = ToMaster::Pong.to_body();
        body.push(0);
        let bytes = frame::encode(KIND_TO_MASTER, &body, b"");
        let (frame, _) = Frame::parse(&bytes).unwrap().unwrap();
        assert!(matches!(ToMaster::from_frame(&frame), Err(MessageError::Body { .. })));
    }
}
