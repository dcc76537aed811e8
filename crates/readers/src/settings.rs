//! Settings that all readers share: where the numbers are stored, progress, threads.

use crate::ReadError;
use crate::input::{Input, Stamp};
use qjam::source::kept::{self, Keep};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The progress of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input read so far.
    pub done: u64,
    /// Bytes of the input in total.
    pub total: u64,
}

/// By default, inputs up to this size are read into memory.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Assumed ratio of decompressed to compressed size of a text.
const PACKED_FACTOR: u64 = 4;

/// Where the numbers of a file are stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum Storage {
    /// In memory if the input is small, otherwise in the user's cache folder.
    #[default]
    Auto,
    Memory,
    Folder(PathBuf),
}

/// The settings.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) storage: Storage,
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

    /// Where to store the numbers of `input`, read with these options.
    pub(crate) fn keep(&self, input: &Input, options: &str) -> Result<Keep, ReadError> {
        let packed = input.packing() != crate::input::Packing::Plain;
        let likely = input.stamp().bytes.saturating_mul(if packed { PACKED_FACTOR } else { 1 });
        self.keep_as(input.path(), &[input.stamp()], likely, options)
    }

    /// The same for several files of a folder.
    pub(crate) fn keep_as(
        &self,
        path: &Path,
        stamps: &[Stamp],
        bytes: u64,
        options: &str,
    ) -> Result<Keep, ReadError> {
        let folder = match &self.storage {
            Storage::Memory => return Ok(Keep::Memory),
            Storage::Auto if bytes <= MEMORY_BYTES_MAX => return Ok(Keep::Memory),
            Storage::Auto => kept::folder().ok_or_else(|| ReadError::Options {
                path: path.into(),
                reason: "no cache folder can be written; name one with `keep_in`, or keep the numbers in memory with `in_memory`".into(),
            })?,
            Storage::Folder(folder) => {
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

/// Defines the methods for these settings on a reader.
macro_rules! settings {
    ($reader:ident) => {
        impl $reader {
            /// Reads the numbers into memory, regardless of their size.
            #[must_use]
            pub fn in_memory(mut self) -> Self {
                self.settings.storage = crate::settings::Storage::Memory;
                self
            }

            /// Stores the numbers in a file in this folder, which later readers of the same input reuse.
            #[must_use]
            pub fn keep_in(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
                self.settings.storage = crate::settings::Storage::Folder(folder.into());
                self
            }

            /// Calls `tell` with the progress from time to time.
            #[must_use]
            pub fn progress(mut self, tell: impl FnMut(crate::Progress) + 'static) -> Self {
                self.settings.progress = Some(Box::new(tell));
                self
            }

            /// Sets the number of threads, by default the number of cores. The result does not depend on it.
            #[must_use]
            pub fn threads(mut self, threads: usize) -> Self {
                self.settings.threads = Some(threads);
                self
            }
        }
    };
}
pub(crate) use settings;
