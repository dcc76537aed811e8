//! Faults for tests, in debug builds alone: messages twice, blobs that are seen late, workers that are killed.
//!
//! `QJAM_STORE_TEST_FAULTS=twice=30,late=30,late_ms=150,kill=1` sends 30 % of the messages twice, hides 30 % of the blobs for 150 ms
//! from everybody, and has the first executor that begins a task killed. Which ones follows from their names. `kill_step=1` has the
//! first executor killed that takes the step after a round, `poison=3` whoever runs the first task of round 3, and `count=1` leaves a
//! blob for every task that is run.

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
    kills_steppers: bool,
    poison_round: Option<u64>,
    counts: bool,
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
                Some(("kill_step", flag)) => faults.kills_steppers = flag != 0,
                Some(("poison", round)) => faults.poison_round = Some(round),
                Some(("count", flag)) => faults.counts = flag != 0,
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

    /// Whether the first executor that takes a step is killed.
    pub(crate) fn kills_steppers(&self) -> bool {
        self.kills_steppers
    }

    /// Whether a task ends everybody who runs it.
    pub(crate) fn is_poison(&self, round: u64, task: u32) -> bool {
        self.poison_round == Some(round) && task == 0
    }

    /// Whether tasks that are run leave a blob.
    pub(crate) fn counts(&self) -> bool {
        self.counts
    }

    /// Whether the first executor of every task is killed.
    pub(crate) fn kills(&self) -> bool {
        self.kills
    }
}

fn is_chosen(name: &str, percent: u64) -> bool {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) % 100 < percent
}
