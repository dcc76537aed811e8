//! Fits that need no program to wait for their rounds.

use super::{Fitted, Job, LearnerError};
use crate::options::Settings;
use qjam::fused::FusedRound;

/// A learner whose rounds follow from each other by a fused step ([`qjam::fused`]).
pub trait Detachable {
    /// The first round of a fit. The job's master runs nothing. Data is refused as by a fit as far as its shape tells; the rest the
    /// loop finds out.
    fn first_round(&self, job: &Job<'_>) -> Result<FusedRound, LearnerError>;

    /// The model that came of it, of what its loop kept last.
    fn conclude(&self, settings: &Settings, rows: &DetachedRows, kept: &[u8])
    -> Result<Fitted, LearnerError>;
}

/// What is known of the rows of a detached fit where its model is brought home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachedRows {
    /// How many.
    pub count: u64,
    /// Whether their numbers have 32 bits.
    pub is_single: bool,
}
