//! Where chunks and payloads rest: memory that other processes of this host can map, and aligned memory of our own.

mod aligned;
mod map;
pub mod mapped;
mod page;
mod region;
mod spare;
pub mod traffic;

pub use aligned::AlignedBuf;
pub(crate) use aligned::Pages;
pub use page::Page;
pub use region::{Arena, ArenaView, Region, RegionMut, RegionWriter};
pub(crate) use spare::Spare;

/// So many zeros, for a number that somebody else chose: `None` when there is no such memory.
pub(crate) fn try_zeroed<N: bytemuck::Zeroable>(count: u64) -> Option<Vec<N>> {
    bytemuck::try_zeroed_vec(usize::try_from(count).ok()?).ok()
}
