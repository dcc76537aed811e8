//! Leaving out distances that cannot matter, without changing a bit.
//!
//! Every row remembers its nearest centre, how far that is at most, and for every panel of centres how near the nearest
//! of its *other* centres is at least. When centres move, the bounds give way by as much (the triangle inequality). First
//! a row whose bounds leave a doubt measures the way to its own centre again, which settles the matter if that centre is
//! more than twice as far from all others; then a panel whose bound is beyond is not looked at. Where the processor can, `screened` sorts out most centres of the other panels
//! by products of bytes; else `exact` computes all of them. What decides is always the one definition of
//! distance in [`nearest`](crate::kernels::nearest), so a row's centre is the one [`assign`](super::lloyd::assign) finds;
//! then all rows are added as it does.
//!
//! Bounds are about true distances, comparisons about computed scores. A score misses the true one by at most `slack`:
//! the error of its chain of products by Cauchy and Schwarz, and the last roundings. A panel is left out only if its
//! bound is beyond by more than twice that; then its scores are higher as computed, too. Bounds are kept as 32-bit
//! numbers, rounded to the safe side.
//!
//! They live with the chunk as its state: four bytes for every row and panel, and twenty for every row.

use super::exact::Exact;
use super::lloyd::Sums;
use super::points::{Kept, Memory, Points, View};
use super::screened::Screened;
use super::targets::{BLOCK_ROWS, Targets};
use crate::kernels::nearest::Real;
use qjam::{Csr, Dense};
use std::ops::Range;

/// For fewer rows of a block in doubt it is not asked how far centres are apart.
const APART_ROWS_MIN: usize = 32;

/// What the rows of a chunk remember. Empty before their first round.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Bounds {
    pub(super) nearest: Vec<u32>,
    /// The nearest centre is no farther.
    pub(super) upper: Vec<f64>,
    /// Other centres of a panel are no nearer; all panels of the first row, then of the second.
    pub(super) lower: Vec<f32>,
    /// Lengths of the rows.
    pub(super) lengths: Vec<f64>,
}

impl Memory for Bounds {
    fn begin(_: usize) -> Self {
        Bounds { nearest: vec![], upper: vec![], lower: vec![], lengths: vec![] }
    }
}

impl Bounds {
    /// Of rows that have not looked at a centre yet.
    pub(super) fn unknown(rows: usize, panels: usize, length: impl Fn(usize) -> f64) -> Bounds {
        Bounds {
            nearest: vec![0; rows],
            upper: vec![f64::INFINITY; rows],
            lower: vec![0.0; rows * panels],
            lengths: (0..rows).map(length).collect(),
        }
    }

    /// The nearest centre of every row in the last round; empty before the first.
    pub fn nearest(&self) -> &[u32] {
        &self.nearest
    }
}

/// Centres, and how far each has moved since the round before.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Step<T: Real> {
    targets: Targets<T>,
    /// At least the distance each centre moved. Empty when they are not those of the round before, moved.
    moved: Vec<f64>,
    /// Whether rows have weights.
    weighted: bool,
}

impl<T: Real> Step<T> {
    /// `moved`: distances in doubles, as near as `squared_distance` gives them.
    pub(super) fn new(targets: Targets<T>, mut moved: Vec<f64>, weighted: bool) -> Step<T> {
        let safe = 1.0 + (targets.dims() as f64 + 16.0) * f64::EPSILON;
        moved.iter_mut().for_each(|d| *d *= safe);
        Step { targets, moved, weighted }
    }
}

/// Whether bounds are worth their keeping: where rows have few values a distance costs less than asking for it.
pub(super) fn worthwhile<T: Real>(panels: usize, row_values: f64) -> bool {
    row_values >= 64.0 && panels >= 2 && row_values * T::UNIT < 1e-2
}

/// Not above `value`.
pub(super) fn down(value: f64) -> f32 {
    if value > 1e-30 { (value.min(1e38) * (1.0 - 2e-7)) as f32 } else { 0.0 }
}

/// Not below `value`.
pub(super) fn up(value: f64) -> f32 {
    (value * (1.0 + 2e-7) + 1e-37) as f32
}

/// Errors of scores.
#[derive(Clone, Copy)]
pub(super) struct Slack {
    unit: f64,
    largest: f64,
    absolute: f64,
    longest: f64,
}

impl Slack {
    pub(super) fn new<T: Real>(targets: &Targets<T>) -> Slack {
        let longest = targets.norms().iter().map(|norm| norm.to_f64()).fold(0.0, f64::max);
        // Below the smallest normal number roundings are absolute.
        let absolute = 4.0 * if size_of::<T>() == 4 { 2e-45 } else { 1e-323 };
        Slack { unit: T::UNIT, largest: T::LARGEST, absolute, longest: longest.sqrt() * 1.000_001 }
    }

    /// Whether the scores of a row of this length are far from overflowing.
    pub(super) fn are_finite(&self, length: f64) -> bool {
        8.0 * self.longest * (length + self.longest) < self.largest
    }

    /// For a row of this length whose scores are chains of so many products. A chain is off by its number of roundings
    /// times what the lengths multiply to, and counts twice; the squared length of the centre and the sum are rounded.
    pub(super) fn of(&self, length: f64, terms: usize) -> f64 {
        let terms = terms as f64 + 8.0;
        let product = length * self.longest;
        let square = self.longest * self.longest;
        2.1 * self.unit * (terms * product + 2.0 * square) + terms * self.absolute
    }
}

/// One row while it looks for its centre.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeker {
    pub(super) row: usize,
    pub(super) length: f64,
    pub(super) slack: f64,
    /// The squared distance to its own centre as measured, within `distance_error`; infinite if it was not.
    pub(super) square: f64,
    /// The nearest centre so far; `u32::MAX` before there is one.
    pub(super) centre: u32,
    /// At most the distance to it.
    pub(super) upper: f64,
    /// A bound above this cannot hide a nearer centre.
    pub(super) reach: f32,
}

impl Seeker {
    pub(super) fn new(row: usize, length: f64, slack: f64, centre: u32, upper: f64) -> Seeker {
        Seeker { row, length, slack, square: f64::INFINITY, centre, upper, reach: 0.0 }.within(upper)
    }

    pub(super) fn within(self, upper: f64) -> Seeker {
        let reach = up((upper * upper + 2.0 * self.slack).sqrt() * (1.0 + 1e-12));
        Seeker { upper, reach, ..self }
    }
}

/// The centres that rows are given to, with the distances computed that bounds could not rule out.
#[qjam::map]
pub fn assign_bounded<C: Points>(step: &Step<C::Number>, x: &C, bounds: &mut Kept<C, Bounds>) -> Sums {
    bounded(step, x, bounds)
}
qjam::register!(assign_bounded::<Dense<f32>>, assign_bounded::<Dense<f64>>);
qjam::register!(assign_bounded::<Csr<f32>>, assign_bounded::<Csr<f64>>);

pub(super) fn bounded<C: Points>(step: &Step<C::Number>, x: &C, bounds: &mut Bounds) -> Sums {
    let targets = &step.targets;
    let rows = x.view(step.weighted);
    let mut sums = Sums::new(targets.len(), targets.dims());
    sums.comparisons = (rows.len() * targets.len()) as u64;
    let known = bounds.nearest.len() == rows.len() && !step.moved.is_empty();
    if !known {
        *bounds = Bounds::unknown(rows.len(), targets.panels_len(), |i| rows.square(i).sqrt());
    }
    let slack = Slack::new(targets);
    let mut screened = rows.dense().zip(targets.screen().map(|screen| Screened::new(targets, screen)));
    let mut exact = Exact::new();
    let mut drift = Drift::new(step);
    for from in (0..rows.len()).step_by(BLOCK_ROWS) {
        let block = from..(from + BLOCK_ROWS).min(rows.len());
        let seekers = match known {
            true => drift.doubtful(step, rows, block, slack, bounds),
            false => drift.all(rows, block, slack, bounds),
        };
        sums.compared += match &mut screened {
            Some((dense, screened)) => screened.seek(*dense, seekers, bounds),
            None => exact.seek(targets.panels(), rows, seekers, bounds),
        };
    }
    sums.compared += drift.measured;
    rows.add_all(&bounds.nearest, &mut sums);
    sums
}

/// What movements of centres do to bounds, and who is left in doubt.
struct Drift {
    /// How far a centre of each panel moved at most.
    panels: Vec<f32>,
    seekers: Vec<Seeker>,
    /// Distances to own centres that were measured anew.
    measured: u64,
}

impl Drift {
    fn new<T: Real>(step: &Step<T>) -> Drift {
        let farthest = |moved: &[f64]| up(moved.iter().fold(0.0, |a, b| a.max(*b)));
        Drift { panels: step.moved.chunks(T::WIDTH).map(farthest).collect(), seekers: vec![], measured: 0 }
    }

    /// First time: every row.
    fn all<T: Real>(
        &mut self,
        rows: impl View<T>,
        block: Range<usize>,
        slack: Slack,
        bounds: &Bounds,
    ) -> &[Seeker] {
        self.seekers.clear();
        self.seekers.extend(block.map(|i| {
            let length = bounds.lengths[i];
            Seeker::new(i, length, slack.of(length, rows.terms(i)), u32::MAX, f64::INFINITY)
        }));
        &self.seekers
    }

    /// Later: rows whose bounds are not enough.
    fn doubtful<T: Real>(
        &mut self,
        step: &Step<T>,
        rows: impl View<T>,
        block: Range<usize>,
        slack: Slack,
        bounds: &mut Bounds,
    ) -> &[Seeker] {
        let count = self.panels.len();
        self.seekers.clear();
        for i in block {
            let mut nearest = f32::INFINITY;
            for (lower, drift) in bounds.lower[i * count..][..count].iter_mut().zip(&self.panels) {
                // The difference, less what its rounding may have added.
                *lower = if *drift > 0.0 { (*lower - drift) - (lower.abs() + drift) * 2e-7 } else { *lower };
                nearest = if *lower < nearest { *lower } else { nearest };
            }
            let (centre, length) = (bounds.nearest[i], bounds.lengths[i]);
            bounds.upper[i] = (bounds.upper[i] + step.moved[centre as usize]) * (1.0 + 1e-12);
            let mut seeker = Seeker::new(i, length, slack.of(length, rows.terms(i)), centre, bounds.upper[i]);
            if nearest > seeker.reach {
                continue;
            }
            let coordinates =
                &step.targets.values()[centre as usize * step.targets.dims()..][..step.targets.dims()];
            if let Some(measured) = rows.measured(i, coordinates) {
                self.measured += 1;
                seeker = Seeker { square: measured.0, ..seeker.within(measured.1) };
                bounds.upper[i] = seeker.upper;
            }
            if nearest <= seeker.reach {
                self.seekers.push(seeker);
            }
        }
        if self.seekers.len() >= APART_ROWS_MIN {
            // Other centres are as far as they are from the row's own at least, less the way there. A row that is certain by
            // that remembers it, so that it is still certain when centres stay.
            self.seekers.retain(|seeker| {
                let others = step.targets.apart(seeker.centre as usize) - seeker.upper;
                let doubtful = others <= f64::from(seeker.reach);
                if !doubtful {
                    let lower = &mut bounds.lower[seeker.row * count..][..count];
                    lower.iter_mut().for_each(|lower| *lower = lower.max(down(others)));
                }
                doubtful
            });
        }
        &self.seekers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    #[test]
    fn roundings_go_to_the_safe_side() {
        let mut random = Rng::keyed(2, 0, 0);
        for _ in 0..10_000 {
            let v = random.uniform() * 10f64.powi(random.below(60) as i32 - 30);
            assert!(f64::from(down(v)) <= v && f64::from(up(v)) >= v, "{v:e}");
        }
        assert_eq!((down(0.0), down(-1.0)), (0.0, 0.0));
        assert!(down(f64::INFINITY).is_finite());
    }
}
