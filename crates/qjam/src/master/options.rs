//! What a master can be told besides its workers.

use crate::engine::{Seat, SeatKind};
use crate::{memory, python, runs, worker};
use bytes::Bytes;
use std::fmt;
use std::io;
use std::path::PathBuf;
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

/// Is told of waits.
pub(crate) type OnWait = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// Receives lines that user code printed.
pub(crate) type OnLog = Arc<dyn Fn(&LogLine) + Send + Sync>;

/// How a master goes about its work. Made by [`Master::builder`](crate::Master::builder).
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) memory_bytes_max: Option<u64>,
    /// `None` for what memory allows.
    pub(crate) cache_bytes_max: Option<u64>,
    pub(crate) disk_bytes_max: Option<u64>,
    /// Go on with so many workers if the others cannot be had.
    pub(crate) workers_min: Option<usize>,
    /// The executable that goes to hosts, if not this one.
    pub(crate) ship: Option<PathBuf>,
    /// The executable that processes here are started from, if not this one.
    pub(crate) local_executable: Option<PathBuf>,
    pub(crate) python: PythonOptions,
    /// Set when hosts are to be knocked at no longer.
    pub(crate) stop: Option<Arc<AtomicBool>>,
    pub(crate) blocks_per_slot: u32,
    pub(crate) balances: bool,
    /// Ranks may have their library add results up.
    pub(crate) any_order: bool,
    /// So many slots for every round, where they could be chosen.
    pub(crate) fixed_slots: Option<u32>,
    pub(crate) deliver_after: Duration,
    pub(crate) round_timeout: Option<Duration>,
    pub(crate) on_log: OnLog,
    pub(crate) on_wait: OnWait,
    pub(crate) runs: runs::Wanted,
    pub(crate) lines_per_second_max: u32,
    pub(crate) journal_entries_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: 0,
            memory_bytes_max: None,
            cache_bytes_max: None,
            disk_bytes_max: None,
            workers_min: None,
            ship: None,
            local_executable: None,
            python: PythonOptions::default(),
            stop: None,
            blocks_per_slot: 16,
            balances: true,
            any_order: false,
            fixed_slots: None,
            deliver_after: Duration::from_secs(2),
            round_timeout: None,
            on_log: Arc::new(print_line),
            on_wait: Arc::new(print_wait),
            runs: runs::Wanted::default(),
            lines_per_second_max: 1000,
            journal_entries_max: 100_000,
        }
    }
}

/// Most bytes that are told of Python: a frame has room for twice as many.
const SETUP_BYTES_MAX: usize = 2 << 20;

/// What workers are told of Python.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonOptions {
    /// The bundle of modules, and the version of who made it. Without it nobody is told anything.
    pub(crate) support: Option<(Bytes, (u8, u8))>,
    pub(crate) interpreter: Option<String>,
    pub(crate) path: Vec<String>,
    pub(crate) wanted: Option<String>,
}

impl PythonOptions {
    /// Refuses what would be too long for a welcome.
    pub(super) fn must_fit(&self) -> io::Result<()> {
        let bytes = self.support.as_ref().map_or(0, |(support, _)| support.len())
            + self.path.iter().map(String::len).sum::<usize>();
        if bytes > SETUP_BYTES_MAX {
            let why = format!(
                "{bytes} bytes of modules for Python on workers; at most {SETUP_BYTES_MAX} can be sent"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(())
    }

    /// For workers on this machine, or on others.
    /// `slots_here` is how many slots share a machine, if that is this one.
    pub(crate) fn setup(&self, slots_here: Option<u32>) -> Option<Vec<u8>> {
        let is_here = slots_here.is_some();
        let (support, version) = self.support.as_ref()?;
        let setup = python::WorkerSetup {
            version: *version,
            interpreter: self.interpreter.clone().filter(|_| is_here),
            path: if is_here { self.path.clone() } else { Vec::new() },
            wanted: self.wanted.clone().filter(|_| !is_here),
            slots_here: slots_here.unwrap_or(0),
            support: support.to_vec(),
        };
        Some(setup.to_bytes())
    }
}

impl Options {
    /// Whether all these workers can be had: those that are this same program again only if it would serve.
    pub(super) fn can_start(&self, seats: &[Seat]) -> bool {
        let is_good = |seat: &Seat| match seat.kind {
            // Whether ranks can be had is found out when they are met.
            SeatKind::Local | SeatKind::Rank => true,
            SeatKind::Proc => self.local_executable.is_some() || worker::is_hooked(),
            SeatKind::Host(_) => {
                self.ship.is_some() || crate::engine::ssh::names_a_worker() || worker::is_hooked()
            }
        };
        seats.iter().all(is_good)
    }

    /// Most bytes of opened chunks that one of so many workers of a machine keeps.
    pub(super) fn cache_bytes(&self, own_limit: Option<u64>, machine_bytes: u64, workers: usize) -> u64 {
        self.cache_bytes_max.unwrap_or_else(|| memory::cache_bytes(own_limit, machine_bytes, workers))
    }
}

#[expect(clippy::print_stderr, reason = "what user code prints belongs on the user's screen")]
fn print_line(line: &LogLine) {
    eprintln!("[{}] {}", line.worker, line.text);
}

#[expect(clippy::print_stderr, reason = "nobody should have to guess why nothing happens")]
fn print_wait(waiting: &Waiting) {
    eprintln!("[qjam] {waiting}");
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

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut throttle = Throttle::default();
        let passed = (0..3_000u64).filter(|n| throttle.passes(n * 1_000, 100)).count();
        assert_eq!((passed, throttle.dropped), (300, 2_700));
    }
}
