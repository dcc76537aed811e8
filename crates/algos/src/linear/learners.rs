//! The learners by name: regression with ridge, lasso and elastic net, logistic regression, support vector machines.
//!
//! Each makes an [`Objective`] of what it is given, and of the fit the numbers that people ask for: coefficients, intercept, and
//! objective and gap in the scaling that λ was given in.

use super::cocoa::{Fit, FitError, Objective, Seen, fit, fit_from};
use super::columns::Columns;
use super::loss::Loss;
use super::params::{Params, ParamsError};
use super::partition::{Partitioned, PrepareError, must_be_labels, must_be_targets};
use super::scaling::{Penalty, PenaltyError, Scaling};
use super::separable::Separable;
use qjam::Master;
use thiserror::Error;

/// Why there is no model.
#[derive(Debug, Error)]
pub enum LearnError {
    /// Targets or labels that cannot be used.
    #[error(transparent)]
    Data(#[from] PrepareError),
    /// A penalty that is none.
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
    /// A price that is none.
    #[error("linear: C is {value}; give a positive, finite number")]
    Price {
        /// What was given.
        value: f64,
    },
    /// Nothing to tell apart.
    #[error("linear: {}; there must be two classes at least", one_class(*class))]
    OneClass {
        /// The only one there is, if any row counts.
        class: Option<f64>,
    },
    /// Targets that are no classes.
    #[error("linear: over {} classes among the first {rows} rows; targets of a classifier are numbers that stand for classes", found - 1)]
    Classes {
        /// How many were found before looking was given up.
        found: usize,
        /// Rows looked at.
        rows: usize,
    },
    /// Not one weight for each row.
    #[error("linear: {weights} weights for {rows} rows; there must be one for each")]
    Weights {
        /// Weights there are.
        weights: usize,
        /// Rows there are.
        rows: usize,
    },
    /// A weight that is none.
    #[error(
        "linear: the weight of row {row} (counted from 0) is {value}; weights must be finite and not negative"
    )]
    Weight {
        /// Which row.
        row: usize,
        /// What is there.
        value: f64,
    },
    /// No row counts.
    #[error("linear: all {rows} rows weigh 0; nothing can be learnt from them")]
    NoWeight {
        /// How many there are.
        rows: usize,
    },
    /// Chunks of different widths.
    #[error("linear: not all rows have as many columns; give data of one width")]
    Widths,
    /// Coefficients to begin with that do not fit.
    #[error(
        "linear: {found} coefficients to begin with; there must be {expected}, one for each column and model"
    )]
    Start {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// More than a direct solver can take.
    #[error(
        "linear: the direct solver would sum up the products of all pairs of {columns} columns; it takes up to {most}: give auto or cocoa"
    )]
    TooWide {
        /// Columns of the data.
        columns: usize,
        /// Most it takes.
        most: usize,
    },
    /// Coefficients that cannot be told apart.
    #[error(
        "linear: the columns depend on each other so much that the direct solver cannot tell them apart beside this penalty; give auto or cocoa, or a larger penalty"
    )]
    Singular,
    /// More coefficients than the direct solver can take.
    #[error(
        "linear: the direct solver would sum up the products of all pairs of {coefficients} coefficients of all classes; it takes up to {most}: give auto or lbfgs"
    )]
    TooMany {
        /// Coefficients of all classes, with intercepts.
        coefficients: usize,
        /// Most it takes.
        most: usize,
    },
    /// A solver that tells one class from the rest.
    #[error(
        "linear: {solver} tells one class from the rest at a time, and there are {classes}; give the solver auto, direct or lbfgs, or multi_class ovr"
    )]
    NotTogether {
        /// What it is called.
        solver: &'static str,
        /// Classes there are.
        classes: usize,
    },
    /// More classes than are learnt together.
    #[error(
        "linear: {classes} classes are too many for one model of all of them, which takes up to {most}; give multi_class ovr"
    )]
    TooManyClasses {
        /// Classes there are.
        classes: usize,
        /// Most it takes.
        most: usize,
    },
    /// A solver for one model of all classes.
    #[error(
        "linear: lbfgs tells classes apart together; with multi_class ovr give the solver auto, direct or cocoa"
    )]
    NotApart,
    /// A specification that makes no sense.
    #[error(transparent)]
    Spec(#[from] super::spec::SpecError),
    /// Settings that do not go together.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A model could not be made or used.
    #[error(transparent)]
    Model(#[from] super::model::ModelError),
    /// The fit failed.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

fn one_class(class: Option<f64>) -> String {
    class.map_or("no row counts".into(), |class| format!("all rows are of class {class}"))
}

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
    observer: impl FnMut(&Seen),
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
    observer: impl FnMut(&Seen),
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
    observer: impl FnMut(&Seen),
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
    observer: impl FnMut(&Seen),
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
