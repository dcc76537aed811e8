//! A table of mapped files: finds the file and the offset of bytes that lie in one.
//!
//! Chunks are passed around as plain bytes. To show one to another process, [`find`] gives the file and the offset of its
//! bytes. Every [`Region`](super::Region) is in the table for as long as it is mapped, and so is a file that the user has
//! mapped, if [`of_file`] was told; [`on_unmap`] sets a function that is called when one leaves the table.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A mapped file.
#[derive(Debug)]
pub struct Mapped {
    /// The number of the mapping.
    pub id: u64,
    fd: Arc<OwnedFd>,
    start: usize,
    bytes: usize,
    /// Where in the file the mapped bytes begin.
    offset: usize,
}

impl Mapped {
    /// The file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// All mapped files, by the address of their first byte.
static MAPPED: RwLock<BTreeMap<usize, Arc<Mapped>>> = RwLock::new(BTreeMap::new());

/// Called with the number of every mapping that leaves the table.
static ON_UNMAP: OnceLock<fn(u64)> = OnceLock::new();

/// Has `f` called with the number of every mapping that leaves the table. Only the first such function is kept.
pub fn on_unmap(f: fn(u64)) {
    let _ = ON_UNMAP.set(f);
}

/// A number that no other mapping of this process has.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// Keeps a mapping in the table; dropped before it is unmapped.
#[derive(Debug)]
pub(super) struct MappingNote {
    id: u64,
    start: usize,
}

impl MappingNote {
    /// Of bytes that are mapped from `offset` of a file.
    pub(super) fn of(id: u64, fd: Arc<OwnedFd>, offset: usize, mapping: &[u8]) -> MappingNote {
        let start = mapping.as_ptr() as usize;
        let mapped = Arc::new(Mapped { id, fd, start, bytes: mapping.len(), offset });
        MAPPED.write().unwrap_or_else(PoisonError::into_inner).insert(start, mapped);
        MappingNote { id, start }
    }
}

impl Drop for MappingNote {
    fn drop(&mut self) {
        let mut mapped = MAPPED.write().unwrap_or_else(PoisonError::into_inner);
        // A file that the user has mapped may have been noted twice; the last note is in the table.
        let is_own = mapped.get(&self.start).is_some_and(|mapped| mapped.id == self.id);
        let gone = is_own.then(|| mapped.remove(&self.start));
        drop(mapped);
        drop(gone);
        if let Some(f) = ON_UNMAP.get() {
            f(self.id);
        }
    }
}

/// Bytes that the user has mapped from `offset` of a file, which [`find`] finds from now on, for as long as they are kept.
pub fn of_file(fd: OwnedFd, offset: usize, mapping: Bytes) -> Bytes {
    struct UserMapping {
        _note: MappingNote,
        mapping: Bytes,
    }

    impl AsRef<[u8]> for UserMapping {
        fn as_ref(&self) -> &[u8] {
            &self.mapping
        }
    }

    let note = MappingNote::of(next_id(), Arc::new(fd), offset, &mapping);
    Bytes::from_owner(UserMapping { _note: note, mapping })
}

/// The mapping that holds all of these bytes, and where in its file they begin. No bytes are nowhere.
pub fn find(bytes: &[u8]) -> Option<(Arc<Mapped>, usize)> {
    if bytes.is_empty() {
        return None;
    }
    let start = bytes.as_ptr() as usize;
    let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let (_, region) = mapped.range(..=start).next_back()?;
    let offset = start - region.start;
    (offset + bytes.len() <= region.bytes).then(|| (region.clone(), region.offset + offset))
}

#[cfg(test)]
mod tests {
    use super::super::Region;
    use super::*;

    #[test]
    fn bytes_of_a_region_are_found_and_others_are_not() {
        let region = Region::copy_of(b"some bytes").unwrap();
        let part = region.bytes(5..8);
        let id = region.id();
        drop(region);
        let (found, offset) = find(&part).unwrap();
        assert_eq!((found.id, offset), (id, 5));
        let address = part.as_ptr() as usize;
        drop((part, found));
        let still = MAPPED.read().unwrap().get(&address).is_some_and(|mapped| mapped.id == id);
        assert!(!still, "the note stays after the mapping is gone");
        assert!(find(&vec![0; 1 << 20]).is_none());
    }

    #[test]
    fn a_file_that_the_user_has_mapped_is_found_by_its_last_note() {
        let region = Region::copy_of(&[7; 100]).unwrap();
        let fd = || region.fd().try_clone_to_owned().unwrap();
        // Stands for memory of the user's: the table does not look at what it is.
        let memory = Bytes::from(vec![7; 60]);
        let noted = [of_file(fd(), 40, memory.clone()), of_file(fd(), 40, memory.clone())];
        let (found, offset) = find(&memory[10..20]).unwrap();
        assert_eq!((found.bytes, offset), (60, 50));
        let [first, last] = noted;
        drop(first);
        assert_eq!(find(&memory[10..20]).unwrap().0.id, found.id);
        drop(last);
        assert!(find(&memory[10..20]).is_none());
    }
}
