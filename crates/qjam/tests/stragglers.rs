//! Workers that are slower than the others: others do what they are late with, and it changes no bit. What that costs is
//! measured by the ignored tests, one at a time.

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

use qjam::{Ctx, DataSet, Master, Nothing};
use qjam_conformance::HANG;
use qjam_conformance::support::{Folder, unhurried, wait_until};
use qjam_core::journal::What;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

qjam::worker_hook!();

/// The sum shows in which order it was made.
fn weight(chunk: u32) -> f64 {
    1.0 / (f64::from(chunk) + 0.1) * if chunk.is_multiple_of(2) { 1e8 } else { 1e-8 }
}

/// Sleeps; the process with this number does so for longer.
#[qjam::map]
fn nap(params: &[u64], _: &Nothing, ctx: &Ctx) -> f64 {
    let [nap_us, slow_pid, factor, after] = params[..] else { return f64::NAN };
    let is_slow = u64::from(std::process::id()) == slow_pid && u64::from(ctx.chunk()) >= after;
    std::thread::sleep(Duration::from_micros(if is_slow { nap_us * factor } else { nap_us }));
    weight(ctx.chunk())
}

/// Leaves word of who ran each chunk in a folder. The process with this number does a few and goes no further until there is
/// a file `open`. The others take long enough for a moment's delay not to look like slowness: who is slow is no help.
#[qjam::map]
fn held_up(params: &(String, u64, u32), _: &Nothing, ctx: &Ctx) -> f64 {
    let (marks, slow_pid, after) = (Path::new(&params.0), params.1, params.2);
    let me = u64::from(std::process::id());
    std::fs::write(marks.join(format!("{me}-{}", ctx.chunk())), []).unwrap();
    std::thread::sleep(Duration::from_millis(40));
    while me == slow_pid && ctx.chunk() >= after && marks.exists() && !marks.join("open").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    weight(ctx.chunk())
}

/// Chunks that a process has begun.
fn begun(marks: &Folder, pid: u64) -> usize {
    let names = std::fs::read_dir(marks.file("")).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(&format!("{pid}-"))).count()
}

fn path(marks: &Folder) -> String {
    marks.file("").to_string_lossy().into_owned()
}

fn pid(m: &Master, n: usize) -> u64 {
    m.workers()[n].pid.map_or(0, u64::from)
}

#[test]
fn a_block_that_takes_for_ever_is_done_by_somebody_else() {
    for engine in ["proc:4", "proc:2*2"] {
        let tasks = DataSet::nothing(64).unwrap();
        let m = Master::builder().deadlines(unhurried()).connect(engine).unwrap();
        let expected = m.run(nap, &[0, 0, 1, 0], &tasks).unwrap();
        // It does some blocks in time, and has them to deliver while it is held up. Nobody opens the gate: the value comes
        // because others run what it holds.
        let (slow, marks) = (pid(&m, 0), Folder::new());
        let mut pending = m.submit(held_up, &(path(&marks), slow, 3), &tasks).unwrap();
        let value = pending.wait_at_most(HANG).unwrap().expect("others run it");
        assert_eq!(value.to_bits(), expected.to_bits(), "{engine}");
        let report = m.last_round().unwrap();
        assert!(report.backups > 0, "{engine}: {report:?}");
        let stolen = m.journal().iter().any(|e| matches!(e.what, What::Stolen { .. }));
        assert!(stolen, "{engine}: blocks that it had not begun were taken from it");
        assert!((1..64).contains(&begun(&marks, slow)), "{engine}");
        // It is still held up; the next round goes on without it, and it is none the worse for it.
        let value = m.run(nap, &[0, 0, 1, 0], &tasks).unwrap();
        assert_eq!(value.to_bits(), expected.to_bits(), "{engine}");
        assert_eq!(pid(&m, 0), slow, "{engine}: nobody was killed for being slow");
    }
}

#[test]
fn a_worker_that_joins_in_the_middle_gets_its_share() {
    let tasks = DataSet::nothing(64).unwrap();
    let m = Master::connect("proc:1").unwrap();
    let (first, marks) = (pid(&m, 0), Folder::new());
    let pending = m.submit(held_up, &(path(&marks), first, 5), &tasks).unwrap();
    wait_until("that the first is held up", || begun(&marks, first) >= 6);
    m.add_workers("proc:1").unwrap();
    let second = pid(&m, 1);
    wait_until("that the second has work", || begun(&marks, second) > 0);
    std::fs::write(marks.file("open"), []).unwrap();
    let value = pending.wait().unwrap();
    assert_eq!(value.to_bits(), m.run(nap, &[0, 0, 1, 0], &tasks).unwrap().to_bits());
}

#[test]
fn nothing_is_run_twice_in_short_rounds() {
    let tasks = DataSet::nothing(64).unwrap();
    let m = Master::connect("proc:4").unwrap();
    // Nobody is helped before a grace of 2 ms is over. On a full machine a process may stand still for longer than that; then
    // it is helped, and rightly so. So every round with help is one of those that take longer than the grace.
    let long = (0..300).filter(|_| time(&m, &[0, 0, 1, 0], &tasks).1 > Duration::from_millis(2)).count();
    let helped = m.journal().iter().filter(|e| matches!(e.what, What::BackedUp { .. })).count();
    // A round backs up at most a tenth of its blocks.
    assert!(helped <= long * 6, "{helped} blocks were backed up in {long} rounds");
}

// ---- measurements -----------------------------------------------------------------------------------------------

/// One at a time: they are about time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn time(m: &Master, params: &[u64], tasks: &DataSet<Nothing>) -> (f64, Duration) {
    let start = Instant::now();
    (m.run(nap, params, tasks).expect("a value"), start.elapsed())
}

#[test]
#[ignore = "a measurement"]
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
    }
}

#[test]
#[ignore = "a measurement"]
fn a_block_that_takes_for_ever_costs_less_than_two_seconds() {
    let _alone = alone();
    for engine in ["proc:4", "proc:2*2"] {
        let tasks = DataSet::nothing(64).unwrap();
        let m = Master::connect(engine).unwrap();
        let (_, ideal) = time(&m, &[10_000, 0, 1, 0], &tasks);
        let slow = pid(&m, 0);
        let (_, took) = time(&m, &[10_000, slow, 500, 7], &tasks);
        println!("{engine}: {ideal:.2?}, then {took:.2?}");
        assert!(took < Duration::from_secs(2), "{engine}: {took:?}");
        let (_, took) = time(&m, &[10_000, 0, 1, 0], &tasks);
        assert!(took < Duration::from_secs(2), "{engine}: {took:?}");
    }
}

#[test]
#[ignore = "a measurement"]
fn a_worker_that_joins_in_the_middle_saves_time() {
    let _alone = alone();
    let tasks = DataSet::nothing(64).unwrap();
    let m = Master::connect("proc:1").unwrap();
    let pending = m.submit(nap, &[30_000, 0, 1, 0], &tasks).unwrap();
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(200));
    m.add_workers("proc:1").unwrap();
    pending.wait().unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_millis(1_600), "alone it would be 1.9 s: {took:?}");
}

/// Processor time of a process so far in nanoseconds, if it sleeps now: one that polls is running or runnable.
fn asleep_after_ns(pid: u64) -> Option<u64> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let stat = read("stat");
    // The name of the program stands in parentheses and may have any characters.
    let is_asleep = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'));
    is_asleep.then(|| read("schedstat").split(' ').next().unwrap().parse().unwrap())
}

/// Short rounds one after the other keep workers awake between them, if there are cores for all; not beyond the last.
#[test]
fn workers_that_have_nothing_to_do_use_no_processor() {
    for engine in ["proc:1", "proc:4", "auto:proc:1"] {
        let m = Master::connect(engine).unwrap();
        let tasks = DataSet::nothing(4).unwrap();
        for _ in 0..50 {
            m.run(nap, &[0, 0, 1, 0][..], &tasks).unwrap();
        }
        let pids: Vec<u64> = (0..m.workers().len()).map(|n| pid(&m, n)).collect();
        let used = || pids.iter().map(|pid| asleep_after_ns(*pid)).collect::<Option<Vec<u64>>>();
        wait_until(&format!("{engine}: a tenth of a second in which no worker runs"), || {
            let before = used();
            std::thread::sleep(Duration::from_millis(100));
            before.is_some() && before == used()
        });
    }
}
