//! Regular files that are read from beginning to end.
//!
//! Comes in: a path. Goes out: the decompressed bytes, the number of bytes read so far, and a [`Stamp`] that shows whether the
//! file has changed. Interprets no content besides the compression.

use crate::ReadError;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Identity, size and time of modification of a file: they differ when the file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified_ns: i128,
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        let modified_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        Stamp { device: meta.dev(), inode: meta.ino(), bytes: meta.size(), modified_ns }
    }
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// A regular file.
pub(crate) struct Input {
    path: PathBuf,
    file: File,
    stamp: Stamp,
    packing: Packing,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Input, ReadError> {
        let failed = |source| ReadError::Io { path: path.into(), source };
        // Checked before opening, because opening a pipe waits for a writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(ReadError::NotAFile { path: path.into() });
        }
        let file = File::open(path).map_err(failed)?;
        let stamp = Stamp::of(&file.metadata().map_err(failed)?);
        let mut start = [0; 4];
        let n = file.read_at(&mut start, 0).map_err(failed)?;
        let packing = match &start[..n] {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Packing::Zstd,
            _ => Packing::Plain,
        };
        Ok(Input { path: path.into(), file, stamp, packing })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The decompressed content from the beginning.
    pub(crate) fn stream(&self) -> Result<Stream, ReadError> {
        let failed = |source| ReadError::Io { path: self.path.clone(), source };
        let taken = Arc::new(AtomicU64::new(0));
        let file = self.file.try_clone().map_err(failed)?;
        let raw = Counted { file, at: 0, taken: taken.clone() };
        let content: Box<dyn Read + Send> = match self.packing {
            Packing::Plain => Box::new(raw),
            Packing::Gzip => {
                Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 18, raw)))
            }
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(raw).map_err(failed)?),
        };
        Ok(Stream { path: self.path.clone(), content, packing: self.packing, given: 0, taken })
    }

    /// Fails if the file has changed since it was opened.
    pub(crate) fn must_be_unchanged(&self) -> Result<(), ReadError> {
        let now = self.file.metadata().map_err(|source| ReadError::Io { path: self.path.clone(), source })?;
        if Stamp::of(&now) == self.stamp {
            Ok(())
        } else {
            Err(ReadError::Changed { path: self.path.clone() })
        }
    }
}

/// Reads the bytes of a file in order by position, without moving the shared file offset.
struct Counted {
    file: File,
    at: u64,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(bytes, self.at)?;
        self.at += n as u64;
        self.taken.store(self.at, Relaxed);
        Ok(n)
    }
}

/// The decompressed content of a file.
pub(crate) struct Stream {
    path: PathBuf,
    content: Box<dyn Read + Send>,
    packing: Packing,
    /// Decompressed bytes returned so far.
    given: u64,
    /// Bytes of the file consumed so far.
    taken: Arc<AtomicU64>,
}

impl Stream {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of bytes consumed, for reporting progress from another thread.
    pub(crate) fn taken(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }

    /// Reads some bytes; 0 at the end.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, ReadError> {
        loop {
            match self.content.read(bytes) {
                Ok(n) => {
                    self.given += n as u64;
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) if self.packing == Packing::Plain => {
                    return Err(ReadError::Io { path: self.path.clone(), source });
                }
                Err(error) => {
                    let reason = error.to_string();
                    return Err(ReadError::Unpack { path: self.path.clone(), at: self.given, reason });
                }
            }
        }
    }

    /// Fills `bytes`, unless the content ends first.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.read(&mut bytes[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }
}
