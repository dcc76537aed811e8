//! Time as a number that is passed in. Nothing in this crate reads a clock.

use std::fmt;
use std::ops::{Add, Sub};

/// Microseconds since an origin that the caller chooses (the simulator chooses zero).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// A number of milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Span(ms * 1000)
    }
}

impl Time {
    /// The time since `earlier`; zero if it is in the future.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 1_000 => write!(f, "{us} µs"),
            us if us < 1_000_000 => write!(f, "{:.1} ms", us as f64 / 1e3),
            us => write!(f, "{:.2} s", us as f64 / 1e6),
        }
    }
}
