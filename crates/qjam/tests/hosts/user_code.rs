//! What user code may do on a host: panic, crash, exit, eat memory, print, never return. The host's name is in what is
//! told of it, and the master is as good as before.

use crate::hosts::{claim, within};
use qjam::job::{Cause, FaultKind};
use qjam::journal::What;
use qjam::{Ctx, DataSet, Dense, Error, LogLine, Master, Nothing};
use qjam_conformance::HANG;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type LogLines = Arc<Mutex<Vec<LogLine>>>;

/// A master whose lines are kept.
fn listening(workers: &str) -> (Master, LogLines) {
    let kept: LogLines = Arc::default();
    let keep = kept.clone();
    let m = Master::builder().on_log(move |line| keep.lock().unwrap().push(line.clone())).connect(workers);
    (m.unwrap(), kept)
}

/// What is done on chunk 17.
#[qjam::map]
fn misdeed(deed: &str, _: &Nothing, ctx: &Ctx) -> u64 {
    if ctx.chunk() != 17 {
        return 1;
    }
    match deed {
        "panic" => panic!("cannot bear seventeen"),
        "exit" => {
            println!("leaving");
            std::process::exit(3)
        }
        "flood" => {
            let mut out = std::io::stdout().lock();
            (0..20_000).for_each(|n| writeln!(out, "line {n}").unwrap());
            std::process::exit(3)
        }
        "everybody" | "everybody at last" => {
            // Longer than a life must last to count as a success.
            let life = Duration::from_millis(if deed == "everybody" { 0 } else { 5_500 });
            std::thread::sleep(life);
            let me = std::process::Command::new("/bin/sh").args(["-c", "kill -s KILL -- -1"]).status();
            println!("{me:?}");
        }
        "abort" => std::process::abort(),
        "segfault" => {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::SEGV).unwrap();
            std::thread::sleep(Duration::from_secs(1));
        }
        "memory" => {
            let much = vec![1_u8; 1 << 30];
            return much.iter().map(|b| u64::from(*b)).sum();
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        _ => {}
    }
    1
}

fn run(m: &Master, deed: &str) -> qjam::Result<u64> {
    m.run(misdeed, deed, &DataSet::nothing(40).unwrap())
}

fn is_well(m: &Master, after: &str) {
    assert_eq!(run(m, "nothing").map_err(|e| e.to_string()), Ok(40), "after {after}");
}

#[test]
fn a_panic_tells_message_host_and_chunk() {
    let [c, d] = claim(["c", "d"]);
    let m = Master::connect("c*1,d*1").unwrap();
    for _ in 0..2 {
        let error = run(&m, "panic").unwrap_err();
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert_eq!((fault.fault.kind, fault.fault.chunk), (FaultKind::Panic, Some(17)));
        assert_eq!(fault.fault.message, "cannot bear seventeen");
        let worker = fault.worker.as_deref().unwrap();
        assert!(["c", "d"].contains(&worker), "{error}");
        assert!(error.to_string().contains(&format!(" on {worker}, chunk 17")), "{error}");
        is_well(&m, "a panic");
    }
    drop(m);
    c.must_be_quiet();
    d.must_be_quiet();
}

#[test]
fn a_block_that_ends_processes_is_told_with_host_and_cause() {
    let [c, d] = claim(["c", "d"]);
    let m = Master::builder().on_log(|_| {}).connect("c*2,d*1").unwrap();
    let causes = [("exit", Cause::Exited(3)), ("abort", Cause::Signal(6)), ("segfault", Cause::Signal(11))];
    for (deed, cause) in causes {
        let began = Instant::now();
        let error = run(&m, deed).unwrap_err();
        println!("{deed}: {error} ({:.0?})", began.elapsed());
        let Error::Poison { chunks, deaths } = &error else { panic!("{deed}: {error}") };
        assert!(chunks.contains(&17), "{deed}: {error}");
        assert_eq!(deaths.len(), 3, "{deed}: {error}");
        for (worker, death) in deaths {
            assert!(["c", "d"].contains(&worker.as_str()), "{deed}: {error}");
            assert_eq!(death.cause, cause, "{deed}: {error}");
            assert!(deed != "exit" || death.last_lines == ["leaving"], "{deed}: {error}");
        }
        is_well(&m, deed);
    }
    drop(m);
    c.must_be_quiet();
    d.must_be_quiet();
}

#[test]
fn lines_of_executors_that_die_are_shown_or_counted() {
    let [_c] = claim(["c"]);
    let (m, kept) = listening("c*1");
    assert!(matches!(run(&m, "flood"), Err(Error::Poison { .. })));
    let (shown, dropped) = count(&kept.lock().unwrap());
    println!("{shown} lines shown, {dropped} counted");
    assert_eq!(shown + dropped, 60_000, "three died, and every line is shown or counted");
}

/// As a memory limit does that ends the host's ssh server with the worker: nobody is left who could say which block it was.
#[test]
fn a_lone_host_that_dies_with_its_connection_is_given_up() {
    let [c] = claim(["c"]);
    let m = Master::builder().on_log(|_| {}).connect("c*1").unwrap();
    let lives = |m: &Master| m.journal().iter().filter(|e| matches!(e.what, What::WorkerJoined(_))).count();
    let error = run(&m, "everybody at last").unwrap_err();
    assert!(matches!(error, Error::NoWorkers { .. }), "{error}");
    assert!(error.to_string().contains('c'), "{error}");
    // Four on a machine that is fast enough for them in a quarter of a minute; how many exactly is held in virtual time, in
    // `core/src/scheduler/tests/hosts.rs`.
    assert!((1..=4).contains(&lives(&m)), "{error}");
    is_well(&m, "everybody was killed");
    drop(m);
    c.must_be_quiet();
}

#[test]
fn code_that_kills_everybody_on_its_host_is_one_error() {
    let [c, d] = claim(["c", "d"]);
    let m = Master::builder().on_log(|_| {}).connect("c*1,d*1").unwrap();
    let began = Instant::now();
    let error = run(&m, "everybody").unwrap_err();
    println!("{error} ({:.1?})", began.elapsed());
    assert!(matches!(error, Error::NoWorkers { .. }), "{error}");
    is_well(&m, "everybody was killed");
    drop(m);
    c.must_be_quiet();
    d.must_be_quiet();
}

#[test]
fn more_memory_than_the_limit_is_told_as_that() {
    let [_c] = claim(["c"]);
    let m = Master::builder().memory_limit(256 << 20).on_log(|_| {}).connect("c*1").unwrap();
    let error = run(&m, "memory").unwrap_err();
    let Error::Poison { deaths, .. } = &error else { panic!("{error}") };
    for (worker, death) in deaths {
        assert_eq!(worker, "c");
        assert!(
            matches!(death.cause, Cause::OutOfMemory { limit_bytes, .. } if limit_bytes == 256 << 20),
            "{error}"
        );
    }
    assert!(error.to_string().contains("limit of 268435456"), "{error}");
    is_well(&m, "too much memory");
}

#[qjam::map]
fn chatty(lines: &u64, _: &Nothing, ctx: &Ctx) -> u64 {
    let mut out = std::io::stdout().lock();
    for n in 0..*lines {
        writeln!(out, "{n} of {}", ctx.chunk()).unwrap();
    }
    *lines
}

/// How many lines were shown, and how many were said to be dropped.
fn count(lines: &[LogLine]) -> (u64, u64) {
    let (mut shown, mut dropped) = (0, 0);
    for line in lines {
        match line.text.strip_suffix(" more lines were dropped)") {
            Some(count) => dropped += count.trim_start_matches('(').parse::<u64>().unwrap(),
            None => shown += 1,
        }
    }
    (shown, dropped)
}

#[test]
fn lines_arrive_in_order_under_the_hosts_name_before_the_value() {
    let [c, d] = claim(["c", "d"]);
    let (m, kept) = listening("c*1,d*1");
    for _ in 0..3 {
        m.run(chatty, &10, &DataSet::nothing(2).unwrap()).unwrap();
        let lines = std::mem::take(&mut *kept.lock().unwrap());
        for (chunk, worker) in ["c", "d"].into_iter().enumerate() {
            let expected: Vec<String> = (0..10).map(|n| format!("{n} of {chunk}")).collect();
            let of_it = lines.iter().filter(|line| line.worker == worker).map(|line| line.text.clone());
            assert_eq!(of_it.collect::<Vec<_>>(), expected, "{worker} of {lines:?}");
        }
    }
    drop(m);
    c.must_be_quiet();
    d.must_be_quiet();
}

#[test]
fn a_hundred_thousand_lines_are_bounded_and_counted() {
    let [_c] = claim(["c"]);
    let (m, kept) = listening("c*1");
    let began = Instant::now();
    m.run(chatty, &50_000, &DataSet::nothing(2).unwrap()).unwrap();
    let lines = std::mem::take(&mut *kept.lock().unwrap());
    assert!(lines.iter().all(|line| line.worker == "c"));
    let (shown, dropped) = count(&lines);
    println!("{shown} lines shown, {dropped} counted, in {:.0?}", began.elapsed());
    assert_eq!(shown + dropped, 100_000, "every line is shown or counted");
    assert!(dropped > 0, "all are shown");
}

#[test]
fn an_endless_loop_is_stopped_and_the_worker_is_free() {
    let [_c] = claim(["c"]);
    let m = Master::connect("c*1").unwrap();
    for _ in 0..2 {
        let mut pending = m.submit(misdeed, "spin", &DataSet::nothing(40).unwrap()).unwrap();
        assert!(pending.wait_at_most(Duration::from_millis(300)).unwrap().is_none());
        pending.cancel();
        let next = m.submit(misdeed, "nothing", &DataSet::nothing(4).unwrap()).unwrap();
        assert_eq!(next.wait().unwrap(), 4);
    }
}

#[qjam::map]
fn total(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

#[test]
fn a_round_cancelled_while_its_data_is_on_the_way_does_not_harm_the_next() {
    let [d] = claim(["d"]);
    let m = Master::connect("d*2").unwrap();
    let values = crate::work::rugged(60_000, 3);
    for n in 0..60_u32 {
        let mut fresh = values.clone();
        fresh[0] = f64::from(n) + f64::from(std::process::id());
        let x = DataSet::dense(fresh, 1).unwrap();
        let round = m.submit(total, &(), &x).unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(n) * 100));
        round.cancel();
        let mut again = m.submit(total, &(), &x).unwrap();
        let value = again.wait_at_most(HANG).unwrap();
        assert!(value.is_some(), "the round after the {n}th that was cancelled hangs");
    }
    drop(m);
    assert!(within(HANG, || d.processes().is_empty()));
}
