//! How far to go: the lowest point of the plane through the last round's change and the step before it.
//!
//! Changes of partitions that did not know of one another add up to a direction that may be too long, or short of what it
//! could be. Where the terms are quadratic (ridge), a few scalars give the lowest point of the plane exactly: that is
//! the method of conjugate gradients with the workers' descent as its preconditioner.
//!
//! Otherwise terms have kinks and bounds, and the workers tell what these come to at a dozen points that were proposed with
//! the round. Such terms are convex, so between points they are at most what lies on a straight line; and where no
//! coordinate crosses a kink in between, which near the optimum is the rule, they are exactly that. So the lowest point
//! of the known points' triangles is found, not only the lowest of the points. What the step really came to is told by the
//! next round, and the points are put closer together where the straight lines were too high.
//!
//! Staying put is always possible, so no round makes the objective worse, whatever σ' is.

use super::local::Change;
use super::plane::{Plane, Quadratic};
use super::separable::Separable;

/// A point of the plane: how far along the change, and how far along the step before.
pub type Point = (f64, f64);

/// What a search found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lowest {
    /// Where.
    pub step: Point,
    /// By how much the objective is lower there, at least.
    pub gain: f64,
    /// By how much the terms are larger there, at most.
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
    /// What the last step was believed to gain.
    believed: f64,
}

impl Default for Search {
    fn default() -> Self {
        Search { centre: (1.0, 0.2), reach: (0.25, 0.2), has_before: false, believed: 0.0 }
    }
}

/// Straight lines that are too high by more than this share of a gain are too long.
const TOO_HIGH: f64 = 0.1;
/// A gain below this share of the loss is not seen in values of a loss that is no quadratic function.
const UNSEEN: f64 = 1e-9;

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
            points.extend([(t + dt, 0.0), (t - dt, 0.0), (t + 2.0 * dt, 0.0)]);
        }
        points
    }

    /// The lowest point that is known.
    pub fn lowest(
        &mut self,
        plane: &Plane<'_>,
        loss: f64,
        asked: &[Point],
        change: &Change,
        terms: &Separable,
    ) -> Lowest {
        let squares = squares(change, terms.l2);
        let near = plane.near().plus(&squares);
        let (step, kinks) = match terms.is_quadratic() {
            true => (near.lowest(), 0.0),
            false => lowest_between(&near, asked, &change.points),
        };
        let found = match plane.is_quadratic() {
            true => judged(step, near.at(step.0, step.1) + kinks, squares.at(step.0, step.1) + kinks),
            false => shortened(plane, loss, &squares, step, kinks),
        };
        if !terms.is_quadratic() {
            self.learn(found);
        }
        self.has_before |= found.step != (0.0, 0.0);
        found
    }

    /// The step really made the terms larger by so much less than was believed.
    pub fn told(&mut self, less: f64) {
        if less > TOO_HIGH * (self.believed + less) {
            self.reach.0 = (0.6 * self.reach.0).max(0.04);
            self.reach.1 = (0.6 * self.reach.1).max(0.03);
        }
    }

    /// Looks around the best point next time, farther where it was at the rim.
    fn learn(&mut self, best: Lowest) {
        self.believed = best.gain;
        if !self.has_before || best.step == (0.0, 0.0) {
            return;
        }
        let adapt = |centre: &mut f64, reach: &mut f64, best: f64, most: f64| {
            if (best - *centre).abs() > 0.5 * *reach {
                *reach = (*reach * 1.4).min(most);
            }
            *centre = best;
        };
        adapt(&mut self.centre.0, &mut self.reach.0, best.step.0, 0.6);
        adapt(&mut self.centre.1, &mut self.reach.1, best.step.1, 0.5);
        self.centre.0 = self.centre.0.clamp(0.3, 4.0);
        self.centre.1 = self.centre.1.min(2.0);
    }
}

/// A step of given length, which was the first that was asked for, even if it makes things worse.
pub(in crate::linear) fn fixed(plane: &Plane<'_>, length: f64, change: &Change, terms: &Separable) -> Lowest {
    let kinks = if terms.is_quadratic() { 0.0 } else { change.points[0] };
    let terms = squares(change, terms.l2).at(length, 0.0) + kinks;
    Lowest { step: (length, 0.0), gain: -(plane.difference(length, 0.0) + terms), terms }
}

/// What squares of the coordinates add.
fn squares(change: &Change, l2: f64) -> Quadratic {
    let [ad, ap, dd, dp, pp] = change.squares.map(|square| l2 * square);
    Quadratic { slopes: [ad, ap], bends: [dd, dp, pp] }
}

/// A step that makes the objective larger by `difference` is taken only if that is negative.
fn judged(step: Point, difference: f64, terms: f64) -> Lowest {
    match difference < 0.0 && step.0.is_finite() && step.1.is_finite() {
        true => Lowest { step, gain: -difference, terms },
        false => Lowest::default(),
    }
}

/// Of a step that a quadratic function promises, as much as the loss really rewards.
fn shortened(plane: &Plane<'_>, loss: f64, squares: &Quadratic, (t, s): Point, kinks: f64) -> Lowest {
    let promised = plane.near().at(t, s) + squares.at(t, s) + kinks;
    if promised.abs() < UNSEEN * loss {
        return judged((t, s), promised, squares.at(t, s) + kinks);
    }
    let mut best = Lowest::default();
    for share in [1.0, 0.5, 0.25, 0.1, 0.03] {
        let step = (share * t, share * s);
        // Kinks are convex, and nothing where nothing is moved.
        let terms = squares.at(step.0, step.1) + share * kinks;
        let found = judged(step, plane.difference(step.0, step.1) + terms, terms);
        let is_worse = found.gain < best.gain;
        best = if is_worse { best } else { found };
        if is_worse || found.gain >= -0.5 * promised {
            break;
        }
    }
    best
}

/// The lowest point of a quadratic function and what lies at most between points, and the second of these there.
fn lowest_between(near: &Quadratic, asked: &[Point], kinks: &[f64]) -> (Point, f64) {
    let told = asked.iter().copied().zip(kinks.iter().copied()).filter(|(_, kinks)| kinks.is_finite());
    let corners: Vec<Corner> = std::iter::once(((0.0, 0.0), 0.0))
        .chain(told)
        .map(|(at, kinks)| Corner { at, kinks, value: near.at(at.0, at.1) + kinks })
        .collect();
    let lowest = |best: Corner, corner: Corner| if corner.value < best.value { corner } else { best };
    let start = corners.iter().copied().reduce(lowest).unwrap_or_default();
    let mut best = start;
    for (i, a) in corners.iter().enumerate() {
        for b in &corners[..i] {
            best = lowest_of_triangle(near, [&start, a, b], best);
        }
    }
    (best.at, best.kinks)
}

/// A point, what the kinks come to there, and everything.
#[derive(Clone, Copy, Debug, Default)]
struct Corner {
    at: Point,
    kinks: f64,
    value: f64,
}

/// The lowest point of a triangle, if it is lower than `best`.
fn lowest_of_triangle(near: &Quadratic, [o, a, b]: [&Corner; 3], best: Corner) -> Corner {
    // Seen from `o`, along the sides to `a` and `b`, everything is one quadratic function.
    let ([g, h], [tt, ts, ss]) = (near.slopes, near.bends);
    let slope = (g + tt * o.at.0 + ts * o.at.1, h + ts * o.at.0 + ss * o.at.1);
    let side = |to: &Corner| (to.at.0 - o.at.0, to.at.1 - o.at.1);
    let (x, y) = (side(a), side(b));
    let bend = |x: Point, y: Point| tt * x.0 * y.0 + ts * (x.0 * y.1 + x.1 * y.0) + ss * x.1 * y.1;
    let along = |x: Point, to: &Corner| slope.0 * x.0 + slope.1 * x.1 + (to.kinks - o.kinks);
    let seen = Quadratic { slopes: [along(x, a), along(y, b)], bends: [bend(x, x), bend(x, y), bend(y, y)] };
    let mut best = best;
    let mut try_at = |p: f64, q: f64| {
        let value = o.value + seen.at(p, q);
        if value < best.value {
            let at = (o.at.0 + p * x.0 + q * y.0, o.at.1 + p * x.1 + q * y.1);
            best = Corner { at, kinks: o.kinks + p * (a.kinks - o.kinks) + q * (b.kinks - o.kinks), value };
        }
    };
    let [g, h] = seen.slopes;
    let [aa, ab, bb] = seen.bends;
    let determinant = aa * bb - ab * ab;
    if determinant > 1e-10 * aa * bb {
        let (p, q) = ((h * ab - g * bb) / determinant, (g * ab - h * aa) / determinant);
        if p >= 0.0 && q >= 0.0 && p + q <= 1.0 {
            try_at(p, q);
            return best;
        }
    }
    let share = |slope: f64, bend: f64| if bend > 0.0 { (-slope / bend).clamp(0.0, 1.0) } else { 0.0 };
    try_at(share(g, aa), 0.0);
    try_at(0.0, share(h, bb));
    // From `a` to `b`.
    let p = share(h - g + ab - aa, aa - 2.0 * ab + bb);
    try_at(1.0 - p, p);
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Loss;

    fn change(squares: [f64; 5], points: Vec<f64>) -> Change {
        Change {
            change: vec![].into(),
            constant: 0.0,
            squares,
            points,
            taken: 0.0,
            terms: 0.0,
            conjugates: 0.0,
            steepest: 0.0,
            entries: 0,
            entries_all: 0,
        }
    }

    fn terms(l1: f64, l2: f64) -> Separable {
        Separable { l1, l2, linear: 0.0, lower: f64::NEG_INFINITY, upper: f64::INFINITY }
    }

    fn plane_of<'a>(loss: &'a Loss, v: &'a [f64], first: &'a [f64], second: &'a [f64]) -> Plane<'a> {
        let (mut gradient, mut bends) = (vec![], vec![]);
        loss.gradient_into(v, &mut gradient);
        loss.bends_into(v, &mut bends);
        Plane::new(loss, v, &gradient, &bends, first, second)
    }

    #[test]
    fn ridge_goes_to_the_lowest_point_of_the_plane() {
        let loss = Loss::Squares { targets: vec![1.0, 2.0, -1.0] };
        let plane = plane_of(&loss, &[0.0; 3], &[1.0, 0.5, 0.0], &[0.0, 1.0, -2.0]);
        let change = change([0.0, 0.0, 2.0, 0.1, 3.0], vec![]);
        let found = Search::default().lowest(&plane, 3.0, &[(1.0, 0.0)], &change, &terms(0.0, 0.5));
        let value = |(t, s): Point| plane.difference(t, s) + 0.25 * (2.0 * t * t + 0.2 * t * s + 3.0 * s * s);
        assert!((value(found.step) + found.gain).abs() < 1e-12);
        for (dt, ds) in [(0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)] {
            assert!(value((found.step.0 + dt, found.step.1 + ds)) > -found.gain);
        }
    }

    #[test]
    fn lasso_goes_to_the_lowest_point_between_the_points_that_are_known() {
        // Two coordinates far from their kinks: what they cost is a plane, and all is known exactly.
        let loss = Loss::Squares { targets: vec![1.0, 2.0, -1.0] };
        let plane = plane_of(&loss, &[0.0; 3], &[1.0, 0.5, 0.0], &[0.0, 1.0, -2.0]);
        let kinks = |(t, s): Point| 0.3 * t - 0.1 * s;
        let search = Search { has_before: true, centre: (0.9, 0.5), reach: (0.5, 0.4), believed: 0.0 };
        let asked = search.points(&terms(0.3, 0.0));
        let change = change([0.0; 5], asked.iter().copied().map(kinks).collect());
        let found = search.clone().lowest(&plane, 3.0, &asked, &change, &terms(0.3, 0.0));
        let value = |at: Point| plane.difference(at.0, at.1) + kinks(at);
        assert!((value(found.step) + found.gain).abs() < 1e-12);
        assert!((found.terms - kinks(found.step)).abs() < 1e-12);
        for (dt, ds) in [(0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)] {
            assert!(value((found.step.0 + dt, found.step.1 + ds)) > -found.gain);
        }
    }

    #[test]
    fn nothing_is_promised_that_is_not_so() {
        let mut random = qjam::Rng::keyed(5, 0, 0);
        let loss = Loss::Squares { targets: vec![1.0, 2.0, -1.0] };
        for _ in 0..200 {
            let mut vector = || [random.normal(), random.normal(), random.normal()];
            let (first, second, a, d, p) = (vector(), vector(), vector(), vector(), vector());
            let a = a.map(|a| a.clamp(-2.0, 1.5));
            let plane = plane_of(&loss, &[0.0; 3], &first, &second);
            let net = Separable { lower: -2.0, upper: 1.5, ..terms(0.8, 0.1) };
            let kinks = |(t, s): Point| -> f64 {
                (0..3).map(|j| net.kinks(a[j], t * d[j] + s * p[j], a[j] + t * d[j] + s * p[j])).sum()
            };
            let dot = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let squares = [dot(&a, &d), dot(&a, &p), dot(&d, &d), dot(&d, &p), dot(&p, &p)];
            let mut search = Search { has_before: true, ..Search::default() };
            let asked = search.points(&net);
            let change = change(squares, asked.iter().copied().map(kinks).collect());
            let found = search.lowest(&plane, 3.0, &asked, &change, &net);
            let (t, s) = found.step;
            let terms = super::squares(&change, net.l2).at(t, s) + kinks(found.step);
            assert!(terms <= found.terms + 1e-12, "{terms} and {}", found.terms);
            assert!(plane.difference(t, s) + terms <= 1e-12 - found.gain);
            let at_points = asked.iter().zip(&change.points).map(|(at, kinks)| {
                plane.difference(at.0, at.1) + super::squares(&change, net.l2).at(at.0, at.1) + kinks
            });
            assert!(at_points.fold(f64::INFINITY, f64::min) >= -found.gain - 1e-12);
        }
    }

    #[test]
    fn a_step_that_only_hurts_is_not_taken() {
        let loss = Loss::Squares { targets: vec![0.0] };
        let plane = plane_of(&loss, &[0.0], &[5.0], &[0.0]);
        let asked = [(1.0, 0.0), (0.5, 0.0)];
        let change = change([0.0; 5], vec![1.0, 1.0]);
        let found = Search::default().lowest(&plane, 0.0, &asked, &change, &terms(1.0, 0.0));
        assert_eq!(found, Lowest::default());
        assert_eq!(fixed(&plane, 1.0, &change, &terms(1.0, 0.0)).gain, -13.5);
    }

    #[test]
    fn a_loss_that_bends_less_farther_on_is_not_overshot() {
        let loss = Loss::Logistic { labels: vec![1.0, 1.0, -1.0] };
        let v = [-6.0, -5.0, 7.0];
        let plane = plane_of(&loss, &v, &[30.0, 20.0, -25.0], &[0.0; 3]);
        let change = change([0.0, 0.0, 1.0, 0.0, 0.0], vec![]);
        let found =
            Search::default().lowest(&plane, loss.value(&v), &[(1.0, 0.0)], &change, &terms(0.0, 1e-3));
        assert!(found.gain > 0.0 && found.step.0 > 0.0);
    }
}
