//! A table of mapped regions: finds the file and the offset of bytes that lie in one.
//!
//! Chunks are passed around as plain bytes. To show one to another process, [`find`] gives the file and the offset of its
//! bytes. Every [`Region`](super::Region) is in the table for as long as it is mapped; [`on_unmap`] sets a function that is
//! called when one is unmapped.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A mapped file.
#[derive(Debug)]
pub struct Mapped {
    /// The number of the region.
    pub id: u64,
    fd: Arc<OwnedFd>,
    start: usize,
    bytes: usize,
}

impl Mapped {
    /// The file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// All mapped regions, by the address of their first byte.
static MAPPED: RwLock<BTreeMap<usize, Arc<Mapped>>> = RwLock::new(BTreeMap::new());

/// Called with the number of every region that is unmapped.
static ON_UNMAP: OnceLock<fn(u64)> = OnceLock::new();

/// Has `f` called with the number of every region that is unmapped. Only the first such function is kept.
pub fn on_unmap(f: fn(u64)) {
    let _ = ON_UNMAP.set(f);
}

/// Keeps a region in the table; dropped before it is unmapped.
#[derive(Debug)]
pub(super) struct MappingNote {
    id: u64,
    start: usize,
}

impl MappingNote {
    pub(super) fn of(id: u64, fd: Arc<OwnedFd>, mapping: &[u8]) -> MappingNote {
        let start = mapping.as_ptr() as usize;
        let mapped = Arc::new(Mapped { id, fd, start, bytes: mapping.len() });
        MAPPED.write().unwrap_or_else(PoisonError::into_inner).insert(start, mapped);
        MappingNote { id, start }
    }
}

impl Drop for MappingNote {
    fn drop(&mut self) {
        let gone = MAPPED.write().unwrap_or_else(PoisonError::into_inner).remove(&self.start);
        drop(gone);
        if let Some(f) = ON_UNMAP.get() {
            f(self.id);
        }
    }
}

/// The region that holds all of these bytes, and where in it they begin. No bytes are nowhere.
pub fn find(bytes: &[u8]) -> Option<(Arc<Mapped>, usize)> {
    if bytes.is_empty() {
        return None;
    }
    let start = bytes.as_ptr() as usize;
    let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let (_, region) = mapped.range(..=start).next_back()?;
    let offset = start - region.start;
    (offset + bytes.len() <= region.bytes).then(|| (region.clone(), offset))
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
}
