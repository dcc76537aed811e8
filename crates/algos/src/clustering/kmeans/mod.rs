//! k-means: `k` centres such that the squared distances of all rows to their nearest centres are small.
//!
//! Lloyd's algorithm on any workers, with one result to the bit: [`start`] draws the first centres, [`lloyd`] is one
//! iteration, [`detached`] is the loop of them that needs no submitter, [`bounds`] is the same iteration with the distances left out that cannot matter, [`minibatch`] takes a few
//! rows at a time, [`model`] is what comes out. All of it runs on dense and on sparse rows ([`points`]).
//!
//! *Distance* has one definition ([`nearest`](crate::kernels::nearest)); of equally near centres the first is taken; a
//! centre that no row is nearest to takes over the row that is farthest from its own ([`relocate`]). It stops at the fixed
//! point, or earlier by the tolerance.
//!
//! ```
//! use qjam::{DataSet, Master};
//! use qjam_algos::clustering::kmeans::{Params, fit};
//!
//! let rows: Vec<f64> = (0..3_000).map(|i| f64::from(i % 3) * 10.0 + f64::from(i % 7) * 0.1).collect();
//! let data = DataSet::dense(rows, 1)?;
//! let fit = fit(&Master::connect("local:2")?, &Params::new(3)?, &data, |_| {})?;
//! assert!(fit.inertia < 200.0);
//! let labels = fit.model.predict(&[0.0, 10.0, 20.0, 20.5])?;
//! assert!(labels[0] != labels[1] && labels[2] == labels[3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bounds;
#[cfg(test)]
mod cases;
pub mod detached;
mod exact;
pub mod learner;
pub mod lloyd;
pub mod minibatch;
pub mod model;
pub mod params;
pub mod points;
pub mod relocate;
mod screened;
mod skip;
pub mod start;
pub mod survey;
pub mod targets;
#[cfg(test)]
mod tests;
mod touched;

pub use lloyd::{Centres, NO_LABEL};
pub use minibatch::{fit_minibatch, fit_minibatch_from, learn};
pub use model::{Model, ModelError};
pub use params::{EmptyClusters, Params, ParamsError, Start};
pub use points::Points;
pub use survey::parts;

use crate::kernels::nearest::Real;
use bounds::{Bounds, Step, assign_bounded};
use lloyd::{Measure, Movement, Sums, assign, inertia};
use points::Kept;
use qjam::{DataSet, Held, Master};
use relocate::{FarthestQuery, farthest};
use targets::Targets;
use thiserror::Error;

/// Why there is no result.
#[derive(Debug, Error)]
pub enum FitError {
    /// A number that is not finite.
    #[error(
        "k-means: row {row}, column {column} (counted from 0) is {value}; fill such numbers in before fitting, or have their rows skipped"
    )]
    NotFinite {
        /// Row of the data.
        row: u64,
        /// Column of the data.
        column: u64,
        /// NaN or an infinity.
        value: f64,
    },
    /// A weight that is negative or not finite.
    #[error(
        "k-means: the weight of row {row} (counted from 0) is {value}; weights are finite and not negative"
    )]
    Weight {
        /// Row of the data.
        row: u64,
        /// What is there.
        value: f64,
    },
    /// All weights are 0.
    #[error("k-means: all weights are 0; at least one row must count")]
    NoWeight,
    /// Numbers whose squares overflow.
    #[error(
        "k-means: a number of size {value:e} is too large to be squared and added up (at most {allowed:e}); scale the data, or use 64-bit numbers"
    )]
    TooLarge {
        /// The largest one.
        value: f64,
        /// The largest one that can be used.
        allowed: f64,
    },
    /// More clusters than rows.
    #[error("k-means: {k} clusters of {rows} rows{}; ask for at most as many clusters as there are rows", left_out(*skipped))]
    TooFewRows {
        /// Clusters asked for.
        k: usize,
        /// Rows there are.
        rows: u64,
        /// Rows that were left out.
        skipped: u64,
    },
    /// Nothing but weights.
    #[error("k-means: the data has one column and that is the weight; there are no coordinates to cluster")]
    NoColumns,
    /// Weights were asked for and there are none.
    #[error("k-means: weights of sparse rows are their labels, and these rows have none")]
    NoWeights,
    /// What centres were given before has another length.
    #[error("k-means: {found} weights of earlier batches for {k} centres; there is one for each centre")]
    BatchWeights {
        /// Weights given.
        found: usize,
        /// Centres.
        k: usize,
    },
    /// Centres to begin with that do not fit.
    #[error(
        "k-means: {found} first centres of {found_columns} columns were given for {k} clusters of data with {columns} columns; both must agree"
    )]
    Centres {
        /// Centres given.
        found: usize,
        /// Their columns.
        found_columns: usize,
        /// Clusters asked for.
        k: usize,
        /// Columns of the data without weights.
        columns: usize,
    },
    /// A coordinate of a given centre that cannot be used.
    #[error(
        "k-means: first centre {centre}, column {column} (counted from 0) is {value}, which is no use as a coordinate"
    )]
    Centre {
        /// Which centre.
        centre: usize,
        /// Which column.
        column: usize,
        /// What is there.
        value: f64,
    },
    /// The data could not be read, or a round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

fn left_out(skipped: u64) -> String {
    match skipped {
        0 => String::new(),
        _ => format!(" ({skipped} with numbers that are not finite were skipped)"),
    }
}

/// Why iterating ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No centre moves any more: the assignment is final.
    FixedPoint,
    /// Centres moved less than the tolerance.
    Tolerance,
    /// Batches have got no better for as long as was said.
    NoImprovement,
    /// The iterations were used up before.
    IterationsUsedUp,
}

impl Outcome {
    /// Whether iterating ends where centres have moved so far, all together and squared. `enough` is what the tolerance allows.
    fn of(is_fixed: bool, moved: f64, enough: f64) -> Option<Outcome> {
        match is_fixed {
            true => Some(Outcome::FixedPoint),
            false => (moved <= enough).then_some(Outcome::Tolerance),
        }
    }
}

/// What fitting came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit<T> {
    /// The centres.
    pub model: Model<T>,
    /// Weighted sum of the squared distances of all rows to their nearest centres.
    pub inertia: f64,
    /// Iterations of the start that was kept.
    pub iterations: usize,
    /// Why they ended.
    pub outcome: Outcome,
    /// Centres that no row was nearest to in the last iteration. More than 0 if there are fewer different rows than
    /// clusters.
    pub empty: usize,
    /// Rows that were left out, since a number of them is not finite.
    pub skipped: u64,
    /// Sum of the weights of the rows of each centre in the last iteration; of batches, of all rows it was ever given.
    pub sizes: Vec<f64>,
}

/// One iteration, as an observer sees it.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// Counted from 1 in every start.
    pub number: usize,
    /// Sum of the squared distances that the centres moved.
    pub moved: f64,
    /// Share of the distances that were computed; 1 without pruning.
    pub computed: f64,
    /// Centres without rows.
    pub empty: usize,
}

/// Fits centres to the rows of a data set. `observer` sees every iteration.
///
/// The bits of the result follow from the rows, their order, and `params`; never from the workers. Running out of
/// iterations is no error: see [`Fit::outcome`].
pub fn fit<C: Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    mut observer: impl FnMut(&Iteration),
) -> Result<Fit<C::Number>, FitError> {
    let prepared = Prepared::new(master, params, data)?;
    let mut best: Option<Fit<C::Number>> = None;
    for nth in 0..params.starts() {
        let centres = start::first(master, &prepared.data, params, prepared.dims, nth)?;
        let fit = prepared.iterate(master, params, centres, &mut observer)?;
        if best.as_ref().is_none_or(|best| fit.inertia < best.inertia) {
            best = Some(fit);
        }
    }
    Ok(best.expect("params have at least one start"))
}

/// Fits from given centres, in one start.
pub fn fit_from<C: Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
    centres: Centres<C::Number>,
    mut observer: impl FnMut(&Iteration),
) -> Result<Fit<C::Number>, FitError> {
    let prepared = Prepared::new(master, params, data)?;
    prepared.check(params, &centres)?;
    prepared.iterate(master, params, centres, &mut observer)
}

/// The first centres that [`fit`] would begin with: for those who go on in another way.
pub fn first_centres<C: Points>(
    master: &Master,
    params: &Params,
    data: &DataSet<C>,
) -> Result<Centres<C::Number>, FitError> {
    let prepared = Prepared::new(master, params, data)?;
    start::first(master, &prepared.data, params, prepared.dims, 0)
}

/// Data that was looked at.
struct Prepared<C: Points> {
    data: DataSet<C>,
    dims: usize,
    variance: f64,
    skipped: u64,
}

/// Refuses more clusters than rows.
fn check_rows(params: &Params, rows: u64, skipped: u64) -> Result<(), FitError> {
    match (params.k() as u64) > rows {
        true => Err(FitError::TooFewRows { k: params.k(), rows, skipped }),
        false => Ok(()),
    }
}

/// The coordinates of a row.
fn dims<C: Points>(params: &Params, data: &DataSet<C>) -> Result<usize, FitError> {
    let dims = data.chunk(0).map_err(qjam::Error::from)?.dims(params.weighted());
    match dims.ok_or(FitError::NoWeights)? {
        0 => Err(FitError::NoColumns),
        dims => Ok(dims),
    }
}

/// The coordinates of a row, if the shape of the data allows for the clusters.
fn checked_dims<C: Points>(params: &Params, data: &DataSet<C>) -> Result<usize, FitError> {
    check_rows(params, data.records(), 0)?;
    dims(params, data)
}

/// Refuses centres to begin from that do not fit.
fn checked_start<T: Real>(params: &Params, centres: &Centres<T>, dims: usize) -> Result<(), FitError> {
    let (found, found_columns) = (centres.len(), centres.dims());
    if found != params.k() || found_columns != dims {
        return Err(FitError::Centres { found, found_columns, k: params.k(), columns: dims });
    }
    let largest = (T::LARGEST / (16.0 * dims as f64)).sqrt();
    let bad =
        centres.values.iter().map(|v| v.to_f64()).enumerate().find(|(_, v)| v.is_nan() || v.abs() > largest);
    match bad {
        Some((at, value)) => Err(FitError::Centre { centre: at / dims, column: at % dims, value }),
        None => Ok(()),
    }
}

impl<C: Points> Prepared<C> {
    fn new(master: &Master, params: &Params, data: &DataSet<C>) -> Result<Prepared<C>, FitError> {
        // Known without a look at the rows.
        check_rows(params, data.records(), 0)?;
        let prepared = Prepared::of(master, params, data)?;
        check_rows(params, prepared.data.records(), prepared.skipped)?;
        Ok(prepared)
    }

    /// The same for any number of rows.
    fn of(master: &Master, params: &Params, data: &DataSet<C>) -> Result<Prepared<C>, FitError> {
        let dims = dims(params, data)?;
        let (weighted, skip) = (params.weighted(), params.skips_bad_rows());
        let mut data = survey::cut(data)?;
        let mut survey = survey::look(master, &data, weighted, skip)?;
        let skipped = survey.unusable;
        if skipped > 0 {
            if skipped == data.records() {
                return Err(FitError::TooFewRows { k: params.k(), rows: 0, skipped });
            }
            data = survey::cut(&skip::without_unusable(&data, weighted)?)?;
            survey = survey::look(master, &data, weighted, false)?;
        }
        Ok(Prepared { data, dims, variance: survey.variance, skipped })
    }

    fn check(&self, params: &Params, centres: &Centres<C::Number>) -> Result<(), FitError> {
        checked_start(params, centres, self.dims)
    }

    fn iterate(
        &self,
        master: &Master,
        params: &Params,
        centres: Centres<C::Number>,
        observer: &mut impl FnMut(&Iteration),
    ) -> Result<Fit<C::Number>, FitError> {
        let mut lloyd = Lloyd::new(master, self.data.clone(), centres, params);
        let enough = params.tolerance() * self.variance;
        let mut outcome = Outcome::IterationsUsedUp;
        let mut empty = 0;
        while lloyd.iterations < params.iterations_max() {
            let seen = lloyd.step()?;
            observer(&seen);
            empty = seen.empty;
            if let Some(ended) = Outcome::of(lloyd.is_fixed(), seen.moved, enough) {
                outcome = ended;
                break;
            }
        }
        let inertia = lloyd.inertia()?;
        let iterations = lloyd.iterations;
        let (skipped, sizes) = (self.skipped, lloyd.sizes);
        Ok(Fit { model: Model::new(lloyd.centres), inertia, iterations, outcome, empty, skipped, sizes })
    }
}

/// Lloyd's algorithm, one iteration at a time: for those who decide themselves when to stop.
pub struct Lloyd<'m, C: Points> {
    master: &'m Master,
    data: DataSet<C>,
    weighted: bool,
    centres: Centres<C::Number>,
    /// Weights of the rows of each centre in the last iteration.
    sizes: Vec<f64>,
    iterations: usize,
    fixed: bool,
    empty_clusters: EmptyClusters,
    pruning: Pruning<C>,
    /// Whether products of bytes may sort centres out.
    screening: bool,
}

/// Whether rows keep bounds.
enum Pruning<C: Points> {
    Never,
    /// Not for so many iterations: they did not help.
    Resting(usize),
    Kept {
        held: Held<Kept<C, Bounds>>,
        /// How far centres moved in the last iteration; empty before the first.
        moved: Vec<f64>,
        /// Iterations in a row that were spared next to nothing.
        in_vain: usize,
    },
}

/// Share of the distances above which bounds are not worth their keeping.
const VAIN: f64 = 0.85;
/// Iterations that are tried so, and without bounds afterwards.
const VAIN_ITERATIONS: usize = 2;
const REST_ITERATIONS: usize = 10;

impl<'m, C: Points> Lloyd<'m, C> {
    /// Begins from centres that are known to fit the data, in the cut of the data set as it is.
    fn new(master: &'m Master, data: DataSet<C>, centres: Centres<C::Number>, params: &Params) -> Self {
        let panels = centres.len().div_ceil(C::Number::WIDTH);
        let row_values = C::row_values(&data, centres.dims());
        let pruning = match params.pruning() && bounds::worthwhile::<C::Number>(panels, row_values) {
            true => Pruning::Resting(0),
            false => Pruning::Never,
        };
        let screening = params.pruning() && targets::worth_screening(centres.len(), centres.dims());
        let (weighted, sizes) = (params.weighted(), vec![]);
        let empty_clusters = params.empty_clusters();
        let (iterations, fixed) = (0, false);
        Lloyd {
            master,
            data,
            weighted,
            centres,
            sizes,
            iterations,
            fixed,
            empty_clusters,
            pruning,
            screening,
        }
    }

    /// Begins from given centres, with all that [`fit_from`] checks. Of the params, `k`, pruning, weights and
    /// what becomes of empty centres are used.
    pub fn from(
        master: &'m Master,
        params: &Params,
        data: &DataSet<C>,
        centres: Centres<C::Number>,
    ) -> Result<Self, FitError> {
        let prepared = Prepared::new(master, params, data)?;
        prepared.check(params, &centres)?;
        Ok(Lloyd::new(master, prepared.data, centres, params))
    }

    /// The centres after the last iteration.
    pub fn centres(&self) -> &Centres<C::Number> {
        &self.centres
    }

    /// How often [`Lloyd::step`] has succeeded.
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// Whether the last iteration moved no centre.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Gives every row to its nearest centre and moves the centres.
    pub fn step(&mut self) -> Result<Iteration, FitError> {
        let mut sums = self.sums()?;
        let sizes = sums.weights.clone();
        let empty = sizes.iter().filter(|w| **w == 0.0).count();
        if empty > 0 && self.empty_clusters == EmptyClusters::Farthest {
            let measure = Measure::new(&self.centres, self.weighted);
            let wanted = FarthestQuery { measure, count: empty as u64 };
            self.master.run(farthest::<C>, &wanted, &self.data)?.give_to_empty(&mut sums);
        }
        let Movement { centres, distances, moved, is_fixed } = Movement::new(&self.centres, &sums);
        let computed = sums.compared as f64 / sums.comparisons as f64;
        (self.centres, self.fixed) = (centres, is_fixed);
        self.iterations += 1;
        self.judge(computed, distances);
        self.sizes = sizes;
        Ok(Iteration { number: self.iterations, moved, computed, empty })
    }

    fn sums(&mut self) -> Result<Sums, FitError> {
        if let Pruning::Resting(0) = self.pruning {
            let held = self.master.hold::<Kept<C, Bounds>>(&self.data)?;
            self.pruning = Pruning::Kept { held, moved: vec![], in_vain: 0 };
        }
        match &mut self.pruning {
            Pruning::Kept { held, moved, .. } => {
                let targets = Targets::new(&self.centres.values, self.centres.dims, self.screening);
                let step = Step::new(targets, std::mem::take(moved), self.weighted);
                Ok(held.run(assign_bounded::<C>, &step)?.in_full())
            }
            _ => {
                let with = self.centres.compared(self.screening, self.weighted);
                Ok(self.master.run(assign::<C>, &with, &self.data)?.in_full())
            }
        }
    }

    /// Decides about bounds for the next iteration. Their first one cannot be spared anything.
    fn judge(&mut self, computed: f64, distances: Vec<f64>) {
        match &mut self.pruning {
            Pruning::Never => {}
            Pruning::Resting(left) => *left -= 1,
            Pruning::Kept { moved, in_vain, .. } => {
                *moved = distances;
                *in_vain = if computed > VAIN { *in_vain + 1 } else { 0 };
                if *in_vain > VAIN_ITERATIONS {
                    self.pruning = Pruning::Resting(REST_ITERATIONS);
                }
            }
        }
    }

    /// Weighted sum of the squared distances of all rows to their nearest centres, as these are now.
    pub fn inertia(&self) -> Result<f64, FitError> {
        Ok(self.master.run(inertia::<C>, &Measure::new(&self.centres, self.weighted), &self.data)?)
    }
}
