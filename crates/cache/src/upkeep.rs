//! Keeping a cache in order: what the command line does with one (look at it, check it, empty it, cap it), and what
//! every process does that opens one. Others may use it meanwhile.
//!
//! `dir` is always the place that holds the directory `cache`.

use super::folder::{self, Folder, Listed};
use super::pack::{self, Pack};
use super::record::{self, Record};
use super::{Cache, CacheError, CachedChunk, DEFAULT_CAP_BYTES};
use rustix::fs::OFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What a cache on disk holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheReport {
    /// The directory.
    pub dir: PathBuf,
    /// Files in it.
    pub packs: u64,
    /// Chunks in them.
    pub chunks: u64,
    /// What they take, with what is set aside for those that are being filled.
    pub bytes: u64,
    /// What they may take.
    pub cap_bytes: u64,
    /// Whether the cap was set by the user.
    pub cap_is_set: bool,
}

/// What [`verify`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Chunks that are what their names say.
    pub good: u64,
    /// Chunks that were not, and are not used any more.
    pub bad: u64,
}

/// Looks at a cache. One that was never made is empty.
pub fn survey(dir: &Path) -> Result<CacheReport, CacheError> {
    let path = dir.join("cache");
    let mut report = CacheReport {
        dir: path,
        packs: 0,
        chunks: 0,
        bytes: 0,
        cap_bytes: DEFAULT_CAP_BYTES,
        cap_is_set: false,
    };
    let Some(folder) = Folder::existing(dir)? else { return Ok(report) };
    if let Some(cap_bytes) = folder.cap() {
        (report.cap_bytes, report.cap_is_set) = (cap_bytes, true);
    }
    for pack in folder.list()? {
        report.packs += 1;
        report.bytes += pack.taken_bytes;
        report.chunks += Pack::found(pack.name).look(&folder).map_or(0, |entries| entries.len() as u64);
    }
    Ok(report)
}

/// Removes all packs; how many bytes they took. Runs that use some keep them until they end, and only then is that
/// room free.
pub fn clear(dir: &Path) -> Result<u64, CacheError> {
    let Some(folder) = Folder::existing(dir)? else { return Ok(0) };
    let _locked = folder.lock()?;
    let mut removed_bytes = 0;
    for pack in folder.list()? {
        match folder.remove(&pack.name) {
            Ok(()) => removed_bytes += pack.taken_bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(folder.error("remove a pack of", e)),
        }
    }
    Ok(removed_bytes)
}

/// Compares every chunk with its name. Those that differ are not used by anybody any more.
pub fn verify(dir: &Path) -> Result<Verified, CacheError> {
    let mut verified = Verified::default();
    let Some(folder) = Folder::existing(dir)? else { return Ok(verified) };
    for pack in folder.list()? {
        let file = match folder.open(&pack.name, OFlags::RDONLY) {
            Ok(file) => file,
            // Evicted a moment ago.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(folder.error("open a pack of", e)),
        };
        folder::lock_shared(&file).map_err(|e| folder.error("lock a pack of", e))?;
        let file_bytes = rustix::fs::fstat(&file).map_err(|e| folder.error("look at a pack of", e))?.st_size;
        record::walk(&file, 0, file_bytes as u64, |at, record| {
            match record.live.then(|| is_good(&file, &record)) {
                None => {}
                Some(true) => verified.good += 1,
                Some(false) => {
                    verified.bad += 1;
                    kill(&folder, &pack.name, at);
                }
            }
        });
    }
    Ok(verified)
}

fn is_good(file: &OwnedFd, record: &Record) -> bool {
    let spot = CachedChunk {
        pack: 0,
        pack_bytes: 0,
        offset: record.payload_at,
        header: record.header.clone(),
        verified: false,
    };
    Cache::check(file, &spot, &record.id)
}

/// Sets what a cache may take of the disk, or goes back to [`DEFAULT_CAP_BYTES`]. What is over it goes at once, but
/// for what is in use.
pub fn set_cap(dir: &Path, cap_bytes: Option<u64>) -> Result<(), CacheError> {
    let folder = Folder::create(dir)?;
    let locked = folder.lock()?;
    folder.set_cap(cap_bytes)?;
    let (_evicted, _in_use) = folder.make_room(0, cap_bytes.unwrap_or(DEFAULT_CAP_BYTES), &locked)?;
    Ok(())
}

/// Closes packs whose writers are gone, and sees to it that the cap holds. Where that is not possible, it is told when
/// something is to be written.
pub(super) fn tidy(folder: &Folder, cap_bytes: u64) {
    let packs = folder.list().unwrap_or_default();
    let is_open = |pack: &&Listed| match folder.open(&pack.name, OFlags::RDONLY) {
        Ok(file) => !record::has_list(&file, pack.file_bytes),
        Err(_) => false,
    };
    let open: Vec<_> = packs.iter().filter(is_open).collect();
    let taken_bytes: u64 = packs.iter().map(|pack| pack.taken_bytes).sum();
    if open.is_empty() && taken_bytes <= cap_bytes {
        return;
    }
    let Ok(locked) = folder.lock() else { return };
    for pack in open {
        let _ = pack::close_orphan(folder, &pack.name, &locked);
    }
    let _ = folder.make_room(0, cap_bytes, &locked);
}

/// Makes a record on disk a dead one, as far as the file may be written.
pub(super) fn kill(folder: &Folder, name: &str, at: u64) {
    if let Ok(file) = folder.open(name, OFlags::RDWR)
        && let Ok(stat) = rustix::fs::fstat(&file)
    {
        let _ = record::kill(&file, at);
        let _ = record::spoil_list(&file, stat.st_size as u64);
    }
}
