//! Independent component analysis as callers see it that take any learner.

use super::model::FORMAT;
use super::params::TABLE;
use super::{Fit, IcaModel, NAME, Params};
use crate::input::InputError;
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table, Value};
use qjam::{DataSet, Rows};

/// Independent component analysis.
#[derive(Debug)]
pub struct FastIca;

impl Learner for FastIca {
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
            Rows::DenseF32(data) => fit_of(job, data),
            Rows::DenseF64(data) => fit_of(job, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(IcaModel::of_parts(parts)?))
    }

    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        Some(("w_init", "w_init"))
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("components", "2")]
    }
}

fn fit_of<C: RowChunk>(job: &mut Job<'_>, data: &DataSet<C>) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(job.settings)?;
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    // The covariances, and as many directions.
    job.must_fit(columns.saturating_mul(2))?;
    let start = job.training.start.and_then(|parts| parts.get("w_init")?.values.widened());
    let (master, observer) = (job.master, &mut job.observer);
    // By deflation each component has as many.
    let steps_max = (!params.deflates).then_some(params.max_iter);
    let fit = super::fit(master, &params, data, start.as_deref(), |round, turned| {
        master.record_metric("turned", turned);
        let text = &format_args!("round {round}: components turned {turned:.3e}");
        observer(&Progress { step: round, steps_max, text, phase_done: None });
    })?;
    let answer = match job.training.answers {
        true => Some(Answer::Doubles(fit.model.transform(master, data)?, fit.model.len())),
        false => None,
    };
    let report = report(job.settings, &params, &fit, data.records());
    Ok(Fitted { model: Box::new(fit.model), report, answer })
}

fn report(settings: &Settings, params: &Params, fit: &Fit, rows: u64) -> Report {
    let (components, columns) = (fit.model.len() as u64, fit.model.columns() as u64);
    let rounds = count(fit.rounds, "round");
    let result = match fit.converged {
        true => format!("converged after {rounds}"),
        false => format!("stopped after {rounds}, before convergence"),
    };
    let advice = (!fit.converged).then(|| {
        let (more, less) = (settings.spelled("max_iter"), settings.spelled("tol"));
        format!("not converged; give more with {more}, or accept less with {less}")
    });
    let remarks = match fit.rank {
        Some(rank) if (rank as u64) < columns => {
            vec![format!("{rank} directions of {columns} have variance; the others are left out")]
        }
        None if params.components.is_some() => {
            let (asked, whiten) = (settings.spelled("n_components"), settings.spelled("whiten"));
            vec![format!(
                "{asked} says nothing with {whiten} none: rows that are not made white have as many components as columns"
            )]
        }
        _ => vec![],
    };
    Report {
        size: format!("{}, {}", count(components, "component"), count(columns, "column")),
        lines: vec![("result", result)],
        facts: vec![
            ("components", Value::Integer(components)),
            ("columns", Value::Integer(columns)),
            ("iterations", Value::Integer(fit.rounds)),
            ("converged", Value::Flag(fit.converged)),
            ("rows", Value::Integer(rows)),
        ],
        remarks,
        advice,
        phase: "fitting",
        answers_file: "sources.npy",
        ..Report::default()
    }
}

impl learner::Model for IcaModel {
    fn columns(&self) -> usize {
        IcaModel::columns(self)
    }

    fn parts(&self) -> Parts {
        IcaModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        if !matches!(question, Question::Transform | Question::Reconstruct) {
            return Err(LearnerError::unanswered(NAME, question));
        }
        let sources = match about.rows {
            Rows::DenseF32(data) => sources(self, about, data)?,
            Rows::DenseF64(data) => sources(self, about, data)?,
            Rows::CsrF32(_) | Rows::CsrF64(_) => return Err(LearnerError::Sparse { learner: NAME }),
        };
        Ok(match question {
            Question::Transform => Answer::Doubles(sources, self.len()),
            _ => Answer::Doubles(self.inverse(&sources), IcaModel::columns(self)),
        })
    }
}

fn sources<C: RowChunk>(
    model: &IcaModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, InputError> {
    match about.scope {
        Scope::All(master) => model.transform(master, data),
        Scope::Chunk(index) => model.transform_of(&data.chunk(index).map_err(qjam::Error::from)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learner::Training;
    use crate::options::Spelling;
    use qjam::{Master, Rng};

    #[test]
    fn components_without_whitening_are_told_to_say_nothing() {
        let mut random = Rng::keyed(1, 0, 0);
        let rows = Rows::from(DataSet::dense((0..100).map(|_| random.normal()).collect(), 2).unwrap());
        let master = &Master::builder().no_run_file().connect("local:1").unwrap();
        let remarks = |whiten: &str| {
            let mut settings = Settings::new(&TABLE, Spelling::Command);
            settings.set_text("components", "1").unwrap();
            settings.set_text("whiten", whiten).unwrap();
            let observer = &mut |_: &Progress<'_>| {};
            let (training, memory_limit) = (Training::new(&rows), None);
            let mut job = Job { master, settings: &settings, training, memory_limit, observer };
            FastIca.fit(&mut job).unwrap().report.remarks
        };
        assert_eq!(remarks("unit-variance"), Vec::<String>::new());
        assert!(remarks("none")[0].contains("--components says nothing with --whiten none"));
    }
}
