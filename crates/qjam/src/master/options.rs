//! What a master can be told besides its workers.

use crate::engine::settings::WorkerSettings;
use crate::runs;
use bytes::Bytes;
use qjam_core::scheduler::Config;
use qjam_core::text::printable;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
    /// The level that it was logged with, as Python's `logging` numbers levels; `None` if it was printed.
    pub level: Option<u16>,
}

/// A wait that takes long, and for whom.
///
/// Its text is what is printed: `waiting for big (12 blocks) since 2 s: it has said nothing for 4 s`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// The round; `None` while workers are being started.
    pub round: Option<u64>,
    /// For whom.
    pub workers: Vec<Awaited>,
    /// For how long so far.
    pub since: Duration,
}

/// Somebody who is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Awaited {
    /// Its name: `proc:3`.
    pub worker: String,
    /// How many blocks it has not delivered.
    pub blocks: u32,
    /// What is known of it.
    pub why: String,
}

/// So many are named.
const NAMED_MAX: usize = 8;

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waiting for ")?;
        for (n, awaited) in self.workers.iter().take(NAMED_MAX).enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            match awaited.blocks {
                0 => f.write_str(&awaited.worker)?,
                1 => write!(f, "{} (1 block)", awaited.worker)?,
                blocks => write!(f, "{} ({blocks} blocks)", awaited.worker)?,
            }
        }
        match self.workers.len() {
            0 => f.write_str("results on their way")?,
            n if n > NAMED_MAX => write!(f, " and {} more", n - NAMED_MAX)?,
            _ => {}
        }
        write!(f, " since {} s", self.since.as_secs())?;
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for awaited in self.workers.iter().take(NAMED_MAX) {
            match reasons.iter_mut().find(|(why, _)| *why == awaited.why) {
                Some((_, whose)) => whose.push(&awaited.worker),
                None => reasons.push((&awaited.why, vec![&awaited.worker])),
            }
        }
        match &reasons[..] {
            [] => Ok(()),
            [(why, _)] => write!(f, ": {why}"),
            several => several.iter().enumerate().try_for_each(|(n, (why, whose))| {
                write!(f, "{} {}: {why}", if n == 0 { ":" } else { ";" }, whose.join(", "))
            }),
        }
    }
}

/// Says as what an encoded state is kept, if not as it is; or why it must not be.
type Check = Arc<dyn Fn(&Bytes) -> Result<Option<Bytes>, String> + Send + Sync>;

/// Looks at states from workers before they are kept and passed on to others.
#[derive(Clone)]
pub(crate) struct StateCheck {
    /// The name of the type of states that it looks at.
    pub(crate) kind: &'static str,
    pub(crate) check: Check,
}

/// Functions of the user's that the loop calls.
#[derive(Clone)]
pub(crate) struct Callbacks {
    /// Receives lines that user code printed.
    pub(crate) on_log: Arc<dyn Fn(&LogLine) + Send + Sync>,
    /// Is told of waits.
    pub(crate) on_wait: Arc<dyn Fn(&Waiting) + Send + Sync>,
    pub(crate) state_check: Option<StateCheck>,
}

impl Default for Callbacks {
    fn default() -> Self {
        Callbacks { on_log: Arc::new(print_line), on_wait: Arc::new(print_wait), state_check: None }
    }
}

/// How a master goes about its work. Made by [`Master::builder`](crate::Master::builder).
#[derive(Clone)]
pub(crate) struct Options {
    /// Random streams are keyed by it.
    pub(crate) seed: u64,
    /// What engines need to know.
    pub(crate) workers: WorkerSettings,
    /// Goes on with so many workers if the others cannot be had.
    pub(crate) workers_min: Option<usize>,
    /// Set by the user to end attempts to reach hosts.
    pub(crate) stop: Option<Arc<AtomicBool>>,
    pub(crate) blocks_per_slot: u32,
    pub(crate) balances: bool,
    /// Deadlines of the scheduler; `balances` above is the one that counts.
    pub(crate) deadlines: Config,
    /// So many slots for every round, where they could be chosen.
    pub(crate) fixed_slots: Option<u32>,
    pub(crate) round_timeout: Option<Duration>,
    pub(crate) callbacks: Callbacks,
    pub(crate) runs: runs::RunOptions,
    pub(crate) journal_entries_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 0,
            workers: WorkerSettings::default(),
            workers_min: None,
            stop: None,
            blocks_per_slot: 16,
            balances: true,
            deadlines: Config::default(),
            fixed_slots: None,
            round_timeout: None,
            callbacks: Callbacks::default(),
            runs: runs::RunOptions::default(),
            journal_entries_max: 100_000,
        }
    }
}

#[expect(clippy::print_stderr, reason = "what user code prints belongs on the user's screen")]
fn print_line(line: &LogLine) {
    eprintln!("[{}] {}", line.worker, printable(&line.text));
}

#[expect(clippy::print_stderr, reason = "nobody should have to guess why nothing happens")]
fn print_wait(waiting: &Waiting) {
    eprintln!("[qjam] {}", printable(&waiting.to_string()));
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("memory_bytes_max", &self.workers.memory_bytes_max)
            .field("blocks_per_slot", &self.blocks_per_slot)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::settings::SETUP_BYTES_MAX;

    #[test]
    fn a_wait_names_everybody_and_groups_reasons() {
        let one =
            |worker: &str, blocks, why: &str| Awaited { worker: worker.into(), blocks, why: why.into() };
        let text = |round, workers: Vec<Awaited>| {
            Waiting { round, workers, since: Duration::from_millis(2100) }.to_string()
        };
        let big = || one("big", 12, "it is at work");
        assert_eq!(text(Some(3), vec![big()]), "waiting for big (12 blocks) since 2 s: it is at work");
        assert_eq!(
            text(Some(3), vec![big(), one("small", 1, "it is at work"), one("far", 2, "it sleeps")]),
            "waiting for big (12 blocks), small (1 block), far (2 blocks) since 2 s: big, small: it is at work; far: it sleeps"
        );
        assert_eq!(
            text(None, vec![one("big", 0, "it is being connected to")]),
            "waiting for big since 2 s: it is being connected to"
        );
        assert_eq!(text(Some(0), vec![]), "waiting for results on their way since 2 s");
        let many = (0..20).map(|n| one(&format!("proc:{n}"), 1, "it is at work")).collect();
        assert!(text(Some(0), many).contains("proc:7 (1 block) and 12 more since 2 s: it is at work"));
    }

    #[test]
    fn modules_too_long_for_a_welcome_are_refused_before_anything_starts() {
        let with = |bytes: usize| {
            let modules = bytes::Bytes::from(vec![0; bytes]);
            crate::Master::builder().no_run_file().python_support(modules, (3, 11)).connect("local:1")
        };
        assert!(with(SETUP_BYTES_MAX).is_ok());
        let said = with(SETUP_BYTES_MAX + 1).unwrap_err().to_string();
        assert!(said.starts_with("2097153 bytes of modules for Python on workers"), "{said}");
    }
}
