//! Newton's steps within a region of trust: the quadratic model is minimised by linear conjugate gradients that stop at its edge
//! (Steihaug), which needs products with the Hessian and no Hessian, and takes directions of negative curvature for what they are.
//!
//! The region grows where the model promised what came, and shrinks where it did not.

use super::minimize::{Objective, Outcome, Run, Step, Trial};
use crate::kernels::vectors::{add_scaled, dot};

/// A step is taken if it brings this share of what the model promised.
const TAKEN: f64 = 0.1;
/// Below this share the region shrinks, above the other it grows.
const POOR: f64 = 0.25;
const GOOD: f64 = 0.75;
const RADIUS_MAX: f64 = 1e10;
/// Promises below this share of the value are rounding.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

pub(super) fn descend<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut Run<'_, F, O>,
) -> Result<Outcome, E> {
    let mut radius = 1.0_f64.max(length(&run.x) * 0.1);
    loop {
        let Some(Model { step, promise, at_edge }) = within(run, radius)? else {
            return Ok(Outcome::EvaluationsSpent);
        };
        if run.is_spent() {
            return Ok(Outcome::EvaluationsSpent);
        }
        let mut trial = Trial { x: run.x.clone(), ..Trial::default() };
        add_scaled(&mut trial.x, 1.0, &step);
        run.evaluate(&mut trial)?;
        let came = run.value - trial.value;
        let kept = if trial.is_finite() { came / promise } else { f64::NEG_INFINITY };
        let long = length(&step);
        // Where nothing can be told from rounding the gradient still says whether the step was good.
        let rounds = promise <= ROUNDING * run.value.abs().max(f64::MIN_POSITIVE);
        let flatter = trial.is_finite() && length(&trial.gradient) < length(&run.gradient);
        if kept < POOR && !(rounds && flatter) {
            radius = 0.25 * long.min(radius);
        } else if kept > GOOD && at_edge {
            radius = (2.0 * radius).min(RADIUS_MAX);
        }
        if kept > TAKEN || (rounds && flatter) {
            if let Some(outcome) = run.step(trial) {
                return Ok(outcome);
            }
        } else if radius <= f64::EPSILON * length(&run.x).max(f64::MIN_POSITIVE.sqrt()) || rounds {
            return Ok(Outcome::NoDescent);
        }
    }
}

struct Model {
    step: Vec<f64>,
    /// By how much the model says that the value decreases.
    promise: f64,
    at_edge: bool,
}

/// The lowest point of the model within the radius, about; `None` if evaluations are spent before there is any.
fn within<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut Run<'_, F, O>,
    radius: f64,
) -> Result<Option<Model>, E> {
    let slope = length(&run.gradient);
    let enough = slope * slope.sqrt().min(0.5);
    let mut step = vec![0.0; run.x.len()];
    let mut rest = run.gradient.clone();
    let mut direction: Vec<f64> = rest.iter().map(|r| -r).collect();
    let (mut product, mut promise) = (vec![0.0; step.len()], 0.0);
    let mut squares = dot(&rest, &rest);
    for _ in 0..2 * step.len().max(5) {
        if run.is_spent() {
            return Ok((promise > 0.0).then_some(Model { step, promise, at_edge: false }));
        }
        run.hessian_times(&direction, &mut product)?;
        let curvature = dot(&direction, &product);
        let alpha = squares / curvature;
        let mut next = step.clone();
        add_scaled(&mut next, alpha, &direction);
        let bends = curvature > 0.0 && alpha.is_finite();
        if !bends || length(&next) >= radius {
            let tau = to_edge(&step, &direction, radius);
            // The model along the direction: slope and curvature are known.
            promise += tau * -dot(&rest, &direction)
                - 0.5 * tau * tau * if curvature.is_finite() { curvature } else { 0.0 };
            add_scaled(&mut step, tau, &direction);
            return Ok(Some(Model { step, promise: promise.max(0.0), at_edge: true }));
        }
        promise += 0.5 * alpha * squares;
        step = next;
        add_scaled(&mut rest, alpha, &product);
        let next_squares = dot(&rest, &rest);
        if next_squares.sqrt() <= enough {
            break;
        }
        let bend = next_squares / squares;
        direction.iter_mut().zip(&rest).for_each(|(direction, rest)| *direction = bend * *direction - rest);
        squares = next_squares;
    }
    Ok(Some(Model { step, promise, at_edge: false }))
}

/// How far it is from a point within to the edge.
fn to_edge(from: &[f64], direction: &[f64], radius: f64) -> f64 {
    let (a, b) = (dot(direction, direction), dot(from, direction));
    let c = radius * radius - dot(from, from);
    // The root that does not subtract.
    let root = (b * b + a * c.max(0.0)).sqrt();
    if b > 0.0 { c.max(0.0) / (b + root) } else { (root - b) / a }
}

fn length(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}
