//! What recording a run may take of the run's time.
//!
//! What costs little is always recorded. Long values, which are hashed, encoded and written, may take a set share of the time
//! since the run began ([`COST`] unless the user says otherwise), and short writes another ([`WRITE_COST`]).

use std::time::{Duration, Instant};

/// The share of the time that hashing and keeping long values may take.
pub(super) const COST: f64 = 0.02;
/// What it may take besides: a run that is over at once is recorded whole, and one of a quarter of a second not slowed down.
const CREDIT: Duration = Duration::from_millis(10);
/// The share of the time that short writes may take.
const WRITE_COST: f64 = 0.0025;

/// The time that recording has taken, and may take.
pub(super) struct Effort {
    pub(super) started: Instant,
    /// The share of the time that long values may cost.
    share: f64,
    long: Duration,
    short: Duration,
}

impl Effort {
    pub(super) fn new(share: f64) -> Effort {
        Effort { started: Instant::now(), share, long: Duration::ZERO, short: Duration::ZERO }
    }

    /// Counts a write, or work on a long value.
    pub(super) fn took(&mut self, time: Duration, long: bool) {
        *(if long { &mut self.long } else { &mut self.short }) += time;
    }

    /// Whether a long value may be looked at now.
    pub(super) fn allows_long(&self) -> bool {
        let allowed_s = CREDIT.as_secs_f64() + self.started.elapsed().as_secs_f64() * self.share;
        self.long.as_secs_f64() <= allowed_s
    }

    /// Whether a short write may be made now.
    pub(super) fn allows_short(&self) -> bool {
        self.short <= self.started.elapsed().mul_f64(WRITE_COST)
    }
}
