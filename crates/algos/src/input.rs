//! What learners are given beside their rows (classes, weights, priors), checked, and what can be wrong with all of it.
//!
//! Targets and weights come from the caller as one number for each row. [`Labels::checked`] makes the parameters of a round of
//! them, in which a chunk function finds those of its own rows ([`RowClasses::of_chunk`]).

use crate::learner::LearnerError;
use thiserror::Error;

/// Most classes there may be.
pub const CLASSES_MAX: usize = 10_000;

/// Why there is no model, or no answer.
#[derive(Debug, Error)]
pub enum InputError {
    /// Data or parameters that cannot be used.
    #[error("{learner}: {problem}")]
    Unusable {
        /// What the command calls the learner.
        learner: &'static str,
        /// What is wrong.
        problem: Problem,
    },
    /// A round failed, or the data could not be read.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

/// What is wrong with data or parameters. Rows and columns are counted from 0.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the message of each says what its fields are")]
pub enum Problem {
    /// Not one target for each row.
    #[error("{targets} targets for {rows} rows; there must be one for each")]
    Targets { targets: usize, rows: u64 },
    /// A target that stands for no class.
    #[error(
        "the target of row {row} (counted from 0) is {value}, which is none of the classes that were given"
    )]
    Class { row: usize, value: f64 },
    /// A target that is no number to be learnt.
    #[error("the target of row {row} (counted from 0) is {value}; targets are {must}")]
    Target { row: usize, value: f64, must: &'static str },
    /// Too few rows to judge epochs by.
    #[error(
        "The validation set is too small: {kept} of {rows} rows would be kept from training, and there must be 2 of both; \
         increase the share, or train without early stopping"
    )]
    Kept { kept: u64, rows: u64 },
    /// A network to go on from that is another one.
    #[error(
        "the network to go on from has other layers, units or outputs than were asked for; give the options that it was fitted with, \
         or begin anew"
    )]
    OtherNetwork,
    /// Layers that make no network.
    #[error(
        "layers of {sizes:?} units make no network: each needs at least one, and all weights must fit into memory"
    )]
    Layers { sizes: Vec<usize> },
    /// More classes than a model can have.
    #[error("over {CLASSES_MAX} classes; targets are numbers that stand for classes")]
    Classes,
    /// Not one weight for each row.
    #[error("{weights} weights for {rows} rows; there must be one for each")]
    Weights { weights: usize, rows: u64 },
    /// A weight that cannot be one.
    #[error("the weight of row {row} (counted from 0) is {value}; weights are finite and not negative")]
    Weight { row: usize, value: f64 },
    /// All weights are 0.
    #[error("all weights are 0; at least one row must count")]
    NoWeight,
    /// Not one prior for each class.
    #[error("{found} priors for {classes} classes; the number of priors must match the number of classes")]
    Priors { found: usize, classes: usize },
    /// A prior that is no probability.
    #[error("a prior is {value}; priors must be non-negative")]
    Prior { value: f64 },
    /// Priors that are no distribution.
    #[error("the sum of the priors is {sum}; it should be 1")]
    PriorsSum { sum: f64 },
    /// NaN or an infinity.
    #[error("row {row}, column {column} (counted from 0) is {value}; remove such rows or fill them in")]
    NotFinite { row: u64, column: u64, value: f64 },
    /// A negative number where only counts make sense.
    #[error(
        "Negative values in data passed to the learner: row {row}, column {column} (counted from 0) is {value}; counts are not negative"
    )]
    Negative { row: u64, column: u64, value: f64 },
    /// Rows of another width than those of the model.
    #[error("the data has {found} columns and the model {expected}; give rows like those it was fitted to")]
    Columns { found: usize, expected: usize },
    /// Too few rows.
    #[error("{rows} sample(s) in the data; there must be at least {min}")]
    Rows { rows: u64, min: u64 },
    /// More components than rows or columns.
    #[error("{asked} components are asked for; there may be as many as rows or columns, {max}")]
    Components { asked: u64, max: u64 },
    /// More components than columns.
    #[error("{asked} components are asked for; there may be as many as columns, {max}")]
    ComponentsOfColumns { asked: u64, max: u64 },
    /// More components than directions with variance.
    #[error(
        "{asked} components are asked for and {rank} directions have variance: columns are constant or depend on each other; \
         ask for fewer components"
    )]
    Rank { asked: u64, rank: u64 },
    /// Directions to begin from that are not one for each component.
    #[error(
        "the directions to begin from have {found} numbers for {components} components; give as many rows and columns as components"
    )]
    StartDirections { found: usize, components: usize },
    /// A number of components that is neither whole nor a share.
    #[error(
        "{asked} components are asked for; give a whole number, or a share of the variance between 0 and 1"
    )]
    NotWhole { asked: f64 },
    /// A share of the variance where directions are found one by one.
    #[error(
        "a share of the variance ({share}) needs all directions; choose another solver than randomized, or a whole number"
    )]
    Share { share: f64 },
    /// Sums of products that overflow.
    #[error("the covariances are too large to compute with; scale the columns")]
    Overflow,
    /// Shrinkage with the solver that has none.
    #[error("the solver svd has no shrinkage; choose another solver, or no shrinkage")]
    Shrinkage,
    /// Nothing to tell apart.
    #[error("The number of classes has to be greater than one. Got 1 class.")]
    OneClass,
    /// As many classes as rows.
    #[error("The number of samples must be more than the number of classes; there are {rows} of both")]
    RowsOfClasses { rows: u64 },
    /// More directions than classes or columns allow.
    #[error(
        "{asked} components are asked for; n_components cannot be larger than min(n_features, n_classes - 1) = {max}"
    )]
    Directions { asked: u64, max: u64 },
    /// Too few rows of a class for covariances.
    #[error("y has only {rows} sample in class {class}, covariance is ill defined; give at least 2")]
    RowsOfClass { class: f64, rows: u64 },
    /// Covariances of a class that are singular.
    #[error(
        "The covariance matrix of class {class} is not full rank: columns depend on each other, or there are too few rows; \
         increase {option}, or leave columns out"
    )]
    NotFullRank { class: f64, option: &'static str },
    /// Zeros of sparse rows would become other numbers.
    #[error(
        "Cannot center sparse matrices: their zeros would be other numbers. Scale without centring \
         (`with_mean=False`, --no-center), or give dense rows"
    )]
    Centre,
    /// A decomposition to go on from that keeps nothing to add to.
    #[error(
        "the model to go on from was fitted to all rows at once and keeps no products of columns; begin with batches"
    )]
    NoProducts,
    /// A scaler to go on from that is another one.
    #[error("the model to go on from is a {found}; give a {expected}")]
    OtherScaler { found: &'static str, expected: &'static str },
    /// Arrays in units that rows are taken out of.
    #[error(
        "the rows are to be scaled first, and {array} would be in the units of the data as it is; leave out one of these"
    )]
    Units { array: String },
    /// Covariances within classes that are singular.
    #[error(
        "the covariance matrix within classes is not positive definite: columns depend on each other; use shrinkage, or the \
         solver svd"
    )]
    Singular,
    /// Not one smoothing number for each column.
    #[error("alpha has {found} numbers for {columns} columns; give one number, or one for each column")]
    Alphas { found: usize, columns: usize },
    /// A smoothing number that cannot be one.
    #[error("a number of alpha is {value}; all must be finite and not negative")]
    Alpha { value: f64 },
    /// Zeros of sparse rows would become ones.
    #[error(
        "sparse rows cannot be made binary at {threshold}: their zeros would be ones; give a threshold of at least 0, or dense rows"
    )]
    Threshold { threshold: f64 },
}

impl Problem {
    /// The error of this learner.
    pub fn of(self, learner: &'static str) -> InputError {
        InputError::Unusable { learner, problem: self }
    }
}

impl InputError {
    /// The same about rows with so many others before them.
    pub(crate) fn behind(mut self, before: u64) -> InputError {
        if let InputError::Unusable { problem: Problem::NotFinite { row, .. }, .. } = &mut self {
            *row += before;
        }
        self
    }
}

impl From<InputError> for LearnerError {
    fn from(e: InputError) -> LearnerError {
        match e {
            InputError::Run(e) => LearnerError::Run(e),
            InputError::Unusable { problem: Problem::NotFinite { .. }, .. } => {
                LearnerError::not_finite(e, vec![])
            }
            InputError::Unusable { problem: Problem::Columns { found, expected }, .. } => {
                LearnerError::Columns { found, expected, source: e.into() }
            }
            e => LearnerError::unusable(e),
        }
    }
}

/// The first row of a chunk, where so many rows are cut into so many chunks as equal as can be.
pub(crate) fn first_of_chunk(rows: u64, chunks: u64, chunk: u64) -> u64 {
    chunk * (rows / chunks) + chunk.min(rows % chunks)
}

/// The class of every row, and its weight: what a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct RowClasses {
    /// How many classes there are.
    pub classes: u32,
    /// The class of every row.
    pub of_rows: Vec<u32>,
    /// The weight of every row; empty if all are 1.
    pub weights: Vec<f64>,
    /// Chunks of the data set, which are as equal as can be.
    pub chunks: u64,
}

impl RowClasses {
    /// Classes and weights of the rows of a chunk, of which there are so many.
    pub fn of_chunk(&self, chunk: u32, count: usize) -> (&[u32], Option<&[f64]>) {
        let from = self.start(u64::from(chunk));
        let weights = (!self.weights.is_empty()).then(|| &self.weights[from..from + count]);
        (&self.of_rows[from..from + count], weights)
    }

    /// The first row of a chunk.
    fn start(&self, chunk: u64) -> usize {
        first_of_chunk(self.of_rows.len() as u64, self.chunks, chunk) as usize
    }
}

/// Targets and weights of rows, as the caller gives them.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// A number for each row that stands for its class.
    pub targets: &'a [f64],
    /// How much each row counts.
    pub weights: Option<&'a [f64]>,
}

impl Labels<'_> {
    /// The classes that targets name, in order.
    pub fn classes(&self) -> Vec<f64> {
        let mut classes = self.targets.to_vec();
        classes.sort_unstable_by(f64::total_cmp);
        classes.dedup();
        classes
    }

    /// The parameters of a round over rows that are cut into so many equal chunks.
    pub fn checked(&self, classes: &[f64], rows: u64, chunks: usize) -> Result<RowClasses, Problem> {
        if classes.len() > CLASSES_MAX {
            return Err(Problem::Classes);
        }
        check_weights(self.weights, rows)?;
        Ok(RowClasses {
            classes: classes.len() as u32,
            of_rows: class_of_rows(self.targets, classes, rows)?,
            weights: self.weights.unwrap_or_default().to_vec(),
            chunks: chunks as u64,
        })
    }
}

/// Refuses weights that are not one for each row, finite, not negative, and not all 0.
pub(crate) fn check_weights(weights: Option<&[f64]>, rows: u64) -> Result<(), Problem> {
    let Some(weights) = weights else { return Ok(()) };
    if weights.len() as u64 != rows {
        return Err(Problem::Weights { weights: weights.len(), rows });
    }
    if let Some(row) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
        return Err(Problem::Weight { row, value: weights[row] });
    }
    match weights.iter().any(|weight| *weight > 0.0) {
        true => Ok(()),
        false => Err(Problem::NoWeight),
    }
}

/// Refuses priors that are not one probability for each class, adding up to 1.
pub fn check_priors(priors: Option<&[f64]>, classes: usize) -> Result<(), Problem> {
    let Some(priors) = priors else { return Ok(()) };
    if priors.len() != classes {
        return Err(Problem::Priors { found: priors.len(), classes });
    }
    if let Some(value) = priors.iter().find(|prior| prior.is_nan() || **prior < 0.0) {
        return Err(Problem::Prior { value: *value });
    }
    let sum: f64 = priors.iter().sum();
    match (sum - 1.0).abs() <= 1e-5 {
        true => Ok(()),
        false => Err(Problem::PriorsSum { sum }),
    }
}

/// The index of each row's class.
fn class_of_rows(targets: &[f64], classes: &[f64], rows: u64) -> Result<Vec<u32>, Problem> {
    if targets.len() as u64 != rows {
        return Err(Problem::Targets { targets: targets.len(), rows });
    }
    let index = |(row, target): (usize, &f64)| {
        let found = classes.binary_search_by(|class| class.total_cmp(target));
        found.map(|class| class as u32).map_err(|_| Problem::Class { row, value: *target })
    };
    targets.iter().enumerate().map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_an_equal_cut_begin_where_the_cut_says() {
        let rows = RowClasses { classes: 1, of_rows: vec![0; 10], weights: vec![], chunks: 3 };
        assert_eq!([0, 1, 2].map(|chunk| rows.start(chunk)), [0, 4, 7]);
    }

    #[test]
    fn wrong_targets_weights_and_priors_are_told_apart() {
        let labels =
            |targets, weights| Labels { targets, weights }.checked(&[1.0, 2.0], 2, 1).map(|r| r.of_rows);
        assert_eq!(labels(&[2.0, 1.0], None), Ok(vec![1, 0]));
        assert_eq!(labels(&[2.0], None), Err(Problem::Targets { targets: 1, rows: 2 }));
        assert_eq!(labels(&[2.0, 3.0], None), Err(Problem::Class { row: 1, value: 3.0 }));
        assert_eq!(labels(&[2.0, 1.0], Some(&[0.0, 0.0])), Err(Problem::NoWeight));
        assert_eq!(labels(&[2.0, 1.0], Some(&[1.0, -1.0])), Err(Problem::Weight { row: 1, value: -1.0 }));
        assert_eq!(check_priors(Some(&[0.5, 0.4]), 2), Err(Problem::PriorsSum { sum: 0.9 }));
        assert_eq!(check_priors(Some(&[1.0]), 2), Err(Problem::Priors { found: 1, classes: 2 }));
        assert_eq!(check_priors(Some(&[0.25, 0.75]), 2), Ok(()));
    }
}
