//! What all readers let their users choose: where the numbers are kept, and being told how far it is.

use crate::ReadError;
use crate::input::{Input, Stamp};
use qjam::source::kept::{self, Keep};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// How far a reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that have been read.
    pub done: u64,
    /// Bytes there are.
    pub total: u64,
}

/// Inputs up to this many bytes are kept in memory when nobody says otherwise.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// A packed text is taken to be this many times as long unpacked.
const PACKED_FACTOR: u64 = 4;

/// Where what was made of a file is kept.
#[derive(Clone, Debug, Default)]
pub(crate) enum Place {
    /// In memory if the input is small, else in the user's cache folder.
    #[default]
    Auto,
    Memory,
    Folder(PathBuf),
}

/// The choices.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) place: Place,
    pub(crate) progress: Option<Box<dyn FnMut(Progress)>>,
    pub(crate) threads: Option<usize>,
}

impl Settings {
    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(cores).clamp(1, 64)
    }

    pub(crate) fn tell(&mut self, done: u64, total: u64) {
        if let Some(tell) = &mut self.progress {
            tell(Progress { done: done.min(total), total });
        }
    }

    /// Where to keep what a file becomes when it is read with these options.
    pub(crate) fn keep(&self, input: &Input, options: &str) -> Result<Keep, ReadError> {
        let packed = input.packing() != crate::input::Packing::Plain;
        let likely = input.stamp().bytes.saturating_mul(if packed { PACKED_FACTOR } else { 1 });
        self.keep_as(input.path(), &[input.stamp()], likely, options)
    }

    /// The same for several files in one folder.
    pub(crate) fn keep_as(
        &self,
        path: &Path,
        stamps: &[Stamp],
        bytes: u64,
        options: &str,
    ) -> Result<Keep, ReadError> {
        let folder = match &self.place {
            Place::Memory => return Ok(Keep::Memory),
            Place::Auto if bytes <= MEMORY_BYTES_MAX => return Ok(Keep::Memory),
            Place::Auto => kept::folder().ok_or_else(|| ReadError::Options {
                path: path.into(),
                reason: "there is no cache folder that can be written; name one with `keep_in`, or keep the numbers in memory with `in_memory`".into(),
            })?,
            Place::Folder(folder) => {
                let failed = |source| ReadError::Io { path: folder.clone(), source };
                std::fs::create_dir_all(folder).map_err(failed)?;
                folder.clone()
            }
        };
        let mut hasher = DefaultHasher::new();
        (options, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        for stamp in stamps {
            (stamp.device, stamp.inode, stamp.bytes, stamp.modified_ns).hash(&mut hasher);
        }
        let name: String = path.file_name().map_or("data".into(), |name| name.to_string_lossy().into());
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = name.chars().take(40).map(plain).collect();
        let bytes: u64 = stamps.iter().map(|stamp| stamp.bytes).sum();
        Ok(Keep::File(folder.join(format!("{name}-{bytes:x}-{:016x}.qjam", hasher.finish()))))
    }
}

/// The methods that every reader has for its settings.
macro_rules! settings {
    ($reader:ident) => {
        impl $reader {
            /// Keeps the numbers in memory, whatever their size.
            #[must_use]
            pub fn in_memory(mut self) -> Self {
                self.settings.place = crate::settings::Place::Memory;
                self
            }

            /// Keeps the numbers in a file in this folder, where the next reading finds them.
            #[must_use]
            pub fn keep_in(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
                self.settings.place = crate::settings::Place::Folder(folder.into());
                self
            }

            /// Is told now and then how far the reading is.
            #[must_use]
            pub fn progress(mut self, tell: impl FnMut(crate::Progress) + 'static) -> Self {
                self.settings.progress = Some(Box::new(tell));
                self
            }

            /// How many threads read; as many as there are cores when nobody says. The numbers do not depend on it.
            #[must_use]
            pub fn threads(mut self, threads: usize) -> Self {
                self.settings.threads = Some(threads);
                self
            }
        }
    };
}
pub(crate) use settings;
