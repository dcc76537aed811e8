//! Rounds of the randomised method: covariances times a few directions, without forming the covariances.
//!
//! The master has orthonormal directions `Q`. A round gives `Σ (x − mean) ((x − mean)ᵀ Q)`, which are the covariances times `Q`; made
//! orthonormal again they are closer to the first components. Of sparse rows only what is stored is multiplied: the means are
//! taken off the sums afterwards.

use crate::kernels::Level;
use crate::kernels::gram::Cross;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::vectors::add_scaled;
use crate::linear::rows::RowChunk;
use crate::moments::{BATCH, each_batch};
use crate::projection::by_column;
use qjam::{Csr, Ctx, Dense};

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Directions {
    /// Mean of each column.
    mean: Vec<f64>,
    /// How many directions.
    count: u32,
    /// Column by column, filled up to whole registers with zeros.
    by_column: Vec<f64>,
}

impl Directions {
    /// Directions that are given one after the other.
    pub fn new(mean: Vec<f64>, directions: &[f64]) -> Directions {
        let (by_column, _) = by_column(directions, mean.len());
        Directions { count: (directions.len() / mean.len()) as u32, mean, by_column }
    }

    fn width(&self) -> usize {
        self.by_column.len() / self.mean.len()
    }
}

/// What a round gives: for each column as many sums as there are directions.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Images {
    /// Column by column.
    pub sums: Vec<f64>,
}

impl Images {
    /// The images of the directions, one after the other.
    pub fn rows(&self, count: usize) -> Vec<f64> {
        let columns = self.sums.len() / count.max(1);
        (0..self.sums.len()).map(|at| self.sums[at % columns * count + at / columns]).collect()
    }
}

/// The covariances of a chunk's rows, not divided by their number, times directions.
#[qjam::map]
pub fn images<C: RowChunk>(directions: &Directions, x: &C, _: &Ctx) -> Images {
    match C::IN_FULL {
        true => of_dense(directions, x),
        false => of_sparse(directions, x),
    }
}
qjam::register!(images::<Dense<f32>>, images::<Dense<f64>>, images::<Csr<f32>>, images::<Csr<f64>>);

fn of_dense<C: RowChunk>(directions: &Directions, x: &C) -> Images {
    let (columns, width) = (x.width(), directions.width());
    let mut cross = Cross::new(columns, width);
    let mut coordinates = vec![0.0; BATCH * width];
    each_batch(x, &directions.mean, |batch| {
        let rows = batch.len() / columns;
        let coordinates = &mut coordinates[..rows * width];
        coordinates.fill(0.0);
        let left = Left::Rows { values: &*batch, stride: columns };
        let size = Size { rows, inner: columns, cols: width };
        add_product(Level::best(), size, left, (&directions.by_column, width), (coordinates, width));
        cross.add(Level::best(), &*batch, &*coordinates, None);
    });
    trimmed(cross.finish(), width, directions.count as usize)
}

fn of_sparse<C: RowChunk>(directions: &Directions, x: &C) -> Images {
    let (columns, width) = (x.width(), directions.width());
    let mut shift = vec![0.0; width];
    for (row, mean) in directions.by_column.chunks_exact(width).zip(&directions.mean) {
        add_scaled(&mut shift, *mean, row);
    }
    let (mut sums, mut total) = (vec![0.0; columns * width], vec![0.0; width]);
    let mut z = vec![0.0; width];
    for row in 0..x.count() {
        z.iter_mut().zip(&shift).for_each(|(z, shift)| *z = -shift);
        x.each(row, &mut |column, value| {
            add_scaled(&mut z, value, &directions.by_column[column * width..][..width])
        });
        x.each(row, &mut |column, value| add_scaled(&mut sums[column * width..][..width], value, &z));
        add_scaled(&mut total, 1.0, &z);
    }
    for (row, mean) in sums.chunks_exact_mut(width).zip(&directions.mean) {
        add_scaled(row, -mean, &total);
    }
    trimmed(sums, width, directions.count as usize)
}

/// Without what fills up registers.
fn trimmed(sums: Vec<f64>, width: usize, count: usize) -> Images {
    Images { sums: sums.chunks_exact(width).flat_map(|row| &row[..count]).copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_rows_have_the_images_of_the_definition() {
        let rows = [1.0, 0.0, 2.0, 0.0, -3.0, 0.5];
        let dense = Dense::from_vec(rows.to_vec(), 3).unwrap();
        let sparse =
            Csr::from_vecs(vec![0, 2, 4], vec![0, 2, 1, 2], vec![1.0, 2.0, -3.0, 0.5], 3, None).unwrap();
        let (mean, q) = (vec![0.5, -1.5, 1.25], [0.6, 0.0, 0.8, 0.0, 1.0, 0.0]);
        let directions = Directions::new(mean.clone(), &q);
        let mut expected = vec![0.0; 6];
        for row in rows.chunks(3) {
            let c: Vec<f64> = row.iter().zip(&mean).map(|(x, m)| x - m).collect();
            for j in 0..2 {
                let z: f64 = c.iter().zip(&q[j * 3..]).map(|(c, q)| c * q).sum();
                (0..3).for_each(|i| expected[j * 3 + i] += c[i] * z);
            }
        }
        for found in [of_dense(&directions, &dense), of_sparse(&directions, &sparse)] {
            for (a, b) in found.rows(2).iter().zip(&expected) {
                assert!((a - b).abs() < 1e-14, "{found:?} {expected:?}");
            }
        }
    }
}
