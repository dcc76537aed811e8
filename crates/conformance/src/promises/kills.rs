//! The same bits however many workers are killed, stopped and woken on the way.

use crate::Engine;
use crate::program::{Program, Programs, say};
use crate::support::{Walk, bits, rugged, serial, signal, wait_until};
use qjam::journal::What;
use qjam::{DataSet, Dense, Master};
use rustix::process::Signal;
use std::time::Duration;

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

pub(crate) fn any_number_of_kills_leaves_the_bits_alone(e: &Engine) {
    let pause_us = 4_000;
    for engine in e.few() {
        let m = e.connect(e.quiet(), engine);
        for kills in 0..=4 {
            // Fresh data each time, so that it must be sent to whoever is new.
            let x = matrix(f64::from(kills));
            let pending = m.submit(slow_sums, &pause_us, &x).unwrap();
            for victim in e.pids(&m).into_iter().take(kills as usize) {
                std::thread::sleep(Duration::from_millis(9));
                signal(victim, Signal::KILL);
            }
            let value = pending.wait().unwrap_or_else(|e| panic!("{engine}, {kills} kills: {e}"));
            assert!(bits(&value) == expected(&x), "{engine}, {kills} kills: other bits");
        }
    }
}

pub(crate) fn twenty_rounds_with_a_death_in_each_have_the_bits_of_an_undisturbed_run(e: &Engine) {
    let x = matrix(0.5);
    let expected = expected(&x);
    let m = e.master(4);
    for n in 0..20_usize {
        let pending = m.submit(slow_sums, &1_000, &x).unwrap();
        std::thread::sleep(Duration::from_micros(n as u64 * 600));
        if let Some(pid) = e.pids(&m).get(n % 4) {
            signal(*pid, Signal::KILL);
        }
        let value = pending.wait().unwrap_or_else(|e| panic!("round {n}: {e}"));
        assert!(bits(&value) == expected, "round {n}: other bits");
    }
}

pub(crate) fn workers_take_over_from_each_other_in_several_rounds_at_once(e: &Engine) {
    // Everything is overdue at once, so that whoever gets more has something to hand over first.
    let m = e.connect(e.quiet().deliver_after(Duration::from_millis(1)), &e.of(5));
    for n in 0..8 {
        let sets: Vec<_> = (0..4).map(|k| matrix(f64::from(n * 10 + k))).collect();
        let rounds: Vec<_> = sets.iter().map(|x| m.submit(slow_sums, &2_000, x).unwrap()).collect();
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(13));
            for pid in e.pids(&m) {
                signal(pid, Signal::KILL);
            }
        }
        for (x, round) in sets.iter().zip(rounds) {
            let value = round.wait().unwrap_or_else(|e| panic!("{n}: {e}"));
            assert!(bits(&value) == expected(x), "{n}: other bits");
        }
    }
}

pub(crate) fn a_loss_costs_the_bytes_that_the_dead_one_had(e: &Engine) {
    // What the successor takes from others is another matter.
    let m = e.connect(e.quiet().balance(false), &e.of(4));
    let x = DataSet::dense(rugged(40_000), 1).unwrap().partitions(2_000).unwrap();
    let sent = || m.last_round().unwrap().bytes_out;
    m.run(slow_sums, &0, &x).unwrap();
    let all = sent();
    m.run(slow_sums, &0, &x).unwrap();
    let none = sent();
    assert!(none < all / 20, "names and places are sent once: {all}, then {none}");
    let pending = m.submit(slow_sums, &200, &x).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    signal(e.pids(&m)[1], Signal::KILL);
    pending.wait().unwrap();
    let again = sent();
    assert!(again <= none + all / 4 + all / 10, "{again} after a loss, {all} at first");
}

/// What happens to stopped workers, and what must be in the journal afterwards.
struct Stop {
    workers: usize,
    /// How many are stopped.
    stopped: usize,
    /// They are woken when this has been noted for as many, if ever.
    woken_when: Option<fn(&What) -> bool>,
    /// What the journal must have in the end.
    noted: fn(&What) -> bool,
}

fn check_stop(e: &Engine, stop: &Stop) {
    let x = matrix(stop.stopped as f64);
    let m = e.master(stop.workers);
    let pending = m.submit(slow_sums, &5_000, &x).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let stopped: Vec<u32> = e.pids(&m).into_iter().take(stop.stopped).collect();
    for pid in &stopped {
        signal(*pid, Signal::STOP);
    }
    let value = std::thread::scope(|scope| {
        if let Some(happened) = stop.woken_when {
            let (stopped, m) = (&stopped, &m);
            scope.spawn(move || {
                let count = || m.journal().iter().filter(|entry| happened(&entry.what)).count();
                wait_until("what is to wake them", || count() >= stopped.len());
                for pid in stopped {
                    signal(*pid, Signal::CONT);
                }
            });
        }
        pending.wait().unwrap_or_else(|e| panic!("{}: {e}", stop.workers))
    });
    assert!(bits(&value) == expected(&x), "{}: other bits", stop.workers);
    assert!(m.journal().iter().any(|e| (stop.noted)(&e.what)), "{}: {:?}", stop.workers, m.journal());
    // Whoever is stopped for good is not waited for.
    let again = m.run(slow_sums, &0, &x).unwrap();
    assert!(bits(&again) == expected(&x), "{}: other bits afterwards", stop.workers);
}

pub(crate) const PROGRAMS: Programs = &[("is stopped", |workers| {
    let x = matrix(3.0);
    let m = Master::connect(workers).unwrap();
    say("round");
    let value = m.run(slow_sums, &20_000, &x).unwrap();
    say(bits(&value) == expected(&x));
    say(m.journal().iter().any(|e| matches!(e.what, What::WorkerLost(..))));
})];

/// A master that is stopped for longer than it would wait for anybody finds its workers as it left them.
fn check_stopped_master(e: &Engine) {
    let mut program = Program::start("is stopped", &e.of(2));
    assert_eq!(program.hear().as_deref(), Some("round"));
    std::thread::sleep(Duration::from_millis(50));
    signal(program.pid(), Signal::STOP);
    std::thread::sleep(Duration::from_secs(16));
    signal(program.pid(), Signal::CONT);
    assert_eq!(program.hear().as_deref(), Some("true"), "the right bits");
    assert_eq!(program.hear().as_deref(), Some("false"), "nobody was lost");
}

pub(crate) fn stopped_workers_are_suspected_woken_or_lost_and_the_bits_stay(e: &Engine) {
    let stops = [
        // A short stop is nobody's business.
        Stop {
            workers: 3,
            stopped: 2,
            woken_when: Some(|what| matches!(what, What::WorkerJoined(_))),
            noted: |what| matches!(what, What::RoundOver { finished: true, .. }),
        },
        // Suspected after a while, when others take over its blocks.
        Stop {
            workers: 4,
            stopped: 1,
            woken_when: None,
            noted: |what| matches!(what, What::WorkerSuspected(_)),
        },
        // All are suspected, and come back before they are lost.
        Stop {
            workers: 2,
            stopped: 2,
            woken_when: Some(|what| matches!(what, What::WorkerSuspected(_))),
            noted: |what| matches!(what, What::WorkerReturned(_)),
        },
        // All stay stopped: lost, and started again.
        Stop { workers: 2, stopped: 2, woken_when: None, noted: |what| matches!(what, What::WorkerLost(..)) },
    ];
    std::thread::scope(|scope| {
        scope.spawn(|| check_stopped_master(e));
        for stop in &stops {
            scope.spawn(move || check_stop(e, stop));
        }
    });
}
