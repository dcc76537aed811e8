//! Gaussian naive Bayes as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{Fit, GaussianModel, NAME, Params};
use crate::answers::{self, CLASSIFIER};
use crate::bayes::class_report;
use crate::kernels::nearest::Real;
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::models::{Format, Parts, PartsError};
use crate::options::{Table, Value};
use qjam::{DataSet, Dense, Rows};

/// Gaussian naive Bayes.
#[derive(Debug)]
pub struct GaussianNaiveBayes;

impl Learner for GaussianNaiveBayes {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        CLASSIFIER
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF32(data) => fit_of(job, data, None),
            Rows::DenseF64(data) => fit_of(job, data, None),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    /// The first batch may come with `classes` alone; without them its own are all there are.
    fn update(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        let wrong = |source| LearnerError::Parts { learner: NAME, source };
        let before = match job.training.start {
            Some(parts) if parts.get("theta").is_some() => {
                Some(GaussianModel::of_parts(parts).map_err(wrong)?)
            }
            Some(parts) if parts.get("classes").is_some() => {
                let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
                Some(GaussianModel::none(parts.tensor::<1>("classes").map_err(wrong)?.1, columns))
            }
            _ => None,
        };
        match job.training.rows {
            Rows::DenseF32(data) => fit_of(job, data, before),
            Rows::DenseF64(data) => fit_of(job, data, before),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    /// What smoothing adds is a share of the variance of all rows, whatever their weight.
    fn leaves_out_weightless(&self) -> bool {
        false
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(GaussianModel::of_parts(parts)?))
    }

    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        Some(("priors", "priors"))
    }
}

fn fit_of<T: Real>(
    job: &mut Job<'_>,
    data: &DataSet<Dense<T>>,
    before: Option<GaussianModel>,
) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(job.settings)?;
    // A mean and a variance for each of two classes or more.
    job.must_fit(4)?;
    let (master, targets, weights) = (job.master, job.targets()?, job.row_weights());
    let priors =
        job.training.start.and_then(|parts| parts.get("priors")).map(|priors| priors.values.widened());
    let priors = priors.flatten();
    let priors = priors.as_deref();
    let fit = match before {
        Some(before) => super::update(master, &params, data, targets, weights, priors, before),
        None => super::fit(master, &params, data, targets, weights, priors),
    };
    let Fit { model, rows } = fit?;
    let text = &format_args!("round 1: moments of {}", count(model.classes().len() as u64, "class"));
    (job.observer)(&Progress { step: 1, steps_max: Some(1), text, phase_done: None });
    let answer = match job.training.answers {
        true => {
            let joint = model.joint_log_probabilities(master, data)?;
            Some(Answer::Values(answers::likeliest(&joint, model.classes())))
        }
        false => None,
    };
    let report = report(&model, rows);
    Ok(Fitted { model: Box::new(model), report, answer })
}

fn report(model: &GaussianModel, rows: u64) -> Report {
    let mut report = class_report(model.classes(), model.counts(), model.columns(), rows);
    report.lines.push(("smoothing", format!("{:.3e} added to all variances", model.epsilon())));
    report.facts.push(("epsilon", Value::Real(model.epsilon())));
    report.lists.push(("class_count", model.counts().to_vec()));
    report
}

impl learner::Model for GaussianModel {
    fn columns(&self) -> usize {
        GaussianModel::columns(self)
    }

    fn parts(&self) -> Parts {
        GaussianModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if !CLASSIFIER.contains(&question) {
            return Err(LearnerError::unanswered(NAME, question));
        }
        let joint = match about.rows {
            Rows::DenseF32(data) => joint(self, about, data)?,
            Rows::DenseF64(data) => joint(self, about, data)?,
            Rows::CsrF32(_) | Rows::CsrF64(_) => return Err(LearnerError::Sparse { learner: NAME }),
        };
        Ok(answers::classified(question, joint, self.classes()))
    }
}

fn joint<T: Real>(
    model: &GaussianModel,
    about: &About<'_>,
    data: &DataSet<Dense<T>>,
) -> Result<Vec<f64>, LearnerError> {
    Ok(match about.scope {
        Scope::All(master) => model.joint_log_probabilities(master, data)?,
        Scope::Chunk(index) => {
            model.joint_log_probabilities_of(&data.chunk(index).map_err(qjam::Error::from)?)?
        }
    })
}
