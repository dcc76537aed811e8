//! Means and covariances of each class: what one round gives, and what shrinkage by Ledoit and Wolf needs of a second.

use super::params::Shrinkage;
use crate::answers::{BadNumber, further, not_finite};
use crate::input::RowClasses;
use crate::kernels::Level;
use crate::kernels::gram::Gram;
use crate::kernels::vectors::add_scaled;
use crate::linear::rows::RowChunk;
use crate::moments::{BATCH, Scatter};
use qjam::{Ctx, Dense, Reduce};

/// What a round gives.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct ClassScatters {
    /// Of each class.
    pub classes: Vec<Scatter>,
    /// Rows seen.
    pub rows: u64,
    /// The first number that is not finite.
    pub bad: BadNumber,
}

impl Reduce for ClassScatters {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.classes.iter_mut().zip(right.classes).for_each(|(left, right)| left.merge(right));
        self.rows += right.rows;
    }
}

/// Means and products of deviations of the classes of a chunk.
#[qjam::map]
pub fn class_scatters<C: RowChunk>(rows: &RowClasses, x: &C, ctx: &Ctx) -> ClassScatters {
    let (of_rows, _) = rows.of_chunk(ctx.chunk(), x.count());
    let mut members = vec![vec![]; rows.classes as usize];
    of_rows.iter().enumerate().for_each(|(row, class)| members[*class as usize].push(row));
    let classes = members.iter().map(|members| of_members(x, members)).collect();
    ClassScatters { classes, rows: x.count() as u64, bad: not_finite(x) }
}
qjam::register!(class_scatters::<Dense<f32>>, class_scatters::<Dense<f64>>);

fn of_members<C: RowChunk>(x: &C, members: &[usize]) -> Scatter {
    let width = x.width();
    let mut mean = vec![0.0; width];
    let mut batch = vec![0.0; BATCH.min(members.len()) * width];
    let mut each = |take: &mut dyn FnMut(&mut [f64])| {
        for some in members.chunks(BATCH) {
            for (row, to) in some.iter().zip(batch.chunks_exact_mut(width.max(1))) {
                x.write(*row, to);
            }
            take(&mut batch[..some.len() * width]);
        }
    };
    each(&mut |rows| rows.chunks_exact(width.max(1)).for_each(|row| add_scaled(&mut mean, 1.0, row)));
    mean.iter_mut().for_each(|sum| *sum /= members.len().max(1) as f64);
    // Classes that are not in the chunk need no sums.
    let mut gram = Gram::new(if members.is_empty() { 0 } else { width });
    each(&mut |rows| {
        rows.chunks_exact_mut(width.max(1)).for_each(|row| add_scaled(row, -1.0, &mean));
        gram.add(Level::best(), &*rows, None);
    });
    let products = if members.is_empty() { vec![0.0; width * width] } else { gram.finish() };
    Scatter { rows: members.len() as u64, mean, products, bad: None }
}

/// What the second round is told: classes, and means and reciprocal deviations of some groups of rows.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Standards {
    /// The class of every row.
    pub rows: RowClasses,
    /// Of each class; one more, if it is there, is for all rows.
    pub groups: Vec<Standard>,
}

/// Mean and reciprocal deviation of each column.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Standard {
    mean: Vec<f64>,
    per_deviation: Vec<f64>,
}

impl Standard {
    /// Of rows with these moments. Constant columns are not scaled.
    pub fn of(scatter: &Scatter) -> Standard {
        let d = scatter.mean.len();
        let deviation = |j: usize| (scatter.products[j * d + j] / scatter.rows as f64).sqrt();
        let per = |j: usize| if deviation(j) > 0.0 { 1.0 / deviation(j) } else { 1.0 };
        Standard { mean: scatter.mean.clone(), per_deviation: (0..d).map(per).collect() }
    }
}

/// Sums of fourth powers of the lengths of standardised rows, group by group.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct FourthPowers {
    /// One for each group.
    pub sums: Vec<f64>,
}

/// The fourth powers of the lengths of a chunk's rows.
#[qjam::map]
pub fn fourth_powers<C: RowChunk>(standards: &Standards, x: &C, ctx: &Ctx) -> FourthPowers {
    let (of_rows, _) = standards.rows.of_chunk(ctx.chunk(), x.count());
    let all = standards.rows.classes as usize;
    let (mut sums, mut full) = (vec![0.0; standards.groups.len()], vec![0.0; x.width()]);
    for (row, class) in of_rows.iter().enumerate() {
        x.write(row, &mut full);
        for group in [*class as usize, all] {
            let Some(standard) = standards.groups.get(group) else { continue };
            let columns = full.iter().zip(&standard.mean).zip(&standard.per_deviation);
            let square: f64 = columns.map(|((value, mean), per)| ((value - mean) * per).powi(2)).sum();
            sums[group] += square * square;
        }
    }
    FourthPowers { sums }
}
qjam::register!(fourth_powers::<Dense<f32>>, fourth_powers::<Dense<f64>>);

/// The covariances of rows with these moments, drawn towards a multiple of the unit matrix. `fourth` is what the second round found.
pub(super) fn covariance(scatter: &Scatter, shrinkage: Shrinkage, fourth: f64) -> Vec<f64> {
    let (d, n) = (scatter.mean.len(), scatter.rows as f64);
    let mut covariance: Vec<f64> = scatter.products.iter().map(|product| product / n).collect();
    match shrinkage {
        Shrinkage::None => {}
        Shrinkage::By(by) => shrink(&mut covariance, d, by),
        Shrinkage::Auto => {
            let per = Standard::of(scatter).per_deviation;
            covariance.iter_mut().enumerate().for_each(|(at, value)| *value *= per[at / d] * per[at % d]);
            let by = ledoit_wolf(&covariance, d, n, fourth);
            shrink(&mut covariance, d, by);
            covariance.iter_mut().enumerate().for_each(|(at, value)| *value /= per[at / d] * per[at % d]);
        }
    }
    covariance
}

fn shrink(covariance: &mut [f64], d: usize, by: f64) {
    let mean = (0..d).map(|j| covariance[j * d + j]).sum::<f64>() / d as f64;
    covariance.iter_mut().for_each(|value| *value *= 1.0 - by);
    (0..d).for_each(|j| covariance[j * d + j] += by * mean);
}

/// How far to shrink covariances of standardised rows by the lemma of Ledoit and Wolf.
fn ledoit_wolf(covariance: &[f64], d: usize, n: f64, fourth: f64) -> f64 {
    if d == 1 {
        return 0.0;
    }
    let (p, trace) = (d as f64, (0..d).map(|j| covariance[j * d + j]).sum::<f64>());
    let mu = trace / p;
    let squares: f64 = covariance.iter().map(|value| value * value).sum();
    let beta = (fourth / n - squares) / (p * n);
    let delta = (squares - 2.0 * mu * trace + p * mu * mu) / p;
    let beta = beta.min(delta);
    if beta == 0.0 { 0.0 } else { beta / delta }
}
