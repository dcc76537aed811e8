//! What a reader's bytes are written to: shared memory, or a file beside the place it will have.

use super::super::DataError;
use super::super::location::{Backing, UserFile};
use super::{Keep, shelf};
use crate::store::RegionWriter;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where chunks start, so that their numbers lie on cache lines.
const ALIGN: u64 = 64;

/// Bytes on their way.
pub(super) struct Sink {
    keep: Keep,
    out: Out,
    at: u64,
}

enum Out {
    Memory(RegionWriter),
    File(Beside),
}

/// A file that is removed unless it gets its name.
pub(super) struct Beside {
    file: File,
    path: PathBuf,
}

impl Beside {
    pub(super) fn create(place: &Path) -> Result<Beside, DataError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The name tells writers apart, of this process and of others.
        let name = format!("{}-{}.part", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = place.with_extension(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|source| DataError::Keep { path: path.clone(), source })?;
        // Nobody else knows it yet, so that this is never refused.
        let _ = shelf::hold_open(&file);
        Ok(Beside { file, path })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn failed(&self, source: io::Error) -> DataError {
        DataError::Keep { path: self.path.clone(), source }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Nothing is there any more when it has got its name.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Sink {
    pub(super) fn create(keep: &Keep) -> Result<Sink, DataError> {
        let out = match keep {
            Keep::Memory => {
                Out::Memory(RegionWriter::create().map_err(|source| DataError::Memory { bytes: 0, source })?)
            }
            Keep::File(path) => Out::File(Beside::create(path)?),
        };
        Ok(Sink { keep: keep.clone(), out, at: 0 })
    }

    pub(super) fn keep(&self) -> &Keep {
        &self.keep
    }

    /// Bytes written.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let written = match &mut self.out {
            Out::Memory(region) => region.write_all(bytes),
            Out::File(beside) => (&beside.file).write_all(bytes),
        };
        written.map_err(|source| self.failed(source))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Fills up to where a chunk may start.
    pub(super) fn align(&mut self) -> Result<(), DataError> {
        let gap = self.at.next_multiple_of(ALIGN) - self.at;
        self.write(&[0; ALIGN as usize][..gap as usize])
    }

    /// Reads what was written.
    pub(super) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DataError> {
        self.file().read_exact_at(bytes, offset).map_err(|source| self.failed(source))
    }

    /// Writes over what was written.
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DataError> {
        self.file().write_all_at(bytes, offset).map_err(|source| self.failed(source))
    }

    fn file(&self) -> &File {
        match &self.out {
            Out::Memory(region) => region.file(),
            Out::File(beside) => &beside.file,
        }
    }

    fn failed(&self, source: io::Error) -> DataError {
        match &self.out {
            Out::Memory(_) => DataError::Memory { bytes: self.at, source },
            Out::File(beside) => beside.failed(source),
        }
    }

    /// Nothing more of the chunks will be written.
    pub(super) fn written(self) -> Result<Written, DataError> {
        let bytes = self.at;
        match (self.out, self.keep) {
            (Out::File(beside), Keep::File(place)) => {
                let backing = Backing::File(UserFile::open(&beside.path)?);
                Ok(Written { backing, file: Some((beside, place)), bytes })
            }
            (Out::Memory(region), _) => {
                let region = region.seal().map_err(|source| DataError::Memory { bytes, source })?;
                Ok(Written { backing: Backing::Shared(region), file: None, bytes })
            }
            (Out::File(_), Keep::Memory) => unreachable!("a file was made because a file was wanted"),
        }
    }
}

/// Chunks that are written and not yet named.
pub(super) struct Written {
    backing: Backing,
    file: Option<(Beside, PathBuf)>,
    bytes: u64,
}

impl Written {
    pub(super) fn backing(&self) -> &Backing {
        &self.backing
    }

    /// Adds to a file what goes behind its chunks (told how many bytes they have), and gives it its name and its time. What
    /// is given besides says that it is in use. `whole` says
    /// whether what already has that name is as good: another program may have read the same input meanwhile, and its
    /// workers must not lose the file under their hands.
    pub(super) fn close(
        self,
        end: impl FnOnce(u64) -> Vec<u8>,
        modified_s: u64,
        whole: impl FnOnce(&Path) -> bool,
    ) -> Result<(Backing, Option<File>), DataError> {
        let Some((beside, place)) = self.file else { return Ok((self.backing, None)) };
        let finished = beside
            .file
            .write_all_at(&end(self.bytes), self.bytes)
            .and_then(|()| beside.file.sync_data())
            .and_then(|()| shelf::touch(&beside.file, modified_s))
            .and_then(|()| match std::fs::hard_link(&beside.path, &place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && whole(&place) => Ok(()),
                // Damaged, or on a disk that knows no second names.
                Err(_) => std::fs::rename(&beside.path, &place),
                Ok(()) => Ok(()),
            });
        finished.map_err(|source| beside.failed(source))?;
        let held = shelf::hold(&place);
        Ok((Backing::File(UserFile::open(&place)?), held))
    }
}
