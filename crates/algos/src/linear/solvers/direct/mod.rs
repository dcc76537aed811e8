//! Few columns: rounds that sum up slopes and products of columns, and exact steps from them on the master.
//!
//! ```text
//!   coefficients ──▶ slopes on every chunk ──▶ loss, slopes, products of columns
//!        ▲                                          │
//!        └── quadratic: the lowest point ◀──────────┘
//! ```
//!
//! Of squares the products never change: one round has them, one step comes to the optimum, and a last round says what was
//! reached. That last one looks at the data and not at the products, so the certificate does not rest on what it
//! certifies; if rounding in the products was felt, another step from its slopes puts that right. A logistic loss and a squared
//! hinge take a step of Newton's method each round, with the penalty as it is, and halve it where it would go too far.
//! The intercept of a support vector machine costs something, as liblinear has it.

pub(in crate::linear) mod quadratic;
pub mod slopes;

use crate::linear::error::LearnError;
use crate::linear::rows::Survey;
use crate::linear::scaled;
use crate::linear::scaling::Penalty;
use crate::linear::solvers::coordinate::cocoa::{FitError, Outcome};
use crate::linear::solvers::coordinate::params::Params;
use qjam::{Master, Rows, with_rows};
use quadratic::Quadratic;
use slopes::{Of, Point, Slopes, slopes};

/// Most columns: products of all pairs have to fit in memory, several times.
pub const COLUMNS_MAX: usize = 8192;
/// A change below this share of the objective is nothing but rounding.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// Of what a straight line promises, a step must keep so much.
const KEPT: f64 = 1e-4;
/// Halvings after which a step is given up.
const HALVINGS_MAX: usize = 40;

/// Data that was looked at once, for one or several models.
pub(in crate::linear) struct Narrow<'a> {
    pub(in crate::linear) master: &'a Master,
    pub(in crate::linear) examples: &'a Rows,
    pub(in crate::linear) survey: &'a Survey,
    /// What columns are divided by; none for ones.
    pub(in crate::linear) deviations: &'a [f64],
    pub(in crate::linear) intercept: bool,
    /// What the intercept costs: half its square times this.
    pub(in crate::linear) intercept_price: f64,
    pub(in crate::linear) params: &'a Params,
}

/// What is asked for.
pub(in crate::linear) struct Task<'a> {
    pub(in crate::linear) of: Of,
    pub(in crate::linear) targets: &'a [f64],
    pub(in crate::linear) weights: Option<&'a [f64]>,
    pub(in crate::linear) penalty: Penalty,
    /// In the data's units; none for zeros.
    pub(in crate::linear) start: &'a [f64],
}

/// What was found, in the ½-sum form.
pub(in crate::linear) struct Solved {
    pub(in crate::linear) coefficients: Vec<f64>,
    pub(in crate::linear) intercept: f64,
    pub(in crate::linear) objective: f64,
    pub(in crate::linear) bound: f64,
    pub(in crate::linear) rounds: usize,
    pub(in crate::linear) outcome: Outcome,
}

impl Narrow<'_> {
    /// Looks for the optimum; `None` where columns depend on each other too much. `observer` sees round, objective and gap.
    pub(in crate::linear) fn solve(
        &self,
        task: &Task<'_>,
        observer: &mut dyn FnMut(usize, f64, f64),
    ) -> Result<Option<Solved>, LearnError> {
        let columns = self.survey.sums.len();
        let rows = self.survey.counts.iter().sum::<u64>() as f64;
        // An intercept that costs something is that of the columns as they are.
        let means = match self.intercept && self.intercept_price == 0.0 {
            true => self.survey.sums.iter().map(|sum| sum / rows).collect(),
            false => vec![0.0; columns],
        };
        let mut b = vec![0.0; columns];
        if !task.start.is_empty() {
            b.iter_mut().enumerate().for_each(|(j, b)| *b = task.start[j] * self.deviation(j));
        }
        let point = Point {
            of: task.of,
            at: vec![],
            means,
            targets: task.targets.to_vec(),
            weights: task.weights.unwrap_or_default().to_vec(),
            starts: scaled::starts(&self.survey.counts),
            products: true,
            scales: (1.0, 1.0),
        };
        let mut search = Search { narrow: self, task, point, b, c: 0.0, bound: f64::NEG_INFINITY, rounds: 0 };
        let Some((objective, outcome)) = search.run(observer)? else {
            return Ok(None);
        };
        let coefficients: Vec<f64> = (0..columns).map(|j| search.b[j] / self.deviation(j)).collect();
        let along: f64 = coefficients.iter().zip(&search.point.means).map(|(a, mean)| a * mean).sum();
        Ok(Some(Solved {
            intercept: if self.intercept { search.c - along } else { 0.0 },
            coefficients,
            objective,
            bound: search.bound,
            rounds: search.rounds,
            outcome,
        }))
    }

    fn deviation(&self, column: usize) -> f64 {
        self.deviations.get(column).copied().unwrap_or(1.0)
    }
}

/// On the way to an optimum.
struct Search<'a> {
    narrow: &'a Narrow<'a>,
    task: &'a Task<'a>,
    point: Point,
    /// Coefficients of columns that are divided by their deviations.
    b: Vec<f64>,
    /// The intercept of columns less their means.
    c: f64,
    bound: f64,
    rounds: usize,
}

/// A step that was taken, to be judged by the next round.
struct Step {
    from: (Vec<f64>, f64),
    to: (Vec<f64>, f64),
    /// The objective before it, and what a straight line promises of all of it.
    objective: f64,
    promised: f64,
    length: f64,
    halvings: usize,
}

impl Search<'_> {
    fn run(
        &mut self,
        observer: &mut dyn FnMut(usize, f64, f64),
    ) -> Result<Option<(f64, Outcome)>, LearnError> {
        let (params, of) = (self.narrow.params, self.task.of);
        let (mut quadratic, mut step): (Option<Quadratic>, Option<Step>) = (None, None);
        let (mut intercept_bend, mut whole) = ((vec![], 0.0), None);
        loop {
            let wants = of != Of::Squares || quadratic.is_none();
            let mut seen = self.slopes(wants, (1.0, 1.0))?;
            // What there is to explain; beside it a gap may be nothing but rounding.
            let whole = *whole.get_or_insert(seen.value);
            if of == Of::Squares {
                self.settle(&mut seen);
                self.bound = self.bound.max(self.bound_of_squares(&seen));
            }
            if of == Of::SquaredHinge {
                self.bound = self.bound.max(self.bound_of_hinges(&seen));
            }
            let objective = seen.value + self.cost(&self.b, self.c);
            if !objective.is_finite() {
                return Err(FitError::Overflow { value: objective, rounds: self.rounds }.into());
            }
            observer(self.rounds, objective, objective - self.bound);
            let used_up = self.rounds >= params.rounds_max();
            // Where nothing is left to explain, steps are nothing but rounding and lead uphill as often as down.
            if params.tolerance() > 0.0 && objective - self.bound <= ROUNDING * ROUNDING * whole {
                return Ok(Some((objective, Outcome::Converged)));
            }
            if let Some(taken) = step.take() {
                // Where nothing but rounding is promised, rounding is allowed.
                let allowed = taken.objective + KEPT * taken.length * taken.promised;
                if objective > allowed + ROUNDING * objective.abs() {
                    let (length, halvings) = (0.5 * taken.length, taken.halvings + 1);
                    if halvings > HALVINGS_MAX || used_up {
                        (self.b, self.c) = taken.from;
                        let outcome = if used_up { Outcome::RoundsUsedUp } else { Outcome::Stalled };
                        return Ok(Some((taken.objective, outcome)));
                    }
                    self.go(&taken.from, &taken.to, length);
                    step = Some(Step { length, halvings, ..taken });
                    continue;
                }
                let is_within = |bound: f64| {
                    params.tolerance() > 0.0 && objective - bound <= params.tolerance() * objective.abs()
                };
                let near = (4.0 * params.tolerance()).max(ROUNDING) * objective.abs();
                if of == Of::Logistic && (used_up || -taken.promised <= near) {
                    self.certify(&seen)?;
                }
                if is_within(self.bound) {
                    return Ok(Some((objective, Outcome::Converged)));
                }
                if used_up {
                    return Ok(Some((objective, Outcome::RoundsUsedUp)));
                }
                if -taken.promised <= ROUNDING * objective.abs() {
                    return Ok(Some((objective, Outcome::Stalled)));
                }
            } else if used_up {
                return Ok(Some((objective, Outcome::RoundsUsedUp)));
            }
            if wants {
                let (h, bend) = self.bends(&seen);
                (quadratic, intercept_bend) = (Some(h), bend);
            }
            let Some(h) = &quadratic else { return Ok(None) };
            match self.step(h, &intercept_bend, &seen, objective) {
                Some(taken) => {
                    self.go(&taken.from, &taken.to, 1.0);
                    step = Some(taken);
                }
                None => return Ok(None),
            }
        }
    }

    /// A round at the present point.
    fn slopes(&mut self, products: bool, scales: (f64, f64)) -> Result<Slopes, LearnError> {
        let narrow = self.narrow;
        self.point.at = (0..self.b.len()).map(|j| self.b[j] / narrow.deviation(j)).collect();
        self.point.at.push(self.c);
        (self.point.products, self.point.scales) = (products, scales);
        self.rounds += 1;
        Ok(with_rows!(narrow.examples, data => narrow.master.run(slopes::<_>, &self.point, data))?)
    }

    fn cost(&self, b: &[f64], c: f64) -> f64 {
        let penalty = &self.task.penalty;
        let (square, size) = b.iter().fold((0.0, 0.0), |(square, size), b| (square + b * b, size + b.abs()));
        0.5 * (penalty.l2() * square + self.narrow.intercept_price * c * c) + penalty.l1() * size
    }

    /// Slopes of the scaled coefficients.
    fn of_scaled(&self, slopes: impl Iterator<Item = f64>) -> Vec<f64> {
        slopes.take(self.b.len()).enumerate().map(|(j, slope)| slope / self.narrow.deviation(j)).collect()
    }

    /// Of squares: moves the intercept to where it is best, and all sums with it.
    fn settle(&mut self, seen: &mut Slopes) {
        if !self.narrow.intercept {
            return;
        }
        let columns = self.b.len();
        let slope = seen.plus[columns];
        let by = slope / seen.weight;
        self.c -= by;
        seen.value -= 0.5 * slope * by;
        seen.bounds[0] -= slope * by;
        seen.bounds[1] -= by * seen.bounds[2];
        seen.plus.iter_mut().zip(&seen.ones).for_each(|(slope, ones)| *slope -= by * ones);
    }

    /// Fenchel's dual at the slopes of rows, scaled into what lasso allows.
    fn bound_of_squares(&self, seen: &Slopes) -> f64 {
        let slopes = self.of_scaled(seen.plus.iter().copied());
        let (scale, conjugates) = self.feasible(&slopes);
        let [square, along, _] = seen.bounds;
        let scale = match self.task.penalty.l2() > 0.0 || square == 0.0 {
            true => scale,
            false => (-along / square).clamp(0.0, scale),
        };
        -scale * (0.5 * scale * square + along) - conjugates
    }

    /// The dual at the slopes of rows, which is defined for all of them.
    fn bound_of_hinges(&self, seen: &Slopes) -> f64 {
        let columns = self.b.len();
        let both = |j: usize| seen.plus[j] + seen.minus[j];
        let (_, conjugates) = self.feasible(&self.of_scaled((0..columns).map(both)));
        let of_intercept = match self.narrow.intercept {
            true => 0.5 * both(columns).powi(2) / self.narrow.intercept_price,
            false => 0.0,
        };
        seen.bound - conjugates - of_intercept
    }

    /// By what slopes have to be multiplied to be allowed at most, and the conjugates of the penalty there.
    fn feasible(&self, slopes: &[f64]) -> (f64, f64) {
        let (l1, l2) = (self.task.penalty.l1(), self.task.penalty.l2());
        if l2 > 0.0 {
            let beyond = |slope: &f64| (slope.abs() - l1).max(0.0);
            return (1.0, slopes.iter().map(|slope| beyond(slope).powi(2)).sum::<f64>() / (2.0 * l2));
        }
        let steepest = slopes.iter().fold(0.0_f64, |most, slope| most.max(slope.abs()));
        let most = if self.task.of == Of::Logistic { 1.0 } else { f64::INFINITY };
        (if steepest > 0.0 { (l1 / steepest).min(most) } else { most.min(1e300) }, 0.0)
    }

    /// A lower bound for a logistic loss, from the slopes at the present point: one more round.
    fn certify(&mut self, seen: &Slopes) -> Result<(), LearnError> {
        let columns = self.b.len();
        // With an intercept, slopes have to add up to 0: the heavier side is made lighter.
        let (heavy, light) = (-seen.plus[columns], seen.minus[columns]);
        let sides = match self.narrow.intercept {
            true if heavy > 0.0 && light > 0.0 => ((light / heavy).min(1.0), (heavy / light).min(1.0)),
            true => (0.0, 0.0),
            false => (1.0, 1.0),
        };
        let both = seen.plus.iter().zip(&seen.minus).map(|(plus, minus)| sides.0 * plus + sides.1 * minus);
        let (scale, conjugates) = self.feasible(&self.of_scaled(both));
        let found = self.slopes(false, (scale * sides.0, scale * sides.1))?;
        self.bound = self.bound.max(found.bound - conjugates);
        Ok(())
    }

    /// Second derivatives in scaled coefficients, with the intercept where it is best; and those of the intercept.
    fn bends(&self, seen: &Slopes) -> (Quadratic, (Vec<f64>, f64)) {
        let (n, width) = (self.b.len(), self.b.len() + 1);
        let own = seen.products[n * width + n] + self.narrow.intercept_price;
        let ones: Vec<f64> =
            (0..n).map(|j| seen.products[j * width + n] / self.narrow.deviation(j)).collect();
        let with = self.narrow.intercept && own > 0.0;
        let mut h = Vec::with_capacity(n * n);
        for i in 0..n {
            for j in 0..n {
                let scale = self.narrow.deviation(i) * self.narrow.deviation(j);
                let value = seen.products[i * width + j] / scale;
                h.push(if with { value - ones[i] * ones[j] / own } else { value });
            }
        }
        (Quadratic::new(n, h), (ones, own))
    }

    /// The step to the lowest point of the quadratic function that agrees with the loss here; `None` where there is none.
    fn step(&self, h: &Quadratic, bend: &(Vec<f64>, f64), seen: &Slopes, objective: f64) -> Option<Step> {
        let columns = self.b.len();
        let minus = |j: usize| seen.minus.get(j).copied().unwrap_or(0.0);
        let slopes = self.of_scaled((0..columns).map(|j| seen.plus[j] + minus(j)));
        let slope_c = if self.narrow.intercept { seen.plus[columns] + minus(columns) } else { 0.0 };
        let whole_c = slope_c + self.narrow.intercept_price * self.c;
        let (ones, own) = bend;
        let with = self.narrow.intercept && *own > 0.0;
        let share = if with { whole_c / own } else { 0.0 };
        let mut r = h.times(&self.b);
        r.iter_mut().enumerate().for_each(|(j, r)| *r -= slopes[j] - share * ones[j]);
        let to = h.lowest(&r, self.task.penalty.l1(), self.task.penalty.l2(), &self.b)?;
        let by: Vec<f64> = to.iter().zip(&self.b).map(|(to, from)| to - from).collect();
        let along: f64 = by.iter().zip(ones).map(|(by, ones)| by * ones).sum();
        let by_c = if with { -(whole_c + along) / own } else { 0.0 };
        let straight: f64 = by.iter().zip(&slopes).map(|(by, slope)| by * slope).sum();
        let promised = straight + slope_c * by_c + self.cost(&to, self.c + by_c) - self.cost(&self.b, self.c);
        Some(Step {
            from: (self.b.clone(), self.c),
            to: (to, self.c + by_c),
            objective,
            promised: promised.min(0.0),
            length: 1.0,
            halvings: 0,
        })
    }

    fn go(&mut self, from: &(Vec<f64>, f64), to: &(Vec<f64>, f64), length: f64) {
        if length == 1.0 {
            self.b.clone_from(&to.0);
            self.c = to.1;
            return;
        }
        self.b = from.0.iter().zip(&to.0).map(|(from, to)| from + length * (to - from)).collect();
        self.c = from.1 + length * (to.1 - from.1);
    }
}
