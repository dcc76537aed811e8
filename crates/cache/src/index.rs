//! Which chunks are known and where: filled by looking at packs, and believed only as far as the records agree.
//!
//! Other processes append, evict and kill at any time. So the index is a hint: before a chunk is handed out, its pack is
//! held and its record read again.

use super::pack::Pack;
use super::record::{self, Entries, Record};
use super::{Cache, CachedChunk};
use qjam_core::chunk::ChunkId;
use rustix::fs::OFlags;
use std::collections::{HashMap, HashSet};
use std::io;

/// Where a chunk is said to be.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) pack: u64,
    /// Where its record begins.
    pub(super) at: u64,
    pub(super) verified: bool,
}

impl Cache {
    pub(super) fn look_up(&mut self, id: &ChunkId) -> Option<CachedChunk> {
        let entry = *self.index.get(id)?;
        let spot = self.spot(id, entry);
        if spot.is_none() {
            self.index.remove(id);
        }
        spot
    }

    fn spot(&mut self, id: &ChunkId, entry: Entry) -> Option<CachedChunk> {
        let pack = self.packs.get_mut(&entry.pack)?;
        if let Some(folder) = &self.folder
            && let Err(e) = pack.hold(folder)
        {
            if e.kind() == io::ErrorKind::NotFound {
                // Evicted; others may have gone or come, too.
                self.stale = true;
            } else {
                let path = folder.path.display();
                self.note(
                    "hold",
                    format!("cannot open a pack of the cache in {path}: {e}; chunks are fetched again"),
                );
            }
            return None;
        }
        let file = pack.held.as_ref()?;
        let file_bytes = rustix::fs::fstat(&**file).ok()?.st_size as u64;
        let record = Record::read(&**file, entry.at, file_bytes)
            .filter(|record| record.live && record.id == *id && record.end() <= pack.span_bytes);
        let Some(record) = record else {
            // A list has promised what is not so; the records themselves are asked the next time.
            if let (Some(folder), Some(name)) = (&self.folder, &pack.name)
                && let Ok(file) = folder.open(name, OFlags::RDWR)
            {
                let _ = record::spoil_list(&file, file_bytes);
            }
            return None;
        };
        Some(CachedChunk {
            pack: entry.pack,
            pack_bytes: pack.span_bytes,
            offset: record.payload_at,
            header: record.header,
            verified: entry.verified,
        })
    }

    /// Looks for packs and records that were added, and forgets packs that are gone.
    pub(super) fn rescan(&mut self) {
        let Some(listed) = self.folder.as_ref().and_then(|folder| folder.list().ok()) else { return };
        let named = |(number, pack): (&u64, &Pack)| Some((pack.name.clone()?, *number));
        let mut known: HashMap<String, u64> = self.packs.iter().filter_map(named).collect();
        for pack in listed {
            let number = match known.remove(&pack.name) {
                Some(number) => number,
                None => self.add(Pack::found(pack.name)),
            };
            let (Some(folder), Some(known)) = (&self.folder, self.packs.get_mut(&number)) else { continue };
            let unchanged = known.closed && known.file_bytes == pack.file_bytes;
            if known.writer.is_none()
                && !unchanged
                && let Ok(entries) = known.look(folder)
            {
                self.learn(number, entries);
            }
        }
        self.forget(&known.into_values().collect());
    }

    pub(super) fn add(&mut self, pack: Pack) -> u64 {
        let number = self.next_pack;
        self.next_pack += 1;
        self.packs.insert(number, pack);
        number
    }

    pub(super) fn learn(&mut self, pack: u64, entries: Entries) {
        for (id, at) in entries {
            self.index.entry(id).or_insert(Entry { pack, at, verified: false });
        }
    }

    pub(super) fn forget_names(&mut self, names: &[String]) {
        let gone = |pack: &Pack| pack.name.as_ref().is_some_and(|name| names.contains(name));
        self.forget(&self.packs.iter().filter(|(_, pack)| gone(pack)).map(|(number, _)| *number).collect());
    }

    /// Forgets packs that are no longer in the directory, but for those that we use.
    fn forget(&mut self, packs: &HashSet<u64>) {
        let unused = |number: &u64| self.packs.get(number).is_some_and(|pack| pack.held.is_none());
        let packs: HashSet<u64> = packs.iter().copied().filter(unused).collect();
        if !packs.is_empty() {
            self.packs.retain(|number, _| !packs.contains(number));
            self.index.retain(|_, entry| !packs.contains(&entry.pack));
        }
    }
}
