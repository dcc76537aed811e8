//! The steps of the loop: from the round that has ended to the next.

use super::{Ended, LoopState, Phase, Request, narrowed, widened};
use crate::clustering::kmeans::Outcome;
use crate::clustering::kmeans::lloyd::{Centres, Compared, Measure, Movement, Sums, assign, inertia};
use crate::clustering::kmeans::points::Points;
use crate::clustering::kmeans::relocate::{Far, FarthestQuery, farthest};
use crate::clustering::kmeans::start::{Draw, Drawn, Growth, draw, seed_of};
use crate::clustering::kmeans::survey::{ChunkSurvey, Manner, judge};
use crate::kernels::nearest::Real;
use qjam::fused::{Call, EndedRound, Next, StepError, StepProgress};
use qjam::{Csr, Dense};

/// The step of the loop: a pure function of what it keeps and of the round that has ended.
pub(super) fn step<C: Points>(mut kept: LoopState, ended: EndedRound) -> Result<Next<LoopState>, StepError> {
    match std::mem::replace(&mut kept.phase, Phase::Done) {
        Phase::Survey { given } => on_survey::<C>(kept, ended, given),
        Phase::Draw { nth, step, mut growth } => {
            let (_, drawn) = ended.open::<Draw<C::Number>, Drawn<C::Number>>()?;
            growth.take(widened(&drawn.into_rows()));
            next_draw::<C>(kept, nth, step + 1, growth)
        }
        Phase::Assign { nth, iterations } => {
            let (with, sums) = ended.open::<Compared<C::Number>, Sums>()?;
            on_sums::<C>(kept, Run { nth, iterations }, &with.centres(), sums.in_full())
        }
        Phase::Farthest { nth, iterations, sums } => {
            let (query, far) = ended.open::<FarthestQuery<C::Number>, Far<C::Number>>()?;
            let mut given = sums.clone();
            far.give_to_empty(&mut given);
            on_moved::<C>(kept, Run { nth, iterations }, &query.measure.centres(), &given, sums.weights)
        }
        Phase::Inertia { nth, ended: start } => {
            let (_, inertia) = ended.open::<Measure<C::Number>, f64>()?;
            on_inertia::<C>(kept, nth, Ended { inertia, ..start })
        }
        Phase::Done => Err(StepError::Refused("the loop was over".into())),
    }
}
qjam::register_steps!(step::<Dense<f32>>, step::<Dense<f64>>, step::<Csr<f32>>, step::<Csr<f64>>);

fn on_survey<C: Points>(
    mut kept: LoopState,
    ended: EndedRound,
    given: Option<Vec<f64>>,
) -> Result<Next<LoopState>, StepError> {
    let (_, seen) = ended.open::<Manner, ChunkSurvey>()?;
    let survey = judge::<C::Number>(&seen).map_err(StepError::refused)?;
    kept.enough = kept.request.tolerance * survey.variance;
    match given {
        Some(values) => {
            let centres = centres_of(&values, kept.request.dims)?;
            next_assign::<C>(kept, Run { nth: 0, iterations: 0 }, &centres, None)
        }
        None => begin_start::<C>(kept, 0),
    }
}

/// Begins a start with its first draw.
fn begin_start<C: Points>(kept: LoopState, nth: u64) -> Result<Next<LoopState>, StepError> {
    let evenly = kept.request.evenly;
    next_draw::<C>(kept, nth, 0, Growth::new(vec![], evenly))
}

fn next_draw<C: Points>(
    mut kept: LoopState,
    nth: u64,
    step: u64,
    growth: Growth<f64>,
) -> Result<Next<LoopState>, StepError> {
    let Request { k, dims, weighted, seed, .. } = kept.request;
    if growth.values.len() as u64 >= k * dims {
        let centres = centres_of(&growth.values, dims)?;
        return next_assign::<C>(kept, Run { nth, iterations: 0 }, &centres, None);
    }
    let chosen = narrowed::<C::Number>(growth.chosen());
    let asked = Draw::one(dims, chosen, (seed_of(seed, nth), step), growth.is_even(), weighted);
    let call = match step {
        0 => Call::with_new_states(draw::<C>, &asked)?,
        _ => Call::with_states(draw::<C>, &asked)?,
    };
    let drawn = growth.values.len() as u64 / dims;
    let progress = Some(StepProgress { step: 0, text: format!("first centres: {drawn} of {k}") });
    kept.phase = Phase::Draw { nth, step, growth };
    Ok(Next::Round { kept, call, progress })
}

/// Which start, and how many iterations of it there have been.
#[derive(Clone, Copy)]
struct Run {
    nth: u64,
    iterations: u64,
}

fn centres_of<T: Real>(values: &[f64], dims: u64) -> Result<Centres<T>, StepError> {
    let none = || StepError::Refused("there are no centres".into());
    Centres::new(narrowed(values), dims as usize).ok_or_else(none)
}

fn next_assign<C: Points>(
    mut kept: LoopState,
    Run { nth, iterations }: Run,
    centres: &Centres<C::Number>,
    progress: Option<StepProgress>,
) -> Result<Next<LoopState>, StepError> {
    let with = centres.compared(kept.request.screening, kept.request.weighted);
    let call = Call::new(assign::<C>, &with)?;
    kept.phase = Phase::Assign { nth, iterations };
    Ok(Next::Round { kept, call, progress })
}

fn on_sums<C: Points>(
    mut kept: LoopState,
    run: Run,
    before: &Centres<C::Number>,
    sums: Sums,
) -> Result<Next<LoopState>, StepError> {
    let empty = empty(&sums.weights);
    if empty == 0 || kept.request.keeps_empty {
        let sizes = sums.weights.clone();
        return on_moved::<C>(kept, run, before, &sums, sizes);
    }
    let measure = Measure::new(before, kept.request.weighted);
    let call = Call::new(farthest::<C>, &FarthestQuery { measure, count: empty })?;
    kept.phase = Phase::Farthest { nth: run.nth, iterations: run.iterations, sums };
    Ok(Next::round(kept, call))
}

fn empty(sizes: &[f64]) -> u64 {
    sizes.iter().filter(|w| **w == 0.0).count() as u64
}

/// Moves the centres. `sizes` are the weights of their rows before any were given to empty ones.
fn on_moved<C: Points>(
    mut kept: LoopState,
    Run { nth, iterations }: Run,
    before: &Centres<C::Number>,
    sums: &Sums,
    sizes: Vec<f64>,
) -> Result<Next<LoopState>, StepError> {
    let Movement { centres, moved, is_fixed, .. } = Movement::new(before, sums);
    let iterations = iterations + 1;
    let text = format!("iteration {iterations}: centres moved {:.3e}", moved.sqrt());
    let progress = Some(StepProgress { step: iterations, text });
    let outcome = match Outcome::of(is_fixed, moved, kept.enough) {
        Some(Outcome::FixedPoint) => 0,
        Some(_) => 1,
        None if iterations < kept.request.iterations_max => {
            return next_assign::<C>(kept, Run { nth, iterations }, &centres, progress);
        }
        None => 2,
    };
    let call = Call::new(inertia::<C>, &Measure::new(&centres, kept.request.weighted))?;
    let centres = widened(centres.values());
    let ended = Ended { centres, inertia: 0.0, iterations, outcome, empty: empty(&sizes), sizes };
    kept.phase = Phase::Inertia { nth, ended };
    Ok(Next::Round { kept, call, progress })
}

/// Keeps the better start, and begins the next one.
fn on_inertia<C: Points>(mut kept: LoopState, nth: u64, ended: Ended) -> Result<Next<LoopState>, StepError> {
    if kept.best.as_ref().is_none_or(|best| ended.inertia < best.inertia) {
        kept.best = Some(ended);
    }
    let nth = nth + 1;
    if nth < kept.request.starts {
        return begin_start::<C>(kept, nth);
    }
    kept.phase = Phase::Done;
    Ok(Next::Stop(kept))
}
