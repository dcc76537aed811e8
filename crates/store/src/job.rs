//! What a bucket says of a job: who submitted it, which program its workers run, and whether it is worked on.
//!
//! ```text
//!   jobs/JOB/job            the manifest; JOB is a name that no other job ever has
//!   jobs/JOB/detached       the job needs no submitter; what is in it only whoever brings the result home reads
//!   names/NAME              which job has a name of the user's choice
//!   active/JOB              jobs whose tasks workers look for; written again every few seconds by the submitter
//!   active/JOB.detached     the same of jobs without a submitter; removed by a worker when the job has ended
//!   workers/NAME.SLOTS      workers; written again every few seconds
//! ```

use crate::random::random;
use crate::{Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::message::{JOB_BYTES_MAX, is_job};
use qjam_core::bucket::{Listed, RoundAt, Storage, keys};
use qjam_core::time::Span;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A job, as its submitter describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The name that the user has chosen, if any.
    pub name: Option<String>,
    /// The hash of the executable that runs its tasks.
    pub build: String,
    /// The kind of CPU it is for.
    pub arch: String,
    /// What functions of another language need; only they read it.
    pub language: Option<Vec<u8>>,
    /// The submitter's program and its arguments, with known secrets removed.
    pub command: Vec<OsString>,
    /// Where the submitter was started.
    pub directory: PathBuf,
    /// The submitter: a user,
    pub user: String,
    /// a host,
    pub host: String,
    /// a process there,
    pub pid: u32,
    /// and the namespace that its number is of, where the system has such.
    pub namespace: String,
}

/// Where the manifest of a job is.
fn key(job: &str) -> String {
    format!("{}job", keys::job(job))
}

/// Jobs that are worked on have a blob here.
pub(crate) const ACTIVE: &str = "active/";
/// Names that users have chosen have a blob here: whose they are.
pub(crate) const NAMES: &str = "names/";
/// Workers have a blob here: how many slots is in the name.
pub(crate) const WORKERS: &str = "workers/";
/// Workers of which nothing was heard for longer are gone.
pub(crate) const WORKER_GONE: Span = Span(60_000_000);
/// A submitter of which nothing was heard for longer is gone.
pub(crate) const SUBMITTER_GONE: Span = Span(60_000_000);
/// A submitter says so often that it is there.
pub(crate) const SUBMITTER_BEATS_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
/// The job of a submitter that is gone is worked on for this long.
const LEFT_ALONE: Span = Span(600_000_000);

/// Which chunks the rounds of a job use, from this round on.
pub(crate) fn used_key(at: &RoundAt) -> String {
    format!("{}used/{:010}", keys::job(&at.job), at.round)
}

impl Manifest {
    /// A job of this process, whose tasks an executable runs. How its program is started again is not said.
    pub(crate) fn of_executable(executable: &Path, name: Option<String>) -> Result<Manifest, StoreError> {
        let build = build_of(executable).map_err(|source| StoreError::Folder {
            what: "read the executable",
            path: executable.to_owned(),
            source,
        })?;
        Ok(Manifest {
            name,
            build,
            arch: std::env::consts::ARCH.into(),
            language: None,
            command: Vec::new(),
            directory: std::env::current_dir().unwrap_or_default(),
            user: std::env::var("USER").unwrap_or_else(|_| "somebody".into()),
            host: host(),
            pid: std::process::id(),
            namespace: namespace(),
        })
    }

    /// Reads the manifest of a job.
    pub async fn read(bucket: &Bucket, job: &str) -> Result<Manifest, StoreError> {
        let blob = bucket.get(&key(job)).await?;
        let manifest = blob.and_then(|blob| postcard::from_bytes(&blob).ok());
        manifest.ok_or_else(|| StoreError::NoJob { job: job.to_owned() })
    }

    /// Puts a new job into the bucket. Fails if there is one of the name that the user has chosen.
    pub(crate) async fn submit(&self, bucket: &Bucket, job: &str) -> Result<(), StoreError> {
        if let Some(name) = &self.name
            && !bucket.create(&format!("{NAMES}{name}"), Bytes::copy_from_slice(job.as_bytes())).await?
        {
            let by = match find(bucket, name).await {
                Ok(there) => Manifest::read(bucket, &there).await.map_or("somebody".into(), |m| m.by()),
                Err(_) => "somebody".into(),
            };
            return Err(StoreError::JobTaken { job: name.clone(), by });
        }
        self.write(bucket, job).await
    }

    /// Writes the manifest, whether or not there is one.
    pub(crate) async fn write(&self, bucket: &Bucket, job: &str) -> Result<(), StoreError> {
        let blob = postcard::to_stdvec(self).expect("texts and numbers can be encoded");
        bucket.put(&key(job), blob.into()).await
    }

    /// Whether the submitter was a process of this machine, as it is seen from here, and has ended.
    pub(crate) fn submitter_has_ended(&self) -> bool {
        (self.host.as_str(), self.namespace.as_str()) == (&host(), &namespace())
            && !Path::new(&format!("/proc/{}", self.pid)).exists()
    }

    /// The submitter, in words.
    pub fn by(&self) -> String {
        format!("{}@{} (process {})", self.user, self.host, self.pid)
    }
}

/// The job that a user means: by its own name, or by the name that was chosen for it.
pub async fn find(bucket: &Bucket, name: &str) -> Result<String, StoreError> {
    if !is_job(name) {
        return Err(StoreError::JobName { job: name.to_owned() });
    }
    if let Some(job) = bucket.get(&format!("{NAMES}{name}")).await? {
        let job = String::from_utf8_lossy(&job).into_owned();
        return if is_job(&job) { Ok(job) } else { Err(StoreError::NoJob { job: name.to_owned() }) };
    }
    match bucket.get(&key(name)).await? {
        Some(_) => Ok(name.to_owned()),
        None => Err(StoreError::NoJob { job: name.to_owned() }),
    }
}

/// A name that no other job has, for a job that the user calls this.
pub(crate) fn fresh_name(name: Option<&str>) -> String {
    let digits = format!("{:012x}", random() >> 16);
    let name = name.unwrap_or("job");
    format!("{}-{digits}", &name[..name.len().min(JOB_BYTES_MAX - 1 - digits.len())])
}

/// A job that is worked on.
#[derive(Clone, Debug)]
pub(crate) struct ActiveJob {
    pub(crate) job: String,
    /// How long nothing was heard of its submitter.
    pub(crate) silent: Span,
    /// Whether it needs none.
    pub(crate) is_detached: bool,
}

impl ActiveJob {
    /// Whether its submitter lives, as far as anybody knows.
    pub(crate) fn has_submitter(&self) -> bool {
        !self.is_detached && self.silent <= SUBMITTER_GONE
    }
}

/// What the names of active jobs end with that need no submitter.
const DETACHED: &str = ".detached";

fn active_key(job: &str) -> String {
    format!("{ACTIVE}{job}")
}

/// Says that a job needs no submitter.
pub(crate) fn detached_key(job: &str) -> String {
    format!("{}detached", keys::job(job))
}

/// Has workers look for tasks of a job.
pub(crate) async fn activate(bucket: &Bucket, job: &str) -> Result<(), StoreError> {
    bucket.put(&active_key(job), Bytes::new()).await
}

/// Has workers look for tasks of a job that needs no submitter.
pub(crate) async fn activate_detached(bucket: &Bucket, job: &str) -> Result<(), StoreError> {
    bucket.put(&format!("{}{DETACHED}", active_key(job)), Bytes::new()).await
}

/// No worker needs to look for tasks of a job any more.
pub(crate) async fn deactivate(bucket: &Bucket, job: &str) -> Result<(), StoreError> {
    bucket.delete(&active_key(job)).await?;
    bucket.delete(&format!("{}{DETACHED}", active_key(job))).await
}

/// All jobs that are said to be worked on, in the order of their names.
pub(crate) async fn all_active(bucket: &Bucket) -> Result<Vec<ActiveJob>, StoreError> {
    let active = |blob: Listed| {
        let (job, is_detached) = match blob.name.strip_suffix(DETACHED) {
            Some(job) => (job, true),
            None => (blob.name.as_str(), false),
        };
        is_job(job).then(|| ActiveJob { job: job.to_owned(), silent: blob.age, is_detached })
    };
    Ok(bucket.list(ACTIVE).await?.into_iter().filter_map(active).collect())
}

/// The jobs whose tasks workers should look for.
pub(crate) async fn active(bucket: &Bucket) -> Result<Vec<ActiveJob>, StoreError> {
    let mut all = all_active(bucket).await?;
    all.retain(|job| job.is_detached || job.silent <= LEFT_ALONE);
    Ok(all)
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The namespace that numbers of processes are of.
pub(crate) fn namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid").map_or(String::new(), |link| link.to_string_lossy().into_owned())
}

/// The hash of an executable.
pub(crate) fn build_of(path: &Path) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}
