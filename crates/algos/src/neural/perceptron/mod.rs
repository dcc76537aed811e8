//! Multi-layer perceptrons: networks of fully connected layers that tell classes apart or predict numbers.
//!
//! Parameters are one flat vector ([`network`]). A chunk sums loss and gradient over some of its rows ([`map`], on [`layers`]), and the
//! master takes a step: along the gradient of a few rows ([`mod@stochastic`], whose rows are drawn in [`cut`]), or by L-BFGS on all of
//! them ([`mod@full`]). The objective is the weighted mean of the rows' losses plus half of `alpha` times the squared weights over the
//! sum of the rows' weights, as in scikit-learn.
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::neural::perceptron::{Kind, Params, Progress, fit};
//! use qjam_algos::options::{Settings, Spelling};
//!
//! // Two classes that no line can part.
//! let rows = DataSet::dense([0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0].repeat(50), 2)?;
//! let targets = [0.0, 0.0, 1.0, 1.0].repeat(50);
//! let mut settings = Settings::new(Kind::Classifier.table(), Spelling::Command);
//! settings.set_text("hidden", "8")?;
//! settings.set_text("solver", "lbfgs")?;
//! let params = Params::from_settings(Kind::Classifier, &settings)?;
//! let master = Master::connect("local:2")?;
//! let fitted = fit(&master, Kind::Classifier, &params, &rows, &targets, None, Progress::default(), |_| {})?;
//! assert_eq!(fitted.model.predict(&master, &rows)?[..4], [0.0, 0.0, 1.0, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cut;
mod full;
mod layers;
pub mod learner;
mod loss;
pub mod map;
pub mod model;
pub mod network;
mod numbers;
pub mod params;
mod source;
mod stochastic;
#[cfg(test)]
mod tests;

pub use model::PerceptronModel;
pub use network::{Activation, Network, Output};
pub use numbers::Kernel;
pub use params::{Kind, Params, ParamsError, Solver};
pub use source::{Picked, Source};

use crate::answers::RowNumbers;
use crate::input::{InputError, Labels, Problem, check_weights};
use crate::optimize::lbfgs;
use cut::{Targets, full as cut_fully, take_all};
use map::{Request, Sums, look, slopes};
use qjam::{DataSet, Master};
use std::borrow::Cow;

/// One epoch, or one evaluation of the loss on all rows, as an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Counted from 1.
    pub number: usize,
    /// The mean loss with the penalty.
    pub loss: f64,
    /// Accuracy, or R², for the rows kept from training, if there are any.
    pub score: Option<f64>,
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Epochs no longer improve loss or score.
    NoImprovement,
    /// As many epochs as were allowed.
    EpochsUsedUp,
    /// The one epoch of a batch.
    OneEpoch,
    /// What L-BFGS says.
    Minimised(lbfgs::Outcome),
    /// The loss or the weights are not finite any more; the model is that of before.
    Diverged,
}

impl Outcome {
    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::NoImprovement => "no improvement",
            Outcome::EpochsUsedUp => "epochs used up",
            Outcome::OneEpoch => "one epoch",
            Outcome::Minimised(outcome) => outcome.name(),
            Outcome::Diverged => "diverged",
        }
    }

    /// Whether training came to an end by itself.
    pub fn converged(self) -> bool {
        match self {
            Outcome::NoImprovement | Outcome::OneEpoch => true,
            Outcome::EpochsUsedUp | Outcome::Diverged => false,
            Outcome::Minimised(outcome) => outcome.converged(),
        }
    }
}

/// What steps on a few rows leave for later ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps taken.
    pub steps: u64,
    /// Epochs.
    pub epochs: u64,
    /// Rows learnt from, each as often as it was.
    pub rows: u64,
    /// The length of steps, as far as it has changed.
    pub rate: f64,
    /// The velocity of SGD, or both means of Adam.
    pub means: Vec<Vec<f64>>,
}

/// Where a fit begins.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The model to go on from.
    pub model: Option<PerceptronModel>,
    /// The classes, if they are not those of the targets.
    pub classes: Option<Vec<f64>>,
    /// What steps have left.
    pub state: Option<State>,
    /// Whether to end after one epoch.
    pub once: bool,
    name: &'static str,
}

/// What training came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trained {
    theta: Vec<f64>,
    outcome: Outcome,
    losses: Vec<f64>,
    scores: Vec<f64>,
    iterations: usize,
    state: Option<State>,
}

impl Trained {
    fn none(theta: Vec<f64>) -> Trained {
        let (losses, scores) = (vec![], vec![]);
        Trained { theta, outcome: Outcome::EpochsUsedUp, losses, scores, iterations: 0, state: None }
    }
}

/// What fitting came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The model.
    pub model: PerceptronModel,
    /// Why training ended.
    pub outcome: Outcome,
    /// The loss of each epoch; of L-BFGS, the last one.
    pub losses: Vec<f64>,
    /// The score of each epoch, if rows are kept from training.
    pub scores: Vec<f64>,
    /// Epochs, or steps of L-BFGS.
    pub iterations: usize,
    /// For more epochs.
    pub state: Option<State>,
}

/// Fits a network to rows with the number of a class, or numbers, for each.
#[expect(
    clippy::too_many_arguments,
    reason = "what a fit is given, as for other learners, and where it begins"
)]
pub fn fit<C: Source>(
    master: &Master,
    kind: Kind,
    params: &Params,
    data: &DataSet<C>,
    targets: &[f64],
    weights: Option<&[f64]>,
    progress: Progress,
    observer: impl FnMut(&Epoch),
) -> Result<Fit, InputError> {
    let wrong = |problem: Problem| problem.of(kind.name());
    let asked = TrainingTargets::new(kind, params, data, targets, weights, &progress).map_err(wrong)?;
    let columns = data.chunk(0).map_err(qjam::Error::from)?.width();
    let model = match &progress.model {
        Some(model) if model.network() != &asked.network(params, columns).map_err(wrong)? => {
            return Err(wrong(match model.network().inputs() == columns {
                true => Problem::OtherNetwork,
                false => Problem::Columns { found: columns, expected: model.network().inputs() },
            }));
        }
        Some(model) => model.clone(),
        None => {
            let network = asked.network(params, columns).map_err(wrong)?;
            let theta = network.initial(params.seed);
            PerceptronModel::new(network, theta, asked.classes.clone())
        }
    };
    let looked: RowNumbers = master.run(look::<C>, &(), data)?;
    if let Some((row, column, value)) = looked.bad {
        return Err(wrong(Problem::NotFinite { row, column, value }));
    }
    let request = Request::of(model.network().clone(), model.theta().to_vec());
    let progress = Progress { name: kind.name(), ..progress };
    let trained = match params.solver {
        Solver::Lbfgs { evaluations_max } => {
            full::train(master, params, data, asked.targets(), evaluations_max, request, observer)?
        }
        _ => stochastic::train(master, params, data, asked.targets(), request, progress, observer)?,
    };
    let Trained { theta, outcome, losses, scores, iterations, state } = trained;
    let model = PerceptronModel::new(model.network().clone(), theta, asked.classes);
    Ok(Fit { model, outcome, losses, scores, iterations, state })
}

/// The mean loss with the penalty, and its gradient, of a model and all rows: one round.
pub fn loss<C: Source>(
    master: &Master,
    model: &PerceptronModel,
    alpha: f64,
    data: &DataSet<C>,
    targets: &[f64],
    weights: Option<&[f64]>,
) -> Result<(f64, Vec<f64>), InputError> {
    let rows = data.records();
    let data = cut_fully(data).map_err(qjam::Error::from)?;
    let mut request = Request::of(model.network().clone(), model.theta().to_vec());
    let values = match model.classes() {
        [] => Cow::from(targets),
        classes => classes_of(targets, weights, classes, rows).map_err(|e| e.of(model.name()))?.into(),
    };
    let targets = Targets { per_row: request.per_row(), values: &values, weights };
    take_all(&mut request, data.len(), rows, targets);
    let sums: Sums = master.run(slopes::<C>, &request, &data)?;
    Ok(stochastic::penalised(alpha, &request, sums))
}

/// What a network is to learn, checked.
struct TrainingTargets<'a> {
    values: Cow<'a, [f64]>,
    weights: Option<&'a [f64]>,
    classes: Vec<f64>,
    output: Output,
    outputs: usize,
}

impl<'a> TrainingTargets<'a> {
    fn new<C: Source>(
        kind: Kind,
        params: &Params,
        data: &DataSet<C>,
        targets: &'a [f64],
        weights: Option<&'a [f64]>,
        progress: &Progress,
    ) -> Result<TrainingTargets<'a>, Problem> {
        let rows = data.records();
        if kind == Kind::Classifier {
            let before = progress.model.as_ref().map(|model| model.classes().to_vec());
            let classes = before.or_else(|| progress.classes.clone());
            let classes = classes.unwrap_or_else(|| Labels { targets, weights }.classes());
            if classes.len() < 2 {
                return Err(Problem::OneClass);
            }
            let values = classes_of(targets, weights, &classes, rows)?.into();
            let two = classes.len() == 2;
            let output = if two { Output::Logistic } else { Output::Softmax };
            return Ok(TrainingTargets {
                values,
                weights,
                output,
                outputs: if two { 1 } else { classes.len() },
                classes,
            });
        }
        check_weights(weights, rows)?;
        // Several numbers for each row make a network of several outputs.
        let outputs = targets.len() / rows.max(1) as usize;
        if outputs == 0 || targets.len() as u64 != rows * outputs as u64 {
            return Err(Problem::Targets { targets: targets.len(), rows });
        }
        let fits = |value: &f64| value.is_finite() && (!params.poisson || *value >= 0.0);
        if let Some(at) = targets.iter().position(|value| !fits(value)) {
            let must = if params.poisson { "finite and not negative" } else { "finite numbers" };
            return Err(Problem::Target { row: at / outputs, value: targets[at], must });
        }
        let output = if params.poisson { Output::Poisson } else { Output::Squares };
        Ok(TrainingTargets { values: targets.into(), weights, classes: vec![], output, outputs })
    }

    fn network(&self, params: &Params, columns: usize) -> Result<Network, Problem> {
        let sizes = [&[columns], &params.hidden[..], &[self.outputs]].concat();
        Network::new(&sizes, params.activation, self.output).map_err(|_| Problem::Layers { sizes })
    }

    fn targets(&self) -> Targets<'_> {
        let per_row = if self.output.classifies() { 1 } else { self.outputs };
        Targets { values: &self.values, per_row, weights: self.weights }
    }
}

/// The index of the class of every row, as a number.
fn classes_of(
    targets: &[f64],
    weights: Option<&[f64]>,
    classes: &[f64],
    rows: u64,
) -> Result<Vec<f64>, Problem> {
    let found = Labels { targets, weights }.checked(classes, rows, 1)?;
    Ok(found.of_rows.into_iter().map(f64::from).collect())
}
