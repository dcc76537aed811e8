//! Rounds that were submitted: several at once, waited for in any order, by any thread, or by nobody.

use crate::support::{noted, wait_until};
use crate::{Engine, HANG};
use qjam::journal::What;
use qjam::{Ctx, DataSet, Dense, Error, Master, Nothing};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[qjam::map]
fn numbered(n: &u64, _: &Nothing, ctx: &Ctx) -> u64 {
    std::thread::sleep(Duration::from_micros(300 * (u64::from(ctx.chunk()) % 3)));
    n * 1000 + u64::from(ctx.chunk())
}

fn expected(n: u64, tasks: u64) -> u64 {
    n * 1000 * tasks + tasks * (tasks - 1) / 2
}

#[qjam::map]
fn wide(n: &[f64], x: &Dense<f64>) -> Vec<f64> {
    x.as_slice().iter().map(|v| v * n[0]).chain(n.iter().copied()).collect()
}

pub(crate) fn rounds_may_be_waited_for_in_any_order(e: &Engine) {
    let tasks = DataSet::nothing(20).unwrap();
    for engine in e.shapes() {
        let m = e.connect(Master::builder(), engine);
        let mut pending: Vec<_> = (0..12).map(|n| (n, m.submit(numbered, &n, &tasks).unwrap())).collect();
        // Last first, then every other, then the rest; and one more round in the middle of it.
        let mut order = vec![pending.pop().unwrap()];
        let (odd, even): (Vec<_>, Vec<_>) = pending.into_iter().partition(|(n, _)| n % 2 == 1);
        order.extend(odd);
        assert_eq!(m.run(numbered, &99, &tasks).unwrap(), expected(99, 20), "{engine}");
        order.extend(even);
        for (n, pending) in order {
            assert_eq!(pending.wait().unwrap(), expected(n, 20), "{engine}, round {n}");
        }
    }
}

pub(crate) fn rounds_with_long_parameters_do_not_overwrite_each_other(e: &Engine) {
    let x = DataSet::dense((0..64).map(f64::from).collect(), 1).unwrap().partitions(8).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        for _ in 0..5 {
            // Long enough for shared memory, in both directions, and many at once.
            let pending: Vec<_> =
                (0..10).map(|n| (n, m.submit(wide, &vec![f64::from(n); 9_000], &x).unwrap())).collect();
            for (n, pending) in pending.into_iter().rev() {
                let value = pending.wait().unwrap();
                assert!(value[8..].iter().all(|v| *v == 8.0 * f64::from(n)), "{engine}, round {n}");
            }
        }
    }
}

pub(crate) fn a_cut_that_was_made_twice_is_forgotten_with_the_last(e: &Engine) {
    let m = e.master(2);
    for n in 0..40 {
        let x = DataSet::dense((0..3_200).map(|v| f64::from(v + n)).collect(), 1).unwrap();
        let (first, second) = (x.partitions(64).unwrap(), x.partitions(64).unwrap());
        drop(m.submit(wide, &[1.0], &first).unwrap());
        let mut pending = m.submit(wide, &[2.0], &second).unwrap();
        drop(first);
        // A new data set is when those that are gone are forgotten; the second is in use.
        let other = DataSet::dense(vec![f64::from(n)], 1).unwrap();
        assert_eq!(m.run(wide, &[3.0], &other).unwrap().len(), 2);
        let value = pending.wait_at_most(HANG).unwrap();
        assert_eq!(value.map(|v| v.len()), Some(51), "{n}: the round hangs");
    }
}

pub(crate) fn several_threads_share_a_master(e: &Engine) {
    let tasks = DataSet::nothing(6).unwrap();
    let (engine, m) = (e.name, e.master(2));
    std::thread::scope(|scope| {
        for t in 0..6_u64 {
            let (m, tasks) = (&m, &tasks);
            scope.spawn(move || {
                for n in 0..30 {
                    let n = t * 100 + n;
                    if n % 3 == 0 {
                        drop(m.submit(numbered, &n, tasks).unwrap());
                    }
                    let pending = m.submit(numbered, &n, tasks).unwrap();
                    assert_eq!(m.run(numbered, &(n + 1), tasks).unwrap(), expected(n + 1, 6), "{engine}");
                    assert_eq!(pending.wait().unwrap(), expected(n, 6), "{engine}");
                    assert!(m.last_round().is_some() && !m.workers().is_empty());
                }
            });
        }
    });
}

pub(crate) fn a_round_goes_on_while_nobody_waits(e: &Engine) {
    let tasks = DataSet::nothing(30).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let pending = m.submit(numbered, &1, &tasks).unwrap();
        wait_until("the end of a round", || pending.is_done());
        assert_eq!(pending.wait().unwrap(), expected(1, 30));
    }
}

pub(crate) fn a_dropped_round_is_cancelled(e: &Engine) {
    static RUN: AtomicU64 = AtomicU64::new(0);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    #[qjam::map]
    fn counted(_: &(), _: &Nothing) -> u64 {
        RUN.fetch_add(1, Relaxed);
        while !IS_OVER.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        1
    }
    let m = e.master(1);
    let pending = m.submit(counted, &(), &DataSet::nothing(1000).unwrap()).unwrap();
    wait_until("the first block", || RUN.load(Relaxed) > 0);
    drop(pending);
    let is_over = |what: &What| matches!(what, What::RoundOver { finished: false, .. });
    wait_until("the end of the round", || noted(&m, is_over) == 1);
    IS_OVER.store(true, Relaxed);
    assert_eq!(m.run(numbered, &0, &DataSet::nothing(2).unwrap()).unwrap(), 1);
    assert_eq!(RUN.load(Relaxed), 1, "the others were not run");
}

pub(crate) fn a_round_that_outlives_its_master_gets_an_error(e: &Engine) {
    #[qjam::map]
    fn long(_: &(), _: &Nothing, ctx: &Ctx) -> u64 {
        let end = Instant::now() + HANG;
        while !ctx.cancelled() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        1
    }
    let tasks = DataSet::nothing(8).unwrap();
    for engine in e.few() {
        let m = e.connect(Master::builder(), engine);
        let orphan = m.submit(long, &(), &tasks).unwrap();
        let dropped = m.submit(long, &(), &tasks).unwrap();
        let waited = m.submit(long, &(), &tasks).unwrap();
        let done = m.submit(numbered, &1, &tasks).unwrap();
        std::thread::scope(|scope| {
            // One is being waited for when the master goes.
            let waiting = scope.spawn(move || waited.wait().map(|_| ()));
            drop(m);
            let error = waiting.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Cancelled), "{engine}: {error}");
        });
        assert!(matches!(orphan.wait(), Err(Error::Cancelled)), "{engine}");
        drop(dropped);
        assert!(!done.is_done() || done.wait().is_ok(), "{engine}");
    }
}

pub(crate) fn several_masters_do_not_know_of_each_other(e: &Engine) {
    let tasks = DataSet::nothing(16).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4_u64 {
            let tasks = &tasks;
            scope.spawn(move || {
                for n in 0..3 {
                    let shapes: Vec<&str> = e.shapes().collect();
                    let m = e.connect(Master::builder(), shapes[(t as usize * 3 + n) % shapes.len()]);
                    let other = e.master(2);
                    let pending = m.submit(numbered, &t, tasks).unwrap();
                    assert_eq!(other.run(numbered, &7, tasks).unwrap(), expected(7, 16));
                    drop(other);
                    assert_eq!(pending.wait().unwrap(), expected(t, 16));
                }
            });
        }
    });
}
