//! Products of sparse lines with dense matrices and vectors.

use super::Lines;
use super::nearest::Sparse;
use crate::kernels::Level;
use crate::kernels::lanes::Lanes;
use crate::kernels::nearest::Real;

/// Partial sums of a sum of a single number.
const PARTS: usize = 8;
/// Registers of the output that are summed at once.
const REGISTERS: usize = 8;

/// Every line times a dense row-major matrix of `cols` columns: `out[i][c] = Σ_p line_i[p] b[p][c]`.
///
/// ```
/// use qjam::Csr;
/// use qjam_algos::kernels::sparse::{Lines, times};
/// // 0 5 0
/// // 1 0 2
/// let x = Csr::from_vecs(vec![0, 1, 3], vec![1, 0, 2], vec![5.0, 1.0, 2.0], 3, None).unwrap();
/// let mut out = [0.0; 4];
/// times(Lines::from(&x), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, &mut out);
/// assert_eq!(out, [15.0, 20.0, 11.0, 14.0]);
/// ```
///
/// # Panics
///
/// When the lengths do not fit.
pub fn times<T: Sparse>(lines: Lines<'_, T>, b: &[T], cols: usize, out: &mut [T]) {
    T::times(Level::best(), lines, b, cols, out);
}

/// The transposed lines times a dense row-major matrix of `cols` columns: `out[p][c] = Σ_i line_i[p] b[i][c]`.
///
/// # Panics
///
/// When the lengths do not fit.
pub fn transposed_times<T: Sparse>(lines: Lines<'_, T>, b: &[T], cols: usize, out: &mut [T]) {
    T::transposed_times(Level::best(), lines, b, cols, out);
}

/// `Σ_j values[j] x[places[j]]`, in doubles.
///
/// # Panics
///
/// When a place is beyond the vector.
#[inline]
pub fn dot<T: Real>((places, values): (&[u32], &[T]), x: &[f64]) -> f64 {
    let len = places.len().min(values.len());
    let ((places, places_rest), (values, values_rest)) =
        (places[..len].as_chunks::<PARTS>(), values[..len].as_chunks::<PARTS>());
    let mut parts = [0.0; PARTS];
    for (places, values) in places.iter().zip(values) {
        for ((part, place), value) in parts.iter_mut().zip(places).zip(values) {
            *part += value.to_f64() * x[*place as usize];
        }
    }
    for ((part, place), value) in parts.iter_mut().zip(places_rest).zip(values_rest) {
        *part += value.to_f64() * x[*place as usize];
    }
    parts.iter().sum()
}

/// `y[places[j]] += factor values[j]`, in doubles.
///
/// # Panics
///
/// When a place is beyond the vector.
#[inline]
pub fn add_scaled<T: Real>(y: &mut [f64], factor: f64, (places, values): (&[u32], &[T])) {
    for (place, value) in places.iter().zip(values) {
        y[*place as usize] += factor * value.to_f64();
    }
}

/// The squared length of every line, in doubles.
pub fn squares<T: Real>(lines: Lines<'_, T>) -> Vec<f64> {
    (0..lines.len()).map(|i| crate::kernels::nearest::square(lines.line(i).1)).collect()
}

#[inline(always)]
pub(super) fn times_body<V: Lanes<Number: Sparse>>(
    lines: Lines<'_, V::Number>,
    b: &[V::Number],
    cols: usize,
    out: &mut [V::Number],
) {
    assert_eq!(b.len(), lines.across() * cols, "values of the dense matrix");
    assert_eq!(out.len(), lines.len() * cols, "values of the product");
    if cols == 0 {
        return;
    }
    for (i, out) in out.chunks_exact_mut(cols).enumerate() {
        let line = lines.line(i);
        let mut at = 0;
        while at + REGISTERS * V::COUNT <= cols {
            product::<V, REGISTERS>(line, &b[at..], cols, &mut out[at..]);
            at += REGISTERS * V::COUNT;
        }
        while at + V::COUNT <= cols {
            product::<V, 1>(line, &b[at..], cols, &mut out[at..]);
            at += V::COUNT;
        }
        for c in at..cols {
            out[c] = one::<V::Number>(line, &b[c..], cols);
        }
    }
}

/// One element by itself.
#[inline(always)]
fn one<T: Sparse>((places, values): (&[u32], &[T]), b: &[T], cols: usize) -> T {
    let mut sum = T::default();
    for (place, value) in places.iter().zip(values) {
        sum = value.fused(b[*place as usize * cols], sum);
    }
    sum
}

/// `N` registers of one row of a product.
#[inline(always)]
fn product<V: Lanes<Number: Sparse>, const N: usize>(
    (places, values): (&[u32], &[V::Number]),
    b: &[V::Number],
    cols: usize,
    out: &mut [V::Number],
) {
    let mut sums = [V::splat(V::Number::default()); N];
    for (place, value) in places.iter().zip(values) {
        let b = &b[*place as usize * cols..][..N * V::COUNT];
        let value = V::splat(*value);
        for n in 0..N {
            sums[n] = value.mul_add(V::load(&b[n * V::COUNT..]), sums[n]);
        }
    }
    for n in 0..N {
        sums[n].store(&mut out[n * V::COUNT..]);
    }
}

#[inline(always)]
pub(super) fn transposed_body<T: Sparse>(lines: Lines<'_, T>, b: &[T], cols: usize, out: &mut [T]) {
    assert_eq!(b.len(), lines.len() * cols, "values of the dense matrix");
    assert_eq!(out.len(), lines.across() * cols, "values of the product");
    out.fill(T::default());
    if cols == 0 {
        return;
    }
    for (i, b) in b.chunks_exact(cols).enumerate() {
        let (places, values) = lines.line(i);
        for (place, value) in places.iter().zip(values) {
            let out = &mut out[*place as usize * cols..][..cols];
            // Left to the compiler: it takes registers of half the width, which cross fewer cache lines when stored.
            out.iter_mut().zip(b).for_each(|(out, b)| *out = value.fused(*b, *out));
        }
    }
}
