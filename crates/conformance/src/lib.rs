//! The promises that every engine is held to, and what they are checked with. For tests only.
//!
//! An [`Engine`] describes workers: what to write to get them, what they can do ([`Caps`]), and how one of them is killed. A
//! promise is a function of that description, in one file per subject under `promises`; `promise.rs` lists them with what an
//! engine needs to be able to do before it promises that. [`run`] is the `main` of a test executable: it checks every promise
//! on every engine under a name of its own, and tells which are not promised.
//!
//! What comes in: engines, from a test executable of this crate, of `qjam-mpi`, or of whoever writes an engine. What goes
//! out: one line per promise and engine, and an exit code. Nothing here may name an engine, and no verdict may hang on a
//! clock: a promise waits for events, counts them, or compares; [`HANG`] turns a wait without end into a failure.
//!
//! ```no_run
//! use qjam_conformance::{Engine, run};
//!
//! qjam_conformance::hook!();
//!
//! fn main() -> std::process::ExitCode {
//!     run(&[Engine::new("threads", &["local:1", "local:3"], |n| format!("local:{n}"))], &[])
//! }
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it, and what user code prints is a promise"
)]

mod engine;
mod harness;
pub mod program;
mod promise;
mod promises;
pub mod support;

pub use engine::{Caps, Connect, Engine};
pub use harness::run;
pub use promise::{Need, Promise};
#[doc(hidden)]
pub use promises::PROGRAMS;

use std::time::Duration;

/// A wait longer than this counts as a hang. No verdict about speed uses it.
pub const HANG: Duration = Duration::from_secs(180);
