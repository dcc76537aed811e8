//! Where chunks and payloads rest: memory that other processes of this host can map, and aligned memory of our own.

mod aligned;
mod map;
pub mod mapped;
mod page;
mod region;
mod spare;

pub use aligned::AlignedBuf;
pub(crate) use aligned::Pages;
pub use page::Page;
pub use region::{Arena, ArenaView, Region, RegionMut, RegionWriter};
pub(crate) use spare::Spare;
