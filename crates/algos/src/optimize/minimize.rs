//! One way into all drivers: a [`Method`] by name, [`Criteria`] for the end, and a [`Minimum`] with the history.
//!
//! Takes a starting point and an [`Objective`], which is any function that writes its gradient and returns its value; every call may be a
//! round over a cluster. An `observer` sees every step and may end the run. Not converging is an [`Outcome`], not an error. A
//! failing function ends the run with its error. Nothing here depends on time or chance.
//!
//! ```
//! use qjam_algos::optimize::minimize::{Criteria, Method, minimize};
//! let function = |x: &[f64], g: &mut [f64]| {
//!     (g[0], g[1]) = (2.0 * (x[0] - 3.0), 20.0 * (x[1] + 1.0));
//!     Ok::<f64, std::convert::Infallible>((x[0] - 3.0).powi(2) + 10.0 * (x[1] + 1.0).powi(2))
//! };
//! for method in [Method::default(), Method::ConjugateGradient, Method::NewtonCg] {
//!     let found = minimize(&method, &Criteria::default(), vec![0.0, 0.0], function, |_| true)?;
//!     assert!(found.outcome.converged() && (found.x[0] - 3.0).abs() < 1e-4, "{method:?}");
//! }
//! # Ok::<(), std::convert::Infallible>(())
//! ```

use super::first_order::{Adam, Rule, Sgd};
use super::{conjugate, fista, lbfgs, newton};
use crate::kernels::vectors::max_abs;

/// What is minimised.
pub trait Objective<E> {
    /// Writes the gradient at a point and returns the value.
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, E>;

    /// Writes the product of the Hessian at a point with a vector, if it is known. Otherwise it is found from two gradients.
    fn hessian_times(&mut self, _: &[f64], _: &[f64], _: &mut [f64]) -> Result<bool, E> {
        Ok(false)
    }
}

impl<E, F: FnMut(&[f64], &mut [f64]) -> Result<f64, E>> Objective<E> for F {
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, E> {
        self(x, gradient)
    }
}

/// How a minimum is looked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// Limited-memory BFGS with so many changes kept: see [`lbfgs`].
    Lbfgs {
        /// Changes that are kept.
        memory: usize,
    },
    /// Nonlinear conjugate gradients of Polak and Ribière: see [`conjugate`].
    ConjugateGradient,
    /// Newton's steps within a region of trust, by linear conjugate gradients: see [`newton`].
    NewtonCg,
    /// Steps along the gradient with momentum, from this state.
    Sgd(Sgd),
    /// Steps with a length for each coordinate, from this state.
    Adam(Adam),
    /// Accelerated proximal gradients, which minimise the function plus `l1` times the sum of absolute values: see [`fista`].
    Fista {
        /// The price of sizes.
        l1: f64,
    },
}

impl Default for Method {
    fn default() -> Method {
        Method::Lbfgs { memory: 10 }
    }
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteria {
    /// When no element of the gradient is larger; with a price on sizes, of the step over its length.
    pub gradient_max: f64,
    /// When a step decreases the value by less than this share of it. SGD and Adam do not look at that.
    pub decrease: f64,
    /// After so many steps.
    pub iterations_max: usize,
    /// After so many evaluations; products with the Hessian that are found from gradients count.
    pub evaluations_max: usize,
}

impl Default for Criteria {
    fn default() -> Criteria {
        Criteria { gradient_max: 1e-5, decrease: 2.3e-9, iterations_max: 15_000, evaluations_max: 15_000 }
    }
}

/// One step, as the observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Steps so far.
    pub iteration: usize,
    /// Evaluations so far.
    pub evaluations: usize,
    /// The value at the point.
    pub value: f64,
    /// Largest absolute element of the gradient there.
    pub gradient_max: f64,
    /// The point.
    pub x: &'a [f64],
}

/// Why the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The gradient is small enough.
    FlatGradient,
    /// The last step decreased the value by too little.
    SmallDecrease,
    /// As many steps as were allowed.
    IterationsSpent,
    /// As many evaluations as were allowed.
    EvaluationsSpent,
    /// No step decreases the value: the gradient is wrong, or precision is exhausted.
    NoDescent,
    /// Value or gradient are not finite: at the start, or where SGD or Adam went.
    NotFinite,
    /// The observer ended it.
    Stopped,
}

impl Outcome {
    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::FlatGradient => "flat gradient",
            Outcome::SmallDecrease => "small decrease",
            Outcome::IterationsSpent => "iterations spent",
            Outcome::EvaluationsSpent => "evaluations spent",
            Outcome::NoDescent => "no descent",
            Outcome::NotFinite => "not finite",
            Outcome::Stopped => "stopped",
        }
    }

    /// Whether a minimum was found to the precision asked for.
    pub fn converged(self) -> bool {
        matches!(self, Outcome::FlatGradient | Outcome::SmallDecrease)
    }
}

/// Where a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum {
    /// The lowest point seen; of SGD and Adam the last one, since their values may be those of parts of the data.
    pub x: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// The gradient there.
    pub gradient: Vec<f64>,
    /// Steps.
    pub iterations: usize,
    /// Calls of the function.
    pub evaluations: usize,
    /// Values, beginning with that of the starting point, one for each step.
    pub history: Vec<f64>,
    /// Why it ended.
    pub outcome: Outcome,
}

/// Minimises from a point. `observer` sees the starting point and every step; once it says `false`, the run ends.
pub fn minimize<E>(
    method: &Method,
    criteria: &Criteria,
    x: Vec<f64>,
    objective: impl Objective<E>,
    observer: impl FnMut(&Step<'_>) -> bool,
) -> Result<Minimum, E> {
    let mut run = Run::new(criteria, x, objective, observer);
    let is_priced = matches!(method, Method::Fista { l1 } if *l1 > 0.0);
    let outcome = match run.begin(is_priced)? {
        Some(outcome) => outcome,
        None => match method {
            Method::Lbfgs { memory } => lbfgs::descend(&mut run, *memory)?,
            Method::ConjugateGradient => conjugate::descend(&mut run)?,
            Method::NewtonCg => newton::descend(&mut run)?,
            Method::Fista { l1 } => fista::descend(&mut run, *l1)?,
            Method::Sgd(sgd) => step_by_step(&mut run, Rule::Sgd(sgd.clone()))?,
            Method::Adam(adam) => step_by_step(&mut run, Rule::Adam(adam.clone()))?,
        },
    };
    let Run { x, gradient, value, iterations, evaluations, history, .. } = run;
    Ok(Minimum { x, value, gradient, iterations, evaluations, history, outcome })
}

/// A run under way: the point that stands, and all that was counted.
pub(super) struct Run<'a, F, O> {
    pub(super) criteria: &'a Criteria,
    pub(super) x: Vec<f64>,
    pub(super) value: f64,
    pub(super) gradient: Vec<f64>,
    iterations: usize,
    evaluations: usize,
    history: Vec<f64>,
    objective: F,
    observer: O,
}

/// A point that was tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub(super) x: Vec<f64>,
    pub(super) value: f64,
    pub(super) gradient: Vec<f64>,
}

impl Trial {
    pub(super) fn is_finite(&self) -> bool {
        self.value.is_finite() && max_abs(&self.gradient).is_finite()
    }
}

impl<'a, F, O: FnMut(&Step<'_>) -> bool> Run<'a, F, O> {
    fn new(criteria: &'a Criteria, x: Vec<f64>, objective: F, observer: O) -> Run<'a, F, O> {
        let gradient = vec![0.0; x.len()];
        let (iterations, evaluations, history) = (0, 0, vec![]);
        Run {
            criteria,
            value: f64::INFINITY,
            gradient,
            x,
            iterations,
            evaluations,
            history,
            objective,
            observer,
        }
    }

    /// Evaluates the starting point. With a price on sizes a flat gradient says nothing of it.
    fn begin<E>(&mut self, is_priced: bool) -> Result<Option<Outcome>, E>
    where
        F: Objective<E>,
    {
        if self.criteria.evaluations_max == 0 {
            return Ok(Some(Outcome::EvaluationsSpent));
        }
        let mut trial = Trial { x: self.x.clone(), value: 0.0, gradient: vec![0.0; self.x.len()] };
        self.evaluate(&mut trial)?;
        let finite = trial.is_finite();
        self.stand(trial);
        Ok(match (finite, is_priced) {
            (false, _) => Some(Outcome::NotFinite),
            (true, true) => self.told_of(f64::INFINITY),
            (true, false) => self.told(),
        })
    }

    /// Evaluates at the point of a trial. Whoever calls looks first whether it is [`Run::is_spent`].
    pub(super) fn evaluate<E>(&mut self, trial: &mut Trial) -> Result<(), E>
    where
        F: Objective<E>,
    {
        trial.gradient.resize(trial.x.len(), 0.0);
        trial.value = self.objective.evaluate(&trial.x, &mut trial.gradient)?;
        self.evaluations += 1;
        Ok(())
    }

    /// The product of the Hessian at the point that stands with a vector: as the objective knows it, or from a second gradient.
    pub(super) fn hessian_times<E>(&mut self, vector: &[f64], product: &mut [f64]) -> Result<(), E>
    where
        F: Objective<E>,
    {
        if self.objective.hessian_times(&self.x, vector, product)? {
            return Ok(());
        }
        let long = max_abs(vector);
        let step = f64::EPSILON.sqrt() * (1.0 + max_abs(&self.x)) / if long > 0.0 { long } else { 1.0 };
        let mut near = Trial { x: self.x.clone(), ..Trial::default() };
        near.x.iter_mut().zip(vector).for_each(|(x, v)| *x += step * v);
        self.evaluate(&mut near)?;
        for ((product, near), here) in product.iter_mut().zip(&near.gradient).zip(&self.gradient) {
            *product = (near - here) / step;
        }
        Ok(())
    }

    pub(super) fn is_spent(&self) -> bool {
        self.evaluations >= self.criteria.evaluations_max
    }

    /// Takes a trial as the point that stands.
    fn stand(&mut self, trial: Trial) {
        (self.x, self.value, self.gradient) = (trial.x, trial.value, trial.gradient);
        self.history.push(self.value);
    }

    /// Adds the price of sizes to the value of the starting point.
    pub(super) fn priced(&mut self, price: f64) {
        self.value += price;
        self.history = vec![self.value];
    }

    /// Takes a trial as a step, and says whether the run is over with it.
    pub(super) fn step(&mut self, trial: Trial) -> Option<Outcome> {
        let gradient_max = max_abs(&trial.gradient);
        self.step_of(trial, gradient_max)
    }

    /// The same where something else than the gradient says how far it is to the minimum.
    pub(super) fn step_of(&mut self, trial: Trial, gradient_max: f64) -> Option<Outcome> {
        let before = self.value;
        self.iterations += 1;
        self.stand(trial);
        let over = self.told_of(gradient_max);
        let scale = before.abs().max(self.value.abs()).max(1.0);
        let small = before - self.value <= self.criteria.decrease * scale;
        over.or_else(|| small.then_some(Outcome::SmallDecrease)).or_else(|| self.counted())
    }

    /// Whether as many steps or evaluations as were allowed are done.
    fn counted(&self) -> Option<Outcome> {
        if self.iterations >= self.criteria.iterations_max {
            return Some(Outcome::IterationsSpent);
        }
        self.is_spent().then_some(Outcome::EvaluationsSpent)
    }

    /// Tells the observer of the point that stands, and looks whether its gradient is small enough.
    fn told(&mut self) -> Option<Outcome> {
        let gradient_max = max_abs(&self.gradient);
        self.told_of(gradient_max)
    }

    fn told_of(&mut self, gradient_max: f64) -> Option<Outcome> {
        let (iteration, evaluations, value, x) = (self.iterations, self.evaluations, self.value, &self.x[..]);
        let go_on = (self.observer)(&Step { iteration, evaluations, value, gradient_max, x });
        match (gradient_max <= self.criteria.gradient_max, go_on) {
            (true, _) => Some(Outcome::FlatGradient),
            (false, false) => Some(Outcome::Stopped),
            (false, true) => None,
        }
    }
}

/// Steps of a rule: one evaluation each, wherever they lead.
fn step_by_step<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut Run<'_, F, O>,
    mut rule: Rule,
) -> Result<Outcome, E> {
    loop {
        if let Some(outcome) = run.counted() {
            return Ok(outcome);
        }
        let mut trial = Trial { x: run.x.clone(), ..Trial::default() };
        rule.step(&mut trial.x, &run.gradient);
        run.evaluate(&mut trial)?;
        if !trial.is_finite() {
            return Ok(Outcome::NotFinite);
        }
        run.iterations += 1;
        run.stand(trial);
        if let Some(outcome) = run.told() {
            return Ok(outcome);
        }
    }
}
