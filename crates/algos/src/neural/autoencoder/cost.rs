//! The master's part: one cost and one gradient from the sums over all rows.
//!
//! Everything that must be counted once is added here and only here: the division by the number of rows, the weight
//! decay and the sparsity penalty.

use super::map::{Sums, sums_of_slice};
use super::params::Params;
use crate::kernels::Level;
use crate::kernels::vectors::dot;

/// Cost and gradient at `theta`, given the sums over all rows there.
///
/// Panics if `theta` or the sums belong to another shape. Without any row the cost is not a number.
pub fn evaluate(params: &Params, theta: &[f64], total: &Sums) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; params.shape().theta_len()];
    let cost = evaluate_into(params, theta, total, &mut gradient);
    (cost, gradient)
}

/// Like [`evaluate`], into a gradient that is already there.
pub fn evaluate_into(params: &Params, theta: &[f64], total: &Sums, gradient: &mut [f64]) -> f64 {
    let shape = params.shape();
    let [w1, w2, _, _] = shape.parts(theta);
    assert_eq!(gradient.len(), theta.len(), "length of the gradient");
    assert_eq!((total.g_w1.len(), total.g_b2.len()), (shape.weights(), shape.visible()), "shape of the sums");
    let rows = total.rows as f64;
    let (visible, hidden) = (shape.visible(), shape.hidden());
    let (target, decay) = (params.target(), params.decay());

    let mut penalty = 0.0;
    // Weight of `1 - a2²` in the hidden layer's error; the half comes from mapping (-1, 1) to (0, 1).
    let mut pull = vec![0.0; hidden];
    for (pull, activation) in pull.iter_mut().zip(&total.activation) {
        let mean = 0.5 * (1.0 + activation / rows);
        penalty += target * (target / mean).ln() + (1.0 - target) * ((1.0 - target) / (1.0 - mean)).ln();
        *pull = 0.5 * params.sparsity() * ((1.0 - target) / (1.0 - mean) - target / mean);
    }

    let (g_w1, rest) = gradient.split_at_mut(shape.weights());
    let (g_w2, rest) = rest.split_at_mut(shape.weights());
    let (g_b1, g_b2) = rest.split_at_mut(hidden);
    for h in 0..hidden {
        let row = h * visible..(h + 1) * visible;
        let sums = total.g_w1[row.clone()].iter().zip(&total.m[row.clone()]);
        for ((g, w), (error, slope)) in g_w1[row.clone()].iter_mut().zip(&w1[row.clone()]).zip(sums) {
            *g = (error + pull[h] * slope) / rows + decay * w;
        }
        g_b1[h] = (total.g_b1[h] + pull[h] * total.m_b[h]) / rows;
        for (v, sum) in total.g_w2[row].iter().enumerate() {
            g_w2[v * hidden + h] = sum / rows + decay * w2[v * hidden + h];
        }
    }
    for (g, sum) in g_b2.iter_mut().zip(&total.g_b2) {
        *g = sum / rows;
    }

    let squares = dot(w1, w1) + dot(w2, w2);
    0.5 / rows * total.recon + 0.5 * decay * squares + params.sparsity() * penalty
}

/// Cost and gradient over row-major rows as one chunk: what a distributed evaluation is compared with.
pub fn cost_of_slice(params: &Params, theta: &[f64], rows: &[f64]) -> (f64, Vec<f64>) {
    evaluate(params, theta, &sums_of_slice(Level::best(), params.shape(), theta, rows))
}
