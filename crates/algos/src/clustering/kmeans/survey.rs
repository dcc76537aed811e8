//! What is looked at before anything else: that all numbers can be used, and how they are spread.
//!
//! One round over the data. It gives the mean variance of the columns, which the tolerance is a share of, and the first
//! number that is no use, by row and column.

use super::FitError;
use crate::kernels::nearest::{Real, Rows};
use qjam::{DataSet, Dense, Master, MergeError, Reduce};

/// What a chunk has to say.
#[derive(Clone, Debug, Default, qjam::Wire)]
pub struct Seen {
    rows: u64,
    /// Sum of the weights.
    weight: f64,
    /// Sums by column, and of squares.
    sums: Vec<f64>,
    squares: Vec<f64>,
    largest: f64,
    /// Row from the first of this part, column, and the number.
    bad: Option<(u64, u64, f64)>,
}

impl Reduce for Seen {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (self.rows + row, column, value)));
        self.rows += right.rows;
        self.weight += right.weight;
        self.sums.iter_mut().zip(&right.sums).for_each(|(a, b)| *a += b);
        self.squares.iter_mut().zip(&right.squares).for_each(|(a, b)| *a += b);
        self.largest = self.largest.max(right.largest);
    }

    fn try_merge(&mut self, right: Self) -> Result<(), MergeError> {
        self.merge(right);
        Ok(())
    }
}

/// Looks at a chunk; `weighted` tells whether its last column is a weight.
#[qjam::map]
pub fn survey<T: Real>(weighted: &bool, x: &Dense<T>) -> Seen {
    let dims = x.cols() - usize::from(*weighted);
    let mut seen = Seen { sums: vec![0.0; dims], squares: vec![0.0; dims], ..Seen::default() };
    for (i, row) in x.rows_iter().enumerate() {
        seen.weight += if *weighted { row[dims].to_f64() } else { 1.0 };
        for ((sum, square), v) in seen.sums.iter_mut().zip(&mut seen.squares).zip(row) {
            let v = v.to_f64();
            *sum += v;
            *square += v * v;
            seen.largest = seen.largest.max(v.abs());
        }
        let usable = |(column, v): &(usize, &T)| {
            let v = v.to_f64();
            v.is_finite() && (*column < dims || v >= 0.0)
        };
        if seen.bad.is_none() {
            let bad = row.iter().enumerate().find(|v| !usable(v));
            seen.bad = bad.map(|(column, v)| (i as u64, column as u64, v.to_f64()));
        }
    }
    seen.rows = x.rows() as u64;
    seen
}
qjam::register!(survey::<f32>, survey::<f64>);

/// What was found in data that can be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Survey {
    /// Mean over the columns of their variances.
    pub(super) variance: f64,
}

/// Looks at all rows.
pub(super) fn look<T: Real>(
    master: &Master,
    data: &DataSet<Dense<T>>,
    weighted: bool,
) -> Result<Survey, FitError> {
    let seen = master.run(survey::<T>, &weighted, data)?;
    let dims = seen.sums.len();
    if let Some((row, column, value)) = seen.bad {
        return Err(match weighted && column as usize == dims {
            true => FitError::Weight { row, value },
            false => FitError::NotFinite { row, column, value },
        });
    }
    if seen.weight <= 0.0 {
        return Err(FitError::NoWeight);
    }
    // Scores are sums of `dims` products, doubled; what overflows in one would make all comparisons void.
    let largest_allowed = (T::LARGEST / (16.0 * dims as f64)).sqrt();
    if seen.largest > largest_allowed {
        return Err(FitError::TooLarge { value: seen.largest, allowed: largest_allowed });
    }
    let weight_allowed = f64::MAX / seen.largest.max(1.0);
    if seen.weight > weight_allowed {
        return Err(FitError::TooLarge { value: seen.weight, allowed: weight_allowed });
    }
    let n = seen.rows as f64;
    let variances = seen.sums.iter().zip(&seen.squares).map(|(s, q)| (q / n - (s / n) * (s / n)).max(0.0));
    Ok(Survey { variance: variances.sum::<f64>() / dims as f64 })
}

/// The coordinates of a chunk.
pub(super) fn rows<T: Real>(x: &Dense<T>, dims: usize) -> Rows<'_, T> {
    Rows::new(x.as_slice(), x.cols(), dims)
}

/// The cut that rounds of k-means run over: it depends on the number of rows alone. Every chunk returns sums as large as
/// all centres, which is paid for by a few thousand rows; a power of two shares them out evenly among few workers.
pub(super) fn cut<T: Real>(data: &DataSet<Dense<T>>) -> Result<DataSet<Dense<T>>, FitError> {
    const ROWS: u64 = 8192;
    const FEWEST_ROWS: u64 = 256;
    let rows = data.records();
    let few = (rows / FEWEST_ROWS).clamp(1, 8).next_power_of_two();
    let parts = rows.div_ceil(ROWS).next_power_of_two().max(few);
    Ok(data.partitions(parts as usize).map_err(qjam::Error::from)?)
}
