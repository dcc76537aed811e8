//! The same bits however many workers are killed, stopped and woken on the way.

use crate::program::{Program, say};
use crate::support::{Walk, bits, pids, rugged, serial, signal};
use qjam::journal::What;
use qjam::{DataSet, Dense, Master};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Slow enough to be hit in the middle.
#[qjam::map]
fn slow_sums(pause_us: &u64, x: &Dense<f64>) -> Vec<f64> {
    std::thread::sleep(Duration::from_micros(*pause_us));
    let mut sums = vec![0.0; 5_000];
    for (n, v) in x.as_slice().iter().enumerate() {
        sums[n % 5_000] += v * 0.3;
    }
    sums
}

fn matrix(salt: f64) -> DataSet<Dense<f64>> {
    let mut values = rugged(48_000);
    values[0] = salt;
    DataSet::dense(values, 8).unwrap().partitions(48).unwrap()
}

fn expected(x: &DataSet<Dense<f64>>) -> Vec<u8> {
    bits(&serial(slow_sums, &0, x, Walk { seed: 0, round: 0, chunk_bytes: 0 }))
}

#[test]
fn any_number_of_kills_leaves_the_bits_alone() {
    let pause_us = 4_000;
    for engine in ["proc:4", "proc:2*2", "proc:3,local:1"] {
        let m = Master::builder().on_log(|_| {}).connect(engine).unwrap();
        for kills in 0..=4 {
            // Fresh data each time, so that it must be sent to whoever is new.
            let x = matrix(f64::from(kills));
            let pending = m.submit(slow_sums, &pause_us, &x).unwrap();
            for victim in pids(&m).into_iter().take(kills as usize) {
                std::thread::sleep(Duration::from_millis(9));
                signal(victim, Signal::KILL);
            }
            let value = pending.wait().unwrap_or_else(|e| panic!("{engine}, {kills} kills: {e}"));
            assert!(bits(&value) == expected(&x), "{engine}, {kills} kills: other bits");
        }
    }
}

#[test]
fn twenty_rounds_with_a_death_in_each_have_the_bits_of_an_undisturbed_run() {
    let x = matrix(0.5);
    let expected = expected(&x);
    let m = Master::builder().on_log(|_| {}).connect("proc:4").unwrap();
    for n in 0..20_usize {
        let pending = m.submit(slow_sums, &1_000, &x).unwrap();
        std::thread::sleep(Duration::from_micros(n as u64 * 600));
        let now = pids(&m);
        signal(now[n % now.len()], Signal::KILL);
        let value = pending.wait().unwrap_or_else(|e| panic!("round {n}: {e}"));
        assert!(bits(&value) == expected, "round {n}: other bits");
    }
}

#[test]
fn threads_and_processes_take_over_from_each_other_in_several_rounds_at_once() {
    // Everything is overdue at once, so that whoever gets more has something to hand over first.
    let m = Master::builder()
        .deliver_after(Duration::from_millis(1))
        .on_log(|_| {})
        .connect("proc:3,local:2")
        .unwrap();
    for n in 0..8 {
        let sets: Vec<_> = (0..4).map(|k| matrix(f64::from(n * 10 + k))).collect();
        let rounds: Vec<_> = sets.iter().map(|x| m.submit(slow_sums, &2_000, x).unwrap()).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(13));
            for pid in pids(&m) {
                signal(pid, Signal::KILL);
            }
        }
        for (x, round) in sets.iter().zip(rounds) {
            let value = round.wait().unwrap_or_else(|e| panic!("{n}: {e}"));
            assert!(bits(&value) == expected(x), "{n}: other bits");
        }
    }
}

#[test]
fn a_loss_costs_the_bytes_that_the_dead_one_had() {
    // What the successor takes from others is another matter.
    let m = Master::builder().balance(false).on_log(|_| {}).connect("proc:4").unwrap();
    let x = DataSet::dense(rugged(40_000), 1).unwrap().partitions(2_000).unwrap();
    let sent = || m.last_round().unwrap().bytes_out;
    m.run(slow_sums, &0, &x).unwrap();
    let all = sent();
    m.run(slow_sums, &0, &x).unwrap();
    let none = sent();
    assert!(none < all / 20, "names and places are sent once: {all}, then {none}");
    let pending = m.submit(slow_sums, &200, &x).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    signal(pids(&m)[1], Signal::KILL);
    pending.wait().unwrap();
    let again = sent();
    assert!(again <= none + all / 4 + all / 10, "{again} after a loss, {all} at first");
}

/// What happens to stopped workers, and what must be in the journal afterwards.
struct Stop {
    workers: &'static str,
    /// How many are stopped.
    stopped: usize,
    /// When they are woken, if ever.
    woken_after: Option<Duration>,
    /// The round takes at most so long.
    limit: Duration,
    noted: fn(&What) -> bool,
}

fn check_stop(stop: &Stop) {
    let x = matrix(stop.stopped as f64);
    let m = Master::builder().on_log(|_| {}).connect(stop.workers).unwrap();
    let started = Instant::now();
    let pending = m.submit(slow_sums, &5_000, &x).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let stopped: Vec<u32> = pids(&m).into_iter().take(stop.stopped).collect();
    for pid in &stopped {
        signal(*pid, Signal::STOP);
    }
    let value = std::thread::scope(|scope| {
        if let Some(pause) = stop.woken_after {
            let stopped = &stopped;
            scope.spawn(move || {
                std::thread::sleep(pause);
                for pid in stopped {
                    signal(*pid, Signal::CONT);
                }
            });
        }
        pending.wait().unwrap_or_else(|e| panic!("{}: {e}", stop.workers))
    });
    let took = started.elapsed();
    assert!(bits(&value) == expected(&x), "{}: other bits", stop.workers);
    assert!(took < stop.limit, "{}: {took:?}", stop.workers);
    assert!(m.journal().iter().any(|e| (stop.noted)(&e.what)), "{}: {:?}", stop.workers, m.journal());
    // Whoever is stopped for good is not waited for.
    let again = m.run(slow_sums, &0, &x).unwrap();
    assert!(bits(&again) == expected(&x), "{}: other bits afterwards", stop.workers);
}

pub(crate) const PROGRAMS: &[(&str, fn())] = &[("is stopped", || {
    let x = matrix(3.0);
    let m = Master::connect("proc:2").unwrap();
    say("round");
    let value = m.run(slow_sums, &20_000, &x).unwrap();
    say(bits(&value) == expected(&x));
    say(m.journal().iter().any(|e| matches!(e.what, What::WorkerLost(..))));
})];

/// A master that is stopped for longer than it would wait for anybody finds its workers as it left them.
fn check_stopped_master() {
    let mut program = Program::start("is stopped");
    assert_eq!(program.hear().as_deref(), Some("round"));
    std::thread::sleep(Duration::from_millis(50));
    signal(program.pid(), Signal::STOP);
    std::thread::sleep(Duration::from_secs(16));
    signal(program.pid(), Signal::CONT);
    assert_eq!(program.hear().as_deref(), Some("true"), "the right bits");
    assert_eq!(program.hear().as_deref(), Some("false"), "nobody was lost");
}

#[test]
fn stopped_workers_are_suspected_woken_or_lost_and_the_bits_stay() {
    let seconds = Duration::from_secs;
    let stops = [
        // A short stop is nobody's business.
        Stop {
            workers: "proc:3",
            stopped: 2,
            woken_after: Some(seconds(2)),
            limit: seconds(9),
            noted: |what| matches!(what, What::RoundOver { finished: true, .. }),
        },
        // Suspected after ten seconds, when others take over its blocks.
        Stop {
            workers: "proc:4",
            stopped: 1,
            woken_after: None,
            limit: seconds(14),
            noted: |what| matches!(what, What::WorkerSuspected(_)),
        },
        // All are suspected, and come back before they are lost.
        Stop {
            workers: "proc:2",
            stopped: 2,
            woken_after: Some(seconds(12)),
            limit: seconds(15),
            noted: |what| matches!(what, What::WorkerReturned(_)),
        },
        // All stay stopped: lost after fifteen, and started again.
        Stop {
            workers: "proc:2*2",
            stopped: 2,
            woken_after: None,
            limit: seconds(20),
            noted: |what| matches!(what, What::WorkerLost(..)),
        },
    ];
    std::thread::scope(|scope| {
        scope.spawn(check_stopped_master);
        for stop in &stops {
            scope.spawn(move || check_stop(stop));
        }
    });
}
