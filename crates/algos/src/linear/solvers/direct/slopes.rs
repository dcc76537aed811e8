//! One round over dense rows: the loss at a point, its slopes, and, if asked for, the sums of products of all pairs of columns.
//!
//! Columns are seen with the means of all rows taken off, so that large means cost no digits, and with one more column of
//! ones, whose coefficient is the intercept. Products, losses and sums go through `kernels`: their bits are those of the
//! data alone. [`by_rows`](super::by_rows) gives the same sums for sparse rows, and where no products are wanted.

use crate::kernels::gram::Gram;
use crate::kernels::vectors::{add_scaled, dot};
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use qjam::{Csr, Ctx, Dense};

/// Rows that are worked on together.
pub(super) const BATCH: usize = 128;

/// What a loss is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, qjam::Wire)]
pub enum Of {
    /// `½ (v − b)²`.
    Squares,
    /// `ln(1 + exp(−y v))` with labels of −1 and 1.
    Logistic,
    /// `max(0, 1 − y v)²` with labels of −1 and 1.
    SquaredHinge,
}

/// Which second derivatives a round sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, qjam::Wire)]
pub enum Second {
    /// None.
    None,
    /// Those of single coefficients.
    Diagonal,
    /// Those of all pairs of coefficients.
    Products,
}

/// Where the slopes are wanted.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Point {
    /// What the loss is of.
    pub of: Of,
    /// Coefficients of the columns less their means, and the intercept.
    pub at: Vec<f64>,
    /// What is taken off each column; none where rows are taken as they are stored.
    pub means: Vec<f64>,
    /// Targets or labels of all rows.
    pub targets: Vec<f64>,
    /// Weights of all rows; none for ones.
    pub weights: Vec<f64>,
    /// Where the rows of each chunk begin.
    pub starts: Vec<u64>,
    /// Which second derivatives are wanted.
    pub second: Second,
    /// By what the slopes of rows with label 1 and −1 are multiplied for the bound of a logistic loss.
    pub scales: (f64, f64),
}

/// Sums over rows.
#[derive(Clone, Debug, Default, qjam::Wire, qjam::Sum)]
pub struct Slopes {
    /// The loss.
    pub value: f64,
    /// Sum of the weights.
    pub weight: f64,
    /// The part of the slopes that rows with label 1 have; of squares all of it. The last is that of the intercept.
    pub plus: Vec<f64>,
    /// The part that rows with label −1 have.
    pub minus: Vec<f64>,
    /// Of squares: the weighted sums of columns, and of ones.
    pub ones: Vec<f64>,
    /// Of squares: the sum of `u²/w` and of `u b`, where `u` are the slopes of rows, and of `w b`.
    pub bounds: [f64; 3],
    /// Of a logistic loss: less the conjugate at the slopes times the scales. Of a squared hinge: less that at the slopes.
    pub bound: f64,
    /// Sums of products, weighted by second derivatives; empty if they are not wanted. Those of sparse rows have their upper
    /// triangle alone.
    pub products: Vec<f64>,
    /// Sums of the squares of columns, weighted by second derivatives; empty if the diagonal is not wanted.
    pub diagonal: Vec<f64>,
    /// The weighted sums of columns that go with the diagonal, and the sum of second derivatives.
    pub bent_ones: Vec<f64>,
}

impl Slopes {
    /// Zeros, for a point with this many coefficients and the intercept.
    pub(super) fn zeros(point: &Point) -> Slopes {
        let (width, squares) = (point.at.len(), point.of == Of::Squares);
        let diagonal = if point.second == Second::Diagonal { width } else { 0 };
        Slopes {
            plus: vec![0.0; width],
            minus: vec![0.0; if squares { 0 } else { width }],
            ones: vec![0.0; if squares { width } else { 0 }],
            diagonal: vec![0.0; diagonal.saturating_sub(1)],
            bent_ones: vec![0.0; diagonal],
            ..Slopes::default()
        }
    }
}

/// The slopes of the rows of a chunk.
#[qjam::map]
pub fn slopes<C: RowChunk>(point: &Point, x: &C, ctx: &Ctx) -> Slopes {
    let (width, level) = (point.at.len(), Level::best());
    let from = point.starts[ctx.chunk() as usize] as usize;
    let squares = point.of == Of::Squares;
    let mut out = Slopes::zeros(point);
    let mut gram = (point.second == Second::Products).then(|| Gram::new(width));
    let mut rows = vec![1.0; BATCH * width];
    let mut batch = Batch::default();
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        batch.clear();
        for i in 0..count {
            let row = &mut rows[i * width..][..width];
            x.write(first + i, &mut row[..width - 1]);
            row.iter_mut().zip(&point.means).for_each(|(x, mean)| *x -= mean);
            batch.v.push(dot(row, &point.at));
        }
        let targets = batch.losses(level, point, from + first, &mut out);
        for (i, row) in rows.chunks_exact(width).take(count).enumerate() {
            if squares {
                add_scaled(&mut out.ones, batch.w[i], row);
            }
            let slopes = if squares || targets[i] > 0.0 { &mut out.plus } else { &mut out.minus };
            add_scaled(slopes, batch.u[i], row);
        }
        if let Some(gram) = &mut gram {
            gram.add(level, &rows[..count * width], Some(&batch.h));
        }
    }
    out.products = gram.map_or(vec![], |gram| gram.finish());
    out
}
qjam::register!(slopes::<Dense<f32>>, slopes::<Dense<f64>>, slopes::<Csr<f32>>, slopes::<Csr<f64>>);

/// Numbers of a few rows: products, weights, slopes, second derivatives.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) v: Vec<f64>,
    pub(super) w: Vec<f64>,
    pub(super) u: Vec<f64>,
    pub(super) h: Vec<f64>,
    room: [Vec<f64>; 4],
}

impl Batch {
    pub(super) fn clear(&mut self) {
        [&mut self.v, &mut self.w, &mut self.u, &mut self.h].into_iter().for_each(Vec::clear);
    }

    /// Adds the losses of the rows from `first` on, whose products are in `v`, and notes their slopes and second derivatives.
    /// Gives their targets.
    pub(super) fn losses<'a>(
        &mut self,
        level: Level,
        point: &'a Point,
        first: usize,
        out: &mut Slopes,
    ) -> &'a [f64] {
        let range = first..first + self.v.len();
        let targets = &point.targets[range.clone()];
        match point.weights.is_empty() {
            true => self.w.resize(self.v.len(), 1.0),
            false => self.w.extend_from_slice(&point.weights[range]),
        }
        match point.of {
            Of::Squares => self.squares(targets, out),
            Of::Logistic => self.logistic(level, targets, point.scales, out),
            Of::SquaredHinge => self.squared_hinge(targets, out),
        }
        targets
    }

    fn squares(&mut self, targets: &[f64], out: &mut Slopes) {
        for ((v, w), b) in self.v.iter().zip(&self.w).zip(targets) {
            let residual = v - b;
            let u = w * residual;
            out.value += 0.5 * u * residual;
            out.weight += w;
            out.bounds[0] += u * residual;
            out.bounds[1] += u * b;
            out.bounds[2] += w * b;
            self.u.push(u);
            self.h.push(*w);
        }
    }

    fn logistic(&mut self, level: Level, labels: &[f64], scales: (f64, f64), out: &mut Slopes) {
        // With m = y v: the loss ln(1 + e⁻ᵐ), the chance p = 1 / (1 + eᵐ) of the other class, and q = 1 − p.
        let [loss, p, q, logs] = &mut self.room;
        let negative = |(v, y): (&f64, &f64)| -y * v;
        for to in [&mut *loss, &mut *p] {
            to.clear();
            to.extend(self.v.iter().zip(labels).map(negative));
        }
        q.clear();
        q.extend(p.iter().map(|m| -m));
        elementwise::softplus(level, loss);
        elementwise::sigmoid(level, p);
        elementwise::sigmoid(level, q);
        let scale = |y: f64| if y > 0.0 { scales.0 } else { scales.1 };
        // Scaled chances and their complements, of which the logarithms are needed.
        logs.clear();
        for ((p, q), y) in p.iter().zip(&*q).zip(labels) {
            let s = scale(*y);
            logs.extend([s * p, q + (1.0 - s) * p]);
        }
        let chances = logs.clone();
        elementwise::log(level, logs);
        let entropy = |at: usize| if chances[at] > 0.0 { chances[at] * logs[at] } else { 0.0 };
        for (i, y) in labels.iter().enumerate() {
            let w = self.w[i];
            out.value += w * loss[i];
            out.weight += w;
            out.bound -= w * (entropy(2 * i) + entropy(2 * i + 1));
            self.u.push(-y * w * p[i]);
            self.h.push(w * p[i] * q[i]);
        }
    }

    fn squared_hinge(&mut self, labels: &[f64], out: &mut Slopes) {
        for ((v, w), y) in self.v.iter().zip(&self.w).zip(labels) {
            let short = (1.0 - y * v).max(0.0);
            out.value += w * short * short;
            out.weight += w;
            // With a = 2 · short, which is how steep it is, the conjugate is a²/4 − a.
            out.bound += w * short * (2.0 - short);
            self.u.push(-2.0 * y * w * short);
            self.h.push(if short > 0.0 { 2.0 * w } else { 0.0 });
        }
    }
}
