//! Rounds can be called off: by the user, by a time limit, by dropping what waits for them.

use crate::support::{Gate, exists, losses, pids, unhurried, wait_until};
use crate::{Engine, HANG};
use qjam::{Ctx, DataSet, Error, Master, Nothing};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Leaves word of a chunk where a [`Gate`] counts it.
fn mark(marks: &str, chunk: u32) {
    if !marks.is_empty() {
        let _ = std::fs::write(format!("{marks}at-{chunk}"), []);
    }
}

/// Runs for ever on one chunk, and says before that it is there; shortly on the others.
#[qjam::map]
fn endless(task: &(u32, String), _: &Nothing, ctx: &Ctx) -> u64 {
    if ctx.chunk() == task.0 {
        mark(&task.1, ctx.chunk());
    }
    while ctx.chunk() == task.0 {
        std::hint::spin_loop();
    }
    1
}

/// Waits for the end of its round; says before that it is there.
#[qjam::map]
fn patient(marks: &str, _: &Nothing, ctx: &Ctx) -> u64 {
    mark(marks, ctx.chunk());
    while !ctx.cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    0
}

/// No chunk is endless.
fn nowhere() -> (u32, String) {
    (u32::MAX, String::new())
}

fn is_well(m: &Master, after: &str) {
    let run = m.run(endless, &nowhere(), &DataSet::nothing(40).unwrap());
    assert_eq!(run.map_err(|e| e.to_string()), Ok(40), "after {after}");
}

pub(crate) fn an_endless_function_is_stopped(e: &Engine) {
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        for _ in 0..2 {
            let before = e.pids(&m);
            let gate = Gate::new();
            let pending = m.submit(endless, &(5, gate.path()), &DataSet::nothing(40).unwrap()).unwrap();
            gate.wait_for(1);
            assert!(!pending.is_done());
            pending.cancel();
            let gone = || before.iter().any(|pid| !exists(*pid));
            wait_until("the end of who ran it", gone);
            is_well(&m, "a cancelled round");
        }
    }
}

pub(crate) fn an_endless_function_can_be_cancelled_often(e: &Engine) {
    let m = e.master(1);
    for n in 0..7 {
        let gate = Gate::new();
        let round = m.submit(endless, &(0, gate.path()), &DataSet::nothing(4).unwrap()).unwrap();
        gate.wait_for(1);
        round.cancel();
        is_well(&m, &format!("round {n} was cancelled"));
    }
}

pub(crate) fn a_round_over_its_time_says_whom_it_waited_for(e: &Engine) {
    for engine in e.few() {
        let limit = Duration::from_millis(200);
        let m = e.connect(Master::builder().round_timeout(limit), engine);
        let error = m.run(patient, "", &DataSet::nothing(8).unwrap()).unwrap_err();
        let Error::TimedOut { limit: told, waiting_for } = &error else { panic!("{engine}: {error}") };
        assert_eq!(*told, limit);
        assert!(m.workers().iter().any(|w| waiting_for.contains(&w.name)), "{engine}: {waiting_for}");
        // With this limit a round may be late on a slow machine; without one it cannot be.
        is_well(&e.connect(Master::builder(), engine), "a time-out");
    }
}

pub(crate) fn a_function_that_asks_is_not_killed(e: &Engine) {
    for engine in e.few() {
        // Nobody is killed for being slow to answer, so whoever did not answer would be waited for and then killed.
        let m = e.connect(Master::builder().deadlines(unhurried()), engine);
        let before = pids(&m);
        for _ in 0..3 {
            let gate = Gate::new();
            let round = m.submit(patient, &gate.path(), &DataSet::nothing(9).unwrap()).unwrap();
            gate.wait_for(1);
            drop(round);
            is_well(&m, "a dropped round");
        }
        assert_eq!(pids(&m), before, "{engine}: nobody had to be killed");
        assert_eq!(losses(&m), 0, "{engine}");
    }
}

pub(crate) fn threads_that_never_return_are_left_behind(e: &Engine) {
    static ENTERED: AtomicU64 = AtomicU64::new(0);
    #[qjam::map]
    fn stuck(_: &(), _: &Nothing) -> u64 {
        ENTERED.fetch_add(1, Relaxed);
        // Sleeps rather than spins: the other tests want the processor.
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    let m = e.master(2);
    for n in 1..=3 {
        let round = m.submit(stuck, &(), &DataSet::nothing(5).unwrap()).unwrap();
        wait_until("that all slots are stuck", || ENTERED.load(Relaxed) == 2 * n);
        round.cancel();
        is_well(&m, "threads got stuck");
    }
    drop(m); // and comes back, although they do not
}

pub(crate) fn very_long_limits_are_no_limits(e: &Engine) {
    for limit in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(100 * 365 * 86_400)] {
        let builder = Master::builder().round_timeout(limit).deliver_after(limit);
        let m = e.connect(builder.blocks_per_slot(u32::MAX).cache_limit(u64::MAX), &e.of(3));
        is_well(&m, "a very long limit");
        let mut pending = m.submit(endless, &nowhere(), &DataSet::nothing(40).unwrap()).unwrap();
        assert_eq!(pending.wait_at_most(limit).unwrap(), Some(40));
        assert!(pending.report().is_some());
    }
}

pub(crate) fn a_round_cancelled_while_its_data_is_on_the_way_does_not_harm_the_next(e: &Engine) {
    let values: Vec<f64> = crate::support::rugged(60_000);
    #[qjam::map]
    fn total(_: &(), x: &qjam::Dense<f64>) -> f64 {
        x.as_slice().iter().sum()
    }
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        for n in 0..60_u32 {
            let mut fresh = values.clone();
            fresh[0] = f64::from(n);
            let x = qjam::DataSet::dense(fresh, 1).unwrap();
            let round = m.submit(total, &(), &x).unwrap();
            std::thread::sleep(Duration::from_micros(u64::from(n) * 20));
            round.cancel();
            let mut again = m.submit(total, &(), &x).unwrap();
            let value = again.wait_at_most(HANG).unwrap();
            assert!(value.is_some(), "{engine}, {n}: the next round hangs");
        }
    }
}
