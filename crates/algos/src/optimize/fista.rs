//! Accelerated proximal gradients (Beck and Teboulle): for a smooth function plus a price on the sum of absolute values.
//!
//! A step goes along the gradient at a point ahead of the last two and then draws every coordinate towards 0 by the price, so that
//! coordinates become exactly 0. Its length is found by halving until the parabola above the function is one. Where the total
//! rises, the lead is given up and begins anew (O'Donoghue and Candès).

use super::minimize::{Objective, Outcome, Run, Step, Trial};
use crate::kernels::vectors::{dot, max_abs};

/// Halvings of the step after which it is given up.
const HALVINGS: usize = 60;
/// What the step may grow by from one iteration to the next.
const LONGER: f64 = 1.1;
/// Differences below this share of the values are rounding.
const ROUNDING: f64 = 1e-12;

pub(super) fn descend<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut Run<'_, F, O>,
    l1: f64,
) -> Result<Outcome, E> {
    let size = |x: &[f64]| l1 * x.iter().map(|x| x.abs()).sum::<f64>();
    let (mut lead, mut length, mut smooth) = (1.0_f64, 1.0 / length_of(&run.gradient).max(1.0), run.value);
    let mut ahead = Trial { x: run.x.clone(), value: run.value, gradient: run.gradient.clone() };
    run.priced(size(&run.x.clone()));
    loop {
        let mut found = None;
        for _ in 0..HALVINGS {
            if run.is_spent() {
                return Ok(Outcome::EvaluationsSpent);
            }
            let mut trial = Trial { x: drawn(&ahead, length, l1), ..Trial::default() };
            run.evaluate(&mut trial)?;
            let moved: Vec<f64> = trial.x.iter().zip(&ahead.x).map(|(new, old)| new - old).collect();
            let parabola = ahead.value + dot(&ahead.gradient, &moved) + dot(&moved, &moved) / (2.0 * length);
            let slack = ROUNDING * ahead.value.abs().max(trial.value.abs());
            if trial.is_finite() && trial.value <= parabola + slack {
                found = Some((trial, moved));
                break;
            }
            length *= 0.5;
        }
        let Some((trial, moved)) = found else { return Ok(Outcome::NoDescent) };
        let total = trial.value + size(&trial.x);
        if total > run.value && lead > 1.0 {
            // The lead led too far: once more, from the point that stands.
            lead = 1.0;
            ahead = Trial { x: run.x.clone(), value: smooth, gradient: run.gradient.clone() };
            continue;
        }
        smooth = trial.value;
        let before = run.x.clone();
        if let Some(outcome) = run.step_of(Trial { value: total, ..trial }, max_abs(&moved) / length) {
            return Ok(outcome);
        }
        let next = 0.5 * (1.0 + (1.0 + 4.0 * lead * lead).sqrt());
        let share = (lead - 1.0) / next;
        (lead, length) = (next, length * LONGER);
        ahead.x = run.x.iter().zip(&before).map(|(new, old)| new + share * (new - old)).collect();
        if share == 0.0 {
            (ahead.value, ahead.gradient) = (smooth, run.gradient.clone());
        } else {
            if run.is_spent() {
                return Ok(Outcome::EvaluationsSpent);
            }
            run.evaluate(&mut ahead)?;
            if !ahead.is_finite() {
                lead = 1.0;
                ahead = Trial { x: run.x.clone(), value: smooth, gradient: run.gradient.clone() };
            }
        }
    }
}

/// A step of this length along the gradient, and every coordinate drawn towards 0.
fn drawn(from: &Trial, length: f64, l1: f64) -> Vec<f64> {
    let price = length * l1;
    let draw = |(x, slope): (&f64, &f64)| {
        let moved = x - length * slope;
        (moved.abs() - price).max(0.0).copysign(moved)
    };
    from.x.iter().zip(&from.gradient).map(draw).collect()
}

fn length_of(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}
