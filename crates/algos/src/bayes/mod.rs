//! Learners that apply Bayes' rule to a simple model of each class.

pub mod gaussian;
