//! Eigenvalues and eigenvectors of a symmetric matrix, with the same bits on every processor.
//!
//! Householder's reflections make the matrix tridiagonal, and implicit QL steps diagonal. Only sums, products, quotients and
//! roots are used, in an order that does not depend on the processor, so that what a master solves is as repeatable as what its
//! workers sum. All loops run along rows. The cost is about `9 n³` operations, which is right up to a thousand
//! columns or two; more columns are the business of randomised methods.
//!
//! ```
//! use qjam_algos::kernels::symmetric::Eigen;
//! let eigen = Eigen::of(vec![2.0, 1.0, 1.0, 2.0], 2).expect("all numbers are finite");
//! assert!((eigen.values[0] - 3.0).abs() < 1e-15 && (eigen.values[1] - 1.0).abs() < 1e-15);
//! assert!((eigen.vector(0)[0] - eigen.vector(0)[1]).abs() < 1e-15);
//! ```

use super::vectors::{add_scaled, dot};

/// QL steps for one eigenvalue, of which a few are needed.
const STEPS_MAX: usize = 60;

/// Eigenvalues and eigenvectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigen {
    /// From the largest on.
    pub values: Vec<f64>,
    /// Of length 1, one after the other, in the order of the values.
    vectors: Vec<f64>,
}

impl Eigen {
    /// Those of a symmetric matrix of `n` rows; `None` if it has numbers that are not finite.
    ///
    /// Panics if there are not `n` times `n` numbers.
    pub fn of(matrix: Vec<f64>, n: usize) -> Option<Eigen> {
        assert_eq!(matrix.len(), n * n, "numbers of a square matrix");
        if matrix.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut tridiagonal = Tridiagonal::of(matrix, n);
        tridiagonal.diagonalise()?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| tridiagonal.diagonal[*b].total_cmp(&tridiagonal.diagonal[*a]));
        let values = order.iter().map(|i| tridiagonal.diagonal[*i]).collect();
        let vectors = order.iter().flat_map(|i| &tridiagonal.basis[i * n..][..n]).copied().collect();
        Some(Eigen { values, vectors })
    }

    /// An eigenvector.
    pub fn vector(&self, index: usize) -> &[f64] {
        let n = self.values.len();
        &self.vectors[index * n..][..n]
    }

    /// All eigenvectors, one after the other.
    pub fn vectors(&self) -> &[f64] {
        &self.vectors
    }
}

/// A tridiagonal matrix, and the rows of the basis in which the original is that.
struct Tridiagonal {
    diagonal: Vec<f64>,
    /// Element `i` is between `i` and `i + 1`; the last is 0.
    beside: Vec<f64>,
    basis: Vec<f64>,
}

impl Tridiagonal {
    fn of(mut a: Vec<f64>, n: usize) -> Tridiagonal {
        let (mut beside, mut reflections) = (vec![0.0; n], Vec::with_capacity(n));
        for k in 0..n.saturating_sub(1) {
            let column: Vec<f64> = (k + 1..n).map(|i| a[i * n + k]).collect();
            let (v, tau, norm) = reflection(column);
            beside[k] = norm;
            if tau != 0.0 {
                reflect_both_sides(&mut a, n, k + 1, &v, tau);
            }
            reflections.push((v, tau));
        }
        let diagonal = (0..n).map(|i| a[i * n + i]).collect();
        Tridiagonal { diagonal, beside, basis: transposed(&product(&reflections, n), n) }
    }

    /// Implicit QL steps until nothing is left beside the diagonal. `None` if that does not happen.
    ///
    /// Numbers beside the diagonal are zero if they are small beside their neighbours on it. In a matrix of low rank these may be
    /// nothing but rounding, which steps bring back: after half the steps what is small beside the largest number is zero, too.
    fn diagonalise(&mut self) -> Option<()> {
        let n = self.diagonal.len();
        let largest =
            self.diagonal.iter().chain(&self.beside).fold(0.0, |most: f64, value| most.max(value.abs()));
        for low in 0..n {
            for step in 0.. {
                let least = if step < STEPS_MAX / 2 { 0.0 } else { f64::EPSILON * largest };
                let small = |i: usize| {
                    let around = self.diagonal[i].abs() + self.diagonal[i + 1].abs();
                    self.beside[i].abs() <= (f64::EPSILON * around).max(least)
                };
                let high = (low..n.saturating_sub(1)).find(|i| small(*i)).unwrap_or(n.saturating_sub(1));
                if high == low {
                    break;
                }
                if step == STEPS_MAX {
                    return None;
                }
                self.chase(low, high);
            }
        }
        Some(())
    }

    /// One implicit QL step with Wilkinson's shift on rows `low` to `high`.
    fn chase(&mut self, low: usize, high: usize) {
        let n = self.diagonal.len();
        let (d, e) = (&mut self.diagonal, &mut self.beside);
        let g = (d[low + 1] - d[low]) / (2.0 * e[low]);
        let r = length(g, 1.0);
        let mut g = d[high] - d[low] + e[low] / (g + if g >= 0.0 { r } else { -r });
        let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
        for i in (low..high).rev() {
            let (f, b) = (s * e[i], c * e[i]);
            let r = length(f, g);
            e[i + 1] = r;
            if r == 0.0 {
                // The matrix falls apart here; the next step takes the parts one by one.
                d[i + 1] -= p;
                e[high] = 0.0;
                return;
            }
            (s, c) = (f / r, g / r);
            g = d[i + 1] - p;
            let r = (d[i] - g) * s + 2.0 * c * b;
            p = s * r;
            d[i + 1] = g + p;
            g = c * r - b;
            let (upper, lower) = self.basis[i * n..(i + 2) * n].split_at_mut(n);
            for (x, y) in upper.iter_mut().zip(lower) {
                let f = *y;
                *y = s * *x + c * f;
                *x = c * *x - s * f;
            }
        }
        d[low] -= p;
        e[low] = g;
        e[high] = 0.0;
    }
}

/// `v`, `tau` and `norm` such that `I - tau v vᵀ` takes the vector to `norm` in its first place and zeros in all others.
fn reflection(mut v: Vec<f64>) -> (Vec<f64>, f64, f64) {
    let scale = v.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    if v[1..].iter().all(|value| *value == 0.0) {
        let norm = v[0];
        return (v, 0.0, norm);
    }
    v.iter_mut().for_each(|value| *value /= scale);
    let norm = dot(&v, &v).sqrt();
    // The sign that adds instead of cancelling.
    let norm = if v[0] > 0.0 { -norm } else { norm };
    v[0] -= norm;
    let tau = 2.0 / dot(&v, &v);
    (v, tau, norm * scale)
}

/// Applies a reflection from both sides to the square from row and column `from` on.
fn reflect_both_sides(a: &mut [f64], n: usize, from: usize, v: &[f64], tau: f64) {
    let mut w: Vec<f64> = (from..n).map(|i| tau * dot(&a[i * n + from..(i + 1) * n], v)).collect();
    let half = 0.5 * tau * dot(&w, v);
    add_scaled(&mut w, -half, v);
    for (i, row) in a[from * n..].chunks_exact_mut(n).enumerate() {
        add_scaled(&mut row[from..], -v[i], &w);
        add_scaled(&mut row[from..], -w[i], v);
    }
}

/// The product of all reflections; reflection `k` leaves the first `k + 1` coordinates alone.
fn product(reflections: &[(Vec<f64>, f64)], n: usize) -> Vec<f64> {
    let mut q = vec![0.0; n * n];
    (0..n).for_each(|i| q[i * n + i] = 1.0);
    for (k, (v, tau)) in reflections.iter().enumerate().rev().filter(|(_, (_, tau))| *tau != 0.0) {
        let from = k + 1;
        let mut sums = vec![0.0; n - from];
        for (value, row) in v.iter().zip(q[from * n..].chunks_exact(n)) {
            add_scaled(&mut sums, *value, &row[from..]);
        }
        for (value, row) in v.iter().zip(q[from * n..].chunks_exact_mut(n)) {
            add_scaled(&mut row[from..], -tau * value, &sums);
        }
    }
    q
}

fn transposed(a: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|at| a[at % n * n + at / n]).collect()
}

/// `√(a² + b²)` without overflow on the way.
fn length(a: f64, b: f64) -> f64 {
    let (large, small) = if a.abs() > b.abs() { (a.abs(), b.abs()) } else { (b.abs(), a.abs()) };
    if large == 0.0 { 0.0 } else { large * (1.0 + (small / large) * (small / large)).sqrt() }
}

/// Makes rows orthonormal, one after the other, twice over for the digits that the first pass loses. A row that depends on those
/// before it becomes zero.
pub fn orthonormalise(rows: &mut [f64], length: usize) {
    let count = rows.len() / length.max(1);
    for i in 0..count {
        let (before, rest) = rows.split_at_mut(i * length);
        let row = &mut rest[..length];
        let size = dot(row, row).sqrt();
        for _ in 0..2 {
            for other in before.chunks_exact(length) {
                let share = dot(other, row);
                add_scaled(row, -share, other);
            }
        }
        let left = dot(row, row).sqrt();
        let factor = if left > 1e-13 * size { 1.0 / left } else { 0.0 };
        row.iter_mut().for_each(|value| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam::Rng;

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mut random = Rng::keyed(seed, 0, 0);
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = random.normal();
                (a[i * n + j], a[j * n + i]) = (value, value);
            }
        }
        a
    }

    /// Vectors are orthonormal, and the matrix times each is its value times it.
    fn check(a: &[f64], n: usize) {
        let eigen = Eigen::of(a.to_vec(), n).unwrap();
        let scale = a.iter().fold(1e-300, |most: f64, v| most.max(v.abs())) * n as f64;
        for i in 0..n {
            assert!(i == 0 || eigen.values[i - 1] >= eigen.values[i]);
            for j in 0..n {
                let expected = f64::from(u8::from(i == j));
                assert!((dot(eigen.vector(i), eigen.vector(j)) - expected).abs() < 1e-13 * n as f64);
                let image = dot(&a[j * n..][..n], eigen.vector(i));
                assert!((image - eigen.values[i] * eigen.vector(i)[j]).abs() < 1e-14 * scale, "{n}: {i} {j}");
            }
        }
    }

    #[test]
    fn vectors_are_orthonormal_and_fulfil_the_equation() {
        for n in [1, 2, 3, 5, 17, 60] {
            check(&noise(n, n as u64), n);
        }
        check(&[0.0; 16], 4);
        check(&[2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, -1.0], 3);
        // Of rank 1, of far apart sizes, and with zeros between parts.
        let v = [1.0, -2.0, 3.0, 0.5];
        check(&(0..16).map(|at| v[at / 4] * v[at % 4]).collect::<Vec<_>>(), 4);
        let sizes = [1e8, 1.0, 1e-8, 1e-3];
        check(
            &noise(4, 3)
                .iter()
                .enumerate()
                .map(|(at, v)| v * sizes[at / 4] * sizes[at % 4])
                .collect::<Vec<_>>(),
            4,
        );
        check(&[1.0, 2.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 1.0, 0.0, 0.0, 1.0, 3.0], 4);
    }

    #[test]
    fn numbers_that_are_not_finite_have_no_eigenvalues_and_no_rows_none() {
        assert_eq!(Eigen::of(vec![f64::NAN], 1), None);
        assert_eq!(Eigen::of(vec![], 0).map(|eigen| eigen.values.len()), Some(0));
    }

    #[test]
    fn dependent_rows_become_zero_and_others_orthonormal() {
        let mut rows = vec![3.0, 4.0, 0.0, 6.0, 8.0, 0.0, 1.0, 1.0, 1.0];
        orthonormalise(&mut rows, 3);
        assert_eq!(rows[3..6], [0.0; 3]);
        assert!(
            (dot(&rows[..3], &rows[..3]) - 1.0).abs() < 1e-15 && dot(&rows[..3], &rows[6..]).abs() < 1e-15
        );
        assert!((dot(&rows[6..], &rows[6..]) - 1.0).abs() < 1e-15);
    }
}
