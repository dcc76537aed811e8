//! The hyperbolic tangent of a slice, eight numbers at a time where the processor can.
//!
//! With `t = exp(2|x|) - 1`, `tanh |x| = t / (t + 2)`, which loses nothing near 0. `t` comes from `2|x| = n ln 2 + r`,
//! a polynomial for `exp(r) - 1` on `|r| <= ln 2 / 2` (the best one of its degree for the shape below, relative error
//! under 2⁻⁶⁰) and `t = 2ⁿ (exp(r) - 1) + (2ⁿ - 1)`. No branch, no table, one division.
//!
//! The result is within [`ULPS_MAX`] units in the last place of the true value (checked over a sweep against arithmetic
//! of twice the length), odd, exact at 0, `±1` at `±∞`, and NaN for NaN.

use super::per_level;

/// Largest difference from the true tangent, in units in the last place.
pub const ULPS_MAX: f64 = 2.5;

per_level! {
    /// Replaces every value by its hyperbolic tangent.
    pub fn tanh_in_place(values: &mut [f64]) = slice
}

#[inline(always)]
fn slice(values: &mut [f64]) {
    for value in values {
        *value = tanh(*value);
    }
}

/// From here on the tangent rounds to 1.
const SATURATED: f64 = 20.0;
/// Adding this leaves the nearest integer in the lowest bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// What `ln 2` has beyond its double.
const LN2_REST: f64 = 2.319_046_813_846_299_6e-17;

/// `(exp(r) - 1 - r) / r²`, lowest power first.
const TAIL: [f64; 11] = [
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

/// The tangent of one number, with the bits of the vector versions.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let positive = x.abs();
    // Written so that NaN is kept.
    let y = 2.0 * if positive > SATURATED { SATURATED } else { positive };
    let shifted = y.mul_add(std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // Exact: every multiple of the double nearest ln 2 is a multiple of 2⁻⁵³, and |r| needs no finer unit.
    let r = (-n).mul_add(std::f64::consts::LN_2, y);
    let mut tail = TAIL[10];
    for i in (0..10).rev() {
        tail = tail.mul_add(r, TAIL[i]);
    }
    // exp(r) - 1 = r + rest; the larger part is kept out of the rounding until the end.
    let rest = (r * r).mul_add(tail, n * -LN2_REST);
    // The integer in the lowest bits moves into the exponent of 1.0.
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0_f64.to_bits()));
    let t = power.mul_add(rest, power.mul_add(r, power - 1.0));
    let result = (t / (t + 2.0)).copysign(x);
    if x.is_nan() { x } else { result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Level;
    use qjam::Rng;

    fn sweep() -> Vec<f64> {
        let mut random = Rng::keyed(7, 0, 0);
        let mut values: Vec<f64> = (0..400_000).map(|i| f64::from(i) * 5.5e-5).collect();
        values.extend((0..400_000).map(|_| random.uniform() * 2.0));
        // All magnitudes, down to the subnormal ones.
        values.extend((0..200_000).map(|_| f64::from_bits(random.next_u64() % 0x4050_0000_0000_0000)));
        values.extend([0.0, f64::MIN_POSITIVE, 5e-324, 19.99, 20.0, 20.01, 1e300, f64::MAX, f64::INFINITY]);
        values
    }

    /// A number of twice the length: an unevaluated sum, larger part first.
    type Double = (f64, f64);

    fn sum(a: Double, b: Double) -> Double {
        let s = a.0 + b.0;
        let v = s - a.0;
        let low = (a.0 - (s - v)) + (b.0 - v) + a.1 + b.1;
        (s + low, low - ((s + low) - s))
    }

    fn product(a: Double, b: Double) -> Double {
        let p = a.0 * b.0;
        let low = a.0.mul_add(b.0, -p) + (a.0 * b.1 + a.1 * b.0);
        (p + low, low - ((p + low) - p))
    }

    /// The tangent of a number in (0, 20] with about 30 digits: `exp(2x / 64) - 1` by its series, then
    /// `exp(2y) - 1 = e (e + 2)` six times.
    fn exact(x: f64) -> Double {
        let y = (x / 32.0, 0.0);
        let mut term = (1.0, 0.0);
        for i in (2..26).rev() {
            let n = f64::from(i);
            let inverse = (1.0 / n, -(1.0 / n).mul_add(n, -1.0) / n);
            term = sum((1.0, 0.0), product(product(term, y), inverse));
        }
        let mut e = product(term, y);
        for _ in 0..6 {
            e = product(e, sum(e, (2.0, 0.0)));
        }
        let below = sum(e, (2.0, 0.0));
        let q = e.0 / below.0;
        let rest = sum(e, product((-q, 0.0), below));
        (q, rest.0 / below.0)
    }

    #[test]
    fn stays_within_the_stated_error_of_the_true_value() {
        let (mut worst, mut at) = (0.0, 0.0);
        for x in sweep().into_iter().step_by(3).filter(|x| (1e-280..20.0).contains(x)) {
            let (y, (high, low)) = (tanh(x), exact(x));
            let unit = f64::from_bits(high.to_bits() + 1) - high;
            let error = (((y - high) - low) / unit).abs();
            if error > worst {
                (worst, at) = (error, x);
            }
        }
        println!("worst error {worst:.3} units in the last place, at {at:e}");
        assert!(worst <= ULPS_MAX, "{worst} at {at:e}");
    }

    #[test]
    fn agrees_with_the_c_library() {
        // The C library's own error is up to two units.
        for x in sweep() {
            assert!(tanh(x).to_bits().abs_diff(x.tanh().to_bits()) <= 4, "{x:e}");
        }
    }

    #[test]
    fn every_level_gives_the_bits_of_the_scalar_function() {
        let values: Vec<f64> = sweep().into_iter().step_by(7).flat_map(|x| [x, -x]).collect();
        let expected: Vec<u64> = values.iter().map(|x| tanh(*x).to_bits()).collect();
        for level in Level::available() {
            let mut out = values.clone();
            tanh_in_place(level, &mut out);
            assert!(out.iter().zip(&expected).all(|(x, y)| x.to_bits() == *y), "{level:?}");
        }
    }

    #[test]
    fn is_odd_and_exact_at_zero_infinity_and_nan() {
        for x in sweep().into_iter().step_by(3) {
            assert_eq!(tanh(-x).to_bits(), (-tanh(x)).to_bits(), "{x:e}");
        }
        assert_eq!(tanh(0.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(tanh(-0.0).to_bits(), (-0.0_f64).to_bits());
        assert_eq!(tanh(5e-324), 5e-324);
        assert_eq!((tanh(f64::INFINITY), tanh(f64::NEG_INFINITY)), (1.0, -1.0));
        assert!(tanh(f64::NAN).is_nan());
        let mut values = [f64::NAN, 1.0, f64::NAN];
        tanh_in_place(Level::best(), &mut values);
        assert!(values[0].is_nan() && values[1] == tanh(1.0) && values[2].is_nan());
    }

    #[test]
    fn never_leaves_the_interval_and_never_falls() {
        let mut previous = 0.0;
        for i in 0..200_000 {
            let y = tanh(f64::from(i) * 1.1e-4);
            assert!(y <= 1.0 && y >= previous - f64::EPSILON, "{i}");
            previous = y;
        }
    }
}
