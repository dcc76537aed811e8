//! The status page: one page of memory that an executor shares with its supervisor.
//!
//! A process that dies cannot say what it was doing. So each slot writes it down before it does it, in shared memory
//! that outlives the process: which activity, and which block of which round. The supervisor reads it after a death
//! and knows whom to blame, without a message per block. The other way round it holds the round that is cancelled, so
//! that user code can ask from inside a loop, when nobody reads messages, and how long an executor that has nothing to do
//! should look for messages before it sleeps.
//!
//! All fields are atomics, so both sides may touch them at any time; torn states only ever mislead blame.

use qjam_core::ids::{Block, RoundId};
use qjam_core::job::Activity;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const PAGE_BYTES: usize = 64 << 10;
/// Words before the slots: activity, rounds that are cancelled, and how long to stay awake.
const HEAD_WORDS: usize = 16;
const WORDS_PER_SLOT: usize = 4;
const CANCEL_WORDS: std::ops::Range<usize> = 1..AWAKE_WORD;
const AWAKE_WORD: usize = HEAD_WORDS - 1;

/// The page, mapped.
#[derive(Debug)]
pub struct Page {
    words: &'static [AtomicU64],
    fd: OwnedFd,
}

impl Page {
    /// Makes a new page.
    pub fn create() -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("qjam-status", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, PAGE_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Page::map(fd)
    }

    /// Maps a page that someone else made; refuses one that could be cut short under us.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let size = rustix::fs::fstat(&fd)?.st_size;
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if size != PAGE_BYTES as i64 || !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a status page"));
        }
        Page::map(fd)
    }

    #[expect(unsafe_code, reason = "mapping shared memory")]
    fn map(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping of a file that is sealed against shrinking; the address is chosen by the
        // kernel and unmapped only in `drop`.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )?
        };
        // SAFETY: the mapping is page-aligned, PAGE_BYTES long, lives until `drop`, and is only touched as atomics.
        let words = unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), PAGE_BYTES / 8) };
        Ok(Page { words, fd })
    }

    fn slot(&self, slot: u32) -> &[AtomicU64] {
        let first = HEAD_WORDS + slot as usize * WORDS_PER_SLOT;
        &self.words[first..first + WORDS_PER_SLOT]
    }

    /// Nobody stays awake for longer.
    pub const AWAKE_MAX: Duration = Duration::from_millis(1);

    /// Most slots that fit.
    pub const SLOTS_MAX: u32 = ((PAGE_BYTES / 8 - HEAD_WORDS) / WORDS_PER_SLOT) as u32;

    /// The executor is doing this.
    pub fn set_activity(&self, activity: Activity) {
        self.words[0].store(activity as u64, Relaxed);
    }

    /// What the executor was doing.
    pub fn activity(&self) -> Activity {
        match self.words[0].load(Relaxed) {
            1 => Activity::Receiving,
            2 => Activity::Mapping,
            3 => Activity::Sending,
            4 => Activity::Idle,
            _ => Activity::Starting,
        }
    }

    /// A slot goes into a block.
    pub fn enter(&self, slot: u32, round: RoundId, block: Block) {
        let words = self.slot(slot);
        words[1].store(round.0, Relaxed);
        words[2].store(u64::from(block), Relaxed);
        words[0].store(1, Relaxed);
    }

    /// A slot comes out of it.
    pub fn leave(&self, slot: u32) {
        self.slot(slot)[0].store(0, Relaxed);
    }

    /// Blocks that slots are inside.
    pub fn inside(&self, slots: u32) -> Vec<(RoundId, Block)> {
        (0..slots)
            .map(|s| self.slot(s))
            .filter(|words| words[0].load(Relaxed) == 1)
            .map(|words| (RoundId(words[1].load(Relaxed)), words[2].load(Relaxed) as Block))
            .collect()
    }

    /// The executor should look for messages for so long before it sleeps.
    pub fn set_awake(&self, awake: Duration) {
        self.words[AWAKE_WORD].store(awake.min(Page::AWAKE_MAX).as_nanos() as u64, Relaxed);
    }

    /// How long that is; at most [`AWAKE_MAX`](Page::AWAKE_MAX), whatever is written there.
    pub fn awake(&self) -> Duration {
        Duration::from_nanos(self.words[AWAKE_WORD].load(Relaxed)).min(Page::AWAKE_MAX)
    }

    /// Marks a round as over. Room is for the last few; an older one is stopped by force.
    pub fn cancel(&self, round: RoundId) {
        let place = CANCEL_WORDS.start + round.0 as usize % CANCEL_WORDS.len();
        self.words[place].store(round.0 + 1, Relaxed);
    }

    /// Whether a round is over.
    pub fn is_cancelled(&self, round: RoundId) -> bool {
        let place = CANCEL_WORDS.start + round.0 as usize % CANCEL_WORDS.len();
        self.words[place].load(Relaxed) == round.0 + 1
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Page {
    #[expect(unsafe_code, reason = "unmapping shared memory")]
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and `words` is not handed out beyond `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.words.as_ptr().cast_mut().cast(), PAGE_BYTES) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_page() {
        let mine = Page::create().unwrap();
        let theirs = Page::open(mine.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(mine.activity(), Activity::Starting);
        theirs.set_activity(Activity::Mapping);
        theirs.enter(3, RoundId(9), 7);
        theirs.enter(1, RoundId(9), 8);
        theirs.leave(1);
        assert_eq!(mine.activity(), Activity::Mapping);
        assert_eq!(mine.inside(4), [(RoundId(9), 7)]);
        mine.cancel(RoundId(9));
        assert!(theirs.is_cancelled(RoundId(9)) && !theirs.is_cancelled(RoundId(23)));
        assert_eq!(theirs.awake(), Duration::ZERO);
        mine.set_awake(Duration::from_micros(70));
        assert_eq!(theirs.awake(), Duration::from_micros(70));
        mine.set_awake(Duration::MAX);
        assert_eq!(theirs.awake(), Page::AWAKE_MAX);
        assert!(theirs.is_cancelled(RoundId(9)));
    }

    #[test]
    fn a_page_that_could_shrink_is_refused() {
        let fd = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, PAGE_BYTES as u64).unwrap();
        assert!(Page::open(fd).is_err());
    }
}
