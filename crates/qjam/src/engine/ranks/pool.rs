//! Buffers for messages, used again and again: fresh memory costs a page fault for every 4 KiB of it.

use crate::engine::params::CrewBuffer;
use crate::store::AlignedBuf;
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// So many are kept; more are in use at once only while results pile up.
const KEPT_MAX: usize = 4;

/// Buffers that nobody uses at the moment.
#[derive(Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<AlignedBuf>>>);

/// A buffer in use. It goes back when it, and all bytes made of it, are dropped.
pub(crate) struct Borrowed {
    buf: Option<AlignedBuf>,
    bytes: usize,
    pool: Pool,
}

impl Pool {
    /// A buffer of at least this length, with whatever is in it; `None` when there is no such memory.
    pub(super) fn take(&self, bytes: u64) -> Option<Borrowed> {
        let wanted = usize::try_from(bytes).ok()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The shortest that is long enough, and no giant for a dwarf.
        let fits = |buf: &AlignedBuf| {
            let len = buf.as_ref().len();
            len >= wanted && len / 4 <= wanted.max(1 << 16)
        };
        let found = (0..kept.len()).filter(|n| fits(&kept[*n])).min_by_key(|n| kept[*n].as_ref().len());
        let found = found.map(|n| kept.swap_remove(n));
        drop(kept);
        let buf = match found {
            Some(buf) => buf,
            None => AlignedBuf::try_zeroed(bytes)?,
        };
        Some(Borrowed { buf: Some(buf), bytes: wanted, pool: self.clone() })
    }
}

impl Borrowed {
    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        self.buf.as_mut().map_or(&mut [], |buf| &mut buf.as_mut_slice()[..bytes])
    }

    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl CrewBuffer for Borrowed {
    fn as_slice(&self) -> &[u8] {
        self.as_ref()
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        Borrowed::as_mut_slice(self)
    }

    fn into_bytes(self: Box<Self>) -> Bytes {
        Bytes::from_owner(*self)
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf.as_ref()[..self.bytes])
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let mut kept = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(self.buf.take());
        if kept.len() > KEPT_MAX {
            kept.remove(0); // the one that was given back first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_the_last_view_of_it_goes() {
        let pool = Pool::default();
        let mut buf = pool.take(100_000).unwrap();
        buf.as_mut_slice().fill(7);
        let bytes = buf.into_bytes();
        let part = bytes.slice(10..20);
        drop(bytes);
        assert!(pool.take(100_000).unwrap().as_ref()[0] == 0, "in use: another one is made");
        drop(part);
        let kept = pool.0.lock().unwrap().len();
        assert_eq!(kept, 2);
        assert_eq!(pool.take(90_000).unwrap().as_ref().len(), 90_000, "as long as was asked for");
        assert_eq!(pool.take(u64::MAX).map(|_| ()), None);
    }
}
