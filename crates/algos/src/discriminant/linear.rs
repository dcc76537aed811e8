//! The linear rule and its directions, from means and covariances of the classes.
//!
//! All three solvers are scikit-learn's, with eigenvectors of covariances where it decomposes the rows. Directions are rows here.

use super::params::{Params, Solver};
use super::scatter::{ClassScatters, covariance};
use crate::input::Problem;
use crate::kernels::symmetric::Eigen;
use crate::kernels::vectors::{add_scaled, dot};
use crate::kernels::{Level, elementwise};
use crate::moments::Scatter;
use qjam::Reduce;

/// What the solvers find.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rule {
    /// Class by class.
    pub(super) coefficients: Vec<f64>,
    pub(super) intercepts: Vec<f64>,
    /// Directions that tell classes apart, one after the other; none of least squares.
    pub(super) directions: Vec<f64>,
    /// What is taken off rows before they are turned into these directions.
    pub(super) centre: Vec<f64>,
    /// Shares of the variance between classes along the directions.
    pub(super) ratios: Vec<f64>,
}

/// What the solvers are given.
pub(super) struct Given<'a> {
    pub(super) params: &'a Params,
    pub(super) scatters: &'a ClassScatters,
    pub(super) priors: &'a [f64],
    /// What the second round found, for the classes and for all rows; empty without it.
    pub(super) fourth: &'a [f64],
    /// How many directions are kept.
    pub(super) components: usize,
}

impl Given<'_> {
    fn columns(&self) -> usize {
        self.scatters.classes[0].mean.len()
    }

    fn fourth(&self, group: usize) -> f64 {
        self.fourth.get(group).copied().unwrap_or(0.0)
    }

    /// The covariances within classes, each class weighted by its prior.
    pub(super) fn within(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.columns() * self.columns()];
        for (class, (scatter, prior)) in self.scatters.classes.iter().zip(self.priors).enumerate() {
            add_scaled(&mut sum, *prior, &covariance(scatter, self.params.shrinkage, self.fourth(class)));
        }
        sum
    }

    /// The moments of all rows.
    pub(super) fn total(scatters: &ClassScatters) -> Scatter {
        let mut classes = scatters.classes.iter().cloned();
        let first = classes.find(|scatter| scatter.rows > 0).expect("there are rows");
        classes.fold(first, |mut all, class| {
            all.merge(class);
            all
        })
    }

    fn log_priors(&self) -> Vec<f64> {
        let mut logs = self.priors.to_vec();
        elementwise::log(Level::best(), &mut logs);
        logs
    }

    /// Finds the rule.
    pub(super) fn solve(&self) -> Result<Rule, Problem> {
        match self.params.solver {
            Solver::Svd => self.by_spread(),
            Solver::Lsqr => self.by_least_squares(),
            Solver::Eigen => self.by_eigenvectors(),
        }
    }

    /// Least squares: the means times the inverse of the covariances, or what comes nearest to it.
    fn by_least_squares(&self) -> Result<Rule, Problem> {
        let d = self.columns();
        let eigen = Eigen::of(self.within(), d).ok_or(Problem::Overflow)?;
        let least = eigen.values[0].abs() * d as f64 * f64::EPSILON;
        let kept = eigen.values.iter().filter(|value| **value > least).count();
        let directions: Vec<f64> = (0..kept)
            .flat_map(|i| {
                let size = eigen.values[i].sqrt();
                eigen.vector(i).iter().map(move |value| value / size)
            })
            .collect();
        Ok(Rule { directions: vec![], ..self.along(directions, vec![0.0; d]) })
    }

    /// Eigenvectors of the covariances between classes, relative to those within.
    fn by_eigenvectors(&self) -> Result<Rule, Problem> {
        let d = self.columns();
        let within = self.within();
        let eigen = Eigen::of(within.clone(), d).ok_or(Problem::Overflow)?;
        if eigen.values[d - 1] <= eigen.values[0] * d as f64 * f64::EPSILON {
            return Err(Problem::Singular);
        }
        let white: Vec<f64> =
            (0..d * d).map(|at| eigen.vectors()[at] / eigen.values[at / d].sqrt()).collect();
        let k = self.scatters.classes.len();
        let mut between = covariance(&Self::total(self.scatters), self.params.shrinkage, self.fourth(k));
        add_scaled(&mut between, -1.0, &within);
        let turned = products(&white, &between, d);
        let inner = Eigen::of(turned, d).ok_or(Problem::Overflow)?;
        let all: f64 = inner.values.iter().sum();
        let ratios = inner.values[..self.components].iter().map(|value| value / all).collect();
        let directions = combined(inner.vectors(), &white, d);
        Ok(Rule { ratios, ..self.along(directions, vec![0.0; d]) })
    }

    /// Directions with enough spread within classes, and among these the ones that the means of the classes span.
    fn by_spread(&self) -> Result<Rule, Problem> {
        let (d, k, n) = (self.columns(), self.priors.len(), self.scatters.rows as f64);
        let mut within = vec![0.0; d * d];
        self.scatters.classes.iter().for_each(|scatter| add_scaled(&mut within, 1.0 / n, &scatter.products));
        let size = |j: usize| if within[j * d + j] > 0.0 { within[j * d + j].sqrt() } else { 1.0 };
        let sizes: Vec<f64> = (0..d).map(size).collect();
        let scaled = (0..d * d).map(|at| within[at] / (sizes[at / d] * sizes[at % d])).collect();
        let eigen = Eigen::of(scaled, d).ok_or(Problem::Overflow)?;
        let spread = |value: f64| value.max(0.0).sqrt();
        let rank = eigen.values.iter().filter(|value| spread(**value) > self.params.tol).count();
        let white: Vec<f64> = (0..rank * d)
            .map(|at| eigen.vectors()[at] / sizes[at % d] / spread(eigen.values[at / d]))
            .collect();
        let mut centre = vec![0.0; d];
        for (scatter, prior) in self.scatters.classes.iter().zip(self.priors) {
            add_scaled(&mut centre, *prior, &scatter.mean);
        }
        // The means of the classes in these directions, weighted.
        let factor = if k == 1 { 1.0 } else { 1.0 / (k - 1) as f64 };
        let mut between = vec![0.0; rank * rank];
        for (scatter, prior) in self.scatters.classes.iter().zip(self.priors) {
            let apart: Vec<f64> =
                scatter.mean.iter().zip(&centre).map(|(mean, centre)| mean - centre).collect();
            let along: Vec<f64> = white.chunks_exact(d).map(|direction| dot(direction, &apart)).collect();
            for (row, value) in between.chunks_exact_mut(rank.max(1)).zip(&along) {
                row.iter_mut()
                    .zip(&along)
                    .for_each(|(sum, other)| *sum += n * prior * factor * (value * other));
            }
        }
        let inner = Eigen::of(between, rank).ok_or(Problem::Overflow)?;
        let sizes: Vec<f64> = inner.values.iter().take(k).map(|value| spread(*value)).collect();
        let all: f64 = sizes.iter().map(|size| size * size).sum();
        let most = sizes.first().copied().unwrap_or(0.0);
        let kept = sizes.iter().filter(|size| **size > self.params.tol * most).count();
        let ratios = sizes.iter().take(self.components).map(|size| size * size / all).collect();
        let directions = combined(&inner.vectors()[..kept * rank], &white, d);
        Ok(Rule { ratios, ..self.along(directions, centre) })
    }

    /// The rule that measures distances along these directions, from this centre.
    fn along(&self, mut directions: Vec<f64>, centre: Vec<f64>) -> Rule {
        let d = self.columns();
        directions.chunks_exact_mut(d).for_each(crate::decomposition::point_up);
        let (mut coefficients, mut intercepts) = (vec![], self.log_priors());
        for (scatter, intercept) in self.scatters.classes.iter().zip(&mut intercepts) {
            let apart: Vec<f64> =
                scatter.mean.iter().zip(&centre).map(|(mean, centre)| mean - centre).collect();
            let mut row = vec![0.0; d];
            for direction in directions.chunks_exact(d) {
                let along = dot(direction, &apart);
                *intercept -= 0.5 * along * along;
                add_scaled(&mut row, along, direction);
            }
            *intercept -= dot(&centre, &row);
            coefficients.extend(row);
        }
        Rule { coefficients, intercepts, directions, centre, ratios: vec![] }
    }
}

/// `A B Aᵀ` of square matrices, symmetric to the bit.
fn products(a: &[f64], b: &[f64], d: usize) -> Vec<f64> {
    let half: Vec<f64> = (0..d * d).map(|at| dot(&a[at / d * d..][..d], &b[at % d * d..][..d])).collect();
    let product = |i: usize, j: usize| dot(&half[i * d..][..d], &a[j * d..][..d]);
    (0..d * d).map(|at| product((at / d).min(at % d), (at / d).max(at % d))).collect()
}

/// Rows of shares in some directions, as sums of these.
fn combined(shares: &[f64], directions: &[f64], d: usize) -> Vec<f64> {
    let count = directions.len() / d.max(1);
    let mut sums = vec![0.0; shares.len() / count.max(1) * d];
    for (sum, shares) in sums.chunks_exact_mut(d).zip(shares.chunks_exact(count.max(1))) {
        for (share, direction) in shares.iter().zip(directions.chunks_exact(d)) {
            add_scaled(sum, *share, direction);
        }
    }
    sums
}
