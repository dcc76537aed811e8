//! The naive Bayes learners of counts as callers see them that take any learner.

use super::model::format;
use super::params::{Kind, Params};
use super::{CountsModel, Extra};
use crate::answers::{self, CLASSIFIER};
use crate::bayes::class_report;
use crate::input::{CLASSES_MAX, InputError, Labels};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::Table;
use qjam::{DataSet, with_rows};

/// One of the three.
#[derive(Debug)]
pub struct NaiveBayes(pub Kind);

impl Learner for NaiveBayes {
    fn table(&self) -> &'static Table {
        self.0.table()
    }

    fn format(&self) -> Format {
        format(self.0)
    }

    fn questions(&self) -> &'static [Question] {
        CLASSIFIER
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        with_rows!(job.training.rows, data => fit_of(self.0, job, data, None))
    }

    /// The first batch may come with `classes` alone; without them its own are all there are.
    fn update(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        let wrong = |source| LearnerError::Parts { learner: self.0.name(), source };
        let before = match job.training.start {
            Some(parts) if parts.get("feature_count").is_some() => {
                Some(CountsModel::of_parts(self.0, parts).map_err(wrong)?)
            }
            Some(parts) if parts.get("classes").is_some() => {
                let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
                let classes = parts.tensor::<1>("classes").map_err(wrong)?.1;
                Some(CountsModel::none(self.0, classes, columns))
            }
            _ => None,
        };
        with_rows!(job.training.rows, data => fit_of(self.0, job, data, before))
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(CountsModel::of_parts(self.0, parts)?))
    }

    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        Some(("class_prior", "class_prior"))
    }

    fn takes_negative(&self) -> bool {
        !self.0.is_of_counts()
    }
}

fn fit_of<C: RowChunk>(
    kind: Kind,
    job: &mut Job<'_>,
    data: &DataSet<C>,
    before: Option<CountsModel>,
) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(kind, job.settings)?;
    let labels = Labels { targets: job.targets()?, weights: job.row_weights() };
    // Counts and weights of every class. The fit counts the classes; here they are counted only if the most would not fit.
    if job.must_fit(CLASSES_MAX.saturating_mul(2)).is_err() {
        job.must_fit(labels.classes().len().max(2).saturating_mul(2))?;
    }
    let array = |name: &str| job.training.start.and_then(|parts| parts.get(name)?.values.widened());
    let (class_prior, alpha) = (array("class_prior"), array("alpha"));
    let extra = Extra { class_prior: class_prior.as_deref(), alpha: alpha.as_deref() };
    let model = match before {
        Some(before) => super::update(job.master, &params, data, labels, &extra, before)?,
        None => super::fit(job.master, &params, data, labels, &extra)?,
    };
    let text = &format_args!("round 1: counts of {}", count(model.classes().len() as u64, "class"));
    (job.observer)(&Progress { step: 1, steps_max: Some(1), text, phase_done: None });
    let answer = match job.training.answers {
        true => {
            let joint = model.joint(job.master, data)?;
            Some(Answer::Values(answers::likeliest(&joint, model.classes())))
        }
        false => None,
    };
    let report = report(&model, &params, data.records());
    Ok(Fitted { model: Box::new(model), report, answer })
}

fn report(model: &CountsModel, params: &Params, rows: u64) -> Report {
    let mut report = class_report(model.classes(), model.class_count(), model.columns(), rows);
    report.lines.push(("smoothing", format!("{} added to all counts", params.alpha())));
    report.lists.push(("class_count", model.class_count().to_vec()));
    report
}

impl learner::Model for CountsModel {
    fn columns(&self) -> usize {
        CountsModel::columns(self)
    }

    fn parts(&self) -> Parts {
        CountsModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if !CLASSIFIER.contains(&question) {
            return Err(LearnerError::unanswered(self.kind.name(), question));
        }
        let joint = with_rows!(about.rows, data => joint(self, about, data))?;
        Ok(answers::classified(question, joint, self.classes()))
    }
}

fn joint<C: RowChunk>(
    model: &CountsModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, InputError> {
    match about.scope {
        Scope::All(master) => model.joint(master, data),
        Scope::Chunk(index) => model.joint_of(&data.chunk(index).map_err(qjam::Error::from)?),
    }
}
