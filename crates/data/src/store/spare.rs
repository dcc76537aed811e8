//! Memory for long values that come and go: what one round has let go serves the next.
//!
//! An allocator gives the system back what is long and free, and every page of it costs a fault when it comes again; for
//! vectors of some hundred kilobytes that is more than filling them. Few buffers are kept, and only so much of them.

use super::AlignedBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of all buffers that wait to be used again, and how many these are.
const KEPT_BYTES_MAX: usize = 64 << 20;
const KEPT_MAX: usize = 4;

/// Buffers that nobody uses, the oldest first.
static KEPT: Mutex<Vec<AlignedBuf>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<AlignedBuf>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer that is kept for others when it is dropped. What is in it at first is of no meaning.
pub(crate) struct Spare(AlignedBuf);

impl Spare {
    /// At least so many bytes, and not more than about twice as many.
    pub(crate) fn of(bytes: usize) -> Spare {
        // Whole lines: whatever numbers it is used for next, there is a whole number of them.
        let bytes = bytes.next_multiple_of(64);
        let mut kept = kept();
        let fits = |buf: &AlignedBuf| (bytes..=bytes.saturating_mul(2)).contains(&buf.as_ref().len());
        let found = kept.iter().rposition(fits).map(|n| kept.remove(n));
        drop(kept);
        Spare(found.unwrap_or_else(|| AlignedBuf::zeroed(bytes)))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_ref()
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }
}

impl Clone for Spare {
    fn clone(&self) -> Self {
        let mut copy = Spare(AlignedBuf::zeroed(self.as_slice().len()));
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let buf = std::mem::replace(&mut self.0, AlignedBuf::zeroed(0));
        let mut kept = kept();
        kept.push(buf);
        let held = |kept: &[AlignedBuf]| kept.iter().map(|buf| buf.as_ref().len()).sum::<usize>();
        while kept.len() > KEPT_MAX || held(&kept) > KEPT_BYTES_MAX {
            kept.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_was_let_go_serves_again_and_not_all_are_kept() {
        // Lengths that nobody else in this process has.
        let bytes = 1_234_567;
        let first = Spare::of(bytes);
        let at = first.as_slice().as_ptr();
        drop(first);
        let again = Spare::of(bytes - 1000);
        assert!(std::ptr::eq(again.as_slice().as_ptr(), at) || kept().len() == KEPT_MAX);
        drop(Spare::of(KEPT_BYTES_MAX + 1));
        drop((0..2 * KEPT_MAX).map(|n| Spare::of(1000 * (1 << n))).collect::<Vec<_>>());
        let held: usize = kept().iter().map(|buf| buf.as_ref().len()).sum();
        assert!(kept().len() <= KEPT_MAX && held <= KEPT_BYTES_MAX, "{held}");
    }
}
