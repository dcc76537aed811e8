//! Sums over long vectors, in a fixed order that leaves room for vector instructions.
//!
//! Term `i` goes to partial sum `i mod 16`, and the sixteen are added from first to last. Plain multiplications and
//! additions: the bits are the same on every processor, compiled for any of them.

const PARTS: usize = 16;

/// `Σ aᵢ bᵢ` over the shorter of the two.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<PARTS>();
    let (b, b_rest) = b[..len].as_chunks::<PARTS>();
    let mut parts = [0.0; PARTS];
    for (a, b) in a.iter().zip(b) {
        for ((part, a), b) in parts.iter_mut().zip(a).zip(b) {
            *part += a * b;
        }
    }
    for ((part, a), b) in parts.iter_mut().zip(a_rest).zip(b_rest) {
        *part += a * b;
    }
    parts.iter().sum()
}

/// `y += factor x`.
pub fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// Largest absolute value; NaN if there is one, 0 for nothing.
pub fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |max, v| if v.abs() > max || v.is_nan() { v.abs() } else { max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_of_any_length_is_the_sum_of_products() {
        for len in [0, 1, 15, 16, 17, 100] {
            let a: Vec<f64> = (0..len).map(f64::from).collect();
            let expected: f64 = a.iter().map(|v| v * v).sum();
            assert_eq!(dot(&a, &a), expected);
        }
    }

    #[test]
    fn largest_value_ignores_signs_and_keeps_nan() {
        assert_eq!(max_abs(&[1.0, -3.0, 2.0]), 3.0);
        assert_eq!(max_abs(&[]), 0.0);
        assert!(max_abs(&[f64::NAN]).is_nan());
        assert!(max_abs(&[1.0, f64::NAN, 2.0]).is_nan());
    }
}
