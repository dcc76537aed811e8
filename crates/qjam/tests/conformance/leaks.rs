//! What is no longer used is given back: files, mappings, memory.

use crate::program::{Program, say};
use crate::support::{pids, rugged};
use qjam::{DataSet, Dense, Master, Nothing};
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

/// Slow enough that the master keeps up.
#[qjam::map]
fn slow_and_wide(params: &[f64], _: &Nothing) -> Vec<f64> {
    std::thread::sleep(Duration::from_millis(4));
    params.to_vec()
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
fn watch(engine: &str, warm_up: usize, times: usize, mut something: impl FnMut(&Master, usize)) {
    let m = Master::builder().on_log(|_| {}).connect(engine).unwrap();
    (0..warm_up).for_each(|n| something(&m, n));
    let before = held(&m);
    (warm_up..warm_up + times).for_each(|n| something(&m, n));
    let after = held(&m);
    say(format!("{engine} {} {} {} {}", before.0, after.0, before.1, after.1));
}

const ENGINES: [&str; 4] = ["proc:2", "proc:1*2", "local:2", "proc:1,local:1"];

pub(crate) const PROGRAMS: &[(&str, fn())] = &[
    ("data sets", || {
        let mut values = rugged(20_000);
        for engine in ENGINES {
            watch(engine, 10, 150, |m, n| {
                values[0] = n as f64;
                let x = DataSet::dense(values.clone(), 10).unwrap();
                m.run(total, &(), &x).unwrap();
                m.run(total, &(), &x.partitions(3).unwrap()).unwrap();
            });
        }
    }),
    ("tiny rounds", || {
        let tasks = DataSet::nothing(4).unwrap();
        for (engine, times) in ENGINES.into_iter().zip([10_000, 1_000, 1_000, 1_000]) {
            watch(engine, 100, times, |m, _| assert_eq!(m.run(one, &(), &tasks).unwrap(), 4));
        }
    }),
    ("wide rounds", || {
        let tasks = DataSet::nothing(4).unwrap();
        for engine in ENGINES {
            watch(engine, 10, 150, |m, n| {
                let params = vec![1.0; 10_000 + n];
                let both =
                    [m.submit(wide, &params, &tasks).unwrap(), m.submit(wide, &params, &tasks).unwrap()];
                for round in both {
                    assert_eq!(round.wait().unwrap()[0], 4.0);
                }
            });
        }
    }),
    ("deliveries", || {
        let m =
            Master::builder().deliver_after(Duration::ZERO).blocks_per_slot(1_000).connect("proc:2").unwrap();
        let before = held(&m);
        m.run(slow_and_wide, &vec![1.0; 10_000], &DataSet::nothing(400).unwrap()).unwrap();
        let after = held(&m);
        // A few arenas serve all four hundred results.
        say(format!("proc:2 {} {} {} {}", before.0 + 30, after.0, before.1 + 30, after.1));
    }),
    ("cancelled rounds", || {
        let tasks = DataSet::nothing(40).unwrap();
        for engine in ENGINES {
            watch(engine, 10, 100, |m, n| {
                let params = vec![1.0; 10_000];
                let round = m.submit(wide, &params, &tasks).unwrap();
                std::thread::sleep(Duration::from_micros(n as u64 * 7));
                round.cancel();
                // Whoever does this has let go of the other.
                assert_eq!(m.run(one, &(), &tasks).unwrap(), 40);
            });
        }
    }),
    ("deaths", || {
        let tasks = DataSet::nothing(4).unwrap();
        watch("proc:2", 2, 30, |m, _| {
            m.run(wide, &vec![1.0; 10_000], &tasks).unwrap();
            for pid in pids(m) {
                crate::support::signal(pid, rustix::process::Signal::KILL);
            }
            assert_eq!(m.run(wide, &vec![1.0; 10_000], &tasks).unwrap()[0], 4.0);
        });
    }),
    ("masters", || {
        let mut m = Master::connect("proc:2").unwrap();
        let tasks = DataSet::nothing(4).unwrap();
        let mut again = |times| {
            for _ in 0..times {
                m = Master::connect("proc:2,local:2").unwrap();
                m.run(one, &(), &tasks).unwrap();
            }
            held(&m)
        };
        let (before, after) = (again(5), again(40));
        say(format!("masters {} {} {} {}", before.0, after.0, before.1, after.1));
    }),
];

fn check(name: &str) {
    let mut program = Program::start(name);
    let (said, status) = program.finish();
    assert!(status.success() && !said.is_empty(), "{name}: {status} {said:?}");
    for line in said {
        let numbers: Vec<usize> = line.split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
        let [files_before, files_after, areas_before, areas_after] = numbers[..] else { panic!("{line}") };
        // Leaks grow with the number of times; a handful is a matter of timing.
        assert!(files_after <= files_before + 8, "{name}: open files on {line}");
        assert!(areas_after <= areas_before + 24, "{name}: mapped areas on {line}");
    }
}

#[test]
fn data_sets_that_are_gone_are_given_back() {
    check("data sets");
}

#[test]
fn ten_thousand_rounds_hold_no_more_than_a_hundred() {
    check("tiny rounds");
}

#[test]
fn shared_memory_is_used_again() {
    check("wide rounds");
    check("deliveries");
}

#[test]
fn cancelled_rounds_and_deaths_give_everything_back() {
    check("cancelled rounds");
    check("deaths");
}

#[test]
fn masters_that_are_gone_are_given_back() {
    check("masters");
}
