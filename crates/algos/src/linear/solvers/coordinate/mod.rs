//! CoCoA (Smith, Forte, Ma, Takáč, Jordan, Jaggi): coordinates stay with their data, and partitions exchange one vector a
//! round.
//!
//! [`partition`] deals columns out, [`local`] is what a partition does in a round (through [`columns`], sparse or dense; `steps`
//! is what one step does to its coordinates), [`cocoa`] is the master's loop. An objective is a [`loss`] of all coordinates
//! together and [`separable`] terms. [`search`] finds how far to go along the sum of all changes in a [`plane`], [`whole`]
//! decides whether to search at all, [`tuner`] how much work is done between two exchanges. `wide` makes of it what the learners
//! ask for; [`learners`] are the same models for callers that cut the data themselves; [`baselines`] are there to be compared with, and
//! so is [`drawn`], the method as papers write it.

pub mod baselines;
pub mod cocoa;
pub mod columns;
pub mod drawn;
pub mod learners;
pub mod local;
pub mod loss;
pub mod params;
pub mod partition;
pub mod plane;
mod prices;
pub mod search;
pub mod separable;
mod steps;
#[cfg(test)]
mod tests;
pub mod tuner;
pub mod whole;
pub(in crate::linear) mod wide;
