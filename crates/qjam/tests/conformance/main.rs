//! One suite of promises, held to by every engine there is. One file per promise.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it, and what user code prints is a promise"
)]

qjam::worker_hook!();

mod program;
mod support;

mod bits;
mod cancel;
mod deaths;
mod faults;
mod files;
mod kills;
mod leaks;
mod lifecycle;
mod limits;
mod logs;
mod pending;
mod reduction;
mod results;

/// Every kind of worker, and mixtures.
pub(crate) const ENGINES: &[&str] = &[
    "local:1",
    "local:2",
    "local:3",
    "local:8",
    "proc:1",
    "proc:2",
    "proc:3",
    "proc:8",
    "proc:2*2",
    "proc:2,local:1",
];
