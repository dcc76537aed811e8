//! The names of blobs.
//!
//! ```text
//!   jobs/JOB/job                               what the job is
//!   jobs/JOB/rounds/ROUND/order/COPY           the order of a round, as often as the plan says
//!   jobs/JOB/rounds/ROUND/results/STAGE/GROUP/INDEX
//!   jobs/JOB/rounds/ROUND/end/value            the value, or …
//!   jobs/JOB/rounds/ROUND/end/failed           … why there is none
//!   jobs/JOB/rounds/ROUND/end/followed         what follows a fused round has begun, and its other blobs may be gone
//!   jobs/JOB/rounds/ROUND/running/TASK         a task that takes long, since when
//!   jobs/JOB/rounds/ROUND/backup/TASK          somebody runs a late task a second time
//!   jobs/JOB/rounds/ROUND/merging/STAGE-INDEX  somebody merges a group
//!   jobs/JOB/rounds/ROUND/sending              somebody sends the messages
//!   jobs/JOB/rounds/ROUND/sent                 all messages have been sent
//!   jobs/JOB/result                            what came of a job of fused rounds
//! ```
//!
//! Numbers have a fixed width, so that listings are in order.

use super::plan::Plan;
use super::round::RoundAt;

/// Everything of a job.
pub fn job(job: &str) -> String {
    format!("jobs/{job}/")
}

/// Everything of a round.
pub fn round(at: &RoundAt) -> String {
    format!("jobs/{}/rounds/{:010}/", at.job, at.round)
}

/// All copies of the order.
pub fn orders(at: &RoundAt) -> String {
    format!("{}order/", round(at))
}

/// A copy of the order.
pub fn order(at: &RoundAt, copy: u32) -> String {
    format!("{}order/{copy:05}", round(at))
}

/// The results of a group: all that are merged into the result `group` of the next stage.
pub fn group(at: &RoundAt, stage: u8, group: u32) -> String {
    format!("{}results/{stage:02}/{group:010}/", round(at))
}

/// All results of a stage.
pub fn stage(at: &RoundAt, stage: u8) -> String {
    format!("{}results/{stage:02}/", round(at))
}

/// A result. That of the last stage is the value.
pub fn result(at: &RoundAt, plan: &Plan, stage: u8, index: u32) -> String {
    if stage == plan.last() {
        return value(at);
    }
    format!("{}{index:010}", group(at, stage, plan.group_of(stage, index)))
}

/// How the round ended.
pub fn end(at: &RoundAt) -> String {
    format!("{}end/", round(at))
}

/// The value of a round.
pub fn value(at: &RoundAt) -> String {
    format!("{}end/value", round(at))
}

/// Why a round has no value.
pub fn failed(at: &RoundAt) -> String {
    format!("{}end/failed", round(at))
}

/// What follows a fused round has begun.
pub fn followed(at: &RoundAt) -> String {
    format!("{}end/followed", round(at))
}

/// Tasks that take long.
pub fn running(at: &RoundAt) -> String {
    format!("{}running/", round(at))
}

/// A task that takes long.
pub fn running_task(at: &RoundAt, task: u32) -> String {
    format!("{}running/{task:010}", round(at))
}

/// Tasks that somebody runs a second time.
pub fn backups(at: &RoundAt) -> String {
    format!("{}backup/", round(at))
}

/// Somebody runs a late task a second time.
pub fn backup(at: &RoundAt, task: u32) -> String {
    format!("{}backup/{task:010}", round(at))
}

/// Somebody merges a group.
pub fn merging(at: &RoundAt, stage: u8, index: u32) -> String {
    format!("{}merging/{stage:02}-{index:010}", round(at))
}

/// All merges that somebody has begun.
pub fn merges(at: &RoundAt) -> String {
    format!("{}merging/", round(at))
}

/// The stage and index of a merge, from the end of its name.
pub fn merge_of(name: &str) -> Option<(u8, u32)> {
    let (stage, index) = name.rsplit('/').next()?.split_once('-')?;
    Some((stage.parse().ok()?, index.parse().ok()?))
}

/// Somebody sends the messages of the round.
pub fn sending(at: &RoundAt) -> String {
    format!("{}sending", round(at))
}

/// All messages of the round have been sent once.
pub fn sent(at: &RoundAt) -> String {
    format!("{}sent", round(at))
}

/// The number at the end of a name.
pub fn number(name: &str) -> Option<u32> {
    name.rsplit('/').next()?.parse().ok()
}

/// What comes of a job whose rounds follow from each other.
pub fn job_result(job: &str) -> String {
    format!("jobs/{job}/result")
}
