//! A loss seen in a plane: from the present point along the last round's change and along the step before it.
//!
//! All is told as a *difference* from the present point. Near the optimum a step gains far less than the last digit of the
//! objective; as a difference it is still known to many digits, and a search goes on where values would all be equal.

use super::loss::Loss;
use crate::kernels::{Level, per_level};

/// `slopes·(t, s) + ½ (t, s) bends (t, s)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quadratic {
    /// First derivatives at `(0, 0)`.
    pub slopes: [f64; 2],
    /// Second derivatives: along the first, mixed, along the second.
    pub bends: [f64; 3],
}

impl Quadratic {
    /// Its value.
    pub fn at(&self, t: f64, s: f64) -> f64 {
        let [a, b, c] = self.bends;
        t * (self.slopes[0] + 0.5 * t * a) + s * (self.slopes[1] + 0.5 * s * c) + t * s * b
    }

    /// The sum of two.
    pub fn plus(&self, other: &Quadratic) -> Quadratic {
        Quadratic {
            slopes: std::array::from_fn(|i| self.slopes[i] + other.slopes[i]),
            bends: std::array::from_fn(|i| self.bends[i] + other.bends[i]),
        }
    }

    /// Where it is lowest; along the first direction alone where the second adds nothing new.
    pub fn lowest(&self) -> (f64, f64) {
        let ([g, h], [a, b, c]) = (self.slopes, self.bends);
        let determinant = a * c - b * b;
        if determinant > 1e-10 * a * c {
            return ((h * b - g * c) / determinant, (g * b - h * a) / determinant);
        }
        if a > 0.0 { (-g / a, 0.0) } else { (0.0, 0.0) }
    }
}

/// A loss in a plane.
pub struct Plane<'a> {
    loss: &'a Loss,
    /// The point (0, 0), and the directions of `t` and `s`.
    v: &'a [f64],
    first: &'a [f64],
    second: &'a [f64],
    /// What agrees with it at (0, 0) up to second derivatives.
    near: Quadratic,
}

impl<'a> Plane<'a> {
    /// The plane through `v`, where the gradient is `gradient`, along two directions. `bends` are the second derivatives
    /// there, one for each row; none if they are all 1.
    pub fn new(
        loss: &'a Loss,
        v: &'a [f64],
        gradient: &[f64],
        bends: &[f64],
        first: &'a [f64],
        second: &'a [f64],
    ) -> Plane<'a> {
        let mut sums = [0.0; 5];
        match bends.is_empty() {
            true => products(Level::best(), gradient, first, second, &mut sums),
            false => products_weighted(Level::best(), gradient, bends, first, second, &mut sums),
        }
        let [g, h, a, b, c] = sums;
        Plane { loss, v, first, second, near: Quadratic { slopes: [g, h], bends: [a, b, c] } }
    }

    /// The quadratic function that agrees with it up to second derivatives.
    pub fn near(&self) -> Quadratic {
        self.near
    }

    /// Whether that is all there is to it.
    pub fn is_quadratic(&self) -> bool {
        self.loss.is_quadratic()
    }

    /// By how much the loss is larger at a point than at `(0, 0)`.
    pub fn difference(&self, t: f64, s: f64) -> f64 {
        match self.loss.is_quadratic() {
            true => self.near.at(t, s),
            false => self.loss.difference(self.v, |i| t * self.first[i] + s * self.second[i]),
        }
    }
}

/// Takes a step: `before = t change + s before`, and `product` goes along.
pub(in crate::linear) fn advance(
    product: &mut [f64],
    before: &mut [f64],
    change: &[f64],
    (t, s): (f64, f64),
) {
    advance_at(Level::best(), product, before, change, t, s);
}

per_level! { fn advance_at(product: &mut [f64], before: &mut [f64], change: &[f64], t: f64, s: f64) = advance_body }

#[inline(always)]
fn advance_body(product: &mut [f64], before: &mut [f64], change: &[f64], t: f64, s: f64) {
    for ((product, before), change) in product.iter_mut().zip(before).zip(change) {
        *before = t * change + s * *before;
        *product += *before;
    }
}

/// Sums of a product in so many chains, as `kernels::vectors` has them.
const PARTS: usize = 16;

per_level! { pub(in crate::linear) fn products(g: &[f64], first: &[f64], second: &[f64], sums: &mut [f64; 5]) = products_body }
per_level! { fn products_weighted(g: &[f64], bends: &[f64], first: &[f64], second: &[f64], sums: &mut [f64; 5]) = products_weighted_body }

/// `g·first, g·second, first·first, first·second, second·second`, in one pass over memory.
#[inline(always)]
fn products_body(g: &[f64], first: &[f64], second: &[f64], sums: &mut [f64; 5]) {
    let len = g.len().min(first.len()).min(second.len());
    let (g, g_rest) = g[..len].as_chunks::<PARTS>();
    let (first, first_rest) = first[..len].as_chunks::<PARTS>();
    let (second, second_rest) = second[..len].as_chunks::<PARTS>();
    let mut parts = [[0.0; PARTS]; 5];
    for ((g, x), y) in g.iter().zip(first).zip(second) {
        for i in 0..PARTS {
            parts[0][i] += g[i] * x[i];
            parts[1][i] += g[i] * y[i];
            parts[2][i] += x[i] * x[i];
            parts[3][i] += x[i] * y[i];
            parts[4][i] += y[i] * y[i];
        }
    }
    for (i, ((g, x), y)) in g_rest.iter().zip(first_rest).zip(second_rest).enumerate() {
        parts[0][i] += g * x;
        parts[1][i] += g * y;
        parts[2][i] += x * x;
        parts[3][i] += x * y;
        parts[4][i] += y * y;
    }
    *sums = parts.map(|parts| parts.iter().sum());
}

/// The same with a weight for each row in the last three.
#[inline(always)]
fn products_weighted_body(g: &[f64], bends: &[f64], first: &[f64], second: &[f64], sums: &mut [f64; 5]) {
    let len = g.len().min(bends.len()).min(first.len()).min(second.len());
    let (g, g_rest) = g[..len].as_chunks::<PARTS>();
    let (bends, bends_rest) = bends[..len].as_chunks::<PARTS>();
    let (first, first_rest) = first[..len].as_chunks::<PARTS>();
    let (second, second_rest) = second[..len].as_chunks::<PARTS>();
    let mut parts = [[0.0; PARTS]; 5];
    for (((g, d), x), y) in g.iter().zip(bends).zip(first).zip(second) {
        for i in 0..PARTS {
            parts[0][i] += g[i] * x[i];
            parts[1][i] += g[i] * y[i];
            parts[2][i] += d[i] * x[i] * x[i];
            parts[3][i] += d[i] * x[i] * y[i];
            parts[4][i] += d[i] * y[i] * y[i];
        }
    }
    for (i, (((g, d), x), y)) in g_rest.iter().zip(bends_rest).zip(first_rest).zip(second_rest).enumerate() {
        parts[0][i] += g * x;
        parts[1][i] += g * y;
        parts[2][i] += d * x * x;
        parts[3][i] += d * x * y;
        parts[4][i] += d * y * y;
    }
    *sums = parts.map(|parts| parts.iter().sum());
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: [f64; 3] = [0.3, 0.4, -2.0];

    fn losses() -> [Loss; 3] {
        [
            Loss::Squares { targets: vec![1.0, -2.0, 0.5] },
            Loss::WeightedSquares { targets: vec![1.0, -2.0, 0.5], weights: vec![2.0, 0.0, 0.5] },
            Loss::Logistic { labels: vec![1.0, -2.0, 0.5] },
        ]
    }

    fn with_plane<R>(loss: &Loss, first: &[f64], second: &[f64], then: impl FnOnce(&Plane<'_>) -> R) -> R {
        let (mut gradient, mut bends) = (vec![], vec![]);
        loss.gradient_into(&V, &mut gradient);
        loss.bends_into(&V, &mut bends);
        then(&Plane::new(loss, &V, &gradient, &bends, first, second))
    }

    #[test]
    fn planes_agree_with_the_loss() {
        let (first, second) = ([0.1, -0.2, 0.3], [1.0, 0.5, -0.2]);
        for loss in losses() {
            with_plane(&loss, &first, &second, |plane| {
                let (t, s) = (0.7, -0.3);
                let point: Vec<f64> = (0..3).map(|i| V[i] + t * first[i] + s * second[i]).collect();
                let expected = loss.value(&point) - loss.value(&V);
                assert!((plane.difference(t, s) - expected).abs() < 1e-12, "{loss:?}");
                let small = plane.near().at(1e-3 * t, 1e-3 * s);
                assert!((small - plane.difference(1e-3 * t, 1e-3 * s)).abs() < 1e-9, "{loss:?}");
                let (t, s) = plane.near().lowest();
                let lowest = plane.near().at(t, s);
                for (dt, ds) in [(0.1, 0.0), (-0.1, 0.0), (0.0, 0.1), (0.0, -0.1)] {
                    assert!(plane.near().at(t + dt, s + ds) > lowest, "{loss:?}");
                }
            });
        }
    }

    #[test]
    fn directions_that_agree_are_one() {
        let (t, s) =
            with_plane(&losses()[0], &[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0], |plane| plane.near().lowest());
        assert!(t.is_finite() && s == 0.0);
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let mut random = qjam::Rng::keyed(4, 0, 0);
        let mut vector = |len: usize| -> Vec<f64> { (0..len).map(|_| random.normal()).collect() };
        for len in [0, 5, 16, 37] {
            let (g, d, x, y) = (vector(len), vector(len), vector(len), vector(len));
            let at = |level| {
                let (mut plain, mut weighted) = ([0.0; 5], [0.0; 5]);
                products(level, &g, &x, &y, &mut plain);
                products_weighted(level, &g, &d, &x, &y, &mut weighted);
                plain.iter().chain(&weighted).map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            let expected = at(Level::named("plain").unwrap());
            assert!(Level::available().into_iter().all(|level| at(level) == expected));
        }
    }
}
