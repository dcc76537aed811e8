//! What a submitter does besides its rounds, on a thread of its own: says that it is there, and clears away what is done.
//!
//! Of a round that has its value, the value and the hash of its order are kept, so that a submitter that is started again finds them.
//! Everything else of it goes. When the submitter ends in order, the whole job goes.

use crate::functions::{hold_key, version_number};
use crate::job::{self, NAMES, SUBMITTER_BEATS_EVERY};
use crate::run::block_on;
use crate::{Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::{Listed, RoundAt, Storage, keys};
use qjam_core::ids::{HoldId, Version};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Removing a job takes no longer than this; `gc` finds the rest.
const REMOVES_FOR: Duration = Duration::from_secs(10);

/// A round that has its value.
pub(crate) struct FinishedRound {
    pub(crate) at: RoundAt,
    /// The hash of its order.
    pub(crate) body: [u8; 32],
    /// If it has changed states: whose, and as what it has left them.
    pub(crate) states: Option<(HoldId, Version)>,
}

/// Where the hash of the order of a finished round is.
pub(crate) fn body_key(at: &RoundAt) -> String {
    format!("{}body", keys::round(at))
}

/// The thread.
pub(crate) struct Upkeep {
    rounds: Option<Sender<FinishedRound>>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// For a job that is active already.
    pub(crate) fn start(bucket: Arc<Bucket>, job: String) -> io::Result<Upkeep> {
        let (rounds, finished) = channel();
        let keep = move || keep_up(&bucket, &job, &finished);
        let thread = std::thread::Builder::new().name("qjam-store".into()).spawn(keep)?;
        Ok(Upkeep { rounds: Some(rounds), thread: Some(thread) })
    }

    /// Clears away what nobody needs of this round.
    pub(crate) fn clear(&self, round: FinishedRound) {
        if let Some(rounds) = &self.rounds {
            let _ = rounds.send(round);
        }
    }

    /// Ends when all is cleared away.
    pub(crate) fn end(&mut self) {
        drop(self.rounds.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep_up(bucket: &Bucket, job: &str, finished: &Receiver<FinishedRound>) {
    let mut said = Instant::now();
    loop {
        match finished.recv_timeout(SUBMITTER_BEATS_EVERY.saturating_sub(said.elapsed())) {
            // What cannot be removed now goes with the job.
            Ok(round) => drop(block_on(clear(bucket, &round))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if said.elapsed() >= SUBMITTER_BEATS_EVERY {
            let _ = block_on(job::activate(bucket, job));
            said = Instant::now();
        }
    }
}

async fn clear(bucket: &Bucket, round: &FinishedRound) -> Result<(), StoreError> {
    let FinishedRound { at, body, states } = round;
    bucket.put(&body_key(at), Bytes::copy_from_slice(body)).await?;
    let is_needed = |blob: &Listed| blob.name == "body" || blob.name.starts_with("end/");
    bucket.remove(&keys::round(at), |blob| !is_needed(blob)).await?;
    if let Some((hold, version)) = states {
        let number = |blob: &Listed| blob.name.rsplit('/').next()?.parse::<u64>().ok();
        let is_older = |blob: &Listed| number(blob).is_some_and(|number| number < version_number(*version));
        bucket.remove(&hold_key(&at.job, *hold), is_older).await?;
    }
    Ok(())
}

/// Removes a job from a bucket that was opened for it, as far as there is time. Returns how many blobs were removed.
pub(crate) async fn remove_job(
    bucket: &Bucket,
    job: &str,
    name: Option<&str>,
    time: Option<Duration>,
) -> Result<u64, StoreError> {
    let began = Instant::now();
    job::deactivate(bucket, job).await?;
    bucket.remove_queue().await?;
    if let Some(name) = name {
        let key = format!("{NAMES}{name}");
        if bucket.get(&key).await?.is_some_and(|whose| whose == job.as_bytes()) {
            bucket.delete(&key).await?;
        }
    }
    let prefix = keys::job(job);
    let mut listed = bucket.list(&prefix).await?;
    // Without a manifest the rest is nobody's.
    listed.sort_by_key(|blob| blob.name != "job");
    let mut removed = 0;
    for blob in listed {
        if time.is_some_and(|time| began.elapsed() >= time) {
            return Ok(removed);
        }
        bucket.delete(&format!("{prefix}{}", blob.name)).await?;
        removed += 1;
    }
    Ok(removed)
}

/// Removes the job of a submitter that ends.
pub(crate) fn remove_own(bucket: &Bucket, job: &str, name: Option<&str>) {
    let _ = block_on(remove_job(bucket, job, name, Some(REMOVES_FOR)));
}
