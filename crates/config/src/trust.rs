//! Which files are believed: those that nobody but this user, or root, can have written.
//!
//! The user's file names hosts to send data to and a command to start, so whoever can write it can run programs as this user. A
//! `qjam.toml` in a folder that others can write to, such as a shared temporary folder, can be anybody's. Both are asked by the
//! opened file, so that nobody can exchange it between the question and the reading.
//!
//! A wrong user's file is an error. A wrong `qjam.toml` is passed over and told, for otherwise anybody could keep all others from
//! working below a shared folder.

use crate::{ConfigError, FILE_BYTES_MAX};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Why a file is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Distrust {
    /// It is another user's.
    #[error("{} is not used: {} belongs to another user", .file.display(), .what.display())]
    Owner {
        /// The file.
        file: PathBuf,
        /// The file or its folder.
        what: PathBuf,
    },
    /// Others can write it.
    #[error("{} is not used: others can write to {}; `chmod go-w {}` ends that", .file.display(), .what.display(), .what.display())]
    Writable {
        /// The file.
        file: PathBuf,
        /// The file or its folder.
        what: PathBuf,
    },
    /// It is a link, a folder or a device.
    #[error("{} is not used: it is not an ordinary file", .file.display())]
    Kind {
        /// The file.
        file: PathBuf,
    },
    /// It cannot be read.
    #[error("{} is not used: it cannot be read: {why}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        why: String,
    },
}

/// So many links may be on the way to a file, as in the kernel.
const LINKS_MAX: usize = 40;

/// The text of the user's file; `None` if there is none.
pub(crate) fn read_user(path: &Path) -> Result<Option<String>, ConfigError> {
    let found = follow(path).and_then(|found| match found {
        Ok(real) => text(&real),
        Err(why) => Ok(Err(why)),
    });
    match found {
        Ok(Ok(text)) => Ok(Some(text)),
        Ok(Err(why)) => Err(ConfigError::NotTrusted(why)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Unreadable { file: path.into(), source }),
    }
}

/// The text of a `qjam.toml`, or why it is not believed; `None` if there is none any more.
pub(crate) fn read_project(path: &Path) -> Result<Option<Result<String, Distrust>>, ConfigError> {
    match text(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        // What was read is this user's own file.
        Err(source) if source.kind() == io::ErrorKind::InvalidData => {
            Err(ConfigError::Unreadable { file: path.into(), source })
        }
        // A socket, say, which anybody may have made.
        Err(e) => Ok(Some(Err(Distrust::Unreadable { file: path.into(), why: e.to_string() }))),
    }
}

/// The path without links. People keep the user's file in a repository of their own, so links are followed, but only those of this user
/// and of root; and every folder on the way must be one in which nobody else can exchange anything.
fn follow(path: &Path) -> io::Result<Result<PathBuf, Distrust>> {
    let mut left = reversed(&std::path::absolute(path)?);
    let (mut real, mut links, mut wrong) = (PathBuf::from("/"), 0, None);
    while let Some(part) = left.pop() {
        let next = real.join(part);
        let about = next.symlink_metadata()?;
        if about.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(rustix::io::Errno::LOOP.into());
            }
            let is_foreign = is_foreign(&about);
            let why = || Distrust::Owner { file: path.into(), what: next.clone() };
            wrong = wrong.or_else(|| is_foreign.then(why));
            left.extend(reversed(&next.read_link()?));
            continue;
        }
        // There are no links in what is above.
        real = if next.ends_with("..") { real.parent().unwrap_or(&real).to_owned() } else { next };
        if about.is_dir() {
            wrong = wrong.or_else(|| of(&about, &real, path, is_sticky(&about)));
        }
    }
    // Told only now, since a file that is not there needs no trust.
    Ok(wrong.map_or(Ok(real), Err))
}

/// The parts of a path, the first one last.
fn reversed(path: &Path) -> Vec<std::ffi::OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// Opens no link, does not wait for a pipe, and reads no more than a file of this kind can have.
fn text(path: &Path) -> io::Result<Result<String, Distrust>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Ok(Err(Distrust::Kind { file: path.into() })),
        // A file that this user cannot read is not this user's.
        Err(rustix::io::Errno::ACCESS) => {
            return Ok(Err(Distrust::Owner { file: path.into(), what: path.into() }));
        }
        Err(e) => return Err(e.into()),
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(Err(Distrust::Kind { file: path.into() }));
    }
    if let Some(why) = of(&about, path, path, false).or_else(|| folder(path, path)) {
        return Ok(Err(why));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than 1 MiB"));
    }
    let text = String::from_utf8(bytes);
    text.map(Ok).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// What is wrong with the folder of a file: others could put a file of this user's in the place of another.
fn folder(path: &Path, file: &Path) -> Option<Distrust> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unknown = || Distrust::Owner { file: file.into(), what: folder.into() };
    let Ok(about) = folder.metadata() else { return Some(unknown()) };
    of(&about, folder, file, is_sticky(&about))
}

fn is_sticky(about: &Metadata) -> bool {
    about.mode() & 0o1000 != 0
}

fn is_foreign(about: &Metadata) -> bool {
    about.uid() != rustix::process::geteuid().as_raw() && about.uid() != 0
}

fn of(about: &Metadata, what: &Path, file: &Path, is_sticky: bool) -> Option<Distrust> {
    let (file, what) = (file.to_owned(), what.to_owned());
    if is_foreign(about) {
        Some(Distrust::Owner { file, what })
    } else if about.mode() & 0o022 != 0 && !is_sticky {
        Some(Distrust::Writable { file, what })
    } else {
        None
    }
}
