//! Whether packs are what they were when their chunks were compared with their names.
//!
//! A chunk of a pack is compared with its name once and then used where it is mapped. Who writes to the file after that changes
//! its times or its length, which are asked for before results go out: then the chunks are compared again, and what was computed
//! from one that differs does not count. What this process writes itself is noted here. Writing that leaves no trace in the times
//! (through a mapping that is not flushed yet, or by a failing disk) is not seen.

use crate::store::cache::Cache;
use rustix::fd::AsFd;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What changes when a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackStamp {
    bytes: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl PackStamp {
    pub(super) fn of(file: impl AsFd) -> Option<PackStamp> {
        let stat = rustix::fs::fstat(file).ok()?;
        Some(PackStamp {
            bytes: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        })
    }
}

/// The stamps of packs in use, as they were when their chunks were compared. The disk's thread writes them, the loop reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps(Arc<Mutex<HashMap<u64, PackStamp>>>);

impl Stamps {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, PackStamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a pack is still what it was.
    pub(super) fn hold(&self, pack: u64, file: impl AsFd) -> bool {
        let now = PackStamp::of(file);
        now.is_some() && self.lock().get(&pack).copied() == now
    }

    /// Whether a pack that is known is not what it was. One that is not known is noted as it is.
    pub(super) fn is_changed(&self, pack: u64, file: impl AsFd) -> bool {
        let Some(now) = PackStamp::of(file) else { return true };
        *self.lock().entry(pack).or_insert(now) != now
    }

    pub(super) fn set(&self, pack: u64, stamp: Option<PackStamp>) {
        match stamp {
            Some(stamp) => self.lock().insert(pack, stamp),
            None => self.lock().remove(&pack),
        };
    }

    pub(super) fn forget(&self, packs: &[u64]) {
        let mut stamps = self.lock();
        for pack in packs {
            stamps.remove(pack);
        }
    }

    /// Does something that writes to packs, and notes how they are after that; but not of one that others had changed before.
    pub(super) fn across<R>(&self, cache: &mut Cache, all: bool, work: impl FnOnce(&mut Cache) -> R) -> R {
        let known: Vec<u64> =
            if all { self.lock().keys().copied().collect() } else { cache.appended().collect() };
        let is_same = |cache: &Cache, pack: u64| cache.file(pack).is_some_and(|file| self.hold(pack, &*file));
        let same: Vec<u64> = known.into_iter().filter(|pack| is_same(cache, *pack)).collect();
        let done = work(cache);
        for pack in same {
            if let Some(file) = cache.file(pack) {
                self.set(pack, PackStamp::of(&*file));
            }
        }
        done
    }
}
