//! Shared memory that other processes of this host can map: a memfd and its mapping.
//!
//! A [`Region`] is filled once (through a [`RegionMut`] or from a slice) and then sealed: nobody, its maker
//! included, can write, grow or shrink it any more. Chunks rest in regions. An [`Arena`] is written again and again by
//! its owner and only read by others, through an [`ArenaView`]; parameters and results pass through arenas, and who may
//! read when is settled by the messages around them.
//!
//! Whoever opens a file descriptor it was handed checks two things before mapping: that the file is sealed against
//! shrinking, since reading a mapping beyond a file's end kills the process, and that it is as long as was said.
//!
//! ```
//! use qjam::store::{Region, RegionMut};
//! let mut filling = RegionMut::create(5).unwrap();
//! filling.as_mut_slice().copy_from_slice(b"hello");
//! let region = filling.seal().unwrap();
//!
//! let handed_over = region.fd().try_clone_to_owned().unwrap();
//! let other = Region::open(handed_over, 5).unwrap();
//! assert_eq!(other.bytes(1..4), "ell");
//! ```

use super::map::Map;
use super::mapped::{self, MappingNote};
use bytes::Bytes;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What keeps a sealed region as it is. The last one keeps the seals themselves as they are.
const SEALED: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE).union(SealFlags::SEAL);

/// Shared memory being filled by its only owner.
#[derive(Debug)]
pub struct RegionMut {
    fd: OwnedFd,
    map: Map,
}

impl RegionMut {
    /// Zeroed memory of this length.
    pub fn create(bytes: usize) -> io::Result<RegionMut> {
        let fd = memfd(bytes)?;
        let map = Map::new(&fd, bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        Ok(RegionMut { fd, map })
    }

    /// The memory, to write into.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.map.as_mut_slice()
    }

    /// Makes it readable for all and writable for nobody.
    /// The region, which cannot be changed from now on.
    pub fn seal(self) -> io::Result<Region> {
        let RegionMut { fd, map } = self;
        let bytes = map.len();
        // The seal against writing is refused while a writable mapping exists.
        drop(map);
        Region::seal(fd, bytes)
    }
}

/// Sealed shared memory. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Region {
    /// Distinct for every mapping this process makes, so that peers can be told of it by number.
    id: u64,
    fd: Arc<OwnedFd>,
    /// The whole mapping; slices of it keep it alive.
    all: Bytes,
}

impl Region {
    /// A region with a copy of these bytes.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Region> {
        // Writing to the file spares a page fault for every 4 KiB that a mapping would cost.
        let mut writer = RegionWriter::create()?;
        writer.write_all(bytes)?;
        writer.seal()
    }

    /// Maps a region that another process made.
    ///
    /// Refuses a file that is not sealed against shrinking and writing, or is shorter than `bytes`.
    pub fn open(fd: OwnedFd, bytes: usize) -> io::Result<Region> {
        check(&fd, bytes, SealFlags::SHRINK | SealFlags::WRITE)?;
        Region::map_sealed(fd, bytes)
    }

    /// The region that all of these bytes lie in, and where in it they begin; `None` if anybody could write to them.
    ///
    /// ```
    /// use qjam::store::Region;
    /// let region = Region::copy_of(b"some bytes").unwrap();
    /// let part = region.bytes(5..8);
    /// let (found, offset) = Region::around(&part).unwrap();
    /// assert_eq!((&found.bytes(offset..offset + 3)[..], offset), (&b"byt"[..], 5));
    /// assert!(Region::around(&[1, 2, 3]).is_none());
    /// ```
    pub fn around(bytes: &[u8]) -> Option<(Region, usize)> {
        let (mapped, offset) = mapped::find(bytes)?;
        let fd = mapped.fd().try_clone_to_owned().ok()?;
        // A second mapping of the same pages, which is refused if the file is not sealed.
        Some((Region::open(fd, offset + bytes.len()).ok()?, offset))
    }

    /// Maps a file of the cache, as long as it may become; before its end, only what holds a chunk may be read. Such a
    /// file is not sealed: it is in a folder that only its user can write, and whoever writes it only ever appends, or
    /// cuts off what holds no chunk.
    pub fn open_pack(fd: OwnedFd, bytes: usize) -> io::Result<Region> {
        Region::map(fd, bytes, MapFlags::SHARED)
    }

    /// Part of the memory; no copy. The memory lives for as long as any part of it.
    ///
    /// # Panics
    ///
    /// When the range reaches beyond the end. For ranges that come from outside there is [`get`](Region::get).
    pub fn bytes(&self, range: Range<usize>) -> Bytes {
        self.all.slice(range)
    }

    /// Part of the memory, or `None` when the range reaches beyond its end.
    pub fn get(&self, range: Range<usize>) -> Option<Bytes> {
        (range.start <= range.end && range.end <= self.all.len()).then(|| self.all.slice(range))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The file, to be handed to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its number, distinct for every region of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    fn seal(fd: OwnedFd, bytes: usize) -> io::Result<Region> {
        rustix::fs::fcntl_add_seals(&fd, SEALED)?;
        Region::map_sealed(fd, bytes)
    }

    fn map_sealed(fd: OwnedFd, bytes: usize) -> io::Result<Region> {
        // Private, because older kernels refuse a shared mapping of a file sealed against writing even when it is
        // read-only. Without writes the pages are the file's own all the same.
        Region::map(fd, bytes, MapFlags::PRIVATE)
    }

    fn map(fd: OwnedFd, bytes: usize, flags: MapFlags) -> io::Result<Region> {
        let map = Map::new(&fd, bytes, ProtFlags::READ, flags)?;
        let (id, fd) = (mapped::next_id(), Arc::new(fd));
        let note = MappingNote::of(id, fd.clone(), 0, map.as_ref());
        Ok(Region { id, fd, all: Bytes::from_owner(Noted { _note: note, map }) })
    }
}

/// The memory of a region, which others can find by its bytes. The note goes before the mapping.
struct Noted {
    _note: MappingNote,
    map: Map,
}

impl AsRef<[u8]> for Noted {
    fn as_ref(&self) -> &[u8] {
        self.map.as_ref()
    }
}

/// A region whose length is only known once it has been written.
pub struct RegionWriter {
    file: File,
    bytes: usize,
}

impl RegionWriter {
    /// An empty region to be written.
    pub fn create() -> io::Result<RegionWriter> {
        Ok(RegionWriter { file: File::from(memfd(0)?), bytes: 0 })
    }

    /// What has been written, to be read or changed before it is sealed.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The region, which cannot be changed from now on.
    pub fn seal(self) -> io::Result<Region> {
        Region::seal(OwnedFd::from(self.file), self.bytes)
    }
}

impl Write for RegionWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shared memory that its owner writes again and again and others only read.
///
/// ```
/// use qjam::store::Arena;
/// let mut arena = Arena::create(4096).unwrap();
/// let view = Arena::open(arena.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
/// arena.as_mut_slice()[..5].copy_from_slice(b"first");
/// assert_eq!(view.bytes(0..5), "first");
/// ```
#[derive(Debug)]
pub struct Arena {
    fd: Arc<OwnedFd>,
    map: Map,
}

impl Arena {
    /// Zeroed memory of this length.
    pub fn create(bytes: usize) -> io::Result<Arena> {
        let fd = memfd(bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = Map::new(&fd, bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)?;
        Ok(Arena { fd: Arc::new(fd), map })
    }

    /// Maps another process's arena for reading. Refuses a file that is not sealed against shrinking or is shorter
    /// than `bytes`.
    pub fn open(fd: OwnedFd, bytes: usize) -> io::Result<ArenaView> {
        check(&fd, bytes, SealFlags::SHRINK)?;
        let map = Map::new(&fd, bytes, ProtFlags::READ, MapFlags::SHARED)?;
        Ok(ArenaView { all: Bytes::from_owner(map) })
    }

    /// The memory, to write into. Nobody may be reading the part that is written; that is for the messages between
    /// owner and readers to settle.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.map.as_mut_slice()
    }

    /// The memory, to look at.
    pub fn as_slice(&self) -> &[u8] {
        self.map.as_ref()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// The file, to be handed to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The same file, for as long as it takes to hand it over.
    pub fn file(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }
}

/// Another process's [`Arena`], for reading. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct ArenaView {
    all: Bytes,
}

impl ArenaView {
    /// Part of the memory; no copy. It shows what its owner last wrote there, so it must be let go before the owner
    /// writes that part again.
    ///
    /// # Panics
    ///
    /// When the range reaches beyond the end. For ranges that come from outside there is [`get`](ArenaView::get).
    pub fn bytes(&self, range: Range<usize>) -> Bytes {
        self.all.slice(range)
    }

    /// Part of the memory, or `None` when the range reaches beyond its end.
    pub fn get(&self, range: Range<usize>) -> Option<Bytes> {
        (range.start <= range.end && range.end <= self.all.len()).then(|| self.all.slice(range))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// A file in memory, of this length, that can be sealed and is not inherited by programs this process starts.
fn memfd(bytes: usize) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(c"qjam", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes as u64)?;
    Ok(fd)
}

/// Whether a file that someone handed us can be mapped without danger.
fn check(fd: &OwnedFd, bytes: usize, needed: SealFlags) -> io::Result<()> {
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let seals = match rustix::fs::fcntl_get_seals(fd) {
        Ok(seals) => seals,
        Err(_) => return refuse("the file is not shared memory that can be sealed".into()),
    };
    if !seals.contains(needed) {
        return refuse(format!("the shared memory has the seals {seals:?} and must have {needed:?}"));
    }
    let size = rustix::fs::fstat(fd)?.st_size;
    if u64::try_from(size).is_ok_and(|size| size >= bytes as u64) {
        Ok(())
    } else {
        refuse(format!("the shared memory has {size} bytes and should have {bytes}"))
    }
}
