//! The search of Moré and Thuente for a step with enough decrease and a flat enough slope.
//!
//! It sees the function along one line, `φ(t) = f(x + t d)`: the caller evaluates the step it is told and hands back
//! value and slope until the answer is not [`Next::Try`]. The interval that must hold an acceptable step is kept as
//! two points, `best` (the lowest value so far) and `other`; new steps come from cubics and parabolas through them.
//!
//! ```text
//!   new ──▶ Try(t) ──advance──▶ Try(t') … ──▶ Accept   both conditions hold
//!                                         ──▶ Tight    interval or step limit exhausted; best may still be an improvement
//! ```
//!
//! A value that is not finite is no point of any curve: the search then stays below half of that step.

/// A step along the line with value and slope there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Distance from the start, in directions.
    pub step: f64,
    /// `φ` there.
    pub value: f64,
    /// `φ'` there.
    pub slope: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Evaluate this step and come back.
    Try(f64),
    /// The step last tried satisfies both conditions.
    Accept,
    /// No better step can be told apart from those tried; the last one is as good as it gets.
    Tight,
}

/// Enough decrease: this fraction of what the slope at the start promises.
const DECREASE: f64 = 1e-3;
/// Flat enough: this fraction of the slope at the start.
pub(super) const FLATNESS: f64 = 0.9;
/// Relative width at which the interval counts as a point.
const WIDTH_MIN: f64 = 0.1;
/// Longest step that is ever tried.
const STEP_MAX: f64 = 1e10;

/// A search under way.
#[derive(Clone, Debug)]
pub struct LineSearch {
    start: Point,
    step: f64,
    step_max: f64,
    flatness: f64,
    /// Lowest value found so far, with the slope towards the minimum.
    best: Point,
    /// The other end of the interval.
    other: Point,
    /// Whether the two enclose a minimum.
    enclosed: bool,
    /// At first the search looks for a step where the value is low and the slope not negative, on a tilted function.
    tilted: bool,
    low: f64,
    high: f64,
    width: f64,
    width_before: f64,
}

impl LineSearch {
    /// Starts at a point with this value and (negative) slope, to try `step` first.
    pub fn new(value: f64, slope: f64, step: f64) -> LineSearch {
        let start = Point { step: 0.0, value, slope };
        LineSearch {
            start,
            step: step.min(STEP_MAX),
            step_max: STEP_MAX,
            flatness: FLATNESS,
            best: start,
            other: start,
            enclosed: false,
            tilted: true,
            low: 0.0,
            high: 5.0 * step,
            width: STEP_MAX,
            width_before: 2.0 * STEP_MAX,
        }
    }

    /// The same, to end only where the slope is this fraction of that at the start.
    pub fn with_flatness(self, flatness: f64) -> LineSearch {
        LineSearch { flatness, ..self }
    }

    /// The step to evaluate.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Takes value and slope at the step last asked for.
    pub fn advance(&mut self, value: f64, slope: f64) -> Next {
        if !(value.is_finite() && slope.is_finite()) {
            return self.retreat();
        }
        let now = Point { step: self.step, value, slope };
        let promised = DECREASE * self.start.slope;
        let enough = value <= self.start.value + now.step * promised;
        if enough && slope.abs() <= self.flatness * -self.start.slope {
            return Next::Accept;
        }
        if self.exhausted() || (now.step >= self.step_max && enough && slope <= promised) {
            return Next::Tight;
        }
        self.tilted &= !(enough && slope >= 0.0);
        self.step = if self.tilted && value <= self.best.value && !enough {
            // The true function is low but not low enough: the tilted one has its minimum nearer.
            self.tilt(promised, -1.0);
            let step =
                self.narrow(Point { value: value - now.step * promised, slope: slope - promised, ..now });
            self.tilt(promised, 1.0);
            step
        } else {
            self.narrow(now)
        };
        self.tighten(now.step);
        Next::Try(self.step)
    }

    fn tilt(&mut self, promised: f64, sign: f64) {
        for point in [&mut self.best, &mut self.other] {
            point.value += sign * point.step * promised;
            point.slope += sign * promised;
        }
    }

    fn exhausted(&self) -> bool {
        self.enclosed
            && (self.step <= self.low
                || self.step >= self.high
                || self.high - self.low <= WIDTH_MIN * self.high)
    }

    fn retreat(&mut self) -> Next {
        let reach = self.step - self.best.step;
        self.step_max = self.best.step + 0.5 * reach;
        self.high = self.high.min(self.step_max);
        let step = self.best.step + 0.25 * reach;
        if step == self.step || step == self.best.step {
            return Next::Tight;
        }
        self.step = step;
        Next::Try(step)
    }

    /// Bounds for the next step, and a bisection when two steps have not shortened the interval by a third.
    fn tighten(&mut self, tried: f64) {
        if self.enclosed {
            let width = (self.other.step - self.best.step).abs();
            if width >= 0.66 * self.width_before {
                self.step = self.best.step + 0.5 * (self.other.step - self.best.step);
            }
            self.width_before = self.width;
            self.width = width;
            self.low = self.best.step.min(self.other.step);
            self.high = self.best.step.max(self.other.step);
        } else {
            self.low = self.step + 1.1 * (self.step - self.best.step);
            self.high = self.step + 4.0 * (self.step - self.best.step);
        }
        if !self.step.is_finite() {
            self.step = 0.5 * (self.best.step + tried);
        }
        self.step = self.step.clamp(0.0, self.step_max);
        if self.exhausted() {
            self.step = self.best.step;
        }
    }

    /// The next step from the interval and the point just found; then the interval shrinks to keep a minimum inside.
    fn narrow(&mut self, now: Point) -> f64 {
        let (best, other) = (self.best, self.other);
        let turned = now.slope * best.slope.signum() < 0.0;
        let step = if now.value > best.value {
            // Higher: a minimum lies between. The cubic if it is nearer to the best point, else halfway to the parabola.
            self.enclosed = true;
            let cubic = cubic_minimum(best, now);
            let parabola = best.step
                + 0.5
                    * (best.slope / ((best.value - now.value) / (now.step - best.step) + best.slope))
                    * (now.step - best.step);
            if (cubic - best.step).abs() < (parabola - best.step).abs() {
                cubic
            } else {
                cubic + 0.5 * (parabola - cubic)
            }
        } else if turned {
            // Lower, and the slope has turned: a minimum lies between. The one farther from the new point.
            self.enclosed = true;
            let (cubic, secant) = (cubic_minimum(now, best), secant(now, best));
            if (cubic - now.step).abs() > (secant - now.step).abs() { cubic } else { secant }
        } else if now.slope.abs() < best.slope.abs() {
            self.flatter(now)
        } else if self.enclosed {
            cubic_minimum(now, other)
        } else if now.step > best.step {
            self.high
        } else {
            self.low
        };
        if now.value > best.value {
            self.other = now;
        } else {
            if turned {
                self.other = best;
            }
            self.best = now;
        }
        step
    }

    /// Lower, same direction, flatter: the minimum lies beyond, if the cubic has one there.
    fn flatter(&self, now: Point) -> f64 {
        let best = self.best;
        let (low, high) = (self.low, self.high.min(self.step_max));
        let cubic = cubic_beyond(best, now).unwrap_or(if now.step > best.step { high } else { low });
        let secant = secant(now, best);
        let cubic_nearer = (cubic - now.step).abs() < (secant - now.step).abs();
        if self.enclosed {
            let step = if cubic_nearer { cubic } else { secant };
            let limit = now.step + 0.66 * (self.other.step - now.step);
            if now.step > best.step { step.min(limit) } else { step.max(limit) }
        } else {
            let step = if cubic_nearer { secant } else { cubic };
            step.max(low).min(high)
        }
    }
}

/// Where the line through the slopes of two points is zero.
fn secant(from: Point, to: Point) -> f64 {
    from.step + from.slope / (from.slope - to.slope) * (to.step - from.step)
}

/// The discriminant of the cubic through two points, scaled against overflow: its middle term and its root.
fn cubic_terms(a: Point, b: Point) -> (f64, f64) {
    let theta = 3.0 * (a.value - b.value) / (b.step - a.step) + a.slope + b.slope;
    let scale = theta.abs().max(a.slope.abs()).max(b.slope.abs());
    let root = ((theta / scale).powi(2) - (a.slope / scale) * (b.slope / scale)).max(0.0).sqrt() * scale;
    (theta, root)
}

/// The minimum of the cubic through two points that enclose one, counted from `from`.
fn cubic_minimum(from: Point, to: Point) -> f64 {
    let (theta, root) = cubic_terms(from, to);
    let root = if to.step < from.step { -root } else { root };
    let ratio = (root - from.slope + theta) / (root - from.slope + root + to.slope);
    from.step + ratio * (to.step - from.step)
}

/// The minimum of the cubic beyond `now`, seen from `best`, if there is one.
fn cubic_beyond(best: Point, now: Point) -> Option<f64> {
    let (theta, root) = cubic_terms(best, now);
    let root = if now.step > best.step { -root } else { root };
    let ratio = (root - now.slope + theta) / (root + (best.slope - now.slope) + root);
    (ratio < 0.0 && root != 0.0).then_some(now.step + ratio * (best.step - now.step))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search and returns the step it ends with and the number of evaluations.
    fn check(function: impl Fn(f64) -> (f64, f64), first: f64) -> (f64, usize, Next) {
        let (value, slope) = function(0.0);
        let mut search = LineSearch::new(value, slope, first);
        for count in 1..=30 {
            let (value, slope) = function(search.step());
            match search.advance(value, slope) {
                Next::Try(step) => assert!(step >= 0.0, "{step}"),
                next => return (search.step(), count, next),
            }
        }
        panic!("no end in 30 evaluations");
    }

    #[test]
    fn a_parabola_is_solved_from_any_first_step() {
        for first in [1e-6, 1e-3, 1.0, 10.0, 1e4, 1e8] {
            let (step, count, next) = check(|t| ((t - 2.0).powi(2), 2.0 * (t - 2.0)), first);
            assert_eq!(next, Next::Accept, "first {first}");
            assert!(step > 0.1 && step < 4.0, "first {first}: {step} after {count}");
        }
    }

    #[test]
    fn a_step_that_already_satisfies_both_conditions_is_taken_at_once() {
        assert_eq!(check(|t| ((t - 1.0).powi(2), 2.0 * (t - 1.0)), 1.0), (1.0, 1, Next::Accept));
    }

    #[test]
    fn values_that_are_not_finite_are_stepped_back_from() {
        // A wall at 1, beyond which the function has no value; its minimum is at 0.5.
        let wall = |t: f64| if t < 1.0 { ((t - 0.5).powi(2), 2.0 * (t - 0.5)) } else { (f64::NAN, f64::NAN) };
        for first in [1.0, 30.0, 1e9] {
            let (step, _, next) = check(wall, first);
            assert_eq!(next, Next::Accept, "first {first}");
            assert!(step > 0.0 && step < 1.0, "{step}");
        }
    }

    #[test]
    fn a_function_without_a_finite_value_ahead_ends_tight() {
        let (value, slope) = (1.0, -1.0);
        let mut search = LineSearch::new(value, slope, 1.0);
        let mut last = Next::Try(1.0);
        for _ in 0..2000 {
            last = search.advance(f64::INFINITY, f64::NAN);
            if last == Next::Tight {
                break;
            }
        }
        assert_eq!(last, Next::Tight);
    }

    #[test]
    fn a_function_that_never_flattens_ends_at_the_longest_step() {
        let (step, _, next) = check(|t| (-t, -1.0), 1.0);
        assert_eq!((step, next), (STEP_MAX, Next::Tight));
    }

    #[test]
    fn wavy_functions_end_with_enough_decrease() {
        let wave = |t: f64| {
            let (a, b) = (0.3, 7.0);
            (
                1.0 - t * (-t).exp() + a * 0.01 * (b * t).sin(),
                -(1.0 - t) * (-t).exp() + a * 0.01 * b * (b * t).cos(),
            )
        };
        let start = wave(0.0);
        for first in [1e-3, 0.1, 1.0, 10.0] {
            let (step, _, next) = check(wave, first);
            assert_eq!(next, Next::Accept, "first {first}");
            assert!(wave(step).0 <= start.0 + DECREASE * step * start.1, "first {first}: {step}");
        }
    }
}
