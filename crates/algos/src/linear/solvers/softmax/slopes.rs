//! One round over rows for all classes together: the loss at a point, its slopes, and what a certificate or Newton's method asks.
//!
//! Coefficients and slopes lie column by column, with the numbers of all classes side by side and the intercepts last, so
//! that a value of a row meets them in one piece. Dense rows go through `kernels::multiply` a few at a time; sparse ones
//! add one column after the other.
//!
//! With `p` the chances of the classes, second derivatives of a row are `diag(p) − p pᵀ`. Only `p pᵀ` is summed up, as
//! products of `p ⊗ x`: what stands on the diagonal is the sum of what stands beside it, and so nothing has to be taken off.

use crate::kernels::gram::Gram;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use qjam::{Csr, Ctx, Dense};

/// Rows that are worked on together.
const BATCH: usize = 128;

/// Where the slopes are wanted, and what else.
#[derive(Clone, Debug, qjam::Wire)]
pub struct SlopesQuery {
    /// How many classes.
    pub classes: u64,
    /// Coefficients, column by column, and the intercepts.
    pub at: Vec<f64>,
    /// What is taken off each column; none where nothing is.
    pub means: Vec<f64>,
    /// Whether sparse rows are written in full.
    pub in_full: bool,
    /// The class of every row.
    pub of_rows: Vec<u32>,
    /// Weights of all rows; none for ones.
    pub weights: Vec<f64>,
    /// Where the rows of each chunk begin.
    pub starts: Vec<u64>,
    /// By what the slopes of rows of each class are multiplied; none for ones.
    pub scales: Vec<f64>,
    /// Whether the chances that rows of one class have of another are wanted.
    pub sides: bool,
    /// Whether sums of products are wanted.
    pub products: bool,
}

/// Sums over rows.
#[derive(Clone, Debug, qjam::Wire, qjam::Sum)]
pub struct Sums {
    /// The loss.
    pub value: f64,
    /// Less its conjugate at the slopes of rows.
    pub bound: f64,
    /// Slopes, laid out like the coefficients.
    pub slopes: Vec<f64>,
    /// Chances of each class, summed up over the rows of each other one; empty if they are not wanted.
    pub sides: Vec<f64>,
    /// Products of `p ⊗ x`; empty if they are not wanted.
    pub products: Vec<f64>,
}

/// What the rows of a chunk add.
#[qjam::map]
pub fn class_slopes<C: RowChunk>(place: &SlopesQuery, x: &C, ctx: &Ctx) -> Sums {
    let from = place.starts[ctx.chunk() as usize] as usize;
    let mut round = Round::new(place);
    let in_full = C::IN_FULL || place.in_full;
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        round.begin(count);
        for i in 0..count {
            match in_full {
                true => x.write(first + i, round.row(i)),
                false => x.each(first + i, &mut |column, value| round.meet(i, column, value)),
            }
        }
        round.look(in_full, from + first, count);
        if !in_full {
            for i in 0..count {
                x.each(first + i, &mut |column, value| round.pull(i, column, value));
            }
        }
    }
    round.finish()
}
qjam::register!(
    class_slopes::<Dense<f32>>,
    class_slopes::<Dense<f64>>,
    class_slopes::<Csr<f32>>,
    class_slopes::<Csr<f64>>
);

/// A round over one chunk. Whatever the rows are made of, this is compiled once.
struct Round<'a> {
    place: &'a SlopesQuery,
    level: Level,
    k: usize,
    /// Columns and one more, of ones.
    width: usize,
    /// Logarithms of the scales.
    log_scales: Vec<f64>,
    rows: Vec<f64>,
    /// Products, one for each row and class; then less the largest of the row.
    v: Vec<f64>,
    /// Chances.
    p: Vec<f64>,
    /// Slopes of rows.
    u: Vec<f64>,
    gram: Option<Gram>,
    out: Sums,
}

impl<'a> Round<'a> {
    fn new(place: &'a SlopesQuery) -> Round<'a> {
        let k = place.classes as usize;
        let (width, level) = (place.at.len() / k, Level::best());
        let mut log_scales = place.scales.clone();
        elementwise::log(level, &mut log_scales);
        Round {
            place,
            level,
            k,
            width,
            log_scales,
            rows: vec![1.0; BATCH * width],
            v: vec![0.0; BATCH * k],
            p: vec![0.0; BATCH * k],
            u: vec![0.0; BATCH * k],
            gram: place.products.then(|| Gram::new(k * width)),
            out: Sums {
                value: 0.0,
                bound: 0.0,
                slopes: vec![0.0; place.at.len()],
                sides: vec![0.0; if place.sides { k * k } else { 0 }],
                products: vec![],
            },
        }
    }

    fn begin(&mut self, count: usize) {
        let intercepts = &self.place.at[(self.width - 1) * self.k..];
        self.v.chunks_exact_mut(self.k).take(count).for_each(|v| v.copy_from_slice(intercepts));
    }

    /// Room for a row in full.
    fn row(&mut self, i: usize) -> &mut [f64] {
        &mut self.rows[i * self.width..][..self.width - 1]
    }

    #[inline(always)]
    fn meet(&mut self, i: usize, column: usize, value: f64) {
        let with = &self.place.at[column * self.k..][..self.k];
        self.v[i * self.k..][..self.k].iter_mut().zip(with).for_each(|(v, with)| *v += value * with);
    }

    #[inline(always)]
    fn pull(&mut self, i: usize, column: usize, value: f64) {
        let to = &mut self.out.slopes[column * self.k..][..self.k];
        to.iter_mut().zip(&self.u[i * self.k..][..self.k]).for_each(|(to, u)| *to += value * u);
    }

    /// All that a batch of rows has to say.
    fn look(&mut self, in_full: bool, from: usize, count: usize) {
        let (k, width) = (self.k, self.width);
        let columns = (width - 1) * k;
        if in_full {
            if !self.place.means.is_empty() {
                for row in self.rows.chunks_exact_mut(width).take(count) {
                    row.iter_mut().zip(&self.place.means).for_each(|(x, mean)| *x -= mean);
                }
            }
            let size = Size { rows: count, inner: width - 1, cols: k };
            let left = Left::Rows { values: &self.rows, stride: width };
            add_product(self.level, size, left, (&self.place.at[..columns], k), (&mut self.v, k));
        }
        self.judge(from, count);
        if in_full {
            let size = Size { rows: width - 1, inner: count, cols: k };
            let left = Left::Columns { values: &self.rows, stride: width };
            add_product(self.level, size, left, (&self.u, k), (&mut self.out.slopes, k));
        }
        for u in self.u.chunks_exact(k).take(count) {
            self.out.slopes[columns..].iter_mut().zip(u).for_each(|(to, u)| *to += u);
        }
        if let Some(gram) = &mut self.gram {
            let mut crossed = Vec::with_capacity(count * k * width);
            let mut weights = Vec::with_capacity(count);
            for (i, (row, p)) in
                self.rows.chunks_exact(width).zip(self.p.chunks_exact(k)).take(count).enumerate()
            {
                row.iter().for_each(|x| crossed.extend(p.iter().map(|p| x * p)));
                weights.push(weight(self.place, from + i));
            }
            gram.add(self.level, &crossed, Some(&weights));
        }
    }

    /// From products to losses, chances and slopes of rows.
    fn judge(&mut self, from: usize, count: usize) {
        let k = self.k;
        let mut logs = Vec::with_capacity(count);
        for v in self.v.chunks_exact_mut(k).take(count) {
            let most = v.iter().fold(f64::NEG_INFINITY, |most, v| most.max(*v));
            v.iter_mut().for_each(|v| *v -= most);
        }
        let p = &mut self.p[..count * k];
        p.copy_from_slice(&self.v[..count * k]);
        elementwise::exp(self.level, p);
        for p in p.chunks_exact_mut(k) {
            let all: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= all);
            logs.push(all);
        }
        elementwise::log(self.level, &mut logs);
        // With scales, what is left for a row's own class, and its logarithm.
        let mut own = Vec::with_capacity(count);
        for (i, log) in logs.iter().enumerate() {
            let (w, y) = (weight(self.place, from + i), self.place.of_rows[from + i] as usize);
            let (v, p, u) = (&self.v[i * k..][..k], &self.p[i * k..][..k], &mut self.u[i * k..][..k]);
            if w == 0.0 {
                u.fill(0.0);
                own.push(1.0);
                continue;
            }
            let out = &mut self.out;
            out.value += w * (log - v[y]);
            let others: f64 = p.iter().enumerate().filter(|(c, _)| *c != y).map(|(_, p)| p).sum();
            let scale = self.place.scales.get(y).copied().unwrap_or(1.0);
            let mut along = 0.0;
            for c in 0..k {
                let chance = if c == y { -others } else { p[c] };
                u[c] = w * scale * chance;
                along += p[c] * v[c];
                if let Some(side) = out.sides.get_mut(y * k + c) {
                    *side += w * if c == y { 0.0 } else { p[c] };
                }
            }
            match self.place.scales.is_empty() {
                true => {
                    out.bound -= w * (along - log);
                    own.push(1.0);
                }
                false => {
                    if scale > 0.0 {
                        let rest = along - p[y] * v[y] + others * (self.log_scales[y] - log);
                        out.bound -= w * scale * rest;
                    }
                    own.push(p[y] + (1.0 - scale) * others);
                }
            }
        }
        if !self.place.scales.is_empty() {
            let left = own.clone();
            elementwise::log(self.level, &mut own);
            for (i, (left, log)) in left.iter().zip(own).enumerate().filter(|(_, (left, _))| **left > 0.0) {
                self.out.bound -= weight(self.place, from + i) * left * log;
            }
        }
    }

    fn finish(mut self) -> Sums {
        self.out.products = self.gram.map_or(vec![], |gram| gram.finish());
        self.out
    }
}

fn weight(place: &SlopesQuery, row: usize) -> f64 {
    place.weights.get(row).copied().unwrap_or(1.0)
}
