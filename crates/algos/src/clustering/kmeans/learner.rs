//! K-means and its mini-batch variant as callers see them that take any learner.

use super::detached::DetachError;
use super::model::FORMAT;
use super::params::{MINIBATCH, TABLE};
use super::{Centres, Fit, FitError, Iteration, Model, ModelError, Outcome, Params, Points};
use crate::kernels::nearest::Real;
use crate::learner::{
    self, About, Answer, Detachable, DetachedRows, Fitted, Job, Learner, LearnerError, Progress, Question,
    Report, Scope, Weights, count, sort_model_errors,
};
use crate::models::{Format, Parts, PartsError, Values};
use crate::options::{Settings, Table, Value};
use qjam::fused::{FusedRound, StepError};
use qjam::{DataSet, with_rows};

const QUESTIONS: &[Question] = &[Question::Predict, Question::Transform, Question::Score];
/// The option that may name a file of first centres, and the tensor that it is.
const START: (&str, &str) = ("init", "centres");
const NAME: &str = "k-means";

/// K-means on all rows at once.
#[derive(Debug)]
pub struct KMeans;

/// K-means on batches of rows.
#[derive(Debug)]
pub struct MiniBatchKMeans;

impl Learner for KMeans {
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
        with_rows!(job.training.rows, data => fit_of(job, data, false))
    }

    fn detachable(&self) -> Option<&dyn Detachable> {
        Some(self)
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        assemble(parts)
    }

    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        Some(START)
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("k", "3")]
    }
}

impl Detachable for KMeans {
    fn first_round(&self, job: &Job<'_>) -> Result<FusedRound, LearnerError> {
        with_rows!(job.training.rows, data => detach(job, data))
    }

    fn conclude(
        &self,
        settings: &Settings,
        rows: &DetachedRows,
        kept: &[u8],
    ) -> Result<Fitted, LearnerError> {
        match rows.is_single {
            true => conclude::<f32>(settings, rows, kept),
            false => conclude::<f64>(settings, rows, kept),
        }
    }
}

impl Learner for MiniBatchKMeans {
    fn table(&self) -> &'static Table {
        &MINIBATCH
    }

    fn format(&self) -> Format {
        FORMAT
    }

    fn questions(&self) -> &'static [Question] {
        QUESTIONS
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        with_rows!(job.training.rows, data => fit_of(job, data, true))
    }

    fn update(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        with_rows!(job.training.rows, data => update(job, data))
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        assemble(parts)
    }

    fn array_option(&self) -> Option<(&'static str, &'static str)> {
        Some(START)
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("k", "3"), ("batch", "60"), ("iterations", "3")]
    }
}

fn assemble(parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
    match parts.get("centres").map(|centres| &centres.values) {
        Some(Values::F32(_)) => Ok(Box::new(Model::<f32>::of_parts(parts)?)),
        _ => Ok(Box::new(Model::<f64>::of_parts(parts)?)),
    }
}

fn params(job: &Job<'_>) -> Result<Params, LearnerError> {
    let params = Params::from_settings(job.settings).map_err(LearnerError::unusable)?;
    Ok(params.with_weights_last(job.has_weights_in_rows()))
}

/// Centres to begin from, in the numbers of the rows.
fn given<T: Real>(job: &Job<'_>) -> Result<Option<Centres<T>>, LearnerError> {
    let parts = job.training.start.filter(|parts| parts.get("centres").is_some());
    let wrong = |source| LearnerError::Parts { learner: NAME, source };
    Ok(parts.map(Model::of_parts).transpose().map_err(wrong)?.map(|model| model.centres().clone()))
}

fn fit_of<C: Points>(job: &mut Job<'_>, data: &DataSet<C>, by_batches: bool) -> Result<Fitted, LearnerError> {
    let params = params(job)?;
    // Centres, and their sums on both sides of a round.
    job.must_fit(params.k().saturating_mul(3))?;
    let params = params.with_pruning(params.pruning() && bounds_fit(job, &params, data.records()));
    let (given, settings, master) = (given::<C::Number>(job)?, job.settings, job.master);
    if given.is_none() {
        start_must_fit(job, data.records())?;
    }
    // Each start counts its own iterations.
    let steps_max = match by_batches {
        true => Some(super::minibatch::batches_max(&params, data.records())),
        false => (given.is_some() || params.starts() == 1).then_some(params.iterations_max() as u64),
    };
    let (observer, mut has_begun) = (&mut job.observer, false);
    let tell = |seen: &Iteration| {
        let is_first = !std::mem::replace(&mut has_begun, true);
        let moved = seen.moved.sqrt();
        master.record_metric("centres moved", moved);
        observer(&Progress {
            step: seen.number as u64,
            steps_max,
            text: &format_args!("iteration {}: centres moved {moved:.3e}", seen.number),
            phase_done: is_first.then_some("first centres and iteration"),
        });
    };
    let fitted = match (given, by_batches) {
        (Some(centres), false) => super::fit_from(master, &params, data, centres, tell),
        (None, false) => super::fit(master, &params, data, tell),
        (Some(centres), true) => super::fit_minibatch_from(master, &params, data, centres, tell),
        (None, true) => super::fit_minibatch(master, &params, data, tell),
    };
    let fitted = fitted.map_err(|e| sorted(e, settings))?;
    let answer = match job.training.answers {
        true => Some(Answer::Labels(fitted.model.labels(master, data, &params)?)),
        false => None,
    };
    let report = report(settings, &params, &fitted, data.records(), by_batches);
    Ok(Fitted { model: Box::new(fitted.model), report, answer })
}

fn detach<C: Points>(job: &Job<'_>, data: &DataSet<C>) -> Result<FusedRound, LearnerError> {
    let params = params(job)?;
    job.must_fit(params.k().saturating_mul(3))?;
    super::detached::first_round(&params, data, given::<C::Number>(job)?).map_err(|e| match e {
        DetachError::Data(e) => sorted(e, job.settings),
        e => LearnerError::unusable(e),
    })
}

/// The model that came of a detached fit.
fn conclude<T: Real>(settings: &Settings, rows: &DetachedRows, kept: &[u8]) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(settings).map_err(LearnerError::unusable)?;
    let kept = qjam::fused::kept(kept).map_err(LearnerError::unusable)?;
    let none = || LearnerError::unusable(StepError::Refused("the job has not come to a model".into()));
    let (fitted, params) = super::detached::finished::<T>(&params, kept).ok_or_else(none)?;
    let report = report(settings, &params, &fitted, rows.count, false);
    Ok(Fitted { model: Box::new(fitted.model), report, answer: None })
}

/// Learns from one batch: all rows of the job. `counts` is the weight of the rows that each centre was given before.
fn update<C: Points>(job: &mut Job<'_>, data: &DataSet<C>) -> Result<Fitted, LearnerError> {
    let (params, master) = (params(job)?, job.master);
    job.must_fit(params.k().saturating_mul(3))?;
    let wrong = |e| sorted(e, job.settings);
    let before = match given(job)? {
        Some(centres) => centres,
        None => {
            start_must_fit(job, data.records())?;
            super::first_centres(master, &params, data).map_err(wrong)?
        }
    };
    let mut counts = match job.training.start.filter(|parts| parts.get("counts").is_some()) {
        Some(parts) => {
            parts.tensor::<1>("counts").map_err(|source| LearnerError::Parts { learner: NAME, source })?.1
        }
        None => vec![0.0; params.k()],
    };
    let model = Model::new(super::learn(master, &params, data, &before, &mut counts).map_err(wrong)?);
    let mut report = Report { lists: vec![("counts", counts)], ..Report::default() };
    let answer = match job.training.answers {
        true => {
            let labels = model.labels(master, data, &params)?;
            let inertia = model.inertia_all(master, data, params.weighted())?;
            report.facts.push(("inertia", Value::Real(inertia)));
            Some(Answer::Labels(labels))
        }
        false => None,
    };
    Ok(Fitted { model: Box::new(model), report, answer })
}

/// Whether what pruning keeps of each row fits into the memory limit: a bound for each panel of 16 centres, in two versions.
/// Decides about time and about no bit.
pub(crate) fn bounds_fit(job: &Job<'_>, params: &Params, rows: u64) -> bool {
    let Some(limit) = job.memory_limit else { return true };
    let bounds = rows.saturating_mul(2 * (8 + 8 * params.k().div_ceil(16) as u64));
    bounds <= limit / 8 * processes(job)
}

/// Processes of this machine among which the rows are shared out; threads share this one.
fn processes(job: &Job<'_>) -> u64 {
    job.master.workers().iter().filter(|worker| worker.pid.is_some()).count().max(1) as u64
}

/// Rows for which choosing the first centres takes more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "k-means: choosing the first centres keeps {START_ROW_BYTES} bytes for each of {rows} rows, {bytes} bytes, and there are {bytes_max}; \
     raise the memory limit, use more worker processes, or begin from centres of your own"
)]
struct TooManyRows {
    rows: u64,
    bytes: u64,
    bytes_max: u64,
}

/// Every row keeps its distance to the centres so far, as it was before the round and as it is after it.
const START_ROW_BYTES: u64 = 16;

/// Refuses rows for which choosing the first centres takes more memory than there is. A small file can unpack to billions of rows.
pub(crate) fn start_must_fit(job: &Job<'_>, rows: u64) -> Result<(), LearnerError> {
    /// So little fits anywhere, and a small fit is done sooner than the limits of a control group are read.
    const LITTLE_BYTES: u64 = 1 << 20;
    let bytes = rows.saturating_mul(START_ROW_BYTES);
    if bytes <= job.memory_limit.unwrap_or(u64::MAX).min(LITTLE_BYTES) {
        return Ok(());
    }
    let bytes_max = match job.memory_limit {
        Some(limit) => limit.saturating_mul(processes(job)),
        None if job.master.caps().same_machine => qjam::memory::most_bytes(),
        // What other machines have is not known here; each refuses by itself what does not fit.
        None => u64::MAX,
    };
    match bytes <= bytes_max {
        true => Ok(()),
        false => Err(LearnerError::unusable(TooManyRows { rows, bytes, bytes_max })),
    }
}

fn sorted(e: FitError, settings: &Settings) -> LearnerError {
    match e {
        FitError::Run(e) => LearnerError::Run(e),
        FitError::NotFinite { .. } => LearnerError::not_finite(e, vec![settings.spelled("skip_bad_rows")]),
        e => LearnerError::unusable(e),
    }
}

sort_model_errors!(ModelError as e {
    ModelError::File(e) => LearnerError::File(e),
    e => LearnerError::unusable(e),
});

fn report<T: Real>(
    settings: &Settings,
    params: &Params,
    fit: &Fit<T>,
    rows: u64,
    by_batches: bool,
) -> Report {
    let iterations = count(fit.iterations as u64, "iteration");
    let (outcome, result) = match fit.outcome {
        Outcome::FixedPoint => {
            ("fixed point", format!("converged after {iterations}: no centre moves any more"))
        }
        Outcome::Tolerance => {
            let tolerance = settings.spelled("tol");
            ("tolerance", format!("converged after {iterations}: centres move less than {tolerance}"))
        }
        Outcome::NoImprovement => {
            ("no improvement", format!("stopped after {iterations}: batches get no better"))
        }
        Outcome::IterationsUsedUp => {
            ("iterations used up", format!("stopped after {iterations}, before convergence"))
        }
    };
    let mut lines = vec![("result", result), ("inertia", format!("{:.9e}", fit.inertia))];
    if !fit.sizes.is_empty() {
        let what = match (by_batches, params.weighted()) {
            (true, _) => "rows drawn",
            (false, true) => "weight",
            (false, false) => "rows",
        };
        lines.push(("clusters", shown(&fit.sizes, what)));
    }
    if fit.skipped > 0 {
        lines.push(("skipped", count(fit.skipped, "row with NaN or an infinity")));
    }
    let advice = match (fit.empty, fit.outcome) {
        (0, Outcome::IterationsUsedUp) if !by_batches => {
            let (more, less) = (settings.spelled("max_iter"), settings.spelled("tol"));
            Some(format!("not converged; give more with {more}, or accept less with {less}"))
        }
        (0, _) => None,
        (1, _) => {
            Some("one of the centres has no rows; there may be fewer different rows than clusters".into())
        }
        (n, _) => {
            Some(format!("{n} of the centres have no rows; there may be fewer different rows than clusters"))
        }
    };
    Report {
        size: count(params.k() as u64, "cluster"),
        lines,
        facts: vec![
            ("k", Value::Integer(params.k() as u64)),
            ("inertia", Value::Real(fit.inertia)),
            ("iterations", Value::Integer(fit.iterations as u64)),
            ("outcome", Value::Text(outcome.into())),
            ("converged", Value::Flag(fit.outcome != Outcome::IterationsUsedUp)),
            ("empty", Value::Integer(fit.empty as u64)),
            ("skipped", Value::Integer(fit.skipped)),
            ("rows", Value::Integer(rows)),
        ],
        lists: vec![("sizes", fit.sizes.clone())],
        advice,
        phase: "iterations and inertia",
        answers_file: "labels.npy",
        ..Report::default()
    }
}

/// Sizes for people: all of a few, else those that stand out.
fn shown(sizes: &[f64], what: &str) -> String {
    const SHOWN: usize = 8;
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let text = |sizes: &[f64]| sizes.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    if sorted.len() <= SHOWN {
        return format!("{what}: {}", text(&sorted));
    }
    let (median, smallest) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    format!(
        "{what} of the largest {}, of the median {median}, of the smallest {smallest}",
        text(&sorted[..3])
    )
}

impl<T: Real> learner::Model for Model<T> {
    fn columns(&self) -> usize {
        self.centres().dims()
    }

    fn parts(&self) -> Parts {
        Model::parts(self)
    }

    fn score_name(&self) -> &'static str {
        "inertia"
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        with_rows!(about.rows, data => answer(&self.converted(), question, about, data))
    }

    fn answer_here(&self, question: Question, rows: &[f64]) -> Result<Answer, LearnerError> {
        let model = self.converted::<f64>();
        Ok(match question {
            Question::Predict => Answer::Labels(model.predict(rows)?),
            Question::Transform => Answer::Doubles(model.transform(rows)?, model.centres().len()),
            Question::Score => Answer::Number(model.inertia(rows)?),
            other => return Err(LearnerError::unanswered(NAME, other)),
        })
    }
}

fn answer<C: Points>(
    model: &Model<C::Number>,
    question: Question,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Answer, LearnerError> {
    let chunk = |index: usize| data.chunk(index).map_err(qjam::Error::from);
    let distances = |values| Answer::rows(values, model.centres().len());
    Ok(match (question, about.scope) {
        (Question::Predict, Scope::All(master)) => Answer::Labels(model.predict_all(master, data)?),
        (Question::Predict, Scope::Chunk(index)) => Answer::Labels(model.predict_matrix(&chunk(index)?)?),
        (Question::Transform, Scope::All(master)) => distances(model.transform_all(master, data)?),
        (Question::Transform, Scope::Chunk(index)) => distances(model.transform_matrix(&chunk(index)?)?),
        (Question::Score, Scope::All(master)) => {
            Answer::Number(model.inertia_all(master, data, about.weights == Weights::InRows)?)
        }
        (other, _) => return Err(LearnerError::unanswered(NAME, other)),
    })
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn many_sizes_are_said_in_short() {
        assert_eq!(shown(&[1.0, 3.0, 2.5], "weight"), "weight: 3, 2.5, 1");
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            shown(&many, "rows"),
            "rows of the largest 100, 99, 98, of the median 50, of the smallest 1"
        );
    }
}
