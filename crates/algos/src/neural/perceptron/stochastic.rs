//! Training on a few rows at a time: one round a step, epochs until nothing improves.

use super::cut::{Drawing, Steps, Targets};
use super::map::{Quality, Request, Sums, quality, slopes};
use super::params::{Params, Rate, Solver};
use super::source::Source;
use super::{Epoch, Outcome, Progress, State, Trained};
use crate::input::{InputError, Problem};
use crate::optimize::first_order::{Adam, Rule, Sgd};
use qjam::{DataSet, Master};

/// SGD that adapts ends when its rate is below this.
const RATE_MIN: f64 = 1e-6;
/// What it then was divided by.
const SLOWER: f64 = 5.0;
/// Rows to be judged by at least.
const KEPT_MIN: u64 = 2;

/// Trains from the parameters of a request, for one epoch only if a state is handed on.
pub(super) fn train<C: Source>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    targets: Targets<'_>,
    mut request: Request,
    progress: Progress,
    mut observer: impl FnMut(&Epoch),
) -> Result<Trained, InputError> {
    let kept = params.kept.filter(|_| !progress.once).unwrap_or(0.0);
    let drawing = Drawing { batch: params.batch, shuffle: params.shuffle, kept, seed: params.seed };
    let steps = Steps::new(data, drawing).map_err(qjam::Error::from)?;
    if kept > 0.0 && (steps.kept() < KEPT_MIN || steps.training() == 0) {
        let problem = Problem::Kept { kept: steps.kept(), rows: data.records() };
        return Err(problem.of(progress.name));
    }
    if kept > 0.0 && targets.weights.is_some() {
        // Rows of weight 0 judge nothing.
        steps.take_kept(&mut request, targets);
        if request.weights.iter().all(|weight| *weight == 0.0) {
            return Err(Problem::Kept { kept: 0, rows: data.records() }.of(progress.name));
        }
    }
    let mut state = progress.state.unwrap_or_default();
    let mut rule = rule(params, &state, request.theta.len());
    let mut judged = Judged::new(params);
    let mut trained = Trained::none(request.theta.clone());
    let mut best = None;
    let epochs = if progress.once { 1 } else { params.iterations_max };
    for epoch in 0..epochs {
        let (mut losses, mut rows) = (0.0, 0.0);
        let begun = request.theta.clone();
        let finite = steps.epoch(state.epochs, &mut request, targets, |request, window| {
            let sums: Sums = master.run(slopes::<C>, request, window)?;
            let count = request.rows.len() as f64;
            let (loss, gradient) = penalised(params.alpha, request, sums);
            losses += loss * count;
            rows += count;
            rule.step(&mut request.theta, &gradient);
            state.steps += 1;
            Ok::<bool, qjam::Error>(loss.is_finite())
        })?;
        if !finite || request.theta.iter().any(|number| !number.is_finite()) {
            trained.outcome = Outcome::Diverged;
            trained.theta = begun;
            break;
        }
        let loss = losses / rows;
        state.epochs += 1;
        state.rows += steps.training();
        trained.losses.push(loss);
        let score = match kept > 0.0 {
            true => Some(score::<C>(master, &steps, &mut request, targets)?),
            false => None,
        };
        trained.scores.extend(score);
        master.record_metric("loss", loss);
        observer(&Epoch { number: epoch + 1, loss, score });
        let verdict = judged.judge(loss, score);
        if verdict.is_best && score.is_some() {
            best = Some(request.theta.clone());
        }
        if let (Rule::Sgd(sgd), Solver::Sgd { rate: Rate::Scaled(power), .. }) = (&mut rule, params.solver) {
            sgd.rate = params.rate / (state.rows as f64 + 1.0).powf(power);
        }
        if verdict.is_over {
            match &mut rule {
                Rule::Sgd(sgd) if adapts(params) && sgd.rate > RATE_MIN => {
                    sgd.rate /= SLOWER;
                    judged.in_vain = 0;
                }
                _ => {
                    trained.outcome = Outcome::NoImprovement;
                    break;
                }
            }
        }
    }
    if trained.outcome != Outcome::Diverged {
        trained.theta = best.unwrap_or(request.theta);
    }
    if progress.once && trained.outcome == Outcome::EpochsUsedUp {
        trained.outcome = Outcome::OneEpoch;
    }
    (state.rate, state.means) = match rule {
        Rule::Sgd(sgd) => (sgd.rate, vec![sgd.velocity().to_vec()]),
        Rule::Adam(adam) => (adam.rate, adam.means().to_vec()),
    };
    trained.iterations = trained.losses.len();
    trained.state = Some(state);
    Ok(trained)
}

fn adapts(params: &Params) -> bool {
    matches!(params.solver, Solver::Sgd { rate: Rate::Adaptive, .. })
}

/// The rule that was chosen, as far as another fit had brought it.
fn rule(params: &Params, state: &State, len: usize) -> Rule {
    let rate = if state.rate > 0.0 { state.rate } else { params.rate };
    match (params.solver, &state.means[..]) {
        (Solver::Adam { beta_1, beta_2, epsilon }, means) => {
            let adam = Adam::new(len).with_rate(params.rate).with_means(beta_1, beta_2, epsilon);
            match means {
                [first, second] if first.len() == len && second.len() == len => {
                    Rule::Adam(adam.after(state.steps, [first.clone(), second.clone()]))
                }
                _ => Rule::Adam(adam),
            }
        }
        (Solver::Sgd { momentum, nesterov, .. }, means) => {
            let sgd = Sgd::new(len, momentum, nesterov).with_rate(rate);
            match means {
                [velocity] if velocity.len() == len => Rule::Sgd(sgd.with_velocity(velocity.clone())),
                _ => Rule::Sgd(sgd),
            }
        }
        (Solver::Lbfgs { .. }, _) => unreachable!("it has all rows at a time"),
    }
}

/// Mean loss and gradient, with the penalty, of sums over rows.
pub(super) fn penalised(alpha: f64, request: &Request, sums: Sums) -> (f64, Vec<f64>) {
    let Sums { weight, loss, mut gradient } = sums;
    let theta = &request.theta;
    let share = 1.0 / weight;
    for layer in request.network.layers() {
        for at in layer.weights {
            gradient[at] = (gradient[at] + alpha * theta[at]) * share;
        }
        gradient[layer.intercepts].iter_mut().for_each(|slope| *slope *= share);
    }
    // Rows without weight say nothing.
    if weight == 0.0 {
        gradient.fill(0.0);
        return (0.0, gradient);
    }
    ((loss + 0.5 * alpha * request.network.squared_weights(theta)) * share, gradient)
}

/// Accuracy, or the coefficient of determination, of the rows that are kept from training.
fn score<C: Source>(
    master: &Master,
    steps: &Steps<C>,
    request: &mut Request,
    targets: Targets<'_>,
) -> Result<f64, InputError> {
    let data = steps.take_kept(request, targets);
    let found: Quality = master.run(quality::<C>, request, &data)?;
    let count = request.rows.len();
    let weight = |row: usize| if request.weights.is_empty() { 1.0 } else { request.weights[row] };
    let total: f64 = (0..count).map(weight).sum();
    if request.network.output().classifies() {
        return Ok(found.right / total);
    }
    let outputs = request.network.outputs();
    let explained = found.missed.iter().enumerate().map(|(output, missed)| {
        let target = |row: usize| request.targets[row * outputs + output];
        let mean = (0..count).map(|row| weight(row) * target(row)).sum::<f64>() / total;
        let spread: f64 = (0..count).map(|row| weight(row) * (target(row) - mean).powi(2)).sum();
        match (spread > 0.0, *missed > 0.0) {
            (true, _) => 1.0 - missed / spread,
            (false, missed) => f64::from(u8::from(!missed)),
        }
    });
    Ok(explained.sum::<f64>() / outputs as f64)
}

/// Whether epochs still improve.
struct Judged {
    tol: f64,
    patience: u64,
    in_vain: u64,
    loss: f64,
    score: f64,
}

struct Verdict {
    is_best: bool,
    is_over: bool,
}

impl Judged {
    fn new(params: &Params) -> Judged {
        let (tol, patience) = (params.tol, params.patience);
        Judged { tol, patience, in_vain: 0, loss: f64::INFINITY, score: f64::NEG_INFINITY }
    }

    /// By the score if there is one, else by the loss.
    fn judge(&mut self, loss: f64, score: Option<f64>) -> Verdict {
        let (improved, is_best) = match score {
            Some(score) => (score >= self.score + self.tol, score > self.score),
            None => (loss <= self.loss - self.tol, loss < self.loss),
        };
        self.in_vain = if improved { 0 } else { self.in_vain + 1 };
        self.loss = self.loss.min(loss);
        self.score = self.score.max(score.unwrap_or(f64::NEG_INFINITY));
        Verdict { is_best, is_over: self.in_vain > self.patience }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_without_improvement_are_borne_as_often_as_was_said() {
        let mut judged =
            Judged { tol: 0.1, patience: 1, in_vain: 0, loss: f64::INFINITY, score: f64::NEG_INFINITY };
        let over: Vec<bool> =
            [5.0, 4.0, 3.95, 3.8, 3.79, 3.78].map(|loss| judged.judge(loss, None).is_over).into();
        assert_eq!(over, [false, false, false, false, false, true]);
        let mut judged =
            Judged { tol: 0.1, patience: 1, in_vain: 0, loss: f64::INFINITY, score: f64::NEG_INFINITY };
        let found: Vec<(bool, bool)> = [0.5, 0.55, 0.7, 0.69, 0.68]
            .map(|score| judged.judge(1.0, Some(score)))
            .map(|verdict| (verdict.is_best, verdict.is_over))
            .into();
        assert_eq!(found, [(true, false), (true, false), (true, false), (false, false), (false, true)]);
    }
}
