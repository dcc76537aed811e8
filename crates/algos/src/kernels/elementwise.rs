//! exp, log, tanh, the logistic function and `log(1 + eˣ)` of whole slices, in 32 and 64 bits.
//!
//! All five come from two pieces. `eˣ`: `x = n ln 2 + r` with `|r| <= ln 2 / 2`, and a polynomial for `eʳ`. `log`: the
//! number is `2ⁿ m` with `m` between the roots of one half and of 2, and `log m` is a series in `s²` where
//! `s = (m - 1) / (m + 1)`. Polynomials are the best of their degree in relative error, found by exchange. No tables, no
//! branches, at most one division.
//!
//! The bits are the same in every width: each lane is the same run of IEEE operations. How far results may be from the
//! truth is stated by the constants `…_ULPS` in units in the last place, and held to by sweeps against
//! arithmetic of twice the length. NaN gives NaN (which of them is not said); limits are those of the mathematics.

use super::arithmetic::{Arithmetic, Number};
use super::{Level, per_level};

/// Largest error of [`exp`].
pub const EXP_ULPS: f64 = 1.25;
/// Largest error of [`log`].
pub const LOG_ULPS: f64 = 1.0;
/// Largest error of [`tanh`].
pub const TANH_ULPS: f64 = 2.5;
/// Largest error of [`sigmoid`].
pub const SIGMOID_ULPS: f64 = 2.5;
/// Largest error of [`softplus`].
pub const SOFTPLUS_ULPS: f64 = 2.5;

/// Numbers that have these functions: `f32` and `f64`.
pub trait Elementwise: Sized + sealed::Constants {
    /// See [`exp`].
    fn exp_slice(level: Level, values: &mut [Self]);
    /// See [`log`].
    fn log_slice(level: Level, values: &mut [Self]);
    /// See [`tanh`].
    fn tanh_slice(level: Level, values: &mut [Self]);
    /// See [`sigmoid`].
    fn sigmoid_slice(level: Level, values: &mut [Self]);
    /// See [`softplus`].
    fn softplus_slice(level: Level, values: &mut [Self]);
}

/// Replaces every value by `eˣ`: 0 and `∞` beyond the range, subnormal numbers rounded once.
///
/// ```
/// use qjam_algos::kernels::{Level, elementwise::exp};
/// let mut x = [0.0, 1.0, f64::NEG_INFINITY];
/// exp(Level::best(), &mut x);
/// assert_eq!((x[0], x[2]), (1.0, 0.0));
/// assert!((x[1] - std::f64::consts::E).abs() <= 2.0 * f64::EPSILON); // one place in the last digit
/// ```
pub fn exp<T: Elementwise>(level: Level, values: &mut [T]) {
    T::exp_slice(level, values);
}

/// Replaces every value by its natural logarithm: `-∞` at 0, NaN below.
pub fn log<T: Elementwise>(level: Level, values: &mut [T]) {
    T::log_slice(level, values);
}

/// Replaces every value by its hyperbolic tangent, which is odd to the bit.
pub fn tanh<T: Elementwise>(level: Level, values: &mut [T]) {
    T::tanh_slice(level, values);
}

/// Replaces every value by `1 / (1 + e⁻ˣ)`, small results as exact as large ones.
pub fn sigmoid<T: Elementwise>(level: Level, values: &mut [T]) {
    T::sigmoid_slice(level, values);
}

/// Replaces every value by `log(1 + eˣ)`, which overflows nowhere: the loss of a logistic regression.
pub fn softplus<T: Elementwise>(level: Level, values: &mut [T]) {
    T::softplus_slice(level, values);
}

mod sealed {
    /// What the functions need to know of a number type.
    pub trait Constants: Copy + 'static {
        /// `0, ½, 1, 2`.
        const SMALL: [Self; 4];
        const MINUS_HALF: Self;
        const LOG2_E: Self;
        const LN_2: Self;
        /// What `ln 2` has beyond `LN_2`.
        const LN_2_REST: Self;
        /// `(eʳ - 1 - r) / r²`, lowest power first.
        const EXP: &'static [Self];
        /// `((e²ʳ - 1) / 2 - r) / r²`: the same with powers of 2 taken in.
        const EXP_TWICE: &'static [Self];
        /// `(log((1 + s) / (1 - s)) / s - 2) / s²` in powers of `s²`, for `s² <= 0.0295`.
        const LOG: &'static [Self];
        /// The same for `s² <= 1/9`.
        const LOG_WIDE: &'static [Self];
        /// Below and above these `eˣ` is 0 and infinite.
        const EXP_RANGE: [Self; 2];
        /// From here on the tangent rounds to 1.
        const TANH_ONE: Self;
        /// The smallest normal number, a power of two that makes all below it normal, and that power's exponent.
        const SUBNORMAL: [Self; 3];
        const INFINITY: Self;
        const NAN: Self;
    }
}
use sealed::Constants;

impl Constants for f64 {
    const SMALL: [f64; 4] = [0.0, 0.5, 1.0, 2.0];
    const MINUS_HALF: f64 = -0.5;
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const LN_2: f64 = std::f64::consts::LN_2;
    const LN_2_REST: f64 = 2.319_046_813_846_299_6e-17;
    const EXP: &'static [f64] = &EXP_64;
    const EXP_TWICE: &'static [f64] = &twice_64();
    const LOG: &'static [f64] = &[
        0.6666666666666734,
        0.39999999999414654,
        0.28571428742391597,
        0.22222198572840465,
        0.18183564342221895,
        0.15314050162244672,
        0.1479595352520824,
    ];
    const LOG_WIDE: &'static [f64] = &[
        0.6666666666666667,
        0.3999999999999398,
        0.2857142857250984,
        0.22222222125484084,
        0.18181823202368494,
        0.15384451946023686,
        0.13336805597566925,
        0.1171595292861791,
        0.10972552498414218,
        0.06994298360152822,
        0.1646755491676631,
    ];
    const EXP_RANGE: [f64; 2] = [-746.0, 710.0];
    const TANH_ONE: f64 = 20.0;
    const SUBNORMAL: [f64; 3] = [f64::MIN_POSITIVE, 18_014_398_509_481_984.0, 54.0];
    const INFINITY: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
}

const EXP_64: [f64; 11] = [
    0.5,
    0.1666666666666667,
    0.041666666666666685,
    0.008333333333326134,
    0.0013888888888874402,
    0.00019841269874822063,
    2.480158734733117e-05,
    2.755725539861922e-06,
    2.7557252921669346e-07,
    2.5105217589467326e-08,
    2.0921585958427754e-09,
];

const fn twice_64() -> [f64; 11] {
    let (mut twice, mut i) = (EXP_64, 0);
    while i < twice.len() {
        twice[i] *= (2u64 << i) as f64;
        i += 1;
    }
    twice
}

impl Constants for f32 {
    const SMALL: [f32; 4] = [0.0, 0.5, 1.0, 2.0];
    const MINUS_HALF: f32 = -0.5;
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN_2: f32 = std::f32::consts::LN_2;
    const LN_2_REST: f32 = -1.904_654_3e-9;
    const EXP: &'static [f32] = &EXP_32;
    const EXP_TWICE: &'static [f32] = &twice_32();
    const LOG: &'static [f32] = &[0.666_667_76, 0.399_775_42, 0.298_717_32];
    const LOG_WIDE: &'static [f32] = &[0.666_666_75, 0.399_988_77, 0.286_168_84, 0.214_276_54, 0.243_009_5];
    const EXP_RANGE: [f32; 2] = [-104.5, 89.0];
    const TANH_ONE: f32 = 10.0;
    const SUBNORMAL: [f32; 3] = [f32::MIN_POSITIVE, 33_554_432.0, 25.0];
    const INFINITY: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
}

const EXP_32: [f32; 6] = [0.5, 0.166_666_36, 0.041_666_51, 0.008_341_64, 0.001_393_039_8, 0.000_149_054_18];

const fn twice_32() -> [f32; 6] {
    let (mut twice, mut i) = (EXP_32, 0);
    while i < twice.len() {
        twice[i] *= (2u32 << i) as f32;
        i += 1;
    }
    twice
}

/// `C[0] + C[1] x + …`, even and odd powers apart: two chains of half the length. Given `x` and `x²`.
#[inline(always)]
fn polynomial<V: Arithmetic>(x: V, square: V, coefficients: &'static [V::Number]) -> V {
    let last = coefficients.len() - 1;
    let mut chains = [V::splat(coefficients[last - 1]), V::splat(coefficients[last])];
    for i in (0..last - 1).rev() {
        let chain = &mut chains[(last - i + 1) % 2];
        *chain = chain.mul_add(square, V::splat(coefficients[i]));
    }
    let [even, odd] = if last % 2 == 1 { chains } else { [chains[1], chains[0]] };
    odd.mul_add(x, even)
}

/// `eˣ` in registers.
#[inline(always)]
pub(crate) fn exp_lanes<V: Arithmetic<Number: Constants + Number>>(x: V) -> V {
    let [_, half, one, _] = V::Number::SMALL.map(V::splat);
    let round = V::splat(V::Number::ROUND);
    let [low, high] = V::Number::EXP_RANGE.map(V::splat);
    let x = x.at_most(high).at_least(low);
    let n = x.mul_add(V::splat(V::Number::LOG2_E), round).sub(round);
    // Exact: multiples of the number nearest ln 2 are multiples of its last place, and |r| needs no finer unit.
    let r = n.neg_mul_add(V::splat(V::Number::LN_2), x);
    let r = n.neg_mul_add(V::splat(V::Number::LN_2_REST), r);
    let square = r.mul(r);
    let value = one.add(square.mul_add(polynomial(r, square, V::Number::EXP), r));
    // 2ⁿ in two factors, since n may be an exponent that only subnormal numbers have; the first product is exact.
    let first = n.mul_add(half, round);
    let second = n.sub(first.sub(round)).add(round);
    value.mul(first.power_of_two()).mul(second.power_of_two())
}

/// `log x` in registers.
#[inline(always)]
pub(crate) fn log_lanes<V: Arithmetic<Number: Constants + Number>>(x: V) -> V {
    let [zero, half, one, two] = V::Number::SMALL.map(V::splat);
    let [smallest, scale, scaled_by] = V::Number::SUBNORMAL.map(V::splat);
    let infinity = V::splat(V::Number::INFINITY);
    let normal = x.below(smallest, x.mul(scale), x);
    let (n, m) = normal.split();
    let n = n.sub(x.below(smallest, scaled_by, zero));
    let f = m.sub(one);
    let s = f.div(two.add(f));
    let z = s.mul(s);
    let halved = f.mul(half).mul(f);
    let series = z.mul_add(polynomial(z, z.mul(z), V::Number::LOG), halved);
    // log m = f - f²/2 + s (f²/2 + z P(z)), the largest part last.
    let small = s.mul_add(series, n.mul(V::splat(V::Number::LN_2_REST)));
    let value = n.mul_add(V::splat(V::Number::LN_2), f.sub(halved.sub(small)));
    // The edges: what is not below infinity stays (it or NaN), 0 is -∞, and below there is none.
    let value = x.below(infinity, value, x);
    zero.below(x, value, x.below(zero, V::splat(V::Number::NAN), x.abs().sub(infinity)))
}

/// `tanh x` in registers: with `h = (e²ˣ - 1) / 2`, `h / (h + 1)`.
#[inline(always)]
pub(crate) fn tanh_lanes<V: Arithmetic<Number: Constants + Number>>(x: V) -> V {
    let [_, half, one, two] = V::Number::SMALL.map(V::splat);
    let round = V::splat(V::Number::ROUND);
    let y = x.abs().at_most(V::splat(V::Number::TANH_ONE));
    let shifted = y.mul_add(V::splat(V::Number::LOG2_E).mul(two), round);
    let n = shifted.sub(round);
    let r = n.neg_mul_add(V::splat(V::Number::LN_2).mul(half), y);
    let square = r.mul(r);
    // (e²ʳ - 1) / 2 = r + rest; the larger part is kept out of the rounding until the end.
    let rest = square.mul(polynomial(r, square, V::Number::EXP_TWICE));
    let rest = n.neg_mul_add(V::splat(V::Number::LN_2_REST).mul(half), rest);
    let power = shifted.power_of_two();
    let h = power.mul_add(rest, power.mul_add(r, power.mul_add(half, V::splat(V::Number::MINUS_HALF))));
    h.div(h.add(one)).with_sign(x)
}

/// `1 / (1 + e⁻ˣ)` in registers.
#[inline(always)]
pub(crate) fn sigmoid_lanes<V: Arithmetic<Number: Constants + Number>>(x: V) -> V {
    let [zero, _, one, _] = V::Number::SMALL.map(V::splat);
    let e = exp_lanes(zero.sub(x.abs()));
    x.below(zero, e, one).div(one.add(e))
}

/// `log(1 + eˣ)` in registers: the larger of 0 and `x`, and the logarithm of what is then between 1 and 2.
#[inline(always)]
pub(crate) fn softplus_lanes<V: Arithmetic<Number: Constants + Number>>(x: V) -> V {
    let [zero, _, _, two] = V::Number::SMALL.map(V::splat);
    let e = exp_lanes(zero.sub(x.abs()));
    let s = e.div(two.add(e));
    let z = s.mul(s);
    // log(1 + e) = e - s (e - z P(z)), which keeps all of a small e.
    let log = s.neg_mul_add(e.sub(z.mul(polynomial(z, z.mul(z), V::Number::LOG_WIDE))), e);
    x.at_least(zero).add(log)
}

/// Runs a register function over a slice; what does not fill a register goes through one with the rest of it empty.
macro_rules! slices {
    ($($name:ident $wide:ident $narrow:ident = $lanes:ident as $method:ident,)*) => {
        $(
            #[inline(always)]
            fn $name<V: Arithmetic<Number: Constants + Number + Default>>(values: &mut [V::Number]) {
                let mut whole = values.chunks_exact_mut(V::COUNT);
                for values in &mut whole {
                    $lanes(V::load(values)).store(values);
                }
                let rest = whole.into_remainder();
                if !rest.is_empty() {
                    let mut filled = [V::Number::default(); 16];
                    filled[..rest.len()].copy_from_slice(rest);
                    $lanes(V::load(&filled)).store(&mut filled);
                    rest.copy_from_slice(&filled[..rest.len()]);
                }
            }
            per_level! { fn $wide(values: &mut [f64]) = $name<Lanes> }
            per_level! { fn $narrow(values: &mut [f32]) = $name<Lanes32> }
        )*
        impl Elementwise for f64 {
            $(
                fn $method(level: Level, values: &mut [f64]) {
                    $wide(level, values);
                }
            )*
        }
        impl Elementwise for f32 {
            $(
                fn $method(level: Level, values: &mut [f32]) {
                    $narrow(level, values);
                }
            )*
        }
    };
}

slices! {
    exp_body exp_64 exp_32 = exp_lanes as exp_slice,
    log_body log_64 log_32 = log_lanes as log_slice,
    tanh_body tanh_64 tanh_32 = tanh_lanes as tanh_slice,
    sigmoid_body sigmoid_64 sigmoid_32 = sigmoid_lanes as sigmoid_slice,
    softplus_body softplus_64 softplus_32 = softplus_lanes as softplus_slice,
}

#[cfg(test)]
mod tests;
