//! A round of expectation and maximisation: how likely each component is to have made a row, and weighted moments by that.
//!
//! Rows of a chunk are taken a batch at a time, in 64 bits, with a column of ones behind them, so that sums of weights fall out
//! of the sums over columns. Deviations are taken from the mean that a component has in this round: its next mean is near, so
//! sums over chunks can simply be added, and what is taken off on the master is small.
//!
//! ```text
//!   rows − mean ──▶ times the factor ──▶ lengths ──▶ joint log-densities ──▶ shares of the components
//!   rows − mean, times shares ──▶ sums of weights, deviations, and their products
//! ```

use super::gaussians::Gaussians;
use super::params::Covariance;
use crate::answers::{BadNumber, RowNumbers, further, not_finite};
use crate::kernels::aligned::Aligned;
use crate::kernels::deviations::{add_moments, less, less_weighted, squared_distances, squared_lengths};
use crate::kernels::multiply::{Left, Size, add_product};
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use qjam::{Ctx, Dense, Reduce, Rng};

/// Rows that are taken together.
const BATCH: usize = 128;
/// Lanes of the widest register, to which columns are filled up.
const LANES: usize = 8;
/// Columns of a factor that are multiplied together: above the diagonal they are as many rows.
const STRIP: usize = 32;
/// Rows of a sum of products that are done together.
const BAND: usize = 12;
/// A smaller share of a row does not count. Of all rows there are, such shares come to less than rounding beside what
/// [`Gaussians::of_moments`] adds to weights.
const NEGLIGIBLE: f64 = 1e-40;

/// How rows are shared out among components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, qjam::Wire)]
pub enum Sharing {
    /// By their densities.
    Density,
    /// To the nearest mean.
    Nearest,
    /// At random, by seed and start.
    Random(u64, u64),
}

/// What a round is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Components {
    covariance: Covariance,
    sharing: Sharing,
    columns: u32,
    /// One for each component.
    constants: Vec<f64>,
    /// The means, filled up with zeros. Deviations are taken from these.
    means: Vec<f64>,
    /// Where covariances are tied: what deviations of all components are taken from instead, filled up with zeros.
    origin: Vec<f64>,
    /// Of each component, or of all: rows filled up with zeros.
    factors: Vec<f64>,
    /// Of tied covariances: the means times the factor.
    turned: Vec<f64>,
}

impl Components {
    /// Rows are measured by these densities.
    pub(super) fn of(gaussians: &Gaussians, origin: &[f64]) -> Components {
        let (d, k, tied) = (gaussians.columns, gaussians.len(), gaussians.covariance == Covariance::Tied);
        let wide = d.next_multiple_of(LANES);
        let factors = match gaussians.covariance {
            Covariance::Full | Covariance::Tied => filled(&gaussians.factors, d, wide),
            Covariance::Diag => filled(&gaussians.factors, d, padded(d)),
            Covariance::Spherical => {
                let all: Vec<f64> =
                    gaussians.factors.iter().flat_map(|f| std::iter::repeat_n(*f, d)).collect();
                filled(&all, d, padded(d))
            }
        };
        let mut turned = vec![];
        if tied {
            let apart: Vec<f64> = gaussians
                .means
                .iter()
                .zip(origin.iter().cycle())
                .map(|(mean, origin)| mean - origin)
                .collect();
            turned = vec![0.0; k * wide];
            turn(&apart, d, (d, wide), &factors, &mut turned);
        }
        Components {
            covariance: gaussians.covariance,
            sharing: Sharing::Density,
            columns: d as u32,
            constants: gaussians.constants(),
            means: filled(&gaussians.means, d, padded(d)),
            origin: if tied { filled(origin, d, padded(d)) } else { vec![] },
            factors,
            turned,
        }
    }

    /// Rows are shared out without densities.
    pub(super) fn without_densities(
        covariance: Covariance,
        sharing: Sharing,
        means: &[f64],
        origin: &[f64],
    ) -> Components {
        let (d, tied) = (origin.len(), covariance == Covariance::Tied);
        Components {
            covariance,
            sharing,
            columns: d as u32,
            constants: vec![0.0; means.len() / d],
            means: filled(means, d, padded(d)),
            origin: if tied { filled(origin, d, padded(d)) } else { vec![] },
            factors: filled(&vec![1.0; means.len()], d, padded(d)),
            turned: vec![],
        }
    }

    fn mean(&self, component: usize) -> &[f64] {
        let width = padded(self.columns as usize);
        &self.means[component * width..][..width]
    }
}

/// The width of rows with a column of ones.
fn padded(columns: usize) -> usize {
    (columns + 1).next_multiple_of(LANES)
}

/// Rows filled up with zeros.
fn filled(values: &[f64], from: usize, to: usize) -> Vec<f64> {
    let mut filled = vec![0.0; values.len() / from * to];
    filled.chunks_exact_mut(to).zip(values.chunks_exact(from)).for_each(|(to, from_row)| {
        to[..from].copy_from_slice(from_row);
    });
    filled
}

/// Adds rows of some stride times an upper triangular factor, whose rows are `wide`.
fn turn(rows: &[f64], stride: usize, (d, wide): (usize, usize), factor: &[f64], to: &mut [f64]) {
    for first in (0..wide).step_by(STRIP) {
        let cols = STRIP.min(wide - first);
        let size = Size { rows: rows.len() / stride, inner: d.min(first + cols), cols };
        let left = Left::Rows { values: rows, stride };
        add_product(Level::best(), size, left, (&factor[first..], wide), (&mut to[first..], wide));
    }
}

/// What a round gives.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct Moments {
    /// Sum of the logarithms of the densities of the rows.
    pub(super) log_likelihood: f64,
    /// For each component sums of deviations, and of weights behind them.
    pub(super) first: Vec<f64>,
    /// For each component sums of the products of deviations: the upper half, row by row, or each column with itself; none
    /// where covariances are tied.
    pub(super) second: Vec<f64>,
    /// How many components.
    components: u32,
}

impl Moments {
    pub(super) fn components(&self) -> usize {
        self.components as usize
    }
}

impl Reduce for Moments {
    fn merge(&mut self, right: Self) {
        self.log_likelihood += right.log_likelihood;
        self.first.merge(right.first);
        self.second.merge(right.second);
    }
}

/// Memory for a batch.
struct Scratch {
    /// As they are, with a one behind each.
    rows: Aligned,
    /// Less a point.
    apart: Aligned,
    weighted: Aligned,
    /// Times a factor.
    turned: Aligned,
    /// For each component the numbers of all rows of the batch: log-densities, then shares.
    shares: Vec<f64>,
    most: Vec<f64>,
    sums: Vec<f64>,
    some: Vec<(u32, f64)>,
}

impl Scratch {
    fn new(components: &Components, rows: usize) -> Scratch {
        let (d, k, batch) = (components.columns as usize, components.constants.len(), rows.min(BATCH));
        let (width, wide) = (padded(d), d.next_multiple_of(LANES));
        Scratch {
            rows: Aligned::zeros(batch * width),
            apart: Aligned::zeros(batch * width),
            weighted: Aligned::zeros(batch * width),
            turned: Aligned::zeros(batch * wide),
            shares: vec![0.0; k * batch],
            most: vec![0.0; batch],
            sums: vec![0.0; batch],
            some: Vec::with_capacity(batch),
        }
    }

    /// Takes rows in and writes the logarithms of their densities, each times the weight of its component.
    fn measure<C: RowChunk>(&mut self, components: &Components, x: &C, first: usize, count: usize) {
        let (level, d) = (Level::best(), components.columns as usize);
        let (width, wide) = (padded(d), d.next_multiple_of(LANES));
        let Scratch { rows, apart, turned, shares, .. } = self;
        let rows = &mut rows[..count * width];
        for (row, to) in (first..first + count).zip(rows.chunks_exact_mut(width)) {
            x.write(row, &mut to[..d]);
            to[d] = 1.0;
        }
        let (apart, turned) = (&mut apart[..count * width], &mut turned[..count * wide]);
        let factors_of = |component: usize, per: usize| &components.factors[component * per..][..per];
        let is_turned = components.sharing == Sharing::Density;
        if is_turned && components.covariance == Covariance::Tied {
            less(level, rows, &components.origin, apart);
            turned.fill(0.0);
            turn(apart, width, (d, wide), &components.factors, turned);
        }
        for (component, to) in
            shares[..components.constants.len() * count].chunks_exact_mut(count).enumerate()
        {
            match components.covariance {
                Covariance::Full if is_turned => {
                    less(level, rows, components.mean(component), apart);
                    turned.fill(0.0);
                    turn(apart, width, (d, wide), factors_of(component, d * wide), turned);
                    squared_lengths(level, turned, wide, to);
                }
                Covariance::Tied if is_turned => {
                    let mean = &components.turned[component * wide..][..wide];
                    less(level, turned, mean, &mut apart[..count * wide]);
                    squared_lengths(level, &apart[..count * wide], wide, to);
                }
                _ => {
                    let factors = factors_of(component, width);
                    squared_distances(level, rows, components.mean(component), factors, to);
                }
            }
            let constant = components.constants[component];
            to.iter_mut().for_each(|value| *value = constant - 0.5 * *value);
        }
    }

    /// Turns log-densities into shares, and adds up the logarithms of the densities of the rows.
    fn share(&mut self, k: usize, count: usize) -> f64 {
        let (shares, most, sums) =
            (&mut self.shares[..k * count], &mut self.most[..count], &mut self.sums[..count]);
        most.fill(f64::NEG_INFINITY);
        for logs in shares.chunks_exact(count) {
            most.iter_mut().zip(logs).for_each(|(most, log)| *most = if *log > *most { *log } else { *most });
        }
        for logs in shares.chunks_exact_mut(count) {
            logs.iter_mut().zip(&*most).for_each(|(log, most)| *log -= most);
        }
        elementwise::exp(Level::best(), shares);
        sums.fill(0.0);
        for one in shares.chunks_exact(count) {
            sums.iter_mut().zip(one).for_each(|(sum, share)| *sum += share);
        }
        for one in shares.chunks_exact_mut(count) {
            one.iter_mut().zip(&*sums).for_each(|(share, sum)| *share /= sum);
        }
        elementwise::log(Level::best(), sums);
        most.iter().zip(&*sums).map(|(most, sum)| most + sum).sum()
    }

    /// Gives each row to the first of the largest.
    fn share_whole(&mut self, k: usize, count: usize) {
        for row in 0..count {
            let best = (1..k).fold(0, |best, at| {
                if self.shares[at * count + row] > self.shares[best * count + row] { at } else { best }
            });
            (0..k).for_each(|at| self.shares[at * count + row] = f64::from(u8::from(at == best)));
        }
    }

    /// Shares each row at random.
    fn share_randomly(&mut self, k: usize, count: usize, random: &mut Rng) {
        for row in 0..count {
            let mut sum = 0.0;
            for at in 0..k {
                let share = random.uniform();
                self.shares[at * count + row] = share;
                sum += share;
            }
            (0..k).for_each(|at| self.shares[at * count + row] /= sum);
        }
    }
}

/// Sums of a chunk while they are made: deviations and weights, and products of deviations.
struct Sums {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Sums {
    fn new(components: &Components) -> Sums {
        let (d, k) = (components.columns as usize, components.constants.len());
        let second = match components.covariance {
            Covariance::Full => k * d * padded(d),
            Covariance::Tied => 0,
            Covariance::Diag | Covariance::Spherical => k * padded(d),
        };
        Sums { first: vec![0.0; k * padded(d)], second: vec![0.0; second] }
    }

    fn add(&mut self, components: &Components, scratch: &mut Scratch, count: usize) {
        let (level, d) = (Level::best(), components.columns as usize);
        let width = padded(d);
        let Scratch { rows, apart, weighted, shares, some, .. } = scratch;
        let rows = &rows[..count * width];
        if components.covariance == Covariance::Tied {
            // Deviations are from one point, so that one product does for all components.
            less(level, rows, &components.origin, &mut apart[..count * width]);
            let k = components.constants.len();
            let size = Size { rows: k, inner: count, cols: width };
            let left = Left::Rows { values: &shares[..k * count], stride: count };
            add_product(level, size, left, (&apart[..count * width], width), (&mut self.first, width));
            return;
        }
        for (component, shares) in shares.chunks_exact(count).take(components.constants.len()).enumerate() {
            some.clear();
            let numbered = shares.iter().enumerate().filter(|(_, share)| **share > NEGLIGIBLE);
            some.extend(numbered.map(|(row, share)| (row as u32, *share)));
            if some.is_empty() {
                continue;
            }
            let (mean, first) = (components.mean(component), &mut self.first[component * width..][..width]);
            match components.covariance {
                Covariance::Full => {
                    let (apart, weighted) =
                        (&mut apart[..some.len() * width], &mut weighted[..some.len() * width]);
                    less_weighted(level, rows, some, mean, apart, weighted);
                    first[d] += some.iter().map(|(_, share)| share).sum::<f64>();
                    let products = &mut self.second[component * d * width..][..d * width];
                    for at in (0..d).step_by(BAND) {
                        let from = at / LANES * LANES;
                        let size = Size { rows: BAND.min(d - at), inner: some.len(), cols: width - from };
                        let left = Left::Columns { values: &weighted[at..], stride: width };
                        let out = &mut products[at * width + from..];
                        add_product(level, size, left, (&apart[from..], width), (out, width));
                    }
                }
                _ => {
                    let second = &mut self.second[component * width..][..width];
                    add_moments(level, rows, some, mean, first, second);
                }
            }
        }
    }

    fn finish(self, components: &Components, log_likelihood: f64) -> Moments {
        let (d, k) = (components.columns as usize, components.constants.len());
        let width = padded(d);
        let mut first: Vec<f64> =
            self.first.chunks_exact(width).flat_map(|row| &row[..=d]).copied().collect();
        let second = match components.covariance {
            Covariance::Full => {
                let mut halves = Vec::with_capacity(k * d * (d + 1) / 2);
                let products = self.second.chunks_exact(d * width);
                for (products, first) in products.zip(first.chunks_exact_mut(d + 1)) {
                    for (i, row) in products.chunks_exact(width).enumerate() {
                        halves.extend_from_slice(&row[i..d]);
                        first[i] = row[d];
                    }
                }
                halves
            }
            _ => self.second.chunks_exact(width).flat_map(|row| &row[..d]).copied().collect(),
        };
        Moments { log_likelihood, first, second, components: k as u32 }
    }
}

/// Shares out the rows of a chunk, and adds up weights, deviations and their products.
#[qjam::map]
pub fn moments<C: RowChunk>(components: &Components, x: &C, ctx: &Ctx) -> Moments {
    let k = components.constants.len();
    let (mut scratch, mut sums) = (Scratch::new(components, x.count()), Sums::new(components));
    let mut log_likelihood = 0.0;
    let mut random = match components.sharing {
        Sharing::Random(seed, start) => Rng::keyed(seed, start, ctx.chunk()),
        _ => Rng::keyed(0, 0, 0),
    };
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        scratch.measure(components, x, first, count);
        match components.sharing {
            Sharing::Density => log_likelihood += scratch.share(k, count),
            Sharing::Nearest => scratch.share_whole(k, count),
            Sharing::Random(..) => scratch.share_randomly(k, count, &mut random),
        }
        sums.add(components, &mut scratch, count);
    }
    sums.finish(components, log_likelihood)
}
qjam::register!(moments::<Dense<f32>>, moments::<Dense<f64>>);

/// The logarithms of the densities of a chunk's rows, each times the weight of its component.
#[qjam::map]
pub fn joint<C: RowChunk>(components: &Components, x: &C, _: &Ctx) -> RowNumbers {
    joint_of(components, x)
}
qjam::register!(joint::<Dense<f32>>, joint::<Dense<f64>>);

/// The same without a round.
pub(super) fn joint_of<C: RowChunk>(components: &Components, x: &C) -> RowNumbers {
    let (k, mut scratch) = (components.constants.len(), Scratch::new(components, x.count()));
    let mut values = Vec::with_capacity(x.count() * k);
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        scratch.measure(components, x, first, count);
        values.extend((0..count * k).map(|at| scratch.shares[at % k * count + at / k]));
    }
    RowNumbers { values, rows: x.count() as u64, bad: not_finite(x) }
}

/// The logarithm of the likelihood of rows.
#[derive(Clone, Debug, PartialEq, qjam::Wire)]
pub struct LogLikelihood {
    /// Added up.
    pub(super) sum: f64,
    /// Rows seen.
    pub(super) rows: u64,
    /// The first number that is not finite.
    pub(super) bad: BadNumber,
}

impl Reduce for LogLikelihood {
    fn merge(&mut self, right: Self) {
        self.bad = self.bad.or(further(right.bad, self.rows));
        self.sum += right.sum;
        self.rows += right.rows;
    }
}

/// The logarithm of the likelihood of a chunk's rows.
#[qjam::map]
pub fn log_likelihood<C: RowChunk>(components: &Components, x: &C, _: &Ctx) -> LogLikelihood {
    let (k, mut scratch) = (components.constants.len(), Scratch::new(components, x.count()));
    let mut sum = 0.0;
    for first in (0..x.count()).step_by(BATCH) {
        let count = BATCH.min(x.count() - first);
        scratch.measure(components, x, first, count);
        sum += scratch.share(k, count);
    }
    LogLikelihood { sum, rows: x.count() as u64, bad: not_finite(x) }
}
qjam::register!(log_likelihood::<Dense<f32>>, log_likelihood::<Dense<f64>>);
