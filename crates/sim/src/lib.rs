//! A deterministic simulator that drives the state machines of `core` through virtual time.
//!
//! It uses the real `Scheduler`, one real `Worker` per living
//! process, and the real `Tree` on both sides. Processes, network and clock are simulated. There is
//! no scheduling code in this crate.
//!
//! Comes in: a seed, which determines a [`plan`] of cluster, rounds and [`fault`]s. The [`engine`] runs it over a simulated
//! [`network`]; the [`checkers`] check every event; the [`oracle`] computes the expected values. Goes out: an [`Ending`], or a
//! [`Violation`]. A failing seed and the commit reproduce a failure:
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
pub mod letters;
pub mod oracle;
pub mod tally;

pub mod mutation;

pub mod study;

pub mod bucket;

pub use checkers::{Answer, Violation};
pub use engine::{Ending, run};
pub use plan::Plan;
pub use tally::Tally;
pub use trace::Trace;

#[cfg(test)]
mod scenarios;

/// Draws the plan of a seed and runs it.
pub fn check(seed: u64, workers_max: u32, trace: &mut Trace) -> Result<Ending, Violation> {
    run(&Plan::draw(seed, workers_max), trace)
}
