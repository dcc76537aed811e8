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
//!
//! Where columns are many, second derivatives are not summed up: [`conjugate`] gradients find the same step from products of
//! their matrix with vectors, each of which is a round ([`by_rows`]). It stops where the certificate of the next point is
//! expected to be within the tolerance, or, where the loss is no sum of squares, where a better step would not pay.

pub mod by_rows;
mod conjugate;
pub(in crate::linear) mod quadratic;
pub mod slopes;
mod step;

use crate::linear::error::LearnError;
use crate::linear::rows::Survey;
use crate::linear::scaled;
use crate::linear::scaling::Penalty;
use crate::linear::solvers::coordinate::cocoa::{FitError, Outcome};
use crate::linear::solvers::coordinate::params::Params;
use by_rows::add_slopes;
use qjam::{Master, Rows, with_rows};
use slopes::{Of, Point, Second, Slopes, slopes};
use step::{Curvature, Step};

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
    /// Whether steps are found by conjugate gradients, a round each, instead of from sums of products.
    pub(in crate::linear) by_conjugate_gradients: bool,
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
    /// The intercept that goes with them.
    pub(in crate::linear) start_intercept: f64,
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
            _ if self.by_rows() => vec![],
            true => self.survey.sums.iter().map(|sum| sum / rows).collect(),
            false => vec![0.0; columns],
        };
        let (mut b, mut c) = (vec![0.0; columns], 0.0);
        if !task.start.is_empty() {
            b.iter_mut().enumerate().for_each(|(j, b)| *b = task.start[j] * self.deviation(j));
        }
        if !task.start.is_empty() && self.intercept {
            c = task.start_intercept + task.start.iter().zip(&means).map(|(a, mean)| a * mean).sum::<f64>();
        }
        let point = Point {
            of: task.of,
            at: vec![],
            means,
            targets: task.targets.to_vec(),
            weights: task.weights.unwrap_or_default().to_vec(),
            starts: scaled::starts(&self.survey.counts),
            second: Second::None,
            scales: (1.0, 1.0),
        };
        let mut search = Search {
            narrow: self,
            task,
            point,
            b,
            c,
            bound: f64::NEG_INFINITY,
            rounds: 0,
            first_square: None,
        };
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

    /// Whether rows are taken as they are stored.
    fn by_rows(&self) -> bool {
        self.by_conjugate_gradients || self.examples.is_sparse()
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
    /// The slopes at the first point, as conjugate gradients measure them.
    first_square: Option<f64>,
}

/// What is to be done after a round.
enum Verdict {
    /// Nothing: the objective, and why it ends.
    Over(f64, Outcome),
    /// To look at the same step again, made shorter.
    Shorter(Step),
    /// To make the next step.
    GoOn,
}

impl Search<'_> {
    fn run(
        &mut self,
        observer: &mut dyn FnMut(usize, f64, f64),
    ) -> Result<Option<(f64, Outcome)>, LearnError> {
        let (params, of) = (self.narrow.params, self.task.of);
        let (mut curvature, mut step): (Option<Curvature>, Option<Step>) = (None, None);
        let mut whole = None;
        loop {
            let wants = of != Of::Squares || curvature.is_none();
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
            let verdict = match step.take() {
                Some(taken) => self.judge(taken, &seen, objective, used_up)?,
                None if used_up => Verdict::Over(objective, Outcome::RoundsUsedUp),
                None => self.judge_start(&seen, objective)?,
            };
            match verdict {
                Verdict::Over(objective, outcome) => return Ok(Some((objective, outcome))),
                Verdict::Shorter(shorter) => {
                    step = Some(shorter);
                    continue;
                }
                Verdict::GoOn => {}
            }
            if wants {
                curvature = Some(self.curvature(&seen));
            }
            let Some(known) = &curvature else { return Ok(None) };
            let Some(taken) = self.step(known, &seen, objective)? else { return Ok(None) };
            if self.is_least_squares() {
                // What is left to gain is half of what a straight line promises, and where coefficients are held at
                // 0 no more than all of it. No dual is feasible but the best.
                let share = if self.task.penalty.is_positive() { 1.0 } else { 0.5 };
                self.bound = self.bound.max(objective + share * taken.promised);
                if self.is_within(objective) {
                    return Ok(Some((objective, Outcome::Converged)));
                }
            }
            self.go(&taken.from, &taken.to, 1.0);
            step = Some(taken);
        }
    }

    /// What the round after a step says of it. A step that leads uphill is gone back on by half.
    fn judge(
        &mut self,
        taken: Step,
        seen: &Slopes,
        objective: f64,
        used_up: bool,
    ) -> Result<Verdict, LearnError> {
        // Where nothing but rounding is promised, rounding is allowed.
        let allowed = taken.objective + KEPT * taken.length * taken.promised;
        if objective > allowed + ROUNDING * objective.abs() {
            let (length, halvings) = (0.5 * taken.length, taken.halvings + 1);
            if halvings > HALVINGS_MAX || used_up {
                (self.b, self.c) = taken.from;
                let outcome = if used_up { Outcome::RoundsUsedUp } else { Outcome::Stalled };
                return Ok(Verdict::Over(taken.objective, outcome));
            }
            self.go(&taken.from, &taken.to, length);
            return Ok(Verdict::Shorter(Step { length, halvings, ..taken }));
        }
        let near = (4.0 * self.narrow.params.tolerance()).max(ROUNDING) * objective.abs();
        if self.task.of == Of::Logistic && (used_up || -taken.promised <= near) {
            self.certify(seen)?;
        }
        Ok(match () {
            () if self.is_within(objective) => Verdict::Over(objective, Outcome::Converged),
            () if used_up => Verdict::Over(objective, Outcome::RoundsUsedUp),
            () if -taken.promised <= ROUNDING * objective.abs() => Verdict::Over(objective, Outcome::Stalled),
            () => Verdict::GoOn,
        })
    }

    /// What the first round says: a point that was given may be the optimum already.
    fn judge_start(&mut self, seen: &Slopes, objective: f64) -> Result<Verdict, LearnError> {
        if self.task.start.is_empty() {
            return Ok(Verdict::GoOn);
        }
        if self.task.of == Of::Logistic {
            self.certify(seen)?;
        }
        Ok(match self.is_within(objective) {
            true => Verdict::Over(objective, Outcome::Converged),
            false => Verdict::GoOn,
        })
    }

    /// Whether nothing but squares of residuals costs anything.
    fn is_least_squares(&self) -> bool {
        let penalty = &self.task.penalty;
        self.task.of == Of::Squares && penalty.l1() == 0.0 && penalty.l2() == 0.0
    }

    fn is_within(&self, objective: f64) -> bool {
        let tolerance = self.narrow.params.tolerance();
        tolerance > 0.0 && objective - self.bound <= tolerance * objective.abs()
    }

    /// A round at the present point.
    fn slopes(&mut self, second: bool, scales: (f64, f64)) -> Result<Slopes, LearnError> {
        let narrow = self.narrow;
        self.point.at = (0..self.b.len()).map(|j| self.b[j] / narrow.deviation(j)).collect();
        self.point.at.push(self.c);
        self.point.second = match (second, narrow.by_conjugate_gradients) {
            (false, _) => Second::None,
            (true, true) => Second::Diagonal,
            (true, false) => Second::Products,
        };
        self.point.scales = scales;
        self.rounds += 1;
        Ok(match narrow.by_rows() {
            true => {
                with_rows!(narrow.examples, data => narrow.master.run(add_slopes::<_>, &self.point, data))
            }
            false => with_rows!(narrow.examples, data => narrow.master.run(slopes::<_>, &self.point, data)),
        }?)
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
        let is_positive = self.task.penalty.is_positive();
        // A coefficient that may not be negative is held where its slope pulls it down.
        let steep = |slope: &f64| if is_positive { -slope } else { slope.abs() };
        if l2 > 0.0 {
            let beyond = |slope: &f64| (steep(slope) - l1).max(0.0);
            return (1.0, slopes.iter().map(|slope| beyond(slope).powi(2)).sum::<f64>() / (2.0 * l2));
        }
        let steepest = slopes.iter().fold(0.0_f64, |most, slope| most.max(steep(slope)));
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
