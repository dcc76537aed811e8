//! Nonlinear conjugate gradients: each direction is the steepest descent, bent by the direction before it.
//!
//! The bend is that of Polak and Ribière where it is positive, and none otherwise, which begins anew from the steepest descent. The
//! line search must end where the slope is flat, since directions are conjugate only then.

use super::line_search::{LineSearch, Next};
use super::minimize::{Objective, Outcome, Run, Step, Trial};
use crate::kernels::vectors::{add_scaled, dot};

/// How flat a line must be where its search ends, beside the slope at its beginning.
const FLATNESS: f64 = 0.1;
/// Evaluations after which a line search is given up.
const SEARCH_MAX: usize = 30;

pub(super) fn descend<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut Run<'_, F, O>,
) -> Result<Outcome, E> {
    let mut direction: Vec<f64> = run.gradient.iter().map(|g| -g).collect();
    // The first step is as long as a gradient of length 1 would make it.
    let mut first = (1.0 / dot(&direction, &direction).sqrt()).min(1.0);
    let mut is_steepest = true;
    loop {
        let slope = dot(&direction, &run.gradient);
        let searched = match slope < 0.0 && slope.is_finite() {
            true => along(run, &direction, slope, first, FLATNESS, SEARCH_MAX)?,
            false => Searched::Nothing,
        };
        let (trial, step) = match searched {
            Searched::Step(trial, step) => (trial, step),
            Searched::Spent => return Ok(Outcome::EvaluationsSpent),
            Searched::Nothing if is_steepest => return Ok(Outcome::NoDescent),
            Searched::Nothing => {
                direction = run.gradient.iter().map(|g| -g).collect();
                first = (1.0 / dot(&direction, &direction).sqrt()).min(1.0);
                is_steepest = true;
                continue;
            }
        };
        let before = run.gradient.clone();
        if let Some(outcome) = run.step(trial) {
            return Ok(outcome);
        }
        let kept = dot(&run.gradient, &run.gradient) - dot(&run.gradient, &before);
        let bend = (kept / dot(&before, &before)).max(0.0);
        for (direction, slope) in direction.iter_mut().zip(&run.gradient) {
            *direction = bend * *direction - slope;
        }
        is_steepest = bend == 0.0;
        // As much decrease as the last step promised.
        first = (step * slope / dot(&direction, &run.gradient)).abs().clamp(1e-12, 1e6);
    }
}

/// What came of a line search.
pub(super) enum Searched {
    /// A point with enough decrease, and the length of the step.
    Step(Trial, f64),
    /// No lower point.
    Nothing,
    /// No evaluations are left.
    Spent,
}

/// Looks for a step along a direction of descent that ends where the slope is flat.
pub(super) fn along<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut Run<'_, F, O>,
    direction: &[f64],
    slope: f64,
    first: f64,
    flatness: f64,
    tries: usize,
) -> Result<Searched, E> {
    let start = run.value;
    let mut search = LineSearch::new(start, slope, first).with_flatness(flatness);
    let mut lowest: Option<(Trial, f64)> = None;
    for _ in 0..tries {
        if run.is_spent() {
            break;
        }
        let mut trial = Trial { x: run.x.clone(), ..Trial::default() };
        let step = search.step();
        add_scaled(&mut trial.x, step, direction);
        run.evaluate(&mut trial)?;
        let finite = trial.is_finite();
        let slope = if finite { dot(&trial.gradient, direction) } else { f64::NAN };
        let next = search.advance(trial.value, slope);
        let is_lower = finite && trial.value < lowest.as_ref().map_or(start, |(lowest, _)| lowest.value);
        if finite && next == Next::Accept {
            return Ok(Searched::Step(trial, step));
        }
        if is_lower {
            lowest = Some((trial, step));
        }
        if next == Next::Tight {
            break;
        }
    }
    Ok(match lowest {
        Some((trial, step)) => Searched::Step(trial, step),
        None if run.is_spent() => Searched::Spent,
        None => Searched::Nothing,
    })
}
