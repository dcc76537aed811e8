//! Where chunks and payloads rest: memory that other processes of this host can map, and aligned memory of our own.

mod aligned;
pub mod cache;
mod map;
mod page;
pub(crate) mod places;
mod region;
mod spare;

pub(crate) use aligned::{AlignedBuf, Pages};
pub(crate) use page::Page;
pub(crate) use region::RegionWriter;
pub use region::{Arena, ArenaView, Region, RegionMut};
pub(crate) use spare::Spare;
