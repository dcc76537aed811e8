//! K-means as a loop that needs no submitter: whoever completes a round takes the step to the next.
//!
//! Comes in: params and rows, of which only the shape is looked at. Goes out: the first round of the loop, and at its end a [`Fit`].
//! The rounds and the decisions between them are those of [`fit`](super::fit) without pruning, which changes no bit, so the centres
//! have the bits that every engine gives. What the loop keeps has all numbers in doubles, which 32-bit ones come back from as they
//! were.
//!
//! ```text
//!   survey ─▶ draw … draw ─▶ assign ─┬─▶ assign … ─▶ inertia ─┬─▶ draw (the next start)
//!                                    └▶ farthest ─┘           └─▶ stop
//! ```

mod step;
#[cfg(test)]
mod tests;

use super::lloyd::{Centres, Sums};
use super::params::{EmptyClusters, Params, Start};
use super::points::Points;
use super::start::Growth;
use super::survey::{self, Manner};
use super::{Fit, FitError, Model, Outcome, checked_dims, checked_start, targets};
use crate::kernels::nearest::Real;
use qjam::DataSet;
use qjam::fused::{Call, FusedRound, StepError};
use step::step;
use thiserror::Error;

/// What was asked for, in a form that travels.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
struct Request {
    k: u64,
    dims: u64,
    evenly: bool,
    starts: u64,
    iterations_max: u64,
    tolerance: f64,
    weighted: bool,
    screening: bool,
    keeps_empty: bool,
    seed: u64,
}

/// Where the loop is: what the round under way is for.
#[derive(Clone, Debug, qjam::Wire)]
enum Phase {
    /// Looks at all rows. There may be centres to begin from.
    Survey { given: Option<Vec<f64>> },
    /// Draws the first centres of a start.
    Draw { nth: u64, step: u64, growth: Growth<f64> },
    /// Gives rows to centres.
    Assign { nth: u64, iterations: u64 },
    /// Finds rows for centres without any.
    Farthest { nth: u64, iterations: u64, sums: Sums },
    /// Measures the centres of a start.
    Inertia { nth: u64, ended: Ended },
    /// There is nothing left to do.
    Done,
}

/// The iterations of one start, when they have ended.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
struct Ended {
    centres: Vec<f64>,
    inertia: f64,
    iterations: u64,
    /// 0 for the fixed point, 1 for the tolerance, 2 if iterations were used up.
    outcome: u8,
    empty: u64,
    sizes: Vec<f64>,
}

/// What the loop keeps between its rounds.
#[derive(Clone, Debug, qjam::Wire)]
pub struct LoopState {
    request: Request,
    phase: Phase,
    /// What the tolerance allows centres to move.
    enough: f64,
    /// The best start so far.
    best: Option<Ended>,
}

/// The first round of a loop over these rows, from given centres if there are any.
pub fn first_round<C: Points>(
    params: &Params,
    data: &DataSet<C>,
    given: Option<Centres<C::Number>>,
) -> Result<FusedRound, DetachError> {
    if params.skips_bad_rows() {
        return Err(DetachError::Option(
            "cannot leave rows out; `--missing drop` does that when the file is read",
        ));
    }
    if params.start() == Start::Parallel && given.is_none() {
        return Err(DetachError::Option(
            "cannot draw its first centres by k-means‖; choose k-means++ or random",
        ));
    }
    let dims = checked_dims(params, data)?;
    if let Some(given) = &given {
        checked_start(params, given, dims)?;
    }
    let given_starts = if given.is_some() { 1 } else { params.starts() };
    let request = Request {
        k: params.k() as u64,
        dims: dims as u64,
        evenly: params.start() == Start::Random,
        starts: given_starts as u64,
        iterations_max: params.iterations_max() as u64,
        tolerance: params.tolerance(),
        weighted: params.weighted(),
        screening: params.pruning() && targets::worth_screening(params.k(), dims),
        keeps_empty: params.empty_clusters() == EmptyClusters::Keep,
        seed: params.seed(),
    };
    let given = given.map(|centres| widened(centres.values()));
    let kept = LoopState { request, phase: Phase::Survey { given }, enough: 0.0, best: None };
    let manner = Manner { weighted: params.weighted(), skip: false };
    let data = survey::cut(data)?;
    Ok(FusedRound::first(step::<C>, &kept, Call::new(survey::survey::<C>, &manner)?, &data)?)
}

/// Why a fit cannot be detached.
#[derive(Debug, Error)]
pub enum DetachError {
    /// The loop has no round for an option.
    #[error("k-means: a detached fit {0}")]
    Option(&'static str),
    /// The data does.
    #[error(transparent)]
    Data(#[from] FitError),
    /// The loop could not be put together.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// What a loop came to, and the params it was begun with as far as a report tells them.
pub fn finished<T: Real>(params: &Params, kept: LoopState) -> Option<(Fit<T>, Params)> {
    let LoopState { request, phase: Phase::Done, best: Some(best), .. } = kept else { return None };
    let centres = Centres::new(narrowed(&best.centres), request.dims as usize)?;
    let outcome = match best.outcome {
        0 => Outcome::FixedPoint,
        1 => Outcome::Tolerance,
        _ => Outcome::IterationsUsedUp,
    };
    let fit = Fit {
        model: Model::new(centres),
        inertia: best.inertia,
        iterations: best.iterations as usize,
        outcome,
        empty: best.empty as usize,
        skipped: 0,
        sizes: best.sizes,
    };
    Some((fit, params.with_weights_last(request.weighted)))
}

fn widened<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

fn narrowed<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|v| T::from_f64(*v)).collect()
}
