//! Executors that do not keep to the protocol. They are sent away, with the reason, and nothing else happens.

use super::super::options::Options;
use super::{Answer, Driver, RoundRequest};
use crate::chunk::ChunkId;
use crate::codec::{Encoder, Params, Wire};
use crate::engine::WorkerString;
use crate::engine::queue::{Event, EventQueue, SeatEvent};
use crate::engine::spawner::{SpawnRequest, Spawner};
use crate::error::Error;
use crate::function::Job;
use crate::process::Spawned;
use crate::runs::Begun;
use crate::store::Arena;
use crate::transport::{Attachment, send_all};
use crate::{Ctx, DataSet, Nothing, Rng, VERSION};
use qjam_core::ids::{RoundId, WorkerId};
use qjam_core::job::{Cause, Fault, FaultKind};
use qjam_core::journal::What;
use qjam_core::lease::BlockRange;
use qjam_core::reduce::Node;
use qjam_core::wire::frame;
use qjam_core::wire::message::{KIND_TO_MASTER, KIND_TO_WORKER, Part, Payload, ResultMessage, State};
use qjam_core::wire::{ToMaster, ToWorker};
use rustix::fd::{AsFd, OwnedFd};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

fn numbers(_: &(), _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    vec![f64::from(ctx.chunk()); 3]
}

/// A master's loop with one executor, whose part the test plays.
struct Stage {
    driver: Driver,
    queue: Arc<EventQueue>,
    requests: mpsc::Receiver<SpawnRequest>,
    worker: WorkerId,
    socket: UnixStream,
    answer: Arc<Answer>,
}

/// The round that the impostor has all four blocks of.
const ROUND: RoundId = RoundId(0);

impl Stage {
    fn new() -> Self {
        let queue = Arc::new(EventQueue::new().unwrap());
        let (spawner, requests) = Spawner::without_thread();
        let seats = WorkerString::parse("proc:1").unwrap().seats;
        let begun = Begun::default();
        let driver = Driver::new(&seats, Options::default(), queue.clone(), spawner, begun, None).unwrap();
        let (worker, _) = requests.recv().unwrap();
        let (socket, _) = UnixStream::pair().unwrap();
        let mut stage = Stage { driver, queue, requests, worker, socket, answer: Arc::default() };
        stage.enter();
        stage
    }

    /// Takes the place of the process that was asked for.
    fn enter(&mut self) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let spawned = SeatEvent::Spawned(Spawned::impostor(ours.into()));
        self.queue.put(Event::Seat(self.worker, spawned));
        self.turn();
        self.socket = theirs;
    }

    /// Through the handshake, and given a round of four blocks.
    fn at_work() -> Self {
        let mut stage = Stage::new();
        stage.say(&stage.hello());
        stage.turn();
        let answer = stage.answer.clone();
        let data = DataSet::nothing(4).unwrap().erased().clone();
        let request = RoundRequest {
            function: numbers.erase(),
            data,
            answer,
            submitted: Instant::now(),
            held: None,
            accumulator_bytes: None,
        };
        let mut params = Encoder::new();
        ().encode_params(&mut params);
        assert_eq!(stage.driver.submit(request, &params, None).0, ROUND);
        stage
    }

    fn hello(&self) -> ToMaster {
        ToMaster::Hello { slots: 1, pid: 1, version: VERSION.into() }
    }

    fn say(&self, message: &ToMaster) {
        self.say_with(message, &[], &[]);
    }

    fn say_with(&self, message: &ToMaster, tail: &[u8], attached: &[Attachment]) {
        send_all(self.socket.as_fd(), message, tail, attached).unwrap();
    }

    fn turn(&mut self) {
        for _ in 0..3 {
            self.driver.turn(Some(Duration::from_millis(1))).unwrap();
        }
    }

    /// Why the executor was lost, if it was. Another has been asked for then.
    fn lost(&mut self) -> Option<Cause> {
        self.turn();
        let cause = self.driver.journal().entries().find_map(|e| match &e.what {
            What::WorkerLost(worker, death) if *worker == self.worker => Some(death.cause.clone()),
            _ => None,
        })?;
        (self.worker, _) = self.requests.recv_timeout(Duration::from_secs(60)).expect("a new one is started");
        Some(cause)
    }

    /// It must have been sent away for this reason.
    fn must_be_expelled(mut self, what: &str, reason: &str) {
        match self.lost() {
            Some(Cause::Protocol(why)) => assert!(why.contains(reason), "{what}: {why}"),
            other => panic!("{what}: {other:?}"),
        }
        // The next one, which keeps to the protocol, is welcome.
        self.enter();
        self.say(&self.hello());
        self.turn();
        assert!(self.driver.readiness(0..1).is_some_and(|ready| ready.is_ok()), "{what}");
    }
}

fn result(node: Node, ranges: &[(u32, u32, u32)], payload: Payload) -> ToMaster {
    let ranges = ranges.iter().map(|&(first, len, attempt)| BlockRange {
        first,
        len,
        attempt,
        alone: false,
        apart: false,
    });
    let parts = vec![Part { node, ranges: ranges.collect(), payload }];
    ToMaster::Result(ResultMessage {
        round: ROUND,
        parts,
        compute_us: 1,
        cache_hits: 0,
        cache_misses: 0,
        restored: Vec::new(),
    })
}

const WHOLE: Node = Node { level: 2, index: 0 };
const SPANS: &[(u32, u32, u32)] = &[(0, 4, 1)];
const NOTHING: Payload = Payload::Tail { offset: 0, bytes: 0 };

fn value() -> Vec<u8> {
    let value = vec![6.0, 6.0, 6.0];
    let mut out = Encoder::new();
    value.encode(&mut out);
    out.to_bytes().to_vec()
}

#[test]
fn the_part_can_be_played_well() {
    let mut stage = Stage::at_work();
    let value = value();
    stage.say_with(
        &result(WHOLE, SPANS, Payload::Tail { offset: 0, bytes: value.len() as u32 }),
        &value,
        &[],
    );
    assert_eq!(stage.lost(), None);
    let answer = stage.answer.take().expect("an answer").expect("a value");
    assert_eq!(*answer.downcast::<Vec<f64>>().unwrap(), [6.0; 3]);
}

#[test]
fn who_does_not_greet_properly_is_sent_away() {
    let hello = |slots, version: &str| ToMaster::Hello { slots, pid: 1, version: version.into() };
    for (what, message, reason) in [
        ("another version", hello(1, "0.0.0"), "version 0.0.0"),
        ("other slots", hello(7, VERSION), "7 slots"),
        ("no greeting", ToMaster::Pong, "before its hello"),
        ("a result at once", result(WHOLE, SPANS, NOTHING), "before its hello"),
    ] {
        let stage = Stage::new();
        stage.say(&message);
        stage.must_be_expelled(what, reason);
    }
    let stage = Stage::at_work();
    stage.say(&stage.hello());
    stage.must_be_expelled("a second greeting", "hello");
}

#[test]
fn bytes_that_are_no_frames_are_the_end() {
    let good = frame::encode(KIND_TO_MASTER, &ToMaster::Pong.to_body(), b"");
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut long = good.clone();
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut left_over = ToMaster::Pong.to_body();
    left_over.push(7);
    for (what, bytes, reason) in [
        ("text", b"hello there".to_vec(), "not a frame"),
        ("a flipped bit", damaged, "checksum"),
        ("a body without end", long, "over the bound"),
        ("something behind the message", frame::encode(KIND_TO_MASTER, &left_over, b""), "too many"),
        ("no message", frame::encode(KIND_TO_MASTER, &[200; 30], b""), "no worker's message"),
        ("the master's own", frame::encode(KIND_TO_WORKER, &ToWorker::Ping.to_body(), b""), "direction"),
    ] {
        let mut stage = Stage::at_work();
        stage.socket.write_all(&bytes).unwrap();
        stage.must_be_expelled(what, reason);
    }
}

#[test]
fn results_that_cannot_be_are_refused() {
    let arena = |arena, arena_bytes, with_fd, offset, bytes| Payload::Arena {
        arena,
        arena_bytes,
        with_fd,
        offset,
        bytes,
    };
    let node = |level, index| Node { level, index };
    let far = Payload::Tail { offset: u32::MAX, bytes: u32::MAX };
    for (what, message, reason) in [
        ("a tail that is not there", result(WHOLE, SPANS, far), "tail"),
        ("an arena nobody introduced", result(WHOLE, SPANS, arena(9, 1 << 20, false, 0, 8)), "introduced"),
        ("an announced descriptor", result(WHOLE, SPANS, arena(9, 1 << 20, true, 0, 8)), "brought none"),
        ("blocks it does not cover", result(WHOLE, &[(0, 3, 1)], NOTHING), "covers"),
        ("blocks twice", result(WHOLE, &[(0, 2, 1), (1, 3, 1)], NOTHING), "covers"),
        ("blocks without end", result(WHOLE, &[(0, u32::MAX, 1)], NOTHING), "covers"),
        ("an empty span", result(WHOLE, &[(0, 0, 1), (0, 4, 1)], NOTHING), "covers"),
        ("no blocks", result(WHOLE, &[], NOTHING), "covers"),
        ("a node outside the tree", result(node(0, u32::MAX), &[(0, 4, 1)], NOTHING), "covers"),
        ("a node above everything", result(node(255, 0), SPANS, NOTHING), "covers"),
        ("a round that goes on", ToMaster::Cancelled(ROUND), "not over"),
        (
            "a chunk of something else",
            ToMaster::State(State::Blocked { round: ROUND, missing: vec![ChunkId([7; 32])] }),
            "not of its data set",
        ),
    ] {
        let stage = Stage::at_work();
        stage.say(&message);
        stage.must_be_expelled(what, reason);
    }
}

#[test]
fn shared_memory_that_could_vanish_is_refused() {
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let unsealed = || {
        let fd = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 1 << 20).unwrap();
        fd
    };
    let sealed = || Arena::create(1 << 20).unwrap().fd().try_clone_to_owned().unwrap();
    let payload =
        |arena_bytes, offset, bytes| Payload::Arena { arena: 1, arena_bytes, with_fd: true, offset, bytes };
    for (what, fd, payload, reason) in [
        ("a file", null(), payload(1 << 20, 0, 8), "arena 1"),
        ("memory without a seal", unsealed(), payload(1 << 20, 0, 8), "seals"),
        ("less than it says", sealed(), payload(1 << 21, 0, 8), "bytes"),
        ("bytes behind its end", sealed(), payload(1 << 20, 1 << 20, 8), "outside"),
        ("bytes around the world", sealed(), payload(1 << 20, u64::MAX, 8), "outside"),
        ("more than there is", sealed(), payload(1 << 20, 0, u64::MAX), "outside"),
        ("more than memory", sealed(), payload(u64::MAX, 0, 8), "arena 1"),
    ] {
        let stage = Stage::at_work();
        stage.say_with(&result(WHOLE, SPANS, payload), &[], &[Attachment::File(Arc::new(fd))]);
        stage.must_be_expelled(what, reason);
    }
}

#[test]
fn descriptors_that_nobody_announced_are_not_collected_without_end() {
    let mut stage = Stage::at_work();
    let null = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    let many = vec![Attachment::File(null); 60];
    for _ in 0..5 {
        if send_all(stage.socket.as_fd(), &ToMaster::Pong, &[], &many).is_err() {
            break; // it has been sent away by now
        }
        stage.turn();
    }
    assert!(stage.lost().is_some(), "it is sent away");
}

#[test]
fn what_is_late_or_unknown_is_ignored() {
    let fault = |message: &str| Fault {
        kind: FaultKind::Panic,
        chunk: Some(u32::MAX),
        message: message.into(),
        location: None,
        backtrace: None,
        carried: Vec::new(),
    };
    let unknown = RoundId(77);
    let mut stage = Stage::at_work();
    stage.say(&ToMaster::State(State::Blocked { round: unknown, missing: vec![ChunkId([7; 32])] }));
    stage.say(&ToMaster::Cancelled(unknown));
    stage.say(&ToMaster::Error { round: unknown, fault: fault("of nobody") });
    let ToMaster::Result(mut outcome) = result(WHOLE, SPANS, NOTHING) else { unreachable!() };
    outcome.round = unknown;
    stage.say(&ToMaster::Result(outcome));
    stage.say(&result(WHOLE, &[(0, 4, 9)], NOTHING)); // an attempt that was never given
    assert_eq!(stage.lost(), None);
    assert!(!stage.answer.is_given());
    // A fault on a chunk that does not exist is told all the same.
    stage.say(&ToMaster::Error { round: ROUND, fault: fault("of its own") });
    stage.turn();
    let error = stage.answer.take().expect("an answer").map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::Fault(f) if f.fault.message == "of its own"), "{error}");
}

#[test]
fn a_result_that_is_none_fails_the_round() {
    let mut stage = Stage::at_work();
    let garbage = [0xab; 100];
    stage.say_with(&result(WHOLE, SPANS, Payload::Tail { offset: 0, bytes: 100 }), &garbage, &[]);
    stage.turn();
    let error = stage.answer.take().expect("an answer").map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::Fault(f) if f.fault.kind == FaultKind::Result), "{error}");
}

#[test]
fn any_message_at_any_time_is_survived() {
    let mut rng = Rng::keyed(5, 0, 0);
    let value = value();
    let whole = result(WHOLE, SPANS, Payload::Tail { offset: 0, bytes: value.len() as u32 });
    let bodies = [
        whole.to_body(),
        ToMaster::Pong.to_body(),
        ToMaster::Cancelled(ROUND).to_body(),
        ToMaster::State(State::Blocked { round: ROUND, missing: vec![ChunkId([7; 32])] }).to_body(),
    ];
    let mut stage = Stage::at_work();
    let mut lost = 0;
    for n in 0..1_500 {
        let mut body = bodies[rng.below(bodies.len() as u64) as usize].clone();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(body.len() as u64) as usize;
            match rng.below(3) {
                0 => body[at] = rng.next_u64() as u8,
                1 => body.truncate(at.max(1)),
                _ => body.insert(at, rng.next_u64() as u8),
            }
        }
        // The checksum is right: what is wrong is what it says.
        let frame = frame::encode(KIND_TO_MASTER, &body, &value);
        if stage.socket.write_all(&frame).is_err() || n % 7 == 0 {
            stage.turn();
            if stage.lost().is_some() || stage.answer.is_given() {
                lost += 1;
                stage = Stage::at_work();
            }
        }
    }
    assert!(lost > 50, "most of it is noticed: {lost}");
}
