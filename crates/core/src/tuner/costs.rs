//! Measured costs, and the weight of a new measurement.
//!
//! Machines run other programs too, so a single outlier is ignored until the next measurement confirms it. A slow first time (memory first
//! touched, chunks opened) is discarded if the second is faster.

use super::{AGAIN_AFTER, FAR_LONGER};
use std::collections::VecDeque;

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

/// How many rounds are looked back at.
const RECENT: usize = 16;
/// Rounds whose costs differ by this factor differ in their work.
const VARIES: f64 = 8.0;

/// What each of the last rounds took on one thread, or would have.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    us: VecDeque<f64>,
}

impl Recent {
    pub(super) fn add(&mut self, us: f64) {
        self.us.truncate(RECENT - 1);
        self.us.push_front(us);
    }

    /// About the least and the most, where they are far apart. A single round at either end may be an accident and does not count.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let mut sorted: Vec<f64> = self.us.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*sorted.get(1)?, *sorted.get(sorted.len().checked_sub(2)?)?);
        (most >= VARIES * least).then_some((least, most))
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
    /// What the last such round would have taken on one thread.
    pub(super) serial_us: f64,
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

    /// Takes in a round: what the slowest worker took, and what one thread would have.
    pub(super) fn learn(
        &mut self,
        is_cold: bool,
        overhead_us: f64,
        (worker_us, serial_us): (f64, f64),
        round: u64,
    ) {
        let is_early = self.is_cold() || self.visits < 3;
        self.overhead.learn(overhead_us, is_early);
        let share = worker_us / serial_us;
        let is_far_longer = serial_us > FAR_LONGER * self.serial_us;
        self.serial_us = serial_us;
        self.share = match self.visits {
            0 => share,
            _ if is_far_longer => share,
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
    fn rounds_vary_if_short_and_long_ones_were_each_seen_twice_lately() {
        let mut recent = Recent::default();
        for us in [10.0, 12.0, 9_000.0, 11.0] {
            recent.add(us);
            assert_eq!(recent.range(), None);
        }
        recent.add(8_000.0);
        assert_eq!(recent.range(), Some((11.0, 8_000.0)));
        for _ in 0..RECENT - 2 {
            recent.add(10.0);
        }
        assert_eq!(recent.range(), None, "only one long one is left");
    }

    #[test]
    fn what_was_slow_the_first_time_is_forgotten() {
        let mut tried = Tried::default();
        tried.learn(true, 3_000.0, (90.0, 100.0), 1);
        assert!(tried.is_cold());
        tried.learn(false, 60.0, (50.0, 100.0), 2);
        assert!(!tried.is_cold() && tried.share == 0.5 && tried.overhead.get() == Some(60.0));
    }
}
