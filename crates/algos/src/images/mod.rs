//! Pictures to learn from and pictures of what was learned.
//!
//! The data travel so: [`dead_leaves`] draws images with the edges and occlusions of natural ones, [`patches`](mod@patches)
//! whitens them and cuts small squares out, a learner turns those into weights, and [`features`] shows the weights as
//! a PNG file or in the terminal. Nothing is read from disk and no photograph is needed.

pub mod dead_leaves;
pub mod features;
pub mod patches;

pub use patches::{each_patch, patches};
