//! Where the time of a fit went: by phases, and by who computed.

use crate::output;
use qjam::Master;
use std::time::Instant;

/// A clock for phases, and sums over rounds.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    began: Instant,
    /// Phases and when they ended, in order.
    until: Vec<(&'static str, Instant)>,
    /// Rounds that were counted, and the sums of what their reports say.
    rounds: u64,
    total_us: u64,
    worker_us: u64,
    master_us: u64,
}

impl Spent {
    pub(crate) fn new() -> Spent {
        Spent { began: Instant::now(), until: Vec::new(), rounds: 0, total_us: 0, worker_us: 0, master_us: 0 }
    }

    /// A phase ends now.
    pub(crate) fn done(&mut self, what: &'static str) {
        self.until.push((what, Instant::now()));
    }

    /// Counts the last round.
    pub(crate) fn round(&mut self, master: &Master) {
        if let Some(report) = master.last_round() {
            self.rounds += 1;
            self.total_us += report.total_us;
            self.worker_us += report.worker_us;
            self.master_us += report.master_us;
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.until.last().map_or(0.0, |(_, at)| at.duration_since(self.began).as_secs_f64())
    }

    pub(crate) fn parts(&self) -> Vec<(&'static str, f64)> {
        let begins = std::iter::once(self.began).chain(self.until.iter().map(|(_, at)| *at));
        let part = |((what, at), begin): (&(&'static str, Instant), Instant)| {
            (*what, at.duration_since(begin).as_secs_f64())
        };
        self.until.iter().zip(begins).map(part).collect()
    }

    pub(crate) fn text(&self) -> String {
        let parts: Vec<String> = self.parts().iter().map(|(what, s)| format!("{what} {s:.2}")).collect();
        format!("{:.2} s: {}", self.seconds(), parts.join(", "))
    }

    pub(crate) fn rounds_text(&self) -> Option<String> {
        let share = |us: u64| us.saturating_mul(100).checked_div(self.total_us);
        let (worker, master) = (share(self.worker_us)?, share(self.master_us)?);
        let rest = 100_u64.saturating_sub(worker + master);
        Some(format!(
            "{} of {}: workers computing {worker} %, master {master} %, the rest {rest} %",
            output::count(self.rounds, "round"),
            output::time(self.total_us / self.rounds.max(1))
        ))
    }
}
