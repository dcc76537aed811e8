//! Messages: a good frame around any body, in all directions: between master and worker, and between master and the supervisor of a host; and recipes for states, which have no frame of their own.
//!
//! What is understood must survive being said again. What it costs is bounded by the length of the body: the longest
//! element of any list in a message takes under 256 bytes of memory, and a list never has room for more elements than
//! the body has bytes left.

use super::bounded;
use qjam_core::chunk::{ChunkId, Header};
use qjam_core::ids::{DataSetId, HoldId, RoundId, SeatId, Version, WorkerId};
use qjam_core::job::{Activity, Cause, Death, Fault, FaultKind};
use qjam_core::order::{MailTask, OrderHead};
use qjam_core::records::RecordCounts;
use qjam_core::reduce::{Cut, Node};
use qjam_core::wire::frame::{self, Frame};
use qjam_core::wire::host::{CacheFacts, CacheOrder, HostFacts, KIND_FROM_HOST, KIND_TO_HOST, Line};
use qjam_core::wire::message::{
    BlockRange, ByteLocation, HeldTask, KIND_TO_MASTER, KIND_TO_WORKER, MessageError, Part, Payload, Ref,
    Restored, ResultMessage, Returned, State, Task,
};
use qjam_core::wire::recipe::{self, Recipe};
use qjam_core::wire::{FromHost, ToHost, ToMaster, ToWorker};

/// Bytes of memory for each byte of a body, and for an error's text.
const FACTOR: usize = 256;
const SLACK_BYTES: usize = 4096;

fn understood<M>(kind: u8, body: &[u8], read: impl Fn(&Frame<'_>) -> Result<M, MessageError>) -> Option<M> {
    let bytes = frame::encode(kind, body, b"");
    let Ok(Some((frame, _))) = Frame::parse(&bytes) else { panic!("a good frame was not read back") };
    bounded(FACTOR * body.len() + SLACK_BYTES, || read(&frame)).ok()
}

macro_rules! check {
    ($message:ty, $kind:expr, $body:expr) => {
        if let Some(message) = understood($kind, $body, <$message>::from_frame) {
            let again = understood($kind, &message.to_body(), <$message>::from_frame);
            assert_eq!(again, Some(message));
        }
    };
}

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((direction, body)) = input.split_first() else { return };
    match direction % 5 {
        0 => check!(ToWorker, KIND_TO_WORKER, body),
        1 => check!(ToMaster, KIND_TO_MASTER, body),
        2 => check!(ToHost, KIND_TO_HOST, body),
        3 => check!(FromHost, KIND_FROM_HOST, body),
        _ => {
            // What is found lies inside, and its steps are in order.
            let read = bounded(FACTOR * body.len() + SLACK_BYTES, || Recipe::parse(body));
            if let Ok(recipe) = read {
                let places = recipe
                    .starts
                    .iter()
                    .flatten()
                    .chain(&recipe.steps)
                    .chain(recipe.letters.iter().flatten());
                places.for_each(|place| assert!(place.end <= body.len() && place.start <= place.end));
                (0..recipe.starts.len()).for_each(|n| {
                    std::hint::black_box(recipe.steps_of(n));
                });
            }
        }
    }
}

/// A death with all that can be known of it.
fn death() -> Death {
    let last_lines = vec!["it began".into(), "it ended".into()];
    Death {
        activity: Activity::Mapping,
        inside: vec![(RoundId(7), 3)],
        last_lines,
        ..Death::of(Cause::Signal(9))
    }
}

fn ranges() -> Vec<BlockRange> {
    let range = |first, len| BlockRange { first, len, attempt: 2, alone: false, apart: len == 1 };
    vec![range(0, 3), range(5, 1)]
}

/// What a master says to a worker.
pub(super) fn to_worker() -> Vec<ToWorker> {
    let (round, id) = (RoundId(7), ChunkId([8; 32]));
    let header = Header { kind: "dense".into(), dtype: "f64".into(), shape: vec![3, 2], bytes: 48 };
    let place = |place| Ref { id, header: header.clone(), place };
    let order = OrderHead {
        round,
        function: "a::f".into(),
        seed: 3,
        dataset: DataSetId([9; 32]),
        cut: Cut::new(8, 0),
        held: Some(HeldTask { hold: HoldId(1), base: Version::after(RoundId(6)), mail: MailTask::Letters }),
        slots_max: Some(4),
        records: Some(RecordCounts::of([3, 3, 3, 3, 3, 3, 3, 1])),
        lineage: Some(super::order::lineage(8).into()),
    };
    let params = Payload::Arena { arena: 3, arena_bytes: 4096, with_fd: true, offset: 64, bytes: 100 };
    vec![
        ToWorker::Welcome {
            worker: WORKER,
            memory_bytes_max: Some(1 << 30),
            cache_bytes_max: 1 << 20,
            deliver_after_us: 1000,
            runtime: Some(b"python".to_vec()),
        },
        ToWorker::Task(Task {
            order,
            chunks: vec![(0, vec![id; 2]), (7, vec![id])],
            ranges: ranges(),
            params,
            released: vec![1, 2],
        }),
        ToWorker::Refs(vec![
            place(ByteLocation::Region { region: 1, region_bytes: 4096, with_fd: true, offset: 64 }),
            place(ByteLocation::Pack { pack: 2, pack_bytes: 8192, with_fd: false, offset: 128 }),
            place(ByteLocation::File { path: b"/data/x.npy".to_vec(), offset: 80, stamp: (1, 2, 3, -4) }),
        ]),
        ToWorker::Recipe { round, question: 2, offset: 0, bytes: 100 },
        ToWorker::Forget { dataset: DataSetId([9; 32]), regions: vec![1, 2, 3] },
        ToWorker::Recall { round, blocks: 5 },
        ToWorker::Released(vec![4, 5]),
    ]
}

/// What a worker says to its master.
pub(super) fn to_master() -> Vec<ToMaster> {
    let round = RoundId(7);
    let fault = Fault {
        kind: FaultKind::Panic,
        chunk: Some(3),
        message: "it panicked".into(),
        location: Some("a.rs:7".into()),
        backtrace: Some("0: main".into()),
        carried: vec![1, 2, 3],
    };
    let part = |payload| Part { node: Node { level: 1, index: 2 }, ranges: ranges(), payload };
    vec![
        ToMaster::Hello { slots: 2, pid: 77, version: "0.1.0".into() },
        ToMaster::State(State::Blocked { round, missing: vec![ChunkId([8; 32]); 2] }),
        ToMaster::State(State::Behind { round, question: 1, partitions: vec![0, 3], only_mail: true }),
        ToMaster::State(State::InterpreterLost { round, death: death() }),
        ToMaster::Result(ResultMessage {
            round,
            parts: vec![
                part(Payload::Tail { offset: 0, bytes: 8 }),
                part(Payload::Streamed { bytes: 1 << 20 }),
            ],
            compute_us: 1234,
            cache_hits: 5,
            cache_misses: 6,
            restored: vec![Restored { partition: 1, from: Version::after(RoundId(2)), steps: 3 }],
        }),
        ToMaster::Error { round, fault },
        ToMaster::Returned {
            round,
            returned: Returned { ranges: ranges(), unstarted: 4, running: vec![(3, 1000)] },
        },
        ToMaster::Runtime(Err("no Python there".into())),
    ]
}

const WORKER: WorkerId = WorkerId { seat: SeatId(3), incarnation: 2 };

/// Inputs to begin from: messages of every kind, each with its direction in front.
pub fn seeds() -> Vec<Vec<u8>> {
    let header = Header { kind: "dense".into(), dtype: "f64".into(), shape: vec![3, 2], bytes: 48 };
    let facts = HostFacts {
        version: "0.1.0".into(),
        pid: 7,
        hostname: "big".into(),
        system: "Linux 6".into(),
        cores: 8,
        memory_bytes: 1 << 34,
        memory_free_bytes: 1 << 33,
    };
    let line = Line { text: "a line".into(), is_error: true };
    let cached = CacheFacts {
        folder: "/people/ann/.cache/qjam".into(),
        packs: 3,
        chunks: 99,
        trouble: Some("full".into()),
        ..CacheFacts::default()
    };
    let mut to_host: Vec<ToHost> =
        to_worker().into_iter().map(|message| ToHost::Worker { worker: WORKER, message }).collect();
    to_host.extend([
        ToHost::Start { worker: WORKER, slots: Some(2) },
        ToHost::OpenChunk { id: ChunkId([8; 32]), header },
        ToHost::OpenParams { round: RoundId(7), bytes: 1 << 20 },
        ToHost::Cache(CacheOrder::Cap(Some(1 << 30))),
    ]);
    let mut from_host: Vec<FromHost> =
        to_master().into_iter().map(|message| FromHost::Worker { worker: WORKER, message }).collect();
    from_host.extend([
        FromHost::Hello(facts),
        FromHost::Joined { worker: WORKER, slots: 2, pid: 77 },
        FromHost::Died { worker: WORKER, death: death() },
        FromHost::Lines { worker: WORKER, lines: vec![line; 3], dropped: 4 },
        FromHost::Refused { chunk: ChunkId([8; 32]), why: "no room".into() },
        FromHost::Cached(cached),
    ]);
    let recipe = recipe::Head {
        starts: vec![
            recipe::Start { partition: 0, version: Version::after(RoundId(2)), bytes: Some(5) },
            recipe::Start { partition: 1, version: Version::after(RoundId(2)), bytes: None },
        ],
        functions: vec!["a::step".into()],
        steps: vec![recipe::Step { round: RoundId(3), function: 0, bytes: 7 }],
        mail_only: vec![2],
        inboxes: vec![recipe::Inbox {
            partition: 2,
            version: Version::after(RoundId(2)),
            letters: vec![recipe::Letter { from: 1, kind: 9, bytes: 3 }],
        }],
    };
    let mut recipe = recipe.to_bytes();
    recipe.resize(256, 0);
    assert!(Recipe::parse(&recipe).is_ok(), "a recipe is none any more");
    let bodies = [
        to_worker().iter().map(ToWorker::to_body).collect(),
        to_master().iter().map(ToMaster::to_body).collect(),
        to_host.iter().map(ToHost::to_body).collect(),
        from_host.iter().map(FromHost::to_body).collect(),
        vec![recipe],
    ];
    let of_direction = |(direction, bodies): (usize, Vec<Vec<u8>>)| {
        bodies.into_iter().map(move |body| [&[direction as u8][..], &body].concat()).collect::<Vec<_>>()
    };
    bodies.into_iter().enumerate().flat_map(of_direction).collect()
}
