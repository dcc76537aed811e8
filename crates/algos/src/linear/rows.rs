//! Rows as learners see them that take few columns at a time: a product with a vector, and rows in full.

use crate::kernels::sparse;
use crate::kernels::vectors::Widened;
use qjam::{Chunk, Csr, Ctx, Dense, Reduce};

/// Chunks of rows: `Dense<f32>`, `Dense<f64>`, `Csr<f32>`, `Csr<f64>`.
pub trait RowChunk: Chunk {
    /// Number of rows.
    fn count(&self) -> usize;
    /// Number of columns.
    fn width(&self) -> usize;
    /// Writes a row in full.
    fn write(&self, row: usize, to: &mut [f64]);
    /// The product of a row with a vector.
    fn times(&self, row: usize, with: &[f64]) -> f64;
    /// The same, whose bits do not depend on zeros that a sparse row may store.
    fn times_nonzero(&self, row: usize, with: &[f64]) -> f64;
    /// Adds a row times a factor to one number for each column.
    fn add_to(&self, row: usize, factor: f64, sums: &mut [f64]);
    /// Adds the squares of a row times a factor to one number for each column.
    fn add_squares_to(&self, row: usize, factor: f64, squares: &mut [f64]);
    /// Adds the products of all pairs of a row's values times a factor to the upper triangle of a matrix with lines of `width`.
    fn add_products_to(&self, row: usize, factor: f64, products: &mut [f64], width: usize);
    /// Tells every stored value of a row with its column.
    fn each(&self, row: usize, tell: &mut impl FnMut(usize, f64));
    /// Column and value of the first number of a row that is not finite.
    fn bad(&self, row: usize) -> Option<(u64, f64)>;
    /// Adds values and their squares to sums by column.
    fn add_moments(&self, row: usize, sums: &mut [f64], squares: &mut [f64]);
    /// The weight that a row brings along: the last column of a row in full, the label of a sparse one. 1 where there is none.
    fn own_weight(&self, row: usize) -> f64;
    /// Whether all values are stored, so that means can be taken off them.
    const IN_FULL: bool;
    /// Adds a row times a weight to `sums`, and its squares to `squares`; where rows are stored in full, less some means.
    fn add_spread(&self, row: usize, weight: f64, means: &[f64], sums: &mut [f64], squares: &mut [f64]);
}

macro_rules! rows {
    ($($value:ty),*) => {$(
        impl RowChunk for Dense<$value> {
            fn count(&self) -> usize {
                self.rows()
            }
            fn width(&self) -> usize {
                self.cols()
            }
            fn write(&self, row: usize, to: &mut [f64]) {
                to.iter_mut().zip(self.row(row)).for_each(|(to, from)| *to = f64::from(*from));
            }
            fn times(&self, row: usize, with: &[f64]) -> f64 {
                Widened::dot(self.row(row), with)
            }
            fn times_nonzero(&self, row: usize, with: &[f64]) -> f64 {
                self.times(row, with)
            }
            fn add_to(&self, row: usize, factor: f64, sums: &mut [f64]) {
                Widened::add_scaled(sums, factor, self.row(row));
            }
            fn add_squares_to(&self, row: usize, factor: f64, squares: &mut [f64]) {
                for (value, square) in self.row(row).iter().zip(squares) {
                    let value = f64::from(*value);
                    *square += factor * (value * value);
                }
            }
            fn add_products_to(&self, row: usize, factor: f64, products: &mut [f64], width: usize) {
                let row = self.row(row);
                for (column, value) in row.iter().enumerate() {
                    let line = &mut products[column * width + column..][..width - column];
                    Widened::add_scaled(line, factor * f64::from(*value), &row[column..]);
                }
            }
            fn each(&self, row: usize, tell: &mut impl FnMut(usize, f64)) {
                self.row(row).iter().enumerate().for_each(|(column, value)| tell(column, f64::from(*value)));
            }
            fn bad(&self, row: usize) -> Option<(u64, f64)> {
                let at = self.row(row).iter().position(|v| !v.is_finite())?;
                Some((at as u64, f64::from(self.row(row)[at])))
            }
            fn add_moments(&self, row: usize, sums: &mut [f64], squares: &mut [f64]) {
                for ((value, sum), square) in self.row(row).iter().zip(sums).zip(squares) {
                    let value = f64::from(*value);
                    *sum += value;
                    *square = value.mul_add(value, *square);
                }
            }
            fn own_weight(&self, row: usize) -> f64 {
                self.row(row).last().map_or(1.0, |weight| f64::from(*weight))
            }
            const IN_FULL: bool = true;
            fn add_spread(&self, row: usize, weight: f64, means: &[f64], sums: &mut [f64], squares: &mut [f64]) {
                for (j, value) in self.row(row).iter().enumerate() {
                    let difference = f64::from(*value) - means[j];
                    sums[j] += weight * difference;
                    squares[j] += weight * (difference * difference);
                }
            }
        }

        impl RowChunk for Csr<$value> {
            fn count(&self) -> usize {
                self.rows()
            }
            fn width(&self) -> usize {
                self.cols()
            }
            fn write(&self, row: usize, to: &mut [f64]) {
                to.fill(0.0);
                let (columns, values) = self.row(row);
                columns.iter().zip(values).for_each(|(column, value)| to[*column as usize] = f64::from(*value));
            }
            fn times(&self, row: usize, with: &[f64]) -> f64 {
                sparse::dot(self.row(row), with)
            }
            fn times_nonzero(&self, row: usize, with: &[f64]) -> f64 {
                let (columns, values) = self.row(row);
                // One chain: a processor works on those of several rows at a time.
                let products = columns.iter().zip(values).map(|(column, value)| f64::from(*value) * with[*column as usize]);
                products.fold(0.0, |sum, product| sum + product)
            }
            fn add_to(&self, row: usize, factor: f64, sums: &mut [f64]) {
                sparse::add_scaled(sums, factor, self.row(row));
            }
            fn add_squares_to(&self, row: usize, factor: f64, squares: &mut [f64]) {
                let (columns, values) = self.row(row);
                for (column, value) in columns.iter().zip(values) {
                    let value = f64::from(*value);
                    squares[*column as usize] += factor * (value * value);
                }
            }
            fn add_products_to(&self, row: usize, factor: f64, products: &mut [f64], width: usize) {
                let (columns, values) = self.row(row);
                // Columns of a row are in order: the rest of the row is what lies right of the diagonal.
                for (n, (column, value)) in columns.iter().zip(values).enumerate() {
                    let line = &mut products[*column as usize * width..][..width];
                    sparse::add_scaled(line, factor * f64::from(*value), (&columns[n..], &values[n..]));
                }
            }
            #[inline(always)]
            fn each(&self, row: usize, tell: &mut impl FnMut(usize, f64)) {
                let (columns, values) = self.row(row);
                columns.iter().zip(values).for_each(|(column, value)| tell(*column as usize, f64::from(*value)));
            }
            fn bad(&self, row: usize) -> Option<(u64, f64)> {
                let (columns, values) = self.row(row);
                let at = values.iter().position(|v| !v.is_finite())?;
                Some((u64::from(columns[at]), f64::from(values[at])))
            }
            fn add_moments(&self, row: usize, sums: &mut [f64], squares: &mut [f64]) {
                let (columns, values) = self.row(row);
                for (column, value) in columns.iter().zip(values) {
                    let (column, value) = (*column as usize, f64::from(*value));
                    sums[column] += value;
                    squares[column] = value.mul_add(value, squares[column]);
                }
            }
            fn own_weight(&self, row: usize) -> f64 {
                self.labels().map_or(1.0, |weights| f64::from(weights[row]))
            }
            const IN_FULL: bool = false;
            fn add_spread(&self, row: usize, weight: f64, _: &[f64], sums: &mut [f64], squares: &mut [f64]) {
                let (columns, values) = self.row(row);
                for (column, value) in columns.iter().zip(values) {
                    let (column, value) = (*column as usize, f64::from(*value));
                    sums[column] += weight * value;
                    squares[column] += weight * (value * value);
                }
            }
        }
    )*};
}
rows!(f32, f64);

/// What there is to know of rows before anything is learnt from them.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Survey {
    /// Rows of each chunk, in order.
    pub counts: Vec<u64>,
    /// Columns, if all chunks agree.
    pub width: Option<u64>,
    /// Sum of each column.
    pub sums: Vec<f64>,
    /// Sum of the squares of each column.
    pub squares: Vec<f64>,
    /// Row, column and value of the first number that is not finite.
    pub bad: Option<(u64, u64, f64)>,
}

impl Reduce for Survey {
    fn merge(&mut self, right: Self) {
        let before: u64 = self.counts.iter().sum();
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (before + row, column, value)));
        self.counts.extend(right.counts);
        if self.width != right.width {
            self.width = None;
            return;
        }
        self.sums.iter_mut().zip(right.sums).for_each(|(a, b)| *a += b);
        self.squares.iter_mut().zip(right.squares).for_each(|(a, b)| *a += b);
    }
}

/// Looks at all rows of a chunk.
#[qjam::map]
pub fn survey<C: RowChunk>(_: &(), x: &C, _: &Ctx) -> Survey {
    let (mut sums, mut squares) = (vec![0.0; x.width()], vec![0.0; x.width()]);
    let mut bad = None;
    for row in 0..x.count() {
        bad = bad.or_else(|| x.bad(row).map(|(column, value)| (row as u64, column, value)));
        x.add_moments(row, &mut sums, &mut squares);
    }
    Survey { counts: vec![x.count() as u64], width: Some(x.width() as u64), sums, squares, bad }
}
qjam::register!(survey::<Dense<f32>>, survey::<Dense<f64>>, survey::<Csr<f32>>, survey::<Csr<f64>>);
