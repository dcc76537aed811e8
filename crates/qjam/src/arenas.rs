//! Shared memory for payloads that are too large for a frame, used again and again.
//!
//! Both sides own some: the master for parameters, each executor for its results. A payload's place is told by arena
//! number; the first message to a reader that names an arena carries its descriptor. An arena is free again when its
//! readers are done, which the messages between them say. Sizes are powers of two, so that few arenas serve all rounds
//! and their pages stay warm: fresh shared memory costs as much as the copy into it.

use crate::codec::Encoder;
use crate::store::{AlignedBuf, Arena, ArenaView};
use bytes::Bytes;
use qjam_core::wire::message::Payload;
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

const ARENA_BYTES_MIN: usize = 1 << 20;
/// Pages of arenas up to this length are kept for the next round.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Arenas that this process writes.
#[derive(Debug)]
pub(crate) struct OwnArenas {
    arenas: Vec<Own>,
    kept_bytes_max: usize,
}

impl Default for OwnArenas {
    fn default() -> Self {
        OwnArenas { arenas: Vec::new(), kept_bytes_max: KEPT_BYTES_MAX }
    }
}

#[derive(Debug)]
struct Own {
    arena: Arena,
    fd: Arc<OwnedFd>,
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
}

impl Placed {
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
        self.arenas.iter().map(|own| own.touched as u64).sum()
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
        let fits = |own: &Own| !own.busy && own.arena.len() >= bytes;
        let best = (0..self.arenas.len())
            .filter(|&n| fits(&self.arenas[n]))
            .min_by_key(|&n| self.arenas[n].arena.len());
        let n = match best {
            Some(n) => n,
            None => {
                let arena = Arena::create(bytes.next_power_of_two().max(ARENA_BYTES_MIN))?;
                let fd = Arc::new(arena.fd().try_clone_to_owned()?);
                self.arenas.push(Own { arena, fd, busy: false, touched: 0 });
                self.arenas.len() - 1
            }
        };
        let own = &mut self.arenas[n];
        own.busy = true;
        own.touched = own.touched.max(bytes);
        let arena_bytes = own.arena.len() as u64;
        Ok(Placed { arena: n as u64, arena_bytes, bytes: bytes as u64, fd: own.fd.clone() })
    }

    /// The memory of an arena that was reserved.
    pub(crate) fn memory(&mut self, arena: u64) -> &mut [u8] {
        self.arenas[arena as usize].arena.as_mut_slice()
    }

    /// Its readers are done. The pages of a large one go back to the system: it may have been for one round only.
    pub(crate) fn release(&mut self, arena: u64) {
        let Some(own) = self.arenas.get_mut(arena as usize) else { return };
        own.busy = false;
        if own.touched > self.kept_bytes_max {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Where it cannot be done the memory stays, as it does for small ones.
            if rustix::fs::fallocate(&*own.fd, flags, 0, own.arena.len() as u64).is_ok() {
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
                if with_fd {
                    let fd = take_fd().ok_or("a message announced a descriptor and brought none")?;
                    let view =
                        Arena::open(fd, arena_bytes as usize).map_err(|e| format!("arena {arena}: {e}"))?;
                    self.views.insert(arena, view);
                }
                let view =
                    self.views.get(&arena).ok_or_else(|| format!("arena {arena} was never introduced"))?;
                let (from, to) = (offset as usize, (offset as usize).saturating_add(bytes as usize));
                view.get(from..to).ok_or_else(|| format!("{payload:?} is outside its arena"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    fn pages(arenas: &OwnArenas, n: usize) -> i64 {
        rustix::fs::fstat(arenas.arenas[n].fd.as_fd()).unwrap().st_blocks
    }

    #[test]
    fn only_large_arenas_give_their_memory_back() {
        let mut arenas = OwnArenas::default();
        for (n, bytes) in [(0, 1 << 20), (1, KEPT_BYTES_MAX + 1)] {
            let placed = arenas.reserve(bytes).unwrap();
            arenas.memory(placed.arena)[..1 << 16].fill(7);
            assert!(pages(&arenas, n) >= 128);
            arenas.release(placed.arena);
        }
        assert!(pages(&arenas, 0) >= 128 && pages(&arenas, 1) == 0);
        assert_eq!(arenas.reserve(KEPT_BYTES_MAX + 1).unwrap().arena, 1, "the large one serves again");
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
