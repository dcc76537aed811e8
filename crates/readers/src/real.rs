//! Parsing of decimal numbers into `f64` or `f32`, correctly rounded.

use qjam::chunk::Element;

/// A type of numbers that readers produce: `f32` or `f64`.
pub trait Real: Element + PartialOrd + Default + sealed::Sealed {
    /// Marks a missing value until it is replaced.
    #[doc(hidden)]
    const MISSING: Self;
    /// Parses the number at the beginning of a text, correctly rounded; also returns its length in bytes.
    #[doc(hidden)]
    fn parse(text: &[u8]) -> Option<(Self, usize)>;
    #[doc(hidden)]
    fn from_f64(value: f64) -> Self;
    #[doc(hidden)]
    fn to_f64(self) -> f64;
    #[doc(hidden)]
    fn finite(self) -> bool;
    #[doc(hidden)]
    fn missing(self) -> bool;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! real {
    ($kind:ident, $bits:ident, $exact_max:expr, $tens_max:literal) => {
        impl Real for $kind {
            const MISSING: Self = $kind::NAN;

            #[inline]
            fn parse(text: &[u8]) -> Option<(Self, usize)> {
                let Some(Plain { digits, behind, negative, length }) = plain(text) else {
                    return fast_float2::parse_partial(text).ok();
                };
                let value = if (digits <= $exact_max && behind <= $tens_max) || digits == 0 {
                    // Both are exact in this type, so their quotient is correctly rounded.
                    digits as $kind / TENS[behind] as $kind
                } else {
                    let (whole, twos) = quotient(digits, behind);
                    whole as $kind * power_of_two::<$kind>(twos)
                };
                Some((if negative { -value } else { value }, length))
            }

            #[inline]
            fn from_f64(value: f64) -> Self {
                value as $kind
            }

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn finite(self) -> bool {
                self.is_finite()
            }

            #[inline]
            fn missing(self) -> bool {
                self.is_nan()
            }
        }

        impl Binary for $kind {
            fn from_exponent(twos: i32) -> Self {
                $kind::from_bits(((twos + $kind::MAX_EXP - 1) as $bits) << ($kind::MANTISSA_DIGITS - 1))
            }
        }
    };
}

real!(f32, u32, 1 << 24, 10);
real!(f64, u64, 1 << 53, 19);

/// Powers of ten. All are exact in `f64`, and up to the tenth in `f32`.
const TENS: [f64; 20] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19,
];

/// Powers of ten below 2^64.
const WHOLE_TENS: [u64; 20] = {
    let mut tens = [1; 20];
    let mut i = 1;
    while i < 20 {
        tens[i] = tens[i - 1] * 10;
        i += 1;
    }
    tens
};

/// Floating-point types that can be built from a binary exponent.
trait Binary {
    /// Two to this power. The result must be a normal number.
    fn from_exponent(twos: i32) -> Self;
}

#[inline]
fn power_of_two<T: Binary>(twos: i32) -> T {
    T::from_exponent(twos)
}

/// `digits / 10^behind` as at least 63 bits and a power of two. The last bit is sticky: it is set if any following bit is, so
/// that rounding to fewer bits rounds the quotient correctly.
#[inline]
fn quotient(digits: u64, behind: usize) -> (u64, i32) {
    let ten = WHOLE_TENS[behind];
    let (above, below) = (digits.leading_zeros(), ten.leading_zeros());
    let (dividend, divisor) = (u128::from(digits << above) << 63, u128::from(ten << below));
    // The highest bit of the divisor is set and the dividend is below 2^127, so the quotient has at most 64 bits.
    let whole = (dividend / divisor) as u64;
    let rest = dividend - u128::from(whole) * divisor;
    (whole | u64::from(rest != 0), below as i32 - above as i32 - 63)
}

/// A plain number of up to 19 digits, without exponent.
struct Plain {
    digits: u64,
    /// Number of digits after the decimal point.
    behind: usize,
    negative: bool,
    /// Length in bytes.
    length: usize,
}

/// Reads a plain number, eight digits at a time.
#[inline]
fn plain(text: &[u8]) -> Option<Plain> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let (front, mut at) = run(text, start, 0)?;
    let (mut digits, before) = (front, at - start);
    let mut behind = 0;
    if text.get(at) == Some(&b'.') {
        (digits, at) = run(text, at + 1, digits)?;
        behind = at - start - before - 1;
    }
    // Leading zeros do not count. More than 19 digits might not fit.
    let counted = if front == 0 { behind } else { before + behind };
    if before > 19 || counted > 19 || before + behind == 0 || matches!(text.get(at), Some(b'e' | b'E')) {
        return None;
    }
    Some(Plain { digits, behind, negative, length: at })
}

/// Appends the digits at `at` to `number`; returns the number and the end of the digits. `None` if there are too many.
#[inline]
fn run(text: &[u8], mut at: usize, mut number: u64) -> Option<(u64, usize)> {
    let start = at;
    loop {
        let word = word(text, at);
        // The highest bit of each byte is set unless it is a digit.
        let others = (word.wrapping_add(0x4646_4646_4646_4646) | word.wrapping_sub(0x3030_3030_3030_3030))
            & 0x8080_8080_8080_8080;
        let count = others.trailing_zeros() as usize / 8;
        if count == 0 {
            return Some((number, at));
        }
        // Shift the digits to the upper end, filled with zeros; then combine pairs, fours and eights.
        let word = (word & 0x0f0f_0f0f_0f0f_0f0f) << (64 - 8 * count);
        let word = (word.wrapping_mul(10) + (word >> 8)) & 0x00ff_00ff_00ff_00ff;
        let word = (word.wrapping_mul(100) + (word >> 16)) & 0x0000_ffff_0000_ffff;
        let word = (word.wrapping_mul(10_000) + (word >> 32)) & 0xffff_ffff;
        number = number.wrapping_mul(WHOLE_TENS[count]).wrapping_add(word);
        at += count;
        if count < 8 {
            return Some((number, at));
        }
        if at - start > 24 {
            return None;
        }
    }
}

/// Eight bytes from `at` on, filled with zeros beyond the end of the text.
#[inline]
fn word(text: &[u8], at: usize) -> u64 {
    match text.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => end_word(text, at),
    }
}

#[cold]
fn end_word(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    u64::from_le_bytes(std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_rust_reads_them() {
        for text in [
            "0",
            "-0",
            "7",
            "-42",
            "9999999",
            "10000000",
            "123456789012345678901234567890",
            "1.5",
            "-0.1",
            "1e3",
            "2.5E-3",
            "1e400",
            "4.9e-324",
            "0.3",
            "3.4028236e38",
            ".5",
            "5.",
            "0.00000000000000000001",
            "0.30000000000000004",
            "1.7976931348623157",
            "9007199254740993",
            "9007199254740992.5",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551616.5",
            "0.0000000000000000",
            "-0.00000000000000000000000000",
            "9999999999999999999",
            "0000000000000000000000001.5",
            "1.00000000000000000000000001",
            "16777217",
            "8388608.5",
            "8388609.5000000000001",
        ] {
            let (value, length) = <f64 as Real>::parse(text.as_bytes()).unwrap();
            assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
            assert_eq!(length, text.len(), "{text}");
            let (value, _) = <f32 as Real>::parse(text.as_bytes()).unwrap();
            assert_eq!(value.to_bits(), text.parse::<f32>().unwrap().to_bits(), "{text}");
        }
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (digits, point) =
                ((state >> 33) % 10_u64.pow((state >> 20) as u32 % 11), (state >> 10) as usize % 12);
            let mut text = digits.to_string();
            // Every other number is a long one.
            if state & 1 == 0 {
                text = format!("{:.*}", point + 6, f64::from_bits(0x3f00_0000_0000_0000 + (state >> 5)));
            } else if point <= text.len() {
                text.insert(point, '.');
            }
            if text == "." {
                continue;
            }
            let expected = (text.parse::<f64>().unwrap(), text.parse::<f32>().unwrap());
            let found = (<f64 as Real>::parse(text.as_bytes()), <f32 as Real>::parse(text.as_bytes()));
            assert_eq!(found, (Some((expected.0, text.len())), Some((expected.1, text.len()))), "{text}");
        }
        assert_eq!(<f64 as Real>::parse(b"12,5"), Some((12.0, 2)));
        assert_eq!(<f64 as Real>::parse(b"12:5"), Some((12.0, 2)));
        for text in ["", "-", ".", "-.", "x", ",", "+-1"] {
            assert!(<f64 as Real>::parse(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
