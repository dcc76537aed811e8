//! However a program ends, nobody of it is left.

use crate::program::{Program, say};
use crate::support::{exists, pids, signal};
use qjam::{Ctx, DataSet, Master, Nothing};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Says nothing and takes long.
#[qjam::map]
fn busy(ms: &u64, _: &Nothing, ctx: &Ctx) -> u64 {
    std::thread::sleep(Duration::from_millis(*ms));
    u64::from(ctx.chunk())
}

pub(crate) const PROGRAMS: &[(&str, fn())] = &[
    ("returns", || {
        let (m, round) = in_a_round();
        drop((round, m));
        say("dropped");
    }),
    ("forgets", || {
        let (m, round) = in_a_round();
        std::mem::forget((m, round));
    }),
    ("exits", || {
        let _here = in_a_round();
        std::process::exit(7);
    }),
    ("panics", || {
        let _here = in_a_round();
        panic!("an error that nobody expected");
    }),
    ("aborts", || {
        let _here = in_a_round();
        std::process::abort();
    }),
    ("waits", || {
        let (_m, round) = in_a_round();
        let _ = round.wait();
    }),
    ("starts", || {
        // Killed somewhere in here: while workers are being started, over and over.
        say("starting");
        loop {
            drop(Master::connect("proc:4"));
        }
    }),
];

fn in_a_round() -> (Master, qjam::Pending<u64>) {
    let m = Master::connect("proc:3").unwrap();
    // A round before, so that all of the machinery has been in use.
    m.run(busy, &0, &DataSet::nothing(30).unwrap()).unwrap();
    let round = m.submit(busy, &60_000, &DataSet::nothing(30).unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    say(format!("{:?}", pids(&m)));
    (m, round)
}

#[test]
fn dropping_the_master_leaves_no_child() {
    for engine in ["proc:1", "proc:4", "proc:2*2", "proc:2,local:2"] {
        for in_a_round in [false, true] {
            let m = Master::connect(engine).unwrap();
            let workers = pids(&m);
            assert!(workers.iter().all(|pid| exists(*pid)));
            let tasks = DataSet::nothing(20).unwrap();
            let round = in_a_round.then(|| m.submit(busy, &60_000, &tasks).unwrap());
            let started = Instant::now();
            drop(m);
            assert!(started.elapsed() < Duration::from_secs(1), "{engine}: {:?}", started.elapsed());
            // Not even as an entry in the table of processes.
            assert!(workers.iter().all(|pid| !exists(*pid)), "{engine}: {workers:?}");
            drop(round);
        }
    }
}

#[test]
fn dropping_a_master_whose_workers_are_being_started_leaves_no_child() {
    let m = Master::connect("proc:4").unwrap();
    let mut seen = pids(&m);
    for pid in &seen {
        signal(*pid, Signal::KILL);
    }
    // New ones are on their way, in whichever hands.
    std::thread::sleep(Duration::from_millis(1));
    seen.extend(pids(&m));
    drop(m);
    let mine = std::process::id().to_string();
    let children = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let is_mine = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&mine)
        };
        pids.filter(is_mine).collect::<Vec<_>>()
    };
    // Other tests have children too; none of them is a zombie for long.
    let zombies = || {
        let is_zombie = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        children().into_iter().filter(is_zombie).collect::<Vec<_>>()
    };
    assert!(seen.iter().all(|pid| !exists(*pid)), "{seen:?}");
    let before = zombies();
    std::thread::sleep(Duration::from_millis(400));
    let after = zombies();
    assert!(!after.iter().any(|pid| before.contains(pid)), "{before:?} {after:?}");
}

#[test]
fn a_program_that_ends_in_the_middle_of_a_round_leaves_nobody() {
    for (name, code) in [
        ("returns", Some(0)),
        ("forgets", Some(0)),
        ("exits", Some(7)),
        ("panics", Some(101)),
        ("aborts", None),
    ] {
        let mut program = Program::start(name);
        assert!(program.hear().is_some(), "{name}: it is in a round");
        let started = Instant::now();
        let (_, status) = program.finish();
        assert!(started.elapsed() < Duration::from_secs(2), "{name}: {:?}", started.elapsed());
        assert_eq!(status.code(), code, "{name}");
        program.leaves_nothing_within(Duration::from_secs(5)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn a_killed_program_leaves_nobody_also_when_workers_are_stopped() {
    for stopped in 0..=3 {
        for how in [Signal::KILL, Signal::TERM] {
            let mut program = Program::start("waits");
            assert!(program.hear().is_some());
            let workers = program.others();
            assert_eq!(workers.len(), 3, "{workers:?}");
            for pid in workers.iter().take(stopped) {
                signal(*pid, Signal::STOP);
            }
            signal(program.pid(), how);
            program.finish();
            let left = program.leaves_nothing_within(Duration::from_secs(5));
            left.unwrap_or_else(|e| panic!("{how:?}, {stopped} stopped: {e}"));
        }
    }
}

#[test]
fn a_program_killed_while_it_starts_workers_leaves_nobody() {
    for n in 0..8 {
        let mut program = Program::start("starts");
        program.hear();
        std::thread::sleep(Duration::from_millis(3 * n));
        if n % 3 == 0 {
            for pid in program.executors() {
                signal(pid, Signal::STOP);
            }
        }
        signal(program.pid(), Signal::KILL);
        program.finish();
        let left = program.leaves_nothing_within(Duration::from_secs(5));
        left.unwrap_or_else(|e| panic!("killed after {} ms: {e}", 3 * n));
    }
}
