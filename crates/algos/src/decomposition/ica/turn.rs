//! A round of the fixed point: how the contrast pulls each direction.
//!
//! For the rows `x` less their mean and a direction `b`, with `y = b·x`, a chunk gives the sums of `g(y) x` and of `g′(y)`. The
//! direction already has the whitening in it, so rows are multiplied as they are.

use super::params::Contrast;
use crate::kernels::aligned::Aligned;
use crate::kernels::deviations::less;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use crate::projection::by_column;
use qjam::{Ctx, Dense};

/// Rows that are taken together.
const BATCH: usize = 128;
/// Lanes of the widest register, to which columns are filled up.
const LANES: usize = 8;

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Directions {
    contrast: Contrast,
    /// Mean of each column, filled up with zeros.
    mean: Vec<f64>,
    columns: u32,
    count: u32,
    /// Column by column, filled up with zeros.
    by_column: Vec<f64>,
}

impl Directions {
    /// Directions that are given one after the other.
    pub(super) fn new(contrast: Contrast, mean: &[f64], directions: &[f64]) -> Directions {
        let d = mean.len();
        let (by_column, _) = by_column(directions, d);
        let mut filled = mean.to_vec();
        filled.resize(d.next_multiple_of(LANES), 0.0);
        let count = (directions.len() / d) as u32;
        Directions { contrast, mean: filled, columns: d as u32, count, by_column }
    }
}

/// What a round gives.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Pull {
    /// For each direction the sums of `g(y) x`.
    pub(super) rows: Vec<f64>,
    /// For each direction the sum of `g′(y)`.
    pub(super) slopes: Vec<f64>,
}

/// How the rows of a chunk pull directions.
#[qjam::map]
pub fn pull<C: RowChunk>(directions: &Directions, x: &C, _: &Ctx) -> Pull {
    let (d, k, level) = (directions.columns as usize, directions.count as usize, Level::best());
    let (width, wide) = (directions.mean.len(), directions.by_column.len() / d);
    let batch = BATCH.min(x.count());
    let (mut rows, mut apart) = (Aligned::zeros(batch * width), Aligned::zeros(batch * width));
    let (mut y, mut steep) = (Aligned::zeros(batch * wide), vec![0.0; batch * wide]);
    let (mut sums, mut slopes) = (vec![0.0; k * width], vec![0.0; wide]);
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        let (rows, apart) = (&mut rows[..count * width], &mut apart[..count * width]);
        let (y, steep) = (&mut y[..count * wide], &mut steep[..count * wide]);
        for (row, to) in (first..first + count).zip(rows.chunks_exact_mut(width)) {
            x.write(row, &mut to[..d]);
        }
        less(level, rows, &directions.mean, apart);
        y.fill(0.0);
        let left = Left::Rows { values: apart, stride: width };
        let size = Size { rows: count, inner: d, cols: wide };
        add_product(level, size, left, (&directions.by_column, wide), (y, wide));
        contrast(directions.contrast, y, steep);
        for row in steep.chunks_exact(wide) {
            slopes.iter_mut().zip(row).for_each(|(sum, slope)| *sum += slope);
        }
        let left = Left::Columns { values: y, stride: wide };
        let size = Size { rows: k, inner: count, cols: width };
        add_product(level, size, left, (apart, width), (&mut sums, width));
    }
    slopes.truncate(k);
    Pull { rows: sums.chunks_exact(width).flat_map(|row| &row[..d]).copied().collect(), slopes }
}
qjam::register!(pull::<Dense<f32>>, pull::<Dense<f64>>);

/// Replaces numbers by the contrast of them, and writes its slopes.
fn contrast(contrast: Contrast, y: &mut [f64], steep: &mut [f64]) {
    match contrast {
        Contrast::LogCosh(alpha) => {
            y.iter_mut().for_each(|y| *y *= alpha);
            elementwise::tanh(Level::best(), y);
            steep.iter_mut().zip(&*y).for_each(|(slope, g)| *slope = alpha * (1.0 - g * g));
        }
        Contrast::Exp => {
            steep.iter_mut().zip(&*y).for_each(|(e, y)| *e = -0.5 * (y * y));
            elementwise::exp(Level::best(), steep);
            for (y, slope) in y.iter_mut().zip(steep) {
                let e = *slope;
                *slope = (1.0 - *y * *y) * e;
                *y *= e;
            }
        }
        Contrast::Cube => {
            for (y, slope) in y.iter_mut().zip(steep) {
                let square = *y * *y;
                *slope = 3.0 * square;
                *y *= square;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_contrasts() {
        for of in [Contrast::LogCosh(1.0), Contrast::LogCosh(1.5), Contrast::Exp, Contrast::Cube] {
            for at in [-1.3, -0.2, 0.0, 0.7, 2.0] {
                let h = 1e-6;
                let (mut y, mut steep) = (vec![at - h, at, at + h], vec![0.0; 3]);
                contrast(of, &mut y, &mut steep);
                assert!(((y[2] - y[0]) / (2.0 * h) - steep[1]).abs() < 1e-8, "{of:?} at {at}");
            }
        }
    }

    #[test]
    fn a_pull_is_the_sum_over_rows() {
        let x = Dense::from_vec(vec![1.0, 2.0, -1.0, 0.5, 3.0, 1.0], 2).unwrap();
        let (mean, b) = ([0.5, 1.0], [0.6, 0.8, 1.0, -1.0]);
        let found = pull(&Directions::new(Contrast::Cube, &mean, &b), &x, &Ctx::for_test(0, 0, 0));
        let (mut rows, mut slopes) = ([0.0; 4], [0.0; 2]);
        for row in x.as_slice().chunks(2) {
            let c = [row[0] - mean[0], row[1] - mean[1]];
            for j in 0..2 {
                let y: f64 = b[2 * j] * c[0] + b[2 * j + 1] * c[1];
                slopes[j] += 3.0 * y * y;
                (0..2).for_each(|i| rows[2 * j + i] += y.powi(3) * c[i]);
            }
        }
        for (a, b) in found.rows.iter().zip(&rows).chain(found.slopes.iter().zip(&slopes)) {
            assert!((a - b).abs() < 1e-12, "{found:?}");
        }
    }
}
