//! One suite of promises, held to by every engine there is. One file per promise.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it, and what user code prints is a promise"
)]

use std::sync::LazyLock;

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
mod views;

/// Every kind of worker, and mixtures; or those that the environment names, between semicolons.
pub(crate) static ENGINES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let named: Option<&'static str> = std::env::var("QJAM_TEST_ENGINES").ok().map(|text| &*text.leak());
    named.map_or_else(|| HERE.to_vec(), |named| named.split(';').collect())
});

/// Whether all workers of an engine are on this machine.
pub(crate) fn is_here(engine: &str) -> bool {
    engine
        .trim_start_matches("auto:")
        .split(',')
        .all(|item| item.starts_with("local") || item.starts_with("proc"))
}

/// What there is on any machine.
const HERE: &[&str] = &[
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
    "auto:local:2",
    "auto:proc:3",
];
