//! Shared memory for payloads that are too large for a frame, used again and again.
//!
//! Both sides own some: the master for parameters, each executor for its results. A payload's place is told by arena
//! number; the first message to a reader that names an arena carries its descriptor. An arena is free again when its
//! readers are done, which the messages between them say. Sizes are powers of two, so that few arenas serve all rounds
//! and their pages stay warm: fresh shared memory costs as much as the copy into it.
//!
//! Of the arenas with the first [`KEPT_ARENAS`] numbers both sides keep what they know. One with a higher number is for a single
//! payload: every message that names it carries its descriptor, its readers keep no view of it, and it is gone when it is free. So
//! many rounds at once leave no more behind than a few.

use crate::codec::Encoder;
use crate::store::{AlignedBuf, Arena, ArenaView};
use bytes::Bytes;
use qjam_core::wire::message::Payload;
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

const ARENA_BYTES_MIN: usize = 1 << 20;
/// Arenas with a lower number are used again. Both sides must agree on it.
const KEPT_ARENAS: u64 = 8;
/// Pages of arenas up to this length are kept for the next round.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Arenas that this process writes.
#[derive(Debug)]
pub(crate) struct OwnArenas {
    /// By number.
    arenas: Vec<Option<Own>>,
    kept_bytes_max: usize,
    next_serial: u64,
}

impl Default for OwnArenas {
    fn default() -> Self {
        OwnArenas { arenas: Vec::new(), kept_bytes_max: KEPT_BYTES_MAX, next_serial: 0 }
    }
}

#[derive(Debug)]
struct Own {
    arena: Arena,
    /// Tells it from others that had the same number.
    serial: u64,
    busy: bool,
    /// So many of its bytes, from the first, have memory behind them.
    touched: usize,
}

/// A payload that was put into an arena.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) arena: u64,
    pub(crate) arena_bytes: u64,
    pub(crate) bytes: u64,
    pub(crate) fd: Arc<OwnedFd>,
    serial: u64,
}

impl Placed {
    /// Whether a reader that has been introduced to these needs its descriptor; from then on it is one of them.
    pub(crate) fn introduce(&self, introduced: &mut HashSet<u64>) -> bool {
        self.arena >= KEPT_ARENAS || introduced.insert(self.serial)
    }

    pub(crate) fn payload(&self, with_fd: bool) -> Payload {
        let Placed { arena, arena_bytes, bytes, .. } = *self;
        Payload::Arena { arena, arena_bytes, with_fd, offset: 0, bytes }
    }
}

impl OwnArenas {
    /// For a process with so much memory: pages of arenas up to an eighth of it are kept.
    pub(crate) fn within(limit_bytes: u64) -> Self {
        let eighth = usize::try_from(limit_bytes / 8).unwrap_or(usize::MAX);
        OwnArenas { kept_bytes_max: eighth.min(KEPT_BYTES_MAX), ..OwnArenas::default() }
    }

    /// Bytes of all arenas that have memory behind them, also those that wait to be used again.
    pub(crate) fn touched_bytes(&self) -> u64 {
        self.arenas.iter().flatten().map(|own| own.touched as u64).sum()
    }

    /// Writes a value into a free arena.
    pub(crate) fn place(&mut self, value: &Encoder<'_>) -> io::Result<Placed> {
        let bytes = value.payload_bytes();
        let placed = self.reserve(bytes)?;
        value.write_to(&mut self.memory(placed.arena)[..bytes]);
        Ok(placed)
    }

    /// A free arena for so many bytes; the smallest that fits, or a new one.
    pub(crate) fn reserve(&mut self, bytes: usize) -> io::Result<Placed> {
        let n = match self.smallest_free(bytes) {
            Some(n) => n,
            None => self.create(bytes)?,
        };
        let own = self.own(n as u64);
        own.busy = true;
        own.touched = own.touched.max(bytes);
        let (arena_bytes, fd, serial) = (own.arena.len() as u64, own.arena.file(), own.serial);
        Ok(Placed { arena: n as u64, arena_bytes, bytes: bytes as u64, fd, serial })
    }

    /// The smallest arena that nobody reads and that has so many bytes.
    fn smallest_free(&self, bytes: usize) -> Option<usize> {
        let all = self.arenas.iter().enumerate().filter_map(|(n, own)| Some((n, own.as_ref()?)));
        let free = all.filter(|(_, own)| !own.busy && own.arena.len() >= bytes);
        free.min_by_key(|(_, own)| own.arena.len()).map(|(n, _)| n)
    }

    /// Makes an arena, and gives its number: a new one, or that of one which is too small and nobody reads.
    fn create(&mut self, bytes: usize) -> io::Result<usize> {
        let arena = Arena::create(bytes.next_power_of_two().max(ARENA_BYTES_MIN))?;
        let vacant = self.arenas.iter().position(Option::is_none).unwrap_or(self.arenas.len());
        let too_small = self.smallest_free(0).filter(|_| vacant as u64 >= KEPT_ARENAS);
        let n = too_small.unwrap_or(vacant);
        if n == self.arenas.len() {
            self.arenas.push(None);
        }
        self.next_serial += 1;
        self.arenas[n] = Some(Own { arena, serial: self.next_serial, busy: false, touched: 0 });
        Ok(n)
    }

    fn own(&mut self, arena: u64) -> &mut Own {
        self.arenas[arena as usize]
            .as_mut()
            .expect("an arena that was reserved is there until it is released")
    }

    /// The memory of an arena that was reserved.
    pub(crate) fn memory(&mut self, arena: u64) -> &mut [u8] {
        self.own(arena).arena.as_mut_slice()
    }

    /// Its readers are done. The pages of a large one go back to the system: it may have been for one round only. One that is not
    /// kept goes altogether.
    pub(crate) fn release(&mut self, arena: u64) {
        let Some(place) = self.arenas.get_mut(arena as usize) else { return };
        if arena >= KEPT_ARENAS {
            *place = None;
            return;
        }
        let Some(own) = place else { return };
        own.busy = false;
        if own.touched > self.kept_bytes_max {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where it cannot be done the memory stays, as it does for small ones.
            if rustix::fs::fallocate(own.arena.fd(), flags, 0, own.arena.len() as u64).is_ok() {
                own.touched = 0;
            }
        }
    }
}

/// Numbers of another process's arenas that nobody here looks at any more: it may write them again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released(Arc<Mutex<Vec<u64>>>);

impl Released {
    pub(crate) fn put(&self, arena: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
    }

    pub(crate) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// These bytes of an arena, which is put here when the last view of them is gone. Until then `views` has another
    /// owner.
    pub(crate) fn lease(&self, bytes: Bytes, arena: u64, views: &Arc<()>) -> Bytes {
        Bytes::from_owner(Lease { bytes, arena, released: self.clone(), _views: views.clone() })
    }

    /// A copy of these bytes of an arena, which is put here at once.
    pub(crate) fn copied(&self, bytes: &[u8], arena: u64) -> Bytes {
        let mut copy = AlignedBuf::zeroed(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        self.put(arena);
        copy.into_bytes()
    }
}

/// Bytes in an arena that must stay as they are.
struct Lease {
    bytes: Bytes,
    arena: u64,
    released: Released,
    _views: Arc<()>,
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.released.put(self.arena);
    }
}

/// Arenas of one other process, as this one sees them.
#[derive(Debug, Default)]
pub(crate) struct PeerArenas {
    views: HashMap<u64, ArenaView>,
}

impl PeerArenas {
    /// The bytes of a payload that came with `tail` and, if it says so, with a descriptor.
    pub(crate) fn read(
        &mut self,
        payload: &Payload,
        tail: &Bytes,
        take_fd: impl FnOnce() -> Option<OwnedFd>,
    ) -> Result<Bytes, String> {
        match *payload {
            Payload::Tail { offset, bytes } => {
                let (from, to) = (offset as usize, offset as usize + bytes as usize);
                if to <= tail.len() {
                    Ok(tail.slice(from..to))
                } else {
                    Err(format!("{payload:?} of a tail of {}", tail.len()))
                }
            }
            Payload::Streamed { .. } => Err("bytes in segments, on the host they belong to".into()),
            Payload::Arena { arena, arena_bytes, with_fd, offset, bytes } => {
                let known = self.views.get(&arena).filter(|_| !with_fd).cloned();
                let view = match known {
                    Some(view) => view,
                    None if !with_fd => return Err(format!("arena {arena} was never introduced")),
                    None => {
                        let fd = take_fd().ok_or("a message announced a descriptor and brought none")?;
                        let view = Arena::open(fd, arena_bytes as usize);
                        view.map_err(|e| format!("arena {arena}: {e}"))?
                    }
                };
                if with_fd && arena < KEPT_ARENAS {
                    self.views.insert(arena, view.clone());
                }
                let (from, to) = (offset as usize, (offset as usize).saturating_add(bytes as usize));
                view.get(from..to).ok_or_else(|| format!("{payload:?} is outside its arena"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(arenas: &mut OwnArenas, n: u64) -> i64 {
        rustix::fs::fstat(arenas.own(n).arena.fd()).unwrap().st_blocks
    }

    #[test]
    fn only_large_arenas_give_their_memory_back() {
        let mut arenas = OwnArenas::default();
        for (n, bytes) in [(0, 1 << 20), (1, KEPT_BYTES_MAX + 1)] {
            let placed = arenas.reserve(bytes).unwrap();
            arenas.memory(placed.arena)[..1 << 16].fill(7);
            assert!(pages(&mut arenas, n) >= 128);
            arenas.release(placed.arena);
        }
        assert!(pages(&mut arenas, 0) >= 128 && pages(&mut arenas, 1) == 0);
        assert_eq!(arenas.reserve(KEPT_BYTES_MAX + 1).unwrap().arena, 1, "the large one serves again");
    }

    /// A reader of somebody's arenas, and what it has been introduced to.
    #[derive(Default)]
    struct Reader {
        introduced: HashSet<u64>,
        peer: PeerArenas,
    }

    impl Reader {
        /// What it reads in an arena, and whether it was given a descriptor.
        fn read(&mut self, placed: &Placed) -> (Bytes, bool) {
            let is_new = placed.introduce(&mut self.introduced);
            let fd = || is_new.then(|| placed.fd.try_clone().unwrap());
            (self.peer.read(&placed.payload(is_new), &Bytes::new(), fd).unwrap(), is_new)
        }
    }

    #[test]
    fn a_few_arenas_are_kept_and_many_at_once_are_given_back() {
        let (mut arenas, mut reader) = (OwnArenas::default(), Reader::default());
        for turn in 0..3_u8 {
            let placed: Vec<Placed> = (0..40).map(|_| arenas.reserve(8).unwrap()).collect();
            for (n, placed) in (0..).zip(&placed) {
                arenas.memory(placed.arena)[..8].fill(turn ^ n);
                let (bytes, is_new) = reader.read(placed);
                assert_eq!(bytes[..], [turn ^ n; 8]);
                assert_eq!(is_new, turn == 0 || placed.arena >= KEPT_ARENAS, "arena {}", placed.arena);
                // Another message of the same round.
                assert_eq!(reader.read(placed).0[..], [turn ^ n; 8]);
            }
            placed.iter().for_each(|placed| arenas.release(placed.arena));
            let kept = KEPT_ARENAS as usize;
            assert_eq!((arenas.arenas.iter().flatten().count(), reader.peer.views.len()), (kept, kept));
        }
    }

    #[test]
    fn an_arena_that_is_too_small_makes_room_for_a_larger_one() {
        let (mut arenas, mut reader) = (OwnArenas::default(), Reader::default());
        let small: Vec<Placed> = (0..KEPT_ARENAS).map(|_| arenas.reserve(8).unwrap()).collect();
        small.iter().for_each(|placed| drop(reader.read(placed)));
        let beside = arenas.reserve(8).unwrap();
        assert_eq!(beside.arena, KEPT_ARENAS, "all are taken");
        arenas.release(small[3].arena);
        arenas.release(beside.arena);
        let large = arenas.reserve(ARENA_BYTES_MIN + 1).unwrap();
        assert_eq!(large.arena, small[3].arena);
        arenas.memory(large.arena)[ARENA_BYTES_MIN] = 7;
        let (bytes, is_new) = reader.read(&large);
        assert!(is_new && bytes[ARENA_BYTES_MIN] == 7, "it is another arena under that number");
        arenas.release(large.arena);
        let again = arenas.reserve(ARENA_BYTES_MIN + 1).unwrap();
        assert!(again.arena == large.arena && !reader.read(&again).1, "and serves again");
    }

    #[test]
    fn an_arena_is_released_when_the_last_view_of_it_is_gone() {
        let (released, views) = (Released::default(), Arc::new(()));
        let whole = released.lease(Bytes::from_static(b"numbers"), 7, &views);
        let part = whole.slice(2..4);
        drop(whole);
        assert!(released.take().is_empty() && Arc::strong_count(&views) == 2);
        assert_eq!(part, "mb");
        drop(part);
        assert_eq!((released.take(), Arc::strong_count(&views)), (vec![7], 1));
        assert!(released.take().is_empty());
    }
}
