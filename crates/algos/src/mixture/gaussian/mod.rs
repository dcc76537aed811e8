//! Mixtures of normal densities, by expectation and maximisation.
//!
//! ```text
//!   one round ([`moments`](crate::moments)) ──▶ means of the columns, first number that is not finite
//!   [`start`] ──▶ first components ──▶ rounds of [`round::moments`] ──▶ [`Gaussians::of_moments`] ──▶ …
//! ```
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::mixture::gaussian::{Covariance, Given, Params, fit};
//!
//! let rows: Vec<f64> = (0..3_000).map(|i| f64::from(i % 3) * 10.0 + f64::from(i % 7) * 0.1).collect();
//! let data = DataSet::dense(rows, 1)?;
//! let params = Params::new(3, Covariance::Full);
//! let fit = fit(&Master::connect("local:2")?, &params, &data, Given::default(), |_, _| {})?;
//! assert!(fit.converged && fit.model.weights().iter().all(|weight| (weight - 1.0 / 3.0).abs() < 1e-6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod error;
pub mod gaussians;
pub mod learner;
pub mod model;
pub mod params;
pub mod round;
pub mod start;
#[cfg(test)]
mod tests;

pub use error::MixtureError;
pub use gaussians::Gaussians;
pub use model::MixtureModel;
pub use params::{Covariance, Init, Params};
pub use start::Given;

use crate::clustering::kmeans::{Points, parts};
use crate::linear::rows::RowChunk;
use crate::moments::{Scatter, covariances, variances};
use qjam::{DataSet, Master};
use round::{Components, Moments, moments};

/// What the command calls it.
const NAME: &str = "gaussian-mixture";

/// What fitting came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The components.
    pub model: MixtureModel,
    /// The mean log-likelihood of the rows in each round of the start that was kept, before that round's components were changed.
    pub lower_bounds: Vec<f64>,
    /// Whether the last round gained less than the tolerance.
    pub converged: bool,
    /// Components with a variance that is little but the regularisation.
    pub barely_regular: Vec<usize>,
}

impl Fit {
    /// The last of the bounds.
    pub fn lower_bound(&self) -> f64 {
        self.lower_bounds.last().copied().unwrap_or(f64::NEG_INFINITY)
    }
}

/// Data that was looked at.
pub(crate) struct Surveyed<C: qjam::Chunk> {
    data: DataSet<C>,
    /// Means of the columns.
    origin: Vec<f64>,
    /// Products of all deviations from these, where covariances are tied.
    total: Vec<f64>,
}

/// Fits a mixture. `tell` is called after each round with its number in its start, and the mean log-likelihood.
pub fn fit<C: RowChunk + Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    given: Given,
    mut tell: impl FnMut(u64, f64),
) -> Result<Fit, MixtureError> {
    let columns = data.chunk(0).map_err(qjam::Error::from)?.width();
    let rows = data.records();
    if rows < 2 {
        return Err(MixtureError::Rows { rows });
    }
    if params.components as u64 > rows {
        return Err(MixtureError::Components { asked: params.components, rows });
    }
    given.check(params, columns)?;
    let surveyed = survey(master, params, data)?;
    let mut best: Option<Fit> = None;
    let starts = if given.warm.is_some() { 1 } else { params.starts };
    for nth in 0..starts {
        let fit = surveyed.iterate(master, params, &given, nth, &mut tell)?;
        if best.as_ref().is_none_or(|best| fit.lower_bound() > best.lower_bound()) {
            best = Some(fit);
        }
    }
    Ok(best.expect("there is a start"))
}

/// Looks at all rows, in the cut that follows from their number alone.
fn survey<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
) -> Result<Surveyed<C>, MixtureError> {
    let data = data.partitions(parts(data.records())).map_err(qjam::Error::from)?;
    let tied = params.covariance == Covariance::Tied;
    let Scatter { mean, products, bad, .. } = match tied {
        true => master.run(covariances::<C>, &(), &data)?,
        false => master.run(variances::<C>, &(), &data)?,
    };
    if let Some((row, column, value)) = bad {
        return Err(MixtureError::NotFinite { row, column, value });
    }
    Ok(Surveyed { data, origin: mean, total: if tied { products } else { vec![] } })
}

impl<C: RowChunk + Points> Surveyed<C> {
    fn iterate(
        &self,
        master: &Master,
        params: &Params,
        given: &Given,
        nth: u64,
        tell: &mut impl FnMut(u64, f64),
    ) -> Result<Fit, MixtureError> {
        let (mut gaussians, mut before) = match &given.warm {
            Some((gaussians, bound)) => (gaussians.clone(), *bound),
            None => (start::first(master, params, self, given, nth)?, f64::NEG_INFINITY),
        };
        let (mut lower_bounds, mut converged) = (vec![], false);
        for round in 1..=params.max_iter {
            let request = Components::of(&gaussians, &self.origin);
            let found: Moments = master.run(moments::<C>, &request, &self.data)?;
            let bound = found.log_likelihood / self.data.records() as f64;
            if !bound.is_finite() {
                return Err(MixtureError::Overflow);
            }
            gaussians = self.next(params, &found, &gaussians.means)?;
            lower_bounds.push(bound);
            tell(round, bound);
            if (bound - before).abs() < params.tol {
                converged = true;
                break;
            }
            before = bound;
        }
        let barely_regular = gaussians.barely_regular(params.reg_covar);
        Ok(Fit { model: MixtureModel::new(gaussians), lower_bounds, converged, barely_regular })
    }

    /// The components that follow from sums of deviations from these means.
    fn next(&self, params: &Params, found: &Moments, means: &[f64]) -> Result<Gaussians, MixtureError> {
        let tied = params.covariance == Covariance::Tied;
        let points = if tied { &self.origin.repeat(params.components)[..] } else { means };
        Gaussians::of_moments(params.covariance, found, points, &self.total, params.reg_covar)
    }
}
