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

pub use crate::input::{CLASSES_MAX, InputError as FitError};
pub use model::GaussianModel;
pub use params::Params;

use crate::clustering::kmeans::parts;
use crate::input::{Labels, Problem, check_priors};
use crate::kernels::nearest::Real;
use moments::{ClassMoments, Moments, moments};
use qjam::{DataSet, Dense, Master};

/// What the command calls it.
const NAME: &str = "gaussian-nb";
/// Weights of a class that are not more than this are none, as in scikit-learn.
const NO_WEIGHT: f64 = 1e-8;

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
    let classes = Labels { targets, weights }.classes();
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
    let wrong = |problem: Problem| problem.of(NAME);
    check_priors(priors, classes).map_err(wrong)?;
    let found = columns(data)?;
    if found != before.columns() {
        return Err(wrong(Problem::Columns { found, expected: before.columns() }));
    }
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    let labels = Labels { targets, weights };
    let of_rows = labels.checked(before.classes(), rows, data.len()).map_err(wrong)?;
    let seen: ClassMoments = master.run(moments::<T>, &of_rows, &data)?;
    if let Some((row, column, value)) = seen.bad {
        return Err(wrong(Problem::NotFinite { row, column, value }));
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
