//! What an event costs the master on this machine, by the clock.
//!
//! One thread, a real scheduler with so many workers, real messages through a real socket pair: to pack, write, read,
//! unpack and tell the scheduler, and to ask it for its next deadline as the master's loop does. What ssh costs for
//! encryption is not in it; it runs in processes of its own.

use qjam_core::ids::{DataSetId, PartId, RoundId, SeatId, WorkerId};
use qjam_core::job::RoundSpec;
use qjam_core::order::OrderHead;
use qjam_core::reduce::Cut;
use qjam_core::scheduler::{Action, Config, Event, Scheduler};
use qjam_core::time::Time;
use qjam_core::wire::message::{
    BlockRange, KIND_TO_MASTER, KIND_TO_WORKER, Part, Payload, ResultMessage, State, Task, ToMaster, ToWorker,
};
use qjam_core::wire::{Frame, frame};
use qjam_sim::study::Costs;
use qjam_sim::study::table::{Table, whole};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Blocks of each worker.
const BLOCKS: u32 = 8;
/// How often something is tried.
const TRIES: u32 = 40;
/// How often it is done in a try: short enough that some tries are not disturbed.
const REPEATED: u32 = 500;

fn worker(seat: u32) -> WorkerId {
    WorkerId { seat: SeatId(seat), incarnation: 0 }
}

#[expect(clippy::disallowed_methods, reason = "this file measures real time")]
fn clock() -> Instant {
    Instant::now()
}

/// A scheduler with so many workers that all have blocks, and what it said.
fn busy(workers: u32) -> (Scheduler, Vec<Action>) {
    let mut scheduler = Scheduler::new(Config::default());
    let mut out = Vec::new();
    for n in 0..workers {
        scheduler.handle(Time(0), Event::SeatAdded { seat: SeatId(n), slots: 1, remote: true }, &mut out);
    }
    for n in 0..workers {
        scheduler.handle(Time(1), Event::WorkerJoined { worker: worker(n), slots: 1 }, &mut out);
    }
    out.clear();
    let spec = RoundSpec::new(DataSetId([1; 32]), Cut::new(workers * BLOCKS, 0));
    scheduler.handle(Time(2), Event::RoundSubmitted { round: RoundId(1), spec }, &mut out);
    (scheduler, out)
}

/// Microseconds for each of so many repetitions; the best of many tries, since the machine may have other things to do.
fn best_us(times: u32, mut job: impl FnMut()) -> f64 {
    let once = |job: &mut dyn FnMut()| {
        let begun = clock();
        job();
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(times)
    };
    (0..TRIES).map(|_| once(&mut job)).fold(f64::INFINITY, f64::min)
}

/// The scheduler alone: a sign of life, a task given out, a result judged.
fn scheduler_us(workers: u32) -> [f64; 3] {
    let (mut scheduler, _) = busy(workers);
    let mut out = Vec::new();
    let mut now = 3;
    let beats = 2 * workers.max(1_000);
    let beat = best_us(beats, || {
        for n in 0..beats {
            now += 10;
            let event = Event::WorkerSpoke { worker: worker(n % workers) };
            scheduler.handle(Time(now), event, &mut out);
            if scheduler.next_deadline().is_some_and(|due| due.0 <= now) {
                scheduler.handle(Time(now), Event::Ticked, &mut out);
            }
            out.clear();
        }
    });
    let (mut scheduler, _) = busy(workers);
    // Giving out and judging, over whole rounds.
    let mut give = f64::INFINITY;
    let mut judge = f64::INFINITY;
    for round in 1..4u64 {
        let mut out = Vec::new();
        let begun = clock();
        if round > 1 {
            let spec = RoundSpec::new(DataSetId([1; 32]), Cut::new(workers * BLOCKS, 0));
            scheduler.handle(
                Time(round * 100),
                Event::RoundSubmitted { round: RoundId(round), spec },
                &mut out,
            );
            give = give.min(begun.elapsed().as_secs_f64() * 1e6 / f64::from(workers));
        }
        let begun = clock();
        for n in 0..workers {
            let range = BlockRange { first: n * BLOCKS, len: BLOCKS, attempt: 1, alone: false, apart: false };
            let node = qjam_core::reduce::Node { level: 3, index: n };
            let (part, round) = (PartId(u64::from(n)), RoundId(round));
            let event = Event::PartDelivered { part, worker: worker(n), round, node, ranges: vec![range] };
            scheduler.handle(Time(round.0 * 100 + 50), event, &mut out);
            let _ = scheduler.next_deadline();
        }
        assert!(!scheduler.is_busy(), "the round is over");
        judge = judge.min(begun.elapsed().as_secs_f64() * 1e6 / f64::from(workers));
    }
    [beat, give, judge]
}

/// Packing, a write, a read and unpacking of a message to the master.
fn read_us(message: &ToMaster) -> Result<f64, std::io::Error> {
    let (mut here, mut there) = UnixStream::pair()?;
    let mut buffer = vec![0; 4096];
    let bytes = frame::encode(KIND_TO_MASTER, &message.to_body(), b"");
    Ok(best_us(REPEATED, || {
        for _ in 0..REPEATED {
            let read = there.write_all(&bytes).and_then(|()| here.read(&mut buffer)).unwrap_or(0);
            let parsed = Frame::parse(&buffer[..read]).ok().flatten();
            let message = parsed.and_then(|(frame, _)| ToMaster::from_frame(&frame).ok());
            assert!(message.is_some(), "what was written is read");
        }
    }))
}

/// Packing and a write of a message to a worker, and the read at the other end.
fn write_us(message: &ToWorker) -> Result<f64, std::io::Error> {
    let (mut here, mut there) = UnixStream::pair()?;
    let mut buffer = vec![0; 4096];
    Ok(best_us(REPEATED, || {
        for _ in 0..REPEATED {
            let bytes = frame::encode(KIND_TO_WORKER, &message.to_body(), b"");
            let read = here.write_all(&bytes).and_then(|()| there.read(&mut buffer)).unwrap_or(0);
            assert_eq!(read, bytes.len(), "what was written is read");
        }
    }))
}

/// Measures, and tells what for each size.
pub(crate) fn measure(sizes: &[u32]) -> (Costs, Table) {
    let range = BlockRange { first: 80, len: BLOCKS, attempt: 1, alone: false, apart: false };
    let task = ToWorker::Task(Task {
        order: OrderHead {
            round: RoundId(1),
            function: "kmeans::assign".into(),
            seed: 7,
            dataset: DataSetId([1; 32]),
            cut: Cut::new(800, 0),
            held: None,
            slots_max: None,
            records: None,
            lineage: None,
        },
        chunks: Vec::new(),
        ranges: vec![range],
        params: Payload::Streamed { bytes: 8 },
        released: Vec::new(),
    });
    let node = qjam_core::reduce::Node { level: 3, index: 10 };
    let part = Part { node, ranges: vec![range], payload: Payload::Streamed { bytes: 8 } };
    let result = ToMaster::Result(ResultMessage {
        round: RoundId(1),
        parts: vec![part],
        compute_us: 10_000,
        cache_hits: 1,
        cache_misses: 0,
        restored: Vec::new(),
    });
    let socket = |us: Result<f64, std::io::Error>| us.unwrap_or(f64::NAN);
    let beat_io = socket(read_us(&ToMaster::State(State::Running)));
    let result_io = socket(read_us(&result));
    let task_io = socket(write_us(&task));
    let mut table = Table::new(
        "costs",
        format!(
            "Microseconds of one core for each worker. Measured on this machine; packing, a write, a read and unpacking \
             take {beat_io:.1} µs for a sign of life, {task_io:.1} µs for a task, {result_io:.1} µs for a result."
        ),
        &["workers", "scheduler: sign of life", "scheduler: task", "scheduler: result"],
    );
    let mut costs = Costs { beat_us: 0.0, exchange_us: 0.0 };
    for &workers in sizes {
        let [beat, give, judge] = scheduler_us(workers);
        table.row([whole(workers.into()), format!("{beat:.2}"), format!("{give:.2}"), format!("{judge:.2}")]);
        // The largest counts.
        costs = Costs { beat_us: beat_io + beat, exchange_us: task_io + result_io + give + judge };
    }
    (costs, table)
}
