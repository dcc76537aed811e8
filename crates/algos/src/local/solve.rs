//! Weighted least squares of one query, from its sums.

use crate::kernels::symmetric::Eigen;
use crate::kernels::triangular::{cholesky, inverse};
use crate::kernels::vectors::dot;

/// Variance, as a share of second moments about the centre, that rounding can leave of none.
const ROUNDING: f64 = 1e-12;

/// The value of the fit at a query; both, and so the value, are relative to centre and mean target. NaN if no row counts.
///
/// `sums` are laid out as [`Sums`](super::sums::Sums) has them. Slopes are 0 in directions in which rows do not vary.
pub(super) fn value(sums: &[f64], query: &[f64], alpha: f64) -> f64 {
    let columns = query.len();
    let weight = sums[0];
    if weight <= 0.0 {
        return f64::NAN;
    }
    let target = sums[1] / weight;
    let mean: Vec<f64> = sums[2..][..columns].iter().map(|sum| sum / weight).collect();
    let by_target = &sums[2 + columns..][..columns];
    let with: Vec<f64> =
        by_target.iter().zip(&mean).map(|(sum, mean)| sum / weight - mean * target).collect();
    let mut covariance = vec![0.0; columns * columns];
    let (mut next, mut largest) = (2 + 2 * columns, 0.0_f64);
    for i in 0..columns {
        for j in i..columns {
            let moment = sums[next] / weight;
            next += 1;
            if i == j {
                largest = largest.max(moment);
            }
            let value = moment - mean[i] * mean[j];
            (covariance[i * columns + j], covariance[j * columns + i]) = (value, value);
        }
        covariance[i * columns + i] += alpha;
    }
    let away: Vec<f64> = query.iter().zip(&mean).map(|(query, mean)| query - mean).collect();
    target + change(&covariance, &with, &away, ROUNDING * largest)
}

/// The same where the fit is a mean.
pub(super) fn mean(sums: &[f64]) -> f64 {
    if sums[0] > 0.0 { sums[1] / sums[0] } else { f64::NAN }
}

/// The slopes times the way from the mean to the query.
fn change(covariance: &[f64], with: &[f64], away: &[f64], least: f64) -> f64 {
    let n = with.len();
    if let Some(factor) = cholesky(covariance, n)
        && (0..n).all(|i| factor[i * n + i].powi(2) > least.max(ROUNDING * covariance[i * n + i]))
    {
        let factor = inverse(&factor, n);
        let turned =
            |vector: &[f64]| -> Vec<f64> { factor.chunks_exact(n).map(|row| dot(row, vector)).collect() };
        return dot(&turned(with), &turned(away));
    }
    // Some direction has no variance: no slope there.
    let Some(eigen) = Eigen::of(covariance.to_vec(), n) else { return f64::NAN };
    let least = least.max(ROUNDING * eigen.values.first().copied().unwrap_or(0.0));
    let along = |at: usize| dot(eigen.vector(at), with) * dot(eigen.vector(at), away) / eigen.values[at];
    (0..n).filter(|at| eigen.values[*at] > least).map(along).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over rows of two columns.
    fn sums(rows: &[[f64; 3]], weights: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; 9];
        for ([a, b, y], w) in rows.iter().zip(weights) {
            let terms = [1.0, *y, *a, *b, a * y, b * y, a * a, a * b, b * b];
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += w * term);
        }
        sums
    }

    #[test]
    fn a_plane_is_found_whatever_the_weights() {
        let plane = |a: f64, b: f64| [a, b, 3.0 + 2.0 * a - b];
        let rows = [plane(0.0, 0.0), plane(1.0, 0.0), plane(0.0, 2.0), plane(-1.0, 1.0)];
        for weights in [[1.0; 4], [0.1, 2.0, 0.5, 1.0]] {
            let found = value(&sums(&rows, &weights), &[5.0, -4.0], 0.0);
            assert!((found - 17.0).abs() < 1e-10, "{found}");
        }
    }

    #[test]
    fn there_is_no_slope_where_rows_do_not_vary_and_no_value_without_rows() {
        // Both columns are the same: half of the slope each.
        let rows = [[0.0, 0.0, 0.0], [1.0, 1.0, 2.0], [2.0, 2.0, 4.0]];
        let found = value(&sums(&rows, &[1.0; 3]), &[3.0, 3.0], 0.0);
        assert!((found - 6.0).abs() < 1e-10, "{found}");
        let found = value(&sums(&rows[1..2], &[1.0]), &[9.0, -9.0], 0.0);
        assert!((found - 2.0).abs() < 1e-12, "{found}");
        assert!(value(&sums(&rows, &[0.0; 3]), &[0.0, 0.0], 0.0).is_nan());
    }
}
