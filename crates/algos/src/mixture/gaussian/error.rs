//! Why there is no mixture, or no answer.

use super::NAME;
use crate::clustering::kmeans::FitError;
use crate::learner::{LearnerError, sort_model_errors};
use thiserror::Error;

/// Why there is no mixture, or no answer. Rows, columns and components are counted from 0.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the message of each says what its fields are")]
pub enum MixtureError {
    /// NaN or an infinity.
    #[error(
        "{NAME}: row {row}, column {column} (counted from 0) is {value}; remove such rows or fill them in"
    )]
    NotFinite { row: u64, column: u64, value: f64 },
    /// Rows of another width than those of the model.
    #[error(
        "{NAME}: the data has {found} columns and the model {expected}; give rows like those it was fitted to"
    )]
    Columns { found: usize, expected: usize },
    /// Too few rows.
    #[error("{NAME}: {rows} sample(s) in the data; there must be at least 2")]
    Rows { rows: u64 },
    /// More components than rows.
    #[error(
        "{NAME}: {asked} components of {rows} rows; ask for at most as many components as there are rows"
    )]
    Components { asked: usize, rows: u64 },
    /// An array to begin from that has another size.
    #[error(
        "{NAME}: {what} has {found} numbers; for {components} components of {columns} columns it has {expected}"
    )]
    Size { what: &'static str, found: usize, expected: usize, components: usize, columns: usize },
    /// A number to begin from that cannot be used.
    #[error("{NAME}: number {at} (counted from 0) of {what} is {value}; {give}")]
    Number { what: &'static str, at: usize, value: f64, give: &'static str },
    /// Weights to begin from that are no distribution.
    #[error("{NAME}: the weights to begin from add up to {sum}; they must add up to 1")]
    WeightsSum { sum: f64 },
    /// A precision to begin from that is none.
    #[error("{NAME}: precision {component} to begin from is not symmetric and positive definite")]
    Precision { component: usize },
    /// Covariances that are singular.
    #[error(
        "{NAME}: the covariances of component {component} are singular, though {regularization} is added to variances: rows \
         coincide, columns depend on each other, or too few rows are left to it. Ask for fewer components, add more, or scale \
         the columns"
    )]
    Singular { component: usize, regularization: f64 },
    /// Sums that overflow.
    #[error(
        "{NAME}: densities cannot be computed, since numbers are too large or too far apart; scale the columns"
    )]
    Overflow,
    /// No first clusters.
    #[error("{NAME}: the start by k-means failed: {0}")]
    Start(#[from] FitError),
    /// A round failed, or the data could not be read.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

sort_model_errors!(MixtureError as e {
    MixtureError::Start(FitError::Run(e)) => LearnerError::Run(e),
    e => LearnerError::unusable(e),
});
