//! How holds begin and end.

use crate::counting::{Mischief, Tally, add, after, connect, data, plain, with};
use qjam::registry::UnknownFunction;
use qjam::{Ctx, Dense, Error, State, Wire};
use qjam_conformance::support::{Gate, wait_until};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

#[test]
fn several_holds_do_not_know_of_each_other() {
    for engine in ["local:2", "proc:2"] {
        let m = connect(engine);
        let x = data(4, 10);
        let mut one = m.hold::<Tally>(&x).unwrap();
        let mut two = m.hold::<Tally>(&x).unwrap();
        one.run(add, &plain(1)).unwrap();
        let pending = two.submit(add, &with(5, Mischief::Sleep(20))).unwrap();
        assert_eq!(one.run(add, &plain(2)).unwrap(), 4 * after(&[1, 2]));
        assert_eq!(pending.wait().unwrap(), 4 * after(&[5]));
        drop(one);
        assert_eq!(two.run(add, &plain(6)).unwrap(), 4 * after(&[5, 6]));
        assert_eq!(two.collect().unwrap().iter().map(|t| t.chunk).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}

/// Counts once the gate is open.
#[qjam::map]
fn add_behind_gate(gate: &str, _: &Dense<f64>, tally: &mut Tally, ctx: &Ctx) -> u64 {
    Gate::pass(gate, ctx.chunk());
    tally.sum += 1;
    tally.sum
}

#[test]
fn two_rounds_at_once_over_the_same_states_are_refused() {
    for engine in ["local:2", "proc:2"] {
        let m = connect(engine);
        let mut held = m.hold::<Tally>(&data(2, 10)).unwrap();
        let gate = Gate::new();
        let first = held.submit(add_behind_gate, &gate.path()[..]).unwrap();
        gate.wait_for(1);
        assert!(matches!(held.submit(add, &plain(2)), Err(Error::HeldBusy)), "{engine}");
        gate.open();
        assert_eq!(first.wait().unwrap(), 2);
        assert_eq!(held.run(add, &plain(2)).unwrap(), 2 * after(&[1, 2]), "{engine}");
    }
}

#[test]
fn a_hold_outlives_its_data_set_but_not_its_master() {
    for engine in ["local:1", "proc:1"] {
        let m = connect(engine);
        let x = data(3, 10);
        let mut held = m.hold::<Tally>(&x).unwrap();
        drop(x);
        // Data sets that are gone are forgotten when another one comes.
        m.hold::<Tally>(&data(2, 11)).unwrap();
        assert_eq!(held.run(add, &plain(1)).unwrap(), 3);
        drop(m);
        assert!(matches!(held.run(add, &plain(1)), Err(Error::NoMaster)), "{engine}");
        assert!(matches!(held.collect(), Err(Error::NoMaster)));
        assert!(matches!(held.checkpoint(), Err(Error::NoMaster)));
    }
}

static LIVE: AtomicI64 = AtomicI64::new(0);

/// Counts how many of it there are.
#[derive(qjam::Wire)]
struct Counted(u64);

impl Clone for Counted {
    fn clone(&self) -> Self {
        LIVE.fetch_add(1, SeqCst);
        Counted(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, SeqCst);
    }
}

impl State for Counted {
    type Chunk = Dense<f64>;
    fn init(_: &Dense<f64>, _: &Ctx) -> Self {
        LIVE.fetch_add(1, SeqCst);
        Counted(0)
    }
}

#[qjam::map]
fn count(_: &(), _: &Dense<f64>, state: &mut Counted) -> u64 {
    state.0 += 1;
    state.0
}

#[test]
fn workers_keep_two_versions_and_drop_them_with_the_hold() {
    let m = connect("local:2");
    let mut held = m.hold::<Counted>(&data(5, 1)).unwrap();
    assert_eq!(LIVE.load(SeqCst), 5);
    for n in 1..50 {
        assert_eq!(held.run(count, &()).unwrap(), 5 * n);
        assert_eq!(LIVE.load(SeqCst), 10, "as the round found it and as it left it");
    }
    drop(held);
    wait_until("the end of all states", || LIVE.load(SeqCst) == 0);
}

#[derive(Clone, qjam::Wire)]
struct Unused;

impl State for Unused {
    type Chunk = Dense<f64>;
    fn init(_: &Dense<f64>, _: &Ctx) -> Self {
        Unused
    }
}

#[test]
fn a_state_that_no_function_uses_is_refused() {
    let error = connect("local:1").hold::<Unused>(&data(1, 1)).unwrap_err();
    assert!(
        matches!(&error, Error::UnknownFunction(UnknownFunction::State { name }) if name.ends_with("Unused")),
        "{error}"
    );
}

#[test]
fn looking_at_states_uses_up_no_round_numbers() {
    let m = connect("local:1");
    let mut held = m.hold::<Tally>(&data(2, 10)).unwrap();
    for n in 0..3 {
        held.run(add, &plain(n)).unwrap();
        held.checkpoint().unwrap();
        held.collect().unwrap();
        assert_eq!(m.last_round().unwrap().round, n);
    }
}

/// A state that counts how often it was copied.
#[derive(Wire)]
struct Copied {
    rows: u64,
}

static COPIES: AtomicU64 = AtomicU64::new(0);

impl Clone for Copied {
    fn clone(&self) -> Self {
        COPIES.fetch_add(1, SeqCst);
        Copied { rows: self.rows }
    }
}

impl State for Copied {
    type Chunk = Dense<f64>;

    fn init(x: &Dense<f64>, _: &Ctx) -> Self {
        Copied { rows: x.rows() as u64 }
    }
}

#[qjam::map]
fn rows(_: &(), _: &Dense<f64>, copied: &Copied) -> u64 {
    copied.rows
}

#[qjam::map]
fn grown(_: &(), _: &Dense<f64>, copied: &mut Copied) -> u64 {
    copied.rows += 1;
    copied.rows
}

#[test]
fn a_step_that_only_reads_copies_no_state_and_is_not_in_the_log() {
    let m = connect("local:2");
    let mut held = m.hold::<Copied>(&data(5, 10)).unwrap();
    let before = COPIES.load(SeqCst);
    for _ in 0..3 {
        assert_eq!(held.run(rows, &()).unwrap(), 20);
    }
    assert_eq!(COPIES.load(SeqCst), before);
    assert_eq!(held.run(grown, &()).unwrap(), 25);
    assert_eq!(COPIES.load(SeqCst), before + 5, "a step that changes states works on copies");
    assert_eq!(held.run(rows, &()).unwrap(), 25);
}
