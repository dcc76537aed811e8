//! The fixed order in which partial results are combined.
//!
//! Floating-point sums depend on their order, so the order is part of the answer: a binary [`tree`] over the chunk
//! indices that nobody's speed, number or death can change.

pub mod blocks;
pub mod tree;

pub use tree::{Cut, Node, Tree};
