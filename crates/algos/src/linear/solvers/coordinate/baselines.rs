//! What CoCoA is compared with: mini-batch coordinate descent and mini-batch gradient descent.
//!
//! Both exchange as much in a round as CoCoA does, and make less of it. *Mini-batch coordinate descent* computes the steps of
//! the coordinates in a batch from one and the same gradient; since they do not know of each other, each goes `beta` over the
//! size of the batch. *Mini-batch gradient descent* goes along the mean gradient of the rows in a batch by `step/√t`, as MLlib's
//! `…WithSGD` do, and draws coefficients towards 0 by what they cost.

use super::cocoa::{FitError, Objective};
use super::columns::Columns;
use super::learners::Margin;
use super::loss::Loss;
use super::partition::Partitioned;
use super::separable::Separable;
use crate::kernels::{Level, elementwise};
use crate::linear::rows::RowChunk;
use crate::linear::scaled::starts;
use qjam::{Csc, Csr, Ctx, DecodeError, Decoder, Dense, Encoder, Master, Reduce, Rng, State, Wire};
use std::marker::PhantomData;

/// How mini-batches are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batches {
    /// The share of a partition's columns, or of the rows, that a round takes.
    pub share: f64,
    /// Of coordinate descent: the sum of a batch's steps is scaled to this many single steps; 1 is always safe.
    pub beta: f64,
    /// Of gradient descent: the length of the first step.
    pub step: f64,
    /// Rounds.
    pub rounds: usize,
    /// Seed of the choice of batches.
    pub seed: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Batches { share: 0.1, beta: 1.0, step: 1.0, rounds: 100, seed: 0 }
    }
}

/// What mini-batch coordinate descent came to.
#[derive(Clone, Debug)]
pub struct Descended {
    /// One for each column.
    pub coordinates: Vec<f64>,
    /// `A α`, and the constant if there is one.
    pub product: Vec<f64>,
    /// The constant.
    pub constant: f64,
    /// After each round.
    pub objectives: Vec<f64>,
    /// No point is lower.
    pub bound: f64,
}

#[derive(Clone, Debug, qjam::Wire)]
struct Numbers {
    alpha: Vec<f64>,
    squares: Vec<f64>,
}

/// The coordinates of a partition.
#[derive(Debug)]
pub struct Alphas<C> {
    held: Numbers,
    kind: PhantomData<C>,
}

impl<C> Clone for Alphas<C> {
    fn clone(&self) -> Self {
        Alphas { held: self.held.clone(), kind: PhantomData }
    }
}

impl<C: Columns> Wire for Alphas<C> {
    fn encode<'a>(&'a self, out: &mut Encoder<'a>) {
        self.held.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Alphas { held: Numbers::decode(input)?, kind: PhantomData })
    }
}

impl<C: Columns> State for Alphas<C> {
    type Chunk = C;

    fn init(columns: &C, _: &Ctx) -> Self {
        let squares = (0..columns.columns()).map(|j| columns.moments(j).0).collect();
        let held = Numbers { alpha: vec![0.0; columns.columns()], squares };
        Alphas { held, kind: PhantomData }
    }
}

/// Parameters of a round of mini-batch coordinate descent.
#[derive(Clone, Debug, qjam::Wire)]
pub struct BatchRound {
    gradient: Vec<f64>,
    curvature: f64,
    terms: Separable,
    /// What the terms of each column are multiplied by, partition after partition; none for ones.
    prices: Vec<f64>,
    starts: Vec<u64>,
    share: f64,
    /// By what all steps are multiplied.
    scale: f64,
    seed: u64,
    round: u64,
    /// Whether to say what a certificate needs instead.
    certify: bool,
}

/// The name that [`BatchRound`] had.
#[deprecated(note = "it is called BatchRound")]
pub type Asked = BatchRound;

/// What it says.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Answer {
    change: Vec<f64>,
    terms: f64,
    conjugates: f64,
    steepest: f64,
}

impl Reduce for Answer {
    fn merge(&mut self, right: Self) {
        self.change.iter_mut().zip(right.change).for_each(|(a, b)| *a += b);
        self.terms += right.terms;
        self.conjugates += right.conjugates;
        self.steepest = self.steepest.max(right.steepest);
    }
}

/// No second derivative of a loss is larger.
fn curvature(loss: &Loss) -> f64 {
    let largest = |values: &[f64]| values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    match loss {
        Loss::Squares { .. } => 1.0,
        Loss::WeightedSquares { weights, .. } => largest(weights),
        Loss::Logistic { labels } => 0.25 * largest(labels),
    }
}

/// How many columns of a partition a batch has.
fn batch(columns: usize, share: f64) -> usize {
    ((share * columns as f64).ceil() as usize).clamp(1, columns.max(1))
}

/// A round of mini-batch coordinate descent on one partition.
#[qjam::map]
pub fn one_batch<C: Columns>(
    batch_round: &BatchRound,
    columns: &C,
    state: &mut Alphas<C>,
    ctx: &Ctx,
) -> Answer {
    let Numbers { alpha, squares } = &mut state.held;
    let mut answer =
        Answer { change: vec![0.0; batch_round.gradient.len()], terms: 0.0, conjugates: 0.0, steepest: 0.0 };
    // With a price p the coordinate is p times what is kept here: see `Partitioned::with_prices`.
    let first = batch_round.starts[ctx.chunk() as usize] as usize;
    let price = |j: usize| batch_round.prices.get(first + j).copied().unwrap_or(1.0);
    if batch_round.certify {
        for j in (0..alpha.len()).filter(|j| price(*j) > 0.0) {
            let slope = columns.dot_with(j, &batch_round.gradient);
            answer.conjugates += price(j) * batch_round.terms.conjugate(-slope);
            answer.steepest = answer.steepest.max(slope.abs());
        }
        return answer;
    }
    let mut rng = Rng::keyed(batch_round.seed, batch_round.round, ctx.chunk());
    let mut all: Vec<u32> = (0..alpha.len() as u32).collect();
    for i in 0..batch(alpha.len(), batch_round.share).min(alpha.len()) {
        let drawn = i + rng.below((all.len() - i) as u64) as usize;
        all.swap(i, drawn);
        let j = all[i] as usize;
        let slope = columns.dot_with(j, &batch_round.gradient);
        let bend = batch_round.curvature * price(j) * squares[j];
        let by = batch_round.scale * (batch_round.terms.step(alpha[j], slope, bend) - alpha[j]);
        if by != 0.0 && price(j) > 0.0 {
            alpha[j] += by;
            columns.add_to(j, price(j) * by, &mut answer.change);
        }
    }
    answer.terms = alpha.iter().enumerate().map(|(j, a)| price(j) * batch_round.terms.value(*a)).sum();
    answer
}
qjam::register!(
    one_batch::<Csc<f32>>,
    one_batch::<Csc<f64>>,
    one_batch::<Dense<f32>>,
    one_batch::<Dense<f64>>
);

/// Mini-batch coordinate descent from zeros. `observer` sees the objective after every round.
///
/// The objective must not be centred; a constant that costs nothing is settled by the master every round.
pub fn minibatch_scd<C: Columns>(
    master: &Master,
    data: &Partitioned<C>,
    objective: &Objective,
    batches: &Batches,
    mut observer: impl FnMut(usize, f64),
) -> Result<Descended, FitError> {
    assert!(!objective.centred, "mini-batches are made of columns as they are");
    let loss = &objective.loss;
    let mut held = master.hold::<Alphas<C>>(data.data())?;
    let (mut product, mut gradient) = (vec![0.0; loss.rows()], vec![]);
    let mut constant = if objective.free { loss.settle(&mut product) } else { 0.0 };
    let (columns, partitions) = (data.columns(), data.partitions());
    let sizes = (0..partitions).map(|k| columns / partitions + usize::from(k < columns % partitions));
    let all: usize = sizes.map(|size| batch(size, batches.share)).sum();
    let mut batch_round = BatchRound {
        gradient: vec![],
        curvature: curvature(loss),
        terms: objective.terms,
        prices: if data.prices().is_empty() { vec![] } else { data.dealt(data.prices()) },
        starts: data.starts(),
        share: batches.share,
        scale: (batches.beta / all.max(1) as f64).min(1.0),
        seed: batches.seed,
        round: 0,
        certify: false,
    };
    let mut objectives = Vec::with_capacity(batches.rounds);
    for round in 0..batches.rounds {
        loss.gradient_into(&product, &mut gradient);
        (batch_round.gradient, batch_round.round) = (std::mem::take(&mut gradient), round as u64);
        let answer = held.run(one_batch::<C>, &batch_round)?;
        gradient = std::mem::take(&mut batch_round.gradient);
        product.iter_mut().zip(&answer.change).for_each(|(v, by)| *v += by);
        constant += if objective.free { loss.settle(&mut product) } else { 0.0 };
        let value = loss.value(&product) + answer.terms;
        if !value.is_finite() {
            return Err(FitError::Overflow { value, rounds: round + 1 });
        }
        objectives.push(value);
        observer(round + 1, value);
    }
    loss.gradient_into(&product, &mut gradient);
    (batch_round.gradient, batch_round.certify) = (gradient, true);
    let answer = held.run(one_batch::<C>, &batch_round)?;
    let terms = &objective.terms;
    let bound = match answer.conjugates.is_finite() {
        true => loss.bound(&batch_round.gradient, 1.0) - answer.conjugates,
        false if terms.l2 == 0.0 && terms.linear == 0.0 && answer.steepest > 0.0 => {
            let scale = loss.best_scale(&batch_round.gradient, terms.l1 / answer.steepest);
            loss.bound(&batch_round.gradient, scale)
        }
        false => f64::NEG_INFINITY,
    };
    let states = held.collect()?;
    let mut coordinates = data.in_order(states.iter().flat_map(|state| state.held.alpha.iter().copied()));
    coordinates.iter_mut().zip(data.prices()).for_each(|(coordinate, price)| *coordinate *= price);
    Ok(Descended { coordinates, product, constant, objectives, bound })
}

/// What a loss is of, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, qjam::Wire)]
pub enum RowLoss {
    /// `½ (v − b)²`.
    Squares,
    /// `ln(1 + exp(−y v))`.
    Logistic,
    /// `max(0, 1 − y v)`.
    Hinge,
    /// Its square.
    SquaredHinge,
}

impl From<Margin> for RowLoss {
    fn from(margin: Margin) -> Self {
        match margin {
            Margin::Hinge => RowLoss::Hinge,
            Margin::SquaredHinge => RowLoss::SquaredHinge,
        }
    }
}

impl RowLoss {
    /// The loss of a row, and its slope.
    fn at(self, v: f64, target: f64) -> (f64, f64) {
        let short = (1.0 - target * v).max(0.0);
        match self {
            RowLoss::Squares => (0.5 * (v - target) * (v - target), v - target),
            RowLoss::Logistic => {
                let (mut loss, mut chance) = ([-target * v], [-target * v]);
                elementwise::softplus(Level::best(), &mut loss);
                elementwise::sigmoid(Level::best(), &mut chance);
                (loss[0], -target * chance[0])
            }
            RowLoss::Hinge => (short, if short > 0.0 { -target } else { 0.0 }),
            RowLoss::SquaredHinge => (short * short, -2.0 * target * short),
        }
    }
}

/// What a round of mini-batch gradient descent is told.
#[derive(Clone, Debug, qjam::Wire)]
pub struct Walk {
    loss: RowLoss,
    /// Coefficients, and the intercept.
    at: Vec<f64>,
    targets: Vec<f64>,
    weights: Vec<f64>,
    starts: Vec<u64>,
    share: f64,
    seed: u64,
    round: u64,
}

/// What it says: sums over the rows of the batch.
#[derive(Clone, Debug, qjam::Wire, qjam::Sum)]
pub struct Walked {
    loss: f64,
    gradient: Vec<f64>,
    weight: f64,
}

/// A round of mini-batch gradient descent on the rows of a chunk.
#[qjam::map]
pub fn one_walk<C: RowChunk>(walk: &Walk, x: &C, ctx: &Ctx) -> Walked {
    let width = x.width();
    let from = walk.starts[ctx.chunk() as usize] as usize;
    let mut rng = Rng::keyed(walk.seed, walk.round, ctx.chunk());
    let mut out = Walked { loss: 0.0, gradient: vec![0.0; width + 1], weight: 0.0 };
    let (mut squares, zeros) = (vec![0.0; width], vec![0.0; width]);
    for row in 0..x.count() {
        if walk.share < 1.0 && rng.uniform() >= walk.share {
            continue;
        }
        let weight = walk.weights.get(from + row).copied().unwrap_or(1.0);
        let v = x.times(row, &walk.at[..width]) + walk.at[width];
        let (loss, slope) = walk.loss.at(v, walk.targets[from + row]);
        out.loss += weight * loss;
        out.weight += weight;
        out.gradient[width] += weight * slope;
        x.add_spread(row, weight * slope, &zeros, &mut out.gradient[..width], &mut squares);
    }
    out
}
qjam::register!(one_walk::<Dense<f32>>, one_walk::<Dense<f64>>, one_walk::<Csr<f32>>, one_walk::<Csr<f64>>);

/// A problem for mini-batch gradient descent: the mean loss of rows, and `l2/2 ‖a‖² + l1 ‖a‖₁`.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// What the loss is of.
    pub loss: RowLoss,
    /// Targets or labels.
    pub targets: &'a [f64],
    /// Weights of rows; none for ones.
    pub weights: &'a [f64],
    /// Weight of the sum of absolute values, beside the mean loss.
    pub l1: f64,
    /// Weight of half the sum of squares, beside the mean loss.
    pub l2: f64,
    /// Whether there is an intercept, which costs nothing.
    pub intercept: bool,
}

/// What mini-batch gradient descent came to.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// One for each column.
    pub coefficients: Vec<f64>,
    /// The intercept.
    pub intercept: f64,
    /// The objective beside the mean loss.
    pub objective: f64,
    /// Rounds.
    pub rounds: usize,
}

/// Mini-batch gradient descent from zeros, on chunks of so many rows each. There is no certificate.
pub fn minibatch_sgd<C: RowChunk>(
    master: &Master,
    data: &qjam::DataSet<C>,
    counts: &[u64],
    problem: &Problem<'_>,
    batches: &Batches,
    mut observer: impl FnMut(usize, f64),
) -> Result<Arrived, FitError> {
    let width = data.chunk(0).map_err(qjam::Error::from)?.width();
    let mut walk = Walk {
        loss: problem.loss,
        at: vec![0.0; width + 1],
        targets: problem.targets.to_vec(),
        weights: problem.weights.to_vec(),
        starts: starts(counts),
        share: batches.share,
        seed: batches.seed,
        round: 0,
    };
    let cost =
        |at: &[f64]| at[..width].iter().map(|a| 0.5 * problem.l2 * a * a + problem.l1 * a.abs()).sum::<f64>();
    for round in 0..batches.rounds {
        walk.round = round as u64;
        let walked = master.run(one_walk::<C>, &walk, data)?;
        // Nobody in the batch: nothing to go by.
        if walked.weight <= 0.0 {
            continue;
        }
        observer(round + 1, walked.loss / walked.weight + cost(&walk.at));
        let step = batches.step / ((round + 1) as f64).sqrt();
        for (a, slope) in walk.at[..width].iter_mut().zip(&walked.gradient) {
            let to = (1.0 - (step * problem.l2).min(1.0)) * *a - step * slope / walked.weight;
            *a = to.signum() * (to.abs() - step * problem.l1).max(0.0);
        }
        if problem.intercept {
            walk.at[width] -= step * walked.gradient[width] / walked.weight;
        }
    }
    walk.share = 1.0;
    let walked = master.run(one_walk::<C>, &walk, data)?;
    let objective = walked.loss / walked.weight + cost(&walk.at);
    if !objective.is_finite() {
        return Err(FitError::Overflow { value: objective, rounds: batches.rounds });
    }
    let intercept = walk.at.pop().unwrap_or(0.0);
    Ok(Arrived { coefficients: walk.at, intercept, objective, rounds: batches.rounds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::{Penalty, Scaling};
    use qjam::DataSet;

    fn rows() -> (DataSet<Dense<f64>>, Vec<f64>) {
        let mut random = Rng::keyed(2, 0, 0);
        let x: Vec<f64> = (0..80 * 6).map(|_| random.normal()).collect();
        let truth = [1.0, -2.0, 0.0, 0.5, 0.0, 3.0];
        let dot = |row: &[f64]| row.iter().zip(&truth).map(|(x, a)| x * a).sum::<f64>();
        let targets = x.chunks(6).map(|row| dot(row) + 0.1 * random.normal()).collect();
        (DataSet::dense(x, 6).unwrap(), targets)
    }

    fn master() -> Master {
        Master::builder().no_run_file().connect("local:2").unwrap()
    }

    #[test]
    fn mini_batches_of_coordinates_go_down_to_the_optimum_and_more_slowly_than_cocoa() {
        let (rows, targets) = rows();
        let data = Partitioned::dense_columns_of(&rows, 2).unwrap();
        let terms = Penalty::elastic_net(4.0, 0.5, Scaling::HalfSum, 80).unwrap().into();
        let loss = Loss::Squares { targets };
        let objective = Objective { loss, terms, centred: false, free: false };
        let m = master();
        let batches = Batches { share: 1.0, rounds: 400, ..Batches::default() };
        let found = minibatch_scd(&m, &data, &objective, &batches, |_, _| {}).unwrap();
        // A batch of all coordinates with steps of 1/6 never goes up.
        assert!(found.objectives.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-15)));
        let last = found.objectives[399];
        assert!((last - found.bound).abs() <= 1e-6 * last, "{last} {}", found.bound);
        let tight = crate::linear::Params::default().with_tolerance(1e-6).unwrap();
        let cocoa = crate::linear::fit(&m, &data, &objective, &tight, |_| {}).unwrap();
        assert!((cocoa.objective - last).abs() <= 1e-5 * last);
        let within =
            found.objectives.iter().position(|value| *value <= cocoa.objective * (1.0 + 1e-4)).unwrap();
        assert!(within > cocoa.rounds, "{within} rounds and CoCoA {}", cocoa.rounds);
        // Nobody knows of the others: with steps of full length it would not be the same algorithm.
        let bold = Batches { beta: 6.0, rounds: 1, ..batches };
        let bold = minibatch_scd(&m, &data, &objective, &bold, |_, _| {}).unwrap();
        let one = minibatch_scd(&m, &data, &objective, &Batches { rounds: 1, ..batches }, |_, _| {}).unwrap();
        let sixth = bold.coordinates.iter().zip(&one.coordinates).all(|(a, b)| (a / 6.0 - b).abs() < 1e-14);
        assert!(sixth, "{:?} {:?}", bold.coordinates, one.coordinates);
    }

    #[test]
    fn mini_batches_of_rows_come_near_the_optimum() {
        let (rows, targets) = rows();
        let counts: Vec<u64> = (0..rows.len()).map(|i| rows.chunk(i).unwrap().rows() as u64).collect();
        let labels: Vec<f64> = targets.iter().map(|t| t.signum()).collect();
        let m = master();
        for (loss, targets) in [
            (RowLoss::Squares, &targets),
            (RowLoss::Logistic, &labels),
            (RowLoss::Hinge, &labels),
            (RowLoss::SquaredHinge, &labels),
        ] {
            let problem = Problem { loss, targets, weights: &[], l1: 0.01, l2: 0.1, intercept: true };
            let run = |share: f64, rounds: usize| {
                let batches = Batches { share, rounds, step: 0.5, ..Batches::default() };
                minibatch_sgd(&m, &rows, &counts, &problem, &batches, |_, _| {}).unwrap().objective
            };
            let (begin, some, best) = (run(1.0, 0), run(0.3, 200), run(1.0, 1000));
            assert!(
                best < 0.9 * begin && best <= some && some - best <= 0.1 * begin,
                "{loss:?}: {begin} {some} {best}"
            );
        }
    }
}
