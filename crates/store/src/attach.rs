//! Following a detached job from any machine, and bringing home what came of it.
//!
//! Whoever follows only reads: several may, none of them is needed, and the job goes on when they are killed.

use crate::detach::{JobEnd, end_of, rounds};
use crate::ending::RoundEnd;
use crate::fused::progress_of;
use crate::job::{self, Manifest, WORKER_GONE, WORKERS, detached_key};
use crate::run::block_on;
use crate::{Address, Bucket, Seal, StoreError, build};
use bytes::Bytes;
use qjam::fused::StepProgress;
use qjam_core::bucket::settings::Backoff;
use qjam_core::bucket::{Listed, Order, RoundAt, Storage, keys};

/// A detached job that is followed.
pub struct Attached {
    bucket: Bucket,
    job: String,
    about: Bytes,
    /// The round whose order was read last, and what it says.
    seen: Option<(u64, Option<StepProgress>)>,
    backoff: Backoff,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is worked on.
    Running(RunningJob),
    /// This came of it.
    Finished(Bytes),
    /// It failed, for this reason.
    Failed(String),
}

/// A job that is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The round under way.
    pub round: u64,
    /// What its loop says.
    pub progress: Option<StepProgress>,
    /// How many workers there are.
    pub workers: u32,
}

impl Attached {
    /// Looks for a job, by its name in the bucket or by the one that was chosen for it.
    pub fn to(address: &Address, seal: Seal, name: &str) -> Result<Attached, StoreError> {
        let bucket = Bucket::open(address, "none", seal)?;
        block_on(async {
            let job = job::find(&bucket, name).await?;
            let refused = |problem: String| StoreError::Attach { job: name.to_owned(), problem };
            let manifest = Manifest::read(&bucket, &job).await?;
            let Some(about) = bucket.get(&detached_key(&job)).await? else {
                let by = manifest.by();
                return Err(refused(format!("it was not detached; {by} waits for it, or has left it")));
            };
            if build::own_build() != Some(manifest.build.as_str()) {
                return Err(refused(format!(
                    "{} submitted it with another build of this program, and only that can read what comes of it",
                    manifest.by()
                )));
            }
            bucket.attend(&keys::job_result(&job));
            let settings = bucket.settings();
            let backoff = Backoff::new(settings.wait_first, settings.wait_max);
            Ok(Attached { bucket, job, about, seen: None, backoff })
        })
    }

    /// Its name in the bucket.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// What was given with it for whoever brings its result home.
    pub fn about(&self) -> &[u8] {
        &self.about
    }

    /// Looks how far it is.
    pub fn standing(&mut self) -> Result<Standing, StoreError> {
        block_on(async {
            if let Some(end) = end_of(&self.bucket, &self.job).await? {
                return Ok(standing_of(end));
            }
            let active = job::all_active(&self.bucket).await?;
            if !active.iter().any(|active| active.job == self.job) {
                // It may have ended since.
                return self
                    .ended_or("whoever submitted it was ended before all of it was in the bucket")
                    .await;
            }
            let workers = self.bucket.list(WORKERS).await?;
            let workers = workers.iter().filter(|blob| blob.age <= WORKER_GONE).count() as u32;
            let listed = self.bucket.list(&rounds(&self.job)).await?;
            let Some(round) = round_under_way(&listed) else {
                return self.ended_or("somebody has removed or damaged blobs of its round").await;
            };
            let progress = self.progress(round).await?;
            Ok(Standing::Running(RunningJob { round, progress, workers }))
        })
    }

    /// How the job ended, if it has; otherwise nobody can go on with it.
    async fn ended_or(&self, problem: &str) -> Result<Standing, StoreError> {
        if let Some(end) = end_of(&self.bucket, &self.job).await? {
            return Ok(standing_of(end));
        }
        let job = self.job.clone();
        let remedy = format!("remove it by `qjam store gc --job {job}`, and submit it again");
        Err(StoreError::Attach { job, problem: format!("{problem}; {remedy}") })
    }

    /// Lets some time pass, but no more than until there may be something new.
    pub fn wait(&mut self) {
        block_on(self.bucket.idle(self.backoff.wait()));
    }

    /// What the loop says in a round. An order is read once.
    async fn progress(&mut self, round: u64) -> Result<Option<StepProgress>, StoreError> {
        match &self.seen {
            Some((seen, progress)) if *seen == round => Ok(progress.clone()),
            _ => {
                let at = RoundAt { job: self.job.clone(), round };
                let order = self.bucket.get(&keys::order(&at, 0)).await?.and_then(Order::read);
                let progress = order.as_ref().and_then(progress_of);
                self.seen = Some((round, progress.clone()));
                self.backoff.reset();
                Ok(progress)
            }
        }
    }
}

/// The last round whose order is there. `None` if nobody can go on: a later one was sent, has not ended, and has no order.
fn round_under_way(blobs: &[Listed]) -> Option<u64> {
    let names = || blobs.iter().filter_map(|blob| blob.name.split_once('/'));
    let last =
        |is_it: fn(&str) -> bool| names().filter(|(_, name)| is_it(name)).map(|(round, _)| round).max();
    let ordered = last(|name| name.starts_with("order/"));
    let sent = last(|name| name == "sent");
    let is_lost = sent > ordered && sent > last(|name| name.starts_with("end/"));
    if is_lost { None } else { ordered.or(sent)?.parse().ok() }
}

fn standing_of(end: JobEnd) -> Standing {
    match end {
        JobEnd::Result(result) => Standing::Finished(result),
        JobEnd::Failed(why) => Standing::Failed(RoundEnd::text(&why)),
    }
}

/// Whether a job was detached.
pub async fn is_detached(bucket: &Bucket, job: &str) -> Result<bool, StoreError> {
    Ok(!bucket.list(&detached_key(job)).await?.is_empty())
}
