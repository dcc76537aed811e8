//! Rounds over rows as they are stored: nothing is written in full and no mean is taken off.
//!
//! [`add_slopes`] gives the sums of [`Slopes`]; the products of a sparse row are those of the pairs that it stores.
//! [`add_bends`] gives the product of the matrix of second derivatives with a vector, which is all that conjugate gradients
//! need. Both add chunks of a block to one accumulator, in order: the sums of wide data are not combined chunk by chunk.

use super::slopes::{BATCH, Batch, Of, Point, Second, Slopes};
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use qjam::{Csr, Ctx, Dense};

/// Adds loss and slopes of the rows of a chunk. Products are wanted of sparse rows only.
#[qjam::fold]
pub fn add_slopes<C: RowChunk>(point: &Point, x: &C, out: &mut Slopes, ctx: &Ctx) {
    let (columns, level) = (point.at.len() - 1, Level::best());
    if out.plus.is_empty() {
        *out = Slopes::zeros(point);
        if point.second == Second::Products {
            out.products = vec![0.0; (columns + 1) * (columns + 1)];
        }
    }
    let from = point.starts[ctx.chunk() as usize] as usize;
    let (at, intercept) = (&point.at[..columns], point.at[columns]);
    let mut batch = Batch::default();
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        batch.clear();
        batch.v.extend((first..first + count).map(|row| x.times_nonzero(row, at) + intercept));
        let targets = batch.losses(level, point, from + first, out);
        for (i, row) in (first..first + count).enumerate() {
            let (w, u, h) = (batch.w[i], batch.u[i], batch.h[i]);
            if point.of == Of::Squares {
                add_row(x, row, w, &mut out.ones);
            }
            let positive = point.of == Of::Squares || targets[i] > 0.0;
            add_row(x, row, u, if positive { &mut out.plus } else { &mut out.minus });
            match point.second {
                Second::None => {}
                Second::Diagonal => {
                    x.add_squares_to(row, h, &mut out.diagonal);
                    add_row(x, row, h, &mut out.bent_ones);
                }
                Second::Products if h != 0.0 => add_products(x, row, h, &mut out.products, columns + 1),
                Second::Products => {}
            }
        }
    }
}
qjam::register!(
    add_slopes::<Dense<f32>>,
    add_slopes::<Dense<f64>>,
    add_slopes::<Csr<f32>>,
    add_slopes::<Csr<f64>>
);

/// Adds a row times a factor to sums, of which the last is that of a column of ones.
fn add_row<C: RowChunk>(x: &C, row: usize, factor: f64, sums: &mut [f64]) {
    if factor == 0.0 {
        return;
    }
    if let Some((last, of_columns)) = sums.split_last_mut() {
        x.add_to(row, factor, of_columns);
        *last += factor;
    }
}

/// Adds the products of all pairs of a row's values, and of a column of ones, to the upper triangle of a matrix.
fn add_products<C: RowChunk>(x: &C, row: usize, h: f64, products: &mut [f64], width: usize) {
    x.add_products_to(row, h, products, width);
    x.each(row, &mut |column, value| products[column * width + width - 1] += h * value);
    products[width * width - 1] += h;
}

/// Which product with the matrix of second derivatives is wanted.
#[derive(Clone, Debug, qjam::Wire)]
pub struct BendQuery {
    /// What the loss is of.
    pub of: Of,
    /// Coefficients and intercept; none for squares, whose second derivatives are the same everywhere.
    pub at: Vec<f64>,
    /// The vector: one number for each column, and one for the intercept.
    pub along: Vec<f64>,
    /// Labels of all rows, for a squared hinge.
    pub labels: Vec<f64>,
    /// Weights of all rows; none for ones.
    pub weights: Vec<f64>,
    /// Where the rows of each chunk begin.
    pub starts: Vec<u64>,
}

/// The product: one number for each column, and one for the intercept.
#[derive(Clone, Debug, Default, qjam::Wire, qjam::Sum)]
pub struct Bends {
    /// Its numbers.
    pub sums: Vec<f64>,
}

/// Adds the product of the second derivatives of a chunk's rows with a vector.
#[qjam::fold]
pub fn add_bends<C: RowChunk>(query: &BendQuery, x: &C, out: &mut Bends, ctx: &Ctx) {
    let (columns, level) = (query.along.len() - 1, Level::best());
    out.sums.resize(columns + 1, 0.0);
    let from = query.starts[ctx.chunk() as usize] as usize;
    let (along, offset) = (&query.along[..columns], query.along[columns]);
    let (mut h, mut v) = (vec![], vec![]);
    for first in (0..x.count()).step_by(BATCH) {
        let rows = first..x.count().min(first + BATCH);
        h.clear();
        match query.weights.is_empty() {
            true => h.resize(rows.len(), 1.0),
            false => h.extend_from_slice(&query.weights[from + rows.start..from + rows.end]),
        }
        if let Some((intercept, at)) = query.at.split_last() {
            v.clear();
            v.extend(rows.clone().map(|row| x.times_nonzero(row, at) + intercept));
            second_derivatives(level, query, from + first, &mut v, &mut h);
        }
        for (row, h) in rows.zip(&h) {
            if *h != 0.0 {
                add_row(x, row, h * (x.times_nonzero(row, along) + offset), &mut out.sums);
            }
        }
    }
}
qjam::register!(
    add_bends::<Dense<f32>>,
    add_bends::<Dense<f64>>,
    add_bends::<Csr<f32>>,
    add_bends::<Csr<f64>>
);

/// Multiplies weights by the second derivatives of losses at the products `v`.
fn second_derivatives(level: Level, query: &BendQuery, first: usize, v: &mut [f64], h: &mut [f64]) {
    match query.of {
        Of::Squares => {}
        Of::Logistic => {
            v.iter_mut().for_each(|v| *v = -v.abs());
            elementwise::sigmoid(level, v);
            h.iter_mut().zip(v).for_each(|(h, p)| *h *= *p * (1.0 - *p));
        }
        Of::SquaredHinge => {
            for ((h, v), y) in h.iter_mut().zip(v).zip(&query.labels[first..]) {
                *h *= if 1.0 - y * *v > 0.0 { 2.0 } else { 0.0 };
            }
        }
    }
}
