//! States stay with the workers that have their partitions, and have the bits that they have on threads.

use crate::Engine;
use crate::support::Folder;
use qjam::job::FaultKind;
use qjam::journal::What;
use qjam::{Ctx, DataSet, Dense, Error, Joined, Master, Rng, State, Wire};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Wire)]
struct Tally {
    sum: f64,
    rounds: u64,
    noise: f64,
}

impl State for Tally {
    type Chunk = Dense<f64>;

    fn init(x: &Dense<f64>, ctx: &Ctx) -> Self {
        Tally { sum: x.as_slice().iter().sum(), rounds: 0, noise: ctx.rng().normal() }
    }
}

#[derive(Clone, Wire)]
enum Mischief {
    None,
    Panic(u32),
    Wait,
}

#[qjam::map]
fn add(task: &(f64, Mischief), x: &Dense<f64>, tally: &mut Tally, ctx: &Ctx) -> f64 {
    tally.rounds += 1;
    tally.noise += ctx.rng().normal();
    tally.sum += task.0 / (x.as_slice()[0] + 3.7);
    match task.1 {
        Mischief::Panic(chunk) => assert!(chunk != ctx.chunk(), "as it was told"),
        Mischief::Wait => {
            while !ctx.cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Mischief::None => {}
    }
    tally.sum * tally.noise
}

fn data(partitions: usize) -> DataSet<Dense<f64>> {
    let mut rng = Rng::keyed(1, 2, 3);
    DataSet::dense((0..700).map(|_| rng.normal().abs()).collect(), 7).unwrap().partitions(partitions).unwrap()
}

/// Rounds over states, with what goes wrong in between; all values, and the states at the end.
fn story(m: &Master, partitions: usize) -> (Vec<u64>, Vec<Tally>) {
    let mut held = m.hold::<Tally>(&data(partitions)).unwrap();
    let mut values = Vec::new();
    for n in 0..6 {
        values.push(held.run(add, &(f64::from(n), Mischief::None)).unwrap().to_bits());
        let last = partitions as u32 - 1;
        let error = held.run(add, &(100.0, Mischief::Panic(last))).unwrap_err();
        assert!(matches!(error.fault(), Some(f) if f.fault.kind == FaultKind::Panic), "{error}");
        assert_eq!(error.fault().unwrap().fault.chunk, Some(last));
        held.submit(add, &(200.0, Mischief::Wait)).unwrap().cancel();
        held.checkpoint().unwrap();
    }
    (values, held.collect().unwrap())
}

pub(crate) fn what_failed_or_was_cancelled_has_changed_nothing_and_bits_are_those_of_threads(e: &Engine) {
    for partitions in [1, 2, 3, 5] {
        let seeded = || Master::builder().seed(5);
        let alone = story(&seeded().connect("local:2").unwrap(), partitions);
        for engine in e.few() {
            assert_eq!(
                story(&e.connect(seeded(), engine), partitions),
                alone,
                "{engine}, {partitions} partitions"
            );
        }
    }
}

pub(crate) fn several_masters_keep_their_states_apart(e: &Engine) {
    let (one, two) = (e.master(2), e.master(2));
    let (mut a, mut b) = (one.hold::<Tally>(&data(3)).unwrap(), two.hold::<Tally>(&data(3)).unwrap());
    for _ in 0..3 {
        a.run(add, &(1.0, Mischief::None)).unwrap();
        b.run(add, &(2.0, Mischief::None)).unwrap();
    }
    let sums = |held: &qjam::Held<Tally>| held.collect().unwrap().iter().map(|t| t.sum).collect::<Vec<f64>>();
    let (a_sums, b_sums) = (sums(&a), sums(&b));
    drop((a, one));
    assert_ne!(a_sums, b_sums);
    assert_eq!(sums(&b), b_sums, "the other goes on");
}

pub(crate) fn a_run_that_goes_on_makes_the_states_again(e: &Engine) {
    let folder = Folder::new();
    let runs = folder.file("runs");
    let run = |rounds: u32, resume: bool| {
        let builder = Master::builder().seed(3).run_folder(&runs).record_cost(f64::INFINITY);
        let earlier = qjam::runs::list(&runs).unwrap_or_default().pop();
        let builder = match earlier.filter(|_| resume) {
            Some(path) => builder.resume(path.to_str().unwrap()),
            None => builder,
        };
        let m = e.connect(builder, &e.of(3));
        let mut held = m.hold::<Tally>(&data(4)).unwrap();
        let values: Vec<u64> =
            (0..rounds).map(|n| held.run(add, &(f64::from(n), Mischief::None)).unwrap().to_bits()).collect();
        let restored = m.journal().iter().filter(|e| matches!(e.what, What::Restored { .. })).count();
        (values, held.collect().unwrap(), restored)
    };
    let (first, ..) = run(4, false);
    let (resumed, states, restored) = run(7, true);
    assert_eq!(resumed[..4], first);
    assert_eq!(restored, 4, "every partition was made again, once");
    let (whole, wanted, restored) = run(7, false);
    assert_eq!((resumed, states, 0), (whole, wanted, restored));
}

pub(crate) fn a_look_at_states_that_are_being_changed_waits_for_its_turn(e: &Engine) {
    let m = e.master(2);
    let mut held = m.hold::<Tally>(&data(4)).unwrap();
    let pending = held.submit(add, &(1.0, Mischief::None)).unwrap();
    // Unless the first one is over by then.
    let error = held.submit(add, &(1.0, Mischief::None)).map(drop);
    assert!(matches!(error, Ok(()) | Err(Error::HeldBusy)), "{error:?}");
    pending.wait().unwrap();
    assert!(held.collect().unwrap().iter().all(|t| t.rounds >= 1));
}

/// What a step that only reads gives: what its state is, and a number of its own round.
#[qjam::map]
fn seen(factor: &f64, x: &Dense<f64>, tally: &Tally, ctx: &Ctx) -> Joined<(u64, f64, u64)> {
    let value = tally.sum * factor + x.as_slice()[0] + ctx.rng().normal();
    Joined(vec![(tally.rounds, value, ctx.records().start)])
}

pub(crate) fn a_step_that_only_reads_changes_nothing(e: &Engine) {
    let story = |m: &Master, reads: bool| {
        let mut held = m.hold::<Tally>(&data(4)).unwrap();
        let mut values = Vec::new();
        for n in 0..4_u64 {
            if reads {
                let found = held.run(seen, &0.5).unwrap();
                assert!(found.iter().all(|(rounds, ..)| *rounds == n), "what the rounds so far have left");
                values.extend(found.0);
            } else {
                // So that the next round has the same number.
                held.run(add, &(9.0, Mischief::Panic(0))).unwrap_err();
            }
            held.run(add, &(n as f64, Mischief::None)).unwrap();
        }
        (values, held.collect().unwrap())
    };
    let alone = story(&Master::builder().seed(5).connect("local:1").unwrap(), true);
    for engine in e.few() {
        let m = || e.connect(Master::builder().seed(5).on_log(|_| {}), engine);
        let (values, states) = story(&m(), true);
        assert_eq!((&values, &states), (&alone.0, &alone.1), "{engine}");
        assert_eq!(story(&m(), false).1, states, "{engine}: the states are as if nobody had read them");
    }
}
