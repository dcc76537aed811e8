//! A deterministic simulator: core's machines, driven through virtual time by a seed.
//!
//! The real [`Scheduler`](qjam_core::scheduler::Scheduler), one real [`Worker`](qjam_core::worker::Worker) for each living
//! process and the real [`Tree`](qjam_core::reduce::Tree) on both sides; everything around them is made up. There is no
//! scheduling code in here.
//!
//! A seed draws a [`plan`]: cluster, rounds and [`fault`]s. The [`engine`] plays it over a made-up [`network`]; the
//! [`checkers`] watch every event; the [`oracle`] knows the answer. A failing seed and the commit are all that is needed
//! to see the failure again:
//!
//! ```
//! use qjam_sim::{check, Trace};
//! let ending = check(7, 64, &mut Trace::off()).expect("seed 7 is harmless");
//! assert!(!ending.answers.is_empty());
//! ```

pub mod random;
pub mod trace;

pub mod fault;
pub mod plan;

mod network;

pub mod engine;

pub mod checkers;
pub mod oracle;
pub mod tally;

pub mod mutation;

pub mod study;

pub use checkers::{Answer, Violation};
pub use engine::{Ending, run};
pub use plan::Plan;
pub use tally::Tally;
pub use trace::Trace;

#[cfg(test)]
mod scenarios;

/// Draws the plan of a seed and plays it.
pub fn check(seed: u64, workers_max: u32, trace: &mut Trace) -> Result<Ending, Violation> {
    run(&Plan::draw(seed, workers_max), trace)
}
