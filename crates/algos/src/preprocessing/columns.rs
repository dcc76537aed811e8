//! What one round finds out about columns: weighted means, squared deviations and extremes.
//!
//! A chunk takes two passes over its rows, the first for the means, so that large means cost no digits; chunks are merged along the
//! fixed tree. Of sparse rows only what is stored is looked at: what is missing counts as zeros. Rows of weight 0 have no say.

use crate::answers::{BadNumber, further, not_finite};
use crate::bayes::gaussian::moments::Moments;
use crate::input::{Problem, check_weights, first_of_chunk};
use crate::learner::Weights;
use crate::linear::rows::RowChunk;
use qjam::{Csr, Ctx, Dense, Reduce};

/// How much rows count: what the round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Weighing {
    /// A weight for each row; empty if they have none beside them.
    each: Vec<f64>,
    /// Whether the last column of dense rows and the labels of sparse ones are weights.
    in_rows: bool,
    /// Rows of the data set.
    rows: u64,
    /// Chunks of it, which are as equal as can be.
    chunks: u64,
}

impl Weighing {
    /// These weights, checked as far as they are beside the rows.
    pub(crate) fn of(weights: Weights<'_>, rows: u64, chunks: u64) -> Result<Weighing, Problem> {
        let each = match weights {
            Weights::Each(each) => Some(each),
            Weights::None | Weights::InRows => None,
        };
        check_weights(each, rows)?;
        let in_rows = weights == Weights::InRows;
        Ok(Weighing { each: each.unwrap_or_default().to_vec(), in_rows, rows, chunks })
    }

    fn weights<C: RowChunk>(&self, x: &C, chunk: u32) -> Option<Vec<f64>> {
        if self.in_rows {
            return Some((0..x.count()).map(|row| x.own_weight(row)).collect());
        }
        let from = first_of_chunk(self.rows, self.chunks, u64::from(chunk)) as usize;
        (!self.each.is_empty()).then(|| self.each[from..from + x.count()].to_vec())
    }
}

/// What there is to know of columns.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Columns {
    /// Weight, means and squared deviations.
    pub moments: Moments,
    /// The smallest number of each column; infinity where no row counts.
    pub least: Vec<f64>,
    /// The largest.
    pub most: Vec<f64>,
    /// Rows seen, whether they count or not.
    pub rows: u64,
    /// Row, column and value of the first number that is not finite.
    pub bad: BadNumber,
    /// The first row whose weight cannot be one, and this.
    pub bad_weight: Option<(u64, f64)>,
}

impl Columns {
    /// Takes in what is known of the rows behind these.
    pub fn add(&mut self, right: &Columns) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.bad_weight = self.bad_weight.or(right.bad_weight.map(|(row, value)| (self.rows + row, value)));
        self.moments.add(&right.moments);
        self.least.iter_mut().zip(&right.least).for_each(|(left, right)| *left = left.min(*right));
        self.most.iter_mut().zip(&right.most).for_each(|(left, right)| *left = left.max(*right));
        self.rows += right.rows;
    }
}

impl Reduce for Columns {
    fn merge(&mut self, right: Self) {
        self.add(&right);
    }
}

/// What there is to know of the columns of a chunk.
#[qjam::map]
pub fn columns<C: RowChunk>(weighing: &Weighing, x: &C, ctx: &Ctx) -> Columns {
    let weights = weighing.weights(x, ctx.chunk());
    let is_weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
    let bad_weight = weights.iter().flatten().position(|weight| !is_weight(weight));
    let bad_weight = bad_weight.zip(weights.as_ref()).map(|(row, weights)| (row as u64, weights[row]));
    // A column of weights may be anything but a number of the data.
    let width = x.width() - usize::from(weighing.in_rows && C::IN_FULL);
    let bad = not_finite(x).filter(|(_, column, _)| *column < width as u64);
    let weight = |row: usize| weights.as_ref().map_or(1.0, |weights| weights[row]);
    let mut found = Columns {
        moments: Moments::none(width),
        least: vec![f64::INFINITY; width],
        most: vec![f64::NEG_INFINITY; width],
        rows: x.count() as u64,
        bad,
        bad_weight,
    };
    if found.bad.is_none() && found.bad_weight.is_none() {
        match C::IN_FULL {
            true => found.add_full(x, weight),
            false => found.add_sparse(x, weight),
        }
    }
    found
}
qjam::register!(columns::<Dense<f32>>, columns::<Dense<f64>>, columns::<Csr<f32>>, columns::<Csr<f64>>);

impl Columns {
    fn add_full<C: RowChunk>(&mut self, x: &C, weight: impl Fn(usize) -> f64) {
        let width = self.least.len();
        let mut full = vec![0.0; x.width()];
        let mut each = |tell: &mut dyn FnMut(f64, &[f64])| {
            for row in 0..x.count() {
                let weight = weight(row);
                if weight > 0.0 {
                    x.write(row, &mut full);
                    tell(weight, &full[..width]);
                }
            }
        };
        let (moments, least, most) = (&mut self.moments, &mut self.least, &mut self.most);
        each(&mut |weight, row| {
            moments.weight += weight;
            let extremes = least.iter_mut().zip(most.iter_mut());
            for ((sum, (least, most)), value) in moments.mean.iter_mut().zip(extremes).zip(row) {
                *sum += weight * value;
                *least = if *value < *least { *value } else { *least };
                *most = if *value > *most { *value } else { *most };
            }
        });
        means(moments);
        let mut left = vec![0.0; width];
        each(&mut |weight, row| {
            let sums = moments.squares.iter_mut().zip(&mut left);
            for (((square, left), mean), value) in sums.zip(&moments.mean).zip(row) {
                let difference = value - mean;
                *square += weight * (difference * difference);
                *left += weight * difference;
            }
        });
        settle(moments, &left);
    }

    fn add_sparse<C: RowChunk>(&mut self, x: &C, weight: impl Fn(usize) -> f64) {
        let width = self.least.len();
        // Weight and number of the rows that store a column: all others have a zero there.
        let (mut stored, mut count, mut rows) = (vec![0.0; width], vec![0_u64; width], 0);
        for row in 0..x.count() {
            let weight = weight(row);
            if weight <= 0.0 {
                continue;
            }
            rows += 1;
            self.moments.weight += weight;
            x.each(row, &mut |column, value| {
                self.moments.mean[column] += weight * value;
                self.least[column] = self.least[column].min(value);
                self.most[column] = self.most[column].max(value);
                stored[column] += weight;
                count[column] += 1;
            });
        }
        means(&mut self.moments);
        let (moments, mut left) = (&mut self.moments, vec![0.0; width]);
        for row in 0..x.count() {
            let weight = weight(row);
            if weight > 0.0 {
                x.each(row, &mut |column, value| {
                    let difference = value - moments.mean[column];
                    moments.squares[column] += weight * (difference * difference);
                    left[column] += weight * difference;
                });
            }
        }
        for column in 0..width {
            if count[column] < rows {
                let (mean, weight) = (moments.mean[column], (moments.weight - stored[column]).max(0.0));
                moments.squares[column] += weight * (mean * mean);
                left[column] -= weight * mean;
                self.least[column] = self.least[column].min(0.0);
                self.most[column] = self.most[column].max(0.0);
            }
        }
        settle(moments, &left);
    }
}

/// Makes means of sums.
fn means(moments: &mut Moments) {
    let scale = if moments.weight > 0.0 { 1.0 / moments.weight } else { 0.0 };
    moments.mean.iter_mut().for_each(|sum| *sum *= scale);
}

/// Puts right what rounding has left in the means: deviations from them add up to `left` instead of 0.
fn settle(moments: &mut Moments, left: &[f64]) {
    if moments.weight > 0.0 {
        for ((mean, square), left) in moments.mean.iter_mut().zip(&mut moments.squares).zip(left) {
            *square = (*square - left * (left / moments.weight)).max(0.0);
            *mean += left / moments.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::{DataSet, Master};

    fn dense(weights: Weights<'_>, values: Vec<f64>, width: usize, parts: usize) -> Columns {
        let data = DataSet::dense(values, width).unwrap().partitions(parts).unwrap();
        let weighing = Weighing::of(weights, data.records(), data.len() as u64).unwrap();
        let master = Master::builder().no_run_file().connect("local:1").unwrap();
        master.run(columns::<Dense<f64>>, &weighing, &data).unwrap()
    }

    #[test]
    fn weights_count_rows_repeatedly_or_not_at_all_wherever_they_are() {
        let repeated = dense(Weights::None, vec![1.0, -2.0, 1.0, -2.0, 4.0, 8.0], 2, 1);
        let beside = dense(Weights::Each(&[2.0, 0.0, 1.0]), vec![1.0, -2.0, 9.0, 99.0, 4.0, 8.0], 2, 2);
        let inside = dense(Weights::InRows, vec![1.0, -2.0, 2.0, 9.0, 99.0, 0.0, 4.0, 8.0, 1.0], 2 + 1, 2);
        for found in [&beside, &inside] {
            assert_eq!((&found.least, &found.most), (&vec![1.0, -2.0], &vec![4.0, 8.0]));
            assert_eq!(found.moments.weight, 3.0);
            let pairs = found.moments.squares.iter().zip(&repeated.moments.squares);
            pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
        }
        assert_eq!(repeated.moments.mean[0], 2.0);
        assert!((repeated.moments.mean[1] - 4.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn what_sparse_rows_do_not_store_counts_as_zeros() {
        let rows = Csr::from_vecs(vec![0, 1, 1, 3], vec![1, 0, 1], vec![2.0, -1.0, 4.0], 2, None).unwrap();
        let weighing = Weighing::of(Weights::Each(&[1.0, 2.0, 1.0]), 3, 1).unwrap();
        let master = Master::builder().no_run_file().connect("local:1").unwrap();
        let data = DataSet::csr(&rows).unwrap().partitions(1).unwrap();
        let sparse = master.run(columns::<Csr<f64>>, &weighing, &data).unwrap();
        let full = dense(Weights::Each(&[1.0, 2.0, 1.0]), vec![0.0, 2.0, 0.0, 0.0, -1.0, 4.0], 2, 1);
        assert_eq!(sparse, full);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_row_in_all_rows() {
        let bad = dense(Weights::None, vec![1.0, 2.0, 3.0, f64::NAN], 1, 2).bad.unwrap();
        assert_eq!((bad.0, bad.1), (3, 0));
        let bad = dense(Weights::InRows, vec![1.0, 1.0, 1.0, -2.0], 2, 2);
        assert_eq!((bad.bad, bad.bad_weight), (None, Some((1, -2.0))));
        assert_eq!(
            Weighing::of(Weights::Each(&[1.0]), 2, 1).unwrap_err(),
            Problem::Weights { weights: 1, rows: 2 }
        );
    }
}
