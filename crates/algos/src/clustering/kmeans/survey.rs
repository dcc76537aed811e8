//! What is looked at before anything else: that all numbers can be used, and how they are spread.
//!
//! One round over the data. It gives the mean variance of the columns, which the tolerance is a share of, and the first
//! number that cannot be used, by row and column. Means and squared deviations from them are merged, not sums of squares:
//! far from the origin these would differ by less than their roundings.

use super::FitError;
use super::points::{Points, View};
use crate::kernels::nearest::Real;
use qjam::{Csr, DataSet, Dense, Master, Reduce};

/// Counts, means and deviations of a chunk.
#[derive(Clone, Debug, Default, qjam::Wire)]
pub struct ChunkSurvey {
    rows: u64,
    /// Sum of the weights.
    weight: f64,
    /// Weighted mean of each column, and the weighted sum of squared deviations from it.
    means: Vec<f64>,
    deviations: Vec<f64>,
    largest: f64,
    /// Rows that are to be left out.
    unusable: u64,
    /// The first number that cannot be used: row from the first of this part, column, and the number.
    bad: Option<(u64, u64, f64)>,
}

impl Reduce for ChunkSurvey {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(right.bad.map(|(row, column, value)| (self.rows + row, column, value)));
        self.unusable += right.unusable;
        self.rows += right.rows;
        self.largest = self.largest.max(right.largest);
        let (mine, total) = (self.weight, self.weight + right.weight);
        self.weight = total;
        if right.weight > 0.0 {
            let share = right.weight / total;
            let columns = self.means.iter_mut().zip(&mut self.deviations);
            for ((mean, deviation), (theirs, more)) in columns.zip(right.means.iter().zip(&right.deviations))
            {
                let apart = theirs - *mean;
                *mean += apart * share;
                *deviation += more + apart * apart * (mine * share);
            }
        }
    }
}

/// How to look at rows.
#[derive(Clone, Copy, Debug, qjam::Wire)]
pub struct Manner {
    /// Whether they have weights.
    pub(super) weighted: bool,
    /// Whether rows with numbers that are not finite are to be left out later, and not refused.
    pub(super) skip: bool,
}

/// Looks at a chunk.
#[qjam::map]
pub fn survey<C: Points>(manner: &Manner, x: &C) -> ChunkSurvey {
    let rows = x.view(manner.weighted);
    let dims = rows.dims();
    let (mut sums, mut squares) = (vec![0.0; dims], vec![0.0; dims]);
    let mut seen = ChunkSurvey { rows: rows.len() as u64, ..ChunkSurvey::default() };
    let origin = rows.origin();
    for i in 0..rows.len() {
        let weight = rows.weight(i);
        seen.weight += weight;
        let largest = rows.moments(i, weight, &origin, &mut sums, &mut squares);
        seen.largest = seen.largest.max(largest);
        // Sums of what is not finite are not finite, and cheaper to ask for than every number.
        if !(largest.is_finite() && weight.is_finite() && weight >= 0.0) {
            let (column, value) = rows.unusable(i).unwrap_or((dims as u64, weight));
            if manner.skip && !value.is_finite() {
                seen.unusable += 1;
            } else {
                seen.bad = seen.bad.or(Some((i as u64, column, value)));
            }
        }
    }
    let total = seen.weight.max(f64::MIN_POSITIVE);
    seen.deviations = sums.iter().zip(&squares).map(|(s, q)| (q - s * (s / total)).max(0.0)).collect();
    seen.means = sums;
    for (p, mean) in seen.means.iter_mut().enumerate() {
        *mean = *mean / total + origin.get(p).copied().unwrap_or(0.0);
    }
    seen
}
qjam::register!(survey::<Dense<f32>>, survey::<Dense<f64>>, survey::<Csr<f32>>, survey::<Csr<f64>>);

/// What was found in data that can be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Survey {
    /// Mean over the columns of their variances.
    pub(super) variance: f64,
    /// Rows that have to be left out.
    pub(super) unusable: u64,
}

/// Looks at all rows. With `skip`, rows with numbers that are not finite are counted and not refused.
pub(super) fn look<C: Points>(
    master: &Master,
    data: &DataSet<C>,
    weighted: bool,
    skip: bool,
) -> Result<Survey, FitError> {
    judge::<C::Number>(&master.run(survey::<C>, &Manner { weighted, skip }, data)?)
}

/// What all chunks together say, unless a number cannot be used.
pub(super) fn judge<T: Real>(seen: &ChunkSurvey) -> Result<Survey, FitError> {
    let dims = seen.means.len();
    if let Some((row, column, value)) = seen.bad {
        return Err(match column as usize == dims {
            true => FitError::Weight { row, value },
            false => FitError::NotFinite { row, column, value },
        });
    }
    if seen.unusable > 0 {
        return Ok(Survey { variance: 0.0, unusable: seen.unusable });
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
    let variance = seen.deviations.iter().map(|d| d / seen.weight).sum::<f64>() / dims as f64;
    Ok(Survey { variance, unusable: 0 })
}

/// How many chunks rounds of k-means run over: it depends on the number of rows alone. Every chunk returns sums as large
/// as all centres, which is paid for by a few thousand rows; a power of two shares them out evenly among few workers.
pub fn parts(rows: u64) -> usize {
    const ROWS: u64 = 8192;
    const FEWEST_ROWS: u64 = 256;
    let few = (rows / FEWEST_ROWS).clamp(1, 8).next_power_of_two();
    rows.div_ceil(ROWS).next_power_of_two().max(few) as usize
}

/// The same rows in that many chunks.
pub(super) fn cut<C: Points>(data: &DataSet<C>) -> Result<DataSet<C>, FitError> {
    Ok(data.partitions(parts(data.records())).map_err(qjam::Error::from)?)
}
