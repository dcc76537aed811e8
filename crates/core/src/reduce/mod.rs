//! The fixed order in which partial results are combined.
//!
//! Floating-point sums depend on their order, so the order is fixed: a binary [`tree`] over the chunk indices, independent of the
//! number, speed and death of workers.

pub mod blocks;
pub mod tree;

pub use tree::{Cut, Node, Tree};
