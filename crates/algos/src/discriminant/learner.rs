//! Discriminant analyses as callers see them that take any learner.

use super::model::format;
use super::{DiscriminantModel, Kind, Params};
use crate::answers::{self, CLASSIFIER};
use crate::bayes::class_report;
use crate::input::{InputError, Labels, Problem};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table};
use qjam::{DataSet, Rows};

/// One of the two.
#[derive(Debug)]
pub struct Discriminant(pub Kind);

impl Learner for Discriminant {
    fn table(&self) -> &'static Table {
        self.0.table()
    }

    fn format(&self) -> Format {
        format(self.0)
    }

    fn questions(&self) -> &'static [Question] {
        match self.0 {
            Kind::Linear => &[
                Question::Predict,
                Question::Probabilities,
                Question::LogProbabilities,
                Question::JointLogProbabilities,
                Question::Decisions,
                Question::Transform,
            ],
            Kind::Quadratic => &[
                Question::Predict,
                Question::Probabilities,
                Question::LogProbabilities,
                Question::JointLogProbabilities,
                Question::Decisions,
            ],
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), LearnerError> {
        match Params::from_settings(self.0, settings)?.is_contradictory() {
            true => Err(contradiction(self.0, settings)),
            false => Ok(()),
        }
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF32(data) => fit_of(self.0, job, data),
            Rows::DenseF64(data) => fit_of(self.0, job, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: self.0.name() }),
        }
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(DiscriminantModel::of_parts(self.0, parts)?))
    }

    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        Some(("priors", "priors"))
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        match self.0 {
            // Without regularisation small samples may have too little spread.
            Kind::Quadratic => &[("regularization", "0.1")],
            Kind::Linear => &[],
        }
    }
}

fn contradiction(kind: Kind, settings: &Settings) -> LearnerError {
    let remedies =
        [format!("{} eigen", settings.spelled("solver")), format!("{} none", settings.spelled("shrinkage"))];
    LearnerError::remedied(Problem::Shrinkage.of(kind.name()), remedies)
}

fn fit_of<C: RowChunk>(kind: Kind, job: &mut Job<'_>, data: &DataSet<C>) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(kind, job.settings)?;
    let labels = Labels { targets: job.targets()?, weights: None };
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    // The covariances of every class.
    job.must_fit(columns.saturating_mul(labels.classes().len()))?;
    let priors = job.training.start.and_then(|parts| parts.get("priors")?.values.widened());
    let model = super::fit(job.master, &params, data, labels, priors.as_deref())?;
    let text = &format_args!("covariances of {} classes", model.classes().len());
    (job.observer)(&Progress { step: 1, steps_max: Some(1), text, phase_done: None });
    let answer = match job.training.answers {
        true => {
            let joint = model.joint(job.master, data)?;
            Some(Answer::Values(answers::likeliest(&joint, model.classes())))
        }
        false => None,
    };
    let report = report(&model, data.records());
    Ok(Fitted { model: Box::new(model), report, answer })
}

fn report(model: &DiscriminantModel, rows: u64) -> Report {
    let mut report = class_report(model.classes(), model.priors(), model.columns(), rows);
    report.lines[0] = ("result", "found".into());
    if model.directions() > 0 {
        report.lines.push(("directions", model.directions().to_string()));
    }
    report.lists.push(("priors", model.priors().to_vec()));
    report
}

impl learner::Model for DiscriminantModel {
    fn columns(&self) -> usize {
        DiscriminantModel::columns(self)
    }

    fn parts(&self) -> Parts {
        DiscriminantModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        match about.rows {
            Rows::DenseF32(data) => answer(self, question, about, data),
            Rows::DenseF64(data) => answer(self, question, about, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: self.kind().name() }),
        }
    }
}

fn answer<C: RowChunk>(
    model: &DiscriminantModel,
    question: Question,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Answer, LearnerError> {
    let chunk = |index: usize| -> Result<_, InputError> { Ok(data.chunk(index).map_err(qjam::Error::from)?) };
    if question == Question::Transform && model.directions() > 0 {
        let found = match about.scope {
            Scope::All(master) => model.transform(master, data)?,
            Scope::Chunk(index) => model.transform_of(&chunk(index)?)?,
        };
        return Ok(Answer::Doubles(found.unwrap_or_default(), model.directions()));
    }
    if !CLASSIFIER.contains(&question) && question != Question::Decisions {
        return Err(LearnerError::unanswered(model.kind().name(), question));
    }
    let joint = match about.scope {
        Scope::All(master) => model.joint(master, data)?,
        Scope::Chunk(index) => model.joint_of(&chunk(index)?)?,
    };
    Ok(match question {
        Question::Decisions if model.classes().len() == 2 => {
            Answer::Values(joint.chunks_exact(2).map(|row| row[1] - row[0]).collect())
        }
        Question::Decisions => Answer::Doubles(joint, model.classes().len()),
        _ => answers::classified(question, joint, model.classes()),
    })
}
