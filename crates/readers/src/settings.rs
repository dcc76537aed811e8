//! Settings that all readers share: where the numbers are stored, progress, threads.

use crate::ReadError;
use crate::input::{Input, Stamp};
use qjam::source::kept::{self, Keep};
use std::fs::DirBuilder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The progress of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input read so far.
    pub done: u64,
    /// Bytes of the input in total.
    pub total: u64,
}

/// By default, numbers up to this size stay in memory.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Columns of an array that are accepted without a question. A row of so many numbers is held in memory.
pub(crate) const ARRAY_COLUMNS_MAX: u64 = 1 << 24;

/// Columns of a table or a sparse matrix that are accepted without a question.
pub(crate) const TABLE_COLUMNS_MAX: u64 = 1 << 20;

/// Assumed ratio of decompressed to compressed size of a text. If it is larger, the file is used when memory is exceeded.
const PACKED_FACTOR: u64 = 4;

/// Where the numbers of a file are stored.
#[derive(Clone, Debug, Default)]
pub(crate) enum Storage {
    /// In memory if there are few numbers, otherwise in the user's cache folder.
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
    /// Most bytes of numbers in memory with [`Storage::Auto`].
    pub(crate) memory_max: Option<u64>,
    /// Columns that the user has confirmed.
    pub(crate) columns_max: Option<u64>,
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

    /// Refuses more columns than `usual` unless the user has confirmed them: a few bytes can claim any number, and memory
    /// is needed for each.
    pub(crate) fn must_be_confirmed(&self, path: &Path, columns: u64, usual: u64) -> Result<(), ReadError> {
        if columns <= usual.max(self.columns_max.unwrap_or(0)) {
            return Ok(());
        }
        let reason = format!(
            "it has {columns} columns, more than the {usual} that are read without asking; if that is right, confirm it with `features`"
        );
        Err(ReadError::Options { path: path.into(), reason })
    }

    /// Where to store the numbers of `input`, read with these options.
    pub(crate) fn keep(&self, input: &Input, options: &str) -> Result<Keep, ReadError> {
        let packed = input.packing() != crate::input::Packing::Plain;
        let likely = input.stamp().bytes.saturating_mul(if packed { PACKED_FACTOR } else { 1 });
        self.keep_unpacked(input, likely, options)
    }

    /// The same for an input that says how many bytes it has when it is unpacked.
    pub(crate) fn keep_unpacked(&self, input: &Input, bytes: u64, options: &str) -> Result<Keep, ReadError> {
        self.keep_as(input.path(), &[input.stamp()], bytes, options)
    }

    /// The same for several files of a folder.
    pub(crate) fn keep_as(
        &self,
        path: &Path,
        stamps: &[Stamp],
        bytes: u64,
        options: &str,
    ) -> Result<Keep, ReadError> {
        let memory_bytes_max = self.memory_max.unwrap_or(MEMORY_BYTES_MAX);
        let folder = match &self.storage {
            Storage::Memory => return Ok(Keep::Memory),
            Storage::Auto if bytes <= memory_bytes_max => None,
            Storage::Auto => Some(kept::folder().ok_or_else(|| ReadError::Options {
                path: path.into(),
                reason: "no cache folder can be written; name one with `keep_in`, or keep the numbers in memory with `in_memory`".into(),
            })?),
            Storage::Folder(folder) => {
                let failed = |source| ReadError::Io { path: folder.clone(), source };
                DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
                Some(folder.clone())
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
        let name = format!("{name}-{bytes:x}-{:016x}.qjam", hasher.finish());
        Ok(match folder {
            Some(folder) => Keep::File(folder.join(name)),
            None => Keep::Cached { name, memory_bytes_max },
        })
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

            /// Accepts up to so many columns. Without it, files that claim more than 2^24 columns are refused (2^20 if they
            /// are tables, or sparse with fewer values than columns): a few bytes can claim any number.
            #[must_use]
            pub fn columns_max(mut self, columns: u64) -> Self {
                self.settings.columns_max = Some(columns);
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
