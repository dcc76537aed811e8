//! The same bits however many workers are killed, stopped and woken on the way.

use crate::Engine;
use crate::program::{Program, Programs, say};
use crate::support::{Gate, Walk, bits, losses, noted, rugged, serial, signal, unhurried, wait_until};
use qjam::journal::What;
use qjam::{Ctx, DataSet, Dense, Master};
use qjam_core::scheduler::Config;
use rustix::process::Signal;
use std::time::Duration;

/// Waits at a gate, and then so many microseconds.
type Delay = (String, u64);

fn pause(us: u64) -> Delay {
    (String::new(), us)
}

fn at(gate: &Gate) -> Delay {
    (gate.path(), 0)
}

#[qjam::map]
fn slow_sums(delay: &Delay, x: &Dense<f64>, ctx: &Ctx) -> Vec<f64> {
    Gate::pass(&delay.0, ctx.chunk());
    std::thread::sleep(Duration::from_micros(delay.1));
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
    bits(&serial(slow_sums, &pause(0), x, Walk { seed: 0, round: 0, chunk_bytes: 0 }))
}

/// Every slot of a master's workers.
fn slots(m: &Master) -> usize {
    m.workers().iter().map(|worker| worker.slots as usize).sum()
}

pub(crate) fn any_number_of_kills_leaves_the_bits_alone(e: &Engine) {
    for engine in e.few() {
        let m = e.connect(e.quiet(), engine);
        for kills in 0..=4 {
            // Fresh data each time, so that it must be sent to whoever is new.
            let (x, gate) = (matrix(kills as f64), Gate::new());
            let victims: Vec<u32> = e.pids(&m).into_iter().take(kills).collect();
            let pending = m.submit(slow_sums, &at(&gate), &x).unwrap();
            // Each dies inside blocks of its own: a block in which three had died would be held to be the cause.
            gate.wait_for(slots(&m));
            let before = losses(&m);
            for (n, victim) in victims.iter().enumerate() {
                signal(*victim, Signal::KILL);
                wait_until("that the loss is noted", || losses(&m) == before + n + 1);
            }
            gate.open();
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
        let pending = m.submit(slow_sums, &pause(1_000), &x).unwrap();
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
        let rounds: Vec<_> = sets.iter().map(|x| m.submit(slow_sums, &pause(2_000), x).unwrap()).collect();
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
    m.run(slow_sums, &pause(0), &x).unwrap();
    let all = sent();
    m.run(slow_sums, &pause(0), &x).unwrap();
    let none = sent();
    assert!(none < all / 20, "names and places are sent once: {all}, then {none}");
    let gate = Gate::new();
    let pending = m.submit(slow_sums, &at(&gate), &x).unwrap();
    gate.wait_for(4);
    signal(e.pids(&m)[1], Signal::KILL);
    wait_until("that the loss is noted", || losses(&m) == 1);
    gate.open();
    pending.wait().unwrap();
    let again = sent();
    assert!(again > 2 * none, "{again} after a loss, {none} without: nothing was sent again");
    assert!(again <= none + all / 4 + all / 10, "{again} after a loss, {all} at first");
}

/// What happens to stopped workers, and what must be in the journal afterwards.
struct Stop {
    workers: usize,
    /// How many are stopped.
    stopped: usize,
    /// They are woken when this has been noted for as many, if ever.
    woken_when: Option<fn(&What) -> bool>,
    deadlines: Config,
    /// What the journal must have in the end.
    noted: fn(&What) -> bool,
}

fn check_stop(e: &Engine, stop: &Stop) {
    let (x, gate) = (matrix(stop.stopped as f64), Gate::new());
    let m = e.connect(e.quiet().deadlines(stop.deadlines), &e.of(stop.workers));
    let stopped: Vec<u32> = e.pids(&m).into_iter().take(stop.stopped).collect();
    let pending = m.submit(slow_sums, &at(&gate), &x).unwrap();
    // All have begun and none has delivered: without those who are stopped the round has no value.
    gate.wait_for(slots(&m));
    for pid in &stopped {
        signal(*pid, Signal::STOP);
    }
    gate.open();
    let value = std::thread::scope(|scope| {
        if let Some(happened) = stop.woken_when {
            let (stopped, m) = (&stopped, &m);
            scope.spawn(move || {
                wait_until("what is to wake them", || noted(m, happened) >= stopped.len());
                for pid in stopped {
                    signal(*pid, Signal::CONT);
                }
            });
        }
        pending.wait().unwrap_or_else(|e| panic!("{}: {e}", stop.workers))
    });
    assert!(bits(&value) == expected(&x), "{}: other bits", stop.workers);
    assert!(noted(&m, stop.noted) > 0, "{}: {:?}", stop.workers, m.journal());
    // Whoever is stopped for good is not waited for.
    let again = m.run(slow_sums, &pause(0), &x).unwrap();
    assert!(bits(&again) == expected(&x), "{}: other bits afterwards", stop.workers);
}

pub(crate) const PROGRAMS: Programs = &[("is stopped", |argument| {
    let (workers, gate) = argument.split_once(' ').unwrap();
    let x = matrix(3.0);
    let m = Master::connect(workers).unwrap();
    let value = m.run(slow_sums, &(gate.to_owned(), 0), &x).unwrap();
    say(bits(&value) == expected(&x));
    say(losses(&m));
})];

/// A master that is stopped for longer than it would wait for anybody finds its workers as it left them.
fn check_stopped_master(e: &Engine) {
    let gate = Gate::new();
    let mut program = Program::start("is stopped", &format!("{} {}", e.of(2), gate.path()));
    gate.wait_for(2);
    signal(program.pid(), Signal::STOP);
    // Longer than it would wait for anybody: this is the time that is to pass.
    std::thread::sleep(Duration::from_secs(16));
    signal(program.pid(), Signal::CONT);
    gate.open();
    assert_eq!(program.hear().as_deref(), Some("true"), "the right bits");
    assert_eq!(program.hear().as_deref(), Some("0"), "nobody was lost");
}

pub(crate) fn stopped_workers_are_suspected_woken_or_lost_and_the_bits_stay(e: &Engine) {
    let stops = [
        // A short stop is nobody's business.
        Stop {
            workers: 3,
            stopped: 2,
            woken_when: Some(|what| matches!(what, What::WorkerJoined(_))),
            deadlines: Config::default(),
            noted: |what| matches!(what, What::RoundOver { finished: true, .. }),
        },
        // Suspected after a while, when others take over its blocks.
        Stop {
            workers: 4,
            stopped: 1,
            woken_when: None,
            deadlines: Config::default(),
            noted: |what| matches!(what, What::WorkerSuspected(_)),
        },
        // All are suspected, and come back before they are lost.
        Stop {
            workers: 2,
            stopped: 2,
            woken_when: Some(|what| matches!(what, What::WorkerSuspected(_))),
            deadlines: unhurried(),
            noted: |what| matches!(what, What::WorkerReturned(_)),
        },
        // All stay stopped: lost, and started again.
        Stop {
            workers: 2,
            stopped: 2,
            woken_when: None,
            deadlines: Config::default(),
            noted: |what| matches!(what, What::WorkerLost(..)),
        },
    ];
    std::thread::scope(|scope| {
        scope.spawn(|| check_stopped_master(e));
        for stop in &stops {
            scope.spawn(move || check_stop(e, stop));
        }
    });
}
