//! k-means on a few rows at a time: for data that is too much to be read in every iteration.
//!
//! A round draws its share of rows from every chunk and gives each to its nearest centre. A centre then moves to the mean
//! of all rows it was ever given, so it moves less and less. Rows are drawn with replacement, keyed by seed, step and
//! chunk.

use super::lloyd::{Measure, Sums, inertia};
use super::{Centres, Fit, FitError, Iteration, Model, Outcome, Params, Prepared, start};
use crate::kernels::Level;
use crate::kernels::nearest::{Panels, Real, Rows};
use qjam::{Ctx, DataSet, Dense, Master, Rng};

/// Centres, and which rows to draw.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Batch<T: Real> {
    panels: Panels<T>,
    seed: u64,
    step: u64,
    /// Rows to draw for every row there is.
    share: f64,
}

/// Draws rows of a chunk and gives them to their nearest centres.
#[qjam::map]
pub fn assign_some<T: Real>(batch: &Batch<T>, x: &Dense<T>, ctx: &Ctx) -> Sums {
    let dims = batch.panels.dims();
    let mut sums = Sums::new(batch.panels.centres(), dims);
    let mut random = Rng::keyed(batch.seed, batch.step, ctx.chunk());
    // What is left over after whole rows is one more row, as often as it should be.
    let count = (x.rows() as f64 * batch.share + random.uniform()) as usize;
    let mut drawn = Vec::with_capacity(count * x.cols());
    for _ in 0..count {
        drawn.extend_from_slice(x.row(random.below(x.rows() as u64) as usize));
    }
    let rows = Rows::new(&drawn, x.cols(), dims);
    let mut nearest = vec![0; count];
    T::nearest(Level::best(), &batch.panels, rows, &mut nearest);
    for (i, centre) in nearest.iter().enumerate() {
        sums.add(*centre as usize, rows.row(i), rows.rest(i));
    }
    sums.compared = (count * batch.panels.len()) as u64;
    sums.comparisons = sums.compared;
    sums
}
qjam::register!(assign_some::<f32>, assign_some::<f64>);

/// Fits centres by batches of about `batch_rows` rows; an iteration is one batch. `observer` sees every one.
///
/// Of the params, the number of starts and pruning have no meaning here.
pub fn fit_minibatch<T: Real>(
    master: &Master,
    params: &Params,
    batch_rows: usize,
    data: &DataSet<Dense<T>>,
    mut observer: impl FnMut(&Iteration),
) -> Result<Fit<T>, FitError> {
    if batch_rows == 0 {
        return Err(FitError::EmptyBatch);
    }
    let prepared = Prepared::new(master, params, data)?;
    let mut centres = start::first(master, &prepared.data, params, prepared.dims, 0)?;
    let enough = params.tolerance() * prepared.variance;
    let share = batch_rows as f64 / prepared.data.records() as f64;
    let mut weights = vec![0.0; centres.len()];
    let (mut iterations, mut outcome) = (0, Outcome::IterationsUsedUp);
    while iterations < params.iterations_max() && outcome == Outcome::IterationsUsedUp {
        let batch = Batch { panels: centres.panels(), seed: params.seed(), step: iterations as u64, share };
        let sums = master.run(assign_some::<T>, &batch, &prepared.data)?;
        let next = moved_towards(&centres, &sums, &mut weights);
        let moved = next.distances_to(&centres).iter().map(|d| d * d).sum();
        centres = next;
        iterations += 1;
        let empty = weights.iter().filter(|w| **w == 0.0).count();
        observer(&Iteration { number: iterations, moved, computed: 1.0, empty });
        if moved <= enough && params.tolerance() > 0.0 {
            outcome = Outcome::Tolerance;
        }
    }
    let inertia = master.run(inertia::<T>, &Measure::new(&centres), &prepared.data)?;
    let empty = weights.iter().filter(|w| **w == 0.0).count();
    Ok(Fit { model: Model::new(centres), inertia, iterations, outcome, empty })
}

fn moved_towards<T: Real>(centres: &Centres<T>, sums: &Sums, weights: &mut [f64]) -> Centres<T> {
    let (mut values, dims) = (centres.values.clone(), centres.dims);
    for (j, centre) in values.chunks_exact_mut(dims).enumerate() {
        let new = sums.weights[j];
        weights[j] += new;
        if new > 0.0 {
            for (c, sum) in centre.iter_mut().zip(&sums.sums[j * dims..]) {
                *c = T::from_f64(c.to_f64() + (sum - new * c.to_f64()) / weights[j]);
            }
        }
    }
    Centres { values, dims }
}
