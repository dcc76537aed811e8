//! Rounds by workers that share nothing but storage: a folder, or a bucket and a queue of a cloud.
//!
//! The protocol is [`qjam_core::bucket`]. Here are the kinds of storage it runs on, the crew that submits rounds ([`StoreCrew`]),
//! jobs without a submitter ([`detach`] and [`Attached`]), and the processes that serve ([`serve`]).

mod address;
mod attach;
#[cfg(feature = "azure")]
mod azure;
mod bucket;
mod buffers;
mod build;
#[cfg(feature = "objects")]
mod chunks;
mod crew;
mod detach;
mod ending;
mod error;
pub mod experiment;
#[cfg(debug_assertions)]
mod faults;
pub mod folder;
mod functions;
mod fused;
pub mod gc;
mod job;
#[cfg(feature = "objects")]
mod objects;
mod offload;
mod pieces;
mod random;
pub mod run;
#[cfg(feature = "s3")]
mod s3;
mod seal;
pub mod serve;
mod submit;
pub mod survey;
mod upkeep;
mod upload;

pub use address::Address;
pub use attach::{Attached, RunningJob, Standing, is_detached};
pub use bucket::Bucket;
pub use crew::StoreCrew;
pub use detach::{DetachedJob, detach};
pub use error::StoreError;
pub use job::{Manifest, find};
pub use seal::Seal;
pub use submit::{KEY, RESUME, key_of_environment, seal_of_environment};

/// The code in the book is compiled like any other example.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/book/bucket.md")]
    struct Bucket;
}
