//! The sparse autoencoder as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{Autoencoder, FitError, Input, ModelError, Params};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::models::{Format, Parts, PartsError};
use crate::optimize::lbfgs::{Evaluation, Minimum, Outcome};
use crate::options::{Table, Value};
use qjam::{DataSet, Dense, Rows};

const NAME: &str = "autoencoder";

/// A network that learns features.
#[derive(Debug)]
pub struct SparseAutoencoder;

impl Learner for SparseAutoencoder {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Transform, Question::Reconstruct]
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF64(data) => fit_of(job, data),
            Rows::DenseF32(data) => fit_of(job, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(Autoencoder::of_parts(parts)?))
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("hidden", "3"), ("evaluations", "12")]
    }
}

fn fit_of<T: Input>(job: &mut Job<'_>, data: &DataSet<Dense<T>>) -> Result<Fitted, LearnerError> {
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    let params = Params::from_settings(job.settings, columns).map_err(LearnerError::unusable)?;
    // Weights in both directions, their gradient, and the history of the optimiser.
    job.must_fit(params.shape().hidden().saturating_mul(6))?;
    let theta = super::initial(&params.shape(), job.settings.integer("random_state")?);
    let (observer, mut first) = (&mut job.observer, None);
    let tell = |seen: &Evaluation<'_>| {
        first.get_or_insert(seen.value);
        let text = &format_args!("evaluation {}: cost {:.6}", seen.number, seen.value);
        observer(&Progress { step: seen.number as u64, text, phase_done: None });
    };
    let fit = super::fit(job.master, &params, data, theta, tell).map_err(|e| match e {
        FitError::Run(e) => LearnerError::Run(e),
        FitError::NotFinite { .. } => LearnerError::not_finite(e, vec![]),
        e => LearnerError::unusable(e),
    })?;
    let report = report(&params, &fit.minimum, first.unwrap_or(f64::NAN), data.records());
    Ok(Fitted { model: Box::new(fit.model), report, answer: None })
}

fn report(params: &Params, minimum: &Minimum, first: f64, rows: u64) -> Report {
    let (outcome, shape) = (minimum.outcome, params.shape());
    let (name, has_converged) = (outcome.name(), outcome.converged());
    let evaluations = count(minimum.evaluations as u64, "evaluation");
    let result = match has_converged {
        true => format!("converged after {evaluations}: {name}"),
        false => format!("stopped after {evaluations}, before convergence: {name}"),
    };
    let cost = format!("{:.9} (at first {first:.9})", minimum.value);
    let failure = (outcome == Outcome::NotFinite)
        .then_some("the cost is not finite; are there NaN or huge numbers in the data?");
    Report {
        size: format!("{} inputs, {}", shape.visible(), count(shape.hidden() as u64, "hidden unit")),
        lines: vec![("result", result), ("cost", cost)],
        facts: vec![
            ("cost", Value::Real(minimum.value)),
            ("first_cost", Value::Real(first)),
            ("evaluations", Value::Integer(minimum.evaluations as u64)),
            ("outcome", Value::Text(name.into())),
            ("converged", Value::Flag(has_converged)),
            ("rows", Value::Integer(rows)),
        ],
        failure: failure.map(String::from),
        phase: "training",
        answers_file: "activations.npy",
        ..Report::default()
    }
}

impl learner::Model for Autoencoder {
    fn columns(&self) -> usize {
        self.shape().visible()
    }

    fn parts(&self) -> Parts {
        Autoencoder::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        let data = match about.rows {
            Rows::DenseF64(data) => data,
            _ => return Err(LearnerError::Type { learner: NAME }),
        };
        let chunks = match about.scope {
            Scope::All(_) => 0..data.len(),
            Scope::Chunk(index) => index..index + 1,
        };
        let (expected, mut values) = (self.shape().visible(), vec![]);
        for index in chunks {
            let chunk = data.chunk(index).map_err(qjam::Error::from)?;
            if chunk.cols() != expected {
                let source = ModelError::Rows { values: chunk.cols(), visible: expected };
                return Err(LearnerError::Columns { found: chunk.cols(), expected, source: source.into() });
            }
            values.extend(self.asked(question, chunk.as_slice())?);
        }
        Ok(Answer::Doubles(values, self.numbers_in(question)))
    }

    fn answer_here(&self, question: Question, rows: &[f64]) -> Result<Answer, LearnerError> {
        Ok(Answer::Doubles(self.asked(question, rows)?, self.numbers_in(question)))
    }
}

impl Autoencoder {
    fn asked(&self, question: Question, rows: &[f64]) -> Result<Vec<f64>, LearnerError> {
        let answers = match question {
            Question::Transform => self.activations(rows),
            Question::Reconstruct => self.reconstruct(rows),
            other => return Err(LearnerError::unanswered(NAME, other)),
        };
        answers.map_err(LearnerError::unusable)
    }

    /// Numbers in an answer about one row.
    fn numbers_in(&self, question: Question) -> usize {
        match question {
            Question::Transform => self.shape().hidden(),
            _ => self.shape().visible(),
        }
    }
}
