//! The master's part: one vector out, one vector back, and a certificate.
//!
//! ```text
//!   gradient of the loss, last step ──▶ local::descend on every partition ──▶ AΔ, scalars
//!        ▲                                                                       │
//!        └── v += t AΔ + s (the step before) ◀── search: the lowest point ◀──────┘
//! ```
//!
//! Coordinates stay with their columns; the master has `v = A α`, the gradient, and the last step's image. The *certificate* is a
//! lower bound of the objective (Fenchel's dual at the gradient, scaled into the feasible set where that is bounded). It
//! holds for the optimum and so for every later point: the gap is the present objective less the best bound so far. Rounds
//! with a certificate are whole passes; they are made when what rounds still gain says that the gap may have closed.

use super::columns::Columns;
use super::local::{Change, Coordinates, Round, Start, descend, place};
use super::loss::Loss;
use super::params::{Combine, Local, Params};
use super::partition::Partitioned;
use super::search::{Found, Search};
use super::separable::Separable;
use super::tuner::{self, Choice, Reason, Tuner};
use qjam::{Held, Job, Master};
use std::time::{Duration, Instant};
use thiserror::Error;

/// What is minimised: `loss(A α) + Σ terms(αⱼ)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// What depends on all coordinates together.
    pub loss: Loss,
    /// What each coordinate adds.
    pub terms: Separable,
    /// Whether columns are seen with their means taken off, as is done for an intercept that costs nothing. The targets must
    /// have mean 0 then.
    pub centred: bool,
    /// Whether a constant that costs nothing is added to the product, and settled by the master every round.
    pub free: bool,
}

/// Why there is no result.
#[derive(Debug, Error)]
pub enum FitError {
    /// Targets of other data.
    #[error("linear: {targets} targets for columns of {rows} rows; there must be one for each row")]
    Targets {
        /// Targets there are.
        targets: usize,
        /// Length of a column.
        rows: usize,
    },
    /// Not one coordinate for each column.
    #[error("linear: {found} coordinates to begin with for {columns} columns; there must be one for each")]
    Starts {
        /// How many there are.
        found: usize,
        /// Columns of the data.
        columns: usize,
    },
    /// A coordinate that is no number.
    #[error("linear: a coordinate to begin with is {value}; all must be finite")]
    Start {
        /// What it is.
        value: f64,
    },
    /// Numbers that are too large.
    #[error("linear: the objective is {value} after {rounds} rounds; scale the data or the targets")]
    Overflow {
        /// What it is.
        value: f64,
        /// When.
        rounds: usize,
    },
    /// A round failed.
    #[error(transparent)]
    Run(#[from] qjam::Error),
}

/// Why a fit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The duality gap is within the tolerance.
    Converged,
    /// The objective is as low as was asked for.
    TargetReached,
    /// Rounds gain nothing any more, and the gap is as small as rounding lets it be.
    Stalled,
    /// The rounds were used up before.
    RoundsUsedUp,
}

/// Where the time went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// From the first round to the last.
    pub total_s: f64,
    /// The slowest partition's computing, over all rounds.
    pub worker_s: f64,
    /// The master's own: encoding, combining, searching.
    pub master_s: f64,
    /// The rest.
    pub overhead_s: f64,
}

/// What a fit came to.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The coordinates, in the order of the data's columns.
    pub coordinates: Vec<f64>,
    /// `A α`, and the constant. For a support vector machine these are the weights.
    pub product: Vec<f64>,
    /// The constant that was added to it, if the objective has a free one.
    pub constant: f64,
    /// Sums of the columns, in their order.
    pub column_sums: Vec<f64>,
    /// The objective in the ½-sum form.
    pub objective: f64,
    /// No point is lower than this.
    pub bound: f64,
    /// Rounds.
    pub rounds: usize,
    /// Passes over the data, all rounds together.
    pub passes: f64,
    /// Why it ended.
    pub outcome: Outcome,
    /// Every choice of work and σ', and why.
    pub choices: Vec<Choice>,
    /// Where the time went.
    pub times: Times,
}

impl Fit {
    /// Objective less bound: how far the objective is from the optimum at most.
    pub fn gap(&self) -> f64 {
        self.objective - self.bound
    }
}

/// One round, as an observer sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counted from 1.
    pub round: usize,
    /// After it.
    pub objective: f64,
    /// Objective less bound; infinite before the first certificate.
    pub gap: f64,
    /// How far it went along the change, and along the step before.
    pub step: (f64, f64),
    /// Passes it made.
    pub passes: f64,
    /// Its time in seconds.
    pub seconds: f64,
    /// Its work and σ', and why.
    pub choice: Choice,
}

/// Passes without a certificate after which one is made in any case.
const PASSES_BETWEEN: f64 = 24.0;
/// Passes between two certificates at least: they then cost little of the whole.
const PASSES_LEAST: f64 = 2.0;
/// A gain below this share of the objective is nothing but rounding.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// So many rounds of nothing but rounding are enough.
const ROUNDS_IN_VAIN: usize = 4;

/// Minimises an objective over partitioned columns. `observer` sees every round.
///
/// The bits of the result follow from the data, the number of partitions, the parameters and the choices of work and σ';
/// never from the workers. Not coming to the tolerance is no error: see [`Fit::outcome`].
pub fn fit<C: Columns>(
    master: &Master,
    data: &Partitioned<C>,
    objective: &Objective,
    params: &Params,
    observer: impl FnMut(&Seen),
) -> Result<Fit, FitError> {
    fit_from(master, data, objective, params, &[], observer)
}

/// The same, from coordinates that are near: those of another λ, or of less data. In the order of the data's columns; none
/// for zeros.
pub fn fit_from<C: Columns>(
    master: &Master,
    data: &Partitioned<C>,
    objective: &Objective,
    params: &Params,
    start: &[f64],
    mut observer: impl FnMut(&Seen),
) -> Result<Fit, FitError> {
    if let Some(value) = start.iter().find(|value| !value.is_finite()) {
        return Err(FitError::Start { value: *value });
    }
    if !start.is_empty() && start.len() != data.columns() {
        return Err(FitError::Starts { found: start.len(), columns: data.columns() });
    }
    if objective.loss.rows() != data.rows() {
        return Err(FitError::Targets { targets: objective.loss.rows(), rows: data.rows() });
    }
    let mut held = master.hold::<Coordinates<C>>(data.data())?;
    let begun = Instant::now();
    let mut descent = Descent::new(objective, params, data.partitions());
    if !start.is_empty() {
        let start = Start {
            coordinates: data.dealt(start),
            starts: data.starts(),
            rows: data.rows() as u64,
            terms: objective.terms,
            centred: objective.centred,
        };
        let placed = held.run(place::<C>, &start)?;
        descent.begin_at(placed.product, placed.terms);
    }
    let outcome = loop {
        let seen = descent.round(&mut held)?;
        observer(&seen);
        if let Some(outcome) = descent.is_over() {
            break outcome;
        }
    };
    if objective.terms.l1 > 0.0 && outcome != Outcome::TargetReached {
        descent.close(&mut held)?;
    }
    let total_s = begun.elapsed().as_secs_f64();
    let states = held.collect()?;
    let coordinates = states.iter().flat_map(|state| state.after(&objective.terms, descent.step));
    let sums = states.iter().flat_map(|state| state.sums().iter().copied());
    let (worker_s, master_s) = (descent.worker_s, descent.master_s);
    Ok(Fit {
        coordinates: data.in_order(coordinates),
        column_sums: data.in_order(sums),
        objective: descent.now.objective,
        bound: descent.bound,
        rounds: descent.rounds,
        passes: descent.passes,
        outcome,
        choices: descent.choices,
        product: descent.product,
        constant: descent.constant,
        times: Times { total_s, worker_s, master_s, overhead_s: (total_s - worker_s - master_s).max(0.0) },
    })
}

/// A fit under way.
struct Descent<'a> {
    objective: &'a Objective,
    params: &'a Params,
    partitions: f64,
    /// `A α`, and the free constant.
    product: Vec<f64>,
    constant: f64,
    gradient: Vec<f64>,
    /// What the last step did to the product.
    before: Vec<f64>,
    step: (f64, f64),
    now: Found,
    bound: f64,
    search: Search,
    tuner: Tuner,
    choices: Vec<Choice>,
    certificates: Certificates,
    rounds: usize,
    passes: f64,
    in_vain: usize,
    worker_s: f64,
    master_s: f64,
}

impl<'a> Descent<'a> {
    fn new(objective: &'a Objective, params: &'a Params, partitions: usize) -> Self {
        let rows = objective.loss.rows();
        let mut product = vec![0.0; rows];
        let constant = if objective.free { objective.loss.settle(&mut product) } else { 0.0 };
        let mut gradient = Vec::with_capacity(rows);
        objective.loss.gradient_into(&product, &mut gradient);
        let now = Found { step: (0.0, 0.0), objective: objective.loss.value(&product), terms: 0.0 };
        Descent {
            objective,
            params,
            partitions: partitions as f64,
            product,
            constant,
            gradient,
            before: vec![0.0; rows],
            step: (0.0, 0.0),
            now,
            bound: f64::NEG_INFINITY,
            search: Search::default(),
            tuner: Tuner::new(partitions),
            choices: vec![],
            certificates: Certificates::default(),
            rounds: 0,
            passes: 0.0,
            in_vain: 0,
            worker_s: 0.0,
            master_s: 0.0,
        }
    }

    /// Begins elsewhere than at 0.
    fn begin_at(&mut self, product: Vec<f64>, terms: f64) {
        let loss = &self.objective.loss;
        self.product = product;
        self.constant = if self.objective.free { loss.settle(&mut self.product) } else { 0.0 };
        loss.gradient_into(&self.product, &mut self.gradient);
        self.now = Found { step: (0.0, 0.0), objective: loss.value(&self.product) + terms, terms };
    }

    fn choose(&mut self) -> Choice {
        let choice = match self.params.local() {
            Local::Tuned => self.tuner.choose(),
            Local::Fixed { work, sigma } => {
                Choice { round: self.rounds + 1, work: *work, sigma: *sigma, reason: Reason::Given }
            }
            Local::Replayed(choices) => {
                let past = choices.iter().rev().find(|choice| choice.round <= self.rounds + 1);
                let (work, sigma) =
                    past.or(choices.first()).map_or((1.0, self.partitions), |c| (c.work, c.sigma));
                Choice { round: self.rounds + 1, work, sigma, reason: Reason::Given }
            }
        };
        let sigma = choice.sigma.min(self.partitions);
        let choice = Choice { sigma, ..choice };
        let is_new =
            self.choices.last().is_none_or(|last| (last.work, last.sigma) != (choice.work, choice.sigma));
        if is_new {
            self.choices.push(choice.clone());
        }
        choice
    }

    fn round<C: Columns>(&mut self, held: &mut Held<Coordinates<C>>) -> Result<Seen, FitError> {
        let choice = self.choose();
        let tolerance = self.params.tolerance();
        let is_due = self.certificates.is_due(self.passes, self.now.objective, tolerance);
        // Before giving up, all coordinates are asked once more.
        let certify = tolerance > 0.0 && (is_due || self.in_vain == ROUNDS_IN_VAIN / 2);
        let begun = Instant::now();
        let points = self.search.points(&self.objective.terms);
        let curvature = match self.params.combine() {
            Combine::Averaged => 1.0,
            _ => choice.sigma,
        } * self.objective.loss.curvature();
        let round = Round {
            gradient: std::mem::take(&mut self.gradient),
            curvature,
            terms: self.objective.terms,
            centred: self.objective.centred,
            work: choice.work,
            step: self.step,
            points,
            certify,
            rests: self.params.rests() && self.in_vain == 0,
            seed: self.params.seed(),
        };
        let (change, worker_s) = self.run(held, descend::<C>, &round)?;
        let combining = Instant::now();
        if certify {
            self.certify(&round, &change);
        }
        self.gradient = round.gradient;
        let from = self.now.objective;
        self.go(&round.points, &change);
        let (objective, rounds) = (self.now.objective, self.rounds + 1);
        if !objective.is_finite() {
            return Err(FitError::Overflow { value: objective, rounds });
        }
        let (gain, passes) = (from - objective, change.entries as f64 / change.entries_all.max(1) as f64);
        self.rounds = rounds;
        self.passes += passes;
        self.certificates.gained(gain, passes, certify, objective - self.bound);
        self.in_vain = if gain > ROUNDING * objective.abs() { 0 } else { self.in_vain + 1 };
        self.master_s += combining.elapsed().as_secs_f64();
        if !self.params.delay().is_zero() {
            std::thread::sleep(self.params.delay());
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.worker_s += worker_s;
        self.tuner.learn(&tuner::Outcome { gain, seconds, worker_s, passes, usual: !certify });
        let gap = objective - self.bound;
        Ok(Seen { round: rounds, objective, gap, step: self.step, passes, seconds, choice })
    }

    /// Steps of other lengths than 1 leave coordinates near 0 that belong there. A last pass, taken as it is, puts them there,
    /// unless that costs more than the gap was allowed to be.
    fn close<C: Columns>(&mut self, held: &mut Held<Coordinates<C>>) -> Result<(), FitError> {
        let points = vec![(1.0, 0.0), (0.0, 0.0)];
        let round = Round {
            gradient: self.gradient.clone(),
            curvature: self.partitions * self.objective.loss.curvature(),
            terms: self.objective.terms,
            centred: self.objective.centred,
            work: 1.0,
            step: self.step,
            points,
            certify: true,
            rests: false,
            seed: self.params.seed(),
        };
        let (change, worker_s) = self.run(held, descend::<C>, &round)?;
        self.worker_s += worker_s;
        self.certify(&round, &change);
        self.passes += 1.0;
        let plane = self.objective.loss.plane(&self.product, &change.change, &self.before);
        let whole = Found {
            step: (1.0, 0.0),
            objective: plane.at(1.0, 0.0) + change.points[0],
            terms: change.points[0],
        };
        let allowed = (self.bound + self.params.tolerance() * whole.objective.abs()).max(self.now.objective);
        let found = if whole.objective <= allowed * (1.0 + ROUNDING) {
            whole
        } else {
            Found { step: (0.0, 0.0), ..self.now }
        };
        self.take(found, &change);
        Ok(())
    }

    fn run<C: Columns, F, M>(
        &mut self,
        held: &mut Held<Coordinates<C>>,
        f: F,
        round: &Round,
    ) -> Result<(Change, f64), FitError>
    where
        F: Job<M, Params = Round, Chunk = C, State = Coordinates<C>, Output = Change>,
    {
        let (change, report) = held.run_while(f, round, Duration::from_secs(3600), |_| true)?;
        let report = report.map_or((0, 0), |report| (report.worker_us, report.master_us));
        self.master_s += report.1 as f64 * 1e-6;
        Ok((change, report.0 as f64 * 1e-6))
    }

    /// Finds how far to go, and goes.
    fn go(&mut self, points: &[(f64, f64)], change: &Change) {
        let plane = self.objective.loss.plane(&self.product, &change.change, &self.before);
        let found = match self.params.combine() {
            Combine::Searched => {
                self.search.lowest(&plane, points, change, self.objective.terms.l2, self.now)
            }
            Combine::Added => fixed(&plane, points, change, self.objective.terms.l2, 1.0, self.now),
            Combine::Averaged => {
                let share = 1.0 / self.partitions;
                fixed(&plane, points, change, self.objective.terms.l2, share, self.now)
            }
        };
        self.take(found, change);
    }

    /// Takes a step.
    fn take(&mut self, found: Found, change: &Change) {
        let (t, s) = found.step;
        for ((product, before), change) in self.product.iter_mut().zip(&mut self.before).zip(&change.change) {
            *before = t * change + s * *before;
            *product += *before;
        }
        self.step = found.step;
        self.now = found;
        if self.objective.free {
            self.constant += self.objective.loss.settle(&mut self.product);
            self.now.objective = self.objective.loss.value(&self.product) + found.terms;
        }
        self.objective.loss.gradient_into(&self.product, &mut self.gradient);
    }

    /// The bound that the products of all columns with the gradient give.
    fn certify(&mut self, round: &Round, change: &Change) {
        let (loss, terms) = (&self.objective.loss, &self.objective.terms);
        let bound = if change.conjugates.is_finite() {
            loss.bound(&round.gradient, 1.0) - change.conjugates
        } else if terms.l2 == 0.0 && terms.linear == 0.0 && change.steepest > 0.0 {
            // Lasso: shrunk until no column is steeper than its price.
            let scale = loss.best_scale(&round.gradient, terms.l1 / change.steepest);
            loss.bound(&round.gradient, scale)
        } else {
            f64::NEG_INFINITY
        };
        self.bound = self.bound.max(bound);
    }

    fn is_over(&self) -> Option<Outcome> {
        let (objective, gap) = (self.now.objective, self.now.objective - self.bound);
        if self.params.tolerance() > 0.0 && gap <= self.params.tolerance() * objective.abs() {
            return Some(Outcome::Converged);
        }
        if self.params.target().is_some_and(|target| objective <= target) {
            return Some(Outcome::TargetReached);
        }
        if self.in_vain >= ROUNDS_IN_VAIN && (self.bound.is_finite() || self.params.tolerance() == 0.0) {
            return Some(Outcome::Stalled);
        }
        (self.rounds >= self.params.rounds_max()).then_some(Outcome::RoundsUsedUp)
    }
}

/// A step of given length, or none where that would make things worse.
fn fixed(
    plane: &super::loss::Plane<'_>,
    points: &[(f64, f64)],
    change: &Change,
    l2: f64,
    length: f64,
    now: Found,
) -> Found {
    let stay = Found { step: (0.0, 0.0), ..now };
    let terms = if points.len() == 1 {
        let [aa, ad, _, dd, ..] = change.squares;
        Some(0.5 * l2 * (aa + length * (2.0 * ad + length * dd)))
    } else {
        let at = points.iter().position(|point| *point == (length, 0.0));
        at.map(|at| change.points[at])
    };
    match terms.map(|terms| Found { step: (length, 0.0), objective: plane.at(length, 0.0) + terms, terms }) {
        Some(found) if found.objective < stay.objective => found,
        _ => stay,
    }
}

/// When a certificate is worth its pass.
#[derive(Clone, Debug)]
struct Certificates {
    /// Passes when the last one was made.
    last: f64,
    /// What a pass gains now, and what it gained when the last one was made.
    rate: f64,
    rate_then: f64,
    /// The gap that it found.
    gap_then: f64,
}

impl Default for Certificates {
    fn default() -> Self {
        Certificates { last: 0.0, rate: f64::INFINITY, rate_then: f64::INFINITY, gap_then: f64::INFINITY }
    }
}

impl Certificates {
    fn gained(&mut self, gain: f64, passes: f64, certified: bool, gap: f64) {
        if passes > 0.0 {
            let rate = (gain / passes).max(0.0);
            self.rate = if self.rate.is_finite() { 0.5 * (self.rate + rate) } else { rate };
        }
        if certified {
            (self.rate_then, self.gap_then) = (self.rate, gap);
        }
    }

    /// Whether the gap may have closed: it shrinks about as what a pass gains does.
    fn is_due(&mut self, passes: f64, objective: f64, tolerance: f64) -> bool {
        let since = passes - self.last;
        let wanted = tolerance * objective.abs();
        let hopeful = match self.gap_then.is_finite() && self.rate_then > 0.0 {
            true => self.gap_then * self.rate / self.rate_then <= 1.5 * wanted,
            false => self.rate <= 10.0 * wanted,
        };
        let due = (hopeful && since >= PASSES_LEAST) || since >= PASSES_BETWEEN || self.rate == 0.0;
        if due {
            self.last = passes;
        }
        due
    }
}
