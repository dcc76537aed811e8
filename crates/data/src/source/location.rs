//! Where a chunk's bytes lie on the master's host, and how they are named and fetched.

use super::DataError;
use super::memory::UserMemory;
use crate::chunk::{ChunkId, Header};
use crate::store::{AlignedBuf, Pages, Region, traffic};
use bytes::Bytes;
use qjam_core::chunk::{CHUNK_BYTES_MAX, Hasher};
use qjam_core::ids::DataSetId;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// One chunk of a cut: its name, what it is, and where its bytes lie.
#[derive(Clone, Debug)]
pub struct ChunkEntry {
    /// Its name: the hash of header and bytes.
    pub id: ChunkId,
    /// What its bytes are, and how many.
    pub header: Header,
    /// Where its bytes lie.
    pub place: ChunkLocation,
}

/// Where bytes lie; how many is in the header.
#[derive(Clone, Debug)]
pub enum ChunkLocation {
    /// In memory that other processes of this host can map.
    Shared {
        /// The memory.
        region: Region,
        /// Where in it the bytes begin.
        offset: u64,
    },
    /// In a file of the user's, as it was when the stamp was taken.
    File {
        /// The file.
        path: Arc<Path>,
        /// Where in it the bytes begin.
        offset: u64,
        /// What the file was when its bytes were named.
        stamp: FileStamp,
    },
    /// In memory of this process that is the user's own.
    Memory {
        /// The memory.
        memory: UserMemory,
        /// Where in it the bytes begin.
        offset: u64,
    },
}

/// What tells whether a file is still the one that was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Number of the device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was last written to, since 1970.
    pub modified_ns: i128,
}

impl FileStamp {
    /// The stamp of a file that is as this says.
    pub fn of(meta: &Metadata) -> FileStamp {
        let modified_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        FileStamp { device: meta.dev(), inode: meta.ino(), bytes: meta.size(), modified_ns }
    }

    /// In what a file differs from what it was.
    fn difference(&self, now: &FileStamp) -> Option<&'static str> {
        if (self.device, self.inode) != (now.device, now.inode) {
            Some("another file has taken its place")
        } else if self.bytes != now.bytes {
            Some("its length differs")
        } else if self.modified_ns != now.modified_ns {
            Some("it was written to")
        } else {
            None
        }
    }
}

impl ChunkEntry {
    /// A chunk whose content is not here.
    pub fn absent(id: ChunkId, header: Header) -> ChunkEntry {
        ChunkEntry {
            id,
            header,
            place: ChunkLocation::Memory { memory: UserMemory::over(Bytes::new()), offset: u64::MAX },
        }
    }

    /// Whether its content is not here.
    pub fn is_absent(&self) -> bool {
        matches!(self.place, ChunkLocation::Memory { offset: u64::MAX, .. })
    }

    /// A chunk whose content is in memory of its own, aligned as numbers need it.
    pub fn in_memory(id: ChunkId, header: Header, content: &[u8]) -> ChunkEntry {
        let mut copy = AlignedBuf::zeroed(content.len());
        copy.as_mut_slice().copy_from_slice(content);
        ChunkEntry {
            id,
            header,
            place: ChunkLocation::Memory { memory: UserMemory::over(copy.into_bytes()), offset: 0 },
        }
    }

    /// The bytes: shared memory as it is, a file's bytes read and compared with their name.
    pub fn load(&self) -> Result<Bytes, DataError> {
        let bytes = self.header.bytes as usize;
        match &self.place {
            ChunkLocation::Shared { region, offset } => {
                Ok(region.bytes(*offset as usize..*offset as usize + bytes))
            }
            ChunkLocation::Memory { memory, offset } => {
                Ok(memory.bytes(*offset as usize..*offset as usize + bytes))
            }
            ChunkLocation::File { path, offset, stamp } => {
                let file = UserFile::open(path)?;
                file.must_be(stamp)?;
                let no_memory =
                    || DataError::ChunkMemory { path: path.to_path_buf(), bytes: self.header.bytes };
                let read = if self.header.bytes < Pages::BYTES_MIN {
                    let mut buf = AlignedBuf::try_zeroed(self.header.bytes).ok_or_else(no_memory)?;
                    file.read_at(*offset, buf.as_mut_slice())?;
                    buf.into_bytes()
                } else {
                    let mut pages = Pages::try_zeroed(self.header.bytes).ok_or_else(no_memory)?;
                    file.read_at(*offset, pages.as_mut_slice())?;
                    pages.into_bytes()
                };
                // Something may have written to the file without its time showing it, or just now.
                traffic::note_named(self.header.bytes);
                if ChunkId::of(&self.header, &read) != self.id {
                    return Err(DataError::Changed { path: path.to_path_buf(), what: "its content differs" });
                }
                Ok(read)
            }
        }
    }
}

/// The bytes of a chunk piece by piece, on their way to another host. What they are there is compared with their name.
pub struct Pieces {
    entry: Arc<ChunkEntry>,
    at: u64,
    /// Opened with the first piece, since many chunks may wait for their turn.
    file: Option<UserFile>,
}

impl Pieces {
    /// All bytes of a chunk.
    pub fn of(entry: Arc<ChunkEntry>) -> Pieces {
        Pieces { entry, at: 0, file: None }
    }
}

impl Pieces {
    /// Bytes that have not been taken.
    pub fn left(&self) -> u64 {
        self.entry.header.bytes - self.at
    }

    /// The next `bytes` bytes.
    pub fn take(&mut self, bytes: usize) -> Result<Bytes, String> {
        let piece = match &self.entry.place {
            ChunkLocation::Shared { region, offset } => {
                let from = (offset + self.at) as usize;
                region.bytes(from..from + bytes)
            }
            // Copied, so that what goes out is one thing even if its owner writes to it on its way.
            ChunkLocation::Memory { memory, offset } => {
                let from = (offset + self.at) as usize;
                Bytes::copy_from_slice(&memory.bytes(from..from + bytes))
            }
            ChunkLocation::File { path, offset, stamp } => {
                let file = match &mut self.file {
                    Some(file) => file,
                    None => {
                        let file = UserFile::open(path).map_err(|e| e.to_string())?;
                        file.must_be(stamp).map_err(|e| e.to_string())?;
                        self.file.insert(file)
                    }
                };
                let mut piece = vec![0; bytes];
                file.read_at(offset + self.at, &mut piece).map_err(|e| e.to_string())?;
                piece.into()
            }
        };
        self.at += bytes as u64;
        Ok(piece)
    }
}

impl ChunkLocation {
    /// Where the bytes start, in the memory or the file that they are in.
    pub fn offset(&self) -> u64 {
        match self {
            ChunkLocation::Shared { offset, .. }
            | ChunkLocation::File { offset, .. }
            | ChunkLocation::Memory { offset, .. } => *offset,
        }
    }

    /// Whether the file that this is in, if it is in one, still is what it was.
    pub fn must_be_unchanged(&self) -> Result<(), DataError> {
        let ChunkLocation::File { path, stamp, .. } = self else { return Ok(()) };
        let now =
            std::fs::metadata(path).map_err(|source| DataError::Io { path: path.to_path_buf(), source })?;
        match stamp.difference(&FileStamp::of(&now)) {
            Some(what) => Err(DataError::Changed { path: path.to_path_buf(), what }),
            None => Ok(()),
        }
    }
}

/// The name of a data set together with the places of its chunks.
pub(crate) fn located(id: DataSetId, chunks: &[ChunkEntry]) -> DataSetId {
    let what = Header { kind: "places".into(), dtype: String::new(), shape: Vec::new(), bytes: 0 };
    let mut hasher = Hasher::new(&what);
    hasher.update(&id.0);
    for chunk in chunks {
        match &chunk.place {
            ChunkLocation::Shared { region, offset } => {
                hasher.update(&region.id().to_le_bytes());
                hasher.update(&offset.to_le_bytes());
            }
            ChunkLocation::Memory { memory, offset } => {
                hasher.update(b"memory");
                hasher.update(&memory.id().to_le_bytes());
                hasher.update(&offset.to_le_bytes());
            }
            ChunkLocation::File { path, offset, stamp } => {
                hasher.update(&(path.as_os_str().len() as u64).to_le_bytes());
                hasher.update(path.as_os_str().as_bytes());
                for n in [*offset, stamp.device, stamp.inode, stamp.bytes] {
                    hasher.update(&n.to_le_bytes());
                }
                hasher.update(&stamp.modified_ns.to_le_bytes());
            }
        }
    }
    DataSetId(hasher.finish().0)
}

/// A file of the user's, open for reading.
#[derive(Clone, Debug)]
pub(crate) struct UserFile {
    path: Arc<Path>,
    file: Arc<File>,
    stamp: FileStamp,
}

impl UserFile {
    pub(crate) fn open(path: &Path) -> Result<UserFile, DataError> {
        let failed = |source| DataError::Io { path: path.into(), source };
        // Asked first, because opening a pipe waits for a writer.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(DataError::NotAFile { path: path.into() });
        }
        let file = File::open(path).map_err(failed)?;
        let stamp = FileStamp::of(&file.metadata().map_err(failed)?);
        Ok(UserFile { path: path.into(), file: Arc::new(file), stamp })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    /// Whether it belongs to this user or to root, and nobody else can write it.
    pub(crate) fn is_ours(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.file.metadata().is_ok_and(|about| [own, 0].contains(&about.uid()) && about.mode() & 0o022 == 0)
    }

    /// Reads exactly this many bytes.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DataError> {
        self.file.read_exact_at(buf, offset).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                DataError::Changed { path: self.path.to_path_buf(), what: "it became shorter" }
            }
            _ => DataError::Io { path: self.path.to_path_buf(), source },
        })
    }

    /// A descriptor of its own, for whoever is to map it.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    pub(crate) fn must_be(&self, stamp: &FileStamp) -> Result<(), DataError> {
        match stamp.difference(&self.stamp) {
            Some(what) => Err(DataError::Changed { path: self.path.to_path_buf(), what }),
            None => Ok(()),
        }
    }

    /// Whether the file still is what it was when it was opened.
    fn must_be_unchanged(&self) -> Result<(), DataError> {
        let now = self.file.metadata();
        let now = now.map_err(|source| DataError::Io { path: self.path.to_path_buf(), source })?;
        let now = FileStamp::of(&now);
        match self.stamp.difference(&now) {
            Some(what) => Err(DataError::Changed { path: self.path.to_path_buf(), what }),
            None => Ok(()),
        }
    }
}

/// What a source's bytes are in.
#[derive(Clone, Debug)]
pub(crate) enum Backing {
    Shared(Region),
    File(UserFile),
    Memory(UserMemory),
}

/// How much of a file is read at once.
const READ_BYTES: u64 = 1 << 20;

/// Below this, hashing on one core is over before another thread has started.
const PARALLEL_BYTES: u64 = 8 << 20;

impl Backing {
    pub(crate) fn place(&self, offset: u64) -> ChunkLocation {
        match self {
            Backing::Shared(region) => ChunkLocation::Shared { region: region.clone(), offset },
            Backing::File(file) => ChunkLocation::File { path: file.path.clone(), offset, stamp: file.stamp },
            Backing::Memory(memory) => ChunkLocation::Memory { memory: memory.clone(), offset },
        }
    }

    /// Goes through a range of the bytes in order, piece by piece.
    pub(crate) fn stream(
        &self,
        offset: u64,
        bytes: u64,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), DataError> {
        match self {
            Backing::Shared(region) => each(&region.bytes(offset as usize..(offset + bytes) as usize)),
            Backing::Memory(memory) => each(&memory.bytes(offset as usize..(offset + bytes) as usize)),
            Backing::File(file) => {
                let mut buf = vec![0; READ_BYTES.min(bytes) as usize];
                let mut done = 0;
                while done < bytes {
                    let piece = &mut buf[..READ_BYTES.min(bytes - done) as usize];
                    file.read_at(offset + done, piece)?;
                    each(piece);
                    done += piece.len() as u64;
                }
            }
        }
        Ok(())
    }

    /// Names chunks, given what each is and where it starts.
    pub(crate) fn name(&self, pieces: Vec<(Header, u64)>) -> Result<Vec<ChunkEntry>, DataError> {
        if let Some((index, (header, _))) =
            pieces.iter().enumerate().find(|(_, (header, _))| header.bytes > CHUNK_BYTES_MAX)
        {
            return Err(DataError::ChunkTooLarge { index, bytes: header.bytes });
        }
        let total: u64 = pieces.iter().map(|(header, _)| header.bytes).sum();
        let ids = spread(&pieces, total, |(header, offset)| self.name_one(header, *offset));
        let ids = ids.into_iter().collect::<Result<Vec<ChunkId>, _>>()?;
        if let Backing::File(file) = self {
            file.must_be_unchanged()?;
        }
        let entries = pieces.into_iter().zip(ids);
        Ok(entries
            .map(|((header, offset), id)| ChunkEntry { id, header, place: self.place(offset) })
            .collect())
    }

    pub(crate) fn name_one(&self, header: &Header, offset: u64) -> Result<ChunkId, DataError> {
        traffic::note_named(header.bytes);
        let mut hasher = Hasher::new(header);
        self.stream(offset, header.bytes, |piece| hasher.update(piece))?;
        Ok(hasher.finish())
    }
}

/// Does something with each of the pieces, in order, by all cores if they are worth it.
pub(crate) fn spread<P: Sync, R: Send>(pieces: &[P], bytes: u64, each: impl Fn(&P) -> R + Sync) -> Vec<R> {
    let threads =
        if bytes < PARALLEL_BYTES { 1 } else { thread::available_parallelism().map_or(1, usize::from) };
    if threads == 1 {
        return pieces.iter().map(each).collect();
    }
    let share = pieces.len().div_ceil(threads).max(1);
    let each = &each;
    thread::scope(|scope| {
        let running: Vec<_> = pieces
            .chunks(share)
            .map(|some| scope.spawn(move || some.iter().map(each).collect::<Vec<R>>()))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().expect("hashing does not panic")).collect()
    })
}
