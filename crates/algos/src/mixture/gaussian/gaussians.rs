//! The components: weights, means, covariances, and the factors by which rows are measured.
//!
//! A factor `P` is upper triangular with `P Pᵀ` equal to the inverse of the covariances, so `(x − mean) P` has the length that
//! the density falls off by. Variances of single columns have reciprocal deviations as factors.

use super::error::MixtureError;
use super::params::Covariance;
use super::round::Moments;
use crate::kernels::triangular::{cholesky, inverse, transposed};
use crate::kernels::vectors::dot;
use crate::kernels::{Level, elementwise};

/// What weights of rows are added to, so that no component is divided by nothing. scikit-learn's number.
const LITTLE: f64 = 10.0 * f64::EPSILON;
/// Of twice the regularisation, what is left of a variance that was next to nothing.
const BARELY: f64 = 2.0;

/// Normal densities with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussians {
    pub(super) covariance: Covariance,
    pub(super) columns: usize,
    pub(super) weights: Vec<f64>,
    /// One after the other.
    pub(super) means: Vec<f64>,
    /// As many numbers as [`Covariance::shape`] says.
    pub(super) covariances: Vec<f64>,
    pub(super) factors: Vec<f64>,
}

impl Gaussians {
    /// Components with these covariances.
    pub(super) fn new(
        covariance: Covariance,
        columns: usize,
        weights: Vec<f64>,
        means: Vec<f64>,
        covariances: Vec<f64>,
        regularization: f64,
    ) -> Result<Gaussians, MixtureError> {
        let factors = factors(covariance, columns, &covariances).map_err(|component| {
            if covariances.iter().all(|value| value.is_finite()) {
                MixtureError::Singular { component, regularization }
            } else {
                MixtureError::Overflow
            }
        })?;
        Ok(Gaussians { covariance, columns, weights, means, covariances, factors })
    }

    /// Components of one variance, wherever the means are.
    pub(super) fn round(
        covariance: Covariance,
        columns: usize,
        means: Vec<f64>,
        variance: f64,
    ) -> Result<Gaussians, MixtureError> {
        let k = means.len() / columns;
        let shape = covariance.shape(k, columns);
        let mut covariances = vec![variance; shape.iter().product()];
        if matches!(covariance, Covariance::Full | Covariance::Tied) {
            let is_off = |at: usize| !(at % (columns * columns)).is_multiple_of(columns + 1);
            covariances.iter_mut().enumerate().filter(|(at, _)| is_off(*at)).for_each(|(_, v)| *v = 0.0);
        }
        Gaussians::new(covariance, columns, vec![1.0 / k as f64; k], means, covariances, variance)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The likeliest components for what a round has found. `points` are those that deviations were taken from, one for each
    /// component; `total` has products of deviations of all rows from one point, for covariances that are tied.
    pub(super) fn of_moments(
        covariance: Covariance,
        moments: &Moments,
        points: &[f64],
        total: &[f64],
        regularization: f64,
    ) -> Result<Gaussians, MixtureError> {
        let width = moments.first.len() / moments.components();
        let d = width - 1;
        let (mut weights, mut means, mut covariances) = (vec![], vec![], vec![]);
        let mut apart = vec![];
        for (first, point) in moments.first.chunks_exact(width).zip(points.chunks_exact(d)) {
            let (sums, weight) = (&first[..d], first[d]);
            let all = weight + LITTLE;
            let share = (weight - all) / all;
            let by = sums.iter().zip(point).map(|(sum, point)| sum / all + point * share);
            let from = apart.len();
            apart.extend(by);
            means.extend(point.iter().zip(&apart[from..]).map(|(point, by)| point + by));
            weights.push(all);
        }
        let each = || moments.first.chunks_exact(width).zip(apart.chunks_exact(d)).zip(&weights);
        match covariance {
            Covariance::Full => {
                let halves = moments.second.chunks_exact(d * (d + 1) / 2);
                for (((first, by), all), half) in each().zip(halves) {
                    covariances.extend(spread(first, by, *all, half, regularization));
                }
            }
            Covariance::Tied => {
                let all: f64 = weights.iter().sum();
                covariances = total.to_vec();
                for (by, weight) in apart.chunks_exact(d).zip(&weights) {
                    for (row, value) in covariances.chunks_exact_mut(d).zip(by) {
                        row.iter_mut().zip(by).for_each(|(sum, other)| *sum -= weight * (value * other));
                    }
                }
                covariances.iter_mut().for_each(|value| *value /= all);
                (0..d).for_each(|j| covariances[j * d + j] += regularization);
            }
            Covariance::Diag | Covariance::Spherical => {
                for (((first, by), all), second) in each().zip(moments.second.chunks_exact(d)) {
                    let variance = |j: usize| {
                        let square = second[j] - 2.0 * first[j] * by[j] + first[d] * (by[j] * by[j]);
                        square / all + regularization
                    };
                    match covariance {
                        Covariance::Diag => covariances.extend((0..d).map(variance)),
                        _ => covariances.push((0..d).map(variance).sum::<f64>() / d as f64),
                    }
                }
            }
        }
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        Gaussians::new(covariance, d, weights, means, covariances, regularization)
    }

    /// The same with these inverse covariances.
    pub(super) fn with_precisions(mut self, precisions: &[f64]) -> Result<Gaussians, MixtureError> {
        let d = self.columns;
        let wrong = |component| MixtureError::Precision { component };
        match self.covariance {
            Covariance::Full | Covariance::Tied => {
                (self.factors, self.covariances) = (vec![], vec![]);
                for (component, precision) in precisions.chunks_exact(d * d).enumerate() {
                    let near = |a: f64, b: f64| (a - b).abs() <= 1e-8 + 1e-5 * b.abs();
                    if (0..d * d).any(|at| !near(precision[at], precision[at % d * d + at / d])) {
                        return Err(wrong(component));
                    }
                    // Turned round, the upper triangular factor is the lower one.
                    let turned: Vec<f64> = precision.iter().rev().copied().collect();
                    let mut factor = cholesky(&turned, d).ok_or(wrong(component))?;
                    factor.reverse();
                    let l = inverse(&transposed(&factor, d), d);
                    let product = |at: usize| dot(&l[at / d * d..][..d], &l[at % d * d..][..d]);
                    self.covariances.extend((0..d * d).map(product));
                    self.factors.extend(factor);
                }
            }
            Covariance::Diag | Covariance::Spherical => {
                let per = precisions.len() / self.len();
                if let Some(at) = precisions.iter().position(|value| *value <= 0.0) {
                    return Err(wrong(at / per));
                }
                self.factors = precisions.iter().map(|value| value.sqrt()).collect();
                self.covariances = precisions.iter().map(|value| 1.0 / value).collect();
            }
        }
        Ok(self)
    }

    /// For each component the logarithm of its weight and of its density at its mean.
    pub(super) fn constants(&self) -> Vec<f64> {
        let (k, d) = (self.len(), self.columns);
        let mut logs = self.weights.clone();
        elementwise::log(Level::best(), &mut logs);
        let mut factors: Vec<f64> = match self.covariance {
            Covariance::Full | Covariance::Tied => {
                let diagonals = self.factors.chunks_exact(d * d);
                diagonals.flat_map(|factor| (0..d).map(move |j| factor[j * d + j])).collect()
            }
            Covariance::Diag | Covariance::Spherical => self.factors.clone(),
        };
        elementwise::log(Level::best(), &mut factors);
        let half = 0.5 * d as f64 * (2.0 * std::f64::consts::PI).ln();
        let size = |component: usize| match self.covariance {
            Covariance::Full | Covariance::Diag => factors[component * d..][..d].iter().sum::<f64>(),
            Covariance::Tied => factors.iter().sum(),
            Covariance::Spherical => d as f64 * factors[component],
        };
        (0..k).map(|component| logs[component] + size(component) - half).collect()
    }

    /// Components one of whose variances, given the columns before it, is little but the regularisation.
    pub(super) fn barely_regular(&self, regularization: f64) -> Vec<usize> {
        let d = self.columns;
        let per = match self.covariance {
            Covariance::Full | Covariance::Tied => d * d,
            Covariance::Diag => d,
            Covariance::Spherical => 1,
        };
        let step = if per == d * d && d > 1 { d + 1 } else { 1 };
        let is_barely = |factors: &[f64]| {
            // A factor's diagonal has the reciprocal deviations.
            factors.iter().step_by(step).any(|f| 1.0 / (f * f) <= BARELY * regularization)
        };
        let components = self.factors.chunks_exact(per).enumerate();
        components.filter(|(_, factors)| is_barely(factors)).map(|(component, _)| component).collect()
    }
}

/// Covariances from sums of deviations, half of the sums of their products, and where the mean lies beside the point that
/// deviations were taken from.
fn spread(first: &[f64], by: &[f64], all: f64, half: &[f64], regularization: f64) -> Vec<f64> {
    let d = by.len();
    let mut covariances = vec![0.0; d * d];
    let mut from = 0;
    for i in 0..d {
        for j in i..d {
            let product =
                half[from + j - i] - first[i] * by[j] - by[i] * first[j] + first[d] * (by[i] * by[j]);
            (covariances[i * d + j], covariances[j * d + i]) = (product / all, product / all);
        }
        covariances[i * d + i] += regularization;
        from += d - i;
    }
    covariances
}

/// The factors of covariances. The error is a component whose covariances are singular.
fn factors(covariance: Covariance, d: usize, covariances: &[f64]) -> Result<Vec<f64>, usize> {
    match covariance {
        Covariance::Full | Covariance::Tied => {
            let mut factors = Vec::with_capacity(covariances.len());
            for (component, one) in covariances.chunks_exact(d * d).enumerate() {
                let l = cholesky(one, d).ok_or(component)?;
                factors.extend(transposed(&inverse(&l, d), d));
            }
            Ok(factors)
        }
        Covariance::Diag | Covariance::Spherical => {
            let per = if covariance == Covariance::Diag { d } else { 1 };
            match covariances.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
                Some(at) => Err(at / per),
                None => Ok(covariances.iter().map(|value| 1.0 / value.sqrt()).collect()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precisions_and_covariances_lead_to_the_same_factors() {
        let covariances = vec![4.0, 1.0, 1.0, 3.0];
        let direct =
            Gaussians::new(Covariance::Full, 2, vec![1.0], vec![0.0, 0.0], covariances, 0.0).unwrap();
        let back =
            direct.clone().with_precisions(&[3.0 / 11.0, -1.0 / 11.0, -1.0 / 11.0, 4.0 / 11.0]).unwrap();
        for (a, b) in direct.factors.iter().zip(&back.factors) {
            assert!((a - b).abs() < 1e-15, "{direct:?} {back:?}");
        }
        for (a, b) in direct.covariances.iter().zip(&back.covariances) {
            assert!((a - b).abs() < 1e-14);
        }
        let bad = direct.with_precisions(&[1.0, 2.0, 2.0, 1.0]);
        assert!(matches!(bad, Err(MixtureError::Precision { component: 0 })));
    }

    #[test]
    fn a_constant_at_the_mean_is_the_logarithm_of_the_density() {
        for covariance in [Covariance::Full, Covariance::Tied, Covariance::Diag, Covariance::Spherical] {
            let gaussians = Gaussians::round(covariance, 3, vec![0.0; 6], 4.0).unwrap();
            let expected = 0.5_f64.ln() - 1.5 * (2.0 * std::f64::consts::PI * 4.0).ln();
            for constant in gaussians.constants() {
                assert!((constant - expected).abs() < 1e-14, "{covariance:?}");
            }
            assert_eq!(gaussians.barely_regular(1.0), Vec::<usize>::new());
            assert!(!gaussians.barely_regular(3.0).is_empty());
        }
    }
}
