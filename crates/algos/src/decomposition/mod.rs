//! Learners that find directions in which rows vary.

pub mod pca;
