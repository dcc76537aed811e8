//! Learners of densities that are mixtures.

pub mod gaussian;
