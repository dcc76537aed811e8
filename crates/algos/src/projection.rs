//! Rows times a few vectors, as one round: scores of classes, coordinates along components.
//!
//! Dense rows are shifted and go through the blocked matrix product, a batch at a time. Of sparse rows only what is stored is
//! multiplied, and what the shift takes off is taken off the constants.

use crate::answers::{RowNumbers, not_finite};
use crate::kernels::Level;
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::vectors::add_scaled;
use crate::linear::rows::RowChunk;
use crate::moments::{BATCH, each_batch};
use qjam::{Csr, Ctx, Dense};

/// Lanes of the widest register, to which vectors are filled up.
const LANES: usize = 8;

/// Vectors column by column: element `(column, vector)` of rows that are filled up to whole registers with zeros.
pub(crate) fn by_column(vectors: &[f64], columns: usize) -> (Vec<f64>, usize) {
    let width = (vectors.len() / columns.max(1)).next_multiple_of(LANES);
    let mut filled = vec![0.0; columns * width];
    for (at, value) in vectors.iter().enumerate() {
        filled[at % columns * width + at / columns] = *value;
    }
    (filled, width)
}

/// What makes `outputs` numbers of each row: `(x − shift) Wᵀ + constants`.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Projection {
    outputs: u32,
    /// Column by column.
    weights: Vec<f64>,
    /// One for each column; empty for none.
    shift: Vec<f64>,
    /// One for each output, filled up like the weights.
    constants: Vec<f64>,
}

impl Projection {
    /// Of vectors that are given one after the other, each with its constant.
    pub fn new(vectors: &[f64], shift: Vec<f64>, mut constants: Vec<f64>) -> Projection {
        let outputs = constants.len();
        let (weights, width) = by_column(vectors, vectors.len() / outputs.max(1));
        constants.resize(width, 0.0);
        Projection { outputs: outputs as u32, weights, shift, constants }
    }

    /// The numbers of all rows of a chunk, each of whose own numbers goes through `counted` first; that must leave zeros alone
    /// if the rows are sparse.
    pub fn apply<C: RowChunk>(&self, x: &C, counted: impl Fn(f64) -> f64) -> RowNumbers {
        let mut values = Vec::with_capacity(x.count() * self.outputs as usize);
        match C::IN_FULL {
            true => self.apply_dense(x, counted, &mut values),
            false => self.apply_sparse(x, counted, &mut values),
        }
        RowNumbers { values, rows: x.count() as u64, bad: not_finite(x) }
    }

    fn apply_dense<C: RowChunk>(&self, x: &C, counted: impl Fn(f64) -> f64, values: &mut Vec<f64>) {
        let (inner, cols) = (x.width(), self.constants.len());
        let mut out = vec![0.0; BATCH * cols];
        each_batch(x, &self.shift, |batch| {
            batch.iter_mut().for_each(|value| *value = counted(*value));
            let rows = batch.len() / inner;
            let out = &mut out[..rows * cols];
            out.chunks_exact_mut(cols).for_each(|row| row.copy_from_slice(&self.constants));
            let left = Left::Rows { values: batch, stride: inner };
            add_product(Level::best(), Size { rows, inner, cols }, left, (&self.weights, cols), (out, cols));
            values.extend(out.chunks_exact(cols).flat_map(|row| &row[..self.outputs as usize]));
        });
    }

    fn apply_sparse<C: RowChunk>(&self, x: &C, counted: impl Fn(f64) -> f64, values: &mut Vec<f64>) {
        let width = self.constants.len();
        let mut constants = self.constants.clone();
        for (weights, shift) in self.weights.chunks_exact(width).zip(&self.shift) {
            add_scaled(&mut constants, -shift, weights);
        }
        let mut out = constants.clone();
        for row in 0..x.count() {
            out.copy_from_slice(&constants);
            x.each(row, &mut |column, value| {
                let (value, weights) = (counted(value), &self.weights[column * width..][..width]);
                out.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
            });
            values.extend(&out[..self.outputs as usize]);
        }
    }
}

/// The numbers of the rows of a chunk.
#[qjam::map]
pub fn project<C: RowChunk>(projection: &Projection, x: &C, _: &Ctx) -> RowNumbers {
    projection.apply(x, |value| value)
}
qjam::register!(project::<Dense<f32>>, project::<Dense<f64>>, project::<Csr<f32>>, project::<Csr<f64>>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_rows_have_the_same_numbers() {
        let dense = Dense::from_vec(vec![0.0, 2.0, 1.0, 0.0], 2).unwrap();
        let sparse = Csr::from_vecs(vec![0, 1, 2], vec![1, 0], vec![2.0, 1.0], 2, None).unwrap();
        // Three vectors, more than one register has lanes left over.
        let projection =
            Projection::new(&[1.0, 0.0, 0.0, 1.0, 2.0, -1.0], vec![0.5, 1.0], vec![0.0, 0.0, 10.0]);
        let expected = [-0.5, 1.0, 8.0, 0.5, -1.0, 12.0];
        assert_eq!(projection.apply(&dense, |value| value).values, expected);
        assert_eq!(projection.apply(&sparse, |value| value).values, expected);
    }
}
