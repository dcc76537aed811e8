//! Rows that look for their centre among few: products of bytes sort out the others.
//!
//! For every panel a row's bounds could not rule out, [`Bytes`] gives a lower bound for each of its centres. The centre of the lowest
//! one is measured, which says how near the nearest is at least; only centres whose bound is not beyond that are measured,
//! in any order of summation and with a known error. Nearly always one of them is nearer than all others by more than
//! errors could hide, and then it has the lowest score, too. Else the scores of those in question decide, computed by
//! their one definition. So a row's centre is the same as without all this.
//!
//! What is learned on the way, bounds of panels and measured distances, is remembered for the next round.
//!
//! Where very many centres are equally near, as with copies of few rows, nothing is gained: such rows are left to
//! [`Exact`], and if they are many, the next ones are not even tried for a while.

use super::bounds::{Bounds, Seeker, Slack, down};
use super::exact::Exact;
use super::points::DenseRows;
use super::targets::Targets;
use crate::kernels::Level;
use crate::kernels::nearest::{Real, Rows, distance_error};
use crate::kernels::screen::{Bytes, Out, Screen, replace_bounds};
use std::ops::Range;

/// Rows whose bytes are compared with all panels before the next ones: with a thousand dimensions and centres, they and
/// their bounds fill half of a common second-level cache.
const ROWS: usize = 112;
/// Panels whose bounds are looked through at a time.
const PANELS: usize = 64;
/// Rows left to [`Exact`] before, of so many, that the next ones go there at once.
const TRIED: usize = ROWS;
/// How many rows go there at once before another try.
const UNTRIED: usize = 16 * ROWS;

/// A centre whose distance from a row was measured.
#[derive(Clone, Copy, Debug)]
struct Rival {
    place: u32,
    centre: u32,
    square: f64,
}

/// Where a row stands.
#[derive(Clone, Copy)]
struct Look {
    centre: u32,
    /// Of the nearest so far, as measured.
    square: f64,
    /// Too many are near.
    given_up: bool,
}

/// Memory of the search.
pub(super) struct Screened<'a, T: Real> {
    targets: &'a Targets<T>,
    screen: &'a Screen<T>,
    bytes: Bytes,
    /// Lower bounds of some panels, row after row.
    lower: Vec<f32>,
    /// The lowest of each panel.
    lowest: Vec<f32>,
    looks: Vec<Look>,
    rivals: Vec<Rival>,
    found: RowScratch<T>,
    left: Vec<Seeker>,
    exact: Exact<T>,
    /// Rows that are left to `exact` without a try.
    untried: usize,
    errors: (f64, f64),
    computed: u64,
}

/// Memory of one row's turn.
struct RowScratch<T> {
    list: Vec<u32>,
    squares: Vec<f64>,
    scores: Vec<T>,
}

impl<'a, T: Real> Screened<'a, T> {
    pub(super) fn new(targets: &'a Targets<T>, screen: &'a Screen<T>) -> Screened<'a, T> {
        Screened {
            targets,
            screen,
            bytes: Bytes::new(),
            lower: vec![],
            lowest: vec![],
            looks: vec![],
            rivals: vec![],
            found: RowScratch { list: vec![], squares: vec![], scores: vec![] },
            left: vec![],
            exact: Exact::new(),
            untried: 0,
            errors: distance_error::<T>(targets.dims()),
            computed: 0,
        }
    }

    /// For rows that know nothing yet.
    pub(super) fn seek_all(
        &mut self,
        rows: Rows<'_, T>,
        block: Range<usize>,
        slack: Slack,
        bounds: &mut Bounds,
    ) {
        let seeker = |i: usize| {
            let length = bounds.lengths[i];
            Seeker::new(i, length, slack.of(length, rows.dims()), u32::MAX, f64::INFINITY)
        };
        let seekers: Vec<Seeker> = block.map(seeker).collect();
        self.seek(rows, &seekers, bounds);
    }

    /// Finds the nearest centres. Returns how many distances and scores were computed.
    pub(super) fn seek(&mut self, rows: Rows<'_, T>, seekers: &[Seeker], bounds: &mut Bounds) -> u64 {
        self.computed = 0;
        self.left.clear();
        for part in seekers.chunks(ROWS) {
            if self.untried > 0 {
                self.untried = self.untried.saturating_sub(part.len());
                self.left.extend_from_slice(part);
                continue;
            }
            let before = self.left.len();
            self.part(rows, part, bounds);
            if self.left.len() - before > TRIED / 2 {
                self.untried = UNTRIED;
            }
        }
        if !self.left.is_empty() {
            let panels = self.targets.panels();
            self.computed += self.exact.seek(panels, DenseRows(rows), &self.left, bounds);
        }
        self.computed
    }

    fn part(&mut self, rows: Rows<'_, T>, seekers: &[Seeker], bounds: &mut Bounds) {
        let list: Vec<u32> = seekers.iter().map(|s| s.row as u32).collect();
        self.bytes.take(self.screen, rows, &list);
        self.looks.clear();
        self.rivals.clear();
        for (place, seeker) in seekers.iter().enumerate() {
            let Seeker { centre, square, .. } = *seeker;
            self.looks.push(Look { centre, square, given_up: !self.bytes.usable(place) });
            if centre != u32::MAX {
                self.rivals.push(Rival { place: place as u32, centre, square });
            }
        }
        let count = self.targets.panels_len();
        for from in (0..count).step_by(PANELS) {
            let group = from..(from + PANELS).min(count);
            self.compare(seekers, group.clone(), bounds);
            for (place, seeker) in seekers.iter().enumerate() {
                self.sift(rows, place, seeker, group.clone(), bounds);
            }
        }
        self.rivals.sort_by_key(|rival| rival.place);
        let rivals = std::mem::take(&mut self.rivals);
        let mut rest = &rivals[..];
        for (place, seeker) in seekers.iter().enumerate() {
            let here = rest.iter().take_while(|rival| rival.place as usize == place).count();
            let (mine, others) = rest.split_at(here);
            rest = others;
            if self.looks[place].given_up {
                self.leave(seeker, bounds);
            } else {
                self.settle(rows, seeker, self.looks[place], mine, bounds);
            }
        }
        self.rivals = rivals;
    }

    /// Lower bounds for the centres of a group of panels, as far as rows want them.
    fn compare(&mut self, seekers: &[Seeker], group: Range<usize>, bounds: &Bounds) {
        let count = self.targets.panels_len();
        self.lower.resize(ROWS * group.len() * T::WIDTH, 0.0);
        self.lowest.resize(ROWS * group.len(), 0.0);
        let places = &mut self.found.list;
        for panel in group.clone() {
            places.clear();
            for (place, seeker) in seekers.iter().enumerate() {
                if bounds.lower[seeker.row * count + panel] <= seeker.reach {
                    places.push(place as u32);
                }
            }
            let (bounds, lowest) = (&mut self.lower, &mut self.lowest);
            let out = Out { bounds, lowest, panels: group.len(), panel: panel - group.start };
            self.bytes.bounds(self.screen, panel, places, out);
        }
    }

    /// Measures the centres of a group that may be the nearest, and remembers how near the others are at least.
    fn sift(
        &mut self,
        rows: Rows<'_, T>,
        place: usize,
        seeker: &Seeker,
        group: Range<usize>,
        bounds: &mut Bounds,
    ) {
        let count = self.targets.panels_len();
        let known = &mut bounds.lower[seeker.row * count..][group.clone()];
        let stride = group.len() * T::WIDTH;
        let lower = &mut self.lower[place * stride..][..stride];
        let first = group.start * T::WIDTH;
        let (unit, base) = (self.screen.unit(), self.bytes.square_least(place));
        let row = rows.row(seeker.row);
        let look = &mut self.looks[place];
        if look.given_up {
            return;
        }
        let RowScratch { list, squares, .. } = &mut self.found;
        let minima = &mut self.lowest[place * group.len()..][..group.len()];
        // Where nothing was compared there is nothing to be found.
        for (minimum, known) in minima.iter_mut().zip(&*known) {
            *minimum = if *known <= seeker.reach { *minimum } else { f32::INFINITY };
        }
        let (share, more) = self.errors;
        let limit = |square: f64| {
            let most = (square * (1.0 + share) + more + 2.0 * seeker.slack) / (unit * unit) - base;
            (most + most.abs() * 1e-6 + 1e-37) as f32
        };
        let (panel, least) = minima.iter().enumerate().fold((0, f32::INFINITY), |best, (panel, minimum)| {
            if *minimum < best.1 { (panel, *minimum) } else { best }
        });
        let mut most = limit(look.square);
        if least.is_finite() && least <= most {
            let scores = &lower[panel * T::WIDTH..][..T::WIDTH];
            let lane = scores.iter().position(|s| *s == least).unwrap_or(0);
            let nearest = (first + panel * T::WIDTH + lane) as u32;
            list.clear();
            if nearest != seeker.centre {
                list.push(nearest);
                squares.resize(1, 0.0);
                T::distances(Level::best(), row, self.targets.values(), list, squares);
                most = limit(look.square.min(squares[0]));
            }
            for (panel, _) in minima.iter().enumerate().filter(|(_, minimum)| **minimum <= most) {
                for (lane, bound) in lower[panel * T::WIDTH..][..T::WIDTH].iter().enumerate() {
                    let centre = (first + panel * T::WIDTH + lane) as u32;
                    if *bound <= most && centre != seeker.centre && centre != nearest {
                        list.push(centre);
                    }
                }
            }
            if list.len() > 16 + self.targets.len() / 16 {
                look.given_up = true;
                return;
            }
            squares.resize(list.len(), 0.0);
            let measured = usize::from(nearest != seeker.centre);
            T::distances(
                Level::best(),
                row,
                self.targets.values(),
                &list[measured..],
                &mut squares[measured..],
            );
            self.computed += list.len() as u64;
            for (centre, square) in list.iter().zip(squares) {
                self.rivals.push(Rival { place: place as u32, centre: *centre, square: *square });
                if *square < look.square {
                    *look = Look { centre: *centre, square: *square, given_up: false };
                }
            }
        } else {
            list.clear();
        }
        // Bounds of panels are those of the centres that were not measured; `settle` takes in the others.
        list.push(seeker.centre);
        for centre in list.iter() {
            let Some(at) = (*centre as usize).checked_sub(first).filter(|at| *at < stride) else { continue };
            let panel = at / T::WIDTH;
            lower[at] = f32::INFINITY;
            if minima[panel].is_finite() {
                minima[panel] =
                    lower[panel * T::WIDTH..][..T::WIDTH].iter().fold(f32::INFINITY, |a, b| a.min(*b));
            }
        }
        replace_bounds(Level::best(), minima, base, unit, seeker.reach, known);
    }

    /// Chooses among the measured ones.
    fn settle(
        &mut self,
        rows: Rows<'_, T>,
        seeker: &Seeker,
        look: Look,
        rivals: &[Rival],
        bounds: &mut Bounds,
    ) {
        let count = self.targets.panels_len();
        let (share, more) = self.errors;
        let farthest = |square: f64| square * (1.0 + share) + more;
        let least = |square: f64| (square * (1.0 - share) - more).max(0.0);
        let most = farthest(look.square) + 2.0 * seeker.slack;
        let list = &mut self.found.list;
        list.clear();
        list.extend(rivals.iter().filter(|rival| least(rival.square) <= most).map(|rival| rival.centre));
        let mut nearest = look.centre;
        if list.len() > 1 {
            let scores = &mut self.found.scores;
            scores.resize(list.len(), T::default());
            T::scores_of(
                Level::best(),
                rows.row(seeker.row),
                self.targets.values(),
                self.targets.norms(),
                list,
                scores,
            );
            self.computed += list.len() as u64;
            let mut best = scores[0];
            nearest = list[0];
            for (centre, score) in list.iter().zip(scores) {
                if *score < best || (*score == best && *centre < nearest) {
                    (nearest, best) = (*centre, *score);
                }
            }
        }
        bounds.nearest[seeker.row] = nearest;
        for rival in rivals {
            if rival.centre == nearest {
                bounds.upper[seeker.row] = farthest(rival.square).sqrt() * (1.0 + 1e-12);
            } else {
                let bound = &mut bounds.lower[seeker.row * count + rival.centre as usize / T::WIDTH];
                *bound = bound.min(down(least(rival.square).sqrt()));
            }
        }
    }

    /// Leaves a row to the exact search, which must then look at everything.
    fn leave(&mut self, seeker: &Seeker, bounds: &mut Bounds) {
        let count = self.targets.panels_len();
        bounds.lower[seeker.row * count..][..count].fill(0.0);
        self.left.push(*seeker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::kmeans::bounds::{Step, bounded};
    use crate::clustering::kmeans::lloyd::Centres;
    use crate::clustering::kmeans::points::Memory;
    use crate::kernels::nearest::Panels;
    use qjam::{Dense, Rng};

    const KINDS: [&str; 12] = [
        "noise",
        "clusters",
        "whole numbers with ties",
        "copies of few rows",
        "each row twice",
        "constant rows",
        "mostly zeros",
        "huge",
        "tiny",
        "below the smallest normal number",
        "far from the origin",
        "all scales",
    ];

    fn rows<T: Real>(kind: &str, count: usize, dims: usize) -> Vec<T> {
        let mut random = Rng::keyed(KINDS.iter().position(|k| *k == kind).unwrap() as u64, dims as u64, 0);
        let middles: Vec<f64> = (0..40 * dims).map(|_| random.normal() * 2.0).collect();
        let small = if size_of::<T>() == 4 { 1e-43 } else { 1e-321 };
        let mut values = Vec::<T>::with_capacity(count * dims);
        for i in 0..count {
            let (middle, scale) = (random.below(40) as usize, 10f64.powi(random.below(30) as i32 - 15));
            for p in 0..dims {
                let noise = random.normal();
                values.push(T::from_f64(match kind {
                    "clusters" => middles[middle * dims + p] + noise,
                    "whole numbers with ties" => noise.round(),
                    "copies of few rows" => middles[i % 17 * dims + p],
                    "each row twice" if i % 2 == 1 => values[(i - 1) * dims + p].to_f64(),
                    "constant rows" => (i % 90) as f64,
                    "mostly zeros" if noise.abs() < 1.5 => 0.0,
                    "huge" => noise * 1e16,
                    "tiny" => noise * 1e-20,
                    "below the smallest normal number" => (noise * 4.0).round() * small,
                    "far from the origin" => 3000.0 + noise,
                    "all scales" => noise * scale,
                    _ => noise,
                }));
            }
        }
        values
    }

    fn check<T: Real>() {
        for kind in KINDS {
            for (count, dims, k) in [(300, 64, 64), (500, 101, 150)] {
                let values = rows::<T>(kind, count, dims);
                let mut centres = Centres::new(values[..k * dims].to_vec(), dims).unwrap();
                let chunk = Dense::from_vec(values, dims).unwrap();
                let mut bounds = Bounds::begin(0);
                let mut moved = vec![];
                for iteration in 0..6 {
                    let targets = Targets::new(centres.values(), dims, true);
                    let sums = bounded(&Step::new(targets, moved, false), &chunk, &mut bounds);
                    let mut expected = vec![0; count];
                    let all = Rows::new(chunk.as_slice(), dims, dims);
                    T::nearest(Level::best(), &Panels::new(centres.values(), dims), all, &mut expected);
                    assert_eq!(bounds.nearest, expected, "{kind}, {dims} dimensions, iteration {iteration}");
                    let next = centres.moved_to(&sums);
                    moved = next.distances_to(&centres);
                    centres = next;
                }
            }
        }
    }

    #[test]
    fn few_centres_are_measured_and_the_same_ones_found_in_single_precision() {
        check::<f32>();
    }

    #[test]
    fn few_centres_are_measured_and_the_same_ones_found_in_double_precision() {
        check::<f64>();
    }

    #[test]
    fn rows_too_large_to_have_scores_are_labelled_as_without_screening() {
        let (count, dims, k) = (400, 64, 64);
        let mut values = rows::<f32>("noise", count, dims);
        let targets = Targets::new(&values[..k * dims], dims, true);
        let panels = Panels::new(&values[..k * dims], dims);
        values[200 * dims] = 1e38;
        values[201 * dims..202 * dims].fill(3e38);
        values[202 * dims] = f32::INFINITY;
        values[203 * dims] = f32::NAN;
        values[204 * dims] = 1e25;
        let all = Rows::new(&values, dims, dims);
        let (mut expected, mut found) = (vec![0; count], vec![0; count]);
        f32::nearest(Level::best(), &panels, all, &mut expected);
        targets.nearest(DenseRows(all), &mut found);
        assert_eq!(found, expected);
    }
}
