//! The function that runs on a chunk: sums over its rows, from which the master forms cost and gradient.
//!
//! With `a2 = tanh(W1 x + b1)` and `a3 = tanh(W2 a2 + b2)` the error of the output layer is
//! `d3 = (a3 - x)(1 - a3²)`. The error of the hidden layer has a part that depends on the mean activation over *all*
//! rows, which no chunk knows; but that part is linear in `1 - a2²`, so the chunk returns the sums of
//! `(W2ᵀ d3)(1 - a2²) xᵀ` and of `(1 - a2²) xᵀ` apart. One round is enough, and the total is exact for every cut.
//!
//! Rows are taken in batches that stay in the second-level cache with the weights. All sums run over the rows in
//! order, one fused multiply-add each, so the bits depend on the rows and not on the size of a batch or the width of
//! a register.

use super::params::Shape;
use crate::kernels::aligned::Aligned;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::tanh::{tanh, tanh_in_place};
use crate::kernels::{Level, per_level};
use std::cell::RefCell;

/// Rows that go through the network together.
const BATCH_ROWS: usize = 64;

/// Unnormalised sums over rows. Matrices are row-major, hidden × visible.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Number of rows.
    pub rows: u64,
    /// `‖x - a3‖²`.
    pub recon: f64,
    /// `a2`.
    pub activation: Vec<f64>,
    /// `(W2ᵀ d3)(1 - a2²) xᵀ`.
    pub g_w1: Vec<f64>,
    /// `a2 d3ᵀ`: the gradient of W2, transposed.
    pub g_w2: Vec<f64>,
    /// `(W2ᵀ d3)(1 - a2²)`.
    pub g_b1: Vec<f64>,
    /// `d3`.
    pub g_b2: Vec<f64>,
    /// `(1 - a2²) xᵀ`.
    pub m: Vec<f64>,
    /// `1 - a2²`.
    pub m_b: Vec<f64>,
}

/// Sums over row-major rows of `shape.visible()` values each, on a chosen level of vector instructions.
///
/// Panics if `theta` has another length than the shape's, or if the rows are not whole.
pub fn sums_of_slice(level: Level, shape: Shape, theta: &[f64], rows: &[f64]) -> Sums {
    thread_local! {
        /// Chunks are small and come by the hundred: making scratch anew for each costs a tenth of the time.
        static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
    }
    SCRATCH.with_borrow_mut(|scratch| match scratch {
        Some(scratch) if scratch.batch.shape == shape => scratch.sums(level, theta, rows),
        other => other.insert(Scratch::new(shape)).sums(level, theta, rows),
    })
}

/// Everything a chunk needs besides its result.
struct Scratch {
    weights: Weights,
    batch: Batch,
    totals: Totals,
}

impl Scratch {
    fn new(shape: Shape) -> Scratch {
        // Whole registers for every level, so that the padding does not depend on the processor.
        let width = shape.hidden().next_multiple_of(8);
        Scratch {
            weights: Weights::new(shape, width),
            batch: Batch::new(shape, width),
            totals: Totals::new(shape, width),
        }
    }

    fn sums(&mut self, level: Level, theta: &[f64], rows: &[f64]) -> Sums {
        let Scratch { weights, batch, totals } = self;
        let shape = batch.shape;
        let (visible, hidden) = (shape.visible(), shape.hidden());
        assert_eq!(rows.len() % visible, 0, "{} values are no whole number of rows of {visible}", rows.len());
        weights.set(shape, theta);
        totals.clear();
        let (mut g_w1, mut g_w2, mut m) =
            (vec![0.0; shape.weights()], vec![0.0; shape.weights()], vec![0.0; shape.weights()]);
        for x in rows.chunks(BATCH_ROWS * visible) {
            batch.forward(level, weights, x);
            batch.backward(level, weights, x, totals);
            batch.add_gradients(level, x, [&mut g_w1, &mut g_w2, &mut m]);
        }
        Sums {
            rows: (rows.len() / visible) as u64,
            recon: totals.recon.iter().sum(),
            activation: totals.activation[..hidden].to_vec(),
            g_w1,
            g_w2,
            g_b1: totals.g_b1[..hidden].to_vec(),
            g_b2: totals.g_b2.to_vec(),
            m,
            m_b: totals.m_b[..hidden].to_vec(),
        }
    }
}

/// The weights as the products want them: right factors row-major, rows of hidden units padded to whole registers.
/// The units added have weight 0 and so do nothing but fill a register.
struct Weights {
    width: usize,
    /// visible × width.
    w1_transposed: Aligned,
    /// hidden × visible.
    w2_transposed: Aligned,
    /// visible × width.
    w2: Aligned,
    /// width.
    b1: Aligned,
    /// visible.
    b2: Aligned,
}

impl Weights {
    fn new(shape: Shape, width: usize) -> Weights {
        Weights {
            width,
            w1_transposed: Aligned::zeros(shape.visible() * width),
            w2_transposed: Aligned::zeros(shape.weights()),
            w2: Aligned::zeros(shape.visible() * width),
            b1: Aligned::zeros(width),
            b2: Aligned::zeros(shape.visible()),
        }
    }

    fn set(&mut self, shape: Shape, theta: &[f64]) {
        let (visible, hidden) = (shape.visible(), shape.hidden());
        let [w1, w2, b1, b2] = shape.parts(theta);
        transpose(w1, visible, &mut self.w1_transposed, self.width);
        transpose(w2, hidden, &mut self.w2_transposed, visible);
        for (to, from) in self.w2.chunks_exact_mut(self.width).zip(w2.chunks_exact(hidden)) {
            to[..hidden].copy_from_slice(from);
        }
        self.b1[..hidden].copy_from_slice(b1);
        self.b2.copy_from_slice(b2);
    }
}

fn transpose(from: &[f64], cols: usize, to: &mut [f64], to_stride: usize) {
    for (i, row) in from.chunks_exact(cols).enumerate() {
        for (value, line) in row.iter().zip(to.chunks_exact_mut(to_stride)) {
            line[i] = *value;
        }
    }
}

/// What one batch computes, reused for the next.
struct Batch {
    shape: Shape,
    width: usize,
    /// `a2`, rows × width.
    hidden: Aligned,
    /// `a3`, then `d3`, rows × visible.
    output: Aligned,
    /// `W2ᵀ d3`, then times `1 - a2²`, rows × width.
    error: Aligned,
    /// `1 - a2²`, rows × width.
    slope: Aligned,
}

/// Sums that are not matrices, one per column, padded like the weights.
struct Totals {
    recon: Aligned,
    activation: Aligned,
    g_b1: Aligned,
    g_b2: Aligned,
    m_b: Aligned,
}

impl Totals {
    fn new(shape: Shape, width: usize) -> Totals {
        Totals {
            recon: Aligned::zeros(shape.visible()),
            activation: Aligned::zeros(width),
            g_b1: Aligned::zeros(width),
            g_b2: Aligned::zeros(shape.visible()),
            m_b: Aligned::zeros(width),
        }
    }

    fn clear(&mut self) {
        for sums in [&mut self.recon, &mut self.activation, &mut self.g_b1, &mut self.g_b2, &mut self.m_b] {
            sums.fill(0.0);
        }
    }
}

impl Batch {
    fn new(shape: Shape, width: usize) -> Batch {
        Batch {
            shape,
            width,
            hidden: Aligned::zeros(BATCH_ROWS * width),
            output: Aligned::zeros(BATCH_ROWS * shape.visible()),
            error: Aligned::zeros(BATCH_ROWS * width),
            slope: Aligned::zeros(BATCH_ROWS * width),
        }
    }

    /// `a2`, and `W2 a2 + b2`.
    fn forward(&mut self, level: Level, weights: &Weights, x: &[f64]) {
        let (visible, hidden, width) = (self.shape.visible(), self.shape.hidden(), self.width);
        let rows = x.len() / visible;
        let a2 = &mut self.hidden[..rows * width];
        a2.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(&weights.b1));
        let left = Left::Rows { values: x, stride: visible };
        let size = Size { rows, inner: visible, cols: width };
        add_product(level, size, left, (&weights.w1_transposed, width), (a2, width));
        tanh_in_place(level, a2);
        let z3 = &mut self.output[..rows * visible];
        z3.chunks_exact_mut(visible).for_each(|row| row.copy_from_slice(&weights.b2));
        let left = Left::Rows { values: a2, stride: width };
        let size = Size { rows, inner: hidden, cols: visible };
        add_product(level, size, left, (&weights.w2_transposed, visible), (z3, visible));
    }

    /// `d3`, the hidden layer's error and slope, and the sums over columns.
    fn backward(&mut self, level: Level, weights: &Weights, x: &[f64], totals: &mut Totals) {
        let (visible, width) = (self.shape.visible(), self.width);
        let rows = x.len() / visible;
        let d3 = &mut self.output[..rows * visible];
        output_error(level, x, d3, &mut totals.recon, &mut totals.g_b2);
        let error = &mut self.error[..rows * width];
        error.fill(0.0);
        let left = Left::Rows { values: d3, stride: visible };
        let size = Size { rows, inner: visible, cols: width };
        add_product(level, size, left, (&weights.w2, width), (error, width));
        let (a2, slope) = (&self.hidden[..rows * width], &mut self.slope[..rows * width]);
        hidden_error(level, a2, error, slope, (&mut totals.activation, &mut totals.g_b1, &mut totals.m_b));
    }

    /// The three matrices of outer products, summed over the rows.
    fn add_gradients(&self, level: Level, x: &[f64], [g_w1, g_w2, m]: [&mut [f64]; 3]) {
        let (visible, width) = (self.shape.visible(), self.width);
        let rows = x.len() / visible;
        let size = Size { rows: self.shape.hidden(), inner: rows, cols: visible };
        let column = |values| Left::Columns { values, stride: width };
        add_product(level, size, column(&self.hidden), (&self.output, visible), (g_w2, visible));
        add_product(level, size, column(&self.error), (x, visible), (g_w1, visible));
        add_product(level, size, column(&self.slope), (x, visible), (m, visible));
    }
}

per_level! {
    /// Turns `W2 a2 + b2` into `d3`, adding squared errors and `d3` to the columns' sums.
    fn output_error(x: &[f64], z3: &mut [f64], recon: &mut [f64], g_b2: &mut [f64]) = output_error_body
}

#[inline(always)]
fn output_error_body(x: &[f64], z3: &mut [f64], recon: &mut [f64], g_b2: &mut [f64]) {
    let cols = recon.len();
    for (x, z3) in x.chunks_exact(cols).zip(z3.chunks_exact_mut(cols)) {
        for (((x, z), recon), g_b2) in x.iter().zip(z3).zip(recon.iter_mut()).zip(g_b2.iter_mut()) {
            let a3 = tanh(*z);
            let miss = a3 - x;
            *recon = miss.mul_add(miss, *recon);
            *z = miss * (-a3).mul_add(a3, 1.0);
            *g_b2 += *z;
        }
    }
}

per_level! {
    /// Makes the slope `1 - a2²`, multiplies the error by it, and adds all three to the columns' sums.
    fn hidden_error(
        a2: &[f64],
        error: &mut [f64],
        slope: &mut [f64],
        totals: (&mut [f64], &mut [f64], &mut [f64]),
    ) = hidden_error_body
}

#[inline(always)]
fn hidden_error_body(
    a2: &[f64],
    error: &mut [f64],
    slope: &mut [f64],
    (activation, g_b1, m_b): (&mut [f64], &mut [f64], &mut [f64]),
) {
    let cols = activation.len();
    let batch = a2.chunks_exact(cols).zip(error.chunks_exact_mut(cols)).zip(slope.chunks_exact_mut(cols));
    for ((a2, error), slope) in batch {
        let totals = activation.iter_mut().zip(g_b1.iter_mut()).zip(m_b.iter_mut());
        for (((a2, error), slope), ((activation, g_b1), m_b)) in a2.iter().zip(error).zip(slope).zip(totals) {
            *slope = (-a2).mul_add(*a2, 1.0);
            *error *= *slope;
            *activation += a2;
            *g_b1 += *error;
            *m_b += *slope;
        }
    }
}
