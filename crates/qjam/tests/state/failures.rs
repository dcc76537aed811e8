//! What fails changes nothing, and is told.

use crate::counting::{Mischief, Tally, add, after, after_one, connect, data, plain, with};
use qjam::job::FaultKind;
use qjam::journal::What;
use qjam::{Ctx, Decoder, Dense, Encoder, Error, Held, Master, State, Wire};
use qjam_conformance::support::{Gate, unhurried, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const ENGINES: [&str; 3] = ["local:2", "proc:2", "proc:1*3"];

#[test]
fn a_round_that_failed_has_changed_nothing() {
    for engine in ENGINES {
        let m = connect(engine);
        let mut held = m.hold::<Tally>(&data(5, 10)).unwrap();
        assert_eq!(held.run(add, &plain(1)).unwrap(), 5 * after(&[1]));
        for chunk in 0..5 {
            let error = held.run(add, &with(100, Mischief::Panic(chunk))).unwrap_err();
            assert!(
                matches!(error.fault(), Some(f) if f.fault.kind == FaultKind::Panic),
                "{engine}: {error}"
            );
        }
        assert_eq!(held.run(add, &plain(2)).unwrap(), 5 * after(&[1, 2]), "{engine}");
        let sums: Vec<u64> = held.collect().unwrap().iter().map(|t| t.sum).collect();
        assert_eq!(sums, [after(&[1, 2]); 5], "{engine}");
    }
}

/// Runs rounds until one is not too late, as any may be on a busy machine: those that were have changed nothing.
fn run_in_time(held: &mut Held<Tally>, n: u64) -> u64 {
    for _ in 0..100 {
        match held.run(add, &plain(n)) {
            Err(Error::TimedOut { .. }) => {}
            other => return other.unwrap(),
        }
    }
    panic!("a hundred rounds were too late");
}

#[test]
fn a_round_that_was_cancelled_or_too_late_has_changed_nothing() {
    let check = |engine: &str| {
        let limit = Duration::from_secs(2);
        let m = Master::builder().on_log(|_| {}).round_timeout(limit).connect(engine).unwrap();
        let mut held = m.hold::<Tally>(&data(6, 10)).unwrap();
        assert_eq!(run_in_time(&mut held, 1), 6 * after(&[1]), "{engine}");
        // Cancelled in the middle or at its end, as it happens.
        let pending = held.submit(add, &with(50, Mischief::Doze(60))).unwrap();
        std::thread::sleep(Duration::from_millis(90));
        pending.cancel();
        assert_eq!(run_in_time(&mut held, 2), 6 * after(&[1, 2]), "{engine}");
        let error = held.run(add, &with(50, Mischief::Doze(600_000))).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{engine}: {error}");
        assert_eq!(run_in_time(&mut held, 3), 6 * after(&[1, 2, 3]), "{engine}");
        assert!(held.collect().unwrap().iter().all(|t| t.sum == after(&[1, 2, 3])), "{engine}");
    };
    std::thread::scope(|scope| {
        for engine in ENGINES {
            scope.spawn(move || check(engine));
        }
    });
}

#[test]
fn a_partition_that_ends_its_process_is_found_out_and_the_states_stay() {
    let m = connect("proc:3");
    let mut held = m.hold::<Tally>(&data(9, 10)).unwrap();
    held.run(add, &plain(1)).unwrap();
    held.run(add, &plain(2)).unwrap();
    let error = held.run(add, &with(9, Mischief::Exit(4))).unwrap_err();
    assert!(matches!(&error, Error::Poison { chunks, .. } if *chunks == (4..5)), "{error}");
    assert_eq!(held.run(add, &plain(3)).unwrap(), 9 * after(&[1, 2, 3]));
}

#[test]
fn whoever_dies_while_it_makes_a_state_again_is_followed_by_another() {
    let m = connect("proc:2");
    let mut held = m.hold::<Tally>(&data(4, 10)).unwrap();
    let rounds: Vec<u64> = (0..20).collect();
    for n in &rounds {
        // Slow enough that making it again takes a while, too.
        held.run(add, &with(*n, Mischief::Sleep(5))).unwrap();
    }
    let kill_all = || {
        for pid in m.workers().iter().filter_map(|w| w.pid) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
    };
    kill_all();
    let pending = held.submit(add, &plain(77)).unwrap();
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(60));
        kill_all();
    }
    let all: Vec<u64> = rounds.iter().copied().chain([77]).collect();
    assert_eq!(pending.wait().unwrap(), 4 * after(&all));
}

/// Adds to a state and leaves word of it; waits for the end of its round where a gate is closed.
#[qjam::map]
fn add_at_gate((n, gate): &(u64, String), _: &Dense<f64>, tally: &mut Tally, ctx: &Ctx) -> u64 {
    let (calls, open) = (Path::new(gate).join("calls"), Path::new(gate).join("open"));
    let mut calls = std::fs::File::options().create(true).append(true).open(calls).unwrap();
    calls.write_all(b".").unwrap();
    while !ctx.cancelled() && !open.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    tally.sum = after_one(tally.sum, *n);
    tally.sum
}

#[test]
fn a_cancelled_round_stops_making_states_again() {
    // Nobody is killed for being slow to stop.
    let m = Master::builder().on_log(|_| {}).deadlines(unhurried()).connect("proc:1").unwrap();
    // Long enough that no checkpoint is due.
    let mut held = m.hold::<Tally>(&data(1, 20 << 20)).unwrap();
    let gate = Gate::new();
    let calls = || std::fs::metadata(Path::new(&gate.path()).join("calls")).map_or(0, |file| file.len());
    gate.open();
    for n in 0..10 {
        held.run(add_at_gate, &(n, gate.path())).unwrap();
    }
    gate.close();
    let pid = m.workers()[0].pid.unwrap();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    let pending = held.submit(add, &plain(0)).unwrap();
    wait_until("that the first of ten rounds is run again", || calls() == 11);
    let second = m.workers()[0].pid;
    pending.cancel();
    // The next round makes the state from the beginning, when the one that was cancelled has been left.
    let pending = held.submit(add, &plain(3)).unwrap();
    wait_until("that it is made again once more", || calls() > 11);
    gate.open();
    let all: Vec<u64> = (0..10).chain([3]).collect();
    assert_eq!(pending.wait().unwrap(), after(&all));
    let steps =
        |what: What| if let What::Restored { steps, .. } = what { Some(u64::from(steps)) } else { None };
    let again: u64 = m.journal().into_iter().filter_map(|entry| steps(entry.what)).sum();
    assert_eq!(calls(), 11 + again, "one round was run for the round that was cancelled");
    assert_eq!(m.workers()[0].pid, second, "it stopped by itself and was not killed");
}

/// A state that can be kept, and changed, but not brought home.
#[derive(Clone)]
struct Shy(u64);

impl Wire for Shy {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        assert!(self.0 < 3, "too shy");
        out.put_varint(self.0);
    }

    fn decode(input: &mut Decoder) -> Result<Self, qjam::DecodeError> {
        u64::decode(input).map(Shy)
    }
}

impl State for Shy {
    type Chunk = Dense<f64>;
    fn init(_: &Dense<f64>, _: &Ctx) -> Self {
        Shy(0)
    }
}

#[qjam::map]
fn grow(_: &(), _: &Dense<f64>, shy: &mut Shy) -> u64 {
    shy.0 += 1;
    shy.0
}

#[test]
fn a_state_that_cannot_be_encoded_is_told_and_the_rounds_go_on() {
    for engine in ENGINES {
        let m = connect(engine);
        let mut held = m.hold::<Shy>(&data(2, 1)).unwrap();
        for n in 1..=4 {
            assert_eq!(held.run(grow, &()).unwrap(), 2 * n, "{engine}");
        }
        for error in [held.checkpoint().unwrap_err(), held.collect().err().unwrap()] {
            assert!(error.to_string().contains("too shy"), "{engine}: {error}");
        }
        assert_eq!(held.run(grow, &()).unwrap(), 10, "{engine}");
    }
}
