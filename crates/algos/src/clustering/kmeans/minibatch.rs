//! k-means on a few rows at a time: for data that is too much to be read in every iteration.
//!
//! A round draws its share of rows from every chunk and gives each to its nearest centre. A centre then moves to the mean
//! of all rows it was ever given, so it moves less and less. Rows are drawn with replacement, keyed by seed, step and
//! chunk.
//!
//! It ends after so many rows as the iterations allow passes over the data, or when centres move less than the tolerance, or
//! when the mean squared distance of the drawn rows, smoothed over about half a pass, has not fallen for a while.

use super::lloyd::{Measure, Sums, assign, inertia};
use super::points::{Points, View, chained_square};
use super::{Centres, Fit, FitError, Iteration, Model, Outcome, Params, Prepared, start};
use crate::kernels::nearest::{Panels, Real};
use qjam::{Csr, Ctx, DataSet, Dense, Master, Rng};

/// Centres, and which rows to draw.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Batch<T: Real> {
    panels: Panels<T>,
    /// Row-major centres and their squared lengths.
    centres: Vec<T>,
    squares: Vec<f64>,
    seed: u64,
    step: u64,
    /// Rows to draw for every row there is.
    share: f64,
    /// Whether rows have weights.
    weighted: bool,
}

/// What drawn rows come to.
#[derive(Clone, Debug, PartialEq, qjam::Wire, qjam::Sum)]
pub struct Drawn {
    /// By centre.
    pub sums: Sums,
    /// Weighted sum of squared distances to the centres before they move.
    pub inertia: f64,
}

/// Draws rows of a chunk and gives them to their nearest centres.
#[qjam::map]
pub fn assign_some<C: Points>(batch: &Batch<C::Number>, x: &C, ctx: &Ctx) -> Drawn {
    let dims = batch.panels.dims();
    let rows = x.view(batch.weighted);
    let mut drawn = Drawn { sums: Sums::new(batch.panels.centres(), dims), inertia: 0.0 };
    let mut random = Rng::keyed(batch.seed, batch.step, ctx.chunk());
    // What is left over after whole rows is one more row, as often as it should be.
    let count = (rows.len() as f64 * batch.share + random.uniform()) as usize;
    let list: Vec<u32> = (0..count).map(|_| random.below(rows.len() as u64) as u32).collect();
    let mut nearest = vec![0; count];
    rows.nearest_of(&batch.panels, &list, &mut nearest);
    rows.add_listed(&list, &nearest, &mut drawn.sums);
    for (i, centre) in list.iter().zip(nearest).map(|(i, centre)| (*i as usize, centre as usize)) {
        let coordinates = &batch.centres[centre * dims..][..dims];
        drawn.inertia += rows.weight(i) * rows.squared_distance(i, coordinates, batch.squares[centre]);
    }
    drawn.sums.compared = (count * batch.panels.len()) as u64;
    drawn.sums.comparisons = drawn.sums.compared;
    drawn
}
qjam::register!(assign_some::<Dense<f32>>, assign_some::<Dense<f64>>);
qjam::register!(assign_some::<Csr<f32>>, assign_some::<Csr<f64>>);

/// Fits centres by batches of about as many rows as `params` says. `observer` sees every batch as an iteration.
///
/// Of the params, the largest number of iterations counts passes over the data: there are as many batches as have that many
/// times all rows. [`Fit::iterations`] counts batches. The number of starts and pruning have no meaning here.
pub fn fit_minibatch<C: Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    observer: impl FnMut(&Iteration),
) -> Result<Fit<C::Number>, FitError> {
    let prepared = Prepared::new(master, params, data)?;
    let centres = start::first(master, &prepared.data, params, prepared.dims, 0)?;
    run(master, params, &prepared, centres, observer)
}

/// The same from given centres.
pub fn fit_minibatch_from<C: Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    centres: Centres<C::Number>,
    observer: impl FnMut(&Iteration),
) -> Result<Fit<C::Number>, FitError> {
    let prepared = Prepared::new(master, params, data)?;
    prepared.check(params, &centres)?;
    run(master, params, &prepared, centres, observer)
}

/// Takes all rows of a data set as one batch: centres move towards the rows given to them. `weights` is what each centre has
/// been given before, and grows; all 0 for new centres. Of the params, weights and rows to be skipped count.
pub fn learn<C: Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    centres: &Centres<C::Number>,
    weights: &mut [f64],
) -> Result<Centres<C::Number>, FitError> {
    // A batch may have fewer rows than there are clusters.
    let prepared = Prepared::of(master, params, data)?;
    prepared.check(params, centres)?;
    if weights.len() != centres.len() {
        return Err(FitError::BatchWeights { found: weights.len(), k: centres.len() });
    }
    let sums = master.run(assign::<C>, &centres.compared(true, params.weighted()), &prepared.data)?.in_full();
    Ok(moved_towards(centres, &sums, weights))
}

/// How many batches there are at most for so many rows.
pub(super) fn batches_max(params: &Params, rows: u64) -> u64 {
    let share = params.batch_rows() as f64 / rows as f64;
    (params.iterations_max() as f64 / share).ceil() as u64
}

fn run<C: Points>(
    master: &Master,
    params: &Params,
    prepared: &Prepared<C>,
    mut centres: Centres<C::Number>,
    mut observer: impl FnMut(&Iteration),
) -> Result<Fit<C::Number>, FitError> {
    let batch_rows = params.batch_rows();
    let rows = prepared.data.records();
    let weighted = params.weighted();
    let enough = params.tolerance() * prepared.variance;
    let share = batch_rows as f64 / rows as f64;
    let batches_max = batches_max(params, rows);
    let mut progress = Progress::new(params.patience(), 2.0 * batch_rows as f64 / (rows as f64 + 1.0));
    let mut weights = vec![0.0; centres.len()];
    let (mut batches, mut outcome) = (0, Outcome::IterationsUsedUp);
    while batches < batches_max && outcome == Outcome::IterationsUsedUp {
        let batch = Batch {
            panels: centres.panels(),
            squares: centres.values().chunks_exact(centres.dims()).map(chained_square).collect(),
            centres: centres.values().to_vec(),
            seed: params.seed(),
            step: batches,
            share,
            weighted,
        };
        let drawn = master.run(assign_some::<C>, &batch, &prepared.data)?;
        let sums = drawn.sums.in_full();
        let next = moved_towards(&centres, &sums, &mut weights);
        let moved = next.distances_to(&centres).iter().map(|d| d * d).sum();
        centres = next;
        batches += 1;
        let empty = weights.iter().filter(|w| **w == 0.0).count();
        observer(&Iteration { number: batches as usize, moved, computed: 1.0, empty });
        // The first batch says how good the first centres are.
        let stuck = batches > 1 && progress.is_stuck(drawn.inertia / sums.weights.iter().sum::<f64>());
        if stuck || (moved <= enough && params.tolerance() > 0.0) {
            outcome = if stuck { Outcome::NoImprovement } else { Outcome::Tolerance };
        }
    }
    let inertia = master.run(inertia::<C>, &Measure::new(&centres, weighted), &prepared.data)?;
    let empty = weights.iter().filter(|w| **w == 0.0).count();
    let iterations = batches as usize;
    let (skipped, sizes) = (prepared.skipped, weights);
    Ok(Fit { model: Model::new(centres), inertia, iterations, outcome, empty, skipped, sizes })
}

/// Whether the mean squared distance of batches still falls.
struct Progress {
    /// Batches without progress that are borne; `None` for any number.
    patience: Option<usize>,
    /// Weight of a batch in the smoothed mean.
    share: f64,
    smoothed: Option<f64>,
    lowest: f64,
    in_vain: usize,
}

impl Progress {
    fn new(patience: Option<usize>, share: f64) -> Progress {
        Progress { patience, share: share.min(1.0), smoothed: None, lowest: f64::INFINITY, in_vain: 0 }
    }

    fn is_stuck(&mut self, mean: f64) -> bool {
        if !mean.is_finite() {
            // Nothing of any weight was drawn.
            return false;
        }
        let now = self.smoothed.map_or(mean, |before| before * (1.0 - self.share) + mean * self.share);
        self.smoothed = Some(now);
        if now < self.lowest {
            (self.lowest, self.in_vain) = (now, 0);
        } else {
            self.in_vain += 1;
        }
        self.patience.is_some_and(|patience| self.in_vain >= patience)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_get_no_better_are_borne_as_often_as_was_said() {
        let mut progress = Progress::new(Some(2), 1.0);
        let stuck: Vec<bool> =
            [5.0, 4.0, 4.0, 3.0, 3.5, f64::NAN, 3.0].map(|mean| progress.is_stuck(mean)).into();
        assert_eq!(stuck, [false, false, false, false, false, false, true]);
        let mut progress = Progress::new(None, 1.0);
        assert!(![1.0; 100].iter().any(|mean| progress.is_stuck(*mean)));
    }
}
