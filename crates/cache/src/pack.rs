//! A pack: one file with many chunks, on disk or in memory.
//!
//! ```text
//!             create                       close
//!   (nothing) ──────▶ open, as long as its ─────▶ closed: cut to its records
//!                     room, mostly a hole ◀─────  and a list of them
//!                             │          take_over
//!                             └─ its writer dies: still open; the next who finds it alone closes it
//! ```
//!
//! Records are only ever appended, and what was once committed stays where it is. So a process may map a pack once, as
//! long as it will ever be, and read records that were added later. Beyond the end of the file such a mapping must not
//! be touched; no record is there.

use super::folder::{self, Folder, Locked};
use super::record::{self, Entries};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// How long packs are unless the cap or a chunk asks for another length.
pub(super) const PACK_BYTES: u64 = 64 << 20;

/// How long a new pack is under this cap: at least eight fit, and not so many that a process runs out of descriptors.
pub(super) fn usual_bytes(cap_bytes: u64) -> u64 {
    PACK_BYTES.min(cap_bytes / 8).max(cap_bytes / 256).next_multiple_of(4096)
}

/// What this process knows of a pack.
pub(super) struct Pack {
    /// Name in the directory; none for one in memory.
    pub(super) name: Option<String>,
    /// All records before this are known; the next begins here.
    pub(super) end: u64,
    /// How many are known.
    records: u64,
    /// How long the file was when it was last looked at.
    pub(super) file_bytes: u64,
    /// Whether it ended with a list then.
    pub(super) closed: bool,
    /// What a mapping of it spans. Set when it is held.
    pub(super) span_bytes: u64,
    /// For reading, with the shared lock; handed to other processes. There once the pack is used.
    pub(super) held: Option<Arc<OwnedFd>>,
    /// For writing; there while this process appends.
    pub(super) writer: Option<Arc<OwnedFd>>,
    /// How long the file may become while this process appends.
    room_bytes: u64,
    /// Whether a chunk is arriving at its end.
    pub(super) arriving: bool,
}

impl Pack {
    /// A pack of which nothing is known yet but that it is there.
    pub(super) fn found(name: String) -> Pack {
        Pack {
            name: Some(name),
            end: 0,
            records: 0,
            file_bytes: 0,
            closed: false,
            span_bytes: 0,
            held: None,
            writer: None,
            room_bytes: 0,
            arriving: false,
        }
    }

    /// A new one on disk, all of it a hole.
    pub(super) fn create(folder: &Folder, room_bytes: u64, _locked: &Locked) -> io::Result<Pack> {
        let name = format!("{:016x}.pack", RandomState::new().hash_one(std::process::id()));
        let writer = folder.open(&name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        let mut pack = Pack::found(name.clone());
        let begun = rustix::fs::ftruncate(&writer, room_bytes)
            .map_err(io::Error::from)
            .and_then(|()| pack.hold(folder));
        if let Err(e) = begun {
            let _ = folder.remove(&name);
            return Err(e);
        }
        Ok(Pack { writer: Some(Arc::new(writer)), room_bytes, ..pack })
    }

    /// A new one in memory.
    pub(super) fn in_memory(room_bytes: u64) -> io::Result<Pack> {
        let writer = rustix::fs::memfd_create(c"qjam-pack", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&writer, room_bytes)?;
        // Whoever maps it checks that it cannot be cut short.
        rustix::fs::fcntl_add_seals(&writer, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let reader = match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(reader) => reader,
            // Without /proc it is one that could also write; those who get it are ours.
            Err(_) => writer.try_clone()?,
        };
        Ok(Pack {
            name: None,
            file_bytes: room_bytes,
            span_bytes: room_bytes,
            held: Some(Arc::new(reader)),
            writer: Some(Arc::new(writer)),
            room_bytes,
            ..Pack::found(String::new())
        })
    }

    /// Whether a record of this length can be appended by us, and the list still has room.
    pub(super) fn fits(&self, record_bytes: u64) -> bool {
        self.writer.is_some()
            && !self.arriving
            && self.end + record_bytes + record::list_bytes(self.records + 1) <= self.room_bytes
    }

    /// Sets the next bytes aside for a record; where it begins.
    pub(super) fn reserve(&mut self, record_bytes: u64) -> u64 {
        let at = self.end;
        self.end += record_bytes;
        self.records += 1;
        self.arriving = true;
        at
    }

    /// Takes back what was set aside last. What was written there becomes a hole again, so that nobody mistakes it
    /// for a record.
    pub(super) fn give_up(&mut self, at: u64) {
        self.end = at;
        self.records -= 1;
        self.arriving = false;
        if let (Some(_), Some(writer)) = (&self.name, &self.writer) {
            let _ = rustix::fs::ftruncate(writer, at);
            let _ = rustix::fs::ftruncate(writer, self.room_bytes);
        }
    }

    /// Finds the live records that were added since the last look.
    pub(super) fn look(&mut self, folder: &Folder) -> io::Result<Entries> {
        match (&self.held, &self.name) {
            (Some(held), _) => {
                let held = Arc::clone(held);
                self.look_into(&held)
            }
            (None, Some(name)) => {
                let file = folder.open(name, OFlags::RDONLY)?;
                self.look_into(&file)
            }
            (None, None) => Ok(Entries::new()),
        }
    }

    fn look_into(&mut self, file: &OwnedFd) -> io::Result<Entries> {
        self.file_bytes = rustix::fs::fstat(file)?.st_size as u64;
        let list = record::read_list(file, self.file_bytes);
        self.closed = list.is_some();
        let mut entries = Entries::new();
        match list {
            Some((mut listed, end)) => {
                listed.retain(|(_, at)| *at >= self.end);
                self.records += listed.len() as u64;
                self.end = end;
                entries = listed;
            }
            None => {
                self.end = record::walk(file, self.end, self.file_bytes, |at, record| {
                    self.records += 1;
                    if record.live {
                        entries.push((record.id, at));
                    }
                });
            }
        }
        Ok(entries)
    }

    /// Opens it for use, if it was not yet, so that nobody evicts it.
    pub(super) fn hold(&mut self, folder: &Folder) -> io::Result<()> {
        let (None, Some(name)) = (&self.held, &self.name) else { return Ok(()) };
        let file = folder.open(name, OFlags::RDONLY)?;
        folder::lock_shared(&file)?;
        let stat = rustix::fs::fstat(&file)?;
        if stat.st_nlink == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        folder::touch(&file);
        // One that is closed may be taken over and become as long as packs usually are.
        self.span_bytes = (stat.st_size as u64).next_multiple_of(4096).max(PACK_BYTES);
        self.held = Some(Arc::new(file));
        Ok(())
    }

    /// Goes on writing where another writer has ended, if nobody else uses the pack. The records that were not known.
    pub(super) fn take_over(
        &mut self,
        folder: &Folder,
        room_bytes: u64,
        _locked: &Locked,
    ) -> io::Result<Option<Entries>> {
        let was_held = self.held.is_some();
        self.hold(folder)?;
        let (Some(held), Some(name)) = (self.held.clone(), self.name.clone()) else { return Ok(None) };
        // Those who have mapped it have mapped no more than the span.
        if self.writer.is_some() || self.arriving || (was_held && room_bytes > self.span_bytes) {
            return Ok(None);
        }
        let begun = self.grow(folder, &name, &held, room_bytes);
        // Also after a failed attempt, which may have lost the shared lock.
        folder::lock_shared(&*held)?;
        let Ok(Some((writer, entries))) = begun else {
            if !was_held {
                self.held = None;
            }
            return begun.map(|_| None);
        };
        self.span_bytes = self.span_bytes.max(room_bytes);
        (self.writer, self.room_bytes, self.closed) = (Some(Arc::new(writer)), room_bytes, false);
        Ok(Some(entries))
    }

    /// Makes a pack as long as its room if nobody else uses it. It is locked exclusively until that is done, so that
    /// whoever holds it next sees how long it is.
    fn grow(
        &mut self,
        folder: &Folder,
        name: &str,
        held: &OwnedFd,
        room_bytes: u64,
    ) -> io::Result<Option<(OwnedFd, Entries)>> {
        if !folder::lock_alone(held) || rustix::fs::fstat(held)?.st_nlink == 0 {
            return Ok(None);
        }
        let writer = folder.open(name, OFlags::RDWR)?;
        let entries = self.look_into(&writer)?;
        // The list, or the rest of a record that was never finished, goes.
        rustix::fs::ftruncate(&writer, self.end)?;
        rustix::fs::ftruncate(&writer, room_bytes)?;
        Ok(Some((writer, entries)))
    }

    /// Closes a pack that this process has written.
    pub(super) fn close(&mut self, folder: Option<&Folder>) {
        let Some(writer) = self.writer.take() else { return };
        let (Some(folder), Some(name)) = (folder, &self.name) else { return };
        // What cannot be closed now, because the disk is full, is closed by the next who opens the cache.
        if let Ok(file_bytes) = close_file(folder, name, &writer) {
            (self.file_bytes, self.closed) = (file_bytes, true);
        }
    }
}

/// Closes a pack that is open, but that nobody uses.
pub(super) fn close_orphan(folder: &Folder, name: &str, _locked: &Locked) -> io::Result<()> {
    let file = folder.open(name, OFlags::RDWR)?;
    if folder::lock_alone(&file) {
        close_file(folder, name, &file)?;
    }
    Ok(())
}

/// Cuts a pack to its records and writes the list of them. One without any is removed. How long it is then.
fn close_file(folder: &Folder, name: &str, file: impl AsFd) -> io::Result<u64> {
    let mut entries = Entries::new();
    let file_bytes = rustix::fs::fstat(&file)?.st_size as u64;
    let end = record::walk(&file, 0, file_bytes, |at, record| {
        if record.live {
            entries.push((record.id, at));
        }
    });
    rustix::fs::ftruncate(&file, end)?;
    if entries.is_empty() {
        folder.remove(name)?;
        return Ok(end);
    }
    let list = record::encode_list(&entries, end);
    match record::write_all_at(&file, &list, end) {
        Ok(()) => Ok(end + list.len() as u64),
        Err(e) => {
            rustix::fs::ftruncate(&file, end)?;
            Err(e)
        }
    }
}
