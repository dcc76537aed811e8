//! Batches of rows on their way through the network and back.
//!
//! A batch is what stays in the second-level cache together with the weights. What a layer does to its sums (tanh, the
//! error, the slope, the sums over columns) is one pass over the batch. All sums run over the rows in order, one fused multiply-add each and continued from batch to batch,
//! so the bits depend on the rows and not on the size of a batch or the width of a register.

use super::params::Shape;
use crate::kernels::aligned::Aligned;
use crate::kernels::arithmetic::Arithmetic;
use crate::kernels::elementwise::{tanh, tanh_lanes};
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::nearest::Real;
use crate::kernels::{Level, per_level};

/// Sizes of both layers, rounded up to whole registers: the same for every level, so that bits cannot depend on it. The
/// units added have weight 0 and so do nothing but fill a register.
#[derive(Clone, Copy)]
struct Widths {
    visible: usize,
    hidden: usize,
}

impl Widths {
    fn of(shape: Shape) -> Widths {
        Widths { visible: shape.visible().next_multiple_of(8), hidden: shape.hidden().next_multiple_of(8) }
    }
}

/// The weights as the products want them: right factors row-major.
pub(super) struct Weights {
    shape: Shape,
    /// visible × hidden.
    w1_transposed: Aligned,
    /// hidden × visible.
    w2_transposed: Aligned,
    /// visible × hidden.
    w2: Aligned,
    b1: Aligned,
    b2: Aligned,
}

impl Weights {
    pub(super) fn new(shape: Shape) -> Weights {
        let width = Widths::of(shape);
        Weights {
            shape,
            w1_transposed: Aligned::zeros(shape.visible() * width.hidden),
            w2_transposed: Aligned::zeros(shape.hidden() * width.visible),
            w2: Aligned::zeros(shape.visible() * width.hidden),
            b1: Aligned::zeros(width.hidden),
            b2: Aligned::zeros(width.visible),
        }
    }

    pub(super) fn set(&mut self, theta: &[f64]) {
        let (visible, hidden, width) = (self.shape.visible(), self.shape.hidden(), Widths::of(self.shape));
        let [w1, w2, b1, b2] = self.shape.parts(theta);
        transpose(w1, visible, &mut self.w1_transposed, width.hidden);
        transpose(w2, hidden, &mut self.w2_transposed, width.visible);
        for (to, from) in self.w2.chunks_exact_mut(width.hidden).zip(w2.chunks_exact(hidden)) {
            to[..hidden].copy_from_slice(from);
        }
        self.b1[..hidden].copy_from_slice(b1);
        self.b2[..visible].copy_from_slice(b2);
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
pub(super) struct Batch {
    shape: Shape,
    width: Widths,
    rows: usize,
    /// The rows themselves in 64 bits, where loads of them do not cross cache lines.
    x: Aligned,
    /// `a2`.
    hidden: Aligned,
    /// `a3` after [`Batch::reconstruct`], `d3` after [`Batch::backward`].
    output: Aligned,
    /// `(W2ᵀ d3)(1 - a2²)`.
    error: Aligned,
    /// `1 - a2²`.
    slope: Aligned,
}

/// Sums over rows, padded like the weights.
pub(super) struct Totals {
    pub(super) recon: Aligned,
    pub(super) activation: Aligned,
    pub(super) g_b1: Aligned,
    pub(super) g_b2: Aligned,
    pub(super) m_b: Aligned,
    /// Hidden × visible, whose memory goes along with the result.
    g_w1: Vec<f64>,
    g_w2: Vec<f64>,
    m: Vec<f64>,
    width: Widths,
    shape: Shape,
}

impl Totals {
    pub(super) fn new(shape: Shape) -> Totals {
        let width = Widths::of(shape);
        Totals {
            recon: Aligned::zeros(width.visible),
            activation: Aligned::zeros(width.hidden),
            g_b1: Aligned::zeros(width.hidden),
            g_b2: Aligned::zeros(width.visible),
            m_b: Aligned::zeros(width.hidden),
            g_w1: Vec::new(),
            g_w2: Vec::new(),
            m: Vec::new(),
            width,
            shape,
        }
    }

    pub(super) fn clear(&mut self) {
        let Totals { recon, activation, g_b1, g_b2, m_b, g_w1, g_w2, m, .. } = self;
        for sums in [recon, activation, g_b1, g_b2, m_b] {
            sums.fill(0.0);
        }
        for sums in [g_w1, g_w2, m] {
            sums.clear();
            sums.resize(self.shape.hidden() * self.width.visible, 0.0);
        }
    }

    /// The sums of outer products, hidden × visible: of W1, of W2 transposed, and of the slopes. They are gone from here.
    pub(super) fn take_matrices(&mut self) -> [Vec<f64>; 3] {
        let (visible, padded) = (self.shape.visible(), self.width.visible);
        [&mut self.g_w1, &mut self.g_w2, &mut self.m].map(|sums| {
            let mut sums = std::mem::take(sums);
            if visible < padded {
                for row in 1..sums.len() / padded {
                    sums.copy_within(row * padded..row * padded + visible, row * visible);
                }
                sums.truncate(self.shape.weights());
            }
            sums
        })
    }
}

impl Batch {
    /// Most rows that go through the network together: whole tiles, and all rows of a usual chunk of 64 columns.
    pub(super) const ROWS: usize = 22 * TILE_ROWS;

    /// Rows of a batch if so many are to go through the network: as many in the last one as in others, as far as whole tiles
    /// allow it. A last batch of few rows takes longer for each, since all sums are loaded and stored for every batch.
    pub(super) fn rows_of(rows: usize) -> usize {
        let batches = rows.div_ceil(Self::ROWS).max(1);
        rows.div_ceil(batches).next_multiple_of(TILE_ROWS).max(TILE_ROWS)
    }

    pub(super) fn new(shape: Shape) -> Batch {
        let width = Widths::of(shape);
        Batch {
            shape,
            width,
            rows: 0,
            x: Aligned::zeros(Self::ROWS * width.visible),
            hidden: Aligned::zeros(Self::ROWS * width.hidden),
            output: Aligned::zeros(Self::ROWS * width.visible),
            error: Aligned::zeros(Self::ROWS * width.hidden),
            slope: Aligned::zeros(Self::ROWS * width.hidden),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Takes in rows and computes their `a2`.
    pub(super) fn forward<T: Real>(&mut self, level: Level, weights: &Weights, x: &[T]) {
        let visible = self.shape.visible();
        self.rows = x.len() / visible;
        for (to, from) in self.x.chunks_exact_mut(self.width.visible).zip(x.chunks_exact(visible)) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.to_f64();
            }
        }
        let size = Size { rows: self.rows, inner: visible, cols: self.width.hidden };
        layer(
            level,
            size,
            (&self.x, self.width.visible),
            &weights.w1_transposed,
            &weights.b1,
            &mut self.hidden,
        );
        tanh(level, &mut self.hidden[..self.rows * self.width.hidden]);
    }

    /// `a3` of the rows taken in.
    pub(super) fn reconstruct(&mut self, level: Level, weights: &Weights) {
        let size = Size { rows: self.rows, inner: self.shape.hidden(), cols: self.width.visible };
        let left = (&self.hidden[..], self.width.hidden);
        layer(level, size, left, &weights.w2_transposed, &weights.b2, &mut self.output);
        tanh(level, &mut self.output[..self.rows * self.width.visible]);
    }

    /// The activations of the rows taken in, without the padding.
    pub(super) fn hidden_rows(&self) -> impl Iterator<Item = &[f64]> {
        let hidden = self.shape.hidden();
        self.hidden.chunks_exact(self.width.hidden).take(self.rows).map(move |row| &row[..hidden])
    }

    /// What [`Batch::reconstruct`] made of them.
    pub(super) fn output_rows(&self) -> impl Iterator<Item = &[f64]> {
        let visible = self.shape.visible();
        self.output.chunks_exact(self.width.visible).take(self.rows).map(move |row| &row[..visible])
    }

    /// `d3`, the hidden layer's error and slope, and the sums over columns.
    pub(super) fn backward(&mut self, level: Level, weights: &Weights, totals: &mut Totals) {
        let Totals { recon, activation, g_b1, g_b2, m_b, .. } = totals;
        let (rows, width) = (self.rows, self.width);
        let size = Size { rows, inner: self.shape.hidden(), cols: width.visible };
        let left = (&self.hidden[..], width.hidden);
        layer(level, size, left, &weights.w2_transposed, &weights.b2, &mut self.output);
        let values = rows * width.visible;
        output_error(level, &self.x[..values], &mut self.output[..values], recon, g_b2);
        let size = Size { rows, inner: self.shape.visible(), cols: width.hidden };
        let left = Left::Rows { values: &self.output[..], stride: width.visible };
        let values = rows * width.hidden;
        self.error[..values].fill(0.0);
        add_product(level, size, left, (&weights.w2, width.hidden), (&mut self.error, width.hidden));
        let (a2, error, slope) =
            (&self.hidden[..values], &mut self.error[..values], &mut self.slope[..values]);
        hidden_error(level, a2, error, slope, [activation, g_b1, m_b]);
    }

    /// The three matrices of outer products, summed over the rows.
    pub(super) fn add_gradients(&self, level: Level, totals: &mut Totals) {
        let Widths { visible, hidden } = self.width;
        let size = Size { rows: self.shape.hidden(), inner: self.rows, cols: visible };
        for (left, right, sums) in [
            (&self.hidden, &self.output, &mut totals.g_w2),
            (&self.error, &self.x, &mut totals.g_w1),
            (&self.slope, &self.x, &mut totals.m),
        ] {
            let left = Left::Columns { values: &left[..], stride: hidden };
            add_product(level, size, left, (right, visible), (sums, visible));
        }
    }
}

/// Rows of a tile of the product.
const TILE_ROWS: usize = 6;
/// Rows of biases that are copied at once: few enough for the first-level cache.
const BIAS_ROWS: usize = 8;

/// `A B` plus a bias for every column.
fn layer(
    level: Level,
    size: Size,
    (values, stride): (&[f64], usize),
    right: &[f64],
    bias: &[f64],
    out: &mut [f64],
) {
    let (first, rest) = out[..size.rows * size.cols].split_at_mut(size.rows.min(BIAS_ROWS) * size.cols);
    first.chunks_exact_mut(size.cols).for_each(|row| row.copy_from_slice(bias));
    rest.chunks_mut(first.len().max(1)).for_each(|rows| rows.copy_from_slice(&first[..rows.len()]));
    add_product(level, size, Left::Rows { values, stride }, (right, size.cols), (out, size.cols));
}

per_level! {
    /// Turns `W2 a2 + b2` into `d3`, adding squared errors and `d3` to the columns' sums.
    fn output_error(x: &[f64], z3: &mut [f64], recon: &mut [f64], g_b2: &mut [f64]) = output_error_body<Lanes>
}

#[inline(always)]
fn output_error_body<V: Arithmetic<Number = f64>>(
    x: &[f64],
    z3: &mut [f64],
    recon: &mut [f64],
    g_b2: &mut [f64],
) {
    let cols = recon.len();
    for (x, z3) in x.chunks_exact(cols).zip(z3.chunks_exact_mut(cols)) {
        for at in (0..cols).step_by(V::COUNT) {
            output_step::<V>(&x[at..], &mut z3[at..], &mut recon[at..], &mut g_b2[at..]);
        }
    }
}

#[inline(always)]
fn output_step<V: Arithmetic<Number = f64>>(x: &[f64], z3: &mut [f64], recon: &mut [f64], g_b2: &mut [f64]) {
    let a3 = tanh_lanes(V::load(z3));
    let miss = a3.sub(V::load(x));
    miss.mul_add(miss, V::load(recon)).store(recon);
    let d3 = miss.mul(a3.neg_mul_add(a3, V::splat(1.0)));
    d3.store(z3);
    V::load(g_b2).add(d3).store(g_b2);
}

per_level! {
    /// Makes the slope `1 - a2²`, multiplies the error by it, and adds all three to the columns' sums.
    fn hidden_error(
        a2: &[f64],
        error: &mut [f64],
        slope: &mut [f64],
        totals: [&mut [f64]; 3],
    ) = hidden_error_body<Lanes>
}

#[inline(always)]
fn hidden_error_body<V: Arithmetic<Number = f64>>(
    a2: &[f64],
    error: &mut [f64],
    slope: &mut [f64],
    [activation, g_b1, m_b]: [&mut [f64]; 3],
) {
    let cols = activation.len();
    let batch = a2.chunks_exact(cols).zip(error.chunks_exact_mut(cols)).zip(slope.chunks_exact_mut(cols));
    for ((a2, error), slope) in batch {
        for at in (0..cols).step_by(V::COUNT) {
            let a = V::load(&a2[at..]);
            let steep = a.neg_mul_add(a, V::splat(1.0));
            let miss = V::load(&error[at..]).mul(steep);
            steep.store(&mut slope[at..]);
            miss.store(&mut error[at..]);
            V::load(&activation[at..]).add(a).store(&mut activation[at..]);
            V::load(&g_b1[at..]).add(miss).store(&mut g_b1[at..]);
            V::load(&m_b[at..]).add(steep).store(&mut m_b[at..]);
        }
    }
}
