//! CoCoA as papers write it: fixed work, columns drawn with replacement, changes added up.
//!
//! [`fit`](fn@super::cocoa::fit) chooses how much is done between two exchanges and how far to go; this does what it is told, so
//! that programs on other systems can do exactly the same and be compared with it (`bench/paper`). A draw is a function of (seed,
//! round, partition, number of the step) and takes three lines in any language; sums go from the first entry of a column to the
//! last. So every program that follows these rules comes to the same bits.
//!
//! Minimised is `½‖A α − b‖² + λ (η/2 ‖α‖² + (1 − η) ‖α‖₁)`. In a round every partition takes the same share of steps on its own
//! columns, exactly along one coordinate each, on a copy of the residual `w = A α − b`; σ' is the number of partitions.

use super::cocoa::FitError;
use qjam::{Csc, Ctx, DataSet, Master, Slab, State};
use std::time::{Duration, Instant};

/// Weyl increment of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finalizer.
fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The draws of one partition in one round.
///
/// ```
/// use qjam_algos::linear::Draws;
/// let draws = Draws::new(7, 0, 1);
/// let drawn: Vec<u32> = (0..4).map(|step| draws.below(step, 1000)).collect();
/// assert_eq!(drawn, [527, 451, 63, 168]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws(u64);

impl Draws {
    /// Those of a partition in a round, both counted from 0.
    pub fn new(seed: u64, round: u64, partition: u32) -> Self {
        let parts = [seed, round, u64::from(partition)];
        Draws(parts.into_iter().fold(0, |key: u64, part| mix(key.wrapping_add(GOLDEN) ^ part)))
    }

    /// The number below `n` that a step draws.
    #[inline]
    pub fn below(self, step: u64, n: u32) -> u32 {
        let bits = mix(self.0.wrapping_add(GOLDEN.wrapping_mul(step + 1)));
        (((bits >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// What a partition is told to do in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// σ', by which the curvature of a column is multiplied.
    pub sigma: f64,
    /// Weight of the sum of absolute values, `λ (1 − η)`.
    pub l1: f64,
    /// Weight of half the sum of squares, `λ η`.
    pub l2: f64,
    /// How many steps.
    pub count: u64,
    /// Which columns they are on.
    pub draws: Draws,
}

/// Takes steps on columns, each given by its rows and values. Changes `alpha`, and returns `A Δα`; `None` if a column has a row that
/// `w` has not.
///
/// ```
/// use qjam_algos::linear::{Draws, Steps, local_steps};
/// // A single column (1, 2) and b = (1, 2): α = 5 / (5 + λ) for ridge.
/// let steps = Steps { sigma: 1.0, l1: 0.0, l2: 1.0, count: 1, draws: Draws::new(0, 0, 0) };
/// let (mut alpha, column) = ([0.0], (&[0, 1][..], &[1.0, 2.0][..]));
/// let change = local_steps(|_| column, &[-1.0, -2.0], &mut alpha, &steps).unwrap();
/// assert!((alpha[0] - 5.0 / 6.0).abs() < 1e-15 && (change[1] - 10.0 / 6.0).abs() < 1e-15);
/// ```
pub fn local_steps<'a>(
    columns: impl Fn(usize) -> (&'a [u32], &'a [f64]),
    w: &[f64],
    alpha: &mut [f64],
    steps: &Steps,
) -> Option<Vec<f64>> {
    let Steps { sigma, l1, l2, count, draws } = *steps;
    let mut r = w.to_vec();
    let n = u32::try_from(alpha.len()).unwrap_or(u32::MAX);
    for step in 0..if n == 0 { 0 } else { count } {
        let j = draws.below(step, n) as usize;
        let (rows, values) = columns(j);
        let (mut along, mut square) = (0.0, 0.0);
        for (row, value) in rows.iter().zip(values) {
            along += value * r.get(*row as usize)?;
            square += value * value;
        }
        let bend = sigma * square + l2;
        if bend <= 0.0 {
            continue;
        }
        let to = soft((sigma * square * alpha[j] - along) / bend, l1 / bend);
        let by = to - alpha[j];
        if by == 0.0 {
            continue;
        }
        alpha[j] = to;
        for (row, value) in rows.iter().zip(values) {
            *r.get_mut(*row as usize)? += sigma * by * value;
        }
    }
    r.iter_mut().zip(w).for_each(|(r, w)| *r = (*r - w) / sigma);
    Some(r)
}

fn soft(z: f64, t: f64) -> f64 {
    if z > t {
        z - t
    } else if z < -t {
        z + t
    } else {
        0.0
    }
}

/// The coordinates of a partition.
#[derive(Clone, Debug, qjam::Wire)]
pub struct DrawnAlphas {
    alpha: Vec<f64>,
}

impl State for DrawnAlphas {
    type Chunk = Csc<f64>;

    fn init(columns: &Csc<f64>, _: &Ctx) -> Self {
        DrawnAlphas { alpha: vec![0.0; columns.cols()] }
    }
}

/// What all partitions are told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct DrawnTask {
    w: Slab<f64>,
    sigma: f64,
    l1: f64,
    l2: f64,
    h: f64,
    seed: u64,
    round: u64,
}

/// What a partition says: `A Δα`, and sums over its coordinates.
#[derive(Clone, Debug, qjam::Wire, qjam::Sum)]
pub struct DrawnAnswer {
    change: Slab<f64>,
    squares: f64,
    sizes: f64,
}

/// One round on one partition.
#[qjam::map]
pub fn draw(task: &DrawnTask, columns: &Csc<f64>, state: &mut DrawnAlphas, ctx: &Ctx) -> DrawnAnswer {
    let alpha = &mut state.alpha;
    let count = ((task.h * alpha.len() as f64) as u64).max(1);
    let draws = Draws::new(task.seed, task.round, ctx.chunk());
    let steps = Steps { sigma: task.sigma, l1: task.l1, l2: task.l2, count, draws };
    // Residuals have the length that columns have: `drawn` sees to it.
    let change = local_steps(|j| columns.col(j), &task.w, alpha, &steps).unwrap_or_default();
    let squares = alpha.iter().map(|a| a * a).sum();
    DrawnAnswer { change: change.into(), squares, sizes: alpha.iter().map(|a| a.abs()).sum() }
}
qjam::register!(draw);

/// What is minimised, and with how much work in how many rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawing {
    /// λ.
    pub lambda: f64,
    /// η: 1 is ridge, 0 is lasso.
    pub eta: f64,
    /// Steps of a partition in a round, as a multiple of its columns.
    pub h: f64,
    /// Rounds at most.
    pub rounds: usize,
    /// Ends when the objective is at most this.
    pub target: f64,
    /// Of the draws.
    pub seed: u64,
}

/// What came of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnRound {
    /// The objective after it.
    pub objective: f64,
    /// How long it took, without the objective.
    pub seconds: f64,
    /// The slowest worker's part of that.
    pub worker_s: f64,
    /// The master's own part.
    pub master_s: f64,
}

/// Runs rounds on columns in their order, whose chunks are the partitions. Returns the coordinates and what came of each round.
///
/// ```
/// use qjam::{Csr, DataSet, Master};
/// use qjam_algos::linear::{Drawing, drawn};
/// let x = Csr::from_vecs(vec![0, 1, 2, 4], vec![0, 1, 0, 1], vec![2.0, 1.0, 1.0, 1.0], 2, None)?;
/// let columns = DataSet::columns_of(&x)?.partitions(2)?;
/// let how = Drawing { lambda: 1.0, eta: 1.0, h: 4.0, rounds: 60, target: 0.0, seed: 1 };
/// let (found, rounds) = drawn(&Master::connect("local:2")?, &columns, &[3.0, 1.0, 2.0], &how)?;
/// assert!((found[0] - 21.0 / 17.0).abs() < 1e-9 && (found[1] - 10.0 / 17.0).abs() < 1e-9);
/// assert_eq!(rounds.len(), 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn drawn(
    master: &Master,
    data: &DataSet<Csc<f64>>,
    targets: &[f64],
    how: &Drawing,
) -> Result<(Vec<f64>, Vec<DrawnRound>), FitError> {
    let rows = data.chunk(0).map_err(qjam::Error::from)?.rows();
    if rows != targets.len() {
        return Err(FitError::Targets { targets: targets.len(), rows });
    }
    let mut held = master.hold::<DrawnAlphas>(data)?;
    let mut w: Vec<f64> = targets.iter().map(|b| -b).collect();
    let (l1, l2) = (how.lambda * (1.0 - how.eta), how.lambda * how.eta);
    let mut rounds = vec![];
    for round in 0..how.rounds {
        let begun = Instant::now();
        let sigma = data.len() as f64;
        let task = DrawnTask { w: w.into(), sigma, l1, l2, h: how.h, seed: how.seed, round: round as u64 };
        let (answer, report) = held.run_while(draw, &task, Duration::from_secs(3600), |_| true)?;
        let told = Instant::now();
        w = task.w.into_vec();
        w.iter_mut().zip(answer.change.iter()).for_each(|(w, by)| *w += by);
        let added_s = told.elapsed().as_secs_f64();
        let seconds = begun.elapsed().as_secs_f64();
        let (worker_us, master_us) = report.map_or((0, 0), |report| (report.worker_us, report.master_us));
        let squares: f64 = w.iter().map(|w| w * w).sum();
        let objective = 0.5 * squares + 0.5 * l2 * answer.squares + l1 * answer.sizes;
        if !objective.is_finite() {
            return Err(FitError::Overflow { value: objective, rounds: round + 1 });
        }
        let (worker_s, master_s) = (worker_us as f64 * 1e-6, master_us as f64 * 1e-6 + added_s);
        rounds.push(DrawnRound { objective, seconds, worker_s, master_s });
        if objective <= how.target {
            break;
        }
    }
    let states = held.collect()?;
    Ok((states.into_iter().flat_map(|state| state.alpha).collect(), rounds))
}
