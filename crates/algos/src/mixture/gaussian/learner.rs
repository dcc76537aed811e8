//! Gaussian mixtures as callers see them that take any learner.

use super::model::FORMAT;
use super::params::{Init, TABLE};
use super::{Covariance, Fit, Given, MixtureError, MixtureModel, NAME, Params};
use crate::answers::{self, CLASSIFIER};
use crate::clustering::kmeans::learner::{bounds_fit, start_must_fit};
use crate::clustering::kmeans::{self, Points};
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress, Question, Report, Scope, count,
};
use crate::linear::rows::RowChunk;
use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table, Value};
use qjam::{DataSet, Rows};

/// A mixture of normal densities.
#[derive(Debug)]
pub struct GaussianMixture;

const QUESTIONS: &[Question] = &[
    Question::Predict,
    Question::Probabilities,
    Question::LogProbabilities,
    Question::JointLogProbabilities,
    Question::Score,
];

impl Learner for GaussianMixture {
    fn table(&self) -> &'static Table {
        &TABLE
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        QUESTIONS
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF32(data) => fit_of(job, data),
            Rows::DenseF64(data) => fit_of(job, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(MixtureModel::of_parts(parts)?))
    }

    fn array_options(&self) -> Vec<(&'static str, &'static str)> {
        ["weights_init", "means_init", "precisions_init"].map(|name| (name, name)).to_vec()
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("components", "3")]
    }
}

/// What the job begins from: arrays that options name, or all of a model with the bound that it was left with.
fn given(job: &Job<'_>, covariance: Covariance) -> Result<Given, LearnerError> {
    let Some(parts) = job.training.start else { return Ok(Given::default()) };
    let wrong = |source| LearnerError::Parts { learner: NAME, source };
    let numbers = |name: &str| parts.get(name).and_then(|tensor| tensor.values.widened());
    let warm = match numbers("lower_bound").as_deref() {
        Some([bound]) => {
            let text = Value::Text(covariance.name().into());
            let named = Parts { attributes: vec![("covariance_type".into(), text)], ..parts.clone() };
            Some((MixtureModel::of_parts(&named).map_err(wrong)?.gaussians().clone(), *bound))
        }
        _ => None,
    };
    let (weights, means, precisions) =
        (numbers("weights_init"), numbers("means_init"), numbers("precisions_init"));
    Ok(Given { weights, means, precisions, warm })
}

fn fit_of<C: RowChunk + Points>(job: &mut Job<'_>, data: &DataSet<C>) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(job.settings)?;
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    // Covariances, their factors and sums of products, for every component that has its own.
    let per_column = match params.covariance {
        Covariance::Full => params.components.saturating_mul(columns).saturating_mul(3),
        Covariance::Tied => columns.saturating_mul(3).saturating_add(params.components.saturating_mul(3)),
        Covariance::Diag | Covariance::Spherical => params.components.saturating_mul(6),
    };
    job.must_fit(per_column)?;
    let given = given(job, params.covariance)?;
    if given
        .warm
        .as_ref()
        .is_some_and(|(before, _)| (before.len(), before.columns) != (params.components, columns))
    {
        let source = PartsError::inconsistent("the components to begin from are of another number or width");
        return Err(LearnerError::Parts { learner: NAME, source });
    }
    let params = start_fits(job, params, &given, data.records())?;
    let (master, observer) = (job.master, &mut job.observer);
    let mut has_begun = false;
    // Each start counts its own rounds.
    let steps_max = (params.starts == 1).then_some(params.max_iter);
    let fit = super::fit(master, &params, data, given, |round, bound| {
        let is_first = !std::mem::replace(&mut has_begun, true);
        master.record_metric("mean log-likelihood", bound);
        observer(&Progress {
            step: round,
            steps_max,
            text: &format_args!("round {round}: mean log-likelihood {bound:.6e}"),
            phase_done: is_first.then_some("first components and round"),
        });
    });
    let fit = fit.map_err(|e| sorted(e, job.settings))?;
    let log_likelihood = fit.model.log_likelihood(master, data)?;
    let answer = match job.training.answers {
        true => Some(Answer::Labels(labels(&fit.model.joint(master, data)?, fit.model.len()))),
        false => None,
    };
    let report = report(job.settings, &params, &fit, log_likelihood, data.records());
    Ok(Fitted { model: Box::new(fit.model), report, answer })
}

/// Refuses rows for which the start takes more memory than there is, and leaves bounds out that do not fit, as k-means does.
fn start_fits(job: &Job<'_>, params: Params, given: &Given, rows: u64) -> Result<Params, LearnerError> {
    let is_given = given.warm.is_some()
        || [&given.weights, &given.means, &given.precisions].iter().all(|numbers| numbers.is_some());
    if is_given || !matches!(params.init, Init::KMeans | Init::PlusPlus) {
        return Ok(params);
    }
    start_must_fit(job, rows)?;
    let clusters = kmeans::Params::new(params.components).map_err(LearnerError::unusable)?;
    Ok(params.with_pruning(bounds_fit(job, &clusters, rows)))
}

fn sorted(e: MixtureError, settings: &Settings) -> LearnerError {
    match e {
        MixtureError::Singular { .. } => LearnerError::remedied(
            e,
            [
                settings.spelled("n_components"),
                settings.spelled("reg_covar"),
                format!("{} diag", settings.spelled("covariance_type")),
            ],
        ),
        e => e.into(),
    }
}

fn report(settings: &Settings, params: &Params, fit: &Fit, log_likelihood: f64, rows: u64) -> Report {
    let (k, columns) = (fit.model.len() as u64, fit.model.columns() as u64);
    let rounds = count(fit.lower_bounds.len() as u64, "round");
    let freedom = params.covariance.freedom(k, columns) as f64;
    // The logarithm of a count: any library's has these digits.
    let bic = freedom * (rows as f64).ln() - 2.0 * log_likelihood;
    let aic = 2.0 * freedom - 2.0 * log_likelihood;
    let result = match fit.converged {
        true => format!(
            "converged after {rounds}: the log-likelihood gains less than {}",
            settings.spelled("tol")
        ),
        false => format!("stopped after {rounds}, before convergence"),
    };
    let mut remarks = vec![];
    if !fit.barely_regular.is_empty() {
        let list: Vec<String> = fit.barely_regular.iter().take(8).map(usize::to_string).collect();
        let (more, shown) = (if fit.barely_regular.len() > 8 { ", …" } else { "" }, list.join(", "));
        remarks.push(format!(
            "the covariances of component {shown}{more} are singular but for the {} that {} adds to variances: columns are \
             constant or depend on each other, or rows coincide",
            params.reg_covar,
            settings.spelled("reg_covar"),
        ));
    }
    let advice = (!fit.converged && params.max_iter > 0).then(|| {
        let (more, less) = (settings.spelled("max_iter"), settings.spelled("tol"));
        format!("not converged; give more with {more}, or accept less with {less}")
    });
    Report {
        size: format!("{}, {}", count(k, "component"), count(columns, "column")),
        lines: vec![
            ("result", result),
            ("log-likelihood", format!("{:.9e} in the mean of all rows", log_likelihood / rows as f64)),
            ("criteria", format!("BIC {bic:.6e}, AIC {aic:.6e}; lower is better")),
        ],
        facts: vec![
            ("components", Value::Integer(k)),
            ("columns", Value::Integer(columns)),
            ("lower_bound", Value::Real(fit.lower_bound())),
            ("log_likelihood", Value::Real(log_likelihood)),
            ("bic", Value::Real(bic)),
            ("aic", Value::Real(aic)),
            ("iterations", Value::Integer(fit.lower_bounds.len() as u64)),
            ("converged", Value::Flag(fit.converged)),
            ("rows", Value::Integer(rows)),
        ],
        lists: vec![("weights", fit.model.weights().to_vec()), ("lower_bounds", fit.lower_bounds.clone())],
        remarks,
        advice,
        phase: "fitting",
        answers_file: "labels.npy",
        ..Report::default()
    }
}

fn labels(joint: &[f64], k: usize) -> Vec<u32> {
    let numbers: Vec<f64> = (0..k).map(|component| component as f64).collect();
    answers::likeliest(joint, &numbers).into_iter().map(|label| label as u32).collect()
}

impl learner::Model for MixtureModel {
    fn columns(&self) -> usize {
        MixtureModel::columns(self)
    }

    fn parts(&self) -> Parts {
        MixtureModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        match about.rows {
            Rows::DenseF32(data) => answer(self, question, about, data),
            Rows::DenseF64(data) => answer(self, question, about, data),
            Rows::CsrF32(_) | Rows::CsrF64(_) => Err(LearnerError::Sparse { learner: NAME }),
        }
    }
}

fn answer<C: RowChunk>(
    model: &MixtureModel,
    question: Question,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Answer, LearnerError> {
    if let (Question::Score, Scope::All(master)) = (question, about.scope) {
        return Ok(Answer::Number(model.log_likelihood(master, data)? / data.records().max(1) as f64));
    }
    if !CLASSIFIER.contains(&question) {
        return Err(LearnerError::unanswered(NAME, question));
    }
    let joint = match about.scope {
        Scope::All(master) => model.joint(master, data)?,
        Scope::Chunk(index) => model.joint_of(&data.chunk(index).map_err(qjam::Error::from)?)?,
    };
    Ok(match question {
        Question::Predict => Answer::Labels(labels(&joint, model.len())),
        _ => {
            let numbers: Vec<f64> = (0..model.len()).map(|component| component as f64).collect();
            answers::classified(question, joint, &numbers)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learner::Training;
    use crate::options::Spelling;
    use qjam::Master;

    #[test]
    fn rows_whose_first_centres_take_more_memory_than_there_is_are_refused() {
        let rows = Rows::from(DataSet::dense((0..100_000).map(f64::from).collect(), 1).unwrap());
        let master = &Master::builder().no_run_file().connect("local:1").unwrap();
        let said = |init: &str| {
            let mut settings = Settings::new(&TABLE, Spelling::Command);
            settings.set_text("components", "2").unwrap();
            settings.set_text("init", init).unwrap();
            settings.set_text("iterations", "1").unwrap();
            let observer = &mut |_: &Progress<'_>| {};
            let (training, memory_limit) = (Training::new(&rows), Some(1_000_000));
            let mut job = Job { master, settings: &settings, training, memory_limit, observer };
            GaussianMixture.fit(&mut job).map(drop).map_err(|e| e.to_string())
        };
        for init in ["kmeans", "k-means++"] {
            assert!(said(init).unwrap_err().contains("keeps 16 bytes for each of 100000 rows"), "{init}");
        }
        assert_eq!(said("random_from_data"), Ok(()));
    }
}
