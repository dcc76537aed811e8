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
use super::params::{Combine, Local, Params, Tuning};
use super::partition::Partitioned;
use super::plane::{Plane, advance};
use super::prices::{Prices, Size};
use super::search::{Lowest, Search, fixed};
use super::separable::Separable;
use super::tuner::{self, Choice, Reason, Tuner};
use super::whole::Whole;
use crate::kernels::vectors::dot;
use crate::kernels::{Level, elementwise};
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

impl Outcome {
    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Converged => "converged",
            Outcome::TargetReached => "target reached",
            Outcome::Stalled => "stalled",
            Outcome::RoundsUsedUp => "rounds used up",
        }
    }
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
pub struct CocoaRound {
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
/// From a gain below this share of the objective on, changes are added up by themselves.
const SMALL: f64 = 1e-11;
/// A change that is shorter than this share of the gradient would be too much rounding to be followed.
const DOUBTFUL: f64 = 1e-7;
/// A change that is shorter than this share of the product is nothing but the rounding of coordinates at the optimum. A search along it
/// would find a step of any length, and lead astray.
const NOISE: f64 = 1e-14;
/// A gain below this share is none: that of coordinates that move by a last digit.
const LEAST: f64 = 1e-30;
/// So many rounds without any gain are enough.
const ROUNDS_IN_VAIN: usize = 4;
/// So many certificates without one that is better by a tenth are enough, where coordinates hardly move.
const FRUITLESS: usize = 6;
/// A gain below this share of the objective moves coordinates by nothing but rounding: it is about the square of that.
const NOTHING: f64 = 1e-23;

/// Minimises an objective over partitioned columns. `observer` sees every round.
///
/// The bits of the result follow from the data, the number of partitions and the parameters, never from the workers; with
/// [`Tuning::Clock`] also from measured times, which the run file has. Not coming to the tolerance is no error: see [`Fit::outcome`].
pub fn fit<C: Columns>(
    master: &Master,
    data: &Partitioned<C>,
    objective: &Objective,
    params: &Params,
    observer: impl FnMut(&CocoaRound),
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
    mut observer: impl FnMut(&CocoaRound),
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
    let mut descent = Descent::new(master, objective, params, data);
    if !start.is_empty() || !data.prices().is_empty() {
        let dealt = |numbers: &[f64]| if numbers.is_empty() { vec![] } else { data.dealt(numbers) };
        let start = Start {
            coordinates: dealt(start),
            prices: dealt(data.prices()),
            starts: data.starts(),
            rows: data.rows() as u64,
            terms: objective.terms,
            centred: objective.centred,
        };
        let placed = held.run(place::<C>, &start)?;
        descent.begin_at(placed.product, placed.terms);
        // It may be the optimum: the first round is to tell.
        descent.certificates.at_once = !start.coordinates.is_empty();
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
    let coordinates = data.in_order(coordinates);
    let sums = states.iter().flat_map(|state| state.sums().iter().copied());
    let (worker_s, master_s) = (descent.worker_s, descent.master_s);
    Ok(Fit {
        // What the last step came to is told by no round any more.
        objective: descent.loss + terms_of(&coordinates, data.prices(), &objective.terms),
        coordinates,
        column_sums: data.in_order(sums),
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

/// Whether a vector, given by the sum of its squares, is shorter than this share of another.
fn is_shorter(square: f64, share: f64, than: &[f64]) -> bool {
    square <= share * share * dot(than, than)
}

/// The terms of all coordinates.
fn terms_of(coordinates: &[f64], prices: &[f64], terms: &Separable) -> f64 {
    let priced = |(a, price): (&f64, &f64)| if *price > 0.0 { price * terms.value(a / price) } else { 0.0 };
    match prices.is_empty() {
        true => coordinates.iter().map(|a| terms.value(*a)).sum(),
        false => coordinates.iter().zip(prices).map(priced).sum(),
    }
}

/// A fit under way.
struct Descent<'a> {
    master: &'a Master,
    objective: &'a Objective,
    params: &'a Params,
    partitions: f64,
    /// What the tuner is told that rounds cost, unless that is measured.
    prices: Option<Prices>,
    /// `A α`, and the free constant.
    product: Vec<f64>,
    constant: f64,
    /// The constant's part in the step before.
    constant_before: f64,
    /// The loss there, its gradient, and its second derivatives where they are not all 1.
    loss: f64,
    gradient: Vec<f64>,
    bends: Vec<f64>,
    /// The sum of the terms: at most this, until the next round tells what the last step came to.
    terms: f64,
    /// What the last step did to the product.
    before: Vec<f64>,
    /// The last step, and what it is believed to come to.
    step: (f64, f64),
    found: Lowest,
    bound: f64,
    search: Search,
    whole: Whole,
    tuner: Tuner,
    choices: Vec<Choice>,
    certificates: Certificates,
    rounds: usize,
    passes: f64,
    /// Rounds in a row without any gain.
    in_vain: usize,
    /// Certificates since one that was better by a tenth, made where coordinates move by nothing but rounding.
    fruitless: usize,
    gap_least: f64,
    is_rounding: bool,
    is_small: bool,
    last_gain: f64,
    worker_s: f64,
    master_s: f64,
}

impl<'a> Descent<'a> {
    fn new<C: Columns>(
        master: &'a Master,
        objective: &'a Objective,
        params: &'a Params,
        data: &Partitioned<C>,
    ) -> Self {
        let (rows, partitions) = (objective.loss.rows(), data.partitions());
        let size = Size { rows, columns: data.columns(), entries: data.entries(), partitions };
        let prices = match (params.costs(), params.tuning()) {
            (Some((exchange_s, pass_s)), _) => Some(Prices::given(exchange_s, pass_s)),
            (None, Tuning::Counted) => Some(Prices::of(size)),
            (None, Tuning::Clock) => None,
        };
        let tuner = match params.local() {
            Local::Partly { work, sigma } => Tuner::new(partitions).keeping(*work, *sigma),
            _ => Tuner::new(partitions),
        };
        let tuner = if prices.is_none() { tuner.measured() } else { tuner };
        let mut descent = Descent {
            master,
            objective,
            params,
            partitions: partitions as f64,
            prices,
            product: vec![0.0; rows],
            constant: 0.0,
            constant_before: 0.0,
            loss: 0.0,
            gradient: Vec::with_capacity(rows),
            bends: vec![],
            terms: 0.0,
            before: vec![0.0; rows],
            step: (0.0, 0.0),
            found: Lowest::default(),
            bound: f64::NEG_INFINITY,
            search: Search::default(),
            whole: Whole::new(partitions, objective.terms.l2 > 0.0 && !objective.terms.is_quadratic()),
            tuner,
            choices: vec![],
            certificates: Certificates::default(),
            rounds: 0,
            passes: 0.0,
            in_vain: 0,
            fruitless: 0,
            gap_least: f64::INFINITY,
            is_rounding: false,
            is_small: false,
            last_gain: 0.0,
            worker_s: 0.0,
            master_s: 0.0,
        };
        descent.look_around();
        descent
    }

    /// Begins elsewhere than at 0.
    fn begin_at(&mut self, product: Vec<f64>, terms: f64) {
        (self.product, self.terms) = (product, terms);
        self.constant = 0.0;
        self.look_around();
    }

    /// What the loss is at the present point, with the free constant settled.
    fn look_around(&mut self) {
        let loss = &self.objective.loss;
        if self.objective.free {
            self.constant += loss.settle(&mut self.product);
        }
        self.loss = loss.survey(&self.product, &mut self.gradient, &mut self.bends);
    }

    /// The objective: at most this.
    fn value(&self) -> f64 {
        self.loss + self.terms
    }

    fn choose(&mut self) -> Choice {
        let choice = match self.params.local() {
            Local::Tuned | Local::Partly { .. } => self.tuner.choose(),
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
        let choice = match self.is_whole() && self.params.local() == &Local::Tuned {
            // Whole rounds of a single partition are one descent wherever it is cut.
            true if self.partitions == 1.0 => {
                Choice { work: choice.work.max(1.0), sigma, reason: Reason::Whole, ..choice }
            }
            true => Choice { sigma: self.partitions, reason: Reason::Whole, ..choice },
            false => Choice { sigma, ..choice },
        };
        let is_new =
            self.choices.last().is_none_or(|last| (last.work, last.sigma) != (choice.work, choice.sigma));
        if is_new {
            self.choices.push(choice.clone());
        }
        choice
    }

    fn round<C: Columns>(&mut self, held: &mut Held<Coordinates<C>>) -> Result<CocoaRound, FitError> {
        let choice = self.choose();
        let tolerance = self.params.tolerance();
        let is_due = self.certificates.is_due(self.passes, self.value(), tolerance, self.is_rounding);
        // Before giving up, all coordinates are asked once more.
        let certify = tolerance > 0.0 && (is_due || self.in_vain == ROUNDS_IN_VAIN / 2);
        let begun = Instant::now();
        let curvature = match self.params.combine() {
            Combine::Averaged => 1.0,
            _ => choice.sigma,
        };
        let points = match self.params.combine() {
            Combine::Searched if !self.is_whole() => self.search.points(&self.objective.terms),
            _ => vec![(self.fixed_length(), 0.0)],
        };
        let round = Round {
            gradient: std::mem::take(&mut self.gradient).into(),
            bends: self.bends_told().into(),
            curvature,
            terms: self.objective.terms,
            centred: self.objective.centred,
            free: self.objective.free || self.objective.centred,
            work: choice.work,
            step: self.step,
            points,
            certify,
            rests: self.params.rests() && self.in_vain == 0,
            seed: self.params.seed(),
        };
        let (change, worker_s) = self.run(held, descend::<C>, &round)?;
        let combining = Instant::now();
        self.learn_terms(&round, &change);
        if certify {
            self.certify(&round, &change);
        }
        self.gradient = round.gradient.into_vec();
        // A change that is the difference of two vectors may be nothing but rounding; made long, it would lead astray.
        let square = dot(&change.change, &change.change);
        let is_doubtful = round.bends.is_empty() && is_shorter(square, DOUBTFUL, &self.gradient);
        let leads_nowhere = is_doubtful || is_shorter(square, NOISE, &self.product);
        let found = if leads_nowhere { Lowest::default() } else { self.search(&round.points, &change) };
        self.take(found, &change);
        let (objective, rounds) = (self.value(), self.rounds + 1);
        if !objective.is_finite() {
            return Err(FitError::Overflow { value: objective, rounds });
        }
        let (gain, passes) = (found.gain, change.entries as f64 / change.entries_all.max(1) as f64);
        self.rounds = rounds;
        self.passes += passes;
        self.certificates.gained(gain, passes, certify, objective - self.bound);
        let was_whole = self.is_whole();
        self.whole.learn(gain, passes);
        self.last_gain = gain;
        self.is_rounding = gain <= ROUNDING * objective.abs();
        self.is_small |= is_doubtful || gain <= SMALL * objective.abs();
        let is_vain = gain <= LEAST * objective.abs() || (self.is_rounding && tolerance == 0.0);
        // What was doubtful is looked at again, more closely.
        self.in_vain = if is_vain && !is_doubtful { self.in_vain + 1 } else { 0 };
        if certify {
            self.count_fruitless();
        }
        self.master_s += combining.elapsed().as_secs_f64();
        if !self.params.delay().is_zero() {
            std::thread::sleep(self.params.delay());
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.worker_s += worker_s;
        let (all_s, of_worker_s) = match &self.prices {
            Some(prices) => prices.of_round(passes),
            None => self
                .master
                .observe("cocoa: seconds of a round, and of its slowest worker", || (seconds, worker_s)),
        };
        let outcome =
            tuner::RoundCost { gain, seconds: all_s, worker_s: of_worker_s, passes, usual: !certify };
        match was_whole {
            true => self.tuner.pay(&outcome),
            false => self.tuner.learn(&outcome),
        }
        let gap = objective - self.bound;
        Ok(CocoaRound { round: rounds, objective, gap, step: self.step, passes, seconds, choice })
    }

    /// Second derivatives as the workers are told. Where gains are so small that the difference of two vectors is mostly rounding,
    /// they are told also where they are all 1: changes are then added up by themselves.
    fn bends_told(&self) -> Vec<f64> {
        match self.bends.is_empty() && self.is_small {
            true => vec![1.0; self.product.len()],
            false => self.bends.clone(),
        }
    }

    /// Whether this round's change is taken whole: see [`whole`](super::whole). Never where work and σ' are given, since
    /// then that is what is wanted, and not where there is nothing to be in one another's way.
    fn is_whole(&self) -> bool {
        let is_free = self.params.combine() == Combine::Searched
            && !matches!(self.params.local(), Local::Fixed { .. } | Local::Partly { .. })
            && !self.objective.terms.is_quadratic();
        is_free && self.whole.is_next()
    }

    /// How far along the change to go, where that is not searched for.
    fn fixed_length(&self) -> f64 {
        match self.params.combine() {
            Combine::Averaged => 1.0 / self.partitions,
            _ => 1.0,
        }
    }

    /// What the step before this round really came to.
    fn learn_terms(&mut self, round: &Round, change: &Change) {
        if !round.terms.is_quadratic() {
            let less = self.found.terms - change.taken;
            self.terms -= less;
            self.search.told(less);
        }
        if round.certify {
            self.terms = change.terms;
        }
    }

    fn count_fruitless(&mut self) {
        let gap = self.value() - self.bound;
        if gap < 0.9 * self.gap_least || self.last_gain > NOTHING * self.value().abs() {
            (self.gap_least, self.fruitless) = (gap, 0);
        } else {
            self.fruitless += 1;
        }
    }

    /// Steps of other lengths than 1 leave coordinates near 0 that belong there. A last pass, taken as it is, puts them there,
    /// unless that costs more than the gap was allowed to be.
    fn close<C: Columns>(&mut self, held: &mut Held<Coordinates<C>>) -> Result<(), FitError> {
        let round = Round {
            gradient: self.gradient.clone().into(),
            bends: self.bends_told().into(),
            curvature: self.partitions,
            terms: self.objective.terms,
            centred: self.objective.centred,
            free: self.objective.free || self.objective.centred,
            work: 1.0,
            step: self.step,
            points: vec![(1.0, 0.0)],
            certify: true,
            rests: false,
            seed: self.params.seed(),
        };
        let (change, worker_s) = self.run(held, descend::<C>, &round)?;
        self.worker_s += worker_s;
        self.learn_terms(&round, &change);
        self.certify(&round, &change);
        self.passes += 1.0;
        let found = fixed(&self.plane(&change), 1.0, &change, &self.objective.terms);
        let objective = self.value();
        let allowed = (self.bound + self.params.tolerance() * objective.abs()).max(objective);
        let is_allowed = objective - found.gain <= allowed * (1.0 + ROUNDING);
        self.take(if is_allowed { found } else { Lowest::default() }, &change);
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

    fn plane<'b>(&'b self, change: &'b Change) -> Plane<'b> {
        let loss = &self.objective.loss;
        Plane::new(loss, &self.product, &self.gradient, &self.bends, &change.change, &self.before)
    }

    /// Finds how far to go.
    fn search(&mut self, points: &[(f64, f64)], change: &Change) -> Lowest {
        let terms = &self.objective.terms;
        if self.params.combine() != Combine::Searched || self.is_whole() {
            let found = fixed(&self.plane(change), self.fixed_length(), change, terms);
            return if found.gain > 0.0 { found } else { Lowest::default() };
        }
        let loss = &self.objective.loss;
        let plane =
            Plane::new(loss, &self.product, &self.gradient, &self.bends, &change.change, &self.before);
        self.search.lowest(&plane, self.loss, points, change, terms)
    }

    /// Takes a step.
    fn take(&mut self, found: Lowest, change: &Change) {
        advance(&mut self.product, &mut self.before, &change.change, found.step);
        self.step = found.step;
        self.constant_before = found.step.0 * change.constant + found.step.1 * self.constant_before;
        if self.objective.free {
            self.constant += self.constant_before;
        }
        self.terms += found.terms;
        self.found = found;
        self.look_around();
    }

    /// The bound that the products of all columns with the gradient give.
    fn certify(&mut self, round: &Round, change: &Change) {
        let (loss, terms) = (&self.objective.loss, &self.objective.terms);
        let bound = if change.conjugates.is_finite() {
            loss.bound(&round.gradient, 1.0) - change.conjugates
        } else if terms.l2 == 0.0 && terms.linear == 0.0 && change.steepest > 0.0 {
            // Lasso: shrunk until no column is steeper than its price.
            let scale = loss.best_scale(&round.gradient, terms.l1 / change.steepest);
            let shrunk = loss.bound(&round.gradient, scale);
            // Or as it is: the best coordinates' sizes add up to no more than the objective pays for.
            let excess = (change.steepest - terms.l1).max(0.0);
            shrunk.max(loss.bound(&round.gradient, 1.0) - self.value() / terms.l1 * excess)
        } else {
            f64::NEG_INFINITY
        };
        self.bound = self.bound.max(bound);
    }

    fn is_over(&self) -> Option<Outcome> {
        let (objective, gap) = (self.value(), self.value() - self.bound);
        if self.params.tolerance() > 0.0 && gap <= self.params.tolerance() * objective.abs() {
            return Some(Outcome::Converged);
        }
        if self.params.target().is_some_and(|target| objective <= target) {
            return Some(Outcome::TargetReached);
        }
        let is_vain = self.in_vain >= ROUNDS_IN_VAIN || self.fruitless >= FRUITLESS;
        if is_vain && (self.bound.is_finite() || self.params.tolerance() == 0.0) {
            return Some(Outcome::Stalled);
        }
        (self.rounds >= self.params.rounds_max()).then_some(Outcome::RoundsUsedUp)
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
    /// The gap shrinks about as this power of what a pass gains: 1 where both are squares of a distance, ½ where the gap
    /// is the distance.
    power: f64,
    /// Whether the next round is to have one in any case.
    at_once: bool,
}

impl Default for Certificates {
    fn default() -> Self {
        let never = f64::INFINITY;
        Certificates { last: 0.0, rate: never, rate_then: never, gap_then: never, power: 1.0, at_once: false }
    }
}

impl Certificates {
    fn gained(&mut self, gain: f64, passes: f64, certified: bool, gap: f64) {
        if passes > 0.0 {
            let rate = (gain / passes).max(0.0);
            self.rate = if self.rate.is_finite() { 0.5 * (self.rate + rate) } else { rate };
        }
        if certified {
            let (rates, gaps) = (self.rate / self.rate_then, gap / self.gap_then);
            if rates > 0.0 && rates < 0.5 && gaps > 0.0 && gaps.is_finite() {
                self.power = (ratio_of_powers(gaps, rates)).clamp(0.3, 1.2);
            }
            (self.rate_then, self.gap_then) = (self.rate, gap);
        }
    }

    /// Whether the gap may have closed.
    fn is_due(&mut self, passes: f64, objective: f64, tolerance: f64, is_rounding: bool) -> bool {
        let since = passes - self.last;
        let wanted = tolerance * objective.abs();
        let hopeful = match self.gap_then.is_finite() && self.rate_then > 0.0 {
            true => ratio_of_powers(1.5 * wanted / self.gap_then, self.rate / self.rate_then) <= self.power,
            false => self.rate <= 10.0 * wanted,
        };
        let between = if is_rounding { PASSES_LEAST + 1.0 } else { PASSES_BETWEEN };
        let due = (hopeful && since >= PASSES_LEAST) || since >= between || self.rate == 0.0;
        let due = due || std::mem::take(&mut self.at_once);
        if due {
            self.last = passes;
        }
        due
    }
}

/// The power of `b` that `a` is, for numbers below 1.
fn ratio_of_powers(a: f64, b: f64) -> f64 {
    match (a < 1.0, b < 1.0) {
        (true, true) => {
            let mut logs = [a.max(f64::MIN_POSITIVE), b.max(f64::MIN_POSITIVE)];
            elementwise::log(Level::best(), &mut logs);
            logs[0] / logs[1]
        }
        (true, false) => f64::INFINITY,
        (false, _) => 0.0,
    }
}
