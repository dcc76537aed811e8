//! Why a linear learner gives no model.

use super::model::ModelError;
use super::params::SpecError;
use super::scaling::PenaltyError;
use super::solvers::coordinate::cocoa::FitError;
use super::solvers::coordinate::params::ParamsError;
use super::solvers::coordinate::partition::PrepareError;
use thiserror::Error;

/// Why there is no model.
#[derive(Debug, Error)]
pub enum LearnError {
    /// Targets or labels that cannot be used.
    #[error(transparent)]
    Data(#[from] PrepareError),
    /// A penalty that is not a finite number, or negative.
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
    /// A price that is not a positive, finite number.
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
    /// A weight that is negative or not finite.
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
    /// A solver that keeps no coefficient from being negative.
    #[error("linear: {solver} finds coefficients of any sign; with positive give the solver auto or direct")]
    NotPositive {
        /// What it is called.
        solver: &'static str,
    },
    /// More columns than coefficients of one sign are found for.
    #[error("linear: positive takes up to {most} columns, whose products are summed up; there are {columns}")]
    PositiveTooWide {
        /// Columns of the data.
        columns: usize,
        /// Most it takes.
        most: usize,
    },
    /// A solver that needs a penalty.
    #[error("linear: {solver} needs an alpha over 0; give the solver auto, direct or newton-cg")]
    NoPenalty {
        /// What it is called.
        solver: &'static str,
    },
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
    Spec(#[from] SpecError),
    /// Settings that do not go together.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A model could not be made or used.
    #[error(transparent)]
    Model(#[from] ModelError),
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
