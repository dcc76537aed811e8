//! Real processes, killed and stopped at random moments.
//!
//! One *run* is a program of its own (this executable, started again): a master with a few executors that goes through
//! rounds with every phase long enough to be hit ([`victim`]). From outside, an [`attack`] kills or stops random sets
//! of its processes, or the master itself. Whatever happens, the run must end within [`run::LIMIT`] with the right bits
//! or one typed error, and nothing may be left of it: no process, no file but that of the run, which says what it
//! should, and never a listening socket. Where each kill fell is counted in a [`table`].
//!
//! Twenty runs are part of the usual tests. `QJAM_CHAOS_RUNS` asks for another number, and the ignored test does two
//! hundred and goes on until every state has been hit at least ten times. `QJAM_CHAOS_SEED` draws other attacks.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it, and the table is its purpose"
)]

qjam_conformance::hook!(victim::PROGRAMS);

mod attack;
mod family;
mod run;
mod table;
mod victim;

use attack::Aim;
use run::RunResult;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use table::Table;

/// Runs at once: their phases are sleep, so several share a core.
const AT_ONCE: usize = 5;

#[test]
fn whatever_is_killed_or_stopped_the_bits_are_right_or_one_error_tells_why() {
    let runs = std::env::var("QJAM_CHAOS_RUNS").ok().map_or(20, |n| n.parse().expect("a number of runs"));
    let table = many(0..runs, Aim::Anything);
    println!("{table}");
}

#[test]
#[ignore = "two hundred runs take minutes"]
fn two_hundred_runs_hit_every_state_ten_times() {
    let mut table = many(0..200, Aim::Anything);
    println!("{table}");
    let mut next = 200;
    while let Some(aim) = table.least_hit(10).filter(|_| next < 500) {
        println!("{aim:?} was hit too seldom; ten more runs aim at it");
        table.add_all(many(next..next + 10, aim));
        next += 10;
    }
    println!("{table}");
    assert!(table.least_hit(10).is_none(), "a state was hit less than ten times");
}

/// Does these runs, several at once, and reports all that went wrong.
fn many(runs: std::ops::Range<u64>, aim: Aim) -> Table {
    let seed = std::env::var("QJAM_CHAOS_SEED").ok().map_or(1, |n| n.parse().expect("a seed"));
    let next = AtomicU64::new(runs.start);
    let done: Mutex<BTreeMap<u64, RunResult>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Relaxed);
                    if run >= runs.end {
                        return;
                    }
                    let outcome = run::run(seed, run, aim);
                    done.lock().unwrap().insert(run, outcome);
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    let wrong: Vec<String> = done
        .iter()
        .filter_map(|(run, outcome)| Some(format!("run {run} of seed {seed}: {}", outcome.wrong.as_ref()?)))
        .collect();
    let table = Table::of(done.into_values());
    assert!(
        wrong.is_empty(),
        "{table}\n{} of {} runs went wrong:\n{}",
        wrong.len(),
        runs.end - runs.start,
        wrong.join("\n")
    );
    table
}
