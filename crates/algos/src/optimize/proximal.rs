//! Quasi-Newton steps for a smooth function and a price on the size of each coordinate: `f(x) + Σ cᵢ |xᵢ|`.
//!
//! Changes of point and gradient make a quadratic model of `f`, as in [`lbfgs`](super::lbfgs): `σI − Q M⁻¹ Qᵀ` in its compact
//! form (Byrd, Nocedal, Schnabel 1994). Sizes are not smoothed but stay in the model as they are, so coordinates become
//! exactly 0; its lowest point is found by coordinate descent over those that may move, a few products each (Scheinberg,
//! Tang 2016). Without prices that point is a formula. A step is halved until it keeps its promise.
//!
//! Where no decrease can be told from rounding any more the gradient still says something, and a few more steps follow it.
//! Nothing here depends on time or on chance.

use super::lbfgs::{Memory, Minimum, Outcome};
use crate::kernels::vectors::{add_scaled, dot, max_abs};

/// A smooth function, and who looks on.
pub trait Function {
    /// Why there is no value.
    type Error;

    /// Writes the gradient at `x` and returns the value, which may be a round over a cluster.
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, Self::Error>;

    /// Moves a point that is about to be evaluated to where the function is the same and sizes cost less, if there is such a
    /// place: a direction in which `f` is flat looks to the model as if it bent.
    fn ease(&self, _: &mut [f64]) {}

    /// Whether the point that was evaluated last, and taken, is good enough. `total` is the value with the prices.
    fn is_enough(&mut self, x: &[f64], total: f64) -> Result<bool, Self::Error>;
}

/// A change below this share of the value is nothing but rounding.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// A promise below this share of the value is not worth a step.
const NOTHING: f64 = 1e-4 * f64::EPSILON;
/// Steps without a decrease that can be told from rounding, after which to stop.
const IN_VAIN: usize = 20;
/// Of what a straight line promises, a step must keep so much.
const KEPT: f64 = 1e-4;
/// Halvings after which a step is given up.
const HALVINGS: usize = 40;
/// Passes over the coordinates of a model, and when one is small enough beside the first: the model is not the function.
const PASSES: usize = 100;
const PASS_SMALL: f64 = 1e-3;

/// Minimises from `x`, with so many changes kept. `prices` is empty where sizes cost nothing.
///
/// ```
/// use qjam_algos::optimize::proximal::{Function, minimize};
/// struct Bowl;
/// impl Function for Bowl {
///     type Error = std::convert::Infallible;
///     fn evaluate(&mut self, x: &[f64], g: &mut [f64]) -> Result<f64, Self::Error> {
///         (g[0], g[1]) = (x[0] - 3.0, x[1] - 0.5);
///         Ok(0.5 * (g[0] * g[0] + g[1] * g[1]))
///     }
///     fn is_enough(&mut self, _: &[f64], _: f64) -> Result<bool, Self::Error> {
///         Ok(false)
///     }
/// }
/// let found = minimize(5, &[1.0, 1.0], vec![0.0, 0.0], 50, &mut Bowl)?;
/// assert_eq!(found.x, [2.0, 0.0]);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
pub fn minimize<F: Function>(
    memory: usize,
    prices: &[f64],
    mut x: Vec<f64>,
    evaluations_max: usize,
    function: &mut F,
) -> Result<Minimum, F::Error> {
    let mut gradient = vec![0.0; x.len()];
    let cost = |x: &[f64]| prices.iter().zip(x).map(|(price, x)| price * x.abs()).sum::<f64>();
    let mut total = function.evaluate(&x, &mut gradient)? + cost(&x);
    let (mut changes, mut evaluations, mut iterations, mut in_vain) = (Memory::new(memory), 1, 0, 0);
    let mut outcome = Outcome::NotFinite;
    if total.is_finite() && max_abs(&gradient).is_finite() {
        outcome = loop {
            if function.is_enough(&x, total)? {
                break Outcome::FlatGradient;
            }
            let by = match prices.is_empty() {
                true => changes.direction(&gradient),
                false => Model::new(&changes).step(&x, &gradient, prices),
            };
            let to: Vec<f64> = x.iter().zip(&by).map(|(x, by)| x + by).collect();
            let promised = dot(&by, &gradient) + cost(&to) - cost(&x);
            if !(promised < 0.0 && -promised > NOTHING * total.abs()) {
                break Outcome::SmallDecrease;
            }
            let (mut length, mut next) = (1.0, vec![0.0; x.len()]);
            let taken = loop {
                if evaluations >= evaluations_max {
                    break None;
                }
                let mut at = x.clone();
                add_scaled(&mut at, length, &by);
                function.ease(&mut at);
                let found = function.evaluate(&at, &mut next)? + cost(&at);
                evaluations += 1;
                let allowed = total + KEPT * length * promised + ROUNDING * total.abs();
                if found <= allowed && max_abs(&next).is_finite() {
                    break Some((at, found));
                }
                length *= 0.5;
                if length < 0.5_f64.powi(HALVINGS as i32) {
                    break None;
                }
            };
            let Some((at, found)) = taken else {
                if evaluations >= evaluations_max {
                    break Outcome::EvaluationsSpent;
                }
                if changes.is_empty() {
                    break Outcome::NoDescent;
                }
                // What is remembered misleads here.
                changes.clear();
                continue;
            };
            let moved = |to: &[f64], from: &[f64]| to.iter().zip(from).map(|(a, b)| a - b).collect();
            changes.remember(moved(&at, &x), moved(&next, &gradient));
            in_vain = if found < total - ROUNDING * total.abs() { 0 } else { in_vain + 1 };
            (x, gradient, total) = (at, next, found);
            iterations += 1;
            if in_vain > IN_VAIN {
                break Outcome::SmallDecrease;
            }
        };
    }
    let gradient_max = max_abs(&gradient);
    Ok(Minimum { x, value: total, gradient_max, evaluations, iterations, outcome })
}

/// `σI − Q M⁻¹ Qᵀ`, where a row of `Q` has σ times the changes of the point and those of the gradient.
struct Model<'a> {
    changes: &'a Memory,
    sigma: f64,
    /// `M⁻¹`, row by row.
    inverse: Vec<f64>,
    width: usize,
}

impl Model<'_> {
    fn new(changes: &Memory) -> Model<'_> {
        let kept: Vec<_> = changes.kept().collect();
        let m = kept.len();
        let plain = Model { changes, sigma: 1.0, inverse: vec![], width: 0 };
        let Some((_, gradient, product)) = kept.last() else { return plain };
        let sigma = dot(gradient, gradient) / product;
        let width = 2 * m;
        let mut matrix = vec![0.0; width * width];
        for i in 0..m {
            for j in 0..m {
                matrix[i * width + j] = sigma * dot(kept[i].0, kept[j].0);
                if i > j {
                    let along = dot(kept[i].0, kept[j].1);
                    matrix[i * width + m + j] = along;
                    matrix[(m + j) * width + i] = along;
                }
            }
            matrix[(m + i) * width + m + i] = -kept[i].2;
        }
        match inverted(matrix, width) {
            Some(inverse) => Model { changes, sigma, inverse, width },
            None => Model { sigma, ..plain },
        }
    }

    /// From `x` to the lowest point of the model with its prices.
    fn step(&self, x: &[f64], gradient: &[f64], prices: &[f64]) -> Vec<f64> {
        // Others are at 0, and the slope there is less than the price.
        let may_move = |i: &usize| x[*i] != 0.0 || gradient[*i].abs() > prices[*i];
        let free: Vec<usize> = (0..x.len()).filter(may_move).collect();
        let w = self.width;
        // Rows of Q, and of Q M⁻¹.
        let (mut q, mut solved) = (vec![0.0; free.len() * w], vec![0.0; free.len() * w]);
        for (n, (point, change, _)) in self.changes.kept().enumerate().filter(|_| w > 0) {
            for (at, i) in free.iter().enumerate() {
                q[at * w + n] = self.sigma * point[*i];
                q[at * w + w / 2 + n] = change[*i];
            }
        }
        if w > 0 {
            for (row, to) in q.chunks_exact(w).zip(solved.chunks_exact_mut(w)) {
                for (n, factor) in row.iter().enumerate() {
                    let inverse = &self.inverse[n * w..][..w];
                    to.iter_mut().zip(inverse).for_each(|(to, value)| *to += factor * value);
                }
            }
        }
        let short = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut by = vec![0.0; x.len()];
        let mut along = vec![0.0; w];
        // Whole passes, and in between those over coordinates that are not 0.
        let (mut first, mut whole) = (0.0, true);
        for pass in 0..PASSES {
            let mut most = 0.0_f64;
            for (at, i) in free.iter().copied().enumerate() {
                let from = x[i] + by[i];
                if from == 0.0 && !whole {
                    continue;
                }
                let (row, own) = (&q[at * w..][..w], &solved[at * w..][..w]);
                let bend = (self.sigma - short(row, own)).max(1e-8 * self.sigma);
                let slope = gradient[i] + self.sigma * by[i] - short(row, &along);
                let to = soft(from - slope / bend, prices[i] / bend);
                let change = to - from;
                if change != 0.0 {
                    // So that what ends at 0 is 0, whatever is rounded on the way.
                    by[i] = if to == 0.0 { -x[i] } else { by[i] + change };
                    along.iter_mut().zip(own).for_each(|(along, own)| *along += change * own);
                    most = most.max(change.abs() * bend.sqrt());
                }
            }
            if pass == 0 {
                first = most;
            }
            match most <= PASS_SMALL * first {
                true if whole => break,
                small => whole = small,
            }
        }
        by
    }
}

fn soft(z: f64, by: f64) -> f64 {
    if z > by {
        z - by
    } else if z < -by {
        z + by
    } else {
        0.0
    }
}

/// The inverse of a small matrix by elimination with pivots; `None` where there is none to speak of.
fn inverted(mut a: Vec<f64>, n: usize) -> Option<Vec<f64>> {
    let mut inverse = vec![0.0; n * n];
    (0..n).for_each(|i| inverse[i * n + i] = 1.0);
    for column in 0..n {
        let pivot = (column..n).fold(column, |best, i| {
            if a[i * n + column].abs() > a[best * n + column].abs() { i } else { best }
        });
        let value = a[pivot * n + column];
        if !(value.abs() > 1e-300 && value.is_finite()) {
            return None;
        }
        for j in 0..n {
            a.swap(column * n + j, pivot * n + j);
            inverse.swap(column * n + j, pivot * n + j);
        }
        for j in 0..n {
            a[column * n + j] /= value;
            inverse[column * n + j] /= value;
        }
        for i in (0..n).filter(|i| *i != column) {
            let factor = a[i * n + column];
            for j in 0..n {
                a[i * n + j] -= factor * a[column * n + j];
                inverse[i * n + j] -= factor * inverse[column * n + j];
            }
        }
    }
    inverse.iter().all(|value| value.is_finite()).then_some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// `½ Σ hᵢ (xᵢ − tᵢ)² + ½ ρ (Σ xᵢ − 1)²`, evaluated so often.
    struct Bowl {
        bends: Vec<f64>,
        to: Vec<f64>,
        coupled: f64,
        calls: usize,
    }

    impl Function for Bowl {
        type Error = Infallible;

        fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, Infallible> {
            self.calls += 1;
            let sum = x.iter().sum::<f64>() - 1.0;
            let mut value = 0.5 * self.coupled * sum * sum;
            for i in 0..x.len() {
                let off = x[i] - self.to[i];
                value += 0.5 * self.bends[i] * off * off;
                gradient[i] = self.bends[i] * off + self.coupled * sum;
            }
            Ok(value)
        }

        fn is_enough(&mut self, _: &[f64], _: f64) -> Result<bool, Infallible> {
            Ok(false)
        }
    }

    #[test]
    fn lowest_points_have_no_slope_that_the_prices_do_not_meet() {
        for n in [1, 8, 60] {
            for price in [0.0, 0.3] {
                let bends: Vec<f64> = (0..n).map(|i| 0.2 + (i % 7) as f64).collect();
                let to = (0..n).map(|i| ((i * 5) % 9) as f64 / 4.0 - 1.0).collect();
                let mut bowl = Bowl { bends, to, coupled: 0.5, calls: 0 };
                let prices = if price > 0.0 { vec![price; n] } else { vec![] };
                let found = minimize(10, &prices, vec![0.0; n], 500, &mut bowl).unwrap();
                assert_eq!((found.outcome, found.evaluations), (Outcome::SmallDecrease, bowl.calls));
                let mut slopes = vec![0.0; n];
                let smooth = bowl.evaluate(&found.x, &mut slopes).unwrap();
                for (x, slope) in found.x.iter().zip(slopes) {
                    let wrong = match *x == 0.0 {
                        true => (slope.abs() - price).max(0.0),
                        false => (slope + price * x.signum()).abs(),
                    };
                    assert!(wrong < 1e-7, "{n} {price}: {wrong:e} at {x}");
                }
                let sizes: f64 = found.x.iter().map(|x| x.abs()).sum();
                assert!((found.value - smooth - price * sizes).abs() < 1e-12);
                assert!(price == 0.0 || n == 1 || found.x.contains(&0.0));
                assert!(bowl.calls < 80, "{n} {price}: {}", bowl.calls);
            }
        }
    }

    #[test]
    fn the_limit_on_evaluations_is_kept() {
        for most in 1..6 {
            let mut bowl = Bowl { bends: vec![1.0, 100.0], to: vec![3.0, -2.0], coupled: 7.0, calls: 0 };
            let found = minimize(3, &[0.1, 0.1], vec![9.0, 9.0], most, &mut bowl).unwrap();
            assert_eq!((found.outcome, bowl.calls), (Outcome::EvaluationsSpent, most));
            assert!(found.value.is_finite());
        }
    }
}
