//! k-means: one hash on every engine, with and without pruning, through kills; and what faults may not change.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it saw and stops where it fails"
)]

qjam::worker_hook!();

use qjam::{DataSet, Dense, Master, Rng};
use qjam_algos::clustering::kmeans::{Params, Start, fit, fit_minibatch};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const DIMS: usize = 80;

/// Clusters that overlap, so that it takes a while.
fn data() -> DataSet<Dense<f32>> {
    let mut random = Rng::keyed(5, 0, 0);
    let middles: Vec<f64> = (0..40 * DIMS).map(|_| random.normal()).collect();
    let values = (0..6_000)
        .flat_map(|_| {
            let middle = random.below(40) as usize;
            (0..DIMS).map(|p| (middles[middle * DIMS + p] + random.normal()) as f32).collect::<Vec<_>>()
        })
        .collect();
    DataSet::dense(values, DIMS).unwrap()
}

fn params() -> Params {
    Params::new(70).unwrap().with_tolerance(0.0).unwrap().with_iterations_max(25).unwrap().with_seed(2)
}

/// Bits of everything that fitting gives.
fn bits(m: &Master, params: &Params, data: &DataSet<Dense<f32>>) -> Vec<u64> {
    let fitted = fit(m, params, data, |_| {}).unwrap();
    let centres = fitted.model.centres().values().iter().map(|v| u64::from(v.to_bits()));
    centres.chain([fitted.inertia.to_bits(), fitted.iterations as u64]).collect()
}

#[test]
fn one_result_on_every_engine_with_and_without_pruning() {
    let data = data();
    for start in [Start::PlusPlus, Start::Parallel] {
        let params = params().with_start(start);
        let expected = bits(&Master::connect("local:1").unwrap(), &params, &data);
        for workers in ["local:1", "local:2", "local:5", "proc:1", "proc:2", "proc:5"] {
            for pruning in [true, false] {
                let m = Master::connect(workers).unwrap();
                let found = bits(&m, &params.with_pruning(pruning), &data);
                assert!(found == expected, "{workers}, {start:?}, pruning {pruning}: other bits");
            }
        }
    }
}

#[test]
fn batches_give_one_result_on_every_engine() {
    let data = data();
    let run = |workers: &str| {
        fit_minibatch(
            &Master::connect(workers).unwrap(),
            &params().with_batch_rows(500).unwrap(),
            &data,
            |_| {},
        )
        .unwrap()
    };
    let expected = run("local:1");
    assert!(["local:5", "proc:2"].iter().all(|workers| run(workers) == expected));
}

#[test]
fn killed_workers_change_nothing() {
    let data = data();
    let expected = bits(&Master::connect("local:2").unwrap(), &params(), &data);
    for seed in 0..4 {
        let m = Master::connect("proc:2").unwrap();
        let over = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let mut random = Rng::keyed(seed, 0, 0);
                let mut kills = 0;
                while kills < 3 && !over.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(5 + random.below(60)));
                    let pids: Vec<u32> = m.workers().into_iter().filter_map(|w| w.pid).collect();
                    if let Some(pid) = pids.get(random.below(2) as usize) {
                        let _ = kill_process(Pid::from_raw(*pid as i32).unwrap(), Signal::KILL);
                        kills += 1;
                    }
                }
                kills
            });
            let found = bits(&m, &params(), &data);
            over.store(true, Relaxed);
            println!("seed {seed}: {} kills", killer.join().unwrap());
            found
        });
        assert!(found == expected, "seed {seed}: other bits");
    }
}
