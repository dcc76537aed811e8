//! State that stays with the data: what is promised of it, on threads and processes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test")]

qjam::worker_hook!();

mod bits;
mod counting;
mod failures;
mod kills;
mod lifecycle;
mod mail;
mod memory;
mod moving;
mod resume;
mod ridge;
