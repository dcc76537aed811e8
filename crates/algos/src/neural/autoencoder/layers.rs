//! Batches of rows on their way through the network and back.
//!
//! A batch is what stays in the second-level cache together with the weights. What a layer does to its sums (tanh, the
//! error, the slope, the sums over columns) is done to each tile of a product while it is in registers, so that nothing
//! is written twice. All sums run over the rows in order, one fused multiply-add each and continued from batch to batch,
//! so the bits depend on the rows and not on the size of a batch or the width of a register.

use super::params::Shape;
use crate::kernels::aligned::Aligned;
use crate::kernels::arithmetic::{Arithmetic, Side};
use crate::kernels::elementwise::tanh_lanes;
use crate::kernels::lanes::Lanes;
use crate::kernels::multiply::{Left, Place, Size, add_product, put, row, walk};
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
    g_w1: Aligned,
    g_w2: Aligned,
    m: Aligned,
    width: Widths,
    shape: Shape,
}

impl Totals {
    pub(super) fn new(shape: Shape) -> Totals {
        let width = Widths::of(shape);
        let matrix = || Aligned::zeros(shape.hidden() * width.visible);
        Totals {
            recon: Aligned::zeros(width.visible),
            activation: Aligned::zeros(width.hidden),
            g_b1: Aligned::zeros(width.hidden),
            g_b2: Aligned::zeros(width.visible),
            m_b: Aligned::zeros(width.hidden),
            g_w1: matrix(),
            g_w2: matrix(),
            m: matrix(),
            width,
            shape,
        }
    }

    pub(super) fn clear(&mut self) {
        let Totals { recon, activation, g_b1, g_b2, m_b, g_w1, g_w2, m, .. } = self;
        for sums in [recon, activation, g_b1, g_b2, m_b, g_w1, g_w2, m] {
            sums.fill(0.0);
        }
    }

    /// The sums of outer products, hidden × visible: of W1, of W2 transposed, and of the slopes.
    pub(super) fn matrices(&self) -> [Vec<f64>; 3] {
        [&self.g_w1, &self.g_w2, &self.m].map(|sums| {
            let mut whole = Vec::with_capacity(self.shape.weights());
            for row in sums.chunks_exact(self.width.visible) {
                whole.extend_from_slice(&row[..self.shape.visible()]);
            }
            whole
        })
    }
}

impl Batch {
    /// Rows that go through the network together: whole tiles.
    pub(super) const ROWS: usize = 96;

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

    /// Takes in rows and computes their `a2`, adding it to the sums over columns.
    pub(super) fn forward<T: Real>(
        &mut self,
        level: Level,
        weights: &Weights,
        x: &[T],
        activation: &mut [f64],
    ) {
        let visible = self.shape.visible();
        self.rows = x.len() / visible;
        for (to, from) in self.x.chunks_exact_mut(self.width.visible).zip(x.chunks_exact(visible)) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.to_f64();
            }
        }
        let size = Size { rows: self.rows, inner: visible, cols: self.width.hidden };
        let place = Hidden { bias: &weights.b1, a2: &mut self.hidden, activation };
        hidden_layer(level, size, &self.x, self.width.visible, &weights.w1_transposed, place);
    }

    /// Sums over columns for who does not want them.
    pub(super) fn no_activation(&self) -> Aligned {
        Aligned::zeros(self.width.hidden)
    }

    /// `a3` of the rows taken in.
    pub(super) fn reconstruct(&mut self, level: Level, weights: &Weights) {
        let size = Size { rows: self.rows, inner: self.shape.hidden(), cols: self.width.visible };
        let mut unused = Aligned::zeros(self.width.visible);
        let place = Hidden { bias: &weights.b2, a2: &mut self.output, activation: &mut unused };
        hidden_layer(level, size, &self.hidden, self.width.hidden, &weights.w2_transposed, place);
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
        let Totals { recon, g_b1, g_b2, m_b, .. } = totals;
        let (rows, width) = (self.rows, self.width);
        let size = Size { rows, inner: self.shape.hidden(), cols: width.visible };
        let place = Output { bias: &weights.b2, x: &self.x, d3: &mut self.output, recon, g_b2 };
        output_layer(level, size, &self.hidden, width.hidden, &weights.w2_transposed, place);
        let size = Size { rows, inner: self.shape.visible(), cols: width.hidden };
        let place = Back { a2: &self.hidden, error: &mut self.error, slope: &mut self.slope, g_b1, m_b };
        back_layer(level, size, &self.output, width.visible, &weights.w2, place);
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

/// Adds the rows of a tile to sums over columns, one after the other.
#[inline(always)]
fn add_rows<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
    totals: &mut [f64],
    col: usize,
    tile: &[[V; N]; M],
) {
    let mut sums = row::<V, N>(totals, col);
    for line in tile {
        for (sum, value) in sums.iter_mut().zip(line) {
            *sum = sum.add(*value);
        }
    }
    put(&mut totals[col..], &sums);
}

/// A layer of tanh units.
struct Hidden<'a> {
    bias: &'a [f64],
    a2: &'a mut [f64],
    activation: &'a mut [f64],
}

impl Place<f64> for Hidden<'_> {
    #[inline(always)]
    fn begin<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
        &self,
        _: usize,
        col: usize,
    ) -> [[V; N]; M] {
        [row(self.bias, col); M]
    }

    #[inline(always)]
    fn end<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
        &mut self,
        row_at: usize,
        col: usize,
        mut tile: [[V; N]; M],
    ) {
        let stride = self.bias.len();
        for (i, line) in tile.iter_mut().enumerate() {
            *line = tanh_lanes(Side(*line)).0;
            put(&mut self.a2[(row_at + i) * stride + col..], line);
        }
        add_rows(self.activation, col, &tile);
    }
}

/// The output layer, its error, and the squares of what it misses by.
struct Output<'a> {
    bias: &'a [f64],
    x: &'a [f64],
    d3: &'a mut [f64],
    recon: &'a mut [f64],
    g_b2: &'a mut [f64],
}

impl Place<f64> for Output<'_> {
    #[inline(always)]
    fn begin<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
        &self,
        _: usize,
        col: usize,
    ) -> [[V; N]; M] {
        [row(self.bias, col); M]
    }

    #[inline(always)]
    fn end<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
        &mut self,
        row_at: usize,
        col: usize,
        mut tile: [[V; N]; M],
    ) {
        let stride = self.bias.len();
        let one = Side([V::splat(1.0); N]);
        let mut recon = Side(row::<V, N>(self.recon, col));
        for (i, line) in tile.iter_mut().enumerate() {
            let at = (row_at + i) * stride + col;
            let a3 = tanh_lanes(Side(*line));
            let miss = a3.sub(Side(row(self.x, at)));
            recon = miss.mul_add(miss, recon);
            *line = miss.mul(a3.neg_mul_add(a3, one)).0;
            put(&mut self.d3[at..], line);
        }
        put(&mut self.recon[col..], &recon.0);
        add_rows(self.g_b2, col, &tile);
    }
}

/// What of the output's error comes back to the hidden layer.
struct Back<'a> {
    a2: &'a [f64],
    error: &'a mut [f64],
    slope: &'a mut [f64],
    g_b1: &'a mut [f64],
    m_b: &'a mut [f64],
}

impl Place<f64> for Back<'_> {
    #[inline(always)]
    fn begin<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
        &self,
        _: usize,
        _: usize,
    ) -> [[V; N]; M] {
        [[V::splat(0.0); N]; M]
    }

    #[inline(always)]
    fn end<V: Arithmetic<Number = f64>, const M: usize, const N: usize>(
        &mut self,
        row_at: usize,
        col: usize,
        tile: [[V; N]; M],
    ) {
        let stride = self.g_b1.len();
        let one = Side([V::splat(1.0); N]);
        let (mut g_b1, mut m_b) = (Side(row::<V, N>(self.g_b1, col)), Side(row::<V, N>(self.m_b, col)));
        for (i, line) in tile.iter().enumerate() {
            let at = (row_at + i) * stride + col;
            let a2 = Side(row(self.a2, at));
            let slope = a2.neg_mul_add(a2, one);
            let error = Side(*line).mul(slope);
            put(&mut self.slope[at..], &slope.0);
            put(&mut self.error[at..], &error.0);
            g_b1 = g_b1.add(error);
            m_b = m_b.add(slope);
        }
        put(&mut self.g_b1[col..], &g_b1.0);
        put(&mut self.m_b[col..], &m_b.0);
    }
}

macro_rules! layers {
    ($($name:ident $body:ident $place:ident;)*) => {
        $(
            per_level! {
                fn $name(size: Size, left: &[f64], stride: usize, right: &[f64], place: $place<'_>) = $body<Lanes>
            }

            #[inline(always)]
            fn $body<V: Arithmetic<Number = f64>>(
                size: Size,
                left: &[f64],
                stride: usize,
                right: &[f64],
                mut place: $place<'_>,
            ) {
                walk::<V, _>(size, Left::Rows { values: left, stride }, (right, size.cols), &mut place);
            }
        )*
    };
}

layers! {
    hidden_layer hidden_body Hidden;
    output_layer output_body Output;
    back_layer back_body Back;
}
