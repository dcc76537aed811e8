//! The list of engines: their words in worker strings, and how their seats are made.
//!
//! A new engine is a folder beside this file and a line in [`ENGINES`].

use super::caps::Caps;
use super::crew::Crew;
use super::provider::JoinError;
use super::ranks::RankGroup;
use super::seat::SeatEngine;
use super::settings::WorkerSettings;
use super::worker_string::{Seating, Wrong};
use super::{Seat, SeatKind, local, proc, provider, ranks, ssh};
use crate::execution::is_hooked;
use std::sync::Arc;

/// An engine's part of worker strings.
pub(super) struct EngineWords {
    /// What an item of this engine begins with.
    pub(super) word: &'static str,
    /// Reads an item: all of it, and what follows the colon.
    pub(super) parse: fn(&mut Seating, item: &str, count: Option<&str>) -> Result<(), Wrong>,
    /// What is wrong with `word*4`, which looks like a host's slots, and what to write instead.
    pub(super) with_slots: (&'static str, &'static str),
}

/// Engines with a word of their own. Whatever has none is a host.
const ENGINES: &[EngineWords] = &[local::WORDS, proc::WORDS, ranks::WORDS];

/// The engine with this word.
pub(super) fn with_word(word: &str) -> Option<&'static EngineWords> {
    ENGINES.iter().find(|engine| engine.word == word)
}

/// Words of worker strings that are no engine's: `auto`, the interpreters of Python's own process, and the address of a host.
const OTHER_WORDS: &[&str] = &["auto", "inproc", "ssh"];

/// Whether worker strings give this word a meaning, so that no cluster can be called by it.
pub fn is_reserved_word(word: &str) -> bool {
    with_word(word).is_some() || OTHER_WORDS.contains(&word) || provider::is_word(word)
}

/// Refuses seats that cannot be together.
pub(super) fn check_together(seats: &[Seat], auto: bool) -> Result<(), Wrong> {
    if seats.iter().any(|seat| seat.kind == SeatKind::Rank) {
        ranks::check_alone(seats, auto)
    } else {
        Ok(())
    }
}

/// The crew that these seats stand for, if they stand for one.
pub(crate) fn join_crew(
    seats: &[Seat],
    settings: &WorkerSettings,
) -> Result<Option<Arc<dyn Crew>>, JoinError> {
    if let Some(joined) = seats.iter().find_map(|seat| provider::join(seat, settings)) {
        return joined.map(Some).map_err(JoinError::Crew);
    }
    if seats.iter().all(|seat| seat.kind != SeatKind::Rank) {
        return Ok(None);
    }
    Ok(Some(Arc::new(RankGroup::join(settings).map_err(JoinError::Ranks)?)))
}

/// What to tell a program, once, that was started with workers which it does not use.
pub(crate) fn unused() -> Option<String> {
    ranks::unused()
}

impl Seat {
    /// What a worker here can do.
    pub fn caps(&self) -> Caps {
        match self.kind {
            SeatKind::Local => Caps::THREADS,
            SeatKind::Proc => Caps::PROCESSES,
            SeatKind::Host(_) => Caps::HOSTS,
            SeatKind::Rank => ranks::CAPS,
            SeatKind::Crew { .. } => Caps::CREW,
        }
    }

    /// The address, if this is a seat on another machine.
    pub fn host(&self) -> Option<&super::HostAddress> {
        match &self.kind {
            SeatKind::Host(address) => Some(address),
            SeatKind::Local | SeatKind::Proc | SeatKind::Rank | SeatKind::Crew { .. } => None,
        }
    }

    /// Whether its workers need not be on this machine: data of rounds may leave it.
    pub fn is_elsewhere(&self) -> bool {
        match self.kind {
            SeatKind::Local | SeatKind::Proc | SeatKind::Rank => false,
            SeatKind::Host(_) | SeatKind::Crew { .. } => true,
        }
    }

    /// Whether a crew has it, and not the scheduler.
    pub(crate) fn is_of_crew(&self) -> bool {
        matches!(self.kind, SeatKind::Rank | SeatKind::Crew { .. })
    }

    /// Whether a worker can be had here: one that is this same program again only if the program would serve.
    pub(crate) fn can_start(&self, settings: &WorkerSettings) -> bool {
        match self.kind {
            // Whether ranks can be had is found out when they are met.
            SeatKind::Local | SeatKind::Rank | SeatKind::Crew { .. } => true,
            SeatKind::Proc => settings.local_executable.is_some() || is_hooked(),
            SeatKind::Host(_) => settings.ship.is_some() || ssh::names_a_worker() || is_hooked(),
        }
    }

    /// The engine of this seat, if it is one under the scheduler.
    pub(crate) fn open(&self) -> Option<Box<dyn SeatEngine>> {
        match &self.kind {
            SeatKind::Local => Some(Box::new(local::ThreadSeat::new(self.slots))),
            SeatKind::Proc => Some(Box::new(proc::ProcessSeat::new(self.slots))),
            SeatKind::Host(address) => {
                let slots = self.slots_given.then_some(self.slots);
                Some(Box::new(ssh::HostSeat::new(address.clone(), slots)))
            }
            SeatKind::Rank | SeatKind::Crew { .. } => None,
        }
    }

    /// The name of another worker like this one, when so many have been tried.
    pub(crate) fn next_name(&self, tried: usize) -> String {
        match self.kind {
            SeatKind::Proc => format!("proc:{tried}"),
            SeatKind::Local | SeatKind::Host(_) | SeatKind::Rank | SeatKind::Crew { .. } => {
                format!("{}#{}", self.name, tried + 2)
            }
        }
    }
}
