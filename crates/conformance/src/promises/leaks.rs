//! What is no longer used is given back: files, mappings, memory.

use crate::program::{Program, Programs, say};
use crate::support::{Folder, Gate, pids, rugged, signal, within};
use crate::{Engine, HANG};
use qjam::{Ctx, DataSet, Dense, Master, Nothing};
use std::time::Duration;

#[qjam::map]
fn total(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

#[qjam::map]
fn one(_: &(), _: &Nothing) -> u64 {
    1
}

/// Longer than what travels in a frame, both ways.
#[qjam::map]
fn wide(params: &[f64], _: &Nothing) -> Vec<f64> {
    params.to_vec()
}

/// How many results a worker may be ahead of the master.
const AHEAD_MAX: usize = 16;
const DELIVERIES: usize = 400;

/// A result as long as its parameters, made when the master has taken almost all of those before it. How many it has taken is
/// in a file. Two workers begin, at the first chunk and in the middle.
#[qjam::map]
fn paced_and_wide(params: &(String, Vec<f64>), _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    let before = 2 * (ctx.chunk() as usize % (DELIVERIES / 2));
    // Without the file nobody is left to write it.
    while let Ok(text) = std::fs::read_to_string(&params.0) {
        if text.parse().is_ok_and(|taken: usize| before <= taken + AHEAD_MAX) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    params.1.clone()
}

/// Long parameters and results of a round that stays until the gate is open.
#[qjam::map]
fn gated(params: &(String, Vec<f64>), _: &Nothing, ctx: &Ctx) -> Vec<f64> {
    Gate::pass(&params.0, ctx.chunk());
    params.1.clone()
}

/// Open files and mapped areas of a process and its workers, the largest of them.
fn held(m: &Master) -> (usize, usize) {
    let processes = pids(m).into_iter().chain([std::process::id()]);
    let count = |pid: u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let areas = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_or(0, |m| m.lines().count());
        (files, areas)
    };
    let all: Vec<_> = processes.map(count).collect();
    (all.iter().map(|c| c.0).max().unwrap_or(0), all.iter().map(|c| c.1).max().unwrap_or(0))
}

/// Does something often, and says what is held before and after.
fn watch(engine: &str, warm_up: usize, times: usize, something: impl FnMut(&Master, usize)) {
    let m = Master::builder().on_log(|_| {}).connect(engine).unwrap();
    watch_of(engine, &m, warm_up, times, something);
}

fn watch_of(
    engine: &str,
    m: &Master,
    warm_up: usize,
    times: usize,
    mut something: impl FnMut(&Master, usize),
) {
    (0..warm_up).for_each(|n| something(m, n));
    let before = held(m);
    (warm_up..warm_up + times).for_each(|n| something(m, n));
    // Whoever has been told to let go of something may not have come to it.
    within(HANG, || is_no_more(before, held(m)));
    let after = held(m);
    say(format!("{engine} {} {} {} {}", before.0, after.0, before.1, after.1));
}

/// Leaks grow with the number of times; a handful is a matter of timing.
fn is_no_more(before: (usize, usize), after: (usize, usize)) -> bool {
    after.0 <= before.0 + 8 && after.1 <= before.1 + 24
}

pub(crate) const PROGRAMS: Programs = &[
    ("data sets", |engine| {
        let mut values = rugged(20_000);
        watch(engine, 10, 150, |m, n| {
            values[0] = n as f64;
            let x = DataSet::dense(values.clone(), 10).unwrap();
            m.run(total, &(), &x).unwrap();
            m.run(total, &(), &x.partitions(3).unwrap()).unwrap();
        });
    }),
    ("tiny rounds", |engine| {
        let tasks = DataSet::nothing(4).unwrap();
        watch(engine, 100, 3_000, |m, _| assert_eq!(m.run(one, &(), &tasks).unwrap(), 4));
    }),
    ("wide rounds", |engine| {
        let tasks = DataSet::nothing(4).unwrap();
        watch(engine, 10, 150, |m, n| {
            let params = vec![1.0; 10_000 + n];
            let both = [m.submit(wide, &params, &tasks).unwrap(), m.submit(wide, &params, &tasks).unwrap()];
            for round in both {
                assert_eq!(round.wait().unwrap()[0], 4.0);
            }
        });
    }),
    ("rounds at once", |engine| {
        let tasks = DataSet::nothing(4).unwrap();
        // Every round on all slots, also where fewer could be chosen: what workers may use again, they are told with a task.
        let m = Master::builder().on_log(|_| {}).fixed_slots(2).connect(engine).unwrap();
        // A few at first, then many.
        watch_of(engine, &m, 1, 2, |m, n| {
            let gate = Gate::new();
            let params = (gate.path(), vec![1.0; 10_000]);
            let rounds: Vec<_> =
                (0..if n == 0 { 8 } else { 60 }).map(|_| m.submit(gated, &params, &tasks).unwrap()).collect();
            gate.wait_for(1);
            gate.open();
            for (n, round) in rounds.into_iter().enumerate() {
                match n % 2 {
                    0 => assert_eq!(round.wait().unwrap()[0], 4.0),
                    _ => round.cancel(),
                }
            }
            assert_eq!(m.submit(one, &(), &tasks).unwrap().wait().unwrap(), 4);
        });
    }),
    ("deliveries", |engine| {
        let folder = Folder::new();
        let (taken, draft) = (folder.file("taken"), folder.file("draft"));
        let tell = |count: usize| {
            std::fs::write(&draft, count.to_string()).unwrap();
            std::fs::rename(&draft, &taken).unwrap();
        };
        tell(0);
        let builder = Master::builder().deliver_after(Duration::ZERO).blocks_per_slot(1_000).balance(false);
        let m = builder.connect(engine).unwrap();
        let before = held(&m);
        let params = (taken.to_string_lossy().into_owned(), vec![1.0; 10_000]);
        let pending = m.submit(paced_and_wide, &params, &DataSet::nothing(DELIVERIES).unwrap()).unwrap();
        while !pending.is_done() {
            let awaited = pending.waiting_for();
            let numbers = awaited.split('(').filter_map(|part| part.split(' ').next()?.parse::<usize>().ok());
            tell(DELIVERIES - numbers.sum::<usize>());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pending.wait().unwrap()[0], DELIVERIES as f64);
        let after = held(&m);
        // A few arenas serve all four hundred results.
        say(format!("{engine} {} {} {} {}", before.0 + 30, after.0, before.1 + 30, after.1));
    }),
    ("cancelled rounds", |engine| {
        let tasks = DataSet::nothing(40).unwrap();
        watch(engine, 10, 100, |m, n| {
            let params = vec![1.0; 10_000];
            let round = m.submit(wide, &params, &tasks).unwrap();
            std::thread::sleep(Duration::from_micros(n as u64 * 7));
            round.cancel();
            // Whoever does this has let go of the other.
            assert_eq!(m.run(one, &(), &tasks).unwrap(), 40);
        });
    }),
    ("deaths", |engine| {
        let tasks = DataSet::nothing(4).unwrap();
        watch(engine, 2, 30, |m, _| {
            m.run(wide, &vec![1.0; 10_000], &tasks).unwrap();
            for pid in pids(m) {
                signal(pid, rustix::process::Signal::KILL);
            }
            assert_eq!(m.run(wide, &vec![1.0; 10_000], &tasks).unwrap()[0], 4.0);
        });
    }),
    ("masters", |engine| {
        let mut m = Master::connect(engine).unwrap();
        let tasks = DataSet::nothing(4).unwrap();
        let mut again = |times| {
            for _ in 0..times {
                m = Master::connect(engine).unwrap();
                m.run(one, &(), &tasks).unwrap();
            }
            held(&m)
        };
        let (before, after) = (again(5), again(40));
        say(format!("{engine} {} {} {} {}", before.0, after.0, before.1, after.1));
    }),
];

fn check(e: &Engine, name: &str) {
    let mut program = Program::start(name, &e.of(2));
    let (said, status) = program.finish();
    assert!(status.success() && !said.is_empty(), "{name}: {status} {said:?}");
    for line in said {
        let numbers: Vec<usize> = line.split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
        let [files_before, files_after, areas_before, areas_after] = numbers[..] else { panic!("{line}") };
        let is_well = is_no_more((files_before, areas_before), (files_after, areas_after));
        assert!(is_well, "{name}: open files and mapped areas on {line}");
    }
}

pub(crate) fn data_sets_that_are_gone_are_given_back(e: &Engine) {
    check(e, "data sets");
}

pub(crate) fn thousands_of_rounds_hold_no_more_than_a_hundred(e: &Engine) {
    check(e, "tiny rounds");
}

pub(crate) fn shared_memory_is_used_again(e: &Engine) {
    check(e, "wide rounds");
}

pub(crate) fn many_rounds_at_once_leave_as_little_as_one(e: &Engine) {
    check(e, "rounds at once");
}

pub(crate) fn early_deliveries_share_a_few_arenas(e: &Engine) {
    check(e, "deliveries");
}

pub(crate) fn cancelled_rounds_give_everything_back(e: &Engine) {
    check(e, "cancelled rounds");
}

pub(crate) fn deaths_give_everything_back(e: &Engine) {
    check(e, "deaths");
}

pub(crate) fn masters_that_are_gone_are_given_back(e: &Engine) {
    check(e, "masters");
}
