//! Standard deviations of columns, by which linear learners divide them where that is asked for.
//!
//! Means are not taken off: the intercept does that. What divides rows is [`Affine`](super::affine::Affine).

use super::error::LearnError;
use super::rows::{RowChunk, Survey, survey};
use super::solvers::coordinate::partition::{LARGEST, PrepareError};
use qjam::{Csr, Ctx, DataSet, Dense, Master, Rows, with_rows};

/// Looks at all rows once.
pub(super) fn surveyed(master: &Master, examples: &Rows) -> Result<Survey, LearnError> {
    let found = with_rows!(examples, data => master.run(survey::<_>, &(), data))?;
    if let Some((row, column, value)) = found.bad {
        return Err(PrepareError::NotFinite { row, column, value }.into());
    }
    let most = LARGEST * LARGEST * examples.records() as f64;
    if let Some(column) = found.squares.iter().position(|squares| *squares > most) {
        return Err(PrepareError::TooLarge { column: column as u64 }.into());
    }
    match found.width {
        Some(_) => Ok(found),
        None => Err(LearnError::Widths),
    }
}

/// Where the rows of each chunk begin among all.
pub(super) fn starts(counts: &[u64]) -> Vec<u64> {
    let before = counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum - count)
    });
    before.collect()
}

/// What deviations are measured with.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Measured {
    means: Vec<f64>,
    weights: Vec<f64>,
    starts: Vec<u64>,
}

/// Weighted sums of columns, less means where these were taken off, and of their squares.
#[derive(Clone, Debug, qjam::Wire, qjam::Sum)]
pub struct Spread {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

/// What the rows of a chunk add to the spread of their columns.
#[qjam::map]
pub fn spread<C: RowChunk>(with: &Measured, x: &C, ctx: &Ctx) -> Spread {
    let from = with.starts[ctx.chunk() as usize] as usize;
    let (mut sums, mut squares) = (vec![0.0; x.width()], vec![0.0; x.width()]);
    for row in 0..x.count() {
        let weight = with.weights.get(from + row).copied().unwrap_or(1.0);
        x.add_spread(row, weight, &with.means, &mut sums, &mut squares);
    }
    Spread { sums, squares }
}
qjam::register!(spread::<Dense<f32>>, spread::<Dense<f64>>, spread::<Csr<f32>>, spread::<Csr<f64>>);

/// The standard deviation of every column, of rows with weights; 1 for columns in which all is the same.
pub(super) fn deviations(
    master: &Master,
    examples: &Rows,
    weights: Option<&[f64]>,
    survey: &Survey,
) -> Result<Vec<f64>, LearnError> {
    let rows = survey.counts.iter().sum::<u64>() as f64;
    let means: Vec<f64> = survey.sums.iter().map(|sum| sum / rows).collect();
    let total = weights.map_or(rows, |weights| weights.iter().sum());
    let with =
        Measured { means, weights: weights.unwrap_or_default().to_vec(), starts: starts(&survey.counts) };
    let found = with_rows!(examples, data => master.run(spread::<_>, &with, data))?;
    // What is left of rounding is no deviation.
    let rounding = match examples.is_sparse() {
        true => 1e-14,
        false => (rows * f64::EPSILON).powi(2),
    };
    let deviation = |j: usize| {
        let mean = found.sums[j] / total;
        let variance = found.squares[j] / total - mean * mean;
        if variance > rounding * survey.squares[j] / rows { variance.sqrt() } else { 1.0 }
    };
    Ok((0..found.sums.len()).map(deviation).collect())
}

/// The product of every column with a vector of one number for each row.
pub(super) fn pulled<C: RowChunk>(
    master: &Master,
    data: &DataSet<C>,
    vector: Vec<f64>,
    survey: &Survey,
) -> Result<Vec<f64>, qjam::Error> {
    let with =
        Measured { means: vec![0.0; survey.sums.len()], weights: vector, starts: starts(&survey.counts) };
    Ok(master.run(spread::<C>, &with, data)?.sums)
}
