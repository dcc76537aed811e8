//! What layers do to their sums, for rows of 32 and of 64 bits.

use super::layers::{Running, is_bent};
use super::network::Activation;
use crate::kernels::elementwise::{Elementwise, sigmoid, tanh};
use crate::kernels::multiply::Multiply;
use crate::kernels::sparse::Sparse;
use crate::kernels::{Level, per_level};
use std::cell::RefCell;
use std::ops::{Add, Mul, Sub};

/// Numbers that networks compute with.
pub trait Kernel:
    Sparse + Multiply + Elementwise + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// Hands out the memory that this thread keeps for networks. Chunks are small and come by the hundred.
    #[doc(hidden)]
    fn with_running<R>(work: impl FnOnce(&mut Option<Running<Self>>) -> R) -> R;
    /// What units make of their sums.
    #[doc(hidden)]
    fn activate(level: Level, activation: Activation, values: &mut [Self]);
    /// Multiplies errors by the derivatives of units that have these values.
    #[doc(hidden)]
    fn slope(level: Level, activation: Activation, values: &[Self], errors: &mut [Self]);
    /// Adds rows as long as the sums.
    #[doc(hidden)]
    fn add_rows(level: Level, rows: &[Self], sums: &mut [Self]);
    /// `out += factor row`, one rounding each, for the stored values of a sparse row: row `place` of a matrix of this width.
    #[doc(hidden)]
    fn add_lines(level: Level, line: (&[u32], &[Self]), matrix: &[Self], out: &mut [Self]);
    /// The other way round: adds the row times each stored value to row `place` of the matrix.
    #[doc(hidden)]
    fn add_to_lines(level: Level, line: (&[u32], &[Self]), row: &[Self], matrix: &mut [Self]);
}

macro_rules! kernel {
    ($number:ident, $relu:ident, $relu_slope:ident, $tanh:ident, $logistic:ident, $add:ident, $lines:ident, $to:ident) => {
        per_level! { fn $relu(values: &mut [$number]) = relu_body }
        per_level! { fn $relu_slope(values: &[$number], errors: &mut [$number]) = relu_slope_body }
        per_level! { fn $tanh(values: &[$number], errors: &mut [$number]) = tanh_slope_body }
        per_level! { fn $logistic(values: &[$number], errors: &mut [$number]) = logistic_slope_body }
        per_level! { fn $add(rows: &[$number], sums: &mut [$number]) = add_rows_body }
        per_level! { fn $lines(line: (&[u32], &[$number]), matrix: &[$number], out: &mut [$number]) = lines_body }
        per_level! { fn $to(line: (&[u32], &[$number]), row: &[$number], matrix: &mut [$number]) = to_lines_body }

        impl Kernel for $number {
            fn with_running<R>(work: impl FnOnce(&mut Option<Running<$number>>) -> R) -> R {
                thread_local! {
                    static RUNNING: RefCell<Option<Running<$number>>> = const { RefCell::new(None) };
                }
                RUNNING.with_borrow_mut(work)
            }
            fn activate(level: Level, activation: Activation, values: &mut [$number]) {
                match activation {
                    Activation::Identity => (),
                    Activation::Logistic => sigmoid(level, values),
                    Activation::Tanh => tanh(level, values),
                    Activation::Relu => $relu(level, values),
                }
            }
            fn slope(level: Level, activation: Activation, values: &[$number], errors: &mut [$number]) {
                match activation {
                    _ if !is_bent(activation) => (),
                    Activation::Relu => $relu_slope(level, values, errors),
                    Activation::Tanh => $tanh(level, values, errors),
                    _ => $logistic(level, values, errors),
                }
            }
            fn add_rows(level: Level, rows: &[$number], sums: &mut [$number]) {
                $add(level, rows, sums);
            }
            fn add_lines(level: Level, line: (&[u32], &[$number]), matrix: &[$number], out: &mut [$number]) {
                $lines(level, line, matrix, out);
            }
            fn add_to_lines(level: Level, line: (&[u32], &[$number]), row: &[$number], matrix: &mut [$number]) {
                $to(level, line, row, matrix);
            }
        }
    };
}
kernel!(f64, relu_64, relu_slope_64, tanh_slope_64, logistic_slope_64, add_rows_64, lines_64, to_lines_64);
kernel!(f32, relu_32, relu_slope_32, tanh_slope_32, logistic_slope_32, add_rows_32, lines_32, to_lines_32);

#[inline(always)]
fn relu_body<T: Kernel>(values: &mut [T]) {
    let zero = T::default();
    // Written so that NaN stays NaN: a bad number must not vanish on its way.
    values.iter_mut().for_each(|value| *value = if *value < zero { zero } else { *value });
}

#[inline(always)]
fn relu_slope_body<T: Kernel>(values: &[T], errors: &mut [T]) {
    let zero = T::default();
    for (error, value) in errors.iter_mut().zip(values) {
        *error = if *value == zero { zero } else { *error };
    }
}

#[inline(always)]
fn tanh_slope_body<T: Kernel>(values: &[T], errors: &mut [T]) {
    let one = T::from_f64(1.0);
    for (error, value) in errors.iter_mut().zip(values) {
        *error = *error * (one - *value * *value);
    }
}

#[inline(always)]
fn logistic_slope_body<T: Kernel>(values: &[T], errors: &mut [T]) {
    let one = T::from_f64(1.0);
    for (error, value) in errors.iter_mut().zip(values) {
        *error = *error * (*value * (one - *value));
    }
}

#[inline(always)]
fn add_rows_body<T: Kernel>(rows: &[T], sums: &mut [T]) {
    for row in rows.chunks_exact(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum = *sum + *value);
    }
}

#[inline(always)]
fn lines_body<T: Kernel>((places, values): (&[u32], &[T]), matrix: &[T], out: &mut [T]) {
    let width = out.len();
    for (place, value) in places.iter().zip(values) {
        let row = &matrix[*place as usize * width..][..width];
        out.iter_mut().zip(row).for_each(|(out, weight)| *out = value.fused(*weight, *out));
    }
}

#[inline(always)]
fn to_lines_body<T: Kernel>((places, values): (&[u32], &[T]), row: &[T], matrix: &mut [T]) {
    let width = row.len();
    for (place, value) in places.iter().zip(values) {
        let line = &mut matrix[*place as usize * width..][..width];
        line.iter_mut().zip(row).for_each(|(sum, error)| *sum = value.fused(*error, *sum));
    }
}
