//! Where workers come from.
//!
//! # Worker strings
//!
//! | string | workers |
//! |---|---|
//! | `local` | threads of this process, one per core |
//! | `local:4` | four threads of this process |
//! | `proc` | child processes, one per core |
//! | `proc:4` | four child processes of one slot each |
//! | `proc:2*4` | two child processes of four slots each |
//! | `proc:2,local:1` | both; commas join |
//!
//! A [`WorkerString`] names seats. Threads fill them in [`local`], child processes in [`proc`].

pub(crate) mod child;
pub(crate) mod local;
pub(crate) mod proc;
mod worker_string;

pub use worker_string::{SEATS_MAX, SLOTS_MAX, Seat, SeatKind, WorkerString, WorkerStringError};
