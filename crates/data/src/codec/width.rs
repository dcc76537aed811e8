//! How many bytes of the body the values of a type take.

/// What is known of it from the type alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Nothing: values may be long, or have buffers.
    Any,
    /// No value takes more.
    AtMost(usize),
    /// All values take as many.
    Exactly(usize),
}

/// Types with wider values are written as if nothing was known.
const BYTES_MAX: usize = 4 << 10;

impl Width {
    /// The width of values that follow one another.
    pub const fn sum(parts: &[Width]) -> Width {
        let (mut bytes, mut varies, mut n) = (0_usize, false, 0);
        while n < parts.len() {
            bytes = bytes.saturating_add(match parts[n] {
                Width::Any => return Width::Any,
                Width::AtMost(more) => {
                    varies = true;
                    more
                }
                Width::Exactly(more) => more,
            });
            n += 1;
        }
        Width::of(bytes, varies)
    }

    /// The width of so many values that follow one another.
    pub const fn times(self, n: usize) -> Width {
        match self {
            Width::Any => Width::Any,
            Width::AtMost(bytes) => Width::of(bytes.saturating_mul(n), true),
            Width::Exactly(bytes) => Width::of(bytes.saturating_mul(n), false),
        }
    }

    const fn of(bytes: usize, varies: bool) -> Width {
        match (bytes > BYTES_MAX, varies) {
            (true, _) => Width::Any,
            (false, true) => Width::AtMost(bytes),
            (false, false) => Width::Exactly(bytes),
        }
    }

    /// The most that a value takes; zero if nothing is known.
    pub const fn bytes_max(self) -> usize {
        match self {
            Width::Any => 0,
            Width::AtMost(bytes) | Width::Exactly(bytes) => bytes,
        }
    }

    /// Takes the bytes of one value from the beginning of these.
    #[inline]
    pub fn take<'a>(self, rest: &mut &'a [u8]) -> &'a [u8] {
        let (bytes, after) = rest.split_at(self.bytes_max());
        *rest = after;
        bytes
    }
}
