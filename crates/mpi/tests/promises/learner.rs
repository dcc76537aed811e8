//! A learner that keeps its coordinates on the ranks has the bits that it has on threads.

use qjam::{Csr, DataSet, Master, Rng};
use qjam_algos::linear::{Local, Loss, Objective, Params, Partitioned, Penalty, Scaling, fit};
use qjam_conformance::{Engine, Promise};

/// What is promised here.
pub(crate) const OWN: &[Promise] = &[Promise {
    name: "learner::a_linear_learner_with_fixed_work_has_the_bits_of_threads",
    needs: &[],
    check: a_linear_learner_with_fixed_work_has_the_bits_of_threads,
}];

/// A sparse problem: rows, and targets.
fn problem() -> (Csr<f64>, Vec<f64>) {
    let (rows, cols) = (300_u64, 120_u64);
    let mut rng = Rng::keyed(7, 7, 7);
    let (mut starts, mut places, mut values) = (vec![0_u64], Vec::new(), Vec::new());
    for _ in 0..rows {
        for col in 0..cols {
            if rng.uniform() < 0.1 {
                places.push(col as u32);
                values.push(rng.normal());
            }
        }
        starts.push(places.len() as u64);
    }
    let targets = (0..rows).map(|_| rng.normal()).collect();
    (Csr::from_vecs(starts, places, values, cols as usize, None).unwrap(), targets)
}

/// Bits of everything that a fit with fixed work, scaling and partitions gives.
fn fitted(workers: &str, eta: f64) -> Vec<u64> {
    let (x, targets) = problem();
    let m = Master::builder().seed(11).connect(workers).unwrap();
    let data = Partitioned::columns_of(&DataSet::csr(&x).unwrap(), 4).unwrap();
    let penalty = Penalty::elastic_net(0.5, eta, Scaling::HalfSum, x.rows()).unwrap();
    let objective =
        Objective { loss: Loss::Squares { targets }, terms: penalty.into(), centred: false, free: false };
    let params = Params::default().with_tolerance(1e-6).unwrap().with_rounds_max(60).unwrap();
    let params = params.with_local(Local::Fixed { work: 0.7, sigma: 4.0 }).unwrap();
    let found = fit(&m, &data, &objective, &params, |_| {}).unwrap();
    assert!(found.rounds > 5, "{} rounds on {workers}", found.rounds);
    let numbers = found.coordinates.iter().chain([&found.objective]);
    numbers.map(|v| v.to_bits()).chain([found.rounds as u64]).collect()
}

fn a_linear_learner_with_fixed_work_has_the_bits_of_threads(_: &Engine) {
    for eta in [1.0, 0.0] {
        assert!(fitted("mpi", eta) == fitted("local:2", eta), "η = {eta}: other bits");
    }
}
