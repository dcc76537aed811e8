//! The cache of chunks on the disk of a host, named by their content and kept between runs.
//!
//! Chunks come from the master, once, through [`Cache::begin`], [`Cache::write`] and [`Cache::finish`], and are found
//! again by name in later runs. All processes of a user on a host share one directory. Chunks are small and many, so
//! they rest in *packs*: files of 64 MiB to which records are appended ([`record`], [`pack`]). Descriptors of packs are
//! handed to executors, which map them.
//!
//! What must hold, and what sees to it:
//!
//! - Whoever is killed at any moment leaves only whole records behind: a record is committed by what is written last.
//! - What was written by another process is compared with its name before it is used: a [`CachedChunk`] says whether that
//!   was done, [`Cache::check`] does it, [`Cache::mark`] takes note. A chunk that differs is dead for everybody.
//! - All packs together never take more than the cap: room is made before a pack is begun ([`folder`]).
//! - No pack goes away that somebody uses, and if it did, its users would not notice: they have it open.
//! - Nothing that happens to the disk stops a run: the cache goes on in memory, with the same packs in memory files,
//!   and says so once ([`Cache::trouble`]).

mod arriving;
mod folder;
mod home;
mod index;
mod pack;
mod record;
mod room;
#[cfg(test)]
mod tests;
mod upkeep;

pub use arriving::{Arriving, FinishError};
pub use folder::own_directory;
pub use home::{home_dir, present_dir, present_folder};
pub use upkeep::{CacheReport, Verified, clear, set_cap, survey, verify};

use folder::Folder;
use index::Entry;
use pack::Pack;
use qjam_core::chunk::{ChunkId, Hasher, Header};
use qjam_system::memory::{Limit, size};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a cache may take of the disk when the user has not said otherwise.
pub const DEFAULT_CAP_BYTES: u64 = 16 << 30;

/// Payloads are read in steps of this.
const STEP_BYTES: usize = 1 << 20;

/// Why a directory cannot be used as a cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It is somebody else's, or not a directory.
    #[error(
        "{} is not a directory of this user's own, or is a symbolic link; remove it, or set XDG_CACHE_HOME to another place",
        path.display()
    )]
    NotOurs {
        /// What was found there.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it locked and does not go on.
    #[error(
        "the cache in {} has been locked by another process for more than {seconds} s; end that process if it is stuck",
        path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
}

/// Where a chunk is.
#[derive(Clone, Debug)]
pub struct CachedChunk {
    /// Number of the pack in this process.
    pub pack: u64,
    /// What a mapping of the pack spans. The file may be shorter, but reaches beyond every chunk in it.
    pub pack_bytes: u64,
    /// Where its bytes begin, a multiple of 64.
    pub offset: u64,
    /// What its bytes mean, and how many they are.
    pub header: Header,
    /// Whether its bytes were compared with its name in this process.
    pub verified: bool,
}

#[cfg(test)]
/// What a cache holds.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// The directory; none when it is all in memory.
    pub dir: Option<PathBuf>,
    /// Packs on disk and in memory.
    pub packs: u64,
    /// Chunks that are known.
    pub chunks: u64,
    /// What all packs on disk take, those of other processes included.
    pub disk_bytes: u64,
    /// What packs in memory take.
    pub memory_bytes: u64,
    /// What packs on disk may take.
    pub cap_bytes: u64,
}

/// An open cache.
pub struct Cache {
    folder: Option<Arc<Folder>>,
    cap_bytes: u64,
    /// Whether new packs may go to disk; no longer after an error there.
    writes_disk: bool,
    /// What packs in memory may take, for what has no room on disk.
    memory_bytes_max: u64,
    /// All that are known, by number.
    packs: BTreeMap<u64, Pack>,
    next_pack: u64,
    /// Where chunks are. What is said there is compared with the record when it is used.
    index: HashMap<ChunkId, Entry>,
    /// The packs that are appended to, on disk and in memory.
    current: Option<u64>,
    current_memory: Option<u64>,
    /// Whether others may have written something since the last look.
    stale: bool,
    troubles: Vec<String>,
    /// Kinds of trouble that were told.
    told: HashSet<&'static str>,
    /// Stands in for a disk with only this much room.
    #[cfg(test)]
    disk_left_bytes: Option<u64>,
}

impl Cache {
    /// Opens the cache in `dir/cache`, or one in memory only.
    ///
    /// Never fails: what goes wrong is told by [`trouble`](Cache::trouble), and the cache goes on in memory. A cap that
    /// the user has set in the directory counts instead of `cap_bytes`.
    pub fn open(dir: Option<&Path>, cap_bytes: u64) -> Cache {
        let mut cache = Cache {
            folder: None,
            cap_bytes,
            writes_disk: true,
            memory_bytes_max: Limit::here().bytes / 2,
            packs: BTreeMap::new(),
            next_pack: 0,
            index: HashMap::new(),
            current: None,
            current_memory: None,
            stale: false,
            troubles: Vec::new(),
            told: HashSet::new(),
            #[cfg(test)]
            disk_left_bytes: None,
        };
        if let Some(dir) = dir {
            match Folder::create(dir) {
                Ok(folder) => {
                    upkeep::tidy(&folder, folder.cap().unwrap_or(cap_bytes));
                    cache.folder = Some(Arc::new(folder));
                    cache.rescan();
                }
                Err(e) => {
                    cache.note("folder", format!("{e}; chunks are kept in memory and lost after the run"))
                }
            }
        }
        cache
    }

    /// Where a chunk is, if it is here. From now on its pack is in use.
    pub fn find(&mut self, id: &ChunkId) -> Option<CachedChunk> {
        let found = self.look_up(id);
        if found.is_none() && std::mem::take(&mut self.stale) {
            self.rescan();
            return self.look_up(id);
        }
        found
    }

    /// Others may have written something: the next chunk that is not known is looked for on disk, too.
    pub fn refresh(&mut self) {
        self.stale = true;
    }

    /// A pack, for reading only, to hand to another process. It stays in use for as long as anybody has it open or
    /// mapped.
    pub fn file(&self, pack: u64) -> Option<Arc<OwnedFd>> {
        self.packs.get(&pack)?.held.clone()
    }

    /// Nobody here uses a pack any more: it may go when room is needed. One in memory goes at once.
    pub fn let_go(&mut self, pack: u64) {
        if self.current == Some(pack) || self.current_memory == Some(pack) {
            return;
        }
        match self.packs.get_mut(&pack) {
            Some(known) if known.name.is_some() => known.held = None,
            Some(_) => {
                self.packs.remove(&pack);
                self.index.retain(|_, entry| entry.pack != pack);
            }
            None => {}
        }
    }

    /// Compares a chunk with its name. Errors in reading count as a difference.
    pub fn check(file: &OwnedFd, spot: &CachedChunk, id: &ChunkId) -> bool {
        let mut hasher = Hasher::new(&spot.header);
        let mut buffer = vec![0; STEP_BYTES.min(usize::try_from(spot.header.bytes).unwrap_or(STEP_BYTES))];
        let mut done = 0;
        while done < spot.header.bytes {
            let step = (spot.header.bytes - done).min(buffer.len() as u64);
            let piece = &mut buffer[..step as usize];
            if record::read_exact_at(file, piece, spot.offset + done).is_err() {
                return false;
            }
            hasher.update(piece);
            done += step;
        }
        hasher.finish() == *id
    }

    /// Takes note of what [`check`](Cache::check) said. A chunk that is not what its name says is dead: for this
    /// process, and for all others if the pack can be written.
    pub fn mark(&mut self, id: &ChunkId, good: bool) {
        if good {
            if let Some(entry) = self.index.get_mut(id) {
                entry.verified = true;
            }
            return;
        }
        let Some(entry) = self.index.remove(id) else { return };
        let Some(pack) = self.packs.get(&entry.pack) else { return };
        if let (Some(folder), Some(name)) = (&self.folder, &pack.name) {
            upkeep::kill(folder, name, entry.at);
        }
    }

    /// Somebody else has written to a pack: its chunks are compared with their names again before they are used.
    pub fn distrust(&mut self, pack: u64) {
        self.index.values_mut().filter(|entry| entry.pack == pack).for_each(|entry| entry.verified = false);
    }

    /// The packs that this process appends to.
    pub fn appended(&self) -> impl Iterator<Item = u64> {
        self.current.into_iter().chain(self.current_memory)
    }

    /// What went wrong since it was last asked, in words for the user. Each thing is told once.
    pub fn trouble(&mut self) -> Option<String> {
        (!self.troubles.is_empty()).then(|| self.troubles.remove(0))
    }

    /// What it holds.
    #[cfg(test)]
    pub(crate) fn usage(&self) -> Usage {
        let listed = self.folder.as_ref().and_then(|folder| folder.list().ok()).unwrap_or_default();
        let in_memory = self.packs.values().filter(|pack| pack.name.is_none());
        let memory_packs = in_memory.clone().count();
        Usage {
            dir: self.folder.as_ref().map(|folder| folder.path.clone()),
            packs: (listed.len() + memory_packs) as u64,
            chunks: self.index.len() as u64,
            disk_bytes: listed.iter().map(|pack| pack.taken_bytes).sum(),
            memory_bytes: in_memory.map(|pack| pack.end).sum(),
            cap_bytes: self.cap(),
        }
    }

    fn cap(&self) -> u64 {
        self.folder.as_ref().and_then(|folder| folder.cap()).unwrap_or(self.cap_bytes)
    }

    fn note(&mut self, kind: &'static str, text: String) {
        if self.told.insert(kind) {
            self.troubles.push(text);
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.packs.values_mut().for_each(|pack| pack.close(self.folder.as_deref()));
    }
}
