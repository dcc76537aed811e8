//! Leaving out distances that cannot matter, without changing a bit.
//!
//! Every row remembers its nearest centre, how far that is at most, and for every panel of centres how near the nearest
//! of its *other* centres is at least. When centres move, the bounds give way by as much (the triangle inequality). A panel
//! whose bound is beyond the row's own centre is not looked at. What is looked at is computed by the one definition of
//! distance in [`nearest`](crate::kernels::nearest), so a row's centre is the one [`assign`](super::lloyd::assign) finds;
//! then all rows are added in their order as it does.
//!
//! Bounds are about true distances, comparisons about computed scores. A score misses the true one by at most `slack`:
//! the error of a chain of `dims` products by Cauchy and Schwarz, and the last roundings, doubled for good measure. A panel
//! is left out only if its bound is beyond by more than twice that; then its scores are higher as computed, too. Bounds
//! are kept as 32-bit numbers, rounded to the safe side.
//!
//! They live with the chunk as its state: four bytes for every row and panel, and twenty for every row.

use super::lloyd::Sums;
use super::points::{Kept, Memory, Points, View};
use crate::kernels::nearest::{Panels, Real};
use qjam::{Csr, Dense};

/// Rows whose bounds are worked on together.
const BLOCK_ROWS: usize = 448;

/// What the rows of a chunk remember. Empty before their first round.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Bounds {
    nearest: Vec<u32>,
    /// The nearest centre is no farther.
    upper: Vec<f64>,
    /// Other centres of a panel are no nearer; all panels of the first row, then of the second.
    lower: Vec<f32>,
    /// Lengths of the rows.
    lengths: Vec<f64>,
}

impl Memory for Bounds {
    fn begin(_: usize) -> Self {
        Bounds { nearest: vec![], upper: vec![], lower: vec![], lengths: vec![] }
    }
}

impl Bounds {
    /// The nearest centre of every row in the last round; empty before the first.
    pub fn nearest(&self) -> &[u32] {
        &self.nearest
    }
}

/// Centres, and how far each has moved since the round before.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Step<T: Real> {
    panels: Panels<T>,
    /// At least the distance each centre moved. Empty when they are not those of the round before, moved.
    moved: Vec<f64>,
    /// Whether rows have weights.
    weighted: bool,
}

impl<T: Real> Step<T> {
    /// `moved`: distances in doubles, as near as `squared_distance` gives them.
    pub(super) fn new(panels: Panels<T>, mut moved: Vec<f64>, weighted: bool) -> Step<T> {
        let safe = 1.0 + (panels.dims() as f64 + 16.0) * f64::EPSILON;
        moved.iter_mut().for_each(|d| *d *= safe);
        Step { panels, moved, weighted }
    }
}

/// Whether bounds are worth their keeping: where rows have few values a distance costs less than asking for it.
pub(super) fn worthwhile<T: Real>(panels: usize, row_values: f64) -> bool {
    row_values >= 64.0 && panels >= 2 && row_values * T::UNIT < 1e-2
}

/// Not above `value`.
fn down(value: f64) -> f32 {
    if value > 1e-30 { (value.min(1e38) * (1.0 - 2e-7)) as f32 } else { 0.0 }
}

/// Not below `value`.
fn up(value: f64) -> f32 {
    (value * (1.0 + 2e-7) + 1e-37) as f32
}

/// Errors of scores, for each product in their chains.
#[derive(Clone, Copy)]
struct Slack {
    relative: f64,
    absolute: f64,
    longest: f64,
}

impl Slack {
    fn new<T: Real>(panels: &Panels<T>) -> Slack {
        let longest = (0..panels.centres()).map(|c| panels.norm(c).to_f64()).fold(0.0, f64::max);
        // Below the smallest normal number roundings are absolute.
        let absolute = 4.0 * if size_of::<T>() == 4 { 2e-45 } else { 1e-323 };
        Slack { relative: 2.0 * T::UNIT, absolute, longest: longest.sqrt() * 1.000_001 }
    }

    /// For a row of this length whose scores are chains of so many products.
    fn of(&self, length: f64, terms: usize) -> f64 {
        let reach = length + self.longest;
        (terms as f64 + 8.0) * (self.relative * reach * reach + self.absolute)
    }
}

/// One row while its panels are looked at.
#[derive(Clone, Copy)]
struct Seeker {
    length: f64,
    slack: f64,
    /// The best score so far and whose it is.
    score: f64,
    centre: u32,
    /// At most the distance to it.
    upper: f64,
    /// A bound above this cannot hide a nearer centre.
    reach: f32,
}

impl Seeker {
    fn new(length: f64, slack: f64, centre: u32, upper: f64) -> Seeker {
        Seeker { length, slack, score: f64::INFINITY, centre, upper, reach: 0.0 }.within(upper)
    }

    fn within(self, upper: f64) -> Seeker {
        let reach = up((upper * upper + 2.0 * self.slack).sqrt() * (1.0 + 1e-12));
        Seeker { upper, reach, ..self }
    }

    fn farthest(&self, score: f64) -> f64 {
        (score + self.length * self.length + self.slack).max(0.0).sqrt() * (1.0 + 1e-12)
    }

    fn at_least(&self, score: f64) -> f32 {
        down((score + self.length * self.length - self.slack).max(0.0).sqrt())
    }

    /// Takes in the scores of a panel and returns the bounds of this panel and, if the best moved here, of the one it left.
    #[inline]
    fn see<T: Real>(&mut self, panel: usize, scores: &[T]) -> (f32, Option<(usize, f32)>) {
        let (lowest, second) = two_lowest(scores);
        let first = || (panel * T::WIDTH + scores.iter().position(|s| *s == lowest).unwrap_or(0)) as u32;
        let low = lowest.to_f64();
        if low < self.score || (low == self.score && first() < self.centre) {
            let left = (self.score.is_finite())
                .then(|| (self.centre as usize / T::WIDTH, self.at_least(self.score)));
            self.score = low;
            self.centre = first();
            *self = self.within(self.farthest(low));
            (self.at_least(second.to_f64()), left)
        } else {
            (self.at_least(low), None)
        }
    }
}

/// The lowest score and the lowest of the others.
#[inline]
fn two_lowest<T: Real>(scores: &[T]) -> (T, T) {
    let lower = |a: T, b: T| if b < a { b } else { a };
    let higher = |a: T, b: T| if b < a { a } else { b };
    let (mut first, mut second) = ([T::INFINITY; 8], [T::INFINITY; 8]);
    for scores in scores.as_chunks::<8>().0 {
        for i in 0..8 {
            second[i] = lower(second[i], higher(first[i], scores[i]));
            first[i] = lower(first[i], scores[i]);
        }
    }
    let mut width = 4;
    while width > 0 {
        for i in 0..width {
            let (a, b) = (first[i], first[i + width]);
            second[i] = lower(lower(second[i], second[i + width]), higher(a, b));
            first[i] = lower(a, b);
        }
        width /= 2;
    }
    (first[0], second[0])
}

/// The centres that rows are given to, with the distances computed that bounds could not rule out.
#[qjam::map]
pub fn assign_bounded<C: Points>(step: &Step<C::Number>, x: &C, bounds: &mut Kept<C, Bounds>) -> Sums {
    let panels = &step.panels;
    let rows = x.view(step.weighted);
    let count = panels.len();
    let mut sums = Sums::new(panels.centres(), panels.dims());
    sums.comparisons = (rows.len() * count) as u64;
    let known = bounds.nearest.len() == rows.len() && !step.moved.is_empty();
    if !known {
        bounds.lengths = (0..rows.len()).map(|i| rows.square(i).sqrt()).collect();
        bounds.nearest = vec![0; rows.len()];
        bounds.upper = vec![f64::INFINITY; rows.len()];
        bounds.lower = vec![0.0; rows.len() * count];
    }
    let drifts: Vec<f32> = step
        .moved
        .chunks(C::Number::WIDTH)
        .map(|moved| up(moved.iter().fold(0.0, |a, b| a.max(*b))))
        .collect();
    let slack = Slack::new(panels);
    let mut scratch = Scratch::new();
    for from in (0..rows.len()).step_by(BLOCK_ROWS) {
        let block = from..(from + BLOCK_ROWS).min(rows.len());
        sums.compared += match known {
            true => scratch.seek_further(step, rows, block.clone(), &drifts, slack, bounds),
            false => scratch.seek_all(panels, rows, block.clone(), slack, bounds),
        };
        for i in block {
            sums.add(bounds.nearest[i] as usize, rows, i);
        }
    }
    sums
}
qjam::register!(assign_bounded::<Dense<f32>>, assign_bounded::<Dense<f64>>);
qjam::register!(assign_bounded::<Csr<f32>>, assign_bounded::<Csr<f64>>);

struct Scratch<T> {
    seekers: Vec<(usize, Seeker)>,
    list: Vec<u32>,
    /// Places in `seekers` of what is in the list.
    places: Vec<u32>,
    scores: Vec<T>,
}

impl<T: Real> Scratch<T> {
    fn new() -> Scratch<T> {
        Scratch { seekers: vec![], list: vec![], places: vec![], scores: vec![] }
    }

    /// First time: every row and every panel.
    fn seek_all(
        &mut self,
        panels: &Panels<T>,
        rows: impl View<T>,
        block: std::ops::Range<usize>,
        slack: Slack,
        bounds: &mut Bounds,
    ) -> u64 {
        self.seekers.clear();
        for i in block {
            let length = bounds.lengths[i];
            self.seekers
                .push((i, Seeker::new(length, slack.of(length, rows.terms(i)), u32::MAX, f64::INFINITY)));
        }
        let mut compared = 0;
        for panel in 0..panels.len() {
            compared += self.look(panels, rows, panel, bounds, |_, _| true);
        }
        self.remember(bounds);
        compared
    }

    /// Later: rows whose bounds are not enough, first in the panel of their own centre, then where they still must.
    fn seek_further(
        &mut self,
        step: &Step<T>,
        rows: impl View<T>,
        block: std::ops::Range<usize>,
        drifts: &[f32],
        slack: Slack,
        bounds: &mut Bounds,
    ) -> u64 {
        let panels = &step.panels;
        self.seekers.clear();
        for i in block {
            let mut nearest = f32::INFINITY;
            for (lower, drift) in bounds.lower[i * panels.len()..][..panels.len()].iter_mut().zip(drifts) {
                // The difference, less what its rounding may have added.
                *lower = if *drift > 0.0 { (*lower - drift) - (lower.abs() + drift) * 2e-7 } else { *lower };
                nearest = if *lower < nearest { *lower } else { nearest };
            }
            let (centre, length) = (bounds.nearest[i], bounds.lengths[i]);
            let upper = (bounds.upper[i] + step.moved[centre as usize]) * (1.0 + 1e-12);
            bounds.upper[i] = upper;
            let seeker = Seeker::new(length, slack.of(length, rows.terms(i)), centre, upper);
            if nearest <= seeker.reach {
                self.seekers.push((i, seeker));
            }
        }
        let mut compared = 0;
        let own: Vec<usize> = self.seekers.iter().map(|(_, s)| s.centre as usize / T::WIDTH).collect();
        for panel in 0..panels.len() {
            compared += self.look(panels, rows, panel, bounds, |place, _| own[place] == panel);
        }
        for panel in 0..panels.len() {
            compared += self.look(panels, rows, panel, bounds, |place, lower| own[place] != panel && lower);
        }
        self.remember(bounds);
        compared
    }

    /// Shows one panel to the seekers that want it: `wanted` is told their place and whether their bound leaves a doubt.
    fn look(
        &mut self,
        panels: &Panels<T>,
        rows: impl View<T>,
        panel: usize,
        bounds: &mut Bounds,
        wanted: impl Fn(usize, bool) -> bool,
    ) -> u64 {
        let count = panels.len();
        self.list.clear();
        self.places.clear();
        for (place, (row, seeker)) in self.seekers.iter().enumerate() {
            if wanted(place, bounds.lower[row * count + panel] <= seeker.reach) {
                self.list.push(*row as u32);
                self.places.push(place as u32);
            }
        }
        self.scores.resize(self.list.len() * T::WIDTH, T::default());
        rows.scores(panels, panel, &self.list, &mut self.scores);
        for (place, scores) in self.places.iter().zip(self.scores.chunks_exact(T::WIDTH)) {
            let (row, seeker) = &mut self.seekers[*place as usize];
            let (here, left) = seeker.see(panel, scores);
            bounds.lower[*row * count + panel] = here;
            if let Some((panel, bound)) = left {
                bounds.lower[*row * count + panel] = bound;
            }
        }
        self.list.len() as u64
    }

    fn remember(&self, bounds: &mut Bounds) {
        for (row, seeker) in &self.seekers {
            bounds.nearest[*row] = seeker.centre;
            bounds.upper[*row] = seeker.upper;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    #[test]
    fn two_lowest_are_those_of_the_sorted_scores() {
        let mut random = Rng::keyed(1, 0, 0);
        for len in [16, 32] {
            for _ in 0..200 {
                let scores: Vec<f32> = (0..len).map(|_| random.below(40) as f32).collect();
                let mut sorted = scores.clone();
                sorted.sort_by(f32::total_cmp);
                assert_eq!(two_lowest(&scores), (sorted[0], sorted[1]));
            }
        }
    }

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
