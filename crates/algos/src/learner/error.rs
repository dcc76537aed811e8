//! Why a learner gives no result, for callers that do not know which learner it is.
//!
//! Every learner has errors with types and texts of its own. Here they are sorted by what a caller does about them: the
//! command adds the file and what to type, Python chooses the class of the exception.

use super::Question;
use crate::models::{FileError, PartsError};
use crate::options::OptionError;
use std::error::Error as StdError;
use thiserror::Error;

type Source = Box<dyn StdError + Send + Sync>;

/// Why there is no model or no answer.
#[derive(Debug, Error)]
pub enum LearnerError {
    /// A round failed, or the data could not be read.
    #[error(transparent)]
    Run(#[from] qjam::Error),
    /// A model file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A value that the table does not allow.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Parts that make no model.
    #[error("{learner}: {source}")]
    Parts {
        /// The learner.
        learner: &'static str,
        /// What is wrong.
        source: PartsError,
    },
    /// Settings, or data for these settings, that cannot be used.
    #[error("{source}")]
    Unusable {
        /// The learner's own error.
        source: Source,
        /// What to change, in the options as the user spells them; any one of these helps.
        remedies: Vec<String>,
    },
    /// NaN or an infinity in the data.
    #[error("{source}")]
    NotFinite {
        /// The learner's own error, with row and column.
        source: Source,
        /// Options that make the learner do without such rows.
        remedies: Vec<String>,
    },
    /// Rows of another width than those the model was fitted to.
    #[error("{source}")]
    Columns {
        /// Columns of the data.
        found: usize,
        /// Columns of the model.
        expected: usize,
        /// The learner's own error.
        source: Source,
    },
    /// Sparse rows for a learner that takes dense ones.
    #[error("the {learner} takes dense rows, and these are sparse")]
    Sparse {
        /// The learner.
        learner: &'static str,
    },
    /// Rows of a type that the model does not take.
    #[error("the {learner} takes dense rows of 64 bits")]
    Type {
        /// The learner.
        learner: &'static str,
    },
    /// A learner with a target was not told any.
    #[error("{learner} needs a target for each row")]
    NoTargets {
        /// The learner.
        learner: &'static str,
    },
    /// The learner has no fused step, so its fit needs a program that waits for its rounds.
    #[error("{learner} cannot be detached: between its rounds it needs the program that began it")]
    NoDetach {
        /// The learner.
        learner: &'static str,
    },
    /// The learner takes all rows at once.
    #[error("{learner} cannot learn from one batch after the other")]
    NoBatches {
        /// The learner.
        learner: &'static str,
    },
    /// A question that the model does not answer.
    #[error("{source}")]
    NoAnswer {
        /// What was asked.
        question: Question,
        /// The learner's own error.
        source: Source,
    },
}

/// A question that no model of a learner answers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{learner}: models of this kind do not answer {}", question.name())]
struct Unanswered {
    learner: &'static str,
    question: Question,
}

impl LearnerError {
    /// Settings or data that cannot be used.
    pub fn unusable(source: impl StdError + Send + Sync + 'static) -> LearnerError {
        LearnerError::Unusable { source: source.into(), remedies: vec![] }
    }

    /// The same, and what to change.
    pub fn remedied(
        source: impl StdError + Send + Sync + 'static,
        remedies: impl IntoIterator<Item = String>,
    ) -> LearnerError {
        LearnerError::Unusable { source: source.into(), remedies: remedies.into_iter().collect() }
    }

    /// NaN or an infinity in the data.
    pub fn not_finite(source: impl StdError + Send + Sync + 'static, remedies: Vec<String>) -> LearnerError {
        LearnerError::NotFinite { source: source.into(), remedies }
    }

    /// A question that no model of this learner answers.
    pub fn unanswered(learner: &'static str, question: Question) -> LearnerError {
        LearnerError::NoAnswer { question, source: Unanswered { learner, question }.into() }
    }
}

/// Sorts the errors of a learner's models: those that all models have, then the learner's own.
macro_rules! sort_model_errors {
    ($error:ident as $e:ident { $($own:pat => $sorted:expr),* $(,)? }) => {
        impl From<$error> for $crate::learner::LearnerError {
            fn from($e: $error) -> Self {
                match $e {
                    $error::Run(e) => Self::Run(e),
                    $error::NotFinite { .. } => Self::not_finite($e, vec![]),
                    $error::Columns { found, expected } => {
                        Self::Columns { found, expected, source: $e.into() }
                    }
                    $($own => $sorted,)*
                }
            }
        }
    };
}
pub(crate) use sort_model_errors;
