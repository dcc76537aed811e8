//! Many columns: CoCoA on columns for regressions and logistic regression, on rows for support vector machines.

use super::cocoa::{Fit, Objective, Seen, fit, fit_from};
use super::examples::Examples;
use super::learners::{LearnError, Margin};
use super::loss::Loss;
use super::partition::Partitioned;
use super::scaling::Penalty;
use super::separable::Separable;
use super::spec::Spec;
use qjam::{Csc, Dense, Master};

/// Columns in partitions, in one of the four ways.
pub(super) enum Dealt {
    DenseF32(Partitioned<Dense<f32>>),
    DenseF64(Partitioned<Dense<f64>>),
    SparseF32(Partitioned<Csc<f32>>),
    SparseF64(Partitioned<Csc<f64>>),
}

/// Runs the same code for each of them.
macro_rules! each_dealt {
    ($dealt:expr, $data:ident => $body:expr) => {
        match $dealt {
            Dealt::DenseF32($data) => $body,
            Dealt::DenseF64($data) => $body,
            Dealt::SparseF32($data) => $body,
            Dealt::SparseF64($data) => $body,
        }
    };
}

impl Dealt {
    /// The columns of some rows.
    pub(super) fn columns_of(examples: &Examples<'_>, partitions: usize) -> Result<Dealt, LearnError> {
        Ok(match examples {
            Examples::DenseF32(data) => Dealt::DenseF32(Partitioned::dense_columns_of(data, partitions)?),
            Examples::DenseF64(data) => Dealt::DenseF64(Partitioned::dense_columns_of(data, partitions)?),
            Examples::CsrF32(data) => Dealt::SparseF32(Partitioned::columns_of(data, partitions)?),
            Examples::CsrF64(data) => Dealt::SparseF64(Partitioned::columns_of(data, partitions)?),
        })
    }

    /// Rows times their labels, with a constant feature if it is not 0.
    pub(super) fn rows_of(
        examples: &Examples<'_>,
        labels: &[f64],
        constant: f64,
        partitions: usize,
    ) -> Result<Dealt, LearnError> {
        Ok(match examples {
            Examples::DenseF32(data) => {
                Dealt::DenseF32(Partitioned::dense_examples_of(data, labels, constant, partitions)?)
            }
            Examples::DenseF64(data) => {
                Dealt::DenseF64(Partitioned::dense_examples_of(data, labels, constant, partitions)?)
            }
            Examples::CsrF32(data) => {
                Dealt::SparseF32(Partitioned::examples_of(data, labels, constant, partitions)?)
            }
            Examples::CsrF64(data) => {
                Dealt::SparseF64(Partitioned::examples_of(data, labels, constant, partitions)?)
            }
        })
    }

    pub(super) fn partitions(&self) -> usize {
        each_dealt!(self, data => data.partitions())
    }
}

/// How many partitions there are when nobody says: a function of the data alone, so that bits do not depend on the workers.
pub fn partitions_for(entries: u64) -> usize {
    /// Below this, exchanging costs more than descending.
    const ENTRIES: u64 = 4_000_000;
    (entries.div_ceil(ENTRIES) as usize).clamp(2, 64)
}

/// Coefficients and what they come to, in the ½-sum form.
pub(super) struct Found {
    pub(super) coefficients: Vec<f64>,
    pub(super) intercept: f64,
    pub(super) objective: f64,
    pub(super) bound: f64,
    pub(super) fit: Fit,
}

/// Least squares: `targets` are those of rows that were scaled by the roots of their weights, if there are any.
pub(super) fn regress(
    master: &Master,
    dealt: &Dealt,
    targets: &[f64],
    roots: Option<&[f64]>,
    penalty: Penalty,
    spec: &Spec,
    start: &[f64],
    observer: &mut dyn FnMut(&Seen),
) -> Result<Found, LearnError> {
    let weight: f64 = roots.map_or(targets.len() as f64, |roots| roots.iter().map(|root| root * root).sum());
    let root = |row: usize| roots.map_or(1.0, |roots| roots[row]);
    let mean = match spec.intercept {
        true => targets.iter().enumerate().map(|(row, t)| t * root(row) * root(row)).sum::<f64>() / weight,
        false => 0.0,
    };
    let targets = targets.iter().enumerate().map(|(row, t)| (t - mean) * root(row)).collect();
    let objective = Objective {
        loss: Loss::Squares { targets },
        terms: penalty.into(),
        centred: spec.intercept,
        free: false,
    };
    let params = spec.params_for(dealt.partitions())?;
    let fit = each_dealt!(dealt, data => fit_from(master, data, &objective, &params, start, observer))?;
    let along: f64 = fit.coordinates.iter().zip(&fit.column_sums).map(|(a, sum)| a * sum).sum();
    let intercept = if spec.intercept { mean - along / weight } else { 0.0 };
    Ok(found(fit, intercept))
}

/// Logistic regression of labels −1 and 1.
pub(super) fn logistic(
    master: &Master,
    dealt: &Dealt,
    labels: Vec<f64>,
    penalty: Penalty,
    spec: &Spec,
    start: &[f64],
    observer: &mut dyn FnMut(&Seen),
) -> Result<Found, LearnError> {
    let objective = Objective {
        loss: Loss::Logistic { labels },
        terms: penalty.into(),
        centred: false,
        free: spec.intercept,
    };
    let params = spec.params_for(dealt.partitions())?;
    let fit = each_dealt!(dealt, data => fit_from(master, data, &objective, &params, start, observer))?;
    let constant = fit.constant;
    Ok(found(fit, constant))
}

fn found(fit: Fit, intercept: f64) -> Found {
    Found {
        coefficients: fit.coordinates.clone(),
        intercept,
        objective: fit.objective,
        bound: fit.bound,
        fit,
    }
}

/// A support vector machine by its dual. Objective and bound are those of `½‖w‖² + C Σ margin` divided by C.
pub(super) fn svm(
    master: &Master,
    dealt: &Dealt,
    price: f64,
    constant: f64,
    spec: &Spec,
    observer: &mut dyn FnMut(&Seen),
) -> Result<Found, LearnError> {
    let terms = match spec.margin {
        Margin::Hinge => Separable::hinge(price),
        Margin::SquaredHinge => Separable::squared_hinge(price),
    };
    let params = spec.params_for(dealt.partitions())?;
    let fit = each_dealt!(dealt, data => {
        let objective = Objective { loss: Loss::norm(data.rows()), terms, centred: false, free: false };
        fit(master, data, &objective, &params, observer)
    })?;
    let mut coefficients = fit.product.clone();
    let intercept = match constant == 0.0 {
        true => 0.0,
        false => coefficients.pop().unwrap_or(0.0) * constant,
    };
    Ok(Found { coefficients, intercept, objective: -fit.bound / price, bound: -fit.objective / price, fit })
}
