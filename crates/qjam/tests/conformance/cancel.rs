//! Rounds can be called off: by the user, by a time limit, by dropping what waits for them.

use crate::support::{exists, pids, within};
use qjam::{Ctx, DataSet, Error, Master, Nothing};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Runs as good as for ever on one chunk and shortly on the others. It does end, for the sake of the tests that want
/// the processor when this one is over: threads cannot be killed.
#[qjam::map]
fn endless(chunk: &u32, _: &Nothing, ctx: &Ctx) -> u64 {
    let started = Instant::now();
    while ctx.chunk() == *chunk && started.elapsed() < Duration::from_secs(5) {
        std::hint::spin_loop();
    }
    1
}

#[qjam::map]
fn patient(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
    while !ctx.cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    0
}

const NOBODY: u32 = u32::MAX;

fn is_well(m: &Master, after: &str) {
    let run = m.run(endless, &NOBODY, &DataSet::nothing(40).unwrap());
    assert_eq!(run.map_err(|e| e.to_string()), Ok(40), "after {after}");
}

#[test]
fn an_endless_function_is_stopped_within_a_second() {
    for engine in ["proc:1", "proc:3", "proc:2*2"] {
        let m = Master::connect(engine).unwrap();
        for _ in 0..2 {
            let before = pids(&m);
            let mut pending = m.submit(endless, &5, &DataSet::nothing(40).unwrap()).unwrap();
            assert!(pending.wait_at_most(Duration::from_millis(100)).unwrap().is_none());
            assert!(!pending.is_done());
            pending.cancel();
            let gone = || before.iter().any(|pid| !exists(*pid));
            assert!(within(Duration::from_secs(1), gone), "{engine}: it still runs");
            is_well(&m, "a cancelled round");
        }
    }
}

#[test]
fn an_endless_function_can_be_cancelled_often() {
    for engine in ["proc:1", "local:1"] {
        let m = Master::connect(engine).unwrap();
        for n in 0..7 {
            let round = m.submit(endless, &0, &DataSet::nothing(4).unwrap()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            round.cancel();
            is_well(&m, &format!("round {n} was cancelled on {engine}"));
            if engine == "local:1" && n == 1 {
                break; // each leaves a thread that goes on
            }
        }
    }
}

#[test]
fn a_round_over_its_time_says_whom_it_waited_for() {
    for engine in ["proc:2", "local:2"] {
        let limit = Duration::from_millis(200);
        let m = Master::builder().round_timeout(limit).connect(engine).unwrap();
        let started = Instant::now();
        let error = m.run(patient, &(), &DataSet::nothing(8).unwrap()).unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(1));
        let Error::TimedOut { limit: told, waiting_for } = &error else { panic!("{engine}: {error}") };
        assert_eq!(*told, limit);
        assert!(waiting_for.contains(&engine[..5]), "{engine}: {waiting_for}");
        is_well(&m, "a time-out");
    }
}

#[test]
fn a_function_that_asks_is_not_killed() {
    for engine in ["proc:2", "proc:1*3", "local:2"] {
        let m = Master::connect(engine).unwrap();
        let before = pids(&m);
        for _ in 0..3 {
            let round = m.submit(patient, &(), &DataSet::nothing(9).unwrap()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            drop(round);
            is_well(&m, "a dropped round");
        }
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(pids(&m), before, "{engine}: nobody had to be killed");
    }
}

#[test]
fn threads_that_never_return_are_left_behind() {
    static ENTERED: AtomicU64 = AtomicU64::new(0);
    #[qjam::map]
    fn stuck(_: &(), _: &Nothing) -> u64 {
        ENTERED.fetch_add(1, Relaxed);
        // Sleeps rather than spins: the other tests want the processor.
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
    let m = Master::connect("local:2").unwrap();
    for n in 1..=3 {
        let round = m.submit(stuck, &(), &DataSet::nothing(5).unwrap()).unwrap();
        assert!(within(Duration::from_secs(5), || ENTERED.load(Relaxed) == 2 * n), "all slots are stuck");
        round.cancel();
        is_well(&m, "threads got stuck");
    }
    let dropped = Instant::now();
    drop(m);
    assert!(dropped.elapsed() < Duration::from_secs(1), "stuck threads do not hold the master back");
}

#[test]
fn very_long_limits_are_no_limits() {
    for limit in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(100 * 365 * 86_400)] {
        let m = Master::builder()
            .round_timeout(limit)
            .deliver_after(limit)
            .blocks_per_slot(u32::MAX)
            .cache_limit(u64::MAX)
            .connect("proc:2,local:1")
            .unwrap();
        is_well(&m, "a very long limit");
        let mut pending = m.submit(endless, &NOBODY, &DataSet::nothing(40).unwrap()).unwrap();
        assert_eq!(pending.wait_at_most(limit).unwrap(), Some(40));
        assert!(pending.report().is_some());
    }
}

#[test]
fn a_round_cancelled_while_its_data_is_on_the_way_does_not_harm_the_next() {
    let values: Vec<f64> = crate::support::rugged(60_000);
    #[qjam::map]
    fn total(_: &(), x: &qjam::Dense<f64>) -> f64 {
        x.as_slice().iter().sum()
    }
    for engine in ["proc:2", "proc:2*2", "proc:1,local:1"] {
        let m = Master::connect(engine).unwrap();
        for n in 0..60_u32 {
            let mut fresh = values.clone();
            fresh[0] = f64::from(n);
            let x = qjam::DataSet::dense(fresh, 1).unwrap();
            let round = m.submit(total, &(), &x).unwrap();
            std::thread::sleep(Duration::from_micros(u64::from(n) * 20));
            round.cancel();
            let mut again = m.submit(total, &(), &x).unwrap();
            let value = again.wait_at_most(Duration::from_secs(10)).unwrap();
            assert!(value.is_some(), "{engine}, {n}: the next round hangs");
        }
    }
}
