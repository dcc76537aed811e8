//! Scalers as callers see them that take any learner.

use super::model::{ScalerModel, format};
use super::params::{Kind, Params};
use crate::input::InputError;
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Table, Value};
use qjam::{DataSet, Dtype, with_rows};

/// Scaling of columns.
#[derive(Debug)]
pub struct Scaler(
    /// What columns are brought to.
    pub Kind,
);

impl Learner for Scaler {
    fn table(&self) -> &'static Table {
        self.0.table()
    }

    fn format(&self) -> Format {
        format(self.0)
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Transform, Question::Reconstruct]
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        self.learn(job, None)
    }

    fn update(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        let of_parts = |parts| ScalerModel::of_parts(self.0, parts);
        let before = job.training.start.map(of_parts).transpose();
        let before = before.map_err(|source| LearnerError::Parts { learner: self.0.name(), source })?;
        self.learn(job, before.as_ref())
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(ScalerModel::of_parts(self.0, parts)?))
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        match self.0 {
            // So that sparse rows are taken, too.
            Kind::Standard => &[("center", "false")],
            Kind::MinMax | Kind::MaxAbs => &[],
        }
    }
}

impl Scaler {
    fn learn(&self, job: &mut Job<'_>, before: Option<&ScalerModel>) -> Result<Fitted, LearnerError> {
        if job.training.rows.is_sparse() && !self.table().sparse {
            return Err(LearnerError::Sparse { learner: "min-max scaler" });
        }
        job.must_fit(4)?;
        let params = Params::from_settings(self.0, job.settings)?;
        let weighted = job.has_weights_in_rows();
        let model =
            with_rows!(job.training.rows, data => super::fit(job.master, &params, data, weighted, before))?;
        (job.observer)(&Progress { step: 1, steps_max: Some(1), text: &"round 1", phase_done: None });
        let answer = match job.training.answers {
            true => Some(learner::Model::answer(
                &model,
                Question::Transform,
                &About::all(job.master, job.training.rows),
            )?),
            false => None,
        };
        let report = report(&model);
        Ok(Fitted { model: Box::new(model), report, answer })
    }
}

fn report(model: &ScalerModel) -> Report {
    let (columns, constant) = (model.columns() as u64, model.constant() as u64);
    Report {
        size: count(columns, "column"),
        lines: vec![("result", "found in 1 round".into())],
        facts: vec![
            ("columns", Value::Integer(columns)),
            ("constant_columns", Value::Integer(constant)),
            ("samples", Value::Real(model.samples())),
        ],
        remarks: match constant {
            0 => vec![],
            _ => vec![format!(
                "{} the same in all rows, and not divided",
                match constant {
                    1 => "1 column is".into(),
                    more => format!("{more} columns are"),
                }
            )],
        },
        phase: "fitting",
        answers_file: "scaled.npy",
        ..Report::default()
    }
}

impl learner::Model for ScalerModel {
    fn columns(&self) -> usize {
        ScalerModel::columns(self)
    }

    fn parts(&self) -> Parts {
        ScalerModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if !matches!(question, Question::Transform | Question::Reconstruct) {
            return Err(LearnerError::unanswered(self.kind().name(), question));
        }
        let mut numbers = with_rows!(about.rows, data => scaled(self, about, data))?;
        if question == Question::Reconstruct {
            self.affine().undo(&mut numbers);
        }
        let columns = ScalerModel::columns(self);
        Ok(match about.rows.dtype() {
            Dtype::F32 => Answer::Singles(numbers.iter().map(|value| *value as f32).collect(), columns),
            Dtype::F64 => Answer::Doubles(numbers, columns),
        })
    }
}

/// Scaled rows. Reading them is all the work there is, so no worker is asked.
fn scaled<C: RowChunk>(
    model: &ScalerModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, InputError> {
    let chunks = match about.scope {
        Scope::All(_) => 0..data.len(),
        Scope::Chunk(index) => index..index + 1,
    };
    let (mut all, mut before) = (Vec::new(), 0);
    for index in chunks {
        let chunk = data.chunk(index).map_err(qjam::Error::from)?;
        all.extend(model.transform_of(&chunk).map_err(|e| e.behind(before))?);
        before += chunk.count() as u64;
    }
    Ok(all)
}
