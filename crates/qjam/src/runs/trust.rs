//! Which run files may say what is started or believed: those that nobody but this user can have written.
//!
//! A run file names a program and its arguments, and `qjam resume` starts them; its values are given to the program as its own.
//! So whoever can write a run file can run code as whoever resumes it.

use super::folder;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a run file is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Distrust {
    /// It lies somewhere else.
    #[error("{} is not in the folder of runs", .path.display())]
    Elsewhere {
        /// The file.
        path: PathBuf,
    },
    /// It is another user's.
    #[error("{} belongs to another user", .path.display())]
    Owner {
        /// The file or its folder.
        path: PathBuf,
    },
    /// Others can write it.
    #[error("{} can be written by other users", .path.display())]
    Writable {
        /// The file or its folder.
        path: PathBuf,
    },
}

/// Why a run file should not be run again without a look at it: `None` if it is a file of this user alone in a folder of
/// runs of this user alone.
pub fn distrust(path: &Path, runs: Option<&Path>) -> Option<Distrust> {
    let elsewhere = || Distrust::Elsewhere { path: path.into() };
    let real = |path: &Path| path.canonicalize().ok();
    let parent =
        path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let (Some(here), Some(runs)) = (parent.and_then(real), runs.and_then(real)) else {
        return Some(elsewhere());
    };
    if here != runs {
        return Some(elsewhere());
    }
    let Ok(about) = runs.metadata() else { return Some(elsewhere()) };
    not_private(&about, &runs).or_else(|| of_file(path))
}

/// The same of a file alone, wherever it is.
pub(super) fn of_file(path: &Path) -> Option<Distrust> {
    // Opened as it is when it is read: no link is followed.
    let about = folder::open(path).and_then(|file| file.metadata());
    about.map_or_else(|_| Some(Distrust::Owner { path: path.into() }), |about| not_private(&about, path))
}

fn not_private(about: &Metadata, path: &Path) -> Option<Distrust> {
    if about.uid() != rustix::process::geteuid().as_raw() {
        Some(Distrust::Owner { path: path.into() })
    } else if about.mode() & 0o022 != 0 {
        Some(Distrust::Writable { path: path.into() })
    } else {
        None
    }
}
