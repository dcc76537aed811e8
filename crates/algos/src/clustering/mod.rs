//! Learners that group rows.

pub mod kmeans;
