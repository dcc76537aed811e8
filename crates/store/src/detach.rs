//! Jobs without a submitter: put into a bucket whole, and worked on by whoever serves it.
//!
//! Comes in: the first round of a loop whose rounds follow from each other ([`qjam::fused`]). Workers find the job only when all of it
//! is there, so a submitter that is killed on the way leaves nothing that runs. The worker that finds the job ended clears it away, but
//! for what came of it, which stays for [`Attached`](crate::Attached) until the job is removed.

use crate::error::KEY_NEEDED;
use crate::fused::order_of;
use crate::job::{self, Manifest, WORKER_GONE, WORKERS, detached_key};
use crate::pieces::pieces;
use crate::run::block_on;
use crate::submit::seal_of_environment;
use crate::upkeep::remove_own;
use crate::upload::upload;
use crate::{Address, Bucket, StoreError, build};
use bytes::Bytes;
use qjam::engine::Failure;
use qjam::fused::FusedRound;
use qjam_core::bucket::{RoundAt, Sender, Storage, begin, keys, outlives_its_round};
use qjam_core::time::Span;
use std::path::Path;

/// Rounds have at least so many tasks, if the data allows it: nobody knows who will work when.
const TASKS_MIN: u32 = 64;
/// Tasks for each worker that is there when the job is submitted.
const TASKS_PER_WORKER: u32 = 3;

/// A job that was put into a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedJob {
    /// Where it is.
    pub address: Address,
    /// Its name in the bucket.
    pub job: String,
    /// The name that the user has chosen.
    pub name: Option<String>,
    /// How many workers are there.
    pub workers: u32,
}

/// Puts a job into the bucket at an address (`URL`, or `URL?job=NAME`). `about` is for whoever brings its result home.
pub fn detach(url: &str, first: &FusedRound, about: &[u8]) -> Result<DetachedJob, StoreError> {
    let (address, name) = Address::parse(url)?;
    let job = job::fresh_name(name.as_deref());
    let bucket = Bucket::open(&address, &job, seal_of_environment()?)?;
    if first.order().is_foreign() && !bucket.has_key() {
        return Err(StoreError::Detach { problem: KEY_NEEDED.into() });
    }
    let executable = Path::new("/proc/self/exe");
    let manifest = Manifest::of_executable(executable, name.clone())?;
    let put = async {
        manifest.submit(&bucket, &job).await?;
        build::keep(&bucket, &manifest, executable).await?;
        put(&bucket, &job, first, about).await
    };
    match block_on(put) {
        Ok(workers) => Ok(DetachedJob { address, job, name, workers }),
        // The name is that of the other job.
        Err(e @ StoreError::JobTaken { .. }) => Err(e),
        Err(e) => {
            remove_own(&bucket, &job, name.as_deref());
            Err(e)
        }
    }
}

async fn put(bucket: &Bucket, job: &str, first: &FusedRound, about: &[u8]) -> Result<u32, StoreError> {
    let at = RoundAt { job: job.to_owned(), round: first.order().round().0 };
    let order = first.order();
    let pieces = pieces(order.chunk_names(), bucket.piece_bytes_max());
    upload(bucket, &at, order, pieces, &|| false, |_| {}).await.map_err(|failure| {
        let problem = match failure {
            Failure::Fault { fault, .. } => fault.message,
            Failure::Engine(why) => why,
            Failure::Cancelled => "nobody wants it any more".into(),
        };
        StoreError::Detach { problem }
    })?;
    let listed = bucket.list(WORKERS).await?;
    let workers = listed.iter().filter(|blob| blob.age <= WORKER_GONE).count() as u32;
    let order = order_of(first, workers.saturating_mul(TASKS_PER_WORKER).max(TASKS_MIN));
    bucket.put(&detached_key(job), Bytes::copy_from_slice(about)).await?;
    let sender = Sender { name: "submitter", patience: Span(0) };
    begin(bucket, &at, &order, bucket.settings().watch_every, &sender).await?;
    job::activate_detached(bucket, job).await?;
    Ok(workers)
}

/// How a detached job ended.
pub(crate) enum JobEnd {
    /// This came of it.
    Result(Bytes),
    /// One of its rounds has no value, for this reason.
    Failed(Bytes),
}

/// How a detached job ended, if it has.
pub(crate) async fn end_of(bucket: &Bucket, job: &str) -> Result<Option<JobEnd>, StoreError> {
    if let Some(result) = bucket.get(&keys::job_result(job)).await? {
        return Ok(Some(JobEnd::Result(result)));
    }
    let prefix = rounds(job);
    for blob in bucket.list(&prefix).await?.iter().filter(|blob| blob.name.ends_with("/end/failed")) {
        if let Some(why) = bucket.get(&format!("{prefix}{}", blob.name)).await? {
            return Ok(Some(JobEnd::Failed(why)));
        }
    }
    Ok(None)
}

/// All rounds of a job.
pub(crate) fn rounds(job: &str) -> String {
    format!("{}rounds/", keys::job(job))
}

/// Ends the work on a detached job that has ended, and removes what nobody needs of it. Returns false if it has not.
pub(crate) async fn finish(bucket: &Bucket, job: &str) -> Result<bool, StoreError> {
    if end_of(bucket, job).await?.is_none() {
        return Ok(false);
    }
    job::deactivate(bucket, job).await?;
    let is_garbage = |name: &str| name.split_once('/').is_some_and(|(_, name)| !outlives_its_round(name));
    bucket.remove(&rounds(job), |blob| is_garbage(&blob.name)).await?;
    bucket.remove(&format!("{}holds/", keys::job(job)), |_| true).await?;
    bucket.remove_queue().await?;
    Ok(true)
}
