//! Letters between partitions come once, in the next round and in their order, whoever dies, fails or is called off.
//!
//! What every partition must find is computed here by calling the function itself, partition after partition, without any
//! engine.

use crate::Engine;
use crate::support::{Folder, Gate, losses, signal, wait_until};
use qjam::job::FaultKind;
use qjam::{Ctx, DataSet, Dense, Error, Held, Master, State, Wire};
use rustix::process::Signal;
use std::time::Duration;

/// What a partition has found so far: who wrote to it, and a digest that depends on the order.
#[derive(Clone, Debug, Default, PartialEq, Wire)]
struct Ledger {
    senders: Vec<u32>,
    digest: f64,
}

impl State for Ledger {
    type Chunk = Dense<f64>;

    fn init(x: &Dense<f64>, _: &Ctx) -> Self {
        Ledger { senders: Vec::new(), digest: x.as_slice()[0] }
    }
}

#[derive(Clone, Wire)]
enum Mischief {
    None,
    /// Panics in this partition, after it has sent everything.
    Panic(u32),
    Wait,
    /// Waits at a gate, after it has sent everything.
    Gate(String),
}

#[derive(Clone, Wire)]
struct Task {
    round: u32,
    partitions: u32,
    mischief: Mischief,
}

impl Task {
    fn plain(round: u32, partitions: u32) -> Task {
        Task { round, partitions, mischief: Mischief::None }
    }
}

/// Reads its mail into the ledger and sends letters, short and long, to some partitions, itself among them.
#[qjam::map]
fn talk(task: &Task, x: &Dense<f64>, ledger: &mut Ledger, ctx: &Ctx) -> f64 {
    for letter in ctx.mail::<Vec<f64>>() {
        ledger.senders.push(letter.from);
        for value in letter.value {
            ledger.digest = ledger.digest * 1.000_1 + value;
        }
    }
    let (here, all) = (ctx.chunk(), task.partitions);
    let first = x.as_slice()[0];
    for n in 0..3 {
        let to = (here * 3 + task.round * 5 + n * n) % all;
        let length = if (here + n + task.round).is_multiple_of(4) { 3_000 } else { n as usize };
        ctx.send(to, &vec![ledger.digest + f64::from(n); length]);
        ctx.send_merged((here + task.round) % all, vec![first * f64::from(n)]);
    }
    match &task.mischief {
        Mischief::Panic(chunk) => assert!(*chunk != here, "as it was told"),
        Mischief::Wait => {
            while !ctx.cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Mischief::Gate(gate) => Gate::pass(gate, here),
        Mischief::None => {}
    }
    ledger.digest
}

fn data(partitions: u32) -> DataSet<Dense<f64>> {
    let values = (0..partitions * 3).map(|n| f64::from(n * 37 % 11) + 0.1).collect();
    DataSet::dense(values, 3).unwrap().partitions(partitions as usize).unwrap()
}

/// The ledgers after so many rounds, and the values of the rounds, without an engine.
fn serial(partitions: u32, rounds: u32) -> (Vec<Ledger>, Vec<u64>) {
    let x = data(partitions);
    let chunks: Vec<_> = (0..partitions as usize).map(|n| x.chunk(n).unwrap()).collect();
    let ctx = |chunk| Ctx::for_test(0, 0, chunk);
    let mut ledgers: Vec<Ledger> = (0..).zip(&chunks).map(|(n, x)| Ledger::init(x, &ctx(n))).collect();
    let mut mail: Vec<Vec<(u32, Vec<f64>)>> = vec![Vec::new(); partitions as usize];
    let mut values = Vec::new();
    for round in 0..rounds {
        let mut next = vec![Vec::new(); partitions as usize];
        let mut results = Vec::new();
        for (n, chunk) in (0..).zip(&chunks) {
            let ctx = ctx(n).with_mail(&mail[n as usize]);
            results.push(talk(&Task::plain(round, partitions), chunk, &mut ledgers[n as usize], &ctx));
            for (to, letter) in ctx.sent::<Vec<f64>>() {
                next[to as usize].push((n, letter));
            }
        }
        mail = next;
        values.push(sum(&results).to_bits());
    }
    (ledgers, values)
}

/// Adds up in the order of the tree.
fn sum(values: &[f64]) -> f64 {
    match values {
        [one] => *one,
        _ => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            sum(left) + sum(right)
        }
    }
}

fn run(held: &mut Held<Ledger>, task: &Task) -> u64 {
    held.run(talk, task).unwrap_or_else(|e| panic!("round {}: {e}", task.round)).to_bits()
}

pub(crate) fn letters_come_once_in_the_next_round_and_in_their_order(e: &Engine) {
    for partitions in [1, 2, 5, 9] {
        let expected = serial(partitions, 5);
        for engine in e.few() {
            let m = e.connect(e.quiet(), engine);
            let mut held = m.hold::<Ledger>(&data(partitions)).unwrap();
            let values = (0..5).map(|n| run(&mut held, &Task::plain(n, partitions))).collect();
            assert!((held.collect().unwrap(), values) == expected, "{engine}, {partitions} partitions");
        }
    }
}

pub(crate) fn rounds_without_a_value_deliver_nothing_and_take_no_letter_away(e: &Engine) {
    let partitions = 5;
    let expected = serial(partitions, 4);
    for engine in e.few() {
        let m = e.connect(e.quiet(), engine);
        let mut held = m.hold::<Ledger>(&data(partitions)).unwrap();
        let mut values = Vec::new();
        for round in 0..4 {
            let task = |mischief| Task { round, partitions, mischief };
            let error = held.run(talk, &task(Mischief::Panic(3))).unwrap_err();
            assert!(matches!(error.fault(), Some(f) if f.fault.kind == FaultKind::Panic), "{error}");
            held.submit(talk, &task(Mischief::Wait)).unwrap().cancel();
            values.push(run(&mut held, &task(Mischief::None)));
            if round == 2 {
                held.checkpoint().unwrap();
            }
        }
        assert!((held.collect().unwrap(), values) == expected, "{engine}");
    }
}

pub(crate) fn a_worker_killed_between_sending_and_reading_costs_no_letter(e: &Engine) {
    let (partitions, rounds) = (6, 12);
    let expected = serial(partitions, rounds);
    let m = e.connect(e.quiet(), &e.of(3));
    let mut held = m.hold::<Ledger>(&data(partitions)).unwrap();
    // Rounds that are run again pass the gates that they had.
    let mut gates = Vec::new();
    let kill = |m: &Master, nth: usize| {
        let before = losses(m);
        wait_until("that somebody can be killed", || {
            let pids = e.pids(m);
            let victim = pids.get(nth % pids.len().max(1));
            victim.map(|pid| signal(*pid, Signal::KILL)).is_some()
        });
        wait_until("that the loss is noted", || losses(m) > before);
    };
    let mut values = Vec::new();
    for round in 0..rounds {
        let gate = Gate::new();
        let mischief = Mischief::Gate(gate.path());
        let pending = held.submit(talk, &Task { round, partitions, mischief }).unwrap();
        // After it has sent, before its part is delivered; and every third time when it has delivered.
        gate.wait_for(1);
        if !round.is_multiple_of(3) {
            kill(&m, round as usize);
        }
        gate.open();
        values.push(pending.wait().unwrap_or_else(|e| panic!("round {round}: {e}")).to_bits());
        if round.is_multiple_of(3) {
            kill(&m, round as usize);
        }
        if round == 6 {
            held.checkpoint().unwrap();
        }
        gates.push(gate);
    }
    let (ledgers, wanted) = expected;
    assert_eq!(values, wanted);
    assert!(held.collect().unwrap() == ledgers);
    assert!(losses(&m) >= rounds as usize);
}

pub(crate) fn a_run_that_goes_on_finds_its_mail(e: &Engine) {
    let partitions = 4;
    let folder = Folder::new();
    let runs = folder.file("runs");
    let story = |rounds: u32, resume: bool| {
        let builder = Master::builder().run_folder(&runs).record_cost(f64::INFINITY);
        let builder = match qjam::runs::list(&runs).unwrap_or_default().pop().filter(|_| resume) {
            Some(path) => builder.resume(path.to_str().unwrap()),
            None => builder,
        };
        let m = e.connect(builder, &e.of(3));
        let mut held = m.hold::<Ledger>(&data(partitions)).unwrap();
        let values: Vec<u64> = (0..rounds).map(|n| run(&mut held, &Task::plain(n, partitions))).collect();
        (held.collect().unwrap(), values)
    };
    story(3, false);
    assert!(story(6, true) == serial(partitions, 6), "what it was told before counts");
}

#[qjam::map]
fn misdirect(to: &(u32, u32), _: &Dense<f64>, ledger: &mut Ledger, ctx: &Ctx) -> u64 {
    ledger.digest += 1.0;
    if ctx.chunk() == to.0 {
        ctx.send(to.1, &vec![1.0]);
    }
    0
}

#[qjam::map]
fn misread(_: &(), _: &Dense<f64>, _: &mut Ledger, ctx: &Ctx) -> u64 {
    ctx.mail::<String>().len() as u64
}

pub(crate) fn letters_to_nobody_and_letters_of_another_type_are_told(e: &Engine) {
    let partitions = 3;
    let m = e.master(2);
    let mut held = m.hold::<Ledger>(&data(partitions)).unwrap();
    let first = run(&mut held, &Task::plain(0, partitions));
    match held.run(misdirect, &(1, partitions)).unwrap_err() {
        Error::NoSuchPartition { from: 1, to: 3, partitions: 3, function, location } => {
            assert!(function.ends_with("misdirect"), "{function}");
            assert!(location.is_some_and(|at| at.contains("mail.rs:")));
        }
        other => panic!("{other}"),
    }
    let error = held.run(misread, &()).unwrap_err();
    let fault = &error.fault().expect("it read what is no text").fault;
    assert!(fault.kind == FaultKind::Mail && fault.message.contains("String"), "{error}");
    let values = vec![first, run(&mut held, &Task::plain(1, partitions))];
    assert!((held.collect().unwrap(), values) == serial(partitions, 2), "what failed has changed nothing");
}
