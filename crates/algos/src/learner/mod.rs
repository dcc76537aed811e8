//! What a learner is to callers that do not know which one they have: the command, the Python package, model files, the
//! book, fuzzing, and the tests that run for every learner.
//!
//! ```text
//!   table ──▶ Settings ─┐
//!   Rows, targets, … ───┼──▶ Learner::fit ──▶ Fitted { model, report }
//!   Master ─────────────┘                        │
//!                                                ├── Model::answer(question, rows) ──▶ Answer
//!                                                └── Model::parts ──▶ a file, or a dictionary of arrays in Python
//!   Parts ──▶ Learner::assemble ──▶ Model
//! ```
//!
//! A learner implements [`Learner`] and [`Model`] in its own folder and is one line of [`registry::LEARNERS`](crate::registry::LEARNERS). Its own
//! functions (`kmeans::fit` and the like), with their types, stay the way in for programs in Rust. Not converging is an outcome
//! that the [`Report`] tells, never an error.

mod detached;
mod error;
mod model;
mod report;
pub mod sample;
mod training;

pub use detached::{Detachable, DetachedRows};
pub use error::LearnerError;
pub(crate) use error::sort_model_errors;
pub use model::{About, Answer, Model, Question, Scope};
pub use report::{Fitted, Progress, Report, count};
pub use training::{Job, Training, Weights};

use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table};
use std::fmt;

/// A way to learn from rows. Implementations have no state: what is chosen is in the [`Settings`].
pub trait Learner: fmt::Debug + Send + Sync {
    /// Its options, what it needs to be told, and which rows it takes.
    fn table(&self) -> &'static Table;

    /// How its models are laid out in files. Learners whose models are of one kind share a format.
    fn format(&self) -> Format;

    /// The questions that its models answer. The first is what `qjam predict` asks by default.
    fn questions(&self) -> &'static [Question];

    /// Refuses settings that do not go together. Called before any data is read.
    fn check(&self, _: &Settings) -> Result<(), LearnerError> {
        Ok(())
    }

    /// Fits a model to all rows of the job. The bits follow from data and settings alone.
    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError>;

    /// How its fit runs without a program that waits for its rounds, if it can.
    fn detachable(&self) -> Option<&dyn Detachable> {
        None
    }

    /// Learns from one more batch: the rows of the job, beginning from its `start` if it has one.
    fn update(&self, _: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        Err(LearnerError::NoBatches { learner: self.table().name })
    }

    /// Whether a row of weight 0 is to its fit as if it were not there.
    fn leaves_out_weightless(&self) -> bool {
        true
    }

    /// A model of these parts.
    fn assemble(&self, parts: &Parts) -> Result<Box<dyn Model>, PartsError>;

    /// The option that names a file in the command and is an array in Python, and the tensor of [`Training::start`] that it is.
    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// The same for learners with several such options.
    fn array_options(&self) -> Vec<(&'static str, &'static str)> {
        self.array_option().into_iter().collect()
    }

    /// Whether negative numbers in the rows make sense to it.
    fn takes_negative(&self) -> bool {
        true
    }

    /// Flags and values that make a fit of a [`sample`] small.
    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}
