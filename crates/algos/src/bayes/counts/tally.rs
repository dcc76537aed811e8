//! Counts by class and column: what one round gives.
//!
//! Each chunk adds the rows of a class to the counts of that class, in the order of the rows; chunks are added along the fixed
//! tree. Whole numbers are exact in any order.

use super::params::Kind;
use crate::answers::{BadNumber, further, not_finite};
use crate::input::RowClasses;
use crate::linear::rows::RowChunk;
use qjam::{Csr, Ctx, Dense, Reduce};

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct TallyRequest {
    /// The class and the weight of every row.
    pub rows: RowClasses,
    /// Numbers above this are one, all others zero; `None` for numbers as they are.
    pub binarize: Option<f64>,
    /// Whether negative numbers are looked for.
    pub counts: bool,
}

impl TallyRequest {
    /// The request of a kind.
    pub fn new(kind: Kind, binarize: Option<f64>, rows: RowClasses) -> TallyRequest {
        TallyRequest { rows, binarize, counts: kind.is_of_counts() }
    }
}

/// What a round gives.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Tally {
    /// Weight of the rows of each class.
    pub classes: Vec<f64>,
    /// Weighted sums of the columns, class by class.
    pub columns: Vec<f64>,
    /// Rows seen.
    pub rows: u64,
    /// The first number that is not finite.
    pub bad: BadNumber,
    /// The first negative number, if these were looked for.
    pub negative: BadNumber,
}

impl Reduce for Tally {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.negative = self.negative.or(further(right.negative, self.rows));
        self.classes.iter_mut().zip(right.classes).for_each(|(left, right)| *left += right);
        self.columns.iter_mut().zip(right.columns).for_each(|(left, right)| *left += right);
        self.rows += right.rows;
    }
}

/// A number as it counts.
#[inline(always)]
pub(super) fn counted(value: f64, binarize: Option<f64>) -> f64 {
    match binarize {
        Some(threshold) => f64::from(u8::from(value > threshold)),
        None => value,
    }
}

/// The counts of the rows of a chunk. Sparse rows are made binary only at thresholds that keep their zeros.
#[qjam::map]
pub fn tally<C: RowChunk>(request: &TallyRequest, x: &C, ctx: &Ctx) -> Tally {
    let (width, k) = (x.width(), request.rows.classes as usize);
    let (classes, weights) = request.rows.of_chunk(ctx.chunk(), x.count());
    let mut found = Tally {
        classes: vec![0.0; k],
        columns: vec![0.0; k * width],
        rows: x.count() as u64,
        bad: not_finite(x),
        negative: None,
    };
    let mut full = vec![0.0; if C::IN_FULL { width } else { 0 }];
    for (row, class) in classes.iter().enumerate() {
        let weight = weights.map_or(1.0, |weights| weights[row]);
        found.classes[*class as usize] += weight;
        let sums = &mut found.columns[*class as usize * width..][..width];
        if C::IN_FULL {
            x.write(row, &mut full);
            for (sum, value) in sums.iter_mut().zip(&full) {
                *sum += weight * counted(*value, request.binarize);
            }
        } else {
            x.each(row, &mut |column, value| sums[column] += weight * counted(value, request.binarize));
        }
        if request.counts && found.negative.is_none() {
            found.negative = first_negative(x, row);
        }
    }
    found
}
qjam::register!(tally::<Dense<f32>>, tally::<Dense<f64>>, tally::<Csr<f32>>, tally::<Csr<f64>>);

fn first_negative<C: RowChunk>(x: &C, row: usize) -> BadNumber {
    let mut found = None;
    x.each(row, &mut |column, value| {
        if value < 0.0 && found.is_none() {
            found = Some((row as u64, column as u64, value));
        }
    });
    found
}
