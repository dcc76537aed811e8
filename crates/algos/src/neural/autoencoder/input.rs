//! Rows that a network can learn from: 64-bit numbers as they are, 32-bit ones widened.

use super::map::{Sums, sums, sums_of_narrow};
use crate::kernels::nearest::Real;
use qjam::{DataSet, Dense, Master, Reduce};

/// Numbers of which the rows may be: `f32` and `f64`.
pub trait Input: Real {
    /// The sums over all rows at `theta`, by one round.
    fn sums(master: &Master, theta: &[f64], data: &DataSet<Dense<Self>>) -> qjam::Result<Sums>;

    /// The first number that is not finite: its row, its column, and what it is.
    fn unusable(master: &Master, data: &DataSet<Dense<Self>>) -> qjam::Result<Option<(u64, u64, f64)>>;
}

impl Input for f64 {
    fn sums(master: &Master, theta: &[f64], data: &DataSet<Dense<f64>>) -> qjam::Result<Sums> {
        master.run(sums, theta, data)
    }

    fn unusable(master: &Master, data: &DataSet<Dense<f64>>) -> qjam::Result<Option<(u64, u64, f64)>> {
        Ok(master.run(look::<f64>, &(), data)?.first)
    }
}

impl Input for f32 {
    fn sums(master: &Master, theta: &[f64], data: &DataSet<Dense<f32>>) -> qjam::Result<Sums> {
        master.run(sums_of_narrow, theta, data)
    }

    fn unusable(master: &Master, data: &DataSet<Dense<f32>>) -> qjam::Result<Option<(u64, u64, f64)>> {
        Ok(master.run(look::<f32>, &(), data)?.first)
    }
}

/// What is not finite in some rows.
#[derive(Clone, Debug, Default, PartialEq, qjam::Wire)]
pub struct Unusable {
    rows: u64,
    /// Row from the first of these, column, and the number.
    first: Option<(u64, u64, f64)>,
}

impl Reduce for Unusable {
    fn merge(&mut self, right: Self) {
        self.first = self.first.or(right.first.map(|(row, column, value)| (self.rows + row, column, value)));
        self.rows += right.rows;
    }
}

/// Looks for the first number that is not finite.
#[qjam::map]
pub fn look<T: Real>(_: &(), x: &Dense<T>) -> Unusable {
    let cols = x.cols();
    let first = x.as_slice().iter().position(|v| !v.to_f64().is_finite());
    let first = first.map(|at| ((at / cols) as u64, (at % cols) as u64, x.as_slice()[at].to_f64()));
    Unusable { rows: (x.as_slice().len() / cols.max(1)) as u64, first }
}
qjam::register!(look::<f32>, look::<f64>);
