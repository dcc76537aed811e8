//! Where chunks and payloads rest: memory that other processes of this host can map, and the cache on its disk.

pub use qjam_cache as cache;
pub use qjam_data::store::{Arena, ArenaView, Region, RegionMut};

pub(crate) use qjam_data::store::{AlignedBuf, Page};
