//! Room for a chunk that is about to arrive.
//!
//! It is looked for in this order: the pack that is being filled, an old pack that is mostly empty and that nobody else
//! uses, a new pack on disk after evicting old ones, a pack in memory.

use super::folder::{Folder, Locked};
use super::pack::{self, PACK_BYTES, Pack};
use super::record;
use super::{Cache, CacheError, size};
use std::collections::BTreeMap;
use std::io;

/// How many old packs are tried before a new one is begun.
const TAKE_OVERS_TRIED: usize = 4;

/// Why there is no new pack on disk.
enum NoPack {
    /// No room under the cap at the moment.
    Cap(String),
    /// The disk does not work; it is not tried again.
    Disk(String),
}

impl From<CacheError> for NoPack {
    fn from(error: CacheError) -> NoPack {
        NoPack::Disk(error.to_string())
    }
}

impl Cache {
    pub(super) fn disk_is_off(&mut self, why: String) {
        self.writes_disk = false;
        self.note("disk", format!("{why}; from here on chunks are kept in memory and lost after the run"));
    }

    /// A pack with room for a record.
    pub(super) fn room_for(&mut self, record_bytes: u64) -> io::Result<u64> {
        if let Some(number) = self.current {
            let Some(pack) = self.packs.get_mut(&number) else { return Err(io::ErrorKind::NotFound.into()) };
            if pack.fits(record_bytes) {
                return Ok(number);
            }
            // One in which something arrives is closed when that has ended.
            if !pack.arriving {
                pack.close(self.folder.as_deref());
            }
            self.current = None;
        }
        if self.folder.is_none() || !self.writes_disk || self.memory_fits(record_bytes) {
            return self.memory_for(record_bytes);
        }
        match self.disk_for(record_bytes) {
            Ok(number) => {
                self.current = Some(number);
                return Ok(number);
            }
            Err(NoPack::Cap(why)) => self.note("cap", why),
            Err(NoPack::Disk(why)) => self.disk_is_off(why),
        }
        self.memory_for(record_bytes)
    }

    fn memory_fits(&self, record_bytes: u64) -> bool {
        self.current_memory.and_then(|n| self.packs.get(&n)).is_some_and(|pack| pack.fits(record_bytes))
    }

    /// A pack in memory with room for a record. It takes no more than half of what there is for all on this host: a
    /// disk that is full is no reason for the kernel to end somebody.
    pub(super) fn memory_for(&mut self, record_bytes: u64) -> io::Result<u64> {
        let taken: u64 = self.packs.values().filter(|pack| pack.name.is_none()).map(|pack| pack.end).sum();
        if taken.saturating_add(record_bytes) > self.memory_bytes_max {
            let most = size(self.memory_bytes_max);
            let why =
                format!("{} are in memory for want of room on disk, of at most {most} there", size(taken));
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
        }
        if let Some(number) = self.current_memory.filter(|_| self.memory_fits(record_bytes)) {
            return Ok(number);
        }
        let pack = Pack::in_memory(PACK_BYTES.max(alone_bytes(record_bytes)))?;
        let number = self.add(pack);
        if let Some(old) = self.current_memory.replace(number).and_then(|n| self.packs.get_mut(&n)) {
            old.close(None);
        }
        Ok(number)
    }

    /// A pack on disk with room for a record: an old one, or a new one.
    fn disk_for(&mut self, record_bytes: u64) -> Result<u64, NoPack> {
        let cap_bytes = self.cap();
        let Some(folder) = self.folder.clone() else {
            return Err(NoPack::Disk("there is no directory".into()));
        };
        let path = folder.path.display();
        let room_bytes = pack::usual_bytes(cap_bytes).max(alone_bytes(record_bytes));
        if room_bytes > cap_bytes {
            return Err(NoPack::Cap(format!(
                "a chunk of {} does not fit into the cache in {path}, whose cap is {}; it is kept in memory and lost \
                 after the run; a higher cap would change that",
                size(record_bytes),
                size(cap_bytes)
            )));
        }
        let locked = folder.lock()?;
        if let Some((number, entries)) = take_over(&mut self.packs, &folder, record_bytes, cap_bytes, &locked)
        {
            self.learn(number, entries);
            if let Some(pack) = self.packs.get_mut(&number) {
                if pack.fits(record_bytes) {
                    return Ok(number);
                }
                // Somebody else had filled it up meanwhile.
                pack.close(Some(&folder));
            }
        }
        let (evicted, room) = folder.make_room(room_bytes, cap_bytes, &locked)?;
        let made = match room {
            Ok(()) => Pack::create(&folder, room_bytes, &locked).map_err(|e| {
                NoPack::Disk(format!("cannot begin a file of {} in {path}: {e}", size(room_bytes)))
            }),
            Err(full) => Err(NoPack::Cap(format!(
                "the cache in {path} is full: {} are needed, and {} of its cap of {} are in use by this and other \
                 runs; chunks that do not fit are kept in memory and lost after the run; a higher cap would change that",
                size(room_bytes),
                size(full.in_use_bytes),
                size(cap_bytes)
            ))),
        };
        drop(locked);
        self.forget_names(&evicted);
        made.map(|pack| self.add(pack))
    }
}

/// Goes on in an old pack that is less than half full, so that many small runs do not leave many small packs.
fn take_over(
    packs: &mut BTreeMap<u64, Pack>,
    folder: &Folder,
    record_bytes: u64,
    cap_bytes: u64,
    locked: &Locked,
) -> Option<(u64, record::Entries)> {
    let room_bytes = pack::usual_bytes(cap_bytes);
    let taken_bytes: u64 = folder.list().ok()?.iter().map(|pack| pack.taken_bytes).sum();
    let candidates = packs.iter_mut().filter(|(_, pack)| {
        pack.closed
            && pack.end <= room_bytes / 2
            && pack.end + alone_bytes(record_bytes) <= room_bytes / 2
            && taken_bytes - pack.file_bytes.min(taken_bytes) + room_bytes <= cap_bytes
    });
    for (number, pack) in candidates.take(TAKE_OVERS_TRIED) {
        if let Ok(Some(entries)) = pack.take_over(folder, room_bytes, locked) {
            return Some((*number, entries));
        }
    }
    None
}

/// How long a pack must be for one record and its list.
fn alone_bytes(record_bytes: u64) -> u64 {
    (record_bytes + record::list_bytes(1)).next_multiple_of(4096)
}
