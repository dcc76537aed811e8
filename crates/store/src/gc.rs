//! Removes what nobody needs any more: jobs that were left, data that no job names, builds, and traces of workers that are gone.

use crate::bucket::CHUNKS;
use crate::build::BUILDS;
use crate::job::{self, Manifest, NAMES, SUBMITTER_GONE, WORKER_GONE, WORKERS};
use crate::run::block_on;
use crate::seal::Seal;
use crate::survey::{JobEntry, JobState, blobs_by_job, survey};
use crate::upkeep::remove_job;
use crate::{Address, Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::{Listed, Storage, keys};
use qjam_core::time::Span;
use std::collections::HashSet;
use std::time::Duration;

/// Blobs of a job that is not there any more are left by workers that did not know. They go after this time.
const NOBODYS: Duration = Duration::from_secs(3600);

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Jobs, by their names.
    pub jobs: Vec<String>,
    /// Chunks of data.
    pub chunks: u64,
    /// Builds of submitters.
    pub builds: u64,
    /// Workers that are gone.
    pub workers: u64,
    /// Blobs of all these.
    pub blobs: u64,
}

/// Removes jobs that nobody has worked on for this long, and data and builds that were written before that and that no job names.
pub fn collect(address: &Address, seal: &Seal, older_than: Duration) -> Result<Collected, StoreError> {
    let bucket = Bucket::open(address, "none", seal.clone())?;
    let survey = block_on(survey(&bucket))?;
    let mut collected = Collected::default();
    let may_go = |entry: &&JobEntry| match entry.state {
        JobState::Running => false,
        JobState::Stopped if entry.by.is_none() => entry.age >= older_than.min(NOBODYS),
        // Nobody is heard of between two blobs of its rounds.
        JobState::Detached => entry.age >= older_than.max(NOBODYS),
        JobState::Orphaned | JobState::Stopped | JobState::Finished | JobState::Failed => {
            entry.age >= older_than
        }
    };
    for entry in survey.jobs.iter().filter(may_go) {
        remove(address, seal, entry, &mut collected)?;
    }
    block_on(collect_rest(&bucket, older_than, &mut collected))?;
    bucket.tidy()?;
    Ok(collected)
}

/// Removes one job, whatever its age. That is also how a job without a submitter is given up.
pub fn collect_job(address: &Address, seal: &Seal, name: &str) -> Result<Collected, StoreError> {
    let bucket = Bucket::open(address, "none", seal.clone())?;
    let job = block_on(job::find(&bucket, name))?;
    let survey = block_on(survey(&bucket))?;
    let Some(entry) = survey.jobs.iter().find(|entry| entry.job == job) else {
        // Its submitter was killed before it had written anything but the name.
        block_on(bucket.delete(&format!("{NAMES}{name}")))?;
        return Ok(Collected { jobs: vec![job], blobs: 1, ..Collected::default() });
    };
    if entry.state == JobState::Running {
        let problem = "its submitter waits for it; end that first".into();
        return Err(StoreError::Busy { job: name.to_owned(), problem });
    }
    let mut collected = Collected::default();
    remove(address, seal, entry, &mut collected)?;
    Ok(collected)
}

fn remove(
    address: &Address,
    seal: &Seal,
    entry: &JobEntry,
    collected: &mut Collected,
) -> Result<(), StoreError> {
    // Its queue is in the bucket as it is opened for the job.
    let bucket = Bucket::open(address, &entry.job, seal.clone())?;
    collected.blobs += block_on(remove_job(&bucket, &entry.job, entry.name.as_deref(), None))?;
    collected.jobs.push(entry.job.clone());
    Ok(())
}

async fn collect_rest(
    bucket: &Bucket,
    older_than: Duration,
    collected: &mut Collected,
) -> Result<(), StoreError> {
    let mut chunks: HashSet<String> = HashSet::new();
    let mut builds: HashSet<String> = HashSet::new();
    let mut is_unknown = false;
    let jobs = blobs_by_job(bucket).await?;
    for blob in bucket.list(NAMES).await?.iter().filter(|blob| blob.age > SUBMITTER_GONE) {
        let key = format!("{NAMES}{}", blob.name);
        let job = bucket.get(&key).await.unwrap_or_default();
        if job.is_some_and(|job| !jobs.contains_key(String::from_utf8_lossy(&job).as_ref())) {
            bucket.delete(&key).await?;
            collected.blobs += 1;
        }
    }
    for (job, blobs) in jobs {
        match Manifest::read(bucket, &job).await {
            Ok(manifest) => drop(builds.insert(manifest.build)),
            Err(StoreError::NoJob { .. }) => {}
            // What it uses cannot be known here.
            Err(_) => is_unknown = true,
        }
        for blob in blobs.iter().filter(|blob| blob.name.starts_with("used/")) {
            let used = bucket.get(&format!("{}{}", keys::job(&job), blob.name)).await;
            let used = used.unwrap_or_default().unwrap_or_else(Bytes::new);
            let ids = used.chunks_exact(32).filter_map(|id| <[u8; 32]>::try_from(id).ok());
            chunks.extend(ids.map(|id| blake3::Hash::from_bytes(id).to_hex().to_string()));
        }
    }
    let age = Span(older_than.as_micros() as u64);
    if !is_unknown {
        let id = |blob: &Listed| blob.name.rsplit('/').next().unwrap_or_default().to_owned();
        collected.chunks =
            bucket.remove(CHUNKS, |blob| blob.age >= age && !chunks.contains(&id(blob))).await?;
        collected.builds =
            bucket.remove(BUILDS, |blob| blob.age >= age && !builds.contains(&blob.name)).await?;
    }
    collected.workers = bucket.remove(WORKERS, |blob| blob.age > WORKER_GONE).await?;
    collected.blobs += collected.chunks + collected.builds + collected.workers;
    Ok(())
}
