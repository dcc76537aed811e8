//! The line that moves while a long command runs: how far it is, how fast, how long yet, with whom, and for whom it waits.

use crate::output;
use qjam::{Builder, Master, Waiting};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So often the line changes.
const EVERY: Duration = Duration::from_millis(100);

/// The line. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// When the work began, and how many evaluations it has.
    began: Option<Instant>,
    total: u32,
    /// When the line was last printed, and what it said.
    printed: Option<Instant>,
    text: String,
    lost: u64,
    /// Nothing moves: standard output is for programs.
    is_still: bool,
}

impl Progress {
    /// A line that is never shown, for commands whose standard output is read by programs.
    pub(crate) fn still() -> Progress {
        Progress(Arc::new(Mutex::new(State { is_still: true, ..State::default() })))
    }

    fn moves(&self) -> bool {
        output::is_terminal() && !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_still
    }

    /// A master in the making whose waits go into the line, or where nothing moves, to standard error.
    pub(crate) fn builder(&self) -> Builder {
        let this = self.clone();
        Master::builder().on_wait(move |waiting| this.wait(waiting))
    }

    /// Work of so many evaluations begins.
    pub(crate) fn begin(&self, total: u32) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State { began: Some(Instant::now()), total, is_still: state.is_still, ..State::default() };
    }

    /// An evaluation is done.
    pub(crate) fn step(&self, m: &Master, n: u32, cost: f64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.lost += m.last_round().map_or(0, |report| report.lost);
        if !output::is_terminal() || state.is_still || state.printed.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        let seconds = state.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        let workers = m.workers().len() as u64;
        state.text = text(n, state.total, cost, seconds, workers, state.lost);
        output::moving(&state.text);
        state.printed = Some(Instant::now());
    }

    fn wait(&self, waiting: &Waiting) {
        if self.moves() {
            let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = if state.text.is_empty() { String::new() } else { format!("{}; ", state.text) };
            output::moving(&format!("{before}{waiting}"));
        } else {
            output::note(&waiting.to_string());
        }
    }
}

fn text(n: u32, total: u32, cost: f64, seconds: f64, workers: u64, lost: u64) -> String {
    let rate = if seconds > 0.0 { f64::from(n) / seconds } else { 0.0 };
    let left = if rate > 0.0 { f64::from(total.saturating_sub(n)) / rate } else { 0.0 };
    let lost = if lost == 0 { String::new() } else { format!(", {lost} lost") };
    format!(
        "  evaluation {n}/{total}, cost {cost:.6}, {rate:.1}/s, {left:.0} s left, {}{lost}",
        output::count(workers, "worker"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_all_that_one_wants_to_know() {
        assert_eq!(
            text(30, 150, 0.25, 10.0, 2, 1),
            "  evaluation 30/150, cost 0.250000, 3.0/s, 40 s left, 2 workers, 1 lost"
        );
        assert_eq!(text(0, 5, 1.0, 0.0, 1, 0), "  evaluation 0/5, cost 1.000000, 0.0/s, 0 s left, 1 worker");
    }
}
