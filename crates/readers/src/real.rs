//! Numbers that are read: `f64` or `f32`.

use qjam::chunk::Element;

/// A type that numbers in files are read as.
pub trait Real: Element + PartialOrd + Default + sealed::Sealed {
    /// What stands for a missing value until something takes its place.
    #[doc(hidden)]
    const MISSING: Self;
    /// The number at the beginning of a text, correctly rounded, and how many bytes it takes.
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
    ($kind:ident, $digits_max:literal) => {
        impl Real for $kind {
            const MISSING: Self = $kind::NAN;

            #[inline]
            fn parse(text: &[u8]) -> Option<(Self, usize)> {
                if let Some((number, behind, negative, length)) = short(text, $digits_max) {
                    const TENS: [$kind; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
                    let value = number as $kind / TENS[behind];
                    return Some((if negative { -value } else { value }, length));
                }
                fast_float2::parse_partial(text).ok()
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
    };
}

// So many digits are below 2^24, and fit 32 bits.
real!(f32, 7);
real!(f64, 9);

/// A plain number of few digits, as most numbers in tables and sparse files are: its digits as a whole number, how many
/// of them are behind the point, whether it is negative, and how many bytes it takes.
///
/// Both the digits and the power of ten are exact in either type then, so that their quotient is the number, correctly
/// rounded.
#[inline]
fn short(text: &[u8], digits_max: usize) -> Option<(u32, usize, bool, usize)> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let (mut at, mut number, mut point) = (start, 0_u32, None);
    while let Some(byte) = text.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            if at - start - usize::from(point.is_some()) == digits_max {
                return None;
            }
            number = number * 10 + u32::from(digit);
        } else if *byte == b'.' && point.is_none() {
            point = Some(at);
        } else if matches!(byte, b'e' | b'E') {
            return None;
        } else {
            break;
        }
        at += 1;
    }
    let digits = at - start - usize::from(point.is_some());
    let behind = point.map_or(0, |point| at - point - 1);
    (digits > 0).then_some((number, behind, negative, at))
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
            if point <= text.len() {
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
