//! The directory of a cache: its packs by name, its cap, and the lock under which packs come and go.
//!
//! Two kinds of locks keep processes out of each other's way, all of them `flock`s and so gone with whoever held them:
//!
//! - A pack that a process uses, reading or appending, is locked *shared* through the descriptor that it hands to
//!   others, so that the lock lasts for as long as anybody has the pack open or mapped.
//! - To evict a pack, or to begin appending to one that exists, it must be locked *exclusively* for a moment, which
//!   fails while anybody uses it. That is only tried under the lock of the whole directory, so nobody else tries, and
//!   whoever turns the exclusive lock into a shared one remains the only one who appends.
//!
//! Nothing is followed that is a symbolic link, and files that are not this user's are not there for us.

use super::CacheError;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Timespec};
use rustix::io::Errno;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK: &str = "lock";
const CAP: &str = "cap";
/// Locks are held for the time of a few system calls; who holds one longer is stopped or stuck.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(1);
/// Files take whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// The open directory.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    fd: OwnedFd,
}

/// A pack as the directory knows it.
pub(super) struct Listed {
    pub(super) name: String,
    /// Length of the file, which includes what a writer has yet to fill.
    pub(super) file_bytes: u64,
    /// Counted against the cap: what it takes, or what its writer may still make it take.
    pub(super) taken_bytes: u64,
    /// When it was last used.
    used: (i64, u64),
}

/// Under this lock packs come and go.
pub(super) struct Locked {
    _file: OwnedFd,
}

/// Why there is no room, in numbers.
pub(super) struct NoRoom {
    pub(super) in_use_bytes: u64,
}

impl Folder {
    /// Opens `dir/cache`, which is made when it is not there.
    pub(super) fn create(dir: &Path) -> Result<Folder, CacheError> {
        own_directory(dir)?;
        let path = dir.join("cache");
        own_directory(&path)?;
        Folder::open_dir(path)
    }

    /// Opens `dir/cache` if it is there.
    pub(super) fn existing(dir: &Path) -> Result<Option<Folder>, CacheError> {
        let path = dir.join("cache");
        match path.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Folder::open_dir(path).map(Some),
        }
    }

    /// Opens a directory of this user's own, and makes it private if it is not.
    fn open_dir(path: PathBuf) -> Result<Folder, CacheError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(CacheError::NotOurs { path }),
            Err(e) => return Err(CacheError::Io { what: "open", path, source: e.into() }),
        };
        match rustix::fs::fstat(&fd) {
            Ok(stat) if stat.st_uid == own_uid() => {
                if stat.st_mode & 0o7777 != 0o700 {
                    // Best effort: on a read-only file system it stays as it is.
                    let _ = rustix::fs::fchmod(&fd, Mode::RWXU);
                }
                Ok(Folder { path, fd })
            }
            Ok(_) => Err(CacheError::NotOurs { path }),
            Err(e) => Err(CacheError::Io { what: "look at", path, source: e.into() }),
        }
    }

    /// An error of the system, with what was tried.
    pub(super) fn error(&self, what: &'static str, source: impl Into<io::Error>) -> CacheError {
        CacheError::Io { what, path: self.path.clone(), source: source.into() }
    }

    /// All packs, in no order.
    pub(super) fn list(&self) -> Result<Vec<Listed>, CacheError> {
        let dir = rustix::fs::Dir::read_from(&self.fd).map_err(|e| self.error("list", e))?;
        let mut packs = Vec::new();
        for entry in dir {
            let entry = entry.map_err(|e| self.error("list", e))?;
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_pack_name(name)) else {
                continue;
            };
            let Ok(stat) = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_uid != own_uid() {
                continue;
            }
            let file_bytes = stat.st_size as u64;
            packs.push(Listed {
                name: name.to_owned(),
                file_bytes,
                taken_bytes: file_bytes.next_multiple_of(BLOCK_BYTES).max(stat.st_blocks as u64 * 512),
                used: (stat.st_mtime, stat.st_mtime_nsec),
            });
        }
        Ok(packs)
    }

    /// Opens a pack. Refuses what is not a plain file of this user.
    pub(super) fn open(&self, name: &str, extra: OFlags) -> io::Result<OwnedFd> {
        // Opening a pipe that somebody has put there must not wait for its other end.
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | extra;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = rustix::fs::fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_uid != own_uid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(fd)
    }

    /// Takes a name out of the directory. Whoever has the file open keeps it.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Waits for the lock under which packs come and go, but not for long.
    pub(super) fn lock(&self) -> Result<Locked, CacheError> {
        let file = self.open(LOCK, OFlags::RDWR | OFlags::CREATE).map_err(|e| self.error("write in", e))?;
        match patiently(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Locked { _file: file }),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                Err(CacheError::Busy { path: self.path.clone(), seconds: LOCK_PATIENCE.as_secs() })
            }
            Err(e) => Err(self.error("lock", e)),
        }
    }

    /// The cap that the user has set here.
    pub(super) fn cap(&self) -> Option<u64> {
        let file = self.open(CAP, OFlags::RDONLY).ok()?;
        let mut text = [0; 32];
        let bytes = rustix::io::pread(&file, &mut text, 0).ok()?;
        std::str::from_utf8(&text[..bytes]).ok()?.trim().parse().ok()
    }

    /// Sets the cap, or goes back to the default.
    pub(super) fn set_cap(&self, cap_bytes: Option<u64>) -> Result<(), CacheError> {
        let changed = match cap_bytes {
            None => match self.remove(CAP) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            },
            Some(bytes) => {
                // Written beside and renamed: a reader sees the old number or the new one.
                let beside = "cap.new";
                self.open(beside, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
                    .and_then(|file| super::record::write_all_at(&file, format!("{bytes}\n").as_bytes(), 0))
                    .and_then(|()| Ok(rustix::fs::renameat(&self.fd, beside, &self.fd, CAP)?))
            }
        };
        changed.map_err(|e| self.error("set the cap of", e))
    }

    /// Evicts packs that nobody uses, those first that were used longest ago, until this much more fits under the
    /// cap. Says which ones it took.
    pub(super) fn make_room(
        &self,
        needed_bytes: u64,
        cap_bytes: u64,
        locked: &Locked,
    ) -> Result<(Vec<String>, Result<(), NoRoom>), CacheError> {
        let mut packs = self.list()?;
        packs.sort_by_key(|pack| pack.used);
        let mut total: u64 = packs.iter().map(|pack| pack.taken_bytes).sum();
        let mut evicted = Vec::new();
        for pack in packs {
            if total.saturating_add(needed_bytes) <= cap_bytes {
                break;
            }
            if self.evict(&pack.name, locked) {
                total -= pack.taken_bytes;
                evicted.push(pack.name);
            }
        }
        let fits = total.saturating_add(needed_bytes) <= cap_bytes;
        Ok((evicted, if fits { Ok(()) } else { Err(NoRoom { in_use_bytes: total }) }))
    }

    /// Evicts the pack that was used longest ago of those that nobody uses.
    pub(super) fn evict_oldest(&self, locked: &Locked) -> Option<String> {
        let mut packs = self.list().ok()?;
        packs.sort_by_key(|pack| pack.used);
        packs.into_iter().map(|pack| pack.name).find(|name| self.evict(name, locked))
    }

    /// Removes a pack unless somebody uses it.
    fn evict(&self, name: &str, _locked: &Locked) -> bool {
        let Ok(file) = self.open(name, OFlags::RDWR) else { return false };
        lock_alone(&file) && self.remove(name).is_ok()
    }
}

/// Locks a pack exclusively if nobody else has it locked. Only for those who have the directory's lock.
pub(super) fn lock_alone(file: impl AsFd) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Locks a pack as one that is used. Those who have it exclusively are soon done with it.
pub(super) fn lock_shared(file: impl AsFd) -> io::Result<()> {
    patiently(file, FlockOperation::NonBlockingLockShared)
}

fn patiently(file: impl AsFd, how: FlockOperation) -> io::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match rustix::fs::flock(&file, how) {
            Err(Errno::WOULDBLOCK) if waited < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PAUSE);
                waited += LOCK_PAUSE;
            }
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Notes that a pack is used now, by its time of last change. On a read-only file system nobody evicts either.
pub(super) fn touch(file: impl AsFd) {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW as _ };
    let _ = rustix::fs::futimens(file, &rustix::fs::Timestamps { last_access: now, last_modification: now });
}

/// Sees to it that this is a real directory of ours with access for nobody else, whoever made it and under whatever umask.
pub fn own_directory(path: &Path) -> Result<(), CacheError> {
    if let Err(source) = DirBuilder::new().recursive(true).mode(0o700).create(path)
        && source.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(CacheError::Io { what: "make", path: path.to_owned(), source });
    }
    // Opened first, so that what is looked at is what is changed.
    Folder::open_dir(path.to_owned()).map(|_| ())
}

/// Whether this is a real directory of ours.
pub(super) fn is_own_directory(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_uid == own_uid()
    })
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A change of the layout must change the suffix, so that builds that do not know it leave such packs alone.
fn is_pack_name(name: &str) -> bool {
    name.strip_suffix(".pack").is_some_and(|stem| {
        stem.len() == 16 && stem.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}
