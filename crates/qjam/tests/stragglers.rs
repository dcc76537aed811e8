//! Workers that are slower than the others: what that costs, and that it changes no bit.

use qjam::{Ctx, DataSet, Master, Nothing};
use qjam_core::journal::What;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

qjam::worker_hook!();

/// Sleeps; the process with this number does so for longer. The sum shows in which order it was made.
#[qjam::map]
fn nap(params: &[u64], _: &Nothing, ctx: &Ctx) -> f64 {
    let [nap_us, slow_pid, factor, after] = params[..] else { return f64::NAN };
    let is_slow = u64::from(std::process::id()) == slow_pid && u64::from(ctx.chunk()) >= after;
    std::thread::sleep(Duration::from_micros(if is_slow { nap_us * factor } else { nap_us }));
    1.0 / (f64::from(ctx.chunk()) + 0.1) * if ctx.chunk().is_multiple_of(2) { 1e8 } else { 1e-8 }
}

/// One test at a time: they are about time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pid(m: &Master, n: usize) -> u64 {
    m.workers()[n].pid.map_or(0, u64::from)
}

fn time(m: &Master, params: &[u64], tasks: &DataSet<Nothing>) -> (f64, Duration) {
    let start = Instant::now();
    (m.run(nap, params, tasks).expect("a value"), start.elapsed())
}

#[test]
fn one_of_eight_ten_times_slower_costs_little_more_than_its_absence() {
    let _alone = alone();
    for blocks in [64, 128] {
        let tasks = DataSet::nothing(blocks).unwrap();
        let nap_us = 9_600_000 / blocks as u64;
        let (seven, eight) = (Master::connect("proc:7").unwrap(), Master::connect("proc:8").unwrap());
        let slow = pid(&eight, 0);
        // The first round finds out who is slow; the others know.
        for n in 0..3 {
            let (expected, ideal) = time(&seven, &[nap_us, 0, 1, 0], &tasks);
            let (value, took) = time(&eight, &[nap_us, slow, 10, 0], &tasks);
            assert_eq!(value.to_bits(), expected.to_bits());
            let ratio = took.as_secs_f64() / ideal.as_secs_f64();
            let report = eight.last_round().unwrap();
            println!(
                "{blocks} blocks, round {n}: {ideal:.2?} with seven, {took:.2?} with eight, {ratio:.2}; {} stolen, {} \
                 backed up",
                report.stolen, report.backups
            );
            assert!(ideal > Duration::from_secs(1) && ratio < 1.3, "{blocks} blocks, round {n}: {ratio}");
        }
        assert_eq!(pid(&eight, 0), slow, "nobody was killed for being slow");
        let stolen = eight.journal().iter().any(|e| matches!(e.what, What::Stolen { .. }));
        assert!(stolen, "blocks were taken from it");
    }
}

#[test]
fn a_block_that_takes_for_ever_is_done_by_somebody_else() {
    let _alone = alone();
    for engine in ["proc:4", "proc:2*2"] {
        let tasks = DataSet::nothing(64).unwrap();
        let m = Master::connect(engine).unwrap();
        let (expected, ideal) = time(&m, &[10_000, 0, 1, 0], &tasks);
        // It does some blocks in time, and has them to deliver while it sleeps.
        let slow = pid(&m, 0);
        let (value, took) = time(&m, &[10_000, slow, 500, 7], &tasks);
        assert_eq!(value.to_bits(), expected.to_bits());
        let report = m.last_round().unwrap();
        println!(
            "{engine}: {ideal:.2?}, then {took:.2?}; {} stolen, {} backed up",
            report.stolen, report.backups
        );
        assert!(report.backups > 0 && took < Duration::from_secs(2), "{engine}: {took:?}");
        // It is still asleep; the next round goes on without it, and it is none the worse for it.
        let (value, took) = time(&m, &[10_000, 0, 1, 0], &tasks);
        assert_eq!(value.to_bits(), expected.to_bits());
        assert!(took < Duration::from_secs(2), "{engine}: {took:?}");
        assert_eq!(pid(&m, 0), slow, "nobody was killed for being slow");
    }
}

#[test]
fn a_worker_that_joins_in_the_middle_gets_its_share() {
    let _alone = alone();
    let tasks = DataSet::nothing(64).unwrap();
    let m = Master::connect("proc:1").unwrap();
    let pending = m.submit(nap, &[30_000, 0, 1, 0], &tasks).unwrap();
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(200));
    m.add_workers("proc:1").unwrap();
    let value = pending.wait().unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_millis(1_600), "alone it would be 1.9 s: {took:?}");
    assert_eq!(value.to_bits(), m.run(nap, &[0, 0, 1, 0], &tasks).unwrap().to_bits());
}

#[test]
fn nothing_is_run_twice_in_short_rounds() {
    let _alone = alone();
    let tasks = DataSet::nothing(64).unwrap();
    let m = Master::connect("proc:4").unwrap();
    // On a full machine a process may stand still for longer than the grace of 2 ms; then it is helped, and rightly so.
    let mut long = 0;
    for _ in 0..300 {
        let (_, took) = time(&m, &[0, 0, 1, 0], &tasks);
        long += usize::from(took > Duration::from_millis(2));
    }
    let helped = m.journal().iter().filter(|e| matches!(e.what, What::BackedUp { .. })).count();
    println!("{long} of 300 rounds were long; {helped} blocks were backed up");
    // A round backs up at most a tenth of its blocks.
    assert!(helped <= long * 6, "{helped} blocks were backed up in {long} rounds");
}
