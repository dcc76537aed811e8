//! The last events of a run as text, for diagnosing a failure.
//!
//! Writing lines costs more than the run itself, so the trace is off by default. A seed determines everything, so a failing one is
//! run again with the trace on.

use qjam_core::time::{Span, Time};
use std::collections::VecDeque;

/// A bounded list of lines, oldest first.
#[derive(Debug, Default)]
pub struct Trace {
    lines: VecDeque<String>,
    lines_max: usize,
}

impl Trace {
    /// One that keeps nothing.
    pub fn off() -> Self {
        Trace::default()
    }

    /// One that keeps the last so many lines.
    pub fn last(lines_max: usize) -> Self {
        Trace { lines: VecDeque::new(), lines_max }
    }

    /// Whether lines are kept.
    pub fn is_on(&self) -> bool {
        self.lines_max > 0
    }

    /// Adds a line, which is written only when the trace is on.
    pub(crate) fn note(&mut self, now: Time, line: impl FnOnce() -> String) {
        if self.lines_max == 0 {
            return;
        }
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>11}  {}", Span(now.0).to_string(), line()));
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
