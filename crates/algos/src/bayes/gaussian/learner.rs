//! Gaussian naive Bayes as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{Fit, FitError, GaussianModel, ModelError, Params};
use crate::kernels::nearest::Real;
use crate::kernels::{Level, elementwise};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
    sort_model_errors,
};
use crate::models::{Format, Parts, PartsError};
use crate::options::{Table, Value};
use qjam::{DataSet, Dense, Rows};

const NAME: &str = "gaussian-nb";

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
        &[
            Question::Predict,
            Question::Probabilities,
            Question::LogProbabilities,
            Question::JointLogProbabilities,
        ]
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
    (job.observer)(&Progress { step: 1, text, phase_done: None });
    let answer = match job.training.answers {
        true => {
            let joint = model.joint_log_probabilities(master, data)?;
            Some(Answer::Values(model.likeliest(&joint)))
        }
        false => None,
    };
    let report = report(&model, rows);
    Ok(Fitted { model: Box::new(model), report, answer })
}

impl From<FitError> for LearnerError {
    fn from(e: FitError) -> LearnerError {
        match e {
            FitError::Run(e) => LearnerError::Run(e),
            FitError::NotFinite { .. } => LearnerError::not_finite(e, vec![]),
            e => LearnerError::unusable(e),
        }
    }
}

sort_model_errors!(ModelError as e {});

fn report(model: &GaussianModel, rows: u64) -> Report {
    let (classes, columns) = (model.classes().len() as u64, model.columns() as u64);
    let described = |class: usize| format!("{} ({})", model.classes()[class], model.counts()[class]);
    const SHOWN: usize = 8;
    let mut found: Vec<String> = (0..model.classes().len().min(SHOWN)).map(described).collect();
    if model.classes().len() > SHOWN {
        found.push(format!("and {} more", model.classes().len() - SHOWN));
    }
    let plural = if classes == 1 { "1 class".into() } else { format!("{classes} classes") };
    Report {
        size: format!("{plural}, {}", count(columns, "column")),
        lines: vec![
            ("result", "found in one round".into()),
            ("classes", found.join(", ")),
            ("smoothing", format!("{:.3e} added to all variances", model.epsilon())),
        ],
        facts: vec![
            ("classes", Value::Integer(classes)),
            ("columns", Value::Integer(columns)),
            ("epsilon", Value::Real(model.epsilon())),
            ("rows", Value::Integer(rows)),
        ],
        lists: vec![("class_count", model.counts().to_vec())],
        phase: "fitting",
        answers_file: "classes.npy",
        ..Report::default()
    }
}

impl learner::Model for GaussianModel {
    fn columns(&self) -> usize {
        GaussianModel::columns(self)
    }

    fn parts(&self) -> Parts {
        GaussianModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        let answers = [
            Question::Predict,
            Question::Probabilities,
            Question::LogProbabilities,
            Question::JointLogProbabilities,
        ];
        if !answers.contains(&question) {
            return Err(LearnerError::unanswered(NAME, question));
        }
        let joint = match about.rows {
            Rows::DenseF32(data) => joint(self, about, data)?,
            Rows::DenseF64(data) => joint(self, about, data)?,
            Rows::CsrF32(_) | Rows::CsrF64(_) => return Err(LearnerError::Sparse { learner: NAME }),
        };
        let classes = self.classes().len();
        Ok(match question {
            Question::Predict => Answer::Values(self.likeliest(&joint)),
            Question::JointLogProbabilities => Answer::Doubles(joint, classes),
            Question::LogProbabilities => Answer::Doubles(self.log_probabilities(joint), classes),
            _ => {
                let mut probabilities = self.log_probabilities(joint);
                elementwise::exp(Level::best(), &mut probabilities);
                Answer::Doubles(probabilities, classes)
            }
        })
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
