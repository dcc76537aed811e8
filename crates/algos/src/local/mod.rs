//! Locally weighted linear regression: a fit of its own for every row that is asked about.
//!
//! The rows that are learnt from are the model. A question sends rows to be predicted (*queries*) to the workers, thousands at a time; one
//! round over the learnt rows gives for each the [`sums`] of its own weighted least squares, and the master [solves](solve) these.
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::local::{Params, fit};
//!
//! // A bend that no line has.
//! let x: Vec<f64> = (0..50).map(|i| f64::from(i) / 10.0 - 2.5).collect();
//! let y: Vec<f64> = x.iter().map(|x| x.abs()).collect();
//! let master = Master::connect("local:1")?;
//! let model = fit(&master, &Params::new(0.2), &DataSet::dense(x, 1)?, &y, None)?;
//! let found = model.predict(&master, &DataSet::dense(vec![-2.0, 0.0, 1.5], 1)?)?;
//! assert!((found[0] - 2.0).abs() < 0.01 && found[1].abs() < 0.2 && (found[2] - 1.5).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod learner;
pub mod model;
pub mod params;
pub mod solve;
pub mod sums;

pub use model::LocalModel;
pub use params::{Bandwidth, Kernel, Params};

use crate::input::{InputError, Problem, check_weights};
use crate::kernels::nearest::Real;
use crate::learner::Weights;
use crate::preprocessing;
use qjam::{DataSet, Dense, Master};

/// What the command calls it.
const NAME: &str = "lwr";

/// Fits a model: finds the bandwidth, and keeps the rows that count.
pub fn fit<T: Real>(
    master: &Master,
    params: &Params,
    data: &DataSet<Dense<T>>,
    targets: &[f64],
    weights: Option<&[f64]>,
) -> Result<LocalModel, InputError>
where
    Dense<T>: crate::linear::rows::RowChunk,
{
    let rows = data.records();
    if targets.len() as u64 != rows {
        return Err(Problem::Targets { targets: targets.len(), rows }.of(NAME));
    }
    if let Some(row) = targets.iter().position(|target| !target.is_finite()) {
        return Err(Problem::Target { row, value: targets[row], must: "finite numbers" }.of(NAME));
    }
    check_weights(weights, rows).map_err(|problem| problem.of(NAME))?;
    let seen = preprocessing::seen(master, data, weights.map_or(Weights::None, Weights::Each), NAME)?;
    let columns = seen.least.len();
    let bandwidth = match params.bandwidth() {
        Bandwidth::Given(bandwidth) => bandwidth,
        Bandwidth::Auto => {
            let spread = seen.moments.variances().sum::<f64>().sqrt();
            let found = spread * seen.moments.weight.powf(-1.0 / (columns as f64 + 4.0));
            if found > 0.0 { found } else { 1.0 }
        }
    };
    // Rows of no weight are as good as not there.
    let (mut all, mut row) = (Vec::with_capacity(rows as usize * (columns + 2)), 0);
    for index in 0..data.len() {
        for line in data.chunk(index).map_err(qjam::Error::from)?.rows_iter() {
            let weight = weights.map_or(1.0, |weights| weights[row]);
            if weight > 0.0 {
                all.extend(line.iter().map(|value| value.to_f64()));
                all.extend([targets[row], weight]);
            }
            row += 1;
        }
    }
    let learnt = DataSet::dense(all, columns + 2).map_err(qjam::Error::from)?;
    Ok(LocalModel::new(*params, bandwidth, seen.moments.mean, learnt)?)
}
