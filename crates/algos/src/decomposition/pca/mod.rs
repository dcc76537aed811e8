//! Principal component analysis.
//!
//! ```text
//!   narrow rows:  one round ([`moments::covariances`]) ──▶ eigenvectors of the covariances ([`kernels::symmetric`](crate::kernels::symmetric))
//!   wide rows:    one round ([`moments::variances`]) ──▶ rounds of [`directions`] ──▶ eigenvectors among the directions
//! ```
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::decomposition::pca::{Components, Params, fit};
//!
//! // Points on a line, and one beside it.
//! let rows = DataSet::dense(vec![0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 1.6, 2.9], 2)?;
//! let model = fit(&Master::connect("local:1")?, &Params::new(Components::Count(1)), &rows, |_| {})?;
//! let direction = model.component(0);
//! assert!((direction[1] / direction[0] - 2.0).abs() < 0.1 && model.ratios()[0] > 0.99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod directions;
pub mod learner;
pub mod model;
pub mod params;

pub use model::PcaModel;
pub use params::{Components, Params, Solver};

use crate::clustering::kmeans::parts;
use crate::input::{InputError, Problem};
use crate::kernels::symmetric::{Eigen, orthonormalise};
use crate::kernels::vectors::{add_scaled, dot};
use crate::linear::rows::RowChunk;
use crate::moments::{Scatter, covariances, variances};
use directions::{Directions, Images, images};
use model::Spectrum;
use qjam::{DataSet, Master, Reduce, Rng};

/// What the command calls it.
const NAME: &str = "pca";
/// More columns have their components found by the randomised method where that can be.
pub const COLUMNS_MAX: usize = 2_000;

/// Fits a model. `tell` is called after each round with its number.
pub fn fit<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    mut tell: impl FnMut(u64),
) -> Result<PcaModel, InputError> {
    let (rows, columns) = (data.records(), data.chunk(0).map_err(qjam::Error::from)?.width());
    let wrong = |problem: Problem| problem.of(NAME);
    let max = most(params, rows, columns)?;
    let data = data.partitions(parts(rows)).map_err(qjam::Error::from)?;
    match solver(params, columns, max) {
        Solver::Randomized => {
            let count = match params.components() {
                Components::Count(count) => count,
                Components::All => max,
                Components::Share(share) => return Err(wrong(Problem::Share { share })),
            };
            randomised(master, params, &data, count as usize, &mut tell)
        }
        _ => by_covariances(master, params, &data, &mut tell),
    }
}

/// Adds a batch of rows to those that a model was made of, or begins with it. The result is that of all rows at once, up to
/// rounding, since such models keep their products of columns.
///
/// ```
/// use qjam::{DataSet, Master};
/// use qjam_algos::decomposition::pca::{Components, Params, fit, update};
///
/// let (master, params) = (Master::connect("local:1")?, Params::new(Components::Count(1)));
/// let rows = vec![0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 1.6, 2.9];
/// let batch = |range: std::ops::Range<usize>| DataSet::dense(rows[range].to_vec(), 2);
/// let first = update(&master, &params, &batch(0..4)?, None)?;
/// let both = update(&master, &params, &batch(4..10)?, Some(&first))?;
/// let at_once = fit(&master, &params, &batch(0..10)?, |_| {})?;
/// assert!((both.component(0)[1] - at_once.component(0)[1]).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn update<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    before: Option<&PcaModel>,
) -> Result<PcaModel, InputError> {
    let data = data.partitions(parts(data.records())).map_err(qjam::Error::from)?;
    let mut scatter = sound(master.run(covariances::<C>, &(), &data)?, NAME)?;
    if let Some(before) = before {
        if before.columns() != scatter.mean.len() {
            let (found, expected) = (scatter.mean.len(), before.columns());
            return Err(Problem::Columns { found, expected }.of(NAME));
        }
        let mut all = before.scatter().ok_or_else(|| Problem::NoProducts.of(NAME))?;
        all.merge(scatter);
        scatter = all;
    }
    most(params, scatter.rows, scatter.mean.len())?;
    let products = scatter.products.clone();
    Ok(of_scatter(params, scatter)?.with_products(products))
}

/// The most components that there can be. Refuses too few rows and too many components.
fn most(params: &Params, rows: u64, columns: usize) -> Result<u64, InputError> {
    let max = rows.min(columns as u64);
    match params.components() {
        _ if rows < 2 => Err(Problem::Rows { rows, min: 2 }.of(NAME)),
        Components::Count(asked) if asked > max => Err(Problem::Components { asked, max }.of(NAME)),
        _ => Ok(max),
    }
}

/// All eigenvectors of the covariances, which one round finds.
fn by_covariances<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    tell: &mut impl FnMut(u64),
) -> Result<PcaModel, InputError> {
    let scatter = sound(master.run(covariances::<C>, &(), data)?, NAME)?;
    tell(1);
    of_scatter(params, scatter)
}

/// The model of rows of which means and products are known.
fn of_scatter(params: &Params, scatter: Scatter) -> Result<PcaModel, InputError> {
    let (rows, columns) = (scatter.rows, scatter.mean.len());
    let max = rows.min(columns as u64);
    let covariance = over(&scatter.products, rows - 1);
    let total = (0..columns).map(|j| covariance[j * columns + j]).sum();
    let eigen = Eigen::of(covariance, columns).ok_or_else(|| Problem::Overflow.of(NAME))?;
    let kept = kept(params.components(), &eigen.values[..max as usize]);
    let spectrum = Spectrum { values: eigen.values[..kept].to_vec(), total, rows, rank_max: max };
    Ok(PcaModel::new(scatter.mean, eigen.vectors()[..kept * columns].to_vec(), spectrum, params.whiten()))
}

/// The solver for data of this shape.
fn solver(params: &Params, columns: usize, max: u64) -> Solver {
    match (params.solver(), params.components()) {
        (Solver::Auto, Components::Count(count)) if columns > COLUMNS_MAX && count * 5 < max * 4 => {
            Solver::Randomized
        }
        (Solver::Auto, _) => Solver::Covariance,
        (solver, _) => solver,
    }
}

/// Refuses numbers that are not finite, for this learner.
pub(super) fn sound(scatter: Scatter, learner: &'static str) -> Result<Scatter, InputError> {
    match scatter.bad {
        Some((row, column, value)) => Err(Problem::NotFinite { row, column, value }.of(learner)),
        None => Ok(scatter),
    }
}

fn over(values: &[f64], by: u64) -> Vec<f64> {
    values.iter().map(|value| value / by as f64).collect()
}

/// How many components there are with these variances.
fn kept(components: Components, variances: &[f64]) -> usize {
    match components {
        Components::All => variances.len(),
        Components::Count(count) => count as usize,
        Components::Share(share) => {
            let total: f64 = variances.iter().map(|variance| variance.max(0.0)).sum();
            let mut sum = 0.0;
            let enough = variances.iter().position(|variance| {
                sum += variance.max(0.0) / total;
                sum > share
            });
            enough.map_or(variances.len(), |at| at + 1)
        }
    }
}

/// Turns random directions into the first components by rounds over the rows.
fn randomised<C: RowChunk>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    count: usize,
    tell: &mut impl FnMut(u64),
) -> Result<PcaModel, InputError> {
    let scatter = sound(master.run(variances::<C>, &(), data)?, NAME)?;
    tell(1);
    let (rows, columns) = (data.records(), scatter.mean.len());
    let max = rows.min(columns as u64);
    let width = params.directions(max);
    let mut random = Rng::keyed(params.seed(), 0, 0);
    let mut q: Vec<f64> = (0..width * columns).map(|_| random.normal()).collect();
    orthonormalise(&mut q, columns);
    let few = (count as u64) * 10 < max;
    let rounds = params.power_rounds().unwrap_or(if few { 7 } else { 4 }) + 1;
    for round in 0.. {
        let request = Directions::new(scatter.mean.clone(), &q);
        let found: Images = master.run(images::<C>, &request, data)?;
        tell(round + 2);
        let turned = over(&found.rows(width), rows - 1);
        if round < rounds {
            q = turned;
            orthonormalise(&mut q, columns);
            continue;
        }
        let total = over(&scatter.products, rows - 1).iter().sum();
        let (values, vectors) = among(&q, &turned, columns).ok_or_else(|| Problem::Overflow.of(NAME))?;
        let spectrum = Spectrum { values: values[..count].to_vec(), total, rows, rank_max: max };
        return Ok(PcaModel::new(
            scatter.mean,
            vectors[..count * columns].to_vec(),
            spectrum,
            params.whiten(),
        ));
    }
    unreachable!("the last round returns")
}

/// The eigenvalues and eigenvectors of covariances as far as they lie among orthonormal directions, whose images are known.
pub(super) fn among(q: &[f64], images: &[f64], columns: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let width = q.len() / columns;
    let product = |at: usize| {
        // The mean of both halves, which differ by rounding.
        let (i, j) = (at / width, at % width);
        let half = |i: usize, j: usize| dot(&q[i * columns..][..columns], &images[j * columns..][..columns]);
        0.5 * (half(i, j) + half(j, i))
    };
    let eigen = Eigen::of((0..width * width).map(product).collect(), width)?;
    let mut vectors = vec![0.0; q.len()];
    for (i, vector) in vectors.chunks_exact_mut(columns).enumerate() {
        for (share, direction) in eigen.vector(i).iter().zip(q.chunks_exact(columns)) {
            add_scaled(vector, *share, direction);
        }
    }
    Some((eigen.values, vectors))
}
