//! The promises that all engines are held to, on ranks: started by `mpirun`, for `cargo xtask test --only mpi`.
//!
//! The files are those of `crates/qjam/tests/conformance`. Left out is what is about processes that a master starts and
//! ends by itself; what happens when a rank dies is in `ends.rs`.

#![cfg(feature = "mpi")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    dead_code,
    reason = "all of this is test, and not all that the shared files have is used here"
)]

use qjam_mpi as _;

qjam::worker_hook!();

#[path = "../../../qjam/tests/conformance/support.rs"]
mod support;

#[path = "../../../qjam/tests/conformance/bits.rs"]
mod bits;
#[path = "../../../qjam/tests/conformance/faults.rs"]
mod faults;
#[path = "../../../qjam/tests/conformance/files.rs"]
mod files;
#[path = "../../../qjam/tests/conformance/pending.rs"]
mod pending;
#[path = "../../../qjam/tests/conformance/results.rs"]
mod results;

mod states;
mod surface;

/// The only engine here.
pub(crate) const ENGINES: &[&str] = &["mpi"];

/// Whether all workers of an engine are on this machine.
pub(crate) fn is_here(engine: &str) -> bool {
    engine != "mpi"
}
