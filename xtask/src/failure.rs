//! Why a step failed, as text for the table.

use std::path::PathBuf;
use std::{fmt, io};

/// Why a step failed.
#[derive(Debug)]
pub enum Failure {
    /// Something required is missing and could not be installed.
    Missing { tool: String, remedy: String },
    /// A program could not be started.
    Start { command: String, source: io::Error },
    /// A program failed.
    Exit { command: String, status: String },
    /// A program exceeded its time limit and was ended.
    TooLong { command: String, limit_s: u64 },
    /// A program succeeded, but its output is wrong.
    Unexpected { what: String, expected: &'static str },
    /// Processes outlived the program that started them.
    LeftBehind { command: String, processes: Vec<String> },
    /// Files contain forbidden words.
    Hygiene { places: Vec<String> },
    /// Crates or modules use others that they may not.
    Rooms { wrong: Vec<String> },
    /// Something is slower than required.
    TooSlow { what: String, ratio: f64, at_least: f64 },
    /// The failure of a step that ran in another process.
    Told(String),
    /// A file or folder could not be used.
    File { path: PathBuf, source: io::Error },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Missing { tool, remedy } => write!(f, "{tool} is missing: {remedy}"),
            Failure::Start { command, source } => write!(f, "`{command}` could not be started: {source}"),
            Failure::Exit { command, status } => write!(f, "`{command}` ended with {status}"),
            Failure::TooLong { command, limit_s } => {
                write!(f, "`{command}` was ended after its limit of {limit_s} s")
            }
            Failure::Unexpected { what, expected } => write!(f, "{what}; expected {expected}"),
            Failure::LeftBehind { command, processes } => {
                write!(f, "`{command}` left processes behind: {}", processes.join(", "))
            }
            Failure::Hygiene { places } => {
                write!(f, "{} places with words that do not belong in the repository:", places.len())?;
                places.iter().try_for_each(|place| write!(f, "\n    {place}"))
            }
            Failure::Rooms { wrong } => {
                write!(f, "{} arrows between crates or modules that may not be:", wrong.len())?;
                wrong.iter().try_for_each(|arrow| write!(f, "\n    {arrow}"))
            }
            Failure::TooSlow { what, ratio, at_least } => {
                write!(f, "{what}: {ratio:.2} x the peer's speed, at least {at_least:.2} x is asked for")
            }
            Failure::Told(text) => write!(f, "{text}"),
            Failure::File { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

/// Adds the path of a file to an error.
pub trait AboutFile<T> {
    /// Adds the path.
    fn about(self, path: impl Into<PathBuf>) -> Result<T, Failure>;
}

impl<T> AboutFile<T> for io::Result<T> {
    fn about(self, path: impl Into<PathBuf>) -> Result<T, Failure> {
        self.map_err(|source| Failure::File { path: path.into(), source })
    }
}
