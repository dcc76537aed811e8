//! Limited-memory BFGS: quasi-Newton steps from the last few changes of point and gradient.
//!
//! Takes any function that writes its gradient and returns its value; every call is one evaluation, which may be a
//! round over a cluster. The step length comes from [`line_search`](super::line_search). Stopping follows the usual
//! names: `factr` (relative decrease in units of the machine precision), `pgtol` (largest element of the gradient),
//! and a limit on evaluations that is never passed.
//!
//! Not converging is an [`Outcome`], not an error; the point returned is the best one seen. A failing function ends
//! the run with its error. Nothing here depends on time or on chance: the same function gives the same path.
//!
//! ```
//! use qjam_algos::optimize::lbfgs::{Options, minimize};
//! let function = |x: &[f64], g: &mut [f64]| {
//!     g[0] = 2.0 * (x[0] - 3.0);
//!     Ok::<f64, std::convert::Infallible>((x[0] - 3.0) * (x[0] - 3.0))
//! };
//! let found = minimize(&Options::default(), vec![0.0], function, |_| ())?;
//! assert!(found.outcome.converged());
//! assert!((found.x[0] - 3.0).abs() < 1e-4);
//! # Ok::<(), std::convert::Infallible>(())
//! ```

use super::conjugate::{Searched, along};
use super::line_search::{FLATNESS, LineSearch, Next};
use super::minimize::{self, Objective, Step};
use crate::kernels::vectors::{add_scaled, add_scaled_dot, dot, max_abs};
use std::collections::VecDeque;

/// Evaluations after which a line search is given up.
const SEARCH_MAX: usize = 20;

/// When to stop and how much to remember.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Changes of point and gradient that are kept; at least one is.
    pub memory: usize,
    /// Stop when a step decreases the value by less than this times the machine precision, relative to the value.
    pub factr: f64,
    /// Stop when no element of the gradient is larger.
    pub pgtol: f64,
    /// Evaluations after which to stop.
    pub evaluations_max: usize,
    /// Accepted steps after which to stop.
    pub iterations_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { memory: 10, factr: 1e4, pgtol: 1e-4, evaluations_max: 500, iterations_max: usize::MAX }
    }
}

/// Why the run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every element of the gradient is within `pgtol`.
    FlatGradient,
    /// The last step decreased the value by less than `factr` allows.
    SmallDecrease,
    /// The limit on evaluations was reached.
    EvaluationsSpent,
    /// The limit on accepted steps was reached.
    IterationsSpent,
    /// No step along the steepest descent decreases the value: the gradient is wrong or precision is exhausted.
    NoDescent,
    /// The value or the gradient at the starting point is not finite.
    NotFinite,
}

impl Outcome {
    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::FlatGradient => "flat gradient",
            Outcome::SmallDecrease => "small decrease",
            Outcome::EvaluationsSpent => "evaluations spent",
            Outcome::IterationsSpent => "iterations spent",
            Outcome::NoDescent => "no descent",
            Outcome::NotFinite => "not finite",
        }
    }

    /// Whether a minimum was found to the precision asked for.
    pub fn converged(self) -> bool {
        matches!(self, Outcome::FlatGradient | Outcome::SmallDecrease)
    }
}

/// One evaluation, as the observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Evaluation<'a> {
    /// Counted from 1.
    pub number: usize,
    /// Steps accepted before this evaluation.
    pub iteration: usize,
    /// The function's value.
    pub value: f64,
    /// Largest absolute element of the gradient.
    pub gradient_max: f64,
    /// Length of the step tried, in search directions; 0 for the starting point.
    pub step: f64,
    /// The point.
    pub x: &'a [f64],
}

/// Where the run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimum {
    /// The point with the lowest value seen.
    pub x: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// Largest absolute element of the gradient there.
    pub gradient_max: f64,
    /// Calls of the function.
    pub evaluations: usize,
    /// Steps accepted.
    pub iterations: usize,
    /// Why it ended.
    pub outcome: Outcome,
}

/// Minimises `function` from `x`; `observer` sees every evaluation.
pub fn minimize<E>(
    options: &Options,
    x: Vec<f64>,
    function: impl FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
    observer: impl FnMut(&Evaluation<'_>),
) -> Result<Minimum, E> {
    let mut run = Run {
        gradient: vec![0.0; x.len()],
        best: Minimum {
            value: f64::INFINITY,
            gradient_max: f64::INFINITY,
            evaluations: 0,
            iterations: 0,
            outcome: Outcome::NotFinite,
            x: x.clone(),
        },
        x,
        value: f64::INFINITY,
        function,
        observer,
    };
    run.best.outcome = run.descend(options)?;
    Ok(run.best)
}

/// The current point, and all that was counted.
struct Run<F, O> {
    x: Vec<f64>,
    gradient: Vec<f64>,
    value: f64,
    best: Minimum,
    function: F,
    observer: O,
}

impl<E, F, O> Run<F, O>
where
    F: FnMut(&[f64], &mut [f64]) -> Result<f64, E>,
    O: FnMut(&Evaluation<'_>),
{
    fn descend(&mut self, options: &Options) -> Result<Outcome, E> {
        if options.evaluations_max == 0 {
            return Ok(Outcome::EvaluationsSpent);
        }
        self.evaluate(0.0)?;
        if !(self.value.is_finite() && max_abs(&self.gradient).is_finite()) {
            return Ok(Outcome::NotFinite);
        }
        let mut memory = Memory::new(options.memory.max(1));
        loop {
            if max_abs(&self.gradient) <= options.pgtol {
                return Ok(Outcome::FlatGradient);
            }
            let (x, gradient, value) = (self.x.clone(), self.gradient.clone(), self.value);
            let direction = memory.direction(&gradient);
            match self.search(&x, &direction, dot(&direction, &gradient), memory.is_empty(), options)? {
                Descent::Step => (),
                Descent::Spent => return Ok(Outcome::EvaluationsSpent),
                Descent::Nothing if memory.is_empty() => return Ok(Outcome::NoDescent),
                Descent::Nothing => {
                    // What is remembered misleads here: forget it and take the steepest descent.
                    memory.clear();
                    (self.x, self.gradient, self.value) = (x, gradient, value);
                    continue;
                }
            }
            self.best.iterations += 1;
            let scale = value.abs().max(self.value.abs()).max(1.0);
            if value - self.value <= options.factr * f64::EPSILON * scale {
                let flat = max_abs(&self.gradient) <= options.pgtol;
                return Ok(if flat { Outcome::FlatGradient } else { Outcome::SmallDecrease });
            }
            if self.best.iterations >= options.iterations_max {
                return Ok(Outcome::IterationsSpent);
            }
            memory.remember(difference(&self.x, &x), difference(&self.gradient, &gradient));
        }
    }

    /// Looks for a step from `x`; on success the current point is the new one.
    fn search(
        &mut self,
        x: &[f64],
        direction: &[f64],
        slope: f64,
        first: bool,
        options: &Options,
    ) -> Result<Descent, E> {
        // Not a direction of descent, by rounding or because something overflowed.
        if !(slope < 0.0 && slope.is_finite()) {
            return Ok(Descent::Nothing);
        }
        let value = self.value;
        let step = if first { (1.0 / dot(direction, direction).sqrt()).min(1.0) } else { 1.0 };
        let mut search = LineSearch::new(value, slope, step);
        for _ in 0..SEARCH_MAX {
            if self.best.evaluations >= options.evaluations_max {
                return Ok(Descent::Spent);
            }
            self.x.copy_from_slice(x);
            add_scaled(&mut self.x, search.step(), direction);
            self.evaluate(search.step())?;
            // A gradient that is not finite must not be remembered, even if its slope along the line happens to be.
            let finite = max_abs(&self.gradient).is_finite();
            let slope = if finite { dot(&self.gradient, direction) } else { f64::NAN };
            match search.advance(self.value, slope) {
                Next::Try(_) => (),
                Next::Accept => return Ok(Descent::Step),
                Next::Tight if self.value < value && finite => return Ok(Descent::Step),
                Next::Tight => return Ok(Descent::Nothing),
            }
        }
        Ok(Descent::Nothing)
    }

    fn evaluate(&mut self, step: f64) -> Result<(), E> {
        self.value = (self.function)(&self.x, &mut self.gradient)?;
        self.best.evaluations += 1;
        let gradient_max = max_abs(&self.gradient);
        if self.value < self.best.value && gradient_max.is_finite() {
            self.best.value = self.value;
            self.best.gradient_max = gradient_max;
            self.best.x.copy_from_slice(&self.x);
        }
        (self.observer)(&Evaluation {
            number: self.best.evaluations,
            iteration: self.best.iterations,
            value: self.value,
            gradient_max,
            step,
            x: &self.x,
        });
        Ok(())
    }
}

/// The same steps for callers that choose a method: see [`minimize`](super::minimize).
pub(super) fn descend<E, F: Objective<E>, O: FnMut(&Step<'_>) -> bool>(
    run: &mut minimize::Run<'_, F, O>,
    size: usize,
) -> Result<minimize::Outcome, E> {
    let mut memory = Memory::new(size.max(1));
    loop {
        let direction = memory.direction(&run.gradient);
        let slope = dot(&direction, &run.gradient);
        let is_first = memory.is_empty();
        let first = if is_first { (1.0 / dot(&direction, &direction).sqrt()).min(1.0) } else { 1.0 };
        let searched = match slope < 0.0 && slope.is_finite() {
            true => along(run, &direction, slope, first, FLATNESS, SEARCH_MAX)?,
            false => Searched::Nothing,
        };
        match searched {
            Searched::Spent => return Ok(minimize::Outcome::EvaluationsSpent),
            Searched::Nothing if is_first => return Ok(minimize::Outcome::NoDescent),
            // What is remembered misleads here: forget it and take the steepest descent.
            Searched::Nothing => memory.clear(),
            Searched::Step(trial, _) => {
                let changes = (difference(&trial.x, &run.x), difference(&trial.gradient, &run.gradient));
                if let Some(outcome) = run.step(trial) {
                    return Ok(outcome);
                }
                memory.remember(changes.0, changes.1);
            }
        }
    }
}

enum Descent {
    Step,
    Nothing,
    Spent,
}

/// The last changes of point and gradient, oldest first.
pub(super) struct Memory {
    size: usize,
    changes: VecDeque<Change>,
}

struct Change {
    point: Vec<f64>,
    gradient: Vec<f64>,
    product: f64,
}

impl Memory {
    pub(super) fn new(size: usize) -> Memory {
        Memory { size, changes: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.changes.clear();
    }

    pub(super) fn remember(&mut self, point: Vec<f64>, gradient: Vec<f64>) {
        let product = dot(&point, &gradient);
        // Without curvature along the step the approximation would stop being positive definite.
        if product > f64::EPSILON * dot(&gradient, &gradient) {
            if self.changes.len() == self.size {
                self.changes.pop_front();
            }
            self.changes.push_back(Change { point, gradient, product });
        }
    }

    /// Changes of point and gradient and the product of both, oldest first.
    pub(super) fn kept(&self) -> impl Iterator<Item = (&[f64], &[f64], f64)> {
        self.changes.iter().map(|change| (&change.point[..], &change.gradient[..], change.product))
    }

    /// Minus the approximate inverse Hessian times the gradient, by the two loops over the changes.
    pub(super) fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let Some(last) = self.changes.back() else { return direction };
        let mut weights = Vec::with_capacity(self.changes.len());
        // Each step adds one vector and asks for the product with the next, in one pass.
        let mut product = dot(&last.point, &direction);
        for n in (0..self.changes.len()).rev() {
            let change = &self.changes[n];
            let weight = product / change.product;
            weights.push(weight);
            match n.checked_sub(1) {
                Some(next) => {
                    let next = &self.changes[next].point;
                    product = add_scaled_dot(&mut direction, -weight, &change.gradient, next);
                }
                None => add_scaled(&mut direction, -weight, &change.gradient),
            }
        }
        let scale = last.product / dot(&last.gradient, &last.gradient);
        direction.iter_mut().for_each(|d| *d *= scale);
        product = dot(&self.changes[0].gradient, &direction);
        for (n, weight) in weights.into_iter().rev().enumerate() {
            let change = &self.changes[n];
            let step = weight - product / change.product;
            match self.changes.get(n + 1) {
                Some(next) => {
                    product = add_scaled_dot(&mut direction, step, &change.point, &next.gradient);
                }
                None => add_scaled(&mut direction, step, &change.point),
            }
        }
        direction
    }
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    type Value = Result<f64, Infallible>;

    fn precise() -> Options {
        Options { factr: 10.0, pgtol: 1e-8, evaluations_max: 2000, ..Options::default() }
    }

    fn rosenbrock(x: &[f64], g: &mut [f64]) -> Value {
        g.fill(0.0);
        let mut value = 0.0;
        for i in 0..x.len() - 1 {
            let (bend, off) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
            value += 100.0 * bend * bend + off * off;
            g[i] += -400.0 * x[i] * bend - 2.0 * off;
            g[i + 1] += 200.0 * bend;
        }
        Ok(value)
    }

    /// SciPy's L-BFGS-B with the same settings takes 46, 94 and 634 evaluations from these starting points.
    #[test]
    fn rosenbrocks_valley_is_followed_to_its_end_in_as_many_evaluations_as_scipy() {
        for (dimensions, scipy) in [(2, 46), (10, 94), (100, 634)] {
            let start: Vec<f64> = (0..dimensions).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
            let found = minimize(&precise(), start, rosenbrock, |_| ()).unwrap();
            println!(
                "{dimensions}: {} evaluations, {} steps, {:e}",
                found.evaluations, found.iterations, found.value
            );
            assert!(found.outcome.converged(), "{dimensions}: {:?}", found.outcome);
            assert!(found.evaluations <= scipy + scipy / 10, "{dimensions}: {}", found.evaluations);
            assert!(found.x.iter().all(|x| (x - 1.0).abs() < 1e-5), "{:?}", found.x);
        }
    }

    #[test]
    fn an_ill_conditioned_quadratic_is_solved() {
        let quadratic = |x: &[f64], g: &mut [f64]| -> Value {
            let mut value = 0.0;
            for i in 0..x.len() {
                let weight = 10f64.powf(4.0 * i as f64 / (x.len() - 1) as f64);
                g[i] = weight * (x[i] - i as f64);
                value += 0.5 * weight * (x[i] - i as f64).powi(2);
            }
            Ok(value)
        };
        let found = minimize(&precise(), vec![0.0; 50], quadratic, |_| ()).unwrap();
        assert!(found.outcome.converged() && found.value < 1e-10, "{found:?}");
    }

    #[test]
    fn observer_sees_every_evaluation_in_order() {
        let mut seen = Vec::new();
        let found =
            minimize(&precise(), vec![-1.2, 1.0], rosenbrock, |e| seen.push((e.number, e.value))).unwrap();
        assert_eq!(seen.len(), found.evaluations);
        assert!(seen.iter().enumerate().all(|(i, (number, _))| *number == i + 1));
        assert_eq!(seen.iter().map(|s| s.1).fold(f64::INFINITY, f64::min), found.value);
    }

    #[test]
    fn the_limit_on_evaluations_is_kept_and_the_best_point_returned() {
        for limit in 0..20 {
            let options = Options { evaluations_max: limit, ..precise() };
            let mut count = 0;
            let mut lowest = f64::INFINITY;
            let counted = |x: &[f64], g: &mut [f64]| {
                count += 1;
                let value = rosenbrock(x, g)?;
                lowest = value.min(lowest);
                Ok::<_, Infallible>(value)
            };
            let found = minimize(&options, vec![-1.2, 1.0], counted, |_| ()).unwrap();
            assert_eq!((found.outcome, count), (Outcome::EvaluationsSpent, limit));
            assert_eq!(found.value, lowest);
        }
    }

    #[test]
    fn a_starting_point_without_a_value_is_an_outcome() {
        let nowhere = |_: &[f64], g: &mut [f64]| -> Value {
            g.fill(0.0);
            Ok(f64::NAN)
        };
        let found = minimize(&precise(), vec![1.0], nowhere, |_| ()).unwrap();
        assert_eq!((found.outcome, found.evaluations, found.x), (Outcome::NotFinite, 1, vec![1.0]));
    }

    #[test]
    fn a_wall_of_infinite_values_is_stepped_around() {
        // Minimum of x - ln x at 1; no value at or below 0.
        let wall = |x: &[f64], g: &mut [f64]| -> Value {
            g[0] = 1.0 - 1.0 / x[0];
            Ok(if x[0] > 0.0 { x[0] - x[0].ln() } else { f64::INFINITY })
        };
        for start in [1e-6, 0.1, 50.0] {
            let found = minimize(&precise(), vec![start], wall, |_| ()).unwrap();
            assert!(found.outcome.converged() && (found.x[0] - 1.0).abs() < 1e-5, "{start}: {found:?}");
        }
    }

    #[test]
    fn a_gradient_that_points_uphill_ends_without_descent() {
        let wrong = |x: &[f64], g: &mut [f64]| -> Value {
            g[0] = -2.0 * x[0];
            Ok(x[0] * x[0])
        };
        let found = minimize(&precise(), vec![1.0], wrong, |_| ()).unwrap();
        assert_eq!((found.outcome, found.x), (Outcome::NoDescent, vec![1.0]));
    }

    #[test]
    fn a_failing_function_ends_the_run_with_its_error() {
        let mut calls = 0;
        let failing = |x: &[f64], g: &mut [f64]| {
            calls += 1;
            if calls == 3 { Err("worker lost") } else { Ok(rosenbrock(x, g).unwrap_or(0.0)) }
        };
        assert_eq!(minimize(&precise(), vec![-1.2, 1.0], failing, |_| ()).unwrap_err(), "worker lost");
    }

    #[test]
    fn nothing_to_minimise_is_flat() {
        let found = minimize(&precise(), vec![], |_, _| Ok::<_, Infallible>(7.0), |_| ()).unwrap();
        assert_eq!((found.outcome, found.value), (Outcome::FlatGradient, 7.0));
    }
}
