//! Gaussian naive Bayes: in each class every column has a normal distribution of its own.
//!
//! One round ([`mod@moments`]) finds weight, mean and variance of each column in each class; [`model`] applies Bayes' rule to them.
//! A model can learn from one more batch ([`update`]), which merges moments as the round does.
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::bayes::gaussian::{Params, fit};
//!
//! let rows = DataSet::dense(vec![0.0, 0.2, 5.0, 5.2], 1)?;
//! let fit = fit(&Master::connect("local:1")?, &Params::default(), &rows, &[1.0, 1.0, 2.0, 2.0], None, None)?;
//! assert_eq!(fit.model.predict(&[0.3, 4.0]), [1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod learner;
pub mod model;
pub mod moments;
pub mod params;

pub use model::{GaussianModel, ModelError};
pub use params::Params;

use crate::clustering::kmeans::parts;
use crate::kernels::nearest::Real;
use moments::{ClassMoments, Moments, RowClasses, moments};
use qjam::{DataSet, Dense, Master};
use thiserror::Error;

/// Most classes there may be.
pub const CLASSES_MAX: usize = 10_000;
/// Weights of a class that are not more than this are none, as in scikit-learn.
const NO_WEIGHT: f64 = 1e-8;

/// Why there is no model.
#[derive(Debug, Error)]
pub enum FitError {
    /// Not one target for each row.
    #[error("gaussian-nb: {targets} targets for {rows} rows; there must be one for each")]
    Targets {
        /// Targets given.
        targets: usize,
        /// Rows there are.
        rows: u64,
    },
    /// A target that stands for no class.
    #[error(
        "gaussian-nb: the target of row {row} (counted from 0) is {value}, which is none of the classes that were given"
    )]
    Class {
        /// Row of the data.
        row: usize,
        /// Its target.
        value: f64,
    },
    /// More classes than a model can have.
    #[error("gaussian-nb: over {CLASSES_MAX} classes; targets are numbers that stand for classes")]
    Classes,
    /// Not one weight for each row.
    #[error("gaussian-nb: {weights} weights for {rows} rows; there must be one for each")]
    Weights {
        /// Weights given.
        weights: usize,
        /// Rows there are.
        rows: u64,
    },
    /// A weight that cannot be one.
    #[error(
        "gaussian-nb: the weight of row {row} (counted from 0) is {value}; weights are finite and not negative"
    )]
    Weight {
        /// Row of the data.
        row: usize,
        /// Its weight.
        value: f64,
    },
    /// All weights are 0.
    #[error("gaussian-nb: all weights are 0; at least one row must count")]
    NoWeight,
    /// Not one prior for each class.
    #[error(
        "gaussian-nb: {found} priors for {classes} classes; the number of priors must match the number of classes"
    )]
    Priors {
        /// Priors given.
        found: usize,
        /// Classes there are.
        classes: usize,
    },
    /// A prior that is no probability.
    #[error("gaussian-nb: a prior is {value}; priors must be non-negative")]
    Prior {
        /// What was given.
        value: f64,
    },
    /// Priors that are no distribution.
    #[error("gaussian-nb: the sum of the priors is {sum}; it should be 1")]
    PriorsSum {
        /// Their sum.
        sum: f64,
    },
    /// NaN or an infinity.
    #[error(
        "gaussian-nb: row {row}, column {column} (counted from 0) is {value}; remove such rows or fill them in before fitting"
    )]
    NotFinite {
        /// Row of the data.
        row: u64,
        /// Column of the data.
        column: u64,
        /// NaN or an infinity.
        value: f64,
    },
    /// A batch of another width.
    #[error(
        "gaussian-nb: the data has {found} columns and the model {expected}; give rows like those it was fitted to"
    )]
    Columns {
        /// Columns of the data.
        found: usize,
        /// Columns of the model.
        expected: usize,
    },
    /// A round failed, or the data could not be read.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

/// What fitting came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The model.
    pub model: GaussianModel,
    /// Rows it has seen in this fit.
    pub rows: u64,
}

/// Fits a model to rows with the numbers of their classes, in one round.
pub fn fit<T: Real>(
    master: &Master,
    params: &Params,
    data: &DataSet<Dense<T>>,
    targets: &[f64],
    weights: Option<&[f64]>,
    priors: Option<&[f64]>,
) -> Result<Fit, FitError> {
    let mut classes = targets.to_vec();
    classes.sort_unstable_by(f64::total_cmp);
    classes.dedup();
    let none = GaussianModel::none(classes, columns(data)?);
    update(master, params, data, targets, weights, priors, none)
}

/// Has a model learn from one more batch. Its first batch is taken in by [`GaussianModel::none`].
pub fn update<T: Real>(
    master: &Master,
    params: &Params,
    data: &DataSet<Dense<T>>,
    targets: &[f64],
    weights: Option<&[f64]>,
    priors: Option<&[f64]>,
    before: GaussianModel,
) -> Result<Fit, FitError> {
    let (rows, classes) = (data.records(), before.classes().len());
    if classes > CLASSES_MAX {
        return Err(FitError::Classes);
    }
    check_weights(weights, rows)?;
    check_priors(priors, classes)?;
    let of_rows = class_of_rows(targets, before.classes(), rows)?;
    let found = columns(data)?;
    if found != before.columns() {
        return Err(FitError::Columns { found, expected: before.columns() });
    }
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    let row_classes = RowClasses {
        classes: classes as u32,
        of_rows,
        weights: weights.unwrap_or_default().to_vec(),
        chunks: data.len() as u64,
    };
    let seen: ClassMoments = master.run(moments::<T>, &row_classes, &data)?;
    if let Some((row, column, value)) = seen.bad {
        return Err(FitError::NotFinite { row, column, value });
    }
    let epsilon = params.var_smoothing() * seen.all.variances().fold(0.0, f64::max);
    Ok(Fit { model: merged(before, &seen.classes, epsilon, priors), rows })
}

/// Merges a batch into a model. What smoothing adds is taken off the old variances and added to the new ones.
fn merged(before: GaussianModel, batch: &[Moments], epsilon: f64, priors: Option<&[f64]>) -> GaussianModel {
    let off = if before.counts().iter().any(|count| *count > 0.0) { epsilon } else { 0.0 };
    let (mut counts, mut means, mut variances) = (vec![], vec![], vec![]);
    for (class, moments) in batch.iter().enumerate() {
        let weight = before.counts()[class];
        let old = before.variance(class).iter().map(|variance| (variance - off) * weight);
        let mut all = Moments { weight, mean: before.mean(class).to_vec(), squares: old.collect() };
        match moments.weight > NO_WEIGHT {
            true => all.add(moments),
            false => all.weight += moments.weight,
        }
        let smoothed: Vec<f64> = match all.weight > NO_WEIGHT {
            true => all.variances().map(|variance| variance + epsilon).collect(),
            false => before.variance(class).iter().map(|variance| variance - off + epsilon).collect(),
        };
        counts.push(all.weight);
        means.extend(all.mean);
        variances.extend(smoothed);
    }
    let total: f64 = counts.iter().sum();
    let shares = || counts.iter().map(|count| count / total).collect();
    let priors = priors.map_or_else(shares, <[f64]>::to_vec);
    before.with(counts, priors, epsilon, means, variances)
}

fn columns<T: Real>(data: &DataSet<Dense<T>>) -> Result<usize, FitError> {
    Ok(data.chunk(0).map_err(qjam::Error::from)?.cols())
}

fn check_weights(weights: Option<&[f64]>, rows: u64) -> Result<(), FitError> {
    let Some(weights) = weights else { return Ok(()) };
    if weights.len() as u64 != rows {
        return Err(FitError::Weights { weights: weights.len(), rows });
    }
    if let Some(row) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        return Err(FitError::Weight { row, value: weights[row] });
    }
    match weights.iter().any(|weight| *weight > 0.0) {
        true => Ok(()),
        false => Err(FitError::NoWeight),
    }
}

fn check_priors(priors: Option<&[f64]>, classes: usize) -> Result<(), FitError> {
    let Some(priors) = priors else { return Ok(()) };
    if priors.len() != classes {
        return Err(FitError::Priors { found: priors.len(), classes });
    }
    if let Some(value) = priors.iter().find(|prior| prior.is_nan() || **prior < 0.0) {
        return Err(FitError::Prior { value: *value });
    }
    let sum: f64 = priors.iter().sum();
    match (sum - 1.0).abs() <= 1e-5 {
        true => Ok(()),
        false => Err(FitError::PriorsSum { sum }),
    }
}

/// The index of each row's class.
fn class_of_rows(targets: &[f64], classes: &[f64], rows: u64) -> Result<Vec<u32>, FitError> {
    if targets.len() as u64 != rows {
        return Err(FitError::Targets { targets: targets.len(), rows });
    }
    let index = |(row, target): (usize, &f64)| {
        let found = classes.binary_search_by(|class| class.total_cmp(target));
        found.map(|class| class as u32).map_err(|_| FitError::Class { row, value: *target })
    };
    targets.iter().enumerate().map(index).collect()
}
