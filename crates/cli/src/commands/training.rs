//! Training the autoencoder, as the demo and the benchmark both do.

use qjam::{DataSet, Dense, Master};
use qjam_algos::neural::autoencoder::{self, Params};
use qjam_algos::optimize::lbfgs;
use std::time::Instant;

/// What a training run gives.
pub(crate) struct Trained {
    pub(crate) theta: Vec<f64>,
    pub(crate) cost: f64,
    pub(crate) seconds: f64,
    /// Time of each evaluation, master's part included.
    pub(crate) evaluations_us: Vec<u64>,
    pub(crate) worker_us: u64,
    pub(crate) master_us: u64,
    pub(crate) overhead_us: u64,
    pub(crate) retries: u64,
}

impl Trained {
    /// A fingerprint of the parameters' bits.
    pub(crate) fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for v in &self.theta {
            hasher.update(&v.to_le_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    pub(crate) fn median_us(&self) -> u64 {
        let mut sorted = self.evaluations_us.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }
}

/// Minimises the cost with L-BFGS; `each` sees the number of the evaluation and its cost.
pub(crate) fn train(
    m: &Master,
    params: &Params,
    data: &DataSet<Dense<f64>>,
    evaluations: u32,
    mut each: impl FnMut(u32, f64),
) -> anyhow::Result<Trained> {
    let start = Instant::now();
    let mut spent = Trained {
        theta: Vec::new(),
        cost: f64::NAN,
        seconds: 0.0,
        evaluations_us: Vec::new(),
        worker_us: 0,
        master_us: 0,
        overhead_us: 0,
        retries: 0,
    };
    let options = lbfgs::Options { evaluations_max: evaluations as usize, ..lbfgs::Options::default() };
    let theta = autoencoder::initial(&params.shape(), 1);
    let minimum = lbfgs::minimize(
        &options,
        theta,
        |theta, gradient| -> qjam::Result<f64> {
            let begun = Instant::now();
            let total = m.run(autoencoder::sums, theta, data)?;
            let ran = begun.elapsed();
            let cost = autoencoder::evaluate_into(params, theta, &total, gradient);
            spent.evaluations_us.push(begun.elapsed().as_micros() as u64);
            if let Some(report) = m.last_round() {
                spent.worker_us += report.worker_us;
                spent.master_us += report.master_us + (begun.elapsed() - ran).as_micros() as u64;
                spent.overhead_us += report.overhead_us;
                spent.retries += report.retries;
            }
            each(spent.evaluations_us.len() as u32, cost);
            Ok(cost)
        },
        |_| {},
    )?;
    Ok(Trained { theta: minimum.x, cost: minimum.value, seconds: start.elapsed().as_secs_f64(), ..spent })
}
