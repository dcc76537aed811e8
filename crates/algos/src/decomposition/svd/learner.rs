//! Truncated singular value decomposition as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{NAME, Params, SvdModel};
use crate::input::InputError;
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Table, Value};
use qjam::{DataSet, with_rows};

/// Truncated singular value decomposition.
#[derive(Debug)]
pub struct TruncatedSvd;

impl Learner for TruncatedSvd {
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
        with_rows!(job.training.rows, data => fit_of(job, data))
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(SvdModel::of_parts(parts)?))
    }
}

fn fit_of<C: RowChunk>(job: &mut Job<'_>, data: &DataSet<C>) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(job.settings)?;
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    // All products of columns, or the directions and their images.
    let directions = params.components.saturating_add(params.oversamples).min(columns);
    job.must_fit(if params.sums_products(columns) { columns } else { 2 * directions })?;
    let (observer, mut rounds) = (&mut job.observer, 0);
    let model = super::fit(job.master, &params, data, |round| {
        rounds = round;
        let text = &format_args!("round {round}");
        observer(&Progress { step: round, steps_max: None, text, phase_done: None });
    })?;
    let answer = match job.training.answers {
        true => Some(Answer::Doubles(model.transform(job.master, data)?, model.len())),
        false => None,
    };
    let report = report(&model, data.records(), rounds);
    Ok(Fitted { model: Box::new(model), report, answer })
}

fn report(model: &SvdModel, rows: u64, rounds: u64) -> Report {
    let (components, columns) = (model.len() as u64, model.columns() as u64);
    let share: f64 = model.ratios().iter().sum();
    Report {
        size: format!("{}, {}", count(components, "component"), count(columns, "column")),
        lines: vec![
            ("result", format!("found in {}", count(rounds, "round"))),
            ("variance", format!("{:.2} % of it is along the components", 100.0 * share)),
        ],
        facts: vec![
            ("components", Value::Integer(components)),
            ("columns", Value::Integer(columns)),
            ("rounds", Value::Integer(rounds)),
            ("rows", Value::Integer(rows)),
        ],
        lists: vec![
            ("singular_values", model.singular_values().to_vec()),
            ("explained_variance_ratio", model.ratios().to_vec()),
        ],
        remarks: match share.is_nan() {
            true => vec!["all columns are constant: there is no variance to share out".into()],
            false => vec![],
        },
        phase: "fitting",
        answers_file: "coordinates.npy",
        ..Report::default()
    }
}

impl learner::Model for SvdModel {
    fn columns(&self) -> usize {
        SvdModel::columns(self)
    }

    fn parts(&self) -> Parts {
        SvdModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if !matches!(question, Question::Transform | Question::Reconstruct) {
            return Err(LearnerError::unanswered(NAME, question));
        }
        let coordinates = with_rows!(about.rows, data => coordinates(self, about, data))?;
        Ok(match question {
            Question::Transform => Answer::Doubles(coordinates, self.len()),
            _ => Answer::Doubles(self.inverse(&coordinates), SvdModel::columns(self)),
        })
    }
}

fn coordinates<C: RowChunk>(
    model: &SvdModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, InputError> {
    match about.scope {
        Scope::All(master) => model.transform(master, data),
        Scope::Chunk(index) => model.transform_of(&data.chunk(index).map_err(qjam::Error::from)?),
    }
}
