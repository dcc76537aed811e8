//! Memory of large blobs, used again.
//!
//! A blob of megabytes that is read into new memory costs more for the memory than for the bytes: the system maps and clears every
//! page of it, and takes it back when the blob is dropped. So a process keeps the memory of blobs that were dropped, and reads the
//! next ones into it. What is kept has a limit; those that were kept longest are the first to go.

use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The allocator has smaller ones at hand itself.
const SMALL_BYTES: usize = 128 << 10;
/// Memory that is kept and that no blob is in, unless somebody needs more.
const KEPT_BYTES: usize = 128 << 20;

/// Buffers for blobs. Clones share what is kept.
#[derive(Clone)]
pub(crate) struct Buffers {
    kept: Arc<Mutex<FreeBuffers>>,
}

/// Buffers that no blob is in.
struct FreeBuffers {
    /// The one that was kept longest is the first.
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

/// A blob whose memory goes back when it is dropped.
struct Lent {
    bytes: Vec<u8>,
    buffers: Buffers,
}

impl Buffers {
    fn new(bytes_max: usize) -> Buffers {
        Buffers { kept: Arc::new(Mutex::new(FreeBuffers { buffers: VecDeque::new(), bytes: 0, bytes_max })) }
    }

    /// Those of this process.
    pub(crate) fn of_process() -> Buffers {
        static OURS: OnceLock<Buffers> = OnceLock::new();
        OURS.get_or_init(|| Buffers::new(KEPT_BYTES)).clone()
    }

    /// Keeps up to so many bytes, if that is more than otherwise: for a process with many participants.
    pub(crate) fn keep_up_to(&self, bytes: usize) {
        let mut kept = self.lock();
        kept.bytes_max = kept.bytes_max.max(bytes);
    }

    /// An empty buffer with room for so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        if bytes < SMALL_BYTES {
            return Vec::with_capacity(bytes);
        }
        // A much larger one stays for a larger blob.
        let fits = |buffer: &Vec<u8>| (bytes..=bytes.saturating_mul(2)).contains(&buffer.capacity());
        let mut kept = self.lock();
        let at = kept.buffers.iter().rposition(fits);
        let found = at.and_then(|at| kept.buffers.remove(at));
        kept.bytes -= found.as_ref().map_or(0, Vec::capacity);
        drop(kept);
        found.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    /// A blob with this content. Its memory comes back.
    pub(crate) fn lend(&self, bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() < SMALL_BYTES {
            return bytes.into();
        }
        Bytes::from_owner(Lent { bytes, buffers: self.clone() })
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut gone = Vec::new();
        let mut kept = self.lock();
        if buffer.capacity() > kept.bytes_max {
            return;
        }
        kept.bytes += buffer.capacity();
        kept.buffers.push_back(buffer);
        while kept.bytes > kept.bytes_max
            && let Some(oldest) = kept.buffers.pop_front()
        {
            kept.bytes -= oldest.capacity();
            gone.push(oldest);
        }
        // Giving memory back to the system takes long: others need not wait for it.
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, FreeBuffers> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.buffers.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 1 << 20;

    fn filled(buffers: &Buffers, bytes: usize, with: u8) -> Bytes {
        let mut buffer = buffers.take(bytes);
        assert!(buffer.is_empty(), "old content is in a buffer");
        buffer.resize(bytes, with);
        buffers.lend(buffer)
    }

    #[test]
    fn memory_is_used_again_when_no_view_of_the_blob_is_left() {
        let buffers = Buffers::new(KEPT_BYTES);
        let blob = filled(&buffers, LARGE, 1);
        let (at, view) = (blob.as_ptr(), blob.slice(10..));
        drop(blob);
        let other = filled(&buffers, LARGE, 2);
        assert_ne!(other.as_ptr(), at, "memory was used again that somebody reads");
        assert!(view.iter().all(|byte| *byte == 1));
        drop(view);
        assert_eq!(filled(&buffers, LARGE / 2, 3).as_ptr(), at);
        assert_ne!(filled(&buffers, LARGE / 2 - 1, 4).as_ptr(), at, "half a buffer would be wasted");
    }

    #[test]
    fn what_is_kept_has_a_limit_and_small_buffers_are_not_kept() {
        let buffers = Buffers::new(KEPT_BYTES);
        let kept = || {
            let kept = buffers.lock();
            assert_eq!(kept.bytes, kept.buffers.iter().map(Vec::capacity).sum::<usize>());
            kept.bytes
        };
        drop(filled(&buffers, SMALL_BYTES - 1, 1));
        assert_eq!(kept(), 0);
        let blobs: Vec<Bytes> = (0..=KEPT_BYTES / LARGE).map(|_| filled(&buffers, LARGE, 1)).collect();
        drop(blobs);
        assert!((KEPT_BYTES - LARGE..=KEPT_BYTES).contains(&kept()), "{} bytes", kept());
        let before = kept();
        drop(filled(&buffers, KEPT_BYTES + 1, 1));
        assert_eq!(kept(), before, "one blob took the place of all");
        buffers.keep_up_to(KEPT_BYTES + LARGE);
        drop((filled(&buffers, KEPT_BYTES / 2, 1), filled(&buffers, KEPT_BYTES / 2 + LARGE, 1)));
        assert!(kept() > KEPT_BYTES);
    }
}
