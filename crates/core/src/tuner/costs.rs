//! Measured costs, and the weight of a new measurement.
//!
//! Machines run other programs too, so a single outlier is ignored until the next measurement confirms it. A slow first time (memory first
//! touched, chunks opened) is discarded if the second is faster.

use super::AGAIN_AFTER;

/// How much of a new measurement is believed.
const TRUST: f64 = 0.3;
/// One that is off by more than this factor waits for another like it.
const PLAIN: f64 = 1.5;

/// A cost that is measured again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    value: Option<f64>,
    /// Measurements in a row that were far off, on this side.
    odd: i32,
}

impl Estimate {
    pub(super) fn get(&self) -> Option<f64> {
        self.value
    }

    pub(super) fn set(&mut self, value: f64) {
        (self.value, self.odd) = (Some(value), 0);
    }

    /// Takes in a measurement. While the earlier ones count as `early`, a lower one takes their place.
    pub(super) fn learn(&mut self, now: f64, early: bool) {
        let Some(value) = self.value else { return self.set(now) };
        if early && now < value {
            return self.set(now);
        }
        let side = if now > PLAIN * value {
            1
        } else if now * PLAIN < value {
            -1
        } else {
            self.set(value + TRUST * (now - value));
            return;
        };
        self.odd = if self.odd.signum() == side { self.odd + side } else { side };
        if self.odd.abs() >= 2 {
            self.set(now);
        }
    }
}

/// A choice that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tried {
    pub(super) visits: u32,
    /// Whether all chunks were at hand at least once.
    is_warm: bool,
    /// What a round costs beside its computing.
    pub(super) overhead: Estimate,
    /// Time of the slowest worker, over that of one thread.
    pub(super) share: f64,
    /// In which round it may be tried again, if it is not chosen; and how long to wait after that.
    pub(super) again_at: u64,
    patience: u32,
}

impl Tried {
    /// Whether its cost is still that of a first time.
    pub(super) fn is_cold(&self) -> bool {
        self.visits < 2 && !self.is_warm
    }

    /// It was used in this round.
    pub(super) fn visit(&mut self, round: u64) {
        self.visits += 1;
        if round >= self.again_at {
            self.again_at = round + (AGAIN_AFTER << self.patience.min(16));
            self.patience += 1;
        } else {
            // In use: whoever leaves it comes back soon.
            self.again_at = self.again_at.max(round + AGAIN_AFTER);
        }
    }

    pub(super) fn learn(&mut self, is_cold: bool, overhead_us: f64, share: f64, round: u64) {
        let is_early = self.is_cold() || self.visits < 3;
        self.overhead.learn(overhead_us, is_early);
        self.share = match self.visits {
            0 => share,
            _ if is_early => self.share.min(share),
            _ => self.share + 0.05 * (share - self.share),
        };
        self.is_warm |= !is_cold;
        self.visit(round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_measurement_is_not_believed_and_two_are() {
        let mut cost = Estimate::default();
        cost.learn(100.0, false);
        cost.learn(110.0, false);
        cost.learn(5_000.0, false);
        assert!(cost.get().is_some_and(|us| us < 110.0));
        cost.learn(90.0, false);
        cost.learn(5_000.0, false);
        assert!(cost.get().is_some_and(|us| us < 110.0), "not in a row");
        cost.learn(5_000.0, false);
        assert_eq!(cost.get(), Some(5_000.0));
    }

    #[test]
    fn what_was_slow_the_first_time_is_forgotten() {
        let mut tried = Tried::default();
        tried.learn(true, 3_000.0, 0.9, 1);
        assert!(tried.is_cold());
        tried.learn(false, 60.0, 0.5, 2);
        assert!(!tried.is_cold() && tried.share == 0.5 && tried.overhead.get() == Some(60.0));
    }
}
