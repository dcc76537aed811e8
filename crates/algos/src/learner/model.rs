//! What fitting leaves, and what can be asked of it.

use super::{LearnerError, Weights};
use crate::kernels::nearest::Real;
use crate::models::{self, FileError, Notes, Parts};
use qjam::{DataSet, Master, Rows};
use std::any::Any;
use std::fmt;
use std::path::Path;

/// What can be asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The class, value or cluster of each row.
    Predict,
    /// The probability of every class.
    Probabilities,
    /// The logarithm of these.
    LogProbabilities,
    /// The logarithm of the joint probability of a row and every class.
    JointLogProbabilities,
    /// What a classifier decides by.
    Decisions,
    /// The row in the model's own coordinates: distances, activations, components.
    Transform,
    /// The row as the model reproduces it.
    Reconstruct,
    /// One number for all rows together: how well the model suits them, up to its sign.
    Score,
}

impl Question {
    /// All of them.
    pub const ALL: [Question; 8] = [
        Question::Predict,
        Question::Probabilities,
        Question::LogProbabilities,
        Question::JointLogProbabilities,
        Question::Decisions,
        Question::Transform,
        Question::Reconstruct,
        Question::Score,
    ];

    /// Its name for programs: `log-probabilities`.
    pub fn name(self) -> &'static str {
        match self {
            Question::Predict => "predict",
            Question::Probabilities => "probabilities",
            Question::LogProbabilities => "log-probabilities",
            Question::JointLogProbabilities => "joint-log-probabilities",
            Question::Decisions => "decisions",
            Question::Transform => "transform",
            Question::Reconstruct => "reconstruct",
            Question::Score => "score",
        }
    }

    /// The question of this name.
    pub fn named(name: &str) -> Option<Question> {
        Question::ALL.into_iter().find(|question| question.name() == name)
    }

    /// Whether an answer has many numbers for each row, so that answers for all rows may not fit into memory.
    pub fn is_wide(self) -> bool {
        matches!(self, Question::Transform | Question::Reconstruct)
    }
}

/// Which rows a question is about.
#[derive(Clone, Copy)]
pub enum Scope<'a> {
    /// All rows, by the workers of this master.
    All(&'a Master),
    /// The rows of one chunk, on this thread.
    Chunk(usize),
}

/// What a question is about.
#[derive(Clone, Copy)]
pub struct About<'a> {
    /// The rows.
    pub rows: &'a Rows,
    /// Which of them.
    pub scope: Scope<'a>,
    /// Weights of the rows.
    pub weights: Weights<'a>,
}

impl<'a> About<'a> {
    /// All rows of a data set, without weights.
    pub fn all(master: &'a Master, rows: &'a Rows) -> About<'a> {
        About { rows, scope: Scope::All(master), weights: Weights::None }
    }

    /// The rows of one chunk, without weights.
    pub fn chunk(rows: &'a Rows, chunk: usize) -> About<'a> {
        About { rows, scope: Scope::Chunk(chunk), weights: Weights::None }
    }
}

/// What a model answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The index of a cluster for each row.
    Labels(Vec<u32>),
    /// One number for each row.
    Values(Vec<f64>),
    /// Rows of so many numbers of 32 bits.
    Singles(Vec<f32>, usize),
    /// Rows of so many numbers of 64 bits.
    Doubles(Vec<f64>, usize),
    /// One number for all rows.
    Number(f64),
}

impl Answer {
    /// Rows of so many numbers, in the type they have.
    pub fn rows<T: Real>(values: Vec<T>, columns: usize) -> Answer {
        let values: Box<dyn Any> = Box::new(values);
        match values.downcast() {
            Ok(singles) => Answer::Singles(*singles, columns),
            Err(values) => {
                Answer::Doubles(*values.downcast().expect("real numbers have 32 or 64 bits"), columns)
            }
        }
    }
}

/// A fitted model, whatever learner it comes from.
pub trait Model: fmt::Debug + Send + Sync {
    /// Columns of the rows it was fitted to.
    fn columns(&self) -> usize;

    /// What it consists of.
    fn parts(&self) -> Parts;

    /// What files call the kind of the model that answers: of a scaled one that behind the scaling.
    fn kind(&self) -> &'static str {
        self.parts().kind
    }

    /// Answers a question.
    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError>;

    /// Answers a question about dense rows of 64-bit numbers in memory, on this thread. Models for which naming the rows as a
    /// data set would cost more than the answer do it themselves.
    fn answer_here(&self, question: Question, rows: &[f64]) -> Result<Answer, LearnerError> {
        let data = DataSet::here(rows, self.columns()).map_err(qjam::Error::from)?;
        self.answer(question, &About::chunk(&data.into(), 0))
    }

    /// The classes that it tells apart, in the order of its probabilities; none if it is no classifier.
    fn classes(&self) -> Vec<f64> {
        self.parts().get("classes").and_then(|tensor| tensor.values.widened()).unwrap_or_default()
    }

    /// What its [score](Question::Score) is called.
    fn score_name(&self) -> &'static str {
        "score"
    }

    /// Dense rows of the data as the model compares them with each other.
    fn compared(&self, rows: Vec<f64>) -> Vec<f64> {
        rows
    }

    /// What its rounds leave to be compared: a hash of the bits of all fitted numbers.
    fn hash(&self) -> String {
        self.parts().hash()
    }

    /// Writes it to a file, whole or not at all, with notes on how it came about.
    fn save(&self, path: &Path, notes: &Notes) -> Result<(), FileError> {
        models::save(path, &self.parts(), notes)
    }
}
