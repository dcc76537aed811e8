//! Locally weighted regression as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{LocalModel, NAME, Params};
use crate::kernels::nearest::Real;
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table, Value};
use qjam::{DataSet, Dense, Rows};
use thiserror::Error;

/// Locally weighted linear regression.
#[derive(Debug)]
pub struct LocallyWeighted;

/// Rows that do not fit into memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the model is the rows it learns from, which take {bytes} bytes of memory, and there are {bytes_max}; learn from a sample of them"
)]
struct TooMany {
    bytes: u64,
    bytes_max: u64,
}

impl Learner for LocallyWeighted {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Predict]
    }

    fn check(&self, settings: &Settings) -> Result<(), LearnerError> {
        Ok(Params::from_settings(settings).map(drop)?)
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF32(data) => fit_of(job, data),
            Rows::DenseF64(data) => fit_of(job, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(LocalModel::of_parts(parts)?))
    }
}

fn fit_of<T: Real>(job: &mut Job<'_>, data: &DataSet<Dense<T>>) -> Result<Fitted, LearnerError>
where
    Dense<T>: RowChunk,
{
    let params = Params::from_settings(job.settings)?;
    let columns = data.chunk(0).map_err(qjam::Error::from)?.cols() as u64;
    let bytes = data.records().saturating_mul(columns + 2).saturating_mul(8);
    if let Some(bytes_max) = job.too_little(bytes) {
        return Err(LearnerError::unusable(TooMany { bytes, bytes_max }));
    }
    let model = super::fit(job.master, &params, data, job.targets()?, job.row_weights())?;
    (job.observer)(&Progress {
        step: 1,
        steps_max: Some(1),
        text: &"round 1: moments of columns",
        phase_done: None,
    });
    let answer = match job.training.answers {
        true => Some(Answer::Values(model.predict(job.master, data)?)),
        false => None,
    };
    let report = Report {
        size: format!("{}, {}", count(model.rows(), "row"), count(columns, "column")),
        lines: vec![("bandwidth", format!("{:.4e}", model.bandwidth()))],
        facts: vec![
            ("rows", Value::Integer(model.rows())),
            ("columns", Value::Integer(columns)),
            ("bandwidth", Value::Real(model.bandwidth())),
        ],
        phase: "fitting",
        answers_file: "values.npy",
        ..Report::default()
    };
    Ok(Fitted { model: Box::new(model), report, answer })
}

impl learner::Model for LocalModel {
    fn columns(&self) -> usize {
        LocalModel::columns(self)
    }

    fn parts(&self) -> Parts {
        LocalModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if question != Question::Predict {
            return Err(LearnerError::unanswered(NAME, question));
        }
        Ok(Answer::Values(match about.rows {
            Rows::DenseF32(data) => predicted(self, about, data)?,
            Rows::DenseF64(data) => predicted(self, about, data)?,
            Rows::CsrF32(_) | Rows::CsrF64(_) => return Err(LearnerError::Sparse { learner: NAME }),
        }))
    }
}

fn predicted<C: RowChunk>(
    model: &LocalModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, LearnerError> {
    Ok(match about.scope {
        Scope::All(master) => model.predict(master, data)?,
        Scope::Chunk(index) => model.predict_of(&data.chunk(index).map_err(qjam::Error::from)?)?,
    })
}
