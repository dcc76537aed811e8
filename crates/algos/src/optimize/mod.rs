//! Drivers that need nothing but a function and its gradient.
//!
//! What is minimised may be a formula or a round on a hundred workers; the driver calls it and waits. All of them run
//! on the master, are deterministic, and count evaluations, since an evaluation is what costs.

pub mod conjugate;
pub mod first_order;
pub mod fista;
pub mod lbfgs;
pub mod line_search;
pub mod minimize;
pub mod newton;
pub mod proximal;
#[cfg(test)]
mod tests;
