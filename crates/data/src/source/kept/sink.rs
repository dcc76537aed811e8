//! What a reader's bytes are written to: shared memory, or a file beside the place it will have.

use super::super::DataError;
use super::super::location::{Backing, UserFile};
use super::{Keep, shelf};
use crate::store::RegionWriter;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where chunks start, so that their numbers lie on cache lines.
const ALIGN: u64 = 64;

/// So often, in bytes, it is asked whether there is room for more.
const ASK_BYTES: u64 = 64 << 20;

/// How much of what is in memory is copied to a file at once.
const COPY_BYTES: usize = 1 << 20;

/// Bytes on their way.
pub(super) struct Sink {
    keep: Keep,
    out: Out,
    at: u64,
    /// How long it may become before it is asked again whether there is room.
    asked_to: u64,
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
        // For this user alone, whatever the umask and the folder.
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let private = |file: File| file.set_permissions(Permissions::from_mode(0o600)).map(|()| file);
        let file = file.and_then(private).map_err(|source| DataError::Keep { path: path.clone(), source })?;
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
            Keep::Memory | Keep::Cached { .. } => {
                Out::Memory(RegionWriter::create().map_err(|source| DataError::Memory { bytes: 0, source })?)
            }
            Keep::File(path) => Out::File(Beside::create(path)?),
        };
        Ok(Sink { keep: keep.clone(), out, at: 0, asked_to: ASK_BYTES })
    }

    pub(super) fn keep(&self) -> &Keep {
        &self.keep
    }

    /// Bytes written.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.make_room(self.at + bytes.len() as u64)?;
        let written = match &mut self.out {
            Out::Memory(region) => region.write_all(bytes),
            Out::File(beside) => (&beside.file).write_all(bytes),
        };
        written.map_err(|source| self.failed(source))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Moves what becomes too long for memory to a file, and refuses what there is no room for. What is written may come
    /// from a few bytes that unpack to very many.
    fn make_room(&mut self, end: u64) -> Result<(), DataError> {
        if let (Out::Memory(_), Keep::Cached { memory_bytes_max, .. }) = (&self.out, &self.keep)
            && end > *memory_bytes_max
            && let Some(place) = self.keep.file()?
        {
            self.move_to(place)?;
        }
        if end <= self.asked_to {
            return Ok(());
        }
        self.asked_to = end + ASK_BYTES;
        match &self.out {
            Out::Memory(_) => super::must_fit(end),
            Out::File(beside) => {
                if let Keep::File(place) = &self.keep {
                    shelf::sweep(place);
                }
                if shelf::free_bytes(&beside.path) < self.at {
                    let reason = "it would take more than half of the room on this disk";
                    return Err(beside.failed(io::Error::new(io::ErrorKind::StorageFull, reason)));
                }
                Ok(())
            }
        }
    }

    fn move_to(&mut self, place: PathBuf) -> Result<(), DataError> {
        let beside = Beside::create(&place)?;
        let (mut piece, mut done) = (vec![0; COPY_BYTES], 0);
        while done < self.at {
            let some = (self.at - done).min(COPY_BYTES as u64) as usize;
            self.read_at(done, &mut piece[..some])?;
            (&beside.file).write_all(&piece[..some]).map_err(|source| beside.failed(source))?;
            done += some as u64;
        }
        (self.out, self.keep) = (Out::File(beside), Keep::File(place));
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
            (Out::File(_), Keep::Memory | Keep::Cached { .. }) => {
                unreachable!("a file was made because a file was wanted")
            }
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
