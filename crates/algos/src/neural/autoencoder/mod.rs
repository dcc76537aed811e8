//! The sparse autoencoder: a network of two tanh layers that learns to reproduce its input through few, rarely active
//! hidden units.
//!
//! On small patches of natural images its hidden units become detectors of edges. Parameters travel as one flat
//! vector: W1 (hidden × visible) and W2 (visible × hidden), row-major, then b1 and b2. One evaluation is one round:
//! [`map`] sums over the rows of a chunk, [`cost`] turns the total into cost and gradient on the master.
//!
//! ```
//! use qjam_algos::neural::autoencoder::{Params, Shape, cost_of_slice, initial};
//! let params = Params::new(Shape::new(4, 2)?);
//! let theta = initial(&params.shape(), 1);
//! let (cost, gradient) = cost_of_slice(&params, &theta, &[0.1, -0.2, 0.3, 0.0, 0.5, 0.5, -0.5, 0.1]);
//! assert!(cost > 0.0);
//! assert_eq!(gradient.len(), theta.len());
//! # Ok::<(), qjam_algos::neural::autoencoder::ParamsError>(())
//! ```

pub mod cost;
pub mod input;
mod layers;
pub mod learner;
pub mod map;
pub mod model;
pub mod params;
#[cfg(test)]
mod tests;

pub use cost::{cost_of_slice, evaluate, evaluate_into};
pub use input::Input;
pub use map::{Sums, sums, sums_of_narrow, sums_of_slice};
pub use model::{Autoencoder, ModelError};
pub use params::{Params, ParamsError, Shape};

use crate::optimize::lbfgs::{self, Evaluation, Minimum};
use qjam::{DataSet, Dense, Master, Rng};
use thiserror::Error;

/// What training came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The network at the lowest cost seen.
    pub model: Autoencoder,
    /// Cost there, evaluations spent, and why training ended.
    pub minimum: Minimum,
}

/// Why training could not go on.
#[derive(Debug, Error)]
pub enum FitError {
    /// The starting point belongs to another network.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The rows belong to another network.
    #[error(
        "autoencoder: the data has rows of {found} columns and the network {expected} visible units; make them equal"
    )]
    Columns {
        /// Columns of the data.
        found: usize,
        /// Visible units.
        expected: usize,
    },
    /// A number that is not finite.
    #[error(
        "autoencoder: row {row}, column {column} (counted from 0) is {value}; remove such rows or fill them in before fitting"
    )]
    NotFinite {
        /// Row of the data.
        row: u64,
        /// Column of the data.
        column: u64,
        /// NaN or an infinity.
        value: f64,
    },
    /// The data could not be read, or a round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

/// Trains on a data set by L-BFGS, one round per evaluation, from a starting point such as [`initial`].
///
/// `observer` sees every evaluation. Not reaching a minimum is no error: see [`Minimum::outcome`].
///
/// ```
/// use qjam::{DataSet, Master};
/// use qjam_algos::neural::autoencoder::{Params, Shape, fit, initial};
/// use qjam_algos::optimize::lbfgs::Options;
///
/// let shape = Shape::new(4, 2)?;
/// let params = Params::new(shape).with_stopping(Options { evaluations_max: 20, ..Options::default() });
/// let rows = DataSet::dense((0..400).map(|i| f64::from(i % 7) * 0.1 - 0.3).collect(), 4)?;
/// let mut costs = Vec::new();
/// let fit = fit(&Master::connect("local:2")?, &params, &rows, initial(&shape, 1), |e| costs.push(e.value))?;
/// assert!(fit.minimum.value < costs[0]);
/// assert_eq!(fit.model.features().len(), 2 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn fit<T: Input>(
    master: &Master,
    params: &Params,
    data: &DataSet<Dense<T>>,
    theta: Vec<f64>,
    observer: impl FnMut(&Evaluation<'_>),
) -> Result<Fit, FitError> {
    // Asked here, where it can be said plainly; on a worker it would be a panic.
    let (found, expected) = (data.chunk(0).map_err(qjam::Error::from)?.cols(), params.shape().visible());
    if found != expected {
        return Err(FitError::Columns { found, expected });
    }
    let fit = fit_by(params, theta, |theta| T::sums(master, theta, data).map_err(FitError::Run), observer)?;
    // Numbers that are none make every sum one; which it was is looked for only then.
    if fit.minimum.outcome == lbfgs::Outcome::NotFinite
        && let Some((row, column, value)) = T::unusable(master, data)?
    {
        return Err(FitError::NotFinite { row, column, value });
    }
    Ok(fit)
}

/// Trains on sums that come from anywhere: `round` is given parameters and returns the sums over all rows there.
///
/// `observer` sees every evaluation. The error of a failing round ends the training.
pub fn fit_by<E: From<ModelError>>(
    params: &Params,
    theta: Vec<f64>,
    mut round: impl FnMut(&[f64]) -> Result<Sums, E>,
    observer: impl FnMut(&Evaluation<'_>),
) -> Result<Fit, E> {
    model::check_theta(params.shape(), &theta)?;
    let function = |theta: &[f64], gradient: &mut [f64]| {
        round(theta).map(|total| evaluate_into(params, theta, &total, gradient))
    };
    let minimum = lbfgs::minimize(&params.stopping(), theta, function, observer)?;
    Ok(Fit { model: Autoencoder::new(params.shape(), minimum.x.clone())?, minimum })
}

/// Starting point: weights uniform in `[0, 1)` over the root of the number of inputs of their layer, biases 0.
pub fn initial(shape: &Shape, seed: u64) -> Vec<f64> {
    let mut random = Rng::keyed(seed, 0, 0);
    let mut theta = vec![0.0; shape.theta_len()];
    let (w1, rest) = theta.split_at_mut(shape.weights());
    w1.fill_with(|| random.uniform() / (shape.visible() as f64).sqrt());
    rest[..shape.weights()].fill_with(|| random.uniform() / (shape.hidden() as f64).sqrt());
    theta
}
