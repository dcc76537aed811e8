//! The part of an objective that depends on all coordinates together, through the one vector that is exchanged.
//!
//! It lives on the master: `v = A a` has one entry for each row of the data, and workers see nothing of the loss but
//! its gradient at `v` and how it bends there. So they run the same code whatever the loss is. Exponentials and logarithms
//! are those of [`elementwise`], since the system's have other last digits on another system.

use crate::kernels::vectors::dot;
use crate::kernels::{Level, elementwise};

/// A smooth function of `v = A a`.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// `½ ‖v − b‖²`.
    Squares {
        /// `b`.
        targets: Vec<f64>,
    },
    /// `½ Σ cᵢ (vᵢ − bᵢ)²`.
    WeightedSquares {
        /// `b`.
        targets: Vec<f64>,
        /// `c`, none of which is negative.
        weights: Vec<f64>,
    },
    /// `Σ |yᵢ| ln(1 + exp(−sign(yᵢ) vᵢ))`: labels of −1 and 1, each times the weight of its row.
    Logistic {
        /// `y`.
        labels: Vec<f64>,
    },
}

/// Values that are worked on at a time, while they are in the cache.
const BLOCK: usize = 256;

/// Hands `f(i)` for all `i < len` through a function of whole slices, and on to `to`.
fn through(
    len: usize,
    f: impl Fn(usize) -> f64,
    function: fn(Level, &mut [f64]),
    mut to: impl FnMut(usize, f64),
) {
    let (level, mut block) = (Level::best(), [0.0; BLOCK]);
    for start in (0..len).step_by(BLOCK) {
        let block = &mut block[..BLOCK.min(len - start)];
        block.iter_mut().enumerate().for_each(|(i, value)| *value = f(start + i));
        function(level, block);
        block.iter().enumerate().for_each(|(i, value)| to(start + i, *value));
    }
}

/// Sums in eight chains.
#[derive(Default)]
struct Chains([f64; 8]);

impl Chains {
    #[inline(always)]
    fn add(&mut self, i: usize, term: f64) {
        self.0[i & 7] += term;
    }

    fn sum(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// Adds up in eight chains, as far as the iterator goes.
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut chains = Chains::default();
    terms.enumerate().for_each(|(i, term)| chains.add(i, term));
    chains.sum()
}

/// −1, 0 or 1.
#[inline(always)]
fn sign(y: f64) -> f64 {
    f64::from(i8::from(y > 0.0) - i8::from(y < 0.0))
}

/// Hands the chance of the other class to `to`, for every row.
fn chances(labels: &[f64], v: impl Fn(usize) -> f64, to: impl FnMut(usize, f64)) {
    through(labels.len(), |i| -sign(labels[i]) * v(i), elementwise::sigmoid, to);
}

impl Loss {
    /// The loss of support vector machines in the dual: `½ ‖v‖²` over so many features.
    pub fn norm(features: usize) -> Loss {
        Loss::Squares { targets: vec![0.0; features] }
    }

    /// Length of `v`.
    pub fn rows(&self) -> usize {
        match self {
            Loss::Squares { targets } | Loss::WeightedSquares { targets, .. } => targets.len(),
            Loss::Logistic { labels } => labels.len(),
        }
    }

    /// Whether it is a quadratic function.
    pub fn is_quadratic(&self) -> bool {
        !matches!(self, Loss::Logistic { .. })
    }

    /// Its value at `v`.
    pub fn value(&self, v: &[f64]) -> f64 {
        match self {
            Loss::Squares { targets } => 0.5 * sum(v.iter().zip(targets).map(|(v, b)| (v - b) * (v - b))),
            Loss::WeightedSquares { targets, weights } => {
                0.5 * sum(v.iter().zip(targets).zip(weights).map(|((v, b), c)| c * ((v - b) * (v - b))))
            }
            Loss::Logistic { labels } => {
                let mut total = Chains::default();
                let losses = |i: usize| -sign(labels[i]) * v[i];
                through(v.len(), losses, elementwise::softplus, |i, loss| {
                    total.add(i, labels[i].abs() * loss);
                });
                total.sum()
            }
        }
    }

    /// By how much it is larger at `v + by` than at `v`.
    pub(in crate::linear) fn difference(&self, v: &[f64], by: impl Fn(usize) -> f64) -> f64 {
        match self {
            Loss::Squares { targets } => sum((0..v.len()).map(|i| by(i) * (v[i] - targets[i] + 0.5 * by(i)))),
            Loss::WeightedSquares { targets, weights } => {
                sum((0..v.len()).map(|i| weights[i] * (by(i) * (v[i] - targets[i] + 0.5 * by(i)))))
            }
            Loss::Logistic { labels } => {
                let (mut total, mut then) = (Chains::default(), vec![0.0; v.len()]);
                let at = |i: usize| -sign(labels[i]) * (v[i] + by(i));
                through(v.len(), at, elementwise::softplus, |i, loss| then[i] = loss);
                let at = |i: usize| -sign(labels[i]) * v[i];
                through(v.len(), at, elementwise::softplus, |i, loss| {
                    total.add(i, labels[i].abs() * (then[i] - loss));
                });
                total.sum()
            }
        }
    }

    /// Value, gradient and second derivatives at `v`.
    pub(in crate::linear) fn survey(&self, v: &[f64], gradient: &mut Vec<f64>, bends: &mut Vec<f64>) -> f64 {
        self.bends_into(v, bends);
        match self {
            Loss::Squares { targets } => {
                let mut square = 0.0;
                gradient.resize(v.len(), 0.0);
                residual(Level::best(), v, targets, gradient, &mut square);
                0.5 * square
            }
            _ => {
                self.gradient_into(v, gradient);
                self.value(v)
            }
        }
    }

    /// Its gradient at `v`.
    pub fn gradient_into(&self, v: &[f64], gradient: &mut Vec<f64>) {
        gradient.clear();
        match self {
            Loss::Squares { targets } => gradient.extend(v.iter().zip(targets).map(|(v, b)| v - b)),
            Loss::WeightedSquares { targets, weights } => {
                gradient.extend(v.iter().zip(targets).zip(weights).map(|((v, b), c)| c * (v - b)));
            }
            Loss::Logistic { labels } => {
                chances(labels, |i| v[i], |i, p| gradient.push(-labels[i] * p));
            }
        }
    }

    /// Its second derivatives at `v`, one for each row; none where they are all 1. Where logistic loss hardly bends they are a
    /// little more: a step that follows them alone would be far too long.
    pub fn bends_into(&self, v: &[f64], bends: &mut Vec<f64>) {
        bends.clear();
        match self {
            Loss::Squares { .. } => {}
            Loss::WeightedSquares { weights, .. } => bends.extend_from_slice(weights),
            Loss::Logistic { labels } => {
                chances(
                    labels,
                    |i| v[i],
                    |i, p| {
                        bends.push(labels[i].abs() * (p * (1.0 - p)).max(0.1 * (p - 0.5)).max(1e-6));
                    },
                );
            }
        }
    }

    /// `−f*(scale · u)`, where `u` is a gradient of the loss and `scale` at most 1 unless the loss is of squares. With the
    /// conjugates of the coordinates taken off it is a lower bound of the objective.
    pub fn bound(&self, u: &[f64], scale: f64) -> f64 {
        match self {
            Loss::Squares { targets } => -scale * (0.5 * scale * dot(u, u) + dot(u, targets)),
            Loss::WeightedSquares { targets, weights } => {
                -scale * (0.5 * scale * over(u, weights) + dot(u, targets))
            }
            Loss::Logistic { labels } => {
                let share = |i: usize| match labels[i] == 0.0 {
                    true => 0.0,
                    false => (-scale * u[i] / labels[i]).clamp(0.0, 1.0),
                };
                // `p ln p` is 0 at 0, and so is what is nearest to it here.
                let (mut total, least) = (Chains::default(), f64::MIN_POSITIVE);
                through(
                    u.len(),
                    |i| share(i).max(least),
                    elementwise::log,
                    |i, log| {
                        total.add(i, labels[i].abs() * (share(i) * log));
                    },
                );
                through(
                    u.len(),
                    |i| (1.0 - share(i)).max(least),
                    elementwise::log,
                    |i, log| {
                        total.add(i, labels[i].abs() * ((1.0 - share(i)) * log));
                    },
                );
                -total.sum()
            }
        }
    }

    /// The scale up to `most` at which [`bound`](Loss::bound) is best, or nearly so.
    pub fn best_scale(&self, u: &[f64], most: f64) -> f64 {
        let (square, along) = match self {
            Loss::Squares { targets } => (dot(u, u), dot(u, targets)),
            Loss::WeightedSquares { targets, weights } => (over(u, weights), dot(u, targets)),
            Loss::Logistic { .. } => return most.min(1.0),
        };
        if square > 0.0 { (-along / square).clamp(0.0, most) } else { 0.0 }
    }

    /// Moves all of `v` by what makes the loss least, and says by how much: an intercept that costs nothing. For logistic loss
    /// by Newton's method, which is kept from leaping where the loss is flat.
    pub fn settle(&self, v: &mut [f64]) -> f64 {
        let labels = match self {
            Loss::Squares { targets } => {
                let by = sum(targets.iter().zip(&*v).map(|(b, v)| b - v)) / v.len() as f64;
                v.iter_mut().for_each(|v| *v += by);
                return by;
            }
            Loss::WeightedSquares { targets, weights } => {
                let all = sum(weights.iter().copied()).max(f64::MIN_POSITIVE);
                let by = sum(targets.iter().zip(&*v).zip(weights).map(|((b, v), c)| c * (b - v))) / all;
                v.iter_mut().for_each(|v| *v += by);
                return by;
            }
            Loss::Logistic { labels } => labels,
        };
        let mut moved = 0.0;
        for _ in 0..40 {
            let (mut slope, mut bend) = (Chains::default(), Chains::default());
            chances(
                labels,
                |i| v[i] + moved,
                |i, p| {
                    slope.add(i, -labels[i] * p);
                    bend.add(i, labels[i].abs() * (p * (1.0 - p)));
                },
            );
            let by = (-slope.sum() / bend.sum().max(1e-12)).clamp(-2.0, 2.0);
            moved += by;
            if by.abs() <= 1e-13 * (1.0 + moved.abs()) {
                break;
            }
        }
        v.iter_mut().for_each(|v| *v += moved);
        moved
    }
}

crate::kernels::per_level! { fn residual(v: &[f64], targets: &[f64], to: &mut [f64], square: &mut f64) = residual_body }

/// `v − targets` and the sum of its squares, in sixteen chains.
#[inline(always)]
fn residual_body(v: &[f64], targets: &[f64], to: &mut [f64], square: &mut f64) {
    let mut parts = [0.0; 16];
    let len = v.len().min(targets.len()).min(to.len());
    let ((v, v_rest), (b, b_rest)) = (v[..len].as_chunks::<16>(), targets[..len].as_chunks::<16>());
    let (to, to_rest) = to[..len].as_chunks_mut::<16>();
    for ((v, b), to) in v.iter().zip(b).zip(to) {
        for i in 0..16 {
            to[i] = v[i] - b[i];
            parts[i] += to[i] * to[i];
        }
    }
    for (((part, v), b), to) in parts.iter_mut().zip(v_rest).zip(b_rest).zip(to_rest) {
        *to = v - b;
        *part += *to * *to;
    }
    *square = parts.iter().sum();
}

/// `Σ uᵢ²/cᵢ` over the rows that have a weight.
fn over(u: &[f64], weights: &[f64]) -> f64 {
    sum(u.iter().zip(weights).map(|(u, c)| if *c > 0.0 { u * u / c } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses() -> [Loss; 4] {
        [
            Loss::Squares { targets: vec![1.0, -2.0, 0.5] },
            Loss::WeightedSquares { targets: vec![1.0, -2.0, 0.5], weights: vec![2.0, 0.0, 0.5] },
            Loss::Logistic { labels: vec![1.0, -1.0, 1.0] },
            Loss::Logistic { labels: vec![2.0, -0.5, 0.0] },
        ]
    }

    const V: [f64; 3] = [0.3, 0.4, -2.0];

    #[test]
    fn gradients_and_bends_are_those_of_finite_differences() {
        for loss in losses() {
            let (mut gradient, mut bends) = (vec![], vec![]);
            loss.gradient_into(&V, &mut gradient);
            loss.bends_into(&V, &mut bends);
            for i in 0..3 {
                let moved = |by: f64| {
                    let mut v = V;
                    v[i] += by;
                    loss.value(&v)
                };
                let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((slope - gradient[i]).abs() < 1e-8, "{loss:?} {i}");
                let bend = (moved(1e-3) - 2.0 * moved(0.0) + moved(-1e-3)) / 1e-6;
                assert!((bend - bends.get(i).unwrap_or(&1.0)).abs() < 1e-5, "{loss:?} {i}: {bend}");
            }
        }
    }

    #[test]
    fn logistic_loss_is_what_the_formula_says() {
        let loss = Loss::Logistic { labels: vec![1.0, -1.0, 0.5] };
        let expected = (-0.3_f64).exp().ln_1p() + 0.4_f64.exp().ln_1p() + 0.5 * 2.0_f64.exp().ln_1p();
        assert!((loss.value(&V) - expected).abs() < 1e-14);
        let far = Loss::Logistic { labels: vec![1.0, -1.0] };
        assert_eq!(far.value(&[-1e4, 1e4]), 2e4);
    }

    #[test]
    fn differences_are_known_where_values_are_all_equal() {
        for loss in losses() {
            let by = [1e-3, -2e-3, 5e-4];
            let there: Vec<f64> = V.iter().zip(by).map(|(v, by)| v + by).collect();
            let expected = loss.value(&there) - loss.value(&V);
            assert!((loss.difference(&V, |i| by[i]) - expected).abs() < 1e-14, "{loss:?}");
        }
        let squares = &losses()[0];
        assert!((squares.difference(&V, |_| 1e-20) / (1e-20 * (-0.7 + 2.4 - 2.5)) - 1.0).abs() < 1e-12);
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
    fn settled_losses_have_no_slope() {
        for loss in losses() {
            let (mut v, mut gradient) = (V.to_vec(), vec![]);
            let by = loss.settle(&mut v);
            assert!((v[0] - V[0] - by).abs() < 1e-12);
            loss.gradient_into(&v, &mut gradient);
            assert!(gradient.iter().sum::<f64>().abs() < 1e-12, "{loss:?}");
        }
    }
}
