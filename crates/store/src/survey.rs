//! What is in a bucket: who works, what is worked on, and how far that is.

use crate::bucket::CHUNKS;
use crate::build::BUILDS;
use crate::job::{self, ActiveJob, Manifest, WORKER_GONE, WORKERS};
use crate::{Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::message::is_job;
use qjam_core::bucket::{Listed, Order, RoundAt, Storage, keys};
use qjam_core::time::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// All that is in a bucket.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Workers, in the order of their names.
    pub workers: Vec<WorkerEntry>,
    /// Jobs, in the order of their names.
    pub jobs: Vec<JobEntry>,
    /// How many chunks of data there are.
    pub chunks: u64,
    /// How many builds of submitters there are.
    pub builds: u64,
}

/// A worker of a bucket.
#[derive(Clone, Debug)]
pub struct WorkerEntry {
    /// What it is called.
    pub name: String,
    /// How many blocks it runs at once.
    pub slots: u32,
    /// For how long nothing was heard of it.
    pub silent: Duration,
    /// Whether that is so long that it is gone.
    pub is_gone: bool,
}

/// A job in a bucket.
#[derive(Clone, Debug)]
pub struct JobEntry {
    /// Its name in the bucket.
    pub job: String,
    /// The name that its submitter has chosen.
    pub name: Option<String>,
    /// Who submitted it; `None` if its manifest cannot be read, or is gone.
    pub by: Option<String>,
    /// Whether it is worked on.
    pub state: JobState,
    /// How many rounds have their value.
    pub rounds: u64,
    /// The round under way: its number, how many of its tasks are done, and of how many.
    pub under_way: Option<(u64, u64, u64)>,
    /// How many blobs it has.
    pub blobs: u64,
    /// How long ago something was written.
    pub age: Duration,
}

/// Whether a job is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Its submitter waits for it.
    Running,
    /// Nothing is heard of its submitter any more.
    Orphaned,
    /// Its submitter has left it.
    Stopped,
    /// It needs no submitter, and is worked on.
    Detached,
    /// It needed no submitter, and has a result.
    Finished,
    /// It needed no submitter, and failed.
    Failed,
}

impl JobState {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Orphaned => "orphaned",
            JobState::Stopped => "stopped",
            JobState::Detached => "detached",
            JobState::Finished => "finished",
            JobState::Failed => "failed",
        }
    }
}

fn time(span: Span) -> Duration {
    Duration::from_micros(span.0)
}

/// Looks at everything.
pub async fn survey(bucket: &Bucket) -> Result<Survey, StoreError> {
    let worker = |blob: Listed| {
        let (name, slots) = blob.name.rsplit_once('.')?;
        let (name, slots) = (name.to_owned(), slots.parse().ok()?);
        Some(WorkerEntry { name, slots, silent: time(blob.age), is_gone: blob.age > WORKER_GONE })
    };
    let active = job::all_active(bucket).await?;
    let mut jobs = Vec::new();
    for (job, blobs) in blobs_by_job(bucket).await? {
        jobs.push(entry(bucket, &job, &blobs, active.iter().find(|active| active.job == job)).await?);
    }
    Ok(Survey {
        workers: bucket.list(WORKERS).await?.into_iter().filter_map(worker).collect(),
        jobs,
        chunks: bucket.list(CHUNKS).await?.len() as u64,
        builds: bucket.list(BUILDS).await?.len() as u64,
    })
}

/// What each job has: names without the job's own part.
pub(crate) async fn blobs_by_job(bucket: &Bucket) -> Result<BTreeMap<String, Vec<Listed>>, StoreError> {
    let mut jobs: BTreeMap<String, Vec<Listed>> = BTreeMap::new();
    for blob in bucket.list("jobs/").await? {
        if let Some((job, name)) = blob.name.split_once('/').filter(|(job, _)| is_job(job)) {
            let listed = Listed { name: name.to_owned(), age: blob.age };
            jobs.entry(job.to_owned()).or_default().push(listed);
        }
    }
    Ok(jobs)
}

/// How many rounds have, or had, their value. Values of detached jobs are removed when something has followed them, and the last ones
/// with the end of the job.
fn rounds_done<'a>(blobs: impl Iterator<Item = (&'a str, &'a str)>, state: JobState) -> u64 {
    let is_done = |name: &str| match state {
        JobState::Finished => name == "sent",
        _ => matches!(name, "end/value" | "end/followed"),
    };
    let done: BTreeSet<&str> = blobs.filter(|(_, name)| is_done(name)).map(|(round, _)| round).collect();
    done.len() as u64
}

async fn entry(
    bucket: &Bucket,
    job: &str,
    blobs: &[Listed],
    active: Option<&ActiveJob>,
) -> Result<JobEntry, StoreError> {
    let manifest = match Manifest::read(bucket, job).await {
        Ok(manifest) => Some(manifest),
        Err(StoreError::NoJob { .. } | StoreError::Forged { .. } | StoreError::Signed { .. }) => None,
        Err(e) => return Err(e),
    };
    let in_rounds = || blobs.iter().filter_map(|blob| blob.name.strip_prefix("rounds/")?.split_once('/'));
    let begun = in_rounds().filter(|(_, name)| name.starts_with("order/")).map(|(round, _)| round);
    let latest = begun
        .max()
        .filter(|latest| !in_rounds().any(|(round, name)| round == *latest && name.starts_with("end/")));
    let mut under_way = None;
    if let Some((latest, number)) = latest.and_then(|latest| Some((latest, latest.parse::<u64>().ok()?))) {
        let at = RoundAt { job: job.to_owned(), round: number };
        let order = bucket.get(&keys::order(&at, 0)).await.unwrap_or_default();
        let tasks = order.and_then(Order::<Bytes>::read).map_or(0, |order| order.head.plan.tasks());
        let is_result = |(round, name): &(&str, &str)| *round == latest && name.starts_with("results/00/");
        under_way = Some((number, in_rounds().filter(is_result).count() as u64, u64::from(tasks)));
    }
    let has = |name: &str| blobs.iter().any(|blob| blob.name == name);
    let has_ended = manifest.as_ref().is_some_and(Manifest::submitter_has_ended);
    let state = match active {
        _ if has("detached") && has("result") => JobState::Finished,
        _ if has("detached") && in_rounds().any(|(_, name)| name == "end/failed") => JobState::Failed,
        Some(active) if active.is_detached => JobState::Detached,
        Some(active) if active.has_submitter() && !has_ended => JobState::Running,
        Some(_) => JobState::Orphaned,
        None => JobState::Stopped,
    };
    let rounds = rounds_done(in_rounds(), state);
    let youngest = blobs.iter().map(|blob| blob.age).min().unwrap_or_default();
    Ok(JobEntry {
        job: job.to_owned(),
        name: manifest.as_ref().and_then(|manifest| manifest.name.clone()),
        by: manifest.map(|manifest| manifest.by()),
        state,
        rounds,
        under_way,
        blobs: blobs.len() as u64,
        age: time(youngest),
    })
}
