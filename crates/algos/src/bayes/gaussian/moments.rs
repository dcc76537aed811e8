//! Weights, means and squared deviations of columns, class by class: what one round gives.
//!
//! A chunk takes two passes over its rows, the first for the means, so that large means cost no digits. Chunks are merged along
//! the fixed tree by the formulas of Chan, Golub and LeVeque.

pub use crate::input::RowClasses;

use crate::answers::{BadNumber, further};
use crate::kernels::nearest::Real;
use qjam::{Ctx, Dense, Reduce};

/// The moments of some rows: how much they weigh, the mean of each column, and the sums of squared deviations from it.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Moments {
    /// Sum of the weights of the rows.
    pub weight: f64,
    /// Mean of each column; zeros where the weight is 0.
    pub mean: Vec<f64>,
    /// Weighted sum of the squared deviations of each column.
    pub squares: Vec<f64>,
}

impl Moments {
    /// Of no rows.
    pub fn none(columns: usize) -> Moments {
        Moments { weight: 0.0, mean: vec![0.0; columns], squares: vec![0.0; columns] }
    }

    /// Takes in the moments of other rows.
    pub fn add(&mut self, other: &Moments) {
        if other.weight == 0.0 {
            return;
        }
        let weight = self.weight + other.weight;
        let (share, between) = (other.weight / weight, self.weight * (other.weight / weight));
        for (j, mean) in other.mean.iter().enumerate() {
            let difference = mean - self.mean[j];
            self.mean[j] += difference * share;
            self.squares[j] += other.squares[j] + difference * difference * between;
        }
        self.weight = weight;
    }

    /// The variance of each column.
    pub fn variances(&self) -> impl Iterator<Item = f64> {
        let weight = self.weight;
        self.squares.iter().map(move |squares| if weight > 0.0 { squares / weight } else { 0.0 })
    }
}

/// The name that [`RowClasses`] had.
#[deprecated(note = "it is called RowClasses")]
pub type Asked = RowClasses;

/// What a round gives.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct ClassMoments {
    /// Of each class.
    pub classes: Vec<Moments>,
    /// Of all rows, each counted once whatever its weight.
    pub all: Moments,
    /// Rows seen.
    pub rows: u64,
    /// Row, column and value of the first number that is not finite.
    pub bad: BadNumber,
}

impl Reduce for ClassMoments {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.classes.iter_mut().zip(&right.classes).for_each(|(left, right)| left.add(right));
        self.all.add(&right.all);
        self.rows += right.rows;
    }
}

/// The moments of the rows of a chunk.
#[qjam::map]
pub fn moments<T: Real>(rows: &RowClasses, x: &Dense<T>, ctx: &Ctx) -> ClassMoments {
    let (columns, count) = (x.cols(), rows.classes as usize);
    let (classes, weights) = rows.of_chunk(ctx.chunk(), x.rows());
    let (by_class, bad) = of_classes(x, classes, weights, count);
    let all = match weights {
        // Rows of no weight count here, as in scikit-learn.
        Some(_) => of_classes(x, &vec![0; x.rows()], None, 1).0.remove(0),
        None => by_class.iter().fold(Moments::none(columns), |mut all, class| {
            all.add(class);
            all
        }),
    };
    ClassMoments { classes: by_class, all, rows: x.rows() as u64, bad }
}
qjam::register!(moments::<f32>, moments::<f64>);

fn of_classes<T: Real>(
    x: &Dense<T>,
    classes: &[u32],
    weights: Option<&[f64]>,
    count: usize,
) -> (Vec<Moments>, BadNumber) {
    let (mut found, mut bad) = (vec![Moments::none(x.cols()); count], None);
    each_row(x, classes, weights, |row, class, weight, values| {
        let moments = &mut found[class];
        moments.weight += weight;
        for (sum, value) in moments.mean.iter_mut().zip(values) {
            *sum += weight * value.to_f64();
        }
        if bad.is_none() {
            let column = values.iter().position(|value| !value.to_f64().is_finite());
            bad = column.map(|column| (row as u64, column as u64, values[column].to_f64()));
        }
    });
    for moments in &mut found {
        let scale = if moments.weight > 0.0 { 1.0 / moments.weight } else { 0.0 };
        moments.mean.iter_mut().for_each(|sum| *sum *= scale);
    }
    each_row(x, classes, weights, |_, class, weight, values| {
        let moments = &mut found[class];
        for ((square, mean), value) in moments.squares.iter_mut().zip(&moments.mean).zip(values) {
            let difference = value.to_f64() - mean;
            *square += weight * (difference * difference);
        }
    });
    (found, bad)
}

/// One pass over the rows: number, class, weight and values of each.
fn each_row<T: Real>(
    x: &Dense<T>,
    classes: &[u32],
    weights: Option<&[f64]>,
    mut take_in: impl FnMut(usize, usize, f64, &[T]),
) {
    for (row, values) in x.rows_iter().enumerate() {
        take_in(row, classes[row] as usize, weights.map_or(1.0, |weights| weights[row]), values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let x = Dense::from_vec(values.to_vec(), 1).unwrap();
        of_classes(&x, &vec![0; values.len()], None, 1).0.remove(0)
    }

    #[test]
    fn merged_moments_are_those_of_all_rows_and_large_means_cost_no_digits() {
        let values: Vec<f64> = (0..100).map(|i| 1e9 + f64::from(i * i % 37)).collect();
        let mut merged = of(&values[..30]);
        merged.add(&Moments::none(1));
        merged.add(&of(&values[30..]));
        let whole = of(&values);
        let apart: Vec<f64> = values.iter().map(|v| v - 1e9).collect();
        let mean = apart.iter().sum::<f64>() / 100.0;
        let variance = apart.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 100.0;
        for moments in [merged, whole] {
            assert!((moments.mean[0] - 1e9 - mean).abs() < 1e-6);
            assert!((moments.variances().next().unwrap() - variance).abs() < 1e-6 * variance);
        }
    }
}
