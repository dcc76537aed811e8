//! UserMemory of the user's own that a data set lies in, left where it is.
//!
//! An array of a gigabyte that a program holds already is neither copied nor written anywhere: its chunks are named and
//! read in place. Two things follow. Other processes cannot map it, so for them a copy in shared memory is made once, on
//! demand. And its owner may write to it: whoever keeps chunks by name must not keep views of such memory, and before a
//! round somebody has to look whether it is still what was named (`source/array.rs`).

use crate::store::{Region, traffic};
use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// UserMemory of somebody else's, kept alive. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct UserMemory {
    /// Distinct for every memory, and for every content of one that was found to have changed.
    id: u64,
    all: Bytes,
    shared: Arc<Mutex<Option<Region>>>,
}

impl UserMemory {
    pub(crate) fn over(all: Bytes) -> UserMemory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        UserMemory { id: NEXT.fetch_add(1, Relaxed), all, shared: Arc::default() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> Bytes {
        self.all.slice(range)
    }

    /// A copy that other processes can map, made by whoever asks first.
    pub fn region(&self) -> io::Result<Region> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = &*shared {
            return Ok(region.clone());
        }
        traffic::note_copied(self.all.len() as u64);
        Ok(shared.insert(Region::copy_of(&self.all)?).clone())
    }
}
