//! Rows that look at whole panels: every score of a panel that a bound could not rule out.
//!
//! This is what finds centres where products of bytes cannot sort them out: sparse rows, other processors, and rows to
//! which too many centres are equally near.

use super::bounds::{Bounds, Seeker, down};
use super::points::View;
use crate::kernels::nearest::{Panels, Real};

/// Memory of the search.
pub(super) struct Exact<T> {
    /// Rows, with the best score of each so far.
    seekers: Vec<(Seeker, f64)>,
    list: Vec<u32>,
    /// Places in `seekers` of what is in the list.
    places: Vec<u32>,
    scores: Vec<T>,
}

impl<T: Real> Exact<T> {
    pub(super) fn new() -> Exact<T> {
        Exact { seekers: vec![], list: vec![], places: vec![], scores: vec![] }
    }

    /// Finds the nearest centres: first in the panel of the row's own one, if it has one, then where it still must.
    /// Returns how many scores were computed.
    pub(super) fn seek(
        &mut self,
        panels: &Panels<T>,
        rows: impl View<T>,
        seekers: &[Seeker],
        bounds: &mut Bounds,
    ) -> u64 {
        self.seekers.clear();
        self.seekers.extend(seekers.iter().map(|seeker| (*seeker, f64::INFINITY)));
        let own: Vec<usize> = seekers.iter().map(|s| s.centre as usize / T::WIDTH).collect();
        let mut computed = 0;
        for panel in 0..panels.len() {
            computed += self.look(panels, rows, panel, bounds, |place, _| own[place] == panel);
        }
        for panel in 0..panels.len() {
            computed += self.look(panels, rows, panel, bounds, |place, doubt| own[place] != panel && doubt);
        }
        for (seeker, _) in &self.seekers {
            bounds.nearest[seeker.row] = seeker.centre;
            bounds.upper[seeker.row] = seeker.upper;
        }
        computed
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
        for (place, (seeker, _)) in self.seekers.iter().enumerate() {
            if wanted(place, bounds.lower[seeker.row * count + panel] <= seeker.reach) {
                self.list.push(seeker.row as u32);
                self.places.push(place as u32);
            }
        }
        self.scores.resize(self.list.len() * T::WIDTH, T::default());
        rows.scores(panels, panel, &self.list, &mut self.scores);
        for (place, scores) in self.places.iter().zip(self.scores.chunks_exact(T::WIDTH)) {
            let (seeker, score) = &mut self.seekers[*place as usize];
            let (here, left) = seeker.see(score, panel, scores);
            bounds.lower[seeker.row * count + panel] = here;
            if let Some((panel, bound)) = left {
                bounds.lower[seeker.row * count + panel] = bound;
            }
        }
        (self.list.len() * T::WIDTH) as u64
    }
}

impl Seeker {
    fn farthest(&self, score: f64) -> f64 {
        (score + self.length * self.length * (1.0 + 1e-12) + self.slack).max(0.0).sqrt() * (1.0 + 1e-12)
    }

    fn at_least(&self, score: f64) -> f32 {
        down((score + self.length * self.length * (1.0 - 1e-12) - self.slack).max(0.0).sqrt())
    }

    /// Takes in the scores of a panel and returns the bounds of this panel and, if the best moved here, of the one it left.
    #[inline]
    fn see<T: Real>(&mut self, best: &mut f64, panel: usize, scores: &[T]) -> (f32, Option<(usize, f32)>) {
        let (lowest, second) = two_lowest(scores);
        let first = || (panel * T::WIDTH + scores.iter().position(|s| *s == lowest).unwrap_or(0)) as u32;
        let low = lowest.to_f64();
        if low < *best || (low == *best && first() < self.centre) {
            let left = best.is_finite().then(|| (self.centre as usize / T::WIDTH, self.at_least(*best)));
            *best = low;
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
}
