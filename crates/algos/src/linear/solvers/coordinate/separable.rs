//! The part of an objective that every coordinate has for itself.
//!
//! Ridge, lasso, elastic net and the duals of both support vector machines differ in this function alone:
//!
//! `g(a) = l2/2 a² + l1 |a| − linear · a` for `lower ≤ a ≤ upper`.

use crate::linear::scaling::Penalty;

/// What one coordinate adds to the objective.
#[derive(Clone, Copy, Debug, PartialEq, qjam::Wire)]
pub struct Separable {
    /// Weight of `|a|`.
    pub l1: f64,
    /// Weight of `a²/2`.
    pub l2: f64,
    /// Reward of `a`.
    pub linear: f64,
    /// Least value allowed.
    pub lower: f64,
    /// Greatest value allowed.
    pub upper: f64,
}

impl From<Penalty> for Separable {
    fn from(penalty: Penalty) -> Self {
        Separable {
            l1: penalty.l1(),
            l2: penalty.l2(),
            linear: 0.0,
            lower: f64::NEG_INFINITY,
            upper: f64::INFINITY,
        }
    }
}

/// `z` drawn towards 0 by `by`.
#[inline(always)]
fn soft(z: f64, by: f64) -> f64 {
    if z > by {
        z - by
    } else if z < -by {
        z + by
    } else {
        0.0
    }
}

impl Separable {
    /// The dual of the hinge loss: `½‖w‖² + C Σ max(0, 1 − yᵢ xᵢ·w)`.
    pub fn hinge(c: f64) -> Self {
        Separable { l1: 0.0, l2: 0.0, linear: 1.0, lower: 0.0, upper: c }
    }

    /// The dual of the squared hinge loss: `½‖w‖² + C Σ max(0, 1 − yᵢ xᵢ·w)²`.
    pub fn squared_hinge(c: f64) -> Self {
        Separable { l1: 0.0, l2: 0.5 / c, linear: 1.0, lower: 0.0, upper: f64::INFINITY }
    }

    /// Whether it is `l2/2 a²` and nothing else.
    pub fn is_quadratic(&self) -> bool {
        self.l1 == 0.0 && self.linear == 0.0 && self.lower == f64::NEG_INFINITY && self.upper == f64::INFINITY
    }

    /// `g(a)`, infinite where `a` is not allowed.
    #[inline(always)]
    pub fn value(&self, a: f64) -> f64 {
        if a < self.lower || a > self.upper {
            return f64::INFINITY;
        }
        0.5 * self.l2 * a * a + self.l1 * a.abs() - self.linear * a
    }

    /// Where a coordinate at `a` is after `along` and `again`. What only rounding keeps off 0 or puts beyond a bound is there.
    #[inline(always)]
    pub fn stepped(&self, a: f64, along: f64, again: f64) -> f64 {
        let to = a + (along + again);
        let rounding = 8.0 * f64::EPSILON * (a.abs() + along.abs() + again.abs());
        let to = if to.abs() <= rounding { 0.0 } else { to };
        // No branches: this is done for many coordinates at a time.
        let (over, under) = (to - self.upper, self.lower - to);
        let to = if (over > 0.0) & (over <= rounding) { self.upper } else { to };
        if (under > 0.0) & (under <= rounding) { self.lower } else { to }
    }

    /// By how much `l1 |a| − linear · a` is larger `by` farther, which is at `to` but for rounding. Where no kink is in between
    /// that is known to as many digits as `by` is, however small.
    #[inline(always)]
    pub fn kinks(&self, a: f64, by: f64, to: f64) -> f64 {
        let (above, below) = ((a > 0.0) & (to > 0.0), (a < 0.0) & (to < 0.0));
        let size = if above { by } else { to.abs() - a.abs() };
        let size = if below { -by } else { size };
        let more = self.l1 * size - self.linear * by;
        if (to < self.lower) | (to > self.upper) { f64::INFINITY } else { more }
    }

    /// The `u` that minimises `slope · (u − a) + bend/2 (u − a)² + g(u)`.
    #[inline(always)]
    pub fn step(&self, a: f64, slope: f64, bend: f64) -> f64 {
        let pull = bend * a - slope + self.linear;
        self.clip(soft(pull, self.l1), bend + self.l2)
    }

    /// The allowed value nearest to `pull / bend`, where `bend` may be 0.
    #[inline(always)]
    fn clip(&self, pull: f64, bend: f64) -> f64 {
        // Nothing pulls: nothing moves, whatever 0/0 may be.
        let to = if pull == 0.0 { 0.0 } else { pull / bend };
        to.max(self.lower).min(self.upper)
    }

    /// The conjugate `g*(s) = sup_a (s a − g(a))`; infinite where lasso's is.
    #[inline(always)]
    pub fn conjugate(&self, s: f64) -> f64 {
        let pull = s + self.linear;
        let at = self.clip(soft(pull, self.l1), self.l2);
        if at == 0.0 {
            return 0.0;
        }
        if at.is_infinite() {
            return f64::INFINITY;
        }
        pull * at - self.l1 * at.abs() - 0.5 * self.l2 * at * at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Separable> {
        let net = Separable { l1: 0.7, l2: 0.4, ..Separable::from(penalty()) };
        vec![
            net,
            Separable { l1: 0.0, ..net },
            Separable { l2: 0.0, ..net },
            Separable::hinge(1.5),
            Separable::squared_hinge(1.5),
        ]
    }

    fn penalty() -> Penalty {
        Penalty::elastic_net(1.0, 0.5, crate::linear::Scaling::HalfSum, 1).unwrap()
    }

    fn grid() -> impl Iterator<Item = f64> {
        (-8000..=8000).map(|i| f64::from(i) / 1000.0)
    }

    #[test]
    fn steps_find_the_lowest_point_of_a_grid() {
        for g in all() {
            for (a, slope, bend) in [(0.0, 1.0, 1.0), (0.5, -2.0, 0.8), (1.0, 0.1, 3.0), (0.2, -0.3, 1.0)] {
                let at = |u: f64| slope * (u - a) + 0.5 * bend * (u - a) * (u - a) + g.value(u);
                let found = g.step(a, slope, bend);
                let lowest = grid().map(at).fold(f64::INFINITY, f64::min);
                assert!(at(found) <= lowest + 1e-12, "{g:?} {a} {slope} {bend}: {found}");
            }
        }
    }

    #[test]
    fn conjugates_are_the_highest_point_of_a_grid() {
        for g in all() {
            for s in [-0.69, -0.3, 0.0, 0.2, 0.65] {
                let highest = grid().map(|a| s * a - g.value(a)).fold(f64::NEG_INFINITY, f64::max);
                assert!((g.conjugate(s) - highest).abs() < 1e-6, "{g:?} {s}: {} {highest}", g.conjugate(s));
            }
        }
        let lasso = Separable { l2: 0.0, l1: 0.7, ..Separable::from(penalty()) };
        assert_eq!(lasso.conjugate(0.71), f64::INFINITY);
        // The conjugate of a dual of the hinge is the hinge.
        assert_eq!(Separable::hinge(2.0).conjugate(-0.25), 1.5);
        assert_eq!(Separable::hinge(2.0).conjugate(-3.0), 0.0);
        assert_eq!(Separable::squared_hinge(2.0).conjugate(0.5), 4.5);
    }

    #[test]
    fn kinks_are_differences_of_values() {
        for g in all() {
            let smooth = Separable { l2: 0.0, ..g };
            for (a, by) in [(0.2, 0.3), (0.2, -0.1), (0.5, -0.5), (0.0, 0.7), (0.4, 2.5)] {
                let expected = smooth.value(a + by) - smooth.value(a);
                let found = g.kinks(a, by, a + by);
                assert!(found == expected || (found - expected).abs() < 1e-14, "{g:?} {a} {by}: {found}");
            }
            assert_eq!(g.kinks(0.2, 1e-30, 0.2), (g.l1 - g.linear) * 1e-30);
        }
    }

    #[test]
    fn rounding_keeps_nobody_off_where_they_belong() {
        let hinge = Separable::hinge(0.3);
        assert_eq!(hinge.stepped(0.1, 0.2, 0.0), 0.3);
        assert_eq!(all()[0].stepped(0.3, -0.1, -0.2), 0.0);
        assert_eq!(all()[0].stepped(0.3, -0.1, 0.0), 0.3 - 0.1);
        assert_eq!(hinge.value(hinge.stepped(0.1, 0.3, 0.0)), f64::INFINITY);
    }

    #[test]
    fn columns_of_zeros_stay_where_they_cost_least() {
        assert_eq!(Separable { l2: 0.0, ..all()[0] }.step(0.0, 0.0, 0.0), 0.0);
        assert_eq!(Separable { l1: 0.0, l2: 0.0, ..all()[0] }.step(0.0, 0.0, 0.0), 0.0);
        assert_eq!(Separable::hinge(1.5).step(0.0, 0.0, 0.0), 1.5);
    }
}
