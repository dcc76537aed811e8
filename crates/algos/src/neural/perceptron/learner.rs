//! Multi-layer perceptrons as callers see them that take any learner.

use super::model::{CLASSIFIER, REGRESSOR};
use super::network::{Activation, Output};
use super::params::ParamsError;
use super::source::Source;
use super::{Epoch, Fit, Kind, Outcome, Params, PerceptronModel, Progress, Solver, State};
use crate::input::Labels;
use crate::learner::{
    self, About, Answer, Fitted, Job, Learner, LearnerError, Progress as Step, Question, Report, Scope, count,
};
use crate::models::{Format, Parts, PartsError};
use crate::options::{Settings, Table, Value};
use qjam::{DataSet, Rows};

/// One of the two.
#[derive(Debug)]
pub struct Perceptron(pub Kind);

impl Learner for Perceptron {
    fn table(&self) -> &'static Table {
        self.0.table()
    }

    fn format(&self) -> Format {
        match self.0 {
            Kind::Classifier => CLASSIFIER,
            Kind::Regressor => REGRESSOR,
        }
    }

    fn questions(&self) -> &'static [Question] {
        match self.0 {
            Kind::Classifier => &[Question::Predict, Question::Probabilities, Question::LogProbabilities],
            Kind::Regressor => &[Question::Predict],
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), LearnerError> {
        Params::from_settings(self.0, settings).map(drop).map_err(|e| unusable(e, settings))
    }

    fn fit(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        self.learn(job, false)
    }

    /// One epoch over the batch. The first may come with `classes` alone, later ones with the model and what steps have left.
    fn update(&self, job: &mut Job<'_>) -> Result<Fitted, LearnerError> {
        self.learn(job, true)
    }

    fn assemble(&self, parts: &Parts) -> Result<Box<dyn learner::Model>, PartsError> {
        Ok(Box::new(PerceptronModel::of_parts(parts)?))
    }

    /// Steps are made of rows whatever their weight: with other rows there are other steps.
    fn leaves_out_weightless(&self) -> bool {
        false
    }

    fn sample_options(&self) -> &'static [(&'static str, &'static str)] {
        &[("hidden", "6,4"), ("max-iter", "4"), ("batch", "60"), ("learning-rate-init", "0.01")]
    }
}

impl Perceptron {
    fn learn(&self, job: &mut Job<'_>, once: bool) -> Result<Fitted, LearnerError> {
        match job.training.rows {
            Rows::DenseF32(data) => fit_of(self.0, job, data, once),
            Rows::DenseF64(data) => fit_of(self.0, job, data, once),
            Rows::CsrF32(data) => fit_of(self.0, job, data, once),
            Rows::CsrF64(data) => fit_of(self.0, job, data, once),
        }
    }
}

fn unusable(error: ParamsError, settings: &Settings) -> LearnerError {
    match error {
        ParamsError::Option(e) => e.into(),
        e => LearnerError::remedied(e, [settings.spelled("beta_1"), settings.spelled("beta_2")]),
    }
}

fn fit_of<C: Source>(
    kind: Kind,
    job: &mut Job<'_>,
    data: &DataSet<C>,
    once: bool,
) -> Result<Fitted, LearnerError> {
    let params = Params::from_settings(kind, job.settings).map_err(|e| unusable(e, job.settings))?;
    // One layer alone, before what is given to begin from is looked at.
    job.must_fit(params.hidden().first().map_or(1, |units| units.saturating_mul(NUMBERS)))?;
    let (master, targets, weights) = (job.master, job.targets()?, job.row_weights());
    let progress = progress(kind, &params, job.training.start, once)?;
    network_must_fit(kind, job, &params, &progress, targets)?;
    let (observer, mut first) = (&mut job.observer, None);
    let steps_max = Some(match params.solver {
        Solver::Lbfgs { evaluations_max } => evaluations_max as u64,
        _ if once => 1,
        _ => params.iterations_max as u64,
    });
    let tell = |seen: &Epoch| {
        first.get_or_insert(seen.loss);
        let what = if matches!(params.solver, Solver::Lbfgs { .. }) { "evaluation" } else { "epoch" };
        let score = seen.score.map(|score| format!(", score {score:.4}")).unwrap_or_default();
        let text = &format_args!("{what} {}: loss {:.6}{score}", seen.number, seen.loss);
        observer(&Step { step: seen.number as u64, steps_max, text, phase_done: None });
    };
    let fit = super::fit(master, kind, &params, data, targets, weights, progress, tell)?;
    let answer = match job.training.answers {
        true => Some(fit.model.answered(Question::Predict, fit.model.sums(master, data)?)),
        false => None,
    };
    let report = report(kind, job.settings, &fit, first.unwrap_or(f64::NAN), data.records());
    Ok(Fitted { model: Box::new(fit.model), report, answer })
}

/// Numbers that training has of each parameter at least: itself in both directions, its gradient, and what solvers remember.
const NUMBERS: usize = 8;

/// A network that takes more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "layers of {sizes:?} units have {parameters} parameters, training them takes at least {bytes} bytes of memory, and there are \
     {bytes_max}; give fewer units, or use a machine with more memory"
)]
struct TooLarge {
    sizes: Vec<usize>,
    parameters: u64,
    bytes: u64,
    bytes_max: u64,
}

/// Refuses a network whose layers do not all fit into memory, before anything is allocated for them.
fn network_must_fit(
    kind: Kind,
    job: &Job<'_>,
    params: &Params,
    progress: &Progress,
    targets: &[f64],
) -> Result<(), LearnerError> {
    let columns = job.training.rows.cols().map_err(qjam::Error::from)?;
    let outputs = match (kind, &progress.model, &progress.classes) {
        (_, Some(model), _) => model.network().outputs(),
        (Kind::Regressor, ..) => targets.len() / job.training.rows.records().max(1) as usize,
        (Kind::Classifier, None, Some(classes)) => classes.len(),
        (Kind::Classifier, None, None) => Labels { targets, weights: None }.classes().len(),
    };
    // Two classes have one output.
    let outputs = if kind == Kind::Classifier && outputs == 2 { 1 } else { outputs };
    let sizes = [&[columns], params.hidden(), &[outputs]].concat();
    let of_layer = |pair: &[usize]| (pair[0] as u64).saturating_add(1).saturating_mul(pair[1] as u64);
    let parameters = sizes.windows(2).map(of_layer).fold(0, u64::saturating_add);
    let bytes = parameters.saturating_mul(8 * NUMBERS as u64);
    match job.too_little(bytes) {
        None => Ok(()),
        Some(bytes_max) => Err(LearnerError::unusable(TooLarge { sizes, parameters, bytes, bytes_max })),
    }
}

/// Where a fit begins, from tensors: a model, or classes; and what steps have left.
fn progress(
    kind: Kind,
    params: &Params,
    start: Option<&Parts>,
    once: bool,
) -> Result<Progress, LearnerError> {
    let mut progress = Progress { once, ..Progress::default() };
    let Some(parts) = start else { return Ok(progress) };
    let wrong = |source| LearnerError::Parts { learner: kind.name(), source };
    let numbers = |name: &str| match parts.get(name) {
        Some(_) => parts.tensor::<1>(name).map(|(_, values)| Some(values)).map_err(wrong),
        None => Ok(None),
    };
    let classes = numbers("classes")?;
    if parts.get("w1").is_some() {
        let output = match (kind, classes.as_ref().map_or(0, Vec::len)) {
            (Kind::Classifier, 2) => Output::Logistic,
            (Kind::Classifier, _) => Output::Softmax,
            (Kind::Regressor, _) if params.poisson => Output::Poisson,
            (Kind::Regressor, _) => Output::Squares,
        };
        let activation = parts.word("activation").and_then(Activation::named).unwrap_or(params.activation);
        progress.model = Some(PerceptronModel::of_tensors(parts, activation, output).map_err(wrong)?);
    }
    progress.classes = classes;
    if let Some([steps, epochs, rows, rate]) = numbers("progress")?.as_deref() {
        let means = [numbers("first_means")?, numbers("second_means")?].into_iter().flatten().collect();
        let [steps, epochs, rows] = [steps, epochs, rows].map(|number| *number as u64);
        progress.state = Some(State { steps, epochs, rows, rate: *rate, means });
    }
    Ok(progress)
}

fn report(kind: Kind, settings: &Settings, fit: &Fit, first: f64, rows: u64) -> Report {
    let (outcome, network) = (fit.outcome, fit.model.network());
    let loss = fit.losses.last().copied().unwrap_or(f64::NAN);
    let best = fit.losses.iter().copied().fold(f64::INFINITY, f64::min);
    let is_full = matches!(outcome, Outcome::Minimised(_));
    let spent = count(fit.iterations as u64, if is_full { "step" } else { "epoch" });
    let result = match outcome.converged() {
        true => format!("ended after {spent}: {}", outcome.name()),
        false => format!("stopped after {spent}, before convergence: {}", outcome.name()),
    };
    let mut facts = vec![
        ("loss", Value::Real(loss)),
        ("best_loss", Value::Real(best)),
        ("iterations", Value::Integer(fit.iterations as u64)),
        ("outcome", Value::Text(outcome.name().into())),
        ("converged", Value::Flag(outcome.converged())),
        ("columns", Value::Integer(network.inputs() as u64)),
        ("rows", Value::Integer(rows)),
    ];
    let mut lines = vec![("result", result), ("loss", format!("{loss:.9e} (at first {first:.9e})"))];
    let mut lists = vec![("losses", fit.losses.clone()), ("scores", fit.scores.clone())];
    if let Some(score) = fit.scores.iter().copied().reduce(f64::max) {
        facts.push(("best_score", Value::Real(score)));
        lines.push(("score", format!("{score:.4} for the rows kept from training")));
    }
    if let Some(State { steps, epochs, rows, rate, means }) = &fit.state {
        facts.push(("steps", Value::Integer(*steps)));
        facts.push(("rows_seen", Value::Integer(*rows)));
        lists.push(("progress", vec![*steps as f64, *epochs as f64, *rows as f64, *rate]));
        lists.extend(["first_means", "second_means"].into_iter().zip(means.iter().cloned()));
    }
    let (more, less) = (settings.spelled("max_iter"), settings.spelled("tol"));
    let rate = settings.spelled("learning_rate_init");
    let is_over = outcome.converged() || outcome == Outcome::Diverged;
    let units: Vec<String> = network.hidden().iter().map(usize::to_string).collect();
    Report {
        size: format!(
            "{}, hidden layers of {} units, {}",
            count(network.inputs() as u64, "column"),
            if units.is_empty() { "no".into() } else { units.join(" and ") },
            count(network.len() as u64, "parameter")
        ),
        lines,
        facts,
        lists,
        advice: (!is_over)
            .then(|| format!("not converged; give more with {more}, or accept less with {less}")),
        failure: (outcome == Outcome::Diverged)
            .then(|| format!("the loss is not finite; scale the columns, or take shorter steps with {rate}")),
        phase: "training",
        answers_file: if kind == Kind::Classifier { "classes.npy" } else { "values.npy" },
        ..Report::default()
    }
}

impl learner::Model for PerceptronModel {
    fn columns(&self) -> usize {
        self.network().inputs()
    }

    fn parts(&self) -> Parts {
        PerceptronModel::parts(self)
    }

    fn answer(&self, question: Question, about: &About<'_>) -> Result<Answer, LearnerError> {
        let learner = if self.classes().is_empty() { Kind::Regressor } else { Kind::Classifier };
        if !Perceptron(learner).questions().contains(&question) {
            return Err(LearnerError::unanswered(learner.name(), question));
        }
        let sums = match about.rows {
            Rows::DenseF32(data) => sums(self, about, data)?,
            Rows::DenseF64(data) => sums(self, about, data)?,
            Rows::CsrF32(data) => sums(self, about, data)?,
            Rows::CsrF64(data) => sums(self, about, data)?,
        };
        Ok(self.answered(question, sums))
    }
}

fn sums<C: Source>(
    model: &PerceptronModel,
    about: &About<'_>,
    data: &DataSet<C>,
) -> Result<Vec<f64>, LearnerError> {
    Ok(match about.scope {
        Scope::All(master) => model.sums(master, data)?,
        Scope::Chunk(index) => model.sums_of(&data.chunk(index).map_err(qjam::Error::from)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learner::Training;
    use crate::options::Spelling;
    use qjam::Master;

    #[test]
    fn networks_that_do_not_fit_into_memory_are_refused_with_the_numbers() {
        let rows = Rows::from(DataSet::dense(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 2).unwrap());
        let master = &Master::builder().no_run_file().connect("local:1").unwrap();
        for (kind, hidden, outputs) in [
            (Kind::Classifier, "1000000,1000000", "3] units have 1000007000003 parameters"),
            (Kind::Regressor, "1000000,1000000", "1] units have 1000005000001 parameters"),
            (Kind::Regressor, "1048576,1048576,1048576", "1] units"),
        ] {
            let mut settings = Settings::new(kind.table(), Spelling::Command);
            settings.set_text("hidden", hidden).unwrap();
            let training = Training { targets: Some(&[0.0, 1.0, 2.0]), ..Training::new(&rows) };
            let observer = &mut |_: &Step<'_>| {};
            let memory_limit = Some(1 << 40);
            let mut job = Job { master, settings: &settings, training, memory_limit, observer };
            let said = Perceptron(kind).fit(&mut job).map(|_| ()).unwrap_err().to_string();
            assert!(said.contains("layers of [2, 1") && said.contains(outputs), "{said}");
        }
    }
}
