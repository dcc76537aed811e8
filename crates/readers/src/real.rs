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
    ($kind:ident) => {
        impl Real for $kind {
            const MISSING: Self = $kind::NAN;

            #[inline]
            fn parse(text: &[u8]) -> Option<(Self, usize)> {
                if let Some((value, length)) = short(text) {
                    return Some((value as $kind, length));
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

real!(f32);
real!(f64);

/// Whole numbers of up to seven digits, which are exact in either type: most of what stands in sparse files, and in
/// many tables.
#[inline]
fn short(text: &[u8]) -> Option<(f64, usize)> {
    let negative = text.first() == Some(&b'-');
    let (mut at, mut number) = (usize::from(negative), 0_u32);
    let start = at;
    while let Some(byte) = text.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            if matches!(byte, b'.' | b'e' | b'E') {
                return None;
            }
            break;
        }
        if at - start == 7 {
            return None;
        }
        number = number * 10 + u32::from(digit);
        at += 1;
    }
    if at == start {
        return None;
    }
    let value = f64::from(number);
    Some((if negative { -value } else { value }, at))
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
        assert_eq!(<f64 as Real>::parse(b"12,5"), Some((12.0, 2)));
        assert_eq!(<f64 as Real>::parse(b"12:5"), Some((12.0, 2)));
        for text in ["", "-", "x", ",", "+-1"] {
            assert!(<f64 as Real>::parse(text.as_bytes()).is_none(), "{text:?}");
        }
    }
}
