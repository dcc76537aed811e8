//! Faults for tests, in debug builds alone: messages twice, blobs that are seen late, workers that are killed.
//!
//! `QJAM_STORE_TEST_FAULTS=twice=30,late=30,late_ms=150,kill=1` sends 30 % of the messages twice, hides 30 % of the blobs for 150 ms
//! from everybody, and has the first executor that begins a task killed. Which ones follows from their names.

use qjam_core::time::Span;

/// Says what goes wrong.
const FAULTS: &str = "QJAM_STORE_TEST_FAULTS";

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    twice_percent: u64,
    late_percent: u64,
    late: Span,
    kills: bool,
}

impl Faults {
    /// What the environment asks for.
    pub(crate) fn of_environment() -> Faults {
        let mut faults = Faults::default();
        for word in std::env::var(FAULTS).unwrap_or_default().split(',').filter(|word| !word.is_empty()) {
            let number = word.split_once('=').and_then(|(name, number)| Some((name, number.parse().ok()?)));
            match number {
                Some(("twice", percent)) => faults.twice_percent = percent,
                Some(("late", percent)) => faults.late_percent = percent,
                Some(("late_ms", ms)) => faults.late = Span::from_ms(ms),
                Some(("kill", flag)) => faults.kills = flag != 0,
                _ => panic!("{FAULTS}: `{word}` is no fault"),
            }
        }
        faults
    }

    /// Whether a message is sent twice.
    pub(crate) fn doubles(&self, message: &str) -> bool {
        is_chosen(message, self.twice_percent)
    }

    /// Whether blobs may be seen late.
    pub(crate) fn hides(&self) -> bool {
        self.late_percent > 0
    }

    /// Whether a blob of this age cannot be seen yet.
    pub(crate) fn is_hidden(&self, key: &str, age: Span) -> bool {
        age < self.late && is_chosen(key, self.late_percent)
    }

    /// Whether the first executor of every task is killed.
    pub(crate) fn kills(&self) -> bool {
        self.kills
    }
}

fn is_chosen(name: &str, percent: u64) -> bool {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) % 100 < percent
}
