//! The part of an objective that depends on all coordinates together, through the one vector that is exchanged.
//!
//! It lives on the master: `v = A a` has one entry for each row of the data, and workers see nothing of the loss but
//! its gradient at `v` and a bound on its curvature. So they run the same code whatever the loss is.

use crate::kernels::vectors::dot;

/// A smooth function of `v = A a`.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// `½ ‖v − b‖²`.
    Squares {
        /// `b`.
        targets: Vec<f64>,
    },
    /// `Σ ln(1 + exp(−yᵢ vᵢ))` with labels of −1 and 1.
    Logistic {
        /// `y`.
        labels: Vec<f64>,
    },
}

/// `ln(1 + exp(−z))` without overflow.
fn softplus(z: f64) -> f64 {
    if z > 0.0 { (-z).exp().ln_1p() } else { -z + z.exp().ln_1p() }
}

/// `1 / (1 + exp(z))` without overflow.
fn chance(z: f64) -> f64 {
    if z > 0.0 {
        let e = (-z).exp();
        e / (1.0 + e)
    } else {
        1.0 / (1.0 + z.exp())
    }
}

/// `p ln p`, which is 0 at 0.
fn entropy(p: f64) -> f64 {
    if p > 0.0 { p * p.ln() } else { 0.0 }
}

impl Loss {
    /// The loss of support vector machines in the dual: `½ ‖v‖²` over so many features.
    pub fn norm(features: usize) -> Loss {
        Loss::Squares { targets: vec![0.0; features] }
    }

    /// Length of `v`.
    pub fn rows(&self) -> usize {
        match self {
            Loss::Squares { targets } => targets.len(),
            Loss::Logistic { labels } => labels.len(),
        }
    }

    /// No second derivative is larger.
    pub fn curvature(&self) -> f64 {
        match self {
            Loss::Squares { .. } => 1.0,
            Loss::Logistic { .. } => 0.25,
        }
    }

    /// Its value at `v`.
    pub fn value(&self, v: &[f64]) -> f64 {
        match self {
            Loss::Squares { targets } => 0.5 * sum(v.iter().zip(targets).map(|(v, b)| (v - b) * (v - b))),
            Loss::Logistic { labels } => sum(v.iter().zip(labels).map(|(v, y)| softplus(y * v))),
        }
    }

    /// Its gradient at `v`.
    pub fn gradient_into(&self, v: &[f64], gradient: &mut Vec<f64>) {
        gradient.clear();
        match self {
            Loss::Squares { targets } => gradient.extend(v.iter().zip(targets).map(|(v, b)| v - b)),
            Loss::Logistic { labels } => {
                gradient.extend(v.iter().zip(labels).map(|(v, y)| -y * chance(y * v)));
            }
        }
    }

    /// `−f*(scale · u)`, where `u` is a gradient of the loss and `scale` at most 1 unless the loss is of squares. With the
    /// conjugates of the coordinates taken off it is a lower bound of the objective.
    pub fn bound(&self, u: &[f64], scale: f64) -> f64 {
        match self {
            Loss::Squares { targets } => -scale * (0.5 * scale * dot(u, u) + dot(u, targets)),
            Loss::Logistic { labels } => {
                let at = |(u, y): (&f64, &f64)| {
                    let p = (-scale * u * y).clamp(0.0, 1.0);
                    entropy(p) + entropy(1.0 - p)
                };
                -sum(u.iter().zip(labels).map(at))
            }
        }
    }

    /// The scale up to `most` at which [`bound`](Loss::bound) is best, or nearly so.
    pub fn best_scale(&self, u: &[f64], most: f64) -> f64 {
        match self {
            Loss::Squares { targets } => {
                let square = dot(u, u);
                if square > 0.0 { (-dot(u, targets) / square).clamp(0.0, most) } else { 0.0 }
            }
            Loss::Logistic { .. } => most.min(1.0),
        }
    }

    /// Moves all of `v` by what makes the loss least, and says by how much: an intercept that costs nothing. For logistic loss
    /// by Newton's method, which is kept from leaping where the loss is flat.
    pub fn settle(&self, v: &mut [f64]) -> f64 {
        let labels = match self {
            Loss::Squares { targets } => {
                let by = (targets.iter().sum::<f64>() - v.iter().sum::<f64>()) / v.len() as f64;
                v.iter_mut().for_each(|v| *v += by);
                return by;
            }
            Loss::Logistic { labels } => labels,
        };
        let mut moved = 0.0;
        for _ in 0..40 {
            let (mut slope, mut bend) = (0.0, 0.0);
            for (v, y) in v.iter().zip(labels) {
                let p = chance(y * v);
                slope -= y * p;
                bend += p * (1.0 - p);
            }
            let by = (-slope / bend.max(1e-12)).clamp(-2.0, 2.0);
            v.iter_mut().for_each(|v| *v += by);
            moved += by;
            if by.abs() <= 1e-13 * (1.0 + moved.abs()) {
                break;
            }
        }
        moved
    }

    /// The loss in the plane through `v` along two directions.
    pub fn plane<'a>(&'a self, v: &'a [f64], first: &'a [f64], second: &'a [f64]) -> Plane<'a> {
        match self {
            Loss::Squares { targets } => {
                let gradient: Vec<f64> = v.iter().zip(targets).map(|(v, b)| v - b).collect();
                Plane::Quadratic(Quadratic {
                    value: 0.5 * dot(&gradient, &gradient),
                    slopes: [dot(&gradient, first), dot(&gradient, second)],
                    bends: [dot(first, first), dot(first, second), dot(second, second)],
                })
            }
            Loss::Logistic { labels } => Plane::Logistic { labels, v, first, second },
        }
    }
}

/// Adds up in eight chains, as far as the iterator goes.
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut parts = [0.0; 8];
    for (i, term) in terms.enumerate() {
        parts[i & 7] += term;
    }
    parts.iter().sum()
}

/// `value + slopes·(t, s) + ½ (t, s) bends (t, s)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quadratic {
    /// At `(0, 0)`.
    pub value: f64,
    /// First derivatives there.
    pub slopes: [f64; 2],
    /// Second derivatives: along the first, mixed, along the second.
    pub bends: [f64; 3],
}

impl Quadratic {
    /// Its value.
    pub fn at(&self, t: f64, s: f64) -> f64 {
        let [a, b, c] = self.bends;
        self.value + t * (self.slopes[0] + 0.5 * t * a) + s * (self.slopes[1] + 0.5 * s * c) + t * s * b
    }

    /// The sum of two.
    pub fn plus(&self, other: &Quadratic) -> Quadratic {
        let both = |a: f64, b: f64| a + b;
        Quadratic {
            value: both(self.value, other.value),
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
pub enum Plane<'a> {
    /// Six numbers say it all.
    Quadratic(Quadratic),
    /// Computed anew for every point.
    Logistic {
        /// −1 and 1.
        labels: &'a [f64],
        /// The point (0, 0).
        v: &'a [f64],
        /// The direction of `t`.
        first: &'a [f64],
        /// The direction of `s`.
        second: &'a [f64],
    },
}

impl Plane<'_> {
    /// The loss at a point.
    pub fn at(&self, t: f64, s: f64) -> f64 {
        match self {
            Plane::Quadratic(quadratic) => quadratic.at(t, s),
            Plane::Logistic { labels, v, first, second } => {
                sum((0..v.len()).map(|i| softplus(labels[i] * (v[i] + t * first[i] + s * second[i]))))
            }
        }
    }

    /// The quadratic function that agrees with it at `(0, 0)` up to second derivatives.
    pub fn quadratic(&self) -> Quadratic {
        match self {
            Plane::Quadratic(quadratic) => *quadratic,
            Plane::Logistic { labels, v, first, second } => {
                let mut near = Quadratic { value: self.at(0.0, 0.0), ..Quadratic::default() };
                for i in 0..v.len() {
                    let p = chance(labels[i] * v[i]);
                    let (slope, bend) = (-labels[i] * p, p * (1.0 - p));
                    near.slopes[0] += slope * first[i];
                    near.slopes[1] += slope * second[i];
                    near.bends[0] += bend * first[i] * first[i];
                    near.bends[1] += bend * first[i] * second[i];
                    near.bends[2] += bend * second[i] * second[i];
                }
                near
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses() -> [Loss; 2] {
        [Loss::Squares { targets: vec![1.0, -2.0, 0.5] }, Loss::Logistic { labels: vec![1.0, -1.0, 1.0] }]
    }

    const V: [f64; 3] = [0.3, 0.4, -2.0];

    #[test]
    fn gradients_are_those_of_finite_differences() {
        for loss in losses() {
            let mut gradient = vec![];
            loss.gradient_into(&V, &mut gradient);
            for i in 0..3 {
                let moved = |by: f64| {
                    let mut v = V;
                    v[i] += by;
                    loss.value(&v)
                };
                let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((slope - gradient[i]).abs() < 1e-8, "{loss:?} {i}");
            }
        }
    }

    #[test]
    fn bound_at_a_gradient_is_fenchel_and_young() {
        for loss in losses() {
            let mut u = vec![];
            loss.gradient_into(&V, &mut u);
            let expected = loss.value(&V) - dot(&u, &V);
            assert!((loss.bound(&u, 1.0) - expected).abs() < 1e-12, "{loss:?}");
        }
    }

    #[test]
    fn planes_agree_with_the_loss() {
        let (first, second) = ([0.1, -0.2, 0.3], [1.0, 0.5, -0.2]);
        for loss in losses() {
            let plane = loss.plane(&V, &first, &second);
            let (t, s) = (0.7, -0.3);
            let point: Vec<f64> = (0..3).map(|i| V[i] + t * first[i] + s * second[i]).collect();
            assert!((plane.at(t, s) - loss.value(&point)).abs() < 1e-12);
            let small = plane.quadratic().at(1e-3 * t, 1e-3 * s);
            assert!((small - plane.at(1e-3 * t, 1e-3 * s)).abs() < 1e-9, "{loss:?}");
            let (t, s) = plane.quadratic().lowest();
            let lowest = plane.quadratic().at(t, s);
            for (dt, ds) in [(0.1, 0.0), (-0.1, 0.0), (0.0, 0.1), (0.0, -0.1)] {
                assert!(plane.quadratic().at(t + dt, s + ds) > lowest);
            }
        }
    }

    #[test]
    fn settled_losses_have_no_slope() {
        for loss in losses() {
            let (mut v, mut gradient) = (V.to_vec(), vec![]);
            let by = loss.settle(&mut v);
            assert!((v[0] - V[0] - by).abs() < 1e-12);
            loss.gradient_into(&v, &mut gradient);
            assert!(gradient.iter().sum::<f64>().abs() < 1e-12, "{loss:?}");
        }
    }

    #[test]
    fn directions_that_agree_are_one() {
        let loss = &losses()[0];
        let (t, s) = loss.plane(&V, &[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).quadratic().lowest();
        assert!(t.is_finite() && s == 0.0);
    }
}
