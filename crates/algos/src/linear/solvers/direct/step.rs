//! The step from a point: to the lowest point of the quadratic function that agrees with the loss there.
//!
//! Second derivatives are those of scaled coefficients, with the intercept where it is best for each of them. They are a
//! matrix on the master, or known by their products with vectors, each of which is a round.

use super::by_rows::{BendQuery, add_bends};
use super::quadratic::Quadratic;
use super::slopes::{Of, Slopes};
use super::{ROUNDING, Search, conjugate};
use crate::kernels::vectors::dot;
use crate::linear::error::LearnError;
use qjam::with_rows;

/// Of the tolerance, what conjugate gradients leave to rounding and to what is beyond the quadratic function.
const SPARED: f64 = 0.3;
/// Of the residual's norm, what conjugate gradients leave at most where the loss is not quadratic.
const LEFT_MOST: f64 = 0.1;
/// Of what coordinate descent has gained, what its last pass gains where the loss is not quadratic.
const GAIN_LEAST: f64 = 1e-5;
/// Below this share of the first residual's square there is nothing but rounding; without a penalty, whose small curvature would
/// tell directions apart, from a larger share on.
const NOTHING: f64 = 1e-30;
const NOTHING_UNPENALISED: f64 = 1e-22;

/// A step that was taken, to be judged by the next round.
pub(super) struct Step {
    pub(super) from: (Vec<f64>, f64),
    pub(super) to: (Vec<f64>, f64),
    /// The objective before it, and what a straight line promises of all of it.
    pub(super) objective: f64,
    pub(super) promised: f64,
    pub(super) length: f64,
    pub(super) halvings: usize,
}

/// Second derivatives at a point.
pub(super) struct Curvature {
    of: Known,
    /// Those of the intercept with each coefficient, and with itself.
    ones: Vec<f64>,
    own: f64,
}

/// What is known of those of the coefficients.
enum Known {
    /// All.
    Matrix(Quadratic),
    /// Those of each with itself.
    Diagonal(Vec<f64>),
}

impl Search<'_> {
    /// Second derivatives as a round has found them.
    pub(super) fn curvature(&self, seen: &Slopes) -> Curvature {
        let (n, narrow) = (self.b.len(), self.narrow);
        let of_scaled = |sums: &mut dyn Iterator<Item = f64>| self.of_scaled(sums);
        if narrow.by_conjugate_gradients {
            let own = seen.bent_ones[n] + narrow.intercept_price;
            let ones = of_scaled(&mut seen.bent_ones.iter().copied());
            let with = narrow.intercept && own > 0.0;
            let centred = |j: usize| {
                let square = seen.diagonal[j] / narrow.deviation(j).powi(2);
                if with { (square - ones[j] * ones[j] / own).max(0.0) } else { square }
            };
            return Curvature { of: Known::Diagonal((0..n).map(centred).collect()), ones, own };
        }
        let width = n + 1;
        let product = |i: usize, j: usize| seen.products[i.min(j) * width + i.max(j)];
        let own = product(n, n) + narrow.intercept_price;
        let ones = of_scaled(&mut (0..n).map(|j| product(j, n)));
        let with = narrow.intercept && own > 0.0;
        let mut h = Vec::with_capacity(n * n);
        for i in 0..n {
            for j in 0..n {
                let value = product(i, j) / (narrow.deviation(i) * narrow.deviation(j));
                h.push(if with { value - ones[i] * ones[j] / own } else { value });
            }
        }
        Curvature { of: Known::Matrix(Quadratic::new(n, h)), ones, own }
    }

    /// The step to the lowest point; `None` where there is none.
    pub(super) fn step(
        &mut self,
        curvature: &Curvature,
        seen: &Slopes,
        objective: f64,
    ) -> Result<Option<Step>, LearnError> {
        let columns = self.b.len();
        let minus = |j: usize| seen.minus.get(j).copied().unwrap_or(0.0);
        let slopes = self.of_scaled((0..columns).map(|j| seen.plus[j] + minus(j)));
        let slope_c = if self.narrow.intercept { seen.plus[columns] + minus(columns) } else { 0.0 };
        let whole_c = slope_c + self.narrow.intercept_price * self.c;
        let Curvature { of, ones, own } = curvature;
        let with = self.narrow.intercept && *own > 0.0;
        let share = if with { whole_c / own } else { 0.0 };
        let to = match of {
            Known::Matrix(h) => {
                // Squares are the quadratic function; of other losses the next step puts right what is left.
                let enough = if self.task.of == Of::Squares { 0.0 } else { GAIN_LEAST };
                let mut r = h.times(&self.b);
                r.iter_mut().enumerate().for_each(|(j, r)| *r -= slopes[j] - share * ones[j]);
                match h.lowest(&r, &self.task.penalty, &self.b, enough) {
                    Some(to) => to,
                    None => return Ok(None),
                }
            }
            Known::Diagonal(diagonal) => {
                let l2 = self.task.penalty.l2();
                let r: Vec<f64> =
                    (0..columns).map(|j| share * ones[j] - slopes[j] - l2 * self.b[j]).collect();
                let by = self.by_conjugate_gradients(&r, diagonal, curvature, objective)?;
                by.iter().zip(&self.b).map(|(by, b)| b + by).collect()
            }
        };
        let by: Vec<f64> = to.iter().zip(&self.b).map(|(to, from)| to - from).collect();
        let along: f64 = by.iter().zip(ones).map(|(by, ones)| by * ones).sum();
        let by_c = if with { -(whole_c + along) / own } else { 0.0 };
        let straight: f64 = by.iter().zip(&slopes).map(|(by, slope)| by * slope).sum();
        let promised = straight + slope_c * by_c + self.cost(&to, self.c + by_c) - self.cost(&self.b, self.c);
        Ok(Some(Step {
            from: (self.b.clone(), self.c),
            to: (to, self.c + by_c),
            objective,
            promised: promised.min(0.0),
            length: 1.0,
            halvings: 0,
        }))
    }

    /// The change of coefficients that `r`, the slopes of the whole objective with their signs turned, asks for.
    fn by_conjugate_gradients(
        &mut self,
        r: &[f64],
        diagonal: &[f64],
        curvature: &Curvature,
        objective: f64,
    ) -> Result<Vec<f64>, LearnError> {
        let (l2, of, params) = (self.task.penalty.l2(), self.task.of, self.narrow.params);
        let inverse: Vec<f64> = match l2 > 0.0 {
            true => diagonal.iter().map(|square| 1.0 / (square + l2)).collect(),
            // Unscaled residuals lead to the shortest of all optima.
            false => vec![1.0; diagonal.len()],
        };
        // Slopes of the size that these had at the first point: from there on convergence is faster than linear.
        let first = *self.first_square.get_or_insert_with(|| dot(&dot_scaled(r, &inverse), r));
        let (tolerance, rounds_left) = (params.tolerance(), params.rounds_max().saturating_sub(self.rounds));
        let is_enough = |seen: &conjugate::Progress<'_>, steps: usize| {
            let (now, then) = seen.squares;
            let nothing = if l2 > 0.0 { NOTHING } else { NOTHING_UNPENALISED };
            if steps + 1 >= rounds_left || now <= nothing * first {
                return true;
            }
            // The gap at the next point, were the objective the quadratic function.
            let gap = dot(seen.residual, seen.residual) / (2.0 * l2);
            let lower = 0.5 * (dot(seen.x, r) + dot(seen.x, seen.residual));
            if gap <= SPARED * tolerance.max(ROUNDING) * (objective - lower).abs() && tolerance > 0.0 {
                return true;
            }
            of != Of::Squares && now <= (LEFT_MOST * LEFT_MOST).min(then / first) * then
        };
        let mut query = BendQuery {
            of,
            at: if of == Of::Squares { vec![] } else { self.point.at.clone() },
            along: vec![],
            labels: if of == Of::SquaredHinge { self.point.targets.clone() } else { vec![] },
            weights: self.point.weights.clone(),
            starts: self.point.starts.clone(),
        };
        let narrow = self.narrow;
        let Curvature { ones, own, .. } = curvature;
        let with = narrow.intercept && *own > 0.0;
        let steps = std::cell::Cell::new(0);
        let times = |x: &[f64]| -> Result<Vec<f64>, LearnError> {
            steps.set(steps.get() + 1);
            let offset = if with { -dot(ones, x) / own } else { 0.0 };
            query.along.clear();
            query.along.extend(x.iter().enumerate().map(|(j, x)| x / narrow.deviation(j)));
            query.along.push(offset);
            let found =
                with_rows!(narrow.examples, data => narrow.master.run(add_bends::<_>, &query, data))?.sums;
            // An intercept that costs nothing leaves no sum over rows but rounding, which large means would multiply.
            let left = if with && narrow.intercept_price == 0.0 { found[x.len()] / own } else { 0.0 };
            let product = |j: usize| found[j] / narrow.deviation(j) - left * ones[j] + l2 * x[j];
            Ok((0..x.len()).map(product).collect())
        };
        let found = conjugate::solve(r, &inverse, times, |seen| is_enough(seen, steps.get()))?;
        self.rounds += steps.get();
        Ok(found)
    }
}

fn dot_scaled(values: &[f64], scales: &[f64]) -> Vec<f64> {
    values.iter().zip(scales).map(|(value, scale)| value * scale).collect()
}
