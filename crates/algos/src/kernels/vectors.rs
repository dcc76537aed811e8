//! Sums over long vectors, in a fixed order that leaves room for vector instructions.
//!
//! Term `i` goes to partial sum `i mod 16`, and the sixteen are added from first to last. Plain multiplications and
//! additions, each rounded: the bits are the same on every processor, whatever instructions it has.

use super::{Level, per_level};

const PARTS: usize = 16;

/// Numbers whose vectors are multiplied and added in 64 bits. Widening is exact, so the bits are those of the widened vector.
pub trait Widened: Copy {
    /// The same number.
    fn widened(self) -> f64;
    /// `Σ aᵢ bᵢ` over the shorter of the two.
    fn dot(a: &[Self], b: &[f64]) -> f64;
    /// `y += factor x`.
    fn add_scaled(y: &mut [f64], factor: f64, x: &[Self]);
    /// The squared distance of a row to each of some points, which lie one after the other: by differences, of which number `i` goes
    /// to partial sum `i mod 8`.
    fn squared_distances(row: &[Self], points: &[Self], out: &mut [f64]);
}

macro_rules! widened {
    ($number:ty, $dot:ident, $add_scaled:ident, $squared_distances:ident) => {
        impl Widened for $number {
            #[inline(always)]
            fn widened(self) -> f64 {
                f64::from(self)
            }
            fn dot(a: &[$number], b: &[f64]) -> f64 {
                let mut sum = 0.0;
                $dot(Level::best(), a, b, &mut sum);
                sum
            }
            fn add_scaled(y: &mut [f64], factor: f64, x: &[$number]) {
                $add_scaled(Level::best(), y, factor, x);
            }
            fn squared_distances(row: &[$number], points: &[$number], out: &mut [f64]) {
                $squared_distances(Level::best(), row, points, out);
            }
        }
        per_level! { fn $dot(a: &[$number], b: &[f64], sum: &mut f64) = dot_body }
        per_level! { fn $add_scaled(y: &mut [f64], factor: f64, x: &[$number]) = add_scaled_body }
        per_level! {
            fn $squared_distances(row: &[$number], points: &[$number], out: &mut [f64]) = squared_distances_body
        }
    };
}
widened!(f64, dot_into, add_scaled_at, squared_distances_at);
widened!(f32, dot_single_into, add_scaled_single_at, squared_distances_single_at);

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

per_level! { fn add_scaled_dot_into(y: &mut [f64], factor: f64, x: &[f64], z: &[f64], sum: &mut f64) = add_scaled_dot_body }
per_level! { fn max_abs_into(values: &[f64], max: &mut f64) = max_abs_body }

#[inline(always)]
fn dot_body<T: Widened>(a: &[T], b: &[f64], sum: &mut f64) {
    let len = a.len().min(b.len());
    let (a, a_rest) = a[..len].as_chunks::<PARTS>();
    let (b, b_rest) = b[..len].as_chunks::<PARTS>();
    let mut parts = [0.0; PARTS];
    for (a, b) in a.iter().zip(b) {
        for ((part, a), b) in parts.iter_mut().zip(a).zip(b) {
            *part += a.widened() * b;
        }
    }
    for ((part, a), b) in parts.iter_mut().zip(a_rest).zip(b_rest) {
        *part += a.widened() * b;
    }
    *sum = parts.iter().sum();
}

#[inline(always)]
fn add_scaled_body<T: Widened>(y: &mut [f64], factor: f64, x: &[T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x.widened();
    }
}

#[inline(always)]
fn squared_distances_body<T: Widened>(row: &[T], points: &[T], out: &mut [f64]) {
    /// Points that are measured together: each of their sums is a chain, and one chain would wait for itself.
    const TOGETHER: usize = 4;
    assert_eq!(points.len(), row.len() * out.len(), "points of {} dimensions", row.len());
    if row.is_empty() {
        out.fill(0.0);
        return;
    }
    let whole = out.len() / TOGETHER * TOGETHER;
    let (points, points_rest) = points.split_at(whole * row.len());
    let (out, out_rest) = out.split_at_mut(whole);
    for (points, out) in points.chunks_exact(TOGETHER * row.len()).zip(out.chunks_exact_mut(TOGETHER)) {
        out.copy_from_slice(&squares_of::<T, TOGETHER>(row, points));
    }
    for (point, out) in points_rest.chunks_exact(row.len()).zip(out_rest) {
        [*out] = squares_of::<T, 1>(row, point);
    }
}

/// The squared distances of a row to `N` points.
#[inline(always)]
fn squares_of<T: Widened, const N: usize>(row: &[T], points: &[T]) -> [f64; N] {
    const PARTS: usize = 8;
    let lines: [&[T]; N] = std::array::from_fn(|n| &points[n * row.len()..][..row.len()]);
    let (whole, rest) = row.as_chunks::<PARTS>();
    let mut parts = [[0.0; PARTS]; N];
    for (p, x) in whole.iter().enumerate() {
        for (parts, line) in parts.iter_mut().zip(lines) {
            for ((part, x), c) in parts.iter_mut().zip(x).zip(&line.as_chunks::<PARTS>().0[p]) {
                let difference = x.widened() - c.widened();
                *part += difference * difference;
            }
        }
    }
    for (parts, line) in parts.iter_mut().zip(lines) {
        for ((part, x), c) in parts.iter_mut().zip(rest).zip(&line[row.len() - rest.len()..]) {
            let difference = x.widened() - c.widened();
            *part += difference * difference;
        }
    }
    parts.map(|parts| parts.iter().sum())
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
    fn vectors_of_32_bits_give_the_bits_of_their_widened_copies() {
        let mut random = qjam::Rng::keyed(5, 0, 0);
        for len in [0, 7, 16, 31, 1000] {
            let narrow: Vec<f32> = (0..len).map(|_| random.uniform() as f32 - 0.5).collect();
            let wide: Vec<f64> = narrow.iter().map(|v| f64::from(*v)).collect();
            let other: Vec<f64> = (0..len).map(|_| random.uniform() - 0.5).collect();
            assert_eq!(Widened::dot(&narrow, &other).to_bits(), dot(&wide, &other).to_bits(), "{len}");
            let (mut of_narrow, mut of_wide) = (other.clone(), other);
            Widened::add_scaled(&mut of_narrow, 0.3, &narrow);
            add_scaled(&mut of_wide, 0.3, &wide);
            assert_eq!(of_narrow, of_wide, "{len}");
        }
    }

    #[test]
    fn squared_distances_to_any_number_of_points_have_the_bits_of_single_ones() {
        let mut random = qjam::Rng::keyed(6, 0, 0);
        for (dims, count) in [(0, 3), (1, 1), (7, 5), (8, 4), (64, 10), (33, 0)] {
            let row: Vec<f32> = (0..dims).map(|_| random.normal() as f32).collect();
            let points: Vec<f32> = (0..dims * count).map(|_| random.normal() as f32).collect();
            let mut expected = vec![0.0; count];
            for (n, sum) in expected.iter_mut().enumerate() {
                let mut parts = [0.0; 8];
                for (i, x) in row.iter().enumerate() {
                    let difference = f64::from(*x) - f64::from(points[n * dims + i]);
                    parts[i % 8] += difference * difference;
                }
                *sum = parts.iter().sum();
            }
            for level in Level::available() {
                let mut found = vec![f64::NAN; count];
                squared_distances_single_at(level, &row, &points, &mut found);
                assert_eq!(found, expected, "{dims} x {count}");
                let wide = |of: &[f32]| of.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
                squared_distances_at(level, &wide(&row), &wide(&points), &mut found);
                assert_eq!(found, expected, "{dims} x {count}");
            }
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
