//! Many columns: CoCoA on columns for regressions and logistic regression, on rows for support vector machines.

use super::baselines::{Descended, minibatch_scd};
use super::cocoa::{CocoaRound, Fit, Objective, Outcome, fit_from};
use super::learners::Margin;
use super::loss::Loss;
use super::partition::Partitioned;
use super::separable::Separable;
use crate::linear::error::LearnError;
use crate::linear::params::{Solver, Spec};
use crate::linear::scaling::Penalty;
use qjam::{Csc, Dense, Master, Rows};

/// Columns in partitions, in one of the four ways.
pub(in crate::linear) enum Dealt {
    DenseF32(Partitioned<Dense<f32>>),
    DenseF64(Partitioned<Dense<f64>>),
    SparseF32(Partitioned<Csc<f32>>),
    SparseF64(Partitioned<Csc<f64>>),
}

/// Runs the same code for each of them.
macro_rules! each_dealt {
    ($dealt:expr, $data:ident => $body:expr) => {
        match $dealt {
            Dealt::DenseF32($data) => $body,
            Dealt::DenseF64($data) => $body,
            Dealt::SparseF32($data) => $body,
            Dealt::SparseF64($data) => $body,
        }
    };
}

impl Dealt {
    /// The columns of some rows.
    pub(in crate::linear) fn columns_of(examples: &Rows, partitions: usize) -> Result<Dealt, LearnError> {
        Ok(match examples {
            Rows::DenseF32(data) => Dealt::DenseF32(Partitioned::dense_columns_of(data, partitions)?),
            Rows::DenseF64(data) => Dealt::DenseF64(Partitioned::dense_columns_of(data, partitions)?),
            Rows::CsrF32(data) => Dealt::SparseF32(Partitioned::columns_of(data, partitions)?),
            Rows::CsrF64(data) => Dealt::SparseF64(Partitioned::columns_of(data, partitions)?),
        })
    }

    /// Rows times their labels, with a constant feature if it is not 0.
    pub(in crate::linear) fn rows_of(
        examples: &Rows,
        labels: &[f64],
        constant: f64,
        partitions: usize,
    ) -> Result<Dealt, LearnError> {
        Ok(match examples {
            Rows::DenseF32(data) => {
                Dealt::DenseF32(Partitioned::dense_examples_of(data, labels, constant, partitions)?)
            }
            Rows::DenseF64(data) => {
                Dealt::DenseF64(Partitioned::dense_examples_of(data, labels, constant, partitions)?)
            }
            Rows::CsrF32(data) => {
                Dealt::SparseF32(Partitioned::examples_of(data, labels, constant, partitions)?)
            }
            Rows::CsrF64(data) => {
                Dealt::SparseF64(Partitioned::examples_of(data, labels, constant, partitions)?)
            }
        })
    }

    /// With a price for each column, if there are any.
    pub(in crate::linear) fn with_prices(self, prices: Option<&[f64]>) -> Result<Dealt, LearnError> {
        let Some(prices) = prices.map(<[f64]>::to_vec) else {
            return Ok(self);
        };
        Ok(match self {
            Dealt::DenseF32(data) => Dealt::DenseF32(data.with_prices(prices)?),
            Dealt::DenseF64(data) => Dealt::DenseF64(data.with_prices(prices)?),
            Dealt::SparseF32(data) => Dealt::SparseF32(data.with_prices(prices)?),
            Dealt::SparseF64(data) => Dealt::SparseF64(data.with_prices(prices)?),
        })
    }

    pub(in crate::linear) fn partitions(&self) -> usize {
        each_dealt!(self, data => data.partitions())
    }
}

/// How many partitions there are by default: a function of the data alone, so that bits do not depend on the workers.
pub fn partitions_for(entries: u64) -> usize {
    /// Those of a partition.
    const ENTRIES: u64 = 4_000_000;
    /// So few are descended on in one piece: exchanging would cost more than that.
    const FEW: u64 = 1 << 17;
    match entries <= FEW {
        true => 1,
        false => (entries.div_ceil(ENTRIES) as usize).clamp(2, 64),
    }
}

/// The same for rows of support vector machines. Rows of one class are much more alike than columns are, and partitions of them
/// in each other's way: two of them needed two to thirty times the computing of one. So there is one as long as it fits well
/// in a worker's memory.
pub fn row_partitions_for(entries: u64) -> usize {
    /// Those of a partition.
    const ENTRIES: u64 = 1 << 25;
    (entries.div_ceil(ENTRIES) as usize).clamp(1, 64)
}

/// Coefficients and what they come to, in the ½-sum form.
pub(in crate::linear) struct Solution {
    pub(in crate::linear) coefficients: Vec<f64>,
    pub(in crate::linear) intercept: f64,
    pub(in crate::linear) objective: f64,
    pub(in crate::linear) bound: f64,
    pub(in crate::linear) rounds: usize,
    pub(in crate::linear) outcome: Outcome,
    pub(in crate::linear) fit: Option<Fit>,
}

/// One model to be found on columns.
pub(in crate::linear) struct Task<'a> {
    /// Targets, or labels of −1 and 1.
    pub(in crate::linear) targets: &'a [f64],
    /// Weights of the rows; none for ones.
    pub(in crate::linear) weights: Option<&'a [f64]>,
    pub(in crate::linear) penalty: Penalty,
    /// Coefficients to begin with; none for zeros.
    pub(in crate::linear) start: &'a [f64],
}

/// Least squares.
pub(in crate::linear) fn regress(
    master: &Master,
    dealt: &Dealt,
    task: &Task<'_>,
    spec: &Spec,
    observer: Observer<'_>,
) -> Result<Solution, LearnError> {
    let Task { targets, weights, penalty, start } = *task;
    let terms = penalty.into();
    if weights.is_none() && spec.solver != Solver::MinibatchScd {
        let rows = targets.len() as f64;
        let mean = if spec.intercept { targets.iter().sum::<f64>() / rows } else { 0.0 };
        let loss = Loss::Squares { targets: targets.iter().map(|target| target - mean).collect() };
        let objective = Objective { loss, terms, centred: spec.intercept, free: false };
        let fit = minimise(master, dealt, &objective, spec, start, observer)?;
        let along: f64 = fit.coordinates.iter().zip(&fit.column_sums).map(|(a, sum)| a * sum).sum();
        let intercept = if spec.intercept { mean - along / rows } else { 0.0 };
        return Ok(of_columns(fit, intercept));
    }
    let loss = match weights {
        Some(weights) => Loss::WeightedSquares { targets: targets.to_vec(), weights: weights.to_vec() },
        None => Loss::Squares { targets: targets.to_vec() },
    };
    free(
        master,
        dealt,
        Objective { loss, terms, centred: false, free: spec.intercept },
        spec,
        start,
        observer,
    )
}

/// Logistic regression.
pub(in crate::linear) fn logistic(
    master: &Master,
    dealt: &Dealt,
    task: &Task<'_>,
    spec: &Spec,
    observer: Observer<'_>,
) -> Result<Solution, LearnError> {
    let weight = |row: usize| task.weights.map_or(1.0, |weights| weights[row]);
    let labels = task.targets.iter().enumerate().map(|(row, label)| label * weight(row)).collect();
    let (loss, terms) = (Loss::Logistic { labels }, task.penalty.into());
    let objective = Objective { loss, terms, centred: false, free: spec.intercept };
    free(master, dealt, objective, spec, task.start, observer)
}

/// What is told of a round: its number, objective and gap, and what CoCoA has to say.
pub(in crate::linear) type Observer<'a> = &'a mut dyn FnMut(usize, f64, f64, Option<&CocoaRound>);

fn minimise(
    master: &Master,
    dealt: &Dealt,
    objective: &Objective,
    spec: &Spec,
    start: &[f64],
    observer: Observer<'_>,
) -> Result<Fit, LearnError> {
    let params = spec.params_for(dealt.partitions())?;
    let seen = |seen: &CocoaRound| observer(seen.round, seen.objective, seen.gap, Some(seen));
    Ok(each_dealt!(dealt, data => fit_from(master, data, objective, &params, start, seen))?)
}

/// An objective with a constant that costs nothing, or none.
fn free(
    master: &Master,
    dealt: &Dealt,
    objective: Objective,
    spec: &Spec,
    start: &[f64],
    observer: Observer<'_>,
) -> Result<Solution, LearnError> {
    if spec.solver == Solver::MinibatchScd {
        let found = in_batches(master, dealt, &objective, spec, observer)?;
        let objective = found.objectives.last().copied().unwrap_or(f64::NAN);
        return Ok(Solution {
            coefficients: found.coordinates,
            intercept: found.constant,
            objective,
            bound: found.bound,
            rounds: found.objectives.len(),
            outcome: Outcome::RoundsUsedUp,
            fit: None,
        });
    }
    let fit = minimise(master, dealt, &objective, spec, start, observer)?;
    let constant = fit.constant;
    Ok(of_columns(fit, constant))
}

fn in_batches(
    master: &Master,
    dealt: &Dealt,
    objective: &Objective,
    spec: &Spec,
    observer: Observer<'_>,
) -> Result<Descended, LearnError> {
    let seen = |round: usize, value: f64| observer(round, value, f64::INFINITY, None);
    let batches = spec.batches();
    Ok(each_dealt!(dealt, data => minibatch_scd(master, data, objective, &batches, seen))?)
}

fn of_columns(fit: Fit, intercept: f64) -> Solution {
    Solution {
        coefficients: fit.coordinates.clone(),
        intercept,
        objective: fit.objective,
        bound: fit.bound,
        rounds: fit.rounds,
        outcome: fit.outcome,
        fit: Some(fit),
    }
}

/// A support vector machine by its dual. Objective and bound are those of `½‖w‖² + C Σ margin` divided by C; what is told of
/// rounds, too.
pub(in crate::linear) fn svm(
    master: &Master,
    dealt: &Dealt,
    price: f64,
    constant: f64,
    spec: &Spec,
    observer: Observer<'_>,
) -> Result<Solution, LearnError> {
    let terms = match spec.margin {
        Margin::Hinge => Separable::hinge(price),
        Margin::SquaredHinge => Separable::squared_hinge(price),
    };
    let features = each_dealt!(dealt, data => data.rows());
    let objective = Objective { loss: Loss::norm(features), terms, centred: false, free: false };
    // What is descended on is less the dual, below which the objective cannot be.
    let mut told = |round: usize, dual: f64, gap: f64, seen: Option<&CocoaRound>| {
        observer(round, (gap - dual) / price, gap / price, seen);
    };
    let (mut weights, bound, rounds, outcome, fit) = match spec.solver {
        Solver::MinibatchScd => {
            let found = in_batches(master, dealt, &objective, spec, &mut told)?;
            let dual = found.objectives.last().copied().unwrap_or(f64::NAN);
            (found.product, dual, found.objectives.len(), Outcome::RoundsUsedUp, None)
        }
        _ => {
            let fit = minimise(master, dealt, &objective, spec, &[], &mut told)?;
            (fit.product.clone(), fit.objective, fit.rounds, fit.outcome, Some(fit))
        }
    };
    let intercept = match constant == 0.0 {
        true => 0.0,
        false => weights.pop().unwrap_or(0.0) * constant,
    };
    let objective = fit.as_ref().map_or(f64::INFINITY, |fit| -fit.bound / price);
    Ok(Solution { coefficients: weights, intercept, objective, bound: -bound / price, rounds, outcome, fit })
}
