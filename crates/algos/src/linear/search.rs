//! How far to go: the lowest point of the plane through the last round's change and the step before it.
//!
//! Changes of partitions that did not know of one another add up to a direction that may be too long, or short of what it
//! could be. Where the terms are quadratic (ridge), a few scalars give the lowest point of the plane exactly: that is
//! the method of conjugate gradients with the workers' descent as its preconditioner. Otherwise the workers tell their terms
//! at points that were proposed before, and the lowest one is taken. Staying put is always among them, so no round makes
//! the objective worse, whatever σ' is.

use super::local::Change;
use super::loss::{Plane, Quadratic};
use super::separable::Separable;

/// A point of the plane: how far along the change, and how far along the step before.
pub type Point = (f64, f64);

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Where.
    pub step: Point,
    /// The objective there.
    pub objective: f64,
    /// The sum of the terms there.
    pub terms: f64,
}

/// Looks for the lowest point, and learns where to look next.
#[derive(Clone, Debug)]
pub struct Search {
    centre: Point,
    /// Distance of the proposed points from the centre, in both directions.
    reach: Point,
    /// Whether there is a step before.
    has_before: bool,
}

impl Default for Search {
    fn default() -> Self {
        Search { centre: (1.0, 0.2), reach: (0.25, 0.2), has_before: false }
    }
}

impl Search {
    /// The points at which the workers are to tell their terms.
    pub fn points(&self, terms: &Separable) -> Vec<Point> {
        let mut points = vec![(1.0, 0.0)];
        if terms.is_quadratic() {
            return points;
        }
        points.extend([(0.5, 0.0), (0.2, 0.0)]);
        let (t, s) = self.centre;
        let (dt, ds) = self.reach;
        if self.has_before {
            for i in -1..=1 {
                for j in -1..=1 {
                    points.push((t + f64::from(i) * dt, (s + f64::from(j) * ds).max(0.0)));
                }
            }
        } else {
            points.extend([(t + dt, 0.0), (t - dt, 0.0)]);
        }
        points
    }

    /// The lowest point that is known, seen from the present one with its objective and terms.
    pub fn lowest(
        &mut self,
        plane: &Plane<'_>,
        asked: &[Point],
        change: &Change,
        l2: f64,
        now: Found,
    ) -> Found {
        let stay = Found { step: (0.0, 0.0), ..now };
        let found = if asked.len() == 1 {
            quadratic(plane, change, l2, stay)
        } else {
            let told = asked.iter().zip(&change.points).map(|(step, terms)| Found {
                step: *step,
                objective: plane.at(step.0, step.1) + terms,
                terms: *terms,
            });
            let best =
                told.fold(stay, |best, found| if found.objective < best.objective { found } else { best });
            self.learn(best.step);
            best
        };
        self.has_before = found.step != (0.0, 0.0) || self.has_before;
        found
    }

    /// Looks around the best point next time, farther where it was at the rim.
    fn learn(&mut self, best: Point) {
        if !self.has_before || best == (0.0, 0.0) {
            return;
        }
        let adapt = |centre: &mut f64, reach: &mut f64, best: f64, least: f64, most: f64| {
            let at_rim = (best - *centre).abs() > 0.5 * *reach;
            *reach = if at_rim { (*reach * 1.3).min(most) } else { (*reach * 0.7).max(least) };
            *centre = best;
        };
        adapt(&mut self.centre.0, &mut self.reach.0, best.0, 0.08, 0.5);
        adapt(&mut self.centre.1, &mut self.reach.1, best.1, 0.05, 0.4);
        self.centre.0 = self.centre.0.clamp(0.3, 4.0);
    }
}

/// The exact lowest point, where both parts are quadratic; the best of what can be computed where the loss is not.
fn quadratic(plane: &Plane<'_>, change: &Change, l2: f64, stay: Found) -> Found {
    let [aa, ad, ap, dd, dp, pp] = change.squares;
    let terms =
        Quadratic { value: 0.5 * l2 * aa, slopes: [l2 * ad, l2 * ap], bends: [l2 * dd, l2 * dp, l2 * pp] };
    let near = plane.quadratic().plus(&terms);
    let (t, s) = near.lowest();
    let tried = [(t, s), (1.0, 0.0), (0.5 * t, 0.5 * s)];
    // A loss that is its own quadratic needs no second opinion.
    let tried = if matches!(plane, Plane::Quadratic(_)) { &tried[..2] } else { &tried[..] };
    let at = |step: &Point| {
        let terms = terms.at(step.0, step.1);
        Found { step: *step, objective: plane.at(step.0, step.1) + terms, terms }
    };
    tried.iter().map(at).fold(stay, |best, found| if found.objective < best.objective { found } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Loss;

    #[test]
    fn ridge_goes_to_the_lowest_point_of_the_plane() {
        let loss = Loss::Squares { targets: vec![1.0, 2.0, -1.0] };
        let (v, first, second) = ([0.0; 3], [1.0, 0.5, 0.0], [0.0, 1.0, -2.0]);
        let plane = loss.plane(&v, &first, &second);
        let change = Change {
            change: vec![],
            squares: [0.0, 0.0, 0.0, 2.0, 0.1, 3.0],
            points: vec![],
            conjugates: 0.0,
            steepest: 0.0,
            entries: 0,
            entries_all: 0,
        };
        let now = Found { step: (0.0, 0.0), objective: 3.0, terms: 0.0 };
        let found = Search::default().lowest(&plane, &[(1.0, 0.0)], &change, 0.5, now);
        let value = |(t, s): Point| plane.at(t, s) + 0.25 * (2.0 * t * t + 0.2 * t * s + 3.0 * s * s);
        assert!((value(found.step) - found.objective).abs() < 1e-12);
        for (dt, ds) in [(0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)] {
            assert!(value((found.step.0 + dt, found.step.1 + ds)) > found.objective);
        }
    }

    #[test]
    fn a_step_that_only_hurts_is_not_taken() {
        let loss = Loss::Squares { targets: vec![0.0] };
        let plane = loss.plane(&[0.0], &[5.0], &[0.0]);
        let asked = [(1.0, 0.0), (0.5, 0.0)];
        let change = Change {
            change: vec![],
            squares: [0.0; 6],
            points: vec![1.0, 1.0],
            conjugates: 0.0,
            steepest: 0.0,
            entries: 0,
            entries_all: 0,
        };
        let now = Found { step: (1.0, 0.0), objective: 0.0, terms: 0.0 };
        assert_eq!(Search::default().lowest(&plane, &asked, &change, 0.0, now).step, (0.0, 0.0));
    }
}
