//! Principal component analysis as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{NAME, Params, PcaModel, Solver};
use crate::input::{InputError, Problem};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table, Value};
use qjam::{DataSet, with_rows};

/// Principal component analysis.
#[derive(Debug)]
pub struct Pca;

impl Learner for Pca {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        &[Question::Transform, Question::Reconstruct]
    }

    fn check(&self, settings: &Settings) -> Result<(), LearnerError> {
        params(settings).map(drop)
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        with_rows!(job.training.rows, data => fit_of(job, data))
    }

    fn update(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        let before = job.training.start.map(PcaModel::of_parts).transpose();
        let before = before.map_err(|source| LearnerError::Parts { learner: NAME, source })?;
        with_rows!(job.training.rows, data => update_of(job, data, before.as_ref()))
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(PcaModel::of_parts(parts)?))
    }
}

fn params(settings: &Settings) -> Result<Params, LearnerError> {
    let params = Params::from_settings(settings)?;
    params.map_err(|asked| LearnerError::unusable(Problem::NotWhole { asked }.of(NAME)))
}

fn fit_of<C: RowChunk>(job: &mut Job<'_>, data: &DataSet<C>) -> Result<Fitted, LearnerError> {
    let params = params(job.settings)?;
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    let max = data.records().min(columns as u64);
    // All covariances, or the directions and their images.
    job.must_fit(match super::solver(&params, columns, max) {
        Solver::Randomized => params.directions(max).saturating_mul(2),
        _ => columns,
    })?;
    let observer = &mut job.observer;
    let mut rounds = 0;
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

fn update_of<C: RowChunk>(
    job: &mut Job<'_>,
    data: &DataSet<C>,
    before: Option<&PcaModel>,
) -> Result<Fitted, LearnerError> {
    let params = params(job.settings)?;
    // All products of columns, of the batch and of what was there.
    job.must_fit(2 * job.training.rows.cols().map_err(qjam::Error::from)?)?;
    let model = super::update(job.master, &params, data, before)?;
    (job.observer)(&Progress { step: 1, steps_max: Some(1), text: &"round 1", phase_done: None });
    let report = report(&model, data.records(), 1);
    Ok(Fitted { model: Box::new(model), report, answer: None })
}

fn report(model: &PcaModel, rows: u64, rounds: u64) -> Report {
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
        lists: vec![("explained_variance_ratio", model.ratios().to_vec())],
        remarks: match share.is_nan() {
            true => vec!["all columns are constant: there is no variance to share out".into()],
            false => vec![],
        },
        phase: "fitting",
        answers_file: "coordinates.npy",
        ..Report::default()
    }
}

impl learner::Model for PcaModel {
    fn columns(&self) -> usize {
        PcaModel::columns(self)
    }

    fn parts(&self) -> Parts {
        PcaModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if !matches!(question, Question::Transform | Question::Reconstruct) {
            return Err(LearnerError::unanswered(NAME, question));
        }
        let coordinates = with_rows!(about.rows, data => coordinates(self, about, data))?;
        Ok(match question {
            Question::Transform => Answer::Doubles(coordinates, self.len()),
            _ => Answer::Doubles(self.inverse(&coordinates), PcaModel::columns(self)),
        })
    }
}

fn coordinates<C: RowChunk>(
    model: &PcaModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, InputError> {
    match about.scope {
        Scope::All(master) => model.transform(master, data),
        Scope::Chunk(index) => model.transform_of(&data.chunk(index).map_err(qjam::Error::from)?),
    }
}
