//! Cholesky's factors of a symmetric matrix, and inverses of triangular ones, with the same bits on every processor.
//!
//! Matrices are square and lie row by row; all loops run along rows, and sums have the order of [`vectors`](super::vectors).
//!
//! ```
//! use qjam_algos::kernels::triangular::{cholesky, inverse};
//! let l = cholesky(&[4.0, 2.0, 2.0, 5.0], 2).expect("positive definite");
//! assert_eq!(l, [2.0, 0.0, 1.0, 2.0]);
//! assert_eq!(inverse(&l, 2), [0.5, 0.0, -0.25, 0.5]);
//! ```

use super::vectors::{add_scaled, dot};

/// The lower triangular `L` with `L Lᵀ` equal to the matrix, of which only the lower half is read; `None` if it is not positive
/// definite.
pub fn cholesky(matrix: &[f64], n: usize) -> Option<Vec<f64>> {
    assert_eq!(matrix.len(), n * n, "numbers of a square matrix");
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        let (before, rest) = l.split_at_mut(i * n);
        let row = &mut rest[..n];
        for j in 0..i {
            let other = &before[j * n..][..n];
            row[j] = (matrix[i * n + j] - dot(&row[..j], &other[..j])) / other[j];
        }
        let square = matrix[i * n + i] - dot(&row[..i], &row[..i]);
        if !(square > 0.0 && square.is_finite()) {
            return None;
        }
        row[i] = square.sqrt();
    }
    Some(l)
}

/// The inverse of a lower triangular matrix without zeros on its diagonal.
pub fn inverse(l: &[f64], n: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; n * n];
    for i in 0..n {
        let (before, rest) = inverse.split_at_mut(i * n);
        let row = &mut rest[..=i];
        for (j, other) in before.chunks_exact(n).enumerate() {
            add_scaled(&mut row[..=j], -l[i * n + j], &other[..=j]);
        }
        let pivot = l[i * n + i];
        row[..i].iter_mut().for_each(|value| *value /= pivot);
        row[i] = 1.0 / pivot;
    }
    inverse
}

/// The transposed matrix.
pub fn transposed(a: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|at| a[at % n * n + at / n]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    #[test]
    fn factors_and_inverses_multiply_to_what_they_are_of() {
        for n in [1, 2, 5, 33] {
            let mut random = Rng::keyed(n as u64, 0, 0);
            let a: Vec<f64> = (0..n * n).map(|_| random.normal()).collect();
            let product = |i: usize, j: usize| dot(&a[i * n..][..n], &a[j * n..][..n]) + f64::from(i == j);
            let matrix: Vec<f64> = (0..n * n).map(|at| product(at / n, at % n)).collect();
            let l = cholesky(&matrix, n).unwrap();
            let (m, back) = (inverse(&l, n), transposed(&inverse(&l, n), n));
            for i in 0..n {
                for j in 0..n {
                    let square = dot(&l[i * n..][..n], &l[j * n..][..n]);
                    assert!((square - matrix[i * n + j]).abs() < 1e-12 * n as f64 * matrix[i * n + i]);
                    let unit = dot(&l[i * n..][..n], &back[j * n..][..n]);
                    assert!((unit - f64::from(i == j)).abs() < 1e-11, "{n} {i} {j}");
                    assert!(j <= i || (l[i * n + j], m[i * n + j]) == (0.0, 0.0));
                }
            }
        }
    }

    #[test]
    fn matrices_that_are_not_positive_definite_have_no_factors() {
        assert_eq!(cholesky(&[1.0, 1.0, 1.0, 1.0], 2), None);
        assert_eq!(cholesky(&[f64::NAN], 1), None);
        assert_eq!(cholesky(&[f64::INFINITY], 1), None);
        assert_eq!(cholesky(&[], 0), Some(vec![]));
    }
}
