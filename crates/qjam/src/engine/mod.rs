//! Where workers come from.
//!
//! A [`WorkerString`] names seats; [`local`] fills them with threads of this process, [`proc`] with child processes.

pub(crate) mod child;
pub(crate) mod local;
pub(crate) mod proc;
mod worker_string;

pub use worker_string::{SEATS_MAX, SLOTS_MAX, Seat, SeatKind, WorkerString, WorkerStringError};
