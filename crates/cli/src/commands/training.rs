//! Training the autoencoder, as the demo and the benchmark both do, with an eye on the clock.

use qjam::{DataSet, Dense, Master};
use qjam_algos::neural::autoencoder::{self, Autoencoder, Params};
use qjam_algos::optimize::lbfgs;
use std::time::Instant;

/// What a training run gives.
pub(crate) struct Trained {
    pub(crate) model: Autoencoder,
    pub(crate) cost: f64,
    pub(crate) seconds: f64,
    pub(crate) spent: Spent,
}

/// Where the time went.
#[derive(Default)]
pub(crate) struct Spent {
    /// Time of each evaluation, the optimiser's step before it included.
    pub(crate) evaluations_us: Vec<u64>,
    pub(crate) worker_us: u64,
    pub(crate) master_us: u64,
    pub(crate) overhead_us: u64,
    pub(crate) retries: u64,
}

impl Trained {
    /// A hash of the parameters' bits.
    pub(crate) fn hash(&self) -> String {
        qjam_algos::models::hash(self.model.theta())
    }

    pub(crate) fn median_us(&self) -> u64 {
        let mut sorted = self.spent.evaluations_us.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }
}

/// Trains for so many evaluations; `each` sees the number of the evaluation and its cost.
pub(crate) fn train(
    m: &Master,
    params: &Params,
    data: &DataSet<Dense<f64>>,
    evaluations: u32,
    mut each: impl FnMut(u32, f64),
) -> anyhow::Result<Trained> {
    let start = Instant::now();
    let mut last = start;
    let mut spent = Spent::default();
    let stopping = lbfgs::Options { evaluations_max: evaluations as usize, ..lbfgs::Options::default() };
    let theta = autoencoder::initial(&params.shape(), 1);
    let fit = autoencoder::fit(m, &params.with_stopping(stopping), data, theta, |evaluation| {
        let took_us = last.elapsed().as_micros() as u64;
        spent.evaluations_us.push(took_us);
        if let Some(report) = m.last_round() {
            spent.worker_us += report.worker_us;
            // What was not the round was the optimiser's.
            spent.master_us += report.master_us + took_us.saturating_sub(report.total_us);
            spent.overhead_us += report.overhead_us;
            spent.retries += report.retries;
        }
        m.record_metric("cost", evaluation.value);
        each(evaluation.number as u32, evaluation.value);
        last = Instant::now();
    })?;
    Ok(Trained { model: fit.model, cost: fit.minimum.value, seconds: start.elapsed().as_secs_f64(), spent })
}
