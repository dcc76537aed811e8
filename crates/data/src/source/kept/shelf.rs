//! The folder of kept files: who uses which, which are still what was written, and how room is made.
//!
//! Whoever uses a file holds a shared lock on it (`flock`), from its first byte to the end of the data set; so a file that
//! can be locked for one alone is in nobody's use. When a file was used last is its time of access, which is set by hand,
//! since many disks are mounted without. Its time of change is written into its index: another one says that somebody
//! else has written to it.

use rustix::fs::{FlockOperation, flock, statvfs};
use std::fs::{File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is in the folder of converted files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    /// The folder.
    pub folder: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes they may have; files beyond that go, those first that were not used for longest.
    pub cap_bytes: u64,
}

/// Looks at the folder of converted files. `None` where there is none.
pub fn survey() -> Option<Shelf> {
    let folder = super::present_folder()?;
    let files = list(&folder).unwrap_or_default();
    let bytes = files.iter().map(|file| file.bytes).sum();
    Some(Shelf { cap_bytes: cap(&folder, bytes), files: files.len() as u64, bytes, folder })
}

/// Removes all converted files that nobody uses; gives how many bytes that were.
pub fn clear() -> u64 {
    super::present_folder().map_or(0, |folder| sweep_to(&folder, 0, None))
}

/// Says that this file is in use, for as long as what is given lives. `None` when it is just being removed, or gone.
pub(super) fn hold(path: &Path) -> Option<File> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(path).ok()?;
    hold_open(&file)?;
    // It may have been removed before it was locked, and another one put into its place.
    let (held, there) = (file.metadata().ok()?, std::fs::metadata(path).ok()?);
    ((held.dev(), held.ino()) == (there.dev(), there.ino())).then_some(file)
}

/// The same for a file that is open already.
pub(super) fn hold_open(file: &File) -> Option<()> {
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => None,
        // Disks without locks: nobody can lock a file for himself there, so nothing is removed.
        Ok(()) | Err(_) => Some(()),
    }
}

/// The time of change that a file written now is to have, in seconds.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Sets that a file was used now, and that it was changed last at this time.
pub(super) fn touch(file: &File, modified_s: u64) -> io::Result<()> {
    let modified = UNIX_EPOCH + Duration::from_secs(modified_s);
    file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(modified))
}

/// Whether nobody but its writer has changed a file.
pub(super) fn is_untouched(path: &Path, modified_s: u64) -> bool {
    let modified = std::fs::metadata(path).and_then(|about| about.modified());
    modified.is_ok_and(|modified| modified == UNIX_EPOCH + Duration::from_secs(modified_s))
}

struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // What is gone meanwhile is of no interest.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_file() {
            let used = about.accessed().unwrap_or(UNIX_EPOCH);
            files.push(Entry { path: entry.path(), bytes: about.len(), used });
        }
    }
    Ok(files)
}

/// Half of what there is room for with all of them gone.
fn cap(folder: &Path, taken: u64) -> u64 {
    free_bytes(folder).saturating_add(taken) / 2
}

/// Bytes that this user can still write to the disk of a file or folder.
pub(super) fn free_bytes(path: &Path) -> u64 {
    statvfs(path).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Makes room after a file was added to the standard folder. Other folders are their owners' business.
pub(super) fn sweep(added: &Path) {
    let Some(folder) = super::folder().filter(|folder| added.parent() == Some(folder)) else { return };
    let taken = list(&folder).unwrap_or_default().iter().map(|file| file.bytes).sum();
    let cap_bytes = cap(&folder, taken);
    sweep_to(&folder, cap_bytes, Some(added));
}

/// Removes files that nobody uses until the rest has no more than so many bytes; gives the bytes of those removed.
fn sweep_to(folder: &Path, cap_bytes: u64, added: Option<&Path>) -> u64 {
    let mut files = list(folder).unwrap_or_default();
    let is_unfinished = |path: &Path| path.extension().is_some_and(|ending| ending == "part");
    files.sort_by_key(|file| (!is_unfinished(&file.path), file.used));
    let mut left: u64 = files.iter().map(|file| file.bytes).sum();
    let mut removed = 0;
    for file in files {
        // What was being written by a program that is no more goes in any case.
        let unfinished = is_unfinished(&file.path);
        if (left <= cap_bytes && !unfinished) || added == Some(&file.path) {
            continue;
        }
        // Other cuts of a file are in use when it is.
        let first = file.path.with_extension("qjam");
        let in_use = |path: &Path| {
            File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
        };
        let Ok(alone) = File::open(&file.path) else { continue };
        if flock(&alone, FlockOperation::NonBlockingLockExclusive).is_err()
            || (!unfinished && first != file.path && in_use(&first))
        {
            continue;
        }
        if std::fs::remove_file(&file.path).is_ok() {
            left -= file.bytes;
            removed += file.bytes;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_what_is_in_use_stays() {
        let temporary = Temporary(std::env::temp_dir().join(format!("qjam-shelf-{}", std::process::id())));
        let folder = temporary.0.clone();
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, used_s: u64| {
            let path = folder.join(name);
            std::fs::write(&path, [0; 100]).unwrap();
            let used = UNIX_EPOCH + Duration::from_secs(used_s);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_times(FileTimes::new().set_accessed(used))
                .unwrap();
            path
        };
        let (oldest, old, new) = (file("a.qjam", 1), file("b.qjam", 2), file("c.qjam", 3));
        let (other_cut, dead) = (file("a.parts-2", 0), file("d.7-0.part", 9));
        let alive = file("e.8-0.part", 9);
        let (held, writing) = (hold(&oldest).unwrap(), hold(&alive).unwrap());
        assert_eq!(sweep_to(&folder, 400, None), 200);
        let there = |path: &PathBuf| path.exists();
        assert_eq!(
            [&oldest, &other_cut, &old, &new, &dead, &alive].map(there),
            [true, true, false, true, false, true]
        );
        drop((held, writing));
        assert_eq!(sweep_to(&folder, 0, Some(&new)), 300);
        assert!(there(&new));
    }

    /// A folder that goes away with the test, however that ends.
    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
