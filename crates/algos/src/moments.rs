//! Means, variances and covariances of columns, found in one round and merged without losing digits.
//!
//! A chunk finds its means first and sums products of deviations from them, so large means cost no digits; chunks are merged along
//! the fixed tree by the formulas of Chan, Golub and LeVeque. Products of dense batches go through the blocked kernels.

use crate::answers::{BadNumber, further, not_finite};
use crate::kernels::Level;
use crate::kernels::gram::Gram;
use crate::kernels::vectors::add_scaled;
use crate::linear::rows::RowChunk;
use qjam::{Csr, Ctx, Dense, Reduce};

/// Rows that are written in full and multiplied together.
pub const BATCH: usize = 128;

/// How many rows there are, their means, and sums of products of deviations.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Scatter {
    /// Rows seen.
    pub rows: u64,
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Sums of the products of deviations: all pairs of columns, or each column with itself.
    pub products: Vec<f64>,
    /// The first number that is not finite.
    pub bad: BadNumber,
}

impl Reduce for Scatter {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        if right.rows == 0 {
            return;
        }
        let (left_rows, right_rows) = (self.rows as f64, right.rows as f64);
        let share = right_rows / (left_rows + right_rows);
        let between = left_rows * share;
        let apart: Vec<f64> = right.mean.iter().zip(&self.mean).map(|(right, left)| right - left).collect();
        add_scaled(&mut self.mean, share, &apart);
        add_scaled(&mut self.products, 1.0, &right.products);
        if self.products.len() == apart.len() {
            self.products
                .iter_mut()
                .zip(&apart)
                .for_each(|(product, apart)| *product += between * apart * apart);
        } else {
            for (row, value) in self.products.chunks_exact_mut(apart.len().max(1)).zip(&apart) {
                // In this order, so that the matrix stays symmetric to the bit.
                row.iter_mut().zip(&apart).for_each(|(sum, other)| *sum += between * (value * other));
            }
        }
        self.rows += right.rows;
    }
}

/// The mean of each column of a chunk.
fn means<C: RowChunk>(x: &C) -> Vec<f64> {
    let (mut sums, mut full) = (vec![0.0; x.width()], vec![0.0; x.width()]);
    for row in 0..x.count() {
        match C::IN_FULL {
            true => {
                x.write(row, &mut full);
                sums.iter_mut().zip(&full).for_each(|(sum, value)| *sum += value);
            }
            false => x.each(row, &mut |column, value| sums[column] += value),
        }
    }
    sums.iter_mut().for_each(|sum| *sum /= x.count().max(1) as f64);
    sums
}

/// Hands over the rows of a chunk in full, less some numbers, a batch at a time.
pub fn each_batch<C: RowChunk>(x: &C, shift: &[f64], mut take: impl FnMut(&mut [f64])) {
    let width = x.width();
    let mut batch = vec![0.0; BATCH.min(x.count()) * width];
    for first in (0..x.count()).step_by(BATCH) {
        let rows = BATCH.min(x.count() - first);
        for (row, to) in (first..first + rows).zip(batch.chunks_exact_mut(width.max(1))) {
            x.write(row, to);
            to.iter_mut().zip(shift).for_each(|(value, shift)| *value -= shift);
        }
        take(&mut batch[..rows * width]);
    }
}

/// Means and covariances of a chunk, the latter not yet divided by a number of rows.
#[qjam::map]
pub fn covariances<C: RowChunk>(_: &(), x: &C, _: &Ctx) -> Scatter {
    let (mean, mut gram) = (means(x), Gram::new(x.width()));
    each_batch(x, &mean, |rows| gram.add(Level::best(), rows, None));
    Scatter { rows: x.count() as u64, mean, products: gram.finish(), bad: not_finite(x) }
}
qjam::register!(
    covariances::<Dense<f32>>,
    covariances::<Dense<f64>>,
    covariances::<Csr<f32>>,
    covariances::<Csr<f64>>
);

/// Means and variances of a chunk, the latter not yet divided by a number of rows.
#[qjam::map]
pub fn variances<C: RowChunk>(_: &(), x: &C, _: &Ctx) -> Scatter {
    let mean = means(x);
    let mut products = vec![0.0; x.width()];
    if C::IN_FULL {
        each_batch(x, &mean, |rows| {
            for row in rows.chunks_exact(mean.len().max(1)) {
                products.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * value);
            }
        });
    } else {
        // Every column deviates by its mean in the rows that do not store it.
        let mut stored = vec![0_u64; x.width()];
        for row in 0..x.count() {
            x.each(row, &mut |column, value| {
                let deviation = value - mean[column];
                products[column] += deviation * deviation;
                stored[column] += 1;
            });
        }
        for ((product, mean), stored) in products.iter_mut().zip(&mean).zip(stored) {
            *product += (x.count() as u64 - stored) as f64 * (mean * mean);
        }
    }
    Scatter { rows: x.count() as u64, mean, products, bad: not_finite(x) }
}
qjam::register!(
    variances::<Dense<f32>>,
    variances::<Dense<f64>>,
    variances::<Csr<f32>>,
    variances::<Csr<f64>>
);

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::{DataSet, Master};

    #[test]
    fn moments_of_any_cut_are_those_of_all_rows_and_large_means_cost_no_digits() {
        let values: Vec<f64> = (0..300).map(|i| f64::from(i * i % 37) + f64::from(i % 3) * 1e8).collect();
        let master = Master::builder().no_run_file().connect("local:2").unwrap();
        let near: Vec<f64> = values.iter().enumerate().map(|(i, v)| v - (i % 3) as f64 * 1e8).collect();
        let mean: Vec<f64> = (0..3).map(|j| near.chunks(3).map(|row| row[j]).sum::<f64>() / 100.0).collect();
        let product = |i: usize, j: usize| -> f64 {
            near.chunks(3).map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum()
        };
        for rows in [1, 7, 100] {
            let data = DataSet::dense(values.clone(), 3).unwrap().chunk_records(rows).unwrap();
            let full: Scatter = master.run(covariances::<Dense<f64>>, &(), &data).unwrap();
            let diagonal: Scatter = master.run(variances::<Dense<f64>>, &(), &data).unwrap();
            for (i, mean) in mean.iter().enumerate() {
                assert!((full.mean[i] - mean - i as f64 * 1e8).abs() < 1e-6, "{rows}");
                assert!((diagonal.products[i] - product(i, i)).abs() < 1e-5 * product(i, i), "{rows}");
                for j in 0..3 {
                    let scale = (product(i, i) * product(j, j)).sqrt();
                    assert!(
                        (full.products[i * 3 + j] - product(i, j)).abs() < 1e-5 * scale,
                        "{rows} {i} {j}"
                    );
                    assert_eq!(full.products[i * 3 + j].to_bits(), full.products[j * 3 + i].to_bits());
                }
            }
        }
    }

    #[test]
    fn sparse_rows_have_the_moments_of_dense_ones() {
        let sparse = Csr::from_vecs(vec![0, 1, 1, 3], vec![1, 0, 1], vec![2.0, -1.0, 4.0], 2, None).unwrap();
        let dense = Dense::from_vec(vec![0.0, 2.0, 0.0, 0.0, -1.0, 4.0], 2).unwrap();
        let master = Master::builder().no_run_file().connect("local:1").unwrap();
        let sparse = DataSet::csr(&sparse).unwrap();
        let dense = DataSet::dense(dense.as_slice().to_vec(), 2).unwrap();
        let of_sparse: Scatter = master.run(covariances::<Csr<f64>>, &(), &sparse).unwrap();
        assert_eq!(of_sparse, master.run(covariances::<Dense<f64>>, &(), &dense).unwrap());
        let of_sparse: Scatter = master.run(variances::<Csr<f64>>, &(), &sparse).unwrap();
        let of_dense: Scatter = master.run(variances::<Dense<f64>>, &(), &dense).unwrap();
        for (a, b) in of_sparse.products.iter().zip(of_dense.products) {
            assert!((a - b).abs() < 1e-14);
        }
    }
}
