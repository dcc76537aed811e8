//! Crews that other crates bring, by a word in worker strings.
//!
//! A crate that links a [`CrewProvider`] into [`CREWS`] is found by its word: `store:URL` joins what the provider of `store` makes
//! of the rest. Such a worker string names the crew alone, and nothing in it is read here. Processes of such a crew may be this
//! same executable, which [`ENTRIES`] lets serve before the program's `main`.

use super::crew::Crew;
use super::kinds;
use super::ranks::RanksError;
use super::settings::WorkerSettings;
use super::worker_string::{Seating, Wrong, wrong};
use super::{Seat, SeatKind};
pub use crate::execution::{CrewEntry, ENTRIES};
use linkme::distributed_slice;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// A crew that is joined by a word.
pub struct CrewProvider {
    /// What worker strings begin with, before a colon.
    pub word: &'static str,
    /// What a whole worker string looks like, for messages.
    pub example: &'static str,
    /// Joins the crew that the rest of the string names.
    pub join: Join,
}

/// Joins the crew that the rest of a worker string names.
pub type Join = fn(rest: &str, settings: &CrewSettings<'_>) -> Result<Arc<dyn Crew>, CrewError>;

/// Why a crew cannot be joined. It should say what failed, where, why, and what to do.
pub type CrewError = Box<dyn std::error::Error + Send + Sync>;

/// The crews that the program was linked with.
#[distributed_slice]
pub static CREWS: [CrewProvider];

/// Why a master has no crew.
pub(crate) enum JoinError {
    Ranks(RanksError),
    Crew(CrewError),
}

/// What a provider is told of the master.
pub struct CrewSettings<'a> {
    settings: &'a WorkerSettings,
}

impl<'a> CrewSettings<'a> {
    pub(super) fn new(settings: &'a WorkerSettings) -> Self {
        CrewSettings { settings }
    }

    /// The executable that workers run, if it is not this one.
    pub fn worker_executable(&self) -> Option<PathBuf> {
        self.settings.ship.clone().or_else(|| self.settings.local_executable.clone())
    }

    /// What workers on other machines need to run functions of another language; only they read it.
    pub fn language_setup(&self) -> Option<Vec<u8>> {
        self.settings.python.setup(None)
    }

    /// How this program is started again: the program and its arguments, with known secrets replaced by
    /// [`MASK`](crate::runs::MASK).
    pub fn command(&self) -> Vec<OsString> {
        self.settings.command.clone()
    }
}

/// Keeps what the language of foreign functions needs in this process: for entries, before the first order. Returns false if it cannot
/// be read.
pub fn set_language(setup: &[u8]) -> bool {
    crate::function::language::welcome(setup)
}

/// Words of providers in other crates of this project: reserved also in programs that are linked without them.
const KNOWN: &[&str] = &["spark", "store"];

/// Whether a provider has this word, or would have it in a program that is linked with it.
pub(super) fn is_word(word: &str) -> bool {
    KNOWN.contains(&word) || CREWS.iter().any(|provider| provider.word == word)
}

/// Whether a whole worker string is the address of a crew of another crate. Such a string is not cut at commas.
pub fn is_address(text: &str) -> bool {
    text.trim().split_once(':').is_some_and(|(word, _)| is_word(word) && kinds::with_word(word).is_none())
}

/// Takes in a whole worker string if it names a crew of another crate.
pub(super) fn parse(seating: &mut Seating, input: &str) -> Result<bool, Wrong> {
    let Some((word, rest)) = input.trim().split_once(':') else { return Ok(false) };
    let Some(provider) = with_word(word) else { return Ok(false) };
    if rest.is_empty() {
        return wrong(input, format!("`{word}:` needs an address"), provider.example);
    }
    let kind = SeatKind::Crew { word: provider.word, rest: rest.to_owned() };
    seating.push(kind, 1, input.trim().to_owned());
    Ok(true)
}

fn with_word(word: &str) -> Option<&'static CrewProvider> {
    CREWS.iter().find(|provider| provider.word == word && kinds::with_word(word).is_none())
}

/// Joins the crew of a seat, if it is one of another crate.
pub(super) fn join(seat: &Seat, settings: &WorkerSettings) -> Option<Result<Arc<dyn Crew>, CrewError>> {
    let SeatKind::Crew { word, rest } = &seat.kind else { return None };
    let provider = with_word(word)?;
    Some((provider.join)(rest, &CrewSettings::new(settings)))
}
