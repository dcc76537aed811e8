//! What one round sums up for every query: the moments of the learnt rows and their targets, weighted by distance.
//!
//! Rows are taken in batches. Of a batch the products of all pairs of columns are written out once and multiplied with the weights for all
//! queries, as one matrix product. Gaussian weights are relative to the nearest row so far, so that they are never all zero however
//! far a query is; where a nearer row comes, what was summed up is scaled down to it.
//!
//! ```text
//!   queries × rows of a batch        rows of a batch × terms            queries × terms
//!   weights                     ·    1, y, x, x y, x xᵀ            ──▶  sums
//! ```

use super::params::Kernel;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::{Level, elementwise};
use qjam::{Ctx, Dense, Reduce};

/// Rows whose products are written out together.
pub(super) const BATCH: usize = 128;

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Queries {
    /// The kernel's place among all.
    kernel: u8,
    bandwidth: f64,
    /// Taken off rows and queries, so that products lose few digits.
    centre: Vec<f64>,
    /// Taken off targets.
    target: f64,
    /// Row by row, less the centre.
    rows: Vec<f64>,
}

impl Queries {
    /// Rows to be predicted, as they are.
    pub(super) fn new(
        kernel: Kernel,
        bandwidth: f64,
        (centre, target): (&[f64], f64),
        rows: &[f64],
    ) -> Queries {
        let place = Kernel::ALL.iter().position(|known| *known == kernel).unwrap_or(0);
        let moved = rows.chunks_exact(centre.len()).flat_map(|row| row.iter().zip(centre));
        let rows = moved.map(|(value, centre)| value - centre).collect();
        Queries { kernel: place as u8, bandwidth, centre: centre.to_vec(), target, rows }
    }

    /// Queries, less the centre.
    pub(super) fn rows(&self) -> std::slice::ChunksExact<'_, f64> {
        self.rows.chunks_exact(self.centre.len())
    }
}

/// How many numbers are summed up for a query over so many columns.
pub(super) fn terms(columns: usize) -> usize {
    2 + 2 * columns + columns * (columns + 1) / 2
}

/// Sums for every query.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Sums {
    /// The squared distance of the nearest row, which the weights are relative to; infinity before there is any.
    nearest: Vec<f64>,
    /// For every query: weights; weighted targets; columns; columns by targets; the upper triangle of columns by columns.
    sums: Vec<f64>,
    /// What squared distances are divided by in the exponent, negative; 0 for kernels that end.
    falls: f64,
}

impl Sums {
    /// The sums of each query.
    pub(super) fn each(&self) -> std::slice::ChunksExact<'_, f64> {
        self.sums.chunks_exact(self.sums.len() / self.nearest.len().max(1))
    }

    /// How much less what is relative to one distance counts relative to another.
    fn less(&self, from: f64, to: f64) -> f64 {
        // Nothing was summed up yet where the distance is infinite.
        if from.is_infinite() { 0.0 } else { ((from - to) * self.falls).exp() }
    }
}

impl Reduce for Sums {
    fn merge(&mut self, right: Self) {
        if self.falls == 0.0 {
            self.sums.iter_mut().zip(&right.sums).for_each(|(left, right)| *left += right);
            return;
        }
        let width = self.sums.len() / self.nearest.len().max(1);
        for (query, sums) in right.sums.chunks_exact(width).enumerate() {
            let (left, right) = (self.nearest[query], right.nearest[query]);
            let nearest = left.min(right);
            let (of_left, of_right) = (self.less(left, nearest), self.less(right, nearest));
            self.nearest[query] = nearest;
            let own = &mut self.sums[query * width..][..width];
            own.iter_mut().zip(sums).for_each(|(left, right)| *left = *left * of_left + right * of_right);
        }
    }
}

/// The sums over the rows of a chunk, whose last two columns are targets and weights.
#[qjam::map]
pub fn sums(queries: &Queries, x: &Dense<f64>, _: &Ctx) -> Sums {
    sums_of(queries, x)
}
qjam::register!(sums);

/// The same without a round.
pub(super) fn sums_of(queries: &Queries, x: &Dense<f64>) -> Sums {
    let (columns, count) = (queries.centre.len(), queries.rows().len());
    let kernel = Kernel::ALL[usize::from(queries.kernel).min(Kernel::ALL.len() - 1)];
    let falls = if kernel == Kernel::Gaussian { -0.5 / queries.bandwidth.powi(2) } else { 0.0 };
    let width = terms(columns);
    let mut found = Sums { nearest: vec![f64::INFINITY; count], sums: vec![0.0; count * width], falls };
    let mut products = vec![0.0; BATCH * width];
    // Column by column, so that distances to all rows of a batch are computed side by side.
    let mut by_column = vec![0.0; BATCH * columns];
    let mut weights = vec![0.0; count * BATCH];
    for first in (0..x.rows()).step_by(BATCH) {
        let rows = BATCH.min(x.rows() - first);
        for at in 0..rows {
            let row = x.row(first + at);
            let (target, weight) = (row[columns] - queries.target, row[columns + 1]);
            let product = &mut products[at * width..][..width];
            product[0] = weight;
            product[1] = weight * target;
            let mut next = 2 + 2 * columns;
            for i in 0..columns {
                let value = row[i] - queries.centre[i];
                by_column[i * BATCH + at] = value;
                product[2 + i] = weight * value;
                product[2 + columns + i] = weight * value * target;
                for (other, centre) in row[i..columns].iter().zip(&queries.centre[i..]) {
                    product[next] = weight * value * (other - centre);
                    next += 1;
                }
            }
        }
        for (query, (row, weights)) in queries.rows().zip(weights.chunks_exact_mut(BATCH)).enumerate() {
            let weights = &mut weights[..rows];
            weights.fill(0.0);
            for (value, column) in row.iter().zip(by_column.chunks_exact(BATCH)) {
                for (square, other) in weights.iter_mut().zip(column) {
                    let apart = other - value;
                    *square += apart * apart;
                }
            }
            if kernel == Kernel::Gaussian {
                let before = found.nearest[query];
                let nearest = weights.iter().copied().fold(before, f64::min);
                if nearest < before {
                    let less = found.less(before, nearest);
                    found.sums[query * width..][..width].iter_mut().for_each(|sum| *sum *= less);
                    found.nearest[query] = nearest;
                }
                weights.iter_mut().for_each(|square| *square = (*square - nearest) * falls);
                elementwise::exp(Level::best(), weights);
            } else {
                let reach = queries.bandwidth * queries.bandwidth;
                weights.iter_mut().for_each(|square| *square = ending(kernel, *square / reach));
            }
        }
        let size = Size { rows: count, inner: rows, cols: width };
        let left = Left::Rows { values: &weights, stride: BATCH };
        add_product(Level::best(), size, left, (&products[..rows * width], width), (&mut found.sums, width));
    }
    found
}

/// The weight at a squared distance, in units of the bandwidth, by a kernel that ends there.
fn ending(kernel: Kernel, square: f64) -> f64 {
    if square >= 1.0 {
        return 0.0;
    }
    match kernel {
        Kernel::Tricube => (1.0 - square * square.sqrt()).powi(3),
        _ => 1.0 - square,
    }
}
