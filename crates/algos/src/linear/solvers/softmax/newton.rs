//! Newton's method for all coefficients of all classes: products of `p ⊗ x` in every round, and exact steps from them.
//!
//! Intercepts are taken out of the quadratic function first, where they are best. They may all move by the same without a
//! difference, which a term for their sum settles; slopes know nothing of it, so it moves nothing else.

use super::{Evaluated, Observer, Problem};
use crate::kernels::vectors::dot;
use crate::linear::error::LearnError;
use crate::linear::solvers::coordinate::cocoa::{FitError, Outcome};
use crate::linear::solvers::direct::quadratic::Quadratic;

/// A change below this share of the objective is nothing but rounding.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// Of what a straight line promises, a step must keep so much.
const KEPT: f64 = 1e-4;
/// Halvings after which a step is given up.
const HALVINGS_MAX: usize = 40;

/// A step that was taken, to be judged by the next round.
struct Step {
    from: Vec<f64>,
    to: Vec<f64>,
    /// The objective before it, and what a straight line promises of all of it.
    objective: f64,
    promised: f64,
    length: f64,
    halvings: usize,
}

/// The optimum with its objective; `None` where columns depend on each other too much.
pub(in crate::linear) fn run(
    problem: &mut Problem<'_>,
    observer: Observer<'_>,
) -> Result<Option<(Vec<f64>, f64, Outcome)>, LearnError> {
    let params = problem.task.params;
    let (mut x, mut step): (Vec<f64>, Option<Step>) = (problem.start(), None);
    loop {
        let seen = problem.evaluate(&x, true)?;
        let objective = seen.objective;
        if !objective.is_finite() && step.is_none() {
            return Err(FitError::Overflow { value: objective, rounds: problem.rounds }.into());
        }
        observer(problem.rounds, objective, objective - problem.bound);
        let used_up = problem.rounds >= params.rounds_max();
        if let Some(taken) = step.take() {
            // Where nothing but rounding is promised, rounding is allowed. What is not finite is not allowed, either.
            let allowed = taken.objective + KEPT * taken.length * taken.promised;
            let is_allowed = objective <= allowed + ROUNDING * objective.abs();
            if !is_allowed || !objective.is_finite() {
                let (length, halvings) = (0.5 * taken.length, taken.halvings + 1);
                if halvings > HALVINGS_MAX || used_up {
                    let outcome = if used_up { Outcome::RoundsUsedUp } else { Outcome::Stalled };
                    return Ok(Some((taken.from, taken.objective, outcome)));
                }
                x = taken.from.iter().zip(&taken.to).map(|(from, to)| from + length * (to - from)).collect();
                step = Some(Step { length, halvings, ..taken });
                continue;
            }
            let near = (4.0 * params.tolerance()).max(ROUNDING) * objective.abs();
            if used_up || -taken.promised <= near {
                problem.certify(&x, &seen)?;
            }
            if problem.is_within(objective) {
                return Ok(Some((x, objective, Outcome::Converged)));
            }
            if used_up {
                return Ok(Some((x, objective, Outcome::RoundsUsedUp)));
            }
            if -taken.promised <= ROUNDING * objective.abs() {
                return Ok(Some((x, objective, Outcome::Stalled)));
            }
        } else if used_up {
            problem.certify(&x, &seen)?;
            return Ok(Some((x, objective, Outcome::RoundsUsedUp)));
        } else if !problem.task.start.is_empty() {
            // It may be the optimum already.
            problem.certify(&x, &seen)?;
            if problem.is_within(objective) {
                return Ok(Some((x, objective, Outcome::Converged)));
            }
        }
        let Some(taken) = next(problem, &x, &seen) else { return Ok(None) };
        x.clone_from(&taken.to);
        step = Some(taken);
    }
}

/// The step to the lowest point of the quadratic function that agrees with the loss here; `None` where there is none.
fn next(problem: &Problem<'_>, x: &[f64], seen: &Evaluated) -> Option<Step> {
    let (k, n) = (problem.k, problem.priced());
    let intercept = problem.task.intercept;
    let bends = Bends { products: &seen.sums.products, k, width: n + k };
    // Rows of the second derivatives: of coefficients beside each other, and beside intercepts.
    let mut h = Vec::with_capacity(n * n);
    let mut beside = vec![0.0; k * n];
    let mut row = vec![0.0; n + k];
    let scale = |at: usize| if at < n { problem.deviation(at / k) } else { 1.0 };
    let mut own = vec![0.0; k * k];
    for i in 0..n + k {
        bends.row(i, &mut row);
        row.iter_mut().enumerate().for_each(|(j, value)| *value /= scale(i) * scale(j));
        match i < n {
            true => h.extend_from_slice(&row[..n]),
            false => {
                beside[(i - n) * n..][..n].copy_from_slice(&row[..n]);
                own[(i - n) * k..][..k].copy_from_slice(&row[n..]);
            }
        }
    }
    let (slopes, of_intercepts) = seen.sums.slopes.split_at(n);
    let mut r = vec![0.0; n];
    let mut factor = None;
    if intercept {
        let all: f64 = (0..k).map(|c| own[c * k + c]).sum();
        own.iter_mut().for_each(|value| *value += all / (k * k) as f64);
        let own = Quadratic::new(k, own);
        // With every row of `beside` solved for: own⁻¹ beside.
        let mut solved = vec![0.0; n * k];
        let system = own.system(0.0)?;
        for j in 0..n {
            let column: Vec<f64> = (0..k).map(|c| beside[c * n + j]).collect();
            solved[j * k..][..k].copy_from_slice(&system.solve(&column));
        }
        for i in 0..n {
            let column: Vec<f64> = (0..k).map(|c| beside[c * n + i]).collect();
            for j in 0..=i {
                h[i * n + j] -= dot(&column, &solved[j * k..][..k]);
                h[j * n + i] = h[i * n + j];
            }
        }
        for (j, r) in r.iter_mut().enumerate() {
            *r = dot(&solved[j * k..][..k], of_intercepts);
        }
        factor = Some((system.solve(of_intercepts), solved));
    }
    let quadratic = Quadratic::new(n, h);
    let b = &x[..n];
    let at_b = quadratic.times(b);
    r.iter_mut().enumerate().for_each(|(j, r)| *r += at_b[j] - slopes[j]);
    let mut to = quadratic.lowest(&r, &problem.task.penalty, b, 0.0)?;
    problem.ease(&mut to, &[]);
    let by: Vec<f64> = to.iter().zip(b).map(|(to, from)| to - from).collect();
    let mut by_c = vec![0.0; k];
    if let Some((share, solved)) = factor {
        for (c, by_c) in by_c.iter_mut().enumerate() {
            let along: f64 = by.iter().enumerate().map(|(j, by)| by * solved[j * k + c]).sum();
            *by_c = -share[c] - along;
        }
        super::settle(&mut by_c);
    }
    let straight = dot(&by, slopes) + dot(&by_c, of_intercepts);
    to.extend(x[n..].iter().zip(&by_c).map(|(c, by)| c + by));
    let promised = straight + problem.cost(&to) - problem.cost(x);
    if !promised.is_finite() {
        return None;
    }
    Some(Step {
        from: x.to_vec(),
        to,
        objective: seen.objective,
        promised: promised.min(0.0),
        length: 1.0,
        halvings: 0,
    })
}

/// Second derivatives made of products of `p ⊗ x`.
struct Bends<'a> {
    products: &'a [f64],
    k: usize,
    width: usize,
}

impl Bends<'_> {
    /// One row: less the products beside other classes; beside its own the sum of these.
    fn row(&self, i: usize, to: &mut [f64]) {
        let (k, own) = (self.k, i % self.k);
        let products = &self.products[i * self.width..][..self.width];
        for (to, products) in to.chunks_exact_mut(k).zip(products.chunks_exact(k)) {
            let mut others = 0.0;
            for c in (0..k).filter(|c| *c != own) {
                to[c] = -products[c];
                others += products[c];
            }
            to[own] = others;
        }
    }
}
