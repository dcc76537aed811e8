//! Which run files may say what is started or believed: those that nobody but this user can have written.
//!
//! A run file names a program and its arguments, and `qjam resume` starts them; its values are given to the program as its own.
//! So whoever can write a run file can run code as whoever resumes it. The same holds for the runs that it went on from, and for the
//! states beside them, which workers unpickle: [`Trust::open`] is asked for each file, by its descriptor, so that nobody can exchange
//! the file between the question and the reading.

use super::{RunError, folder};
use std::fs::{File, Metadata};
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
    let (Some(here), Some(runs)) = (real(parent_of(path)), runs.and_then(real)) else {
        return Some(elsewhere());
    };
    if here != runs {
        return Some(elsewhere());
    }
    let Ok(about) = runs.metadata() else { return Some(elsewhere()) };
    not_private(&about, &runs).or_else(|| of_file(path))
}

/// Which files a run may go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those of this user alone.
    Own,
    /// All: the user has said so.
    All,
}

impl Trust {
    /// Opens a file that is believed, if it may be. Nothing is followed that is a link.
    pub(super) fn open(self, path: &Path) -> Result<File, RunError> {
        let file = folder::open(path)?;
        match self {
            Trust::All => Ok(file),
            Trust::Own => match not_private(&file.metadata()?, path) {
                None => Ok(file),
                Some(why) => Err(RunError::NotTrusted(why)),
            },
        }
    }

    /// Refuses a folder in which others could put one of this user's files in the place of another: it must be this user's or root's,
    /// and writable by others only if it is sticky.
    pub(super) fn check_folder(self, of: &Path) -> Result<(), RunError> {
        let folder = parent_of(of);
        let about = match self {
            Trust::All => return Ok(()),
            Trust::Own => folder.metadata()?,
        };
        let path = folder.to_owned();
        if about.uid() != rustix::process::geteuid().as_raw() && about.uid() != 0 {
            Err(RunError::NotTrusted(Distrust::Owner { path }))
        } else if about.mode() & 0o022 != 0 && about.mode() & 0o1000 == 0 {
            Err(RunError::NotTrusted(Distrust::Writable { path }))
        } else {
            Ok(())
        }
    }
}

/// The folder of a file.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The same of a file alone, wherever it is.
fn of_file(path: &Path) -> Option<Distrust> {
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
