//! Sums over rows of products of their columns: `XᵀX`, `XᵀWX` and `XᵀWY`, in 64 bits.
//!
//! Element `(i, j)` is one chain over the rows in order: `w x[i]` is rounded (without weights it is `x[i]`), multiplied by
//! `x[j]` and added with one rounding. Of a symmetric matrix only the half with `i <= j` is summed and then
//! mirrored, so it is symmetric to the bit. Rows in 32 bits are widened first. Rows can be added in pieces of any size: the
//! bits are those of all at once.
//!
//! ```
//! use qjam_algos::kernels::{Level, gram::Gram};
//! let mut gram = Gram::new(2);
//! gram.add(Level::best(), &[1.0_f32, 2.0, 3.0, 4.0], None);
//! assert_eq!(gram.finish(), [10.0, 14.0, 14.0, 20.0]);
//! ```

use super::Level;
use super::aligned::Aligned;
use super::multiply::{Left, Size, add_product};
use super::nearest::Real;

/// Rows that are widened and multiplied together.
const ROWS: usize = 128;
/// Rows of the result that are done together: what is left of the diagonal in them is computed for nothing.
const BAND: usize = 12;
/// Lanes of the widest register, to which columns are filled up.
const LANES: usize = 8;

/// A sum of outer products of rows with themselves.
#[derive(Debug)]
pub struct Gram {
    columns: usize,
    width: usize,
    sums: Aligned,
    batch: Batch,
}

impl Gram {
    /// Zeros, for rows of so many columns.
    pub fn new(columns: usize) -> Gram {
        let width = columns.next_multiple_of(LANES);
        Gram { columns, width, sums: Aligned::zeros(columns * width), batch: Batch::new(width) }
    }

    /// Adds row-major rows, each with its weight if there are any.
    ///
    /// Panics if the rows are not whole, or if there is not one weight for each.
    pub fn add<T: Real>(&mut self, level: Level, rows: &[T], weights: Option<&[f64]>) {
        let Gram { columns, width, sums, batch } = self;
        if *columns == 0 {
            return;
        }
        pieces(rows, *columns, weights, |rows, weights| {
            let count = batch.take(rows, *columns, weights);
            let left = if weights.is_some() { &batch.weighted } else { &batch.rows };
            for first in (0..*columns).step_by(BAND) {
                let from = first / LANES * LANES;
                let size = Size { rows: BAND.min(*columns - first), inner: count, cols: *width - from };
                let left = Left::Columns { values: &left[first..], stride: *width };
                let out = &mut sums[first * *width + from..];
                add_product(level, size, left, (&batch.rows[from..], *width), (out, *width));
            }
        });
    }

    /// The whole matrix, columns × columns.
    pub fn finish(&self) -> Vec<f64> {
        let at = |i: usize, j: usize| self.sums[i.min(j) * self.width + i.max(j)];
        (0..self.columns * self.columns).map(|n| at(n / self.columns, n % self.columns)).collect()
    }
}

/// A sum of outer products of the rows of two matrices.
#[derive(Debug)]
pub struct Cross {
    columns: [usize; 2],
    sums: Aligned,
    batches: [Batch; 2],
}

impl Cross {
    /// Zeros, for rows of so many columns left and right.
    pub fn new(left: usize, right: usize) -> Cross {
        let width = right.next_multiple_of(LANES);
        let batches = [Batch::new(left.next_multiple_of(LANES)), Batch::new(width)];
        Cross { columns: [left, right], sums: Aligned::zeros(left * width), batches }
    }

    /// Adds pairs of row-major rows, each with its weight if there are any.
    ///
    /// Panics if the rows are not whole, or if there are not as many on both sides and one weight for each.
    pub fn add<T: Real, U: Real>(&mut self, level: Level, left: &[T], right: &[U], weights: Option<&[f64]>) {
        let Cross { columns: [cols_left, cols_right], sums, batches: [batch_left, batch_right] } = self;
        if *cols_left == 0 || *cols_right == 0 {
            return;
        }
        assert_eq!(left.len() / *cols_left, right.len() / *cols_right, "rows on both sides");
        let mut rights = right.chunks(ROWS * *cols_right);
        pieces(left, *cols_left, weights, |rows, weights| {
            let count = batch_left.take(rows, *cols_left, weights);
            batch_right.take(rights.next().unwrap_or_default(), *cols_right, None);
            let a = if weights.is_some() { &batch_left.weighted } else { &batch_left.rows };
            let size = Size { rows: *cols_left, inner: count, cols: batch_right.width };
            let a = Left::Columns { values: &a[..], stride: batch_left.width };
            add_product(level, size, a, (&batch_right.rows, batch_right.width), (sums, batch_right.width));
        });
    }

    /// The whole matrix, columns on the left × columns on the right.
    pub fn finish(&self) -> Vec<f64> {
        let rows = self.sums.chunks_exact(self.batches[1].width.max(1));
        rows.flat_map(|row| &row[..self.columns[1]]).copied().collect()
    }
}

/// A few rows in 64 bits, filled up to whole registers.
#[derive(Debug)]
struct Batch {
    width: usize,
    rows: Aligned,
    /// The same times their weights, if there are any.
    weighted: Aligned,
}

impl Batch {
    fn new(width: usize) -> Batch {
        Batch { width, rows: Aligned::zeros(ROWS * width), weighted: Aligned::default() }
    }

    /// Takes rows in and says how many.
    fn take<T: Real>(&mut self, rows: &[T], columns: usize, weights: Option<&[f64]>) -> usize {
        for (to, from) in self.rows.chunks_exact_mut(self.width).zip(rows.chunks_exact(columns)) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.to_f64();
            }
        }
        if let Some(weights) = weights {
            if self.weighted.is_empty() {
                self.weighted = Aligned::zeros(ROWS * self.width);
            }
            let both = self.weighted.chunks_exact_mut(self.width).zip(self.rows.chunks_exact(self.width));
            for ((to, from), weight) in both.zip(weights) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = weight * from;
                }
            }
        }
        rows.len() / columns
    }
}

/// Rows and weights a batch at a time.
fn pieces<T>(
    rows: &[T],
    columns: usize,
    weights: Option<&[f64]>,
    mut each: impl FnMut(&[T], Option<&[f64]>),
) {
    assert!(rows.len().is_multiple_of(columns), "{} values are no whole rows of {columns}", rows.len());
    if let Some(weights) = weights {
        assert_eq!(weights.len(), rows.len() / columns, "weights for rows");
    }
    let mut weights = weights.map(|w| w.chunks(ROWS));
    for rows in rows.chunks(ROWS * columns) {
        each(rows, weights.as_mut().map(|w| w.next().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Rng::keyed(seed, 0, 0);
        (0..count).map(|_| random.uniform() * 2.0 - 1.0).collect()
    }

    /// The definition.
    fn reference(x: &[f64], d: usize, y: &[f64], e: usize, weights: Option<&[f64]>) -> Vec<f64> {
        let mut sums = vec![0.0; d * e];
        for (p, (x, y)) in x.chunks(d).zip(y.chunks(e)).enumerate() {
            for i in 0..d {
                let left = weights.map_or(x[i], |w| w[p] * x[i]);
                for j in 0..e {
                    sums[i * e + j] = left.mul_add(y[j], sums[i * e + j]);
                }
            }
        }
        sums
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn every_level_and_every_cut_give_the_bits_of_the_definition() {
        for (rows, d, e) in [(300, 30, 3), (129, 64, 8), (5, 1, 1), (40, 13, 41), (0, 3, 2)] {
            let (x, y, w) = (noise(rows * d, 1), noise(rows * e, 2), noise(rows, 3));
            for weights in [None, Some(&w[..])] {
                let mut expected = reference(&x, d, &x, d, weights);
                for i in 0..d {
                    for j in 0..i {
                        expected[i * d + j] = expected[j * d + i];
                    }
                }
                let cross = reference(&x, d, &y, e, weights);
                for level in Level::available() {
                    let (mut gram, mut both) = (Gram::new(d), Cross::new(d, e));
                    // In one piece, then again in two.
                    gram.add(level, &x, weights);
                    both.add(level, &x, &y, weights);
                    assert_eq!(bits(&gram.finish()), bits(&expected), "{level} {d}");
                    assert_eq!(bits(&both.finish()), bits(&cross), "{level} {d} {e}");
                    let cut = rows / 3;
                    let mut gram = Gram::new(d);
                    for (x, w) in
                        [(0, cut), (cut, rows)].map(|(a, b)| (&x[a * d..b * d], weights.map(|w| &w[a..b])))
                    {
                        gram.add(level, x, w);
                    }
                    assert_eq!(bits(&gram.finish()), bits(&expected), "{level} {d} in two pieces");
                }
            }
        }
    }

    #[test]
    fn rows_in_32_bits_are_summed_in_64() {
        let narrow = [16_777_216.0_f32, 1.0, 1.0, 1.0];
        let mut gram = Gram::new(1);
        gram.add(Level::best(), &narrow, None);
        assert_eq!(gram.finish(), [281_474_976_710_659.0]);
    }
}
