//! The protocol of workers that share a bucket, in virtual time and with faults.
//!
//! A seed determines everything: rounds, workers, how long each request takes, which messages are delivered twice, which blobs are
//! seen late, who dies when and who comes back. The protocol is that of [`qjam_core::bucket`], line by line; storage, time and the
//! functions of rounds are made here. What must hold is in [`checks`], one function for each property.

mod checks;
mod clock;
mod faults;
mod job;
mod storage;
pub mod study;

pub use clock::{Clock, Tasks};
pub use faults::Faults;
pub use job::{Job, JobEnding, check};
pub use storage::{Latency, Requests, SimStorage};
