//! Ridge regression by coordinate descent, in the manner of CoCoA: columns and their coefficients stay where they are,
//! and one vector is exchanged per round.

use qjam::{Ctx, DataSet, Dense, Master, Result, Rng, State, Sum, Wire};
use std::time::Duration;

/// Rows of the problem: the length of the vector that is exchanged.
const ROWS: usize = 200;

/// The coefficients of the columns of a partition.
#[derive(Clone, Wire)]
pub(crate) struct Alpha {
    values: Vec<f64>,
    /// How often they were changed.
    rounds: u64,
}

impl State for Alpha {
    type Chunk = Dense<f64>;

    fn init(columns: &Dense<f64>, ctx: &Ctx) -> Self {
        // Small random numbers, so that a state that was made differently is noticed.
        let mut rng = ctx.rng();
        Alpha { values: (0..columns.rows()).map(|_| 1e-3 * rng.normal()).collect(), rounds: 0 }
    }
}

/// What is exchanged: what is left of the right-hand side, and how local work is scaled.
#[derive(Wire)]
pub(crate) struct Task {
    residual: Vec<f64>,
    lambda: f64,
    sigma: f64,
    /// How often all columns are gone through.
    passes: u32,
    /// How long each partition sleeps besides, so that it can be hit.
    pause_us: u64,
}

#[derive(Wire, Sum)]
pub(crate) struct Delta {
    change: Vec<f64>,
    norm: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[qjam::map]
pub(crate) fn descend(task: &Task, columns: &Dense<f64>, alpha: &mut Alpha, ctx: &Ctx) -> Delta {
    std::thread::sleep(Duration::from_micros(task.pause_us));
    let mut rng = ctx.rng();
    let mut change = vec![0.0; task.residual.len()];
    for _ in 0..task.passes as usize * columns.rows() {
        let j = rng.below(columns.rows() as u64) as usize;
        let column = columns.row(j);
        let left = dot(column, &task.residual) - task.sigma * dot(column, &change);
        let curvature = task.sigma * dot(column, column) + task.lambda;
        let step = (left - task.lambda * alpha.values[j]) / curvature;
        alpha.values[j] += step;
        change.iter_mut().zip(column).for_each(|(c, x)| *c += step * x);
    }
    alpha.rounds += 1;
    Delta { change, norm: dot(&alpha.values, &alpha.values) }
}

/// A problem: columns, and the right-hand side.
pub(crate) struct Problem {
    pub(crate) columns: DataSet<Dense<f64>>,
    target: Vec<f64>,
    partitions: usize,
    passes: u32,
    pause_us: u64,
}

impl Problem {
    pub(crate) fn new(columns: usize, partitions: usize, passes: u32) -> Self {
        let mut rng = Rng::keyed(1, 2, 3);
        let values: Vec<f64> = (0..columns * ROWS).map(|_| rng.normal()).collect();
        let target = (0..ROWS).map(|_| rng.normal()).collect();
        let columns = DataSet::dense(values, ROWS).unwrap().partitions(partitions).unwrap();
        Problem { columns, target, partitions, passes, pause_us: 0 }
    }

    /// The same, with work that takes longer: the bits are the same, too.
    pub(crate) fn slowly(self, pause_us: u64) -> Self {
        Problem { pause_us, ..self }
    }

    /// Runs so many rounds, calling `between` before each; gives the bits of all that came out.
    pub(crate) fn solve(&self, m: &Master, rounds: u64, mut between: impl FnMut(u64)) -> Result<Solution> {
        let mut held = m.hold::<Alpha>(&self.columns)?;
        let mut residual = self.target.clone();
        let mut norms = Vec::new();
        for round in 0..rounds {
            between(round);
            let task = Task {
                residual,
                lambda: 1.0,
                sigma: self.partitions as f64,
                passes: self.passes,
                pause_us: self.pause_us,
            };
            let delta = held.run(descend, &task)?;
            residual = task.residual;
            residual.iter_mut().zip(&delta.change).for_each(|(r, c)| *r -= c);
            norms.push(delta.norm);
        }
        let alphas = held.collect()?;
        assert!(alphas.iter().all(|alpha| alpha.rounds == rounds), "each round counts once");
        let values: Vec<f64> = alphas.into_iter().flat_map(|alpha| alpha.values).collect();
        Ok(Solution {
            objective: dot(&residual, &residual) + norms.last().copied().unwrap_or(0.0),
            values,
            norms,
        })
    }
}

/// What a run found, to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solution {
    pub(crate) objective: f64,
    pub(crate) values: Vec<f64>,
    norms: Vec<f64>,
}

impl Solution {
    pub(crate) fn bits(&self) -> Vec<u64> {
        self.values.iter().chain(&self.norms).chain([&self.objective]).map(|v| v.to_bits()).collect()
    }
}
