//! However a program ends, nobody of it is left.

use crate::Engine;
use crate::program::{Program, Programs, say};
use crate::support::{exists, pids, signal, wait_until};
use qjam::{Ctx, DataSet, Master, Nothing};
use rustix::process::Signal;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Says that it has begun, and takes long.
#[qjam::map]
fn busy(ms: &u64, _: &Nothing, ctx: &Ctx) -> u64 {
    eprintln!("begun");
    std::thread::sleep(Duration::from_millis(*ms));
    u64::from(ctx.chunk())
}

pub(crate) const PROGRAMS: Programs = &[
    ("returns", |workers| {
        let (m, round) = in_a_round(workers);
        drop((round, m));
        say("dropped");
    }),
    ("forgets", |workers| {
        let (m, round) = in_a_round(workers);
        std::mem::forget((m, round));
    }),
    ("exits", |workers| {
        let _here = in_a_round(workers);
        std::process::exit(7);
    }),
    ("panics", |workers| {
        let _here = in_a_round(workers);
        panic!("an error that nobody expected");
    }),
    ("aborts", |workers| {
        let _here = in_a_round(workers);
        std::process::abort();
    }),
    ("waits", |workers| {
        let (_m, round) = in_a_round(workers);
        let _ = round.wait();
    }),
    ("starts", |workers| {
        // Killed somewhere in here: while workers are being started, over and over.
        say("starting");
        loop {
            drop(Master::connect(workers));
        }
    }),
];

fn in_a_round(workers: &str) -> (Master, qjam::Pending<u64>) {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    let count = |line: &qjam::LogLine| {
        BEGUN.fetch_add(u32::from(line.text == "begun"), Relaxed);
    };
    let m = Master::builder().on_log(count).connect(workers).unwrap();
    // A round before, so that all of the machinery has been in use.
    m.run(busy, &0, &DataSet::nothing(30).unwrap()).unwrap();
    let round = m.submit(busy, &600_000, &DataSet::nothing(30).unwrap()).unwrap();
    wait_until("that all are inside", || BEGUN.load(Relaxed) >= 33);
    say(format!("{:?}", pids(&m)));
    (m, round)
}

pub(crate) fn dropping_the_master_leaves_no_child(e: &Engine) {
    for engine in e.shapes() {
        for in_a_round in [false, true] {
            let m = e.connect(Master::builder(), engine);
            let workers = e.pids(&m);
            assert!(workers.iter().all(|pid| exists(*pid)));
            let tasks = DataSet::nothing(20).unwrap();
            let round = in_a_round.then(|| m.submit(busy, &600_000, &tasks).unwrap());
            drop(m);
            // Not even as an entry in the table of processes.
            assert!(workers.iter().all(|pid| !exists(*pid)), "{engine}: {workers:?}");
            drop(round);
        }
    }
}

pub(crate) fn dropping_a_master_whose_workers_are_being_started_leaves_no_child(e: &Engine) {
    let m = e.master(4);
    let mut seen = e.pids(&m);
    for pid in &seen {
        signal(*pid, Signal::KILL);
    }
    // New ones are on their way, in whichever hands.
    std::thread::sleep(Duration::from_millis(1));
    seen.extend(e.pids(&m));
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
    // Other tests have children too; none of them stays a zombie.
    let zombies = || {
        let is_zombie = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains(") Z ")
        };
        children().into_iter().filter(is_zombie).collect::<Vec<_>>()
    };
    assert!(seen.iter().all(|pid| !exists(*pid)), "{seen:?}");
    let before = zombies();
    wait_until("the end of zombies", || !zombies().iter().any(|pid| before.contains(pid)));
}

pub(crate) fn a_program_that_ends_in_the_middle_of_a_round_leaves_nobody(e: &Engine) {
    for (name, code) in [
        ("returns", Some(0)),
        ("forgets", Some(0)),
        ("exits", Some(7)),
        ("panics", Some(101)),
        ("aborts", None),
    ] {
        let mut program = Program::start(name, &e.of(3));
        assert!(program.hear().is_some(), "{name}: it is in a round");
        let (_, status) = program.finish();
        assert_eq!(status.code(), code, "{name}");
        program.leaves_nothing(name);
    }
}

pub(crate) fn a_killed_program_leaves_nobody_also_when_workers_are_stopped(e: &Engine) {
    for stopped in 0..=3 {
        for how in [Signal::KILL, Signal::TERM] {
            let mut program = Program::start("waits", &e.of(3));
            assert!(program.hear().is_some());
            let workers = program.others();
            assert_eq!(workers.len(), 3, "{workers:?}");
            for pid in workers.iter().take(stopped) {
                signal(*pid, Signal::STOP);
            }
            signal(program.pid(), how);
            program.finish();
            program.leaves_nothing(&format!("{how:?}, {stopped} stopped"));
        }
    }
}

pub(crate) fn a_program_killed_while_it_starts_workers_leaves_nobody(e: &Engine) {
    for n in 0..8 {
        let mut program = Program::start("starts", &e.of(4));
        program.hear();
        std::thread::sleep(Duration::from_millis(3 * n));
        if n % 3 == 0 {
            for pid in program.executors() {
                signal(pid, Signal::STOP);
            }
        }
        signal(program.pid(), Signal::KILL);
        program.finish();
        program.leaves_nothing(&format!("killed after {} ms", 3 * n));
    }
}
