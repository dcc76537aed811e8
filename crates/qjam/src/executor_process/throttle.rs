//! A bound on the lines that one worker prints.

/// Lets so many lines per second and worker through and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    second: u64,
    passed: u32,
    pub(crate) dropped: u64,
}

impl Throttle {
    /// Whether a line may pass at this time.
    pub(crate) fn passes(&mut self, now_us: u64, max: u32) -> bool {
        let second = now_us / 1_000_000;
        if second != self.second {
            (self.second, self.passed) = (second, 0);
        }
        let passes = self.passed < max;
        if passes {
            self.passed += 1;
        } else {
            self.dropped += 1;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut throttle = Throttle::default();
        let passed = (0..3_000u64).filter(|n| throttle.passes(n * 1_000, 100)).count();
        assert_eq!((passed, throttle.dropped), (300, 2_700));
    }
}
