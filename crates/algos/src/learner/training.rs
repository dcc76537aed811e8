//! What a fit is given.

use super::{LearnerError, Progress};
use crate::models::Parts;
use crate::options::Settings;
use qjam::{Master, Rows};
use thiserror::Error;

/// How much each row counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Weights<'a> {
    /// All count the same.
    #[default]
    None,
    /// The last column of dense rows and the labels of sparse ones are weights. Learners without a target take these.
    InRows,
    /// One weight for each row. Learners with a target take these.
    Each(&'a [f64]),
}

/// Rows, and what goes with them.
#[derive(Clone, Copy, Debug)]
pub struct Training<'a> {
    /// The rows.
    pub rows: &'a Rows,
    /// A number for each row, which for classifiers stands for its class; `None` for learners without a target.
    pub targets: Option<&'a [f64]>,
    /// Weights of the rows.
    pub weights: Weights<'a>,
    /// Parts to begin from: a warm start, first centres, the model that a batch is to update; and arrays that options name.
    pub start: Option<&'a Parts>,
    /// Whether the answers of the fitted model to its first question are wanted for these rows.
    pub answers: bool,
}

impl<'a> Training<'a> {
    /// Rows without anything.
    pub fn new(rows: &'a Rows) -> Training<'a> {
        Training { rows, targets: None, weights: Weights::None, start: None, answers: false }
    }
}

/// Rows with too many columns for the memory there is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the rows have {columns} columns, a model of them takes at least {bytes} bytes of memory, and there are {bytes_max}; \
     number the columns without gaps, or use a machine with more memory"
)]
struct TooWide {
    columns: usize,
    bytes: u64,
    bytes_max: u64,
}

/// A fit that is to be done: where, of what, and who watches.
pub struct Job<'a> {
    /// Runs the rounds.
    pub master: &'a Master,
    /// Values of the options.
    pub settings: &'a Settings,
    /// The data.
    pub training: Training<'a>,
    /// Memory that each process may use, if that is limited.
    pub memory_limit: Option<u64>,
    /// Is told every step.
    pub observer: &'a mut dyn FnMut(&Progress<'_>),
}

impl<'a> Job<'a> {
    /// Refuses rows with so many columns that the model cannot fit into memory. A learner has at least `per_column` numbers of
    /// 64 bits for each column, and a file of a few bytes can have billions of columns.
    pub fn must_fit(&self, per_column: usize) -> Result<(), LearnerError> {
        let columns = self.training.rows.cols().map_err(qjam::Error::from)?;
        let bytes = (columns as u64).saturating_mul(per_column as u64).saturating_mul(8);
        match self.too_little(bytes) {
            None => Ok(()),
            Some(bytes_max) => Err(LearnerError::unusable(TooWide { columns, bytes, bytes_max })),
        }
    }

    /// The memory that there is, if so many bytes do not fit into it.
    pub(crate) fn too_little(&self, bytes: u64) -> Option<u64> {
        /// So little fits anywhere, and a small fit is done sooner than the limits of a control group are read.
        const LITTLE_BYTES: u64 = 1 << 20;
        if bytes <= self.memory_limit.unwrap_or(u64::MAX).min(LITTLE_BYTES) {
            return None;
        }
        let bytes_max = self.memory_limit.unwrap_or(u64::MAX).min(qjam::memory::most_bytes());
        (bytes > bytes_max).then_some(bytes_max)
    }

    /// The targets of a learner that needs them.
    pub fn targets(&self) -> Result<&'a [f64], LearnerError> {
        self.training.targets.ok_or(LearnerError::NoTargets { learner: self.settings.table().name })
    }

    /// Weights that are one number for each row. Weights in the rows are an error of the caller.
    pub fn row_weights(&self) -> Option<&'a [f64]> {
        match self.training.weights {
            Weights::None => None,
            Weights::Each(weights) => Some(weights),
            Weights::InRows => panic!("{} takes weights beside its rows", self.settings.table().name),
        }
    }

    /// Whether weights are in the rows. Weights beside them are an error of the caller.
    pub fn has_weights_in_rows(&self) -> bool {
        match self.training.weights {
            Weights::None => false,
            Weights::InRows => true,
            Weights::Each(_) => panic!("{} takes weights in its rows", self.settings.table().name),
        }
    }
}
