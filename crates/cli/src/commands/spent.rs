//! Where the time of a fit went: by phases, and by who computed.

use crate::output;
use qjam::Master;
use qjam_algos::learner::Progress;
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
    lost: u64,
    /// When the first round was counted.
    first_round: Option<Instant>,
    steps: Option<Steps>,
}

/// Steps of a learner since the first that was seen.
#[derive(Clone, Copy, Debug)]
struct Steps {
    first: u64,
    began: Instant,
    last: u64,
    most: Option<u64>,
}

impl Spent {
    pub(crate) fn new() -> Spent {
        Spent {
            began: Instant::now(),
            until: Vec::new(),
            rounds: 0,
            total_us: 0,
            worker_us: 0,
            master_us: 0,
            lost: 0,
            first_round: None,
            steps: None,
        }
    }

    /// A phase ends now.
    pub(crate) fn done(&mut self, what: &'static str) {
        self.until.push((what, Instant::now()));
    }

    /// The learner has made a step: counts it, and the last round.
    pub(crate) fn step(&mut self, master: &Master, progress: &Progress<'_>) {
        self.round(master);
        let (last, most) = (progress.step, progress.steps_max);
        self.steps = match self.steps {
            Some(steps) if steps.last < last => Some(Steps { last, most, ..steps }),
            // The first, or that of another model.
            _ => Some(Steps { first: last, began: Instant::now(), last, most }),
        };
    }

    /// Seconds that the fit still takes at most at the pace of the steps so far, where the learner knows how many there are at most.
    pub(crate) fn left_max(&self) -> Option<f64> {
        let steps = self.steps?;
        left_max(
            steps.last - steps.first,
            steps.most?.saturating_sub(steps.last),
            steps.began.elapsed().as_secs_f64(),
        )
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Seconds since the beginning.
    pub(crate) fn so_far(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn round(&mut self, master: &Master) {
        if let Some(report) = master.last_round() {
            self.rounds += 1;
            self.total_us += report.total_us;
            self.worker_us += report.worker_us;
            self.master_us += report.master_us;
            self.lost += report.lost;
            self.first_round.get_or_insert_with(Instant::now);
        }
    }

    /// How fast it goes, and with how many workers, for the end of a line about progress.
    pub(crate) fn pace(&self, workers: usize) -> String {
        let seconds = self.first_round.map_or(0.0, |at| at.elapsed().as_secs_f64());
        pace(self.rounds, seconds, self.left_max(), workers as u64, self.lost)
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

/// Seconds for the steps that are left at most, if so many took so long.
fn left_max(steps: u64, left: u64, seconds: f64) -> Option<f64> {
    (steps > 0 && left > 0).then(|| seconds / steps as f64 * left as f64)
}

fn pace(rounds: u64, seconds: f64, left_max: Option<f64>, workers: u64, lost: u64) -> String {
    let mut text = String::new();
    if rounds > 1 && seconds > 0.0 {
        // The first round began the clock.
        text.push_str(&format!(", {:.1} rounds/s", (rounds - 1) as f64 / seconds));
    }
    if let Some(left) = left_max {
        text.push_str(&format!(", at most {left:.0} s left"));
    }
    text.push_str(&format!(", {}", output::count(workers, "worker")));
    if lost > 0 {
        text.push_str(&format!(", {lost} lost"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_has_rate_time_left_workers_and_losses() {
        assert_eq!(pace(11, 4.0, None, 2, 1), ", 2.5 rounds/s, 2 workers, 1 lost");
        assert_eq!(pace(11, 4.0, Some(89.7), 2, 0), ", 2.5 rounds/s, at most 90 s left, 2 workers");
        assert_eq!(pace(1, 0.0, None, 1, 0), ", 1 worker");
    }

    #[test]
    fn the_time_left_is_that_of_the_steps_left_at_the_pace_so_far() {
        assert_eq!(left_max(10, 290, 4.0), Some(116.0));
        assert_eq!(left_max(0, 290, 4.0), None, "the first step began the clock");
        assert_eq!(left_max(10, 0, 4.0), None, "all were taken");
    }
}
