//! Conjugate gradients: `x` with `H x = r` for a symmetric positive matrix of which nothing is known but its products with vectors.
//!
//! Residuals are scaled by the inverse of the diagonal of `H`, so that columns of different sizes cost no steps. A step costs
//! one product, which is a round; all else is done on vectors as long as `x`, in a fixed order.

use crate::kernels::vectors::{add_scaled, dot};

/// How far a search has come.
pub(super) struct Progress<'a> {
    /// The solution so far.
    pub(super) x: &'a [f64],
    /// `r − H x`.
    pub(super) residual: &'a [f64],
    /// The residual's square in the norm of the inverse diagonal, now and at the beginning.
    pub(super) squares: (f64, f64),
}

/// Looks for `x` from zeros on, until `is_enough` says so, or a product is no longer positive because nothing but rounding is left.
///
/// `inverse` is the inverse of the diagonal. An error of `times` ends the search.
pub(super) fn solve<E>(
    r: &[f64],
    inverse: &[f64],
    mut times: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
    mut is_enough: impl FnMut(&Progress<'_>) -> bool,
) -> Result<Vec<f64>, E> {
    let scaled =
        |residual: &[f64]| -> Vec<f64> { residual.iter().zip(inverse).map(|(r, s)| r * s).collect() };
    let (mut x, mut residual) = (vec![0.0; r.len()], r.to_vec());
    let mut direction = scaled(&residual);
    let first = dot(&residual, &direction);
    let mut square = first;
    while square > 0.0 && !is_enough(&Progress { x: &x, residual: &residual, squares: (square, first) }) {
        let product = times(&direction)?;
        let bend = dot(&direction, &product);
        if !(bend > 0.0 && bend.is_finite()) {
            break;
        }
        let length = square / bend;
        add_scaled(&mut x, length, &direction);
        add_scaled(&mut residual, -length, &product);
        let next = scaled(&residual);
        let after = dot(&residual, &next);
        let share = after / square;
        direction.iter_mut().zip(&next).for_each(|(direction, next)| *direction = next + share * *direction);
        square = after;
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;
    use std::convert::Infallible;

    /// A matrix of products of random rows, of very different sizes, and a number on its diagonal.
    fn matrix(n: usize, ridge: f64) -> Vec<f64> {
        let mut random = Rng::keyed(9, 0, 0);
        let x: Vec<f64> =
            (0..3 * n * n).map(|i| 10.0_f64.powi((i % n) as i32 % 5) * random.normal()).collect();
        let at = |i: usize, j: usize| x.chunks(n).map(|row| row[i] * row[j]).sum::<f64>();
        (0..n * n).map(|k| at(k / n, k % n) + if k / n == k % n { ridge } else { 0.0 }).collect()
    }

    #[test]
    fn columns_of_different_sizes_are_solved_in_few_steps() {
        let n = 30;
        let h = matrix(n, 0.1);
        let expected: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
        let times = |x: &[f64]| -> Vec<f64> { h.chunks(n).map(|row| dot(row, x)).collect() };
        let inverse: Vec<f64> = (0..n).map(|i| 1.0 / h[i * n + i]).collect();
        let mut steps = 0;
        let product = |x: &[f64]| -> Result<Vec<f64>, Infallible> {
            steps += 1;
            Ok(times(x))
        };
        let Ok(found) = solve(&times(&expected), &inverse, product, |p| p.squares.0 <= 1e-28 * p.squares.1);
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-8 && steps < 2 * n, "{worst:e} after {steps} steps");
    }

    #[test]
    fn nothing_to_solve_takes_no_step_and_errors_end_it() {
        let refused = |_: &[f64]| -> Result<Vec<f64>, &'static str> { Err("refused") };
        assert_eq!(solve(&[0.0; 3], &[1.0; 3], refused, |_| false), Ok(vec![0.0; 3]));
        assert_eq!(solve(&[1.0; 3], &[1.0; 3], refused, |_| false), Err("refused"));
    }

    #[test]
    fn a_singular_matrix_ends_where_no_product_is_positive() {
        let product = |x: &[f64]| -> Result<Vec<f64>, Infallible> { Ok(vec![x[0], 0.0]) };
        let Ok(found) = solve(&[2.0, 0.0], &[1.0, 1.0], product, |_| false);
        assert_eq!(found, [2.0, 0.0]);
    }
}
