//! Batches of rows on their way through the network and back.
//!
//! A batch is what stays in the second-level cache together with the weights. All sums run over the rows in order, one
//! fused multiply-add each and continued from batch to batch, so the bits depend on the rows and not on the size of a
//! batch or the width of a register.

use super::params::Shape;
use crate::kernels::aligned::Aligned;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::tanh::{tanh, tanh_in_place};
use crate::kernels::{Level, per_level};

/// The weights as the products want them: right factors row-major, rows of hidden units padded to whole registers.
/// The units added have weight 0 and so do nothing but fill a register.
pub(super) struct Weights {
    shape: Shape,
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
    pub(super) fn new(shape: Shape) -> Weights {
        let width = padded(shape);
        Weights {
            shape,
            w1_transposed: Aligned::zeros(shape.visible() * width),
            w2_transposed: Aligned::zeros(shape.weights()),
            w2: Aligned::zeros(shape.visible() * width),
            b1: Aligned::zeros(width),
            b2: Aligned::zeros(shape.visible()),
        }
    }

    pub(super) fn set(&mut self, theta: &[f64]) {
        let (visible, hidden, width) = (self.shape.visible(), self.shape.hidden(), padded(self.shape));
        let [w1, w2, b1, b2] = self.shape.parts(theta);
        transpose(w1, visible, &mut self.w1_transposed, width);
        transpose(w2, hidden, &mut self.w2_transposed, visible);
        for (to, from) in self.w2.chunks_exact_mut(width).zip(w2.chunks_exact(hidden)) {
            to[..hidden].copy_from_slice(from);
        }
        self.b1[..hidden].copy_from_slice(b1);
        self.b2.copy_from_slice(b2);
    }
}

/// Hidden units rounded up to whole registers, the same for every level so that bits cannot depend on it.
fn padded(shape: Shape) -> usize {
    shape.hidden().next_multiple_of(8)
}

fn transpose(from: &[f64], cols: usize, to: &mut [f64], to_stride: usize) {
    for (i, row) in from.chunks_exact(cols).enumerate() {
        for (value, line) in row.iter().zip(to.chunks_exact_mut(to_stride)) {
            line[i] = *value;
        }
    }
}

/// What one batch computes, reused for the next.
pub(super) struct Batch {
    shape: Shape,
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
pub(super) struct Totals {
    pub(super) recon: Aligned,
    pub(super) activation: Aligned,
    pub(super) g_b1: Aligned,
    pub(super) g_b2: Aligned,
    pub(super) m_b: Aligned,
}

impl Totals {
    pub(super) fn new(shape: Shape) -> Totals {
        let width = padded(shape);
        Totals {
            recon: Aligned::zeros(shape.visible()),
            activation: Aligned::zeros(width),
            g_b1: Aligned::zeros(width),
            g_b2: Aligned::zeros(shape.visible()),
            m_b: Aligned::zeros(width),
        }
    }

    pub(super) fn clear(&mut self) {
        for sums in [&mut self.recon, &mut self.activation, &mut self.g_b1, &mut self.g_b2, &mut self.m_b] {
            sums.fill(0.0);
        }
    }
}

impl Batch {
    /// Rows that go through the network together.
    pub(super) const ROWS: usize = 64;

    pub(super) fn new(shape: Shape) -> Batch {
        let width = padded(shape);
        Batch {
            shape,
            hidden: Aligned::zeros(Self::ROWS * width),
            output: Aligned::zeros(Self::ROWS * shape.visible()),
            error: Aligned::zeros(Self::ROWS * width),
            slope: Aligned::zeros(Self::ROWS * width),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// `a2`, and `W2 a2 + b2`.
    pub(super) fn forward(&mut self, level: Level, weights: &Weights, x: &[f64]) {
        let (visible, hidden, width) = (self.shape.visible(), self.shape.hidden(), padded(self.shape));
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

    /// The activations of the first rows, without the padding.
    pub(super) fn hidden_rows(&self, rows: usize) -> impl Iterator<Item = &[f64]> {
        self.hidden.chunks_exact(padded(self.shape)).take(rows).map(|row| &row[..self.shape.hidden()])
    }

    /// The output of the first rows as [`Batch::forward`] leaves it, before the tanh.
    pub(super) fn output_rows(&self, rows: usize) -> &[f64] {
        &self.output[..rows * self.shape.visible()]
    }

    /// `d3`, the hidden layer's error and slope, and the sums over columns.
    pub(super) fn backward(&mut self, level: Level, weights: &Weights, x: &[f64], totals: &mut Totals) {
        let (visible, width) = (self.shape.visible(), padded(self.shape));
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
    pub(super) fn add_gradients(&self, level: Level, x: &[f64], [g_w1, g_w2, m]: [&mut [f64]; 3]) {
        let (visible, width) = (self.shape.visible(), padded(self.shape));
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
