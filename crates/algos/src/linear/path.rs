//! The same problem for many λ: where the first coefficient appears, and one fit after the other from there on.

use super::classes::Classes;
use super::error::LearnError;
use super::params::Spec;
use super::scaled::{deviations, pulled, surveyed};
use super::train::{Progress, Trained, must_be_weights, train};
use qjam::{Master, Rows, with_rows};

/// The smallest λ, in the form of the spec (for a classifier `1/C`), for which no coefficient differs from 0; infinite where
/// sizes of coefficients cost nothing, as in ridge.
pub fn lambda_max(
    master: &Master,
    examples: &Rows,
    targets: &[f64],
    weights: Option<&[f64]>,
    spec: &Spec,
) -> Result<f64, LearnError> {
    if spec.eta >= 1.0 {
        return Ok(f64::INFINITY);
    }
    super::solvers::coordinate::partition::must_be_targets(targets, examples.records() as usize)?;
    let total = must_be_weights(weights, targets.len())?;
    let survey = surveyed(master, examples)?;
    let deviations = match spec.standardize {
        true => deviations(master, examples, weights, &survey)?,
        false => vec![],
    };
    let classes = match spec.kind.classifies() {
        true => Some(Classes::of(targets, weights)?),
        false => None,
    };
    let together = classes.as_ref().is_some_and(|classes| super::train::is_together(spec, classes));
    let mut steepest = 0.0_f64;
    for model in 0..classes.as_ref().map_or(1, Classes::models) {
        let own = match (&classes, spec.balanced) {
            (Some(classes), true) if together => Some(classes.balanced_together(weights)),
            (Some(classes), true) => Some(classes.balanced(weights, model)),
            _ => weights.map(<[f64]>::to_vec),
        };
        let weight = |row: usize| own.as_ref().map_or(1.0, |own| own[row]);
        let all: f64 = (0..targets.len()).map(weight).sum();
        let labels = classes.as_ref().map(|classes| classes.labels(model));
        // Slopes of the rows' losses where all coefficients are 0 and the intercept is best.
        let slopes: Vec<f64> = match labels {
            Some(labels) => {
                let ours: f64 =
                    labels.iter().enumerate().filter(|(_, y)| **y > 0.0).map(|(row, _)| weight(row)).sum();
                let chance = match (spec.intercept, &classes) {
                    (true, _) => ours / all,
                    (false, Some(classes)) if together => 1.0 / classes.values().len() as f64,
                    (false, _) => 0.5,
                };
                let slope =
                    |(row, y): (usize, &f64)| weight(row) * (chance - if *y > 0.0 { 1.0 } else { 0.0 });
                labels.iter().enumerate().map(slope).collect()
            }
            None => {
                let sum: f64 = targets.iter().enumerate().map(|(row, b)| weight(row) * b).sum();
                let mean = if spec.intercept { sum / all } else { 0.0 };
                targets.iter().enumerate().map(|(row, b)| weight(row) * (mean - b)).collect()
            }
        };
        let pulls = with_rows!(examples, data => pulled(master, data, slopes, &survey))?;
        let deviation = |j: usize| deviations.get(j).copied().unwrap_or(1.0);
        steepest =
            pulls.iter().enumerate().fold(steepest, |most, (j, pull)| most.max(pull.abs() / deviation(j)));
    }
    // A little more than computed: rounding here must not leave a coefficient there.
    Ok((1.0 + 1e-10) * steepest / ((1.0 - spec.eta) * spec.scaling().factor_of(total)))
}

/// So many λ from the largest down to a share of it, each the same part of the one before.
pub fn grid(largest: f64, least_share: f64, count: usize) -> Vec<f64> {
    let power = |i: usize| i as f64 / (count.max(2) - 1) as f64;
    (0..count).map(|i| largest * least_share.powf(power(i))).collect()
}

/// Trains for several λ, each from where the one before ended. From the largest to the smallest they are cheapest.
pub fn train_path(
    master: &Master,
    examples: &Rows,
    targets: &[f64],
    weights: Option<&[f64]>,
    spec: &Spec,
    lambdas: &[f64],
    mut observer: impl FnMut(usize, &Progress<'_>),
) -> Result<Vec<Trained>, LearnError> {
    let mut all: Vec<Trained> = Vec::with_capacity(lambdas.len());
    for (i, lambda) in lambdas.iter().enumerate() {
        let start = all.last().map_or(spec.start.clone(), |last| last.model.coefficients().to_vec());
        let spec = spec.clone().with_lambda(*lambda)?.with_start(start);
        all.push(train(master, examples, targets, weights, &spec, |progress| observer(i, progress))?);
    }
    Ok(all)
}
