//! The learners by name: regression with ridge, lasso and elastic net, logistic regression, support vector machines.
//!
//! Each makes an [`Objective`] of what it is given, and of the fit the numbers that people ask for: coefficients, intercept, and
//! objective and gap in the scaling that λ was given in.

use super::cocoa::{CocoaRound, Fit, Objective, fit, fit_from};
use super::columns::Columns;
use super::loss::Loss;
use super::params::Params;
use super::partition::{Partitioned, must_be_labels, must_be_targets};
use super::separable::Separable;
use crate::linear::error::LearnError;
use crate::linear::scaling::{Penalty, Scaling};
use qjam::Master;

/// What was learnt.
#[derive(Clone, Debug)]
pub struct Learned {
    /// One for each column of the data.
    pub coefficients: Vec<f64>,
    /// What is added to every prediction.
    pub intercept: f64,
    /// The objective, in the scaling that λ was given in.
    pub objective: f64,
    /// How far above the optimum that is at most, in the same scaling.
    pub gap: f64,
    /// How it came about.
    pub fit: Fit,
}

/// A penalty as it is given: `λ (η/2 ‖a‖² + (1 − η) ‖a‖₁)` beside a loss of this scaling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    /// λ.
    pub lambda: f64,
    /// 1 is ridge, 0 is lasso.
    pub eta: f64,
    /// Of the loss beside it.
    pub scaling: Scaling,
    /// Whether there is an intercept, which costs nothing.
    pub intercept: bool,
}

/// Least squares with ridge, lasso or elastic net, over the columns of the data.
pub fn regress<C: Columns>(
    master: &Master,
    columns: &Partitioned<C>,
    targets: &[f64],
    given: &Given,
    params: &Params,
    observer: impl FnMut(&CocoaRound),
) -> Result<Learned, LearnError> {
    regress_from(master, columns, targets, given, params, &[], observer)
}

/// The same for several λ, each from where the one before ended. From the largest to the smallest they are cheapest.
pub fn path<C: Columns>(
    master: &Master,
    columns: &Partitioned<C>,
    targets: &[f64],
    given: &Given,
    lambdas: &[f64],
    params: &Params,
) -> Result<Vec<Learned>, LearnError> {
    let mut all: Vec<Learned> = Vec::with_capacity(lambdas.len());
    for lambda in lambdas {
        let given = Given { lambda: *lambda, ..*given };
        let start = all.last().map_or(&[][..], |last| &last.coefficients);
        let learned = regress_from(master, columns, targets, &given, params, start, |_| {})?;
        all.push(learned);
    }
    Ok(all)
}

fn regress_from<C: Columns>(
    master: &Master,
    columns: &Partitioned<C>,
    targets: &[f64],
    given: &Given,
    params: &Params,
    start: &[f64],
    observer: impl FnMut(&CocoaRound),
) -> Result<Learned, LearnError> {
    let rows = columns.rows();
    must_be_targets(targets, rows)?;
    let penalty = Penalty::elastic_net(given.lambda, given.eta, given.scaling, rows)?;
    let mean = if given.intercept { targets.iter().sum::<f64>() / rows as f64 } else { 0.0 };
    let targets = targets.iter().map(|t| t - mean).collect();
    let objective = Objective {
        loss: Loss::Squares { targets },
        terms: penalty.into(),
        centred: given.intercept,
        free: false,
    };
    let fit = fit_from(master, columns, &objective, params, start, observer)?;
    let along: f64 = fit.coordinates.iter().zip(&fit.column_sums).map(|(a, sum)| a * sum).sum();
    let intercept = if given.intercept { mean - along / rows as f64 } else { 0.0 };
    Ok(learned(fit, intercept, given.scaling, rows))
}

/// Logistic regression of labels −1 and 1 over the columns of the data. [`Scaling::Sum`] means what
/// [`Scaling::HalfSum`] does here: the loss has no half to leave out.
pub fn logistic<C: Columns>(
    master: &Master,
    columns: &Partitioned<C>,
    labels: &[f64],
    given: &Given,
    params: &Params,
    observer: impl FnMut(&CocoaRound),
) -> Result<Learned, LearnError> {
    let rows = columns.rows();
    must_be_labels(labels, rows)?;
    let scaling = if given.scaling == Scaling::Sum { Scaling::HalfSum } else { given.scaling };
    let penalty = Penalty::elastic_net(given.lambda, given.eta, scaling, rows)?;
    let objective = Objective {
        loss: Loss::Logistic { labels: labels.to_vec() },
        terms: penalty.into(),
        centred: false,
        free: given.intercept,
    };
    let fit = fit(master, columns, &objective, params, observer)?;
    let intercept = fit.constant;
    Ok(learned(fit, intercept, scaling, rows))
}

fn learned(fit: Fit, intercept: f64, scaling: Scaling, rows: usize) -> Learned {
    Learned {
        coefficients: fit.coordinates.clone(),
        intercept,
        objective: scaling.objective(fit.objective, rows),
        gap: scaling.objective(fit.gap(), rows),
        fit,
    }
}

/// What a support vector machine charges for a row on the wrong side of its margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Margin {
    /// `max(0, 1 − y x·w)`.
    #[default]
    Hinge,
    /// Its square.
    SquaredHinge,
}

/// A linear support vector machine, `½‖w‖² + C Σ margin`, by its dual: over the [examples](Partitioned::examples_of) of the
/// data. `constant` is what they were made with; an intercept is part of `w` then and costs what any weight does, as
/// liblinear has it. A mean instead of a sum, `λ/2 ‖w‖² + 1/N Σ margin`, is `C = 1/(λ N)`.
///
/// The objective is the primal one and the gap its distance to the dual.
pub fn svm<C: Columns>(
    master: &Master,
    examples: &Partitioned<C>,
    price: f64,
    margin: Margin,
    constant: f64,
    params: &Params,
    observer: impl FnMut(&CocoaRound),
) -> Result<Learned, LearnError> {
    if !(price > 0.0 && price.is_finite()) {
        return Err(LearnError::Price { value: price });
    }
    let terms = match margin {
        Margin::Hinge => Separable::hinge(price),
        Margin::SquaredHinge => Separable::squared_hinge(price),
    };
    let loss = Loss::norm(examples.rows());
    let objective = Objective { loss, terms, centred: false, free: false };
    let fit = fit(master, examples, &objective, params, observer)?;
    let mut coefficients = fit.product.clone();
    let intercept = match constant == 0.0 {
        true => 0.0,
        false => coefficients.pop().unwrap_or(0.0) * constant,
    };
    Ok(Learned { coefficients, intercept, objective: -fit.bound, gap: fit.gap(), fit })
}
