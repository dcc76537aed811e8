//! Sums over long vectors, in a fixed order that leaves room for vector instructions.
//!
//! Term `i` goes to partial sum `i mod 16`, and the sixteen are added from first to last. Plain multiplications and
//! additions, each rounded: the bits are the same on every processor, whatever instructions it has.

use super::{Level, per_level};

const PARTS: usize = 16;

/// `Σ aᵢ bᵢ` over the shorter of the two.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    dot_into(Level::best(), a, b, &mut sum);
    sum
}

/// `y += factor x`.
pub fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    add_scaled_at(Level::best(), y, factor, x);
}

/// `y += factor x`, and then `Σ yᵢ zᵢ`: what [`add_scaled`] and [`dot`] give, in one pass over memory.
pub fn add_scaled_dot(y: &mut [f64], factor: f64, x: &[f64], z: &[f64]) -> f64 {
    let mut sum = 0.0;
    add_scaled_dot_into(Level::best(), y, factor, x, z, &mut sum);
    sum
}

/// Largest absolute value; NaN if there is one, 0 for nothing.
pub fn max_abs(values: &[f64]) -> f64 {
    let mut max = 0.0;
    max_abs_into(Level::best(), values, &mut max);
    max
}

per_level! { fn dot_into(a: &[f64], b: &[f64], sum: &mut f64) = dot_body }
per_level! { fn add_scaled_at(y: &mut [f64], factor: f64, x: &[f64]) = add_scaled_body }
per_level! { fn add_scaled_dot_into(y: &mut [f64], factor: f64, x: &[f64], z: &[f64], sum: &mut f64) = add_scaled_dot_body }
per_level! { fn max_abs_into(values: &[f64], max: &mut f64) = max_abs_body }

#[inline(always)]
fn dot_body(a: &[f64], b: &[f64], sum: &mut f64) {
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
    *sum = parts.iter().sum();
}

#[inline(always)]
fn add_scaled_body(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

#[inline(always)]
fn add_scaled_dot_body(y: &mut [f64], factor: f64, x: &[f64], z: &[f64], sum: &mut f64) {
    let len = y.len().min(x.len()).min(z.len());
    let (y, y_rest) = y[..len].as_chunks_mut::<PARTS>();
    let (x, x_rest) = x[..len].as_chunks::<PARTS>();
    let (z, z_rest) = z[..len].as_chunks::<PARTS>();
    let mut parts = [0.0; PARTS];
    for ((y, x), z) in y.iter_mut().zip(x).zip(z) {
        for (((part, y), x), z) in parts.iter_mut().zip(y).zip(x).zip(z) {
            *y += factor * x;
            *part += *y * z;
        }
    }
    for (((part, y), x), z) in parts.iter_mut().zip(y_rest).zip(x_rest).zip(z_rest) {
        *y += factor * x;
        *part += *y * z;
    }
    *sum = parts.iter().sum();
}

#[inline(always)]
fn max_abs_body(values: &[f64], max: &mut f64) {
    // Nothing is larger than NaN, so it stays once it is there.
    let larger = |max: f64, v: f64| if v.abs() > max || v.is_nan() { v.abs() } else { max };
    let (whole, rest) = values.as_chunks::<PARTS>();
    let mut parts = [0.0; PARTS];
    for values in whole {
        for (part, v) in parts.iter_mut().zip(values) {
            *part = larger(*part, *v);
        }
    }
    *max = parts.iter().chain(rest).fold(0.0, |max, v| larger(max, *v));
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
    fn every_level_gives_the_same_bits() {
        let mut random = qjam::Rng::keyed(3, 0, 0);
        let mut vector = |len: usize| -> Vec<f64> { (0..len).map(|_| random.uniform() - 0.5).collect() };
        for len in [0, 7, 16, 31, 1000] {
            let (a, b) = (vector(len), vector(len));
            let at = |level| {
                let (mut sum, mut max, mut y) = (0.0, 0.0, a.clone());
                dot_into(level, &a, &b, &mut sum);
                max_abs_into(level, &a, &mut max);
                add_scaled_at(level, &mut y, 0.3, &b);
                let mut both = (a.clone(), 0.0);
                add_scaled_dot_into(level, &mut both.0, 0.3, &b, &a, &mut both.1);
                assert_eq!(both, (y.clone(), dot(&y, &a)));
                (sum.to_bits(), max.to_bits(), y.iter().map(|v| v.to_bits()).collect::<Vec<u64>>())
            };
            let levels = Level::available();
            assert!(levels.iter().all(|level| at(*level) == at(levels[0])), "{len} values");
        }
    }

    #[test]
    fn largest_value_ignores_signs_and_keeps_nan() {
        assert_eq!(max_abs(&[1.0, -3.0, 2.0]), 3.0);
        assert_eq!(max_abs(&[]), 0.0);
        assert!(max_abs(&[f64::NAN]).is_nan());
        assert!(max_abs(&[1.0, f64::NAN, 2.0]).is_nan());
        for at in 0..40 {
            let mut values = vec![1.0; 40];
            values[at] = -7.0;
            assert_eq!(max_abs(&values), 7.0);
            values[at] = f64::NAN;
            assert!(max_abs(&values).is_nan());
        }
    }
}
