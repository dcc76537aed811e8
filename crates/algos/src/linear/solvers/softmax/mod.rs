//! Logistic regression of more than two classes together: the chances of a row are `exp(vₖ)` of all classes, scaled to add up to 1.
//!
//! ```text
//!   coefficients ──▶ class_slopes on every chunk ──▶ loss, slopes [, products of p ⊗ x]
//!        ▲                                                  │
//!        ├── newton: the lowest point of the quadratic  ◀───┤  few coefficients
//!        └── L-BFGS, with the penalty on sizes exact    ◀───┘  many
//! ```
//!
//! Minimises `Σ wᵢ (ln Σₖ exp(vᵢₖ) − vᵢᵧ) + l2/2 ‖B‖² + l1 ‖B‖₁` with `vᵢₖ = xᵢ·bₖ + cₖ`. The certificate is Fenchel's dual at
//! the slopes of rows: entropies, less what the penalty's conjugate takes. Intercepts ask the slopes to add up to 0, which
//! [`balance`] does at the price of one more round, taken when the gap without it is small enough; l1 alone asks for another.
//!
//! A column's coefficients may all move by the same without a difference to any chance. The loss is flat there and a step
//! would see nothing of it, so they are put where they cost least ([`middle`]) whenever there is a new point.
//!
//! All classes have coefficients, none is left out as the one to compare with; so the l2 penalty makes them unique, and
//! intercepts are those that add up to 0. With l1 alone and an even number of classes the optimum may be a whole
//! segment, of which one point is found.

mod balance;
mod middle;
mod newton;
pub mod slopes;

use crate::kernels::vectors::dot;
use crate::linear::error::LearnError;
use crate::linear::rows::Survey;
use crate::linear::scaled;
use crate::linear::scaling::Penalty;
use crate::linear::solvers::coordinate::cocoa::{FitError, Outcome};
use crate::linear::solvers::coordinate::params::Params;
use crate::optimize::lbfgs;
use crate::optimize::proximal::{self, Function};
use qjam::{Master, Rows, with_rows};
use slopes::{SlopesQuery, Sums, class_slopes};

/// Most classes that are learnt together: certificates know each pair of them.
pub(in crate::linear) const CLASSES_MAX: usize = 1000;
/// Up to so many classes, pairs of them are summed up in every round.
const SIDES_ALWAYS: usize = 32;

/// What is to be found, and on what.
pub(in crate::linear) struct Task<'a> {
    pub(in crate::linear) master: &'a Master,
    pub(in crate::linear) examples: &'a Rows,
    pub(in crate::linear) survey: &'a Survey,
    /// What columns are divided by; none for ones.
    pub(in crate::linear) deviations: &'a [f64],
    pub(in crate::linear) intercept: bool,
    pub(in crate::linear) penalty: Penalty,
    pub(in crate::linear) params: &'a Params,
    /// The class of every row, and how many there are.
    pub(in crate::linear) of_rows: &'a [u32],
    pub(in crate::linear) classes: usize,
    pub(in crate::linear) weights: Option<&'a [f64]>,
    /// Coefficients to begin with, class by class, in the data's units, and intercepts after them, if any are known; none for
    /// zeros.
    pub(in crate::linear) start: &'a [f64],
}

/// What was found, in the ½-sum form, class by class.
pub(in crate::linear) struct Solved {
    pub(in crate::linear) coefficients: Vec<f64>,
    pub(in crate::linear) intercepts: Vec<f64>,
    pub(in crate::linear) objective: f64,
    pub(in crate::linear) bound: f64,
    pub(in crate::linear) rounds: usize,
    pub(in crate::linear) outcome: Outcome,
}

type Observer<'a> = &'a mut dyn FnMut(usize, f64, f64);

impl Task<'_> {
    /// By Newton's method; `None` where columns depend on each other too much.
    pub(in crate::linear) fn by_newton(&self, observer: Observer<'_>) -> Result<Option<Solved>, LearnError> {
        let mut problem = Problem::new(self, true);
        let found = newton::run(&mut problem, observer)?;
        Ok(found.map(|(x, objective, outcome)| problem.solved(&x, objective, outcome)))
    }

    /// By L-BFGS.
    pub(in crate::linear) fn by_lbfgs(&self, observer: Observer<'_>) -> Result<Solved, LearnError> {
        let mut problem = Problem::new(self, false);
        let mut descent = Descent::new(&mut problem, observer);
        let start = descent.start();
        let prices = descent.prices();
        let most = self.params.rounds_max();
        let found = proximal::minimize(10, &prices, start, most, &mut descent)?;
        let (x, enough, objective) = (descent.unscaled(&found.x), descent.enough, found.value);
        if !objective.is_finite() {
            return Err(FitError::Overflow { value: objective, rounds: problem.rounds }.into());
        }
        if !enough {
            // What was seen last may have been a step that was not taken.
            let seen = problem.evaluate(&x, false)?;
            problem.certify(&x, &seen)?;
        }
        let tolerance = self.params.tolerance();
        let outcome = match found.outcome {
            _ if enough => Outcome::Converged,
            _ if tolerance > 0.0 && objective - problem.bound <= tolerance * objective.abs() => {
                Outcome::Converged
            }
            lbfgs::Outcome::EvaluationsSpent | lbfgs::Outcome::IterationsSpent => Outcome::RoundsUsedUp,
            _ => Outcome::Stalled,
        };
        Ok(problem.solved(&x, objective, outcome))
    }
}

/// The objective in coefficients of columns that are divided by their deviations and less their means: column by column with
/// all classes side by side, and then the intercepts.
struct Problem<'a> {
    task: &'a Task<'a>,
    k: usize,
    columns: usize,
    /// What columns have on average; none without intercepts.
    means: Vec<f64>,
    /// Whether chunks take the means off; else it is done here, so that sparse rows stay sparse.
    in_full: bool,
    place: SlopesQuery,
    /// A lower bound of the objective; nothing in it is negative.
    bound: f64,
    rounds: usize,
}

/// What a round has found.
struct Evaluated {
    sums: Sums,
    /// The loss with the penalty.
    objective: f64,
}

impl<'a> Problem<'a> {
    fn new(task: &'a Task<'a>, newton: bool) -> Problem<'a> {
        let rows = task.survey.counts.iter().sum::<u64>() as f64;
        let means: Vec<f64> = match task.intercept {
            true => task.survey.sums.iter().map(|sum| sum / rows).collect(),
            false => vec![],
        };
        let in_full = newton || !task.examples.is_sparse();
        let place = SlopesQuery {
            classes: task.classes as u64,
            at: vec![],
            means: if in_full { means.clone() } else { vec![] },
            in_full,
            of_rows: task.of_rows.to_vec(),
            weights: task.weights.unwrap_or_default().to_vec(),
            starts: scaled::starts(&task.survey.counts),
            scales: vec![],
            sides: false,
            products: false,
        };
        let columns = task.survey.sums.len();
        Problem { task, k: task.classes, columns, means, in_full, place, bound: 0.0, rounds: 0 }
    }

    /// How many coefficients cost something.
    fn priced(&self) -> usize {
        self.columns * self.k
    }

    fn deviation(&self, column: usize) -> f64 {
        self.task.deviations.get(column).copied().unwrap_or(1.0)
    }

    /// Where to begin: where it was said; without intercepts, with those that are best if all coefficients are 0.
    fn start(&self) -> Vec<f64> {
        let (k, columns) = (self.k, self.columns);
        let mut x = vec![0.0; (columns + 1) * k];
        if !self.task.start.is_empty() {
            for j in 0..columns {
                for c in 0..k {
                    x[j * k + c] = self.task.start[c * columns + j] * self.deviation(j);
                }
            }
        }
        let given = self.task.start.get(k * columns..).unwrap_or_default();
        if self.task.intercept && given.len() == k {
            for (c, intercept) in given.iter().enumerate() {
                let of_class = &self.task.start[c * columns..][..columns];
                x[columns * k + c] = intercept + dot(of_class, &self.means);
            }
            settle(&mut x[columns * k..]);
        } else if self.task.intercept {
            let mut all = vec![0.0; k];
            for (row, class) in self.task.of_rows.iter().enumerate() {
                if let Some(all) = all.get_mut(*class as usize) {
                    *all += self.task.weights.map_or(1.0, |weights| weights[row]);
                }
            }
            crate::kernels::elementwise::log(crate::kernels::Level::best(), &mut all);
            x[columns * k..].copy_from_slice(&all);
            settle(&mut x[columns * k..]);
        }
        x
    }

    /// Coefficients and intercepts in the data's units, column by column.
    fn in_units(&self, x: &[f64], less_means: bool) -> Vec<f64> {
        let k = self.k;
        let mut at = x.to_vec();
        let (coefficients, intercepts) = at.split_at_mut(self.columns * k);
        for (j, of_column) in coefficients.chunks_exact_mut(k).enumerate() {
            let deviation = self.deviation(j);
            of_column.iter_mut().for_each(|a| *a /= deviation);
            if let (true, Some(mean)) = (less_means, self.means.get(j)) {
                intercepts.iter_mut().zip(of_column).for_each(|(c, a)| *c -= mean * *a);
            }
        }
        at
    }

    /// A round at `x`.
    fn look(&mut self, x: &[f64], products: bool, sides: bool, scales: Vec<f64>) -> Result<Sums, LearnError> {
        self.place.at = self.in_units(x, !self.in_full);
        (self.place.products, self.place.sides, self.place.scales) = (products, sides, scales);
        self.rounds += 1;
        let task = self.task;
        let mut sums =
            with_rows!(task.examples, data => task.master.run(class_slopes::<_>, &self.place, data))?;
        let (k, columns) = (self.k, self.columns);
        let (slopes, of_intercepts) = sums.slopes.split_at_mut(columns * k);
        for (j, slopes) in slopes.chunks_exact_mut(k).enumerate() {
            if let (false, Some(mean)) = (self.in_full, self.means.get(j)) {
                slopes.iter_mut().zip(&*of_intercepts).for_each(|(slope, of)| *slope -= mean * of);
            }
            let deviation = self.deviation(j);
            slopes.iter_mut().for_each(|slope| *slope /= deviation);
        }
        if !task.intercept {
            of_intercepts.fill(0.0);
        }
        Ok(sums)
    }

    fn evaluate(&mut self, x: &[f64], products: bool) -> Result<Evaluated, LearnError> {
        let sums = self.look(x, products, self.task.intercept && self.k <= SIDES_ALWAYS, vec![])?;
        let objective = sums.value + self.cost(x);
        if !self.task.intercept {
            let (scale, conjugates) = self.feasible(&sums);
            // The dual is concave and 0 at 0, so a share of the slopes has that share of it at least.
            self.bound = self.bound.max(scale * sums.bound - conjugates);
        }
        Ok(Evaluated { sums, objective })
    }

    fn cost(&self, x: &[f64]) -> f64 {
        let all = x[..self.priced()].iter();
        let (square, size) = all.fold((0.0, 0.0), |(square, size), b| (square + b * b, size + b.abs()));
        0.5 * self.task.penalty.l2() * square + self.task.penalty.l1() * size
    }

    /// By what slopes have to be multiplied to be allowed, and the conjugates of the penalty there.
    fn feasible(&self, sums: &Sums) -> (f64, f64) {
        let (l1, l2) = (self.task.penalty.l1(), self.task.penalty.l2());
        let slopes = &sums.slopes[..self.priced()];
        if l2 > 0.0 {
            let beyond: f64 = slopes.iter().map(|slope| (slope.abs() - l1).max(0.0).powi(2)).sum();
            return (1.0, beyond / (2.0 * l2));
        }
        let steepest = slopes.iter().fold(0.0_f64, |most, slope| most.max(slope.abs()));
        (if steepest > l1 { l1 / steepest } else { 1.0 }, 0.0)
    }

    /// About what [`certify`](Problem::certify) would come to.
    fn estimate(&self, sums: &Sums) -> f64 {
        let (scale, conjugates) = self.feasible(sums);
        sums.bound - (1.0 - scale) * (sums.bound - sums.value) - conjugates
    }

    /// A lower bound from the slopes at `x`, where `seen` was seen: Fenchel's dual at slopes of rows that are scaled into what
    /// intercepts and l1 allow. A round for the one and a round for the other.
    fn certify(&mut self, x: &[f64], seen: &Evaluated) -> Result<(), LearnError> {
        let mut scales = vec![1.0; self.k];
        let mut found = None;
        if self.task.intercept {
            let sides = match seen.sums.sides.is_empty() {
                true => self.look(x, false, true, vec![])?.sides,
                false => seen.sums.sides.clone(),
            };
            let Some(balanced) = balance::scales(&sides, self.k) else { return Ok(()) };
            scales = balanced;
            found = Some(self.look(x, false, false, scales.clone())?);
        }
        let sums = found.as_ref().unwrap_or(&seen.sums);
        let (scale, conjugates) = self.feasible(sums);
        let mut bound = sums.bound;
        if scale < 1.0 {
            scales.iter_mut().for_each(|of_class| *of_class *= scale);
            bound = self.look(x, false, false, scales)?.bound;
        }
        self.bound = self.bound.max(bound - conjugates);
        Ok(())
    }

    /// Moves the coefficients of each column, all by the same, to where they cost least: chances stay what they are.
    /// `roots` are what coefficients are multiplied by.
    fn ease(&self, x: &mut [f64], roots: &[f64]) {
        let (l1, l2) = (self.task.penalty.l1(), self.task.penalty.l2());
        for (j, of_column) in x.chunks_exact_mut(self.k).take(self.columns).enumerate() {
            let root = roots.get(j * self.k).copied().unwrap_or(1.0);
            middle::ease(of_column, l1 / root, l2 / (root * root));
        }
    }

    fn is_within(&self, objective: f64) -> bool {
        let tolerance = self.task.params.tolerance();
        tolerance > 0.0 && objective - self.bound <= tolerance * objective.abs()
    }

    fn solved(&self, x: &[f64], objective: f64, outcome: Outcome) -> Solved {
        let (k, columns) = (self.k, self.columns);
        let at = self.in_units(x, true);
        let coefficients = (0..k * columns).map(|n| at[n % columns * k + n / columns]).collect();
        let mut intercepts = at[columns * k..].to_vec();
        settle(&mut intercepts);
        Solved { coefficients, intercepts, objective, bound: self.bound, rounds: self.rounds, outcome }
    }
}

/// Moves all by the same, so that they add up to 0.
fn settle(intercepts: &mut [f64]) {
    let mean = intercepts.iter().sum::<f64>() / intercepts.len() as f64;
    intercepts.iter_mut().for_each(|c| *c -= mean);
}

/// The objective for L-BFGS, in coefficients that bend about the same: each is multiplied by the root of about how much it bends.
struct Descent<'a, 'b> {
    problem: &'a mut Problem<'b>,
    observer: Observer<'a>,
    roots: Vec<f64>,
    last: Option<Evaluated>,
    /// The share of the tolerance that the gap must come to before it is looked at more closely.
    share: f64,
    enough: bool,
}

impl<'a, 'b> Descent<'a, 'b> {
    fn new(problem: &'a mut Problem<'b>, observer: Observer<'a>) -> Descent<'a, 'b> {
        let (task, k) = (problem.task, problem.k);
        let rows = task.survey.counts.iter().sum::<u64>() as f64;
        let weight = task.weights.map_or(rows, |weights| weights.iter().sum());
        // What a chance bends where all classes are as likely.
        let bend = (1.0 - 1.0 / k as f64) / k as f64 * weight / rows;
        let mut roots = Vec::with_capacity((problem.columns + 1) * k);
        for j in 0..=problem.columns {
            let squares = match j < problem.columns {
                true => {
                    let sum = problem.means.get(j).map_or(0.0, |mean| mean * task.survey.sums[j]);
                    let spread = (task.survey.squares[j] - sum).max(1e-12 * task.survey.squares[j]);
                    spread / problem.deviation(j).powi(2)
                }
                false => rows,
            };
            let bends = bend * squares + if j < problem.columns { task.penalty.l2() } else { 0.0 };
            let root = if bends > 0.0 { bends.sqrt() } else { 1.0 };
            roots.extend(std::iter::repeat_n(root, k));
        }
        Descent { problem, observer, roots, last: None, share: 1.0, enough: false }
    }

    fn start(&self) -> Vec<f64> {
        let mut x: Vec<f64> =
            self.problem.start().iter().zip(&self.roots).map(|(x, root)| x * root).collect();
        self.problem.ease(&mut x, &self.roots);
        x
    }

    fn unscaled(&self, x: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.roots).map(|(x, root)| x / root).collect()
    }

    /// What the size of each coefficient costs; none where it costs nothing.
    fn prices(&self) -> Vec<f64> {
        let (l1, priced) = (self.problem.task.penalty.l1(), self.problem.priced());
        match l1 > 0.0 {
            true => {
                (0..self.roots.len()).map(|n| if n < priced { l1 / self.roots[n] } else { 0.0 }).collect()
            }
            false => vec![],
        }
    }
}

impl Function for Descent<'_, '_> {
    type Error = LearnError;

    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, LearnError> {
        let x = self.unscaled(x);
        let seen = self.problem.evaluate(&x, false)?;
        let (l1, l2) = (self.problem.task.penalty.l1(), self.problem.task.penalty.l2());
        let priced = self.problem.priced();
        for (n, (to, slope)) in gradient.iter_mut().zip(&seen.sums.slopes).enumerate() {
            *to = (slope + if n < priced { l2 * x[n] } else { 0.0 }) / self.roots[n];
        }
        let sizes: f64 = x[..priced].iter().map(|b| b.abs()).sum();
        let smooth = seen.objective - l1 * sizes;
        self.last = Some(seen);
        Ok(smooth)
    }

    fn ease(&self, x: &mut [f64]) {
        self.problem.ease(x, &self.roots);
    }

    fn is_enough(&mut self, x: &[f64], _: f64) -> Result<bool, LearnError> {
        let x = self.unscaled(x);
        let Some(seen) = self.last.take() else { return Ok(false) };
        let problem = &mut *self.problem;
        // Without minding the intercepts.
        let gap = seen.objective - problem.estimate(&seen.sums);
        let near = self.share * problem.task.params.tolerance() * seen.objective.abs();
        if problem.task.params.tolerance() > 0.0 && gap <= near {
            problem.certify(&x, &seen)?;
            self.enough = problem.is_within(seen.objective);
            self.share *= 0.25;
        }
        (self.observer)(problem.rounds, seen.objective, seen.objective - problem.bound);
        self.last = Some(seen);
        Ok(self.enough)
    }
}
