//! What a master can be told besides its workers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A line that user code printed on a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Who printed it: `proc:3`.
    pub worker: String,
    /// What.
    pub text: String,
    /// Whether to standard error.
    pub is_error: bool,
}

/// Receives lines that user code printed.
pub(crate) type OnLog = Arc<dyn Fn(&LogLine) + Send + Sync>;

/// How a master goes about its work. Made by [`Master::builder`](crate::Master::builder).
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) memory_bytes_max: Option<u64>,
    pub(crate) cache_bytes_max: u64,
    pub(crate) disk_bytes_max: Option<u64>,
    /// Go on with so many workers if the others cannot be had.
    pub(crate) workers_min: Option<usize>,
    /// The executable that goes to hosts, if not this one.
    pub(crate) ship: Option<PathBuf>,
    pub(crate) blocks_per_slot: u32,
    pub(crate) balances: bool,
    pub(crate) deliver_after: Duration,
    pub(crate) round_timeout: Option<Duration>,
    pub(crate) on_log: OnLog,
    pub(crate) lines_per_second_max: u32,
    pub(crate) journal_entries_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 0,
            memory_bytes_max: None,
            cache_bytes_max: 1 << 30,
            disk_bytes_max: None,
            workers_min: None,
            ship: None,
            blocks_per_slot: 16,
            balances: true,
            deliver_after: Duration::from_secs(2),
            round_timeout: None,
            on_log: Arc::new(print_line),
            lines_per_second_max: 1000,
            journal_entries_max: 100_000,
        }
    }
}

#[expect(clippy::print_stderr, reason = "what user code prints belongs on the user's screen")]
fn print_line(line: &LogLine) {
    eprintln!("[{}] {}", line.worker, line.text);
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("blocks_per_slot", &self.blocks_per_slot)
            .finish_non_exhaustive()
    }
}

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
