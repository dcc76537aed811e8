//! How a job comes into a bucket: as a new one, or as one whose submitter is gone.

use crate::job::{self, Manifest};
use crate::run::block_on;
use crate::seal::Seal;
use crate::upkeep::Upkeep;
use crate::{Address, Bucket, StoreError, build};
use qjam::engine::provider::CrewSettings;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Names the file of the key that submitter and workers share.
pub const KEY: &str = "QJAM_STORE_KEY";
/// Names a job in the bucket that the first master of this process goes on with.
pub const RESUME: &str = "QJAM_STORE_RESUME";

/// A job of this process.
pub(crate) struct OwnJob {
    pub(crate) address: Address,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) job: String,
    /// The name that the user has chosen.
    pub(crate) name: Option<String>,
    pub(crate) upkeep: Upkeep,
}

/// Puts a new job into the bucket at an address, or goes on with the one that the environment names.
pub(crate) fn submit(url: &str, settings: &CrewSettings<'_>) -> Result<OwnJob, StoreError> {
    static RESUMED: AtomicBool = AtomicBool::new(false);
    let (address, name) = Address::parse(url)?;
    let resumed = std::env::var(RESUME).ok().filter(|job| !job.is_empty());
    let resumed = resumed.filter(|_| !RESUMED.swap(true, Relaxed));
    let job = resumed.clone().unwrap_or_else(|| job::fresh_name(name.as_deref()));
    let bucket = Bucket::open(&address, &job, seal_of_environment()?)?;
    let mut manifest = manifest(settings, name)?;
    block_on(async {
        if resumed.is_some() {
            let before = Manifest::read(&bucket, &job).await?;
            if before.build != manifest.build {
                let problem = format!("{} submitted it with another build of this program", before.by());
                return Err(StoreError::Busy { job: job.clone(), problem });
            }
            manifest.name = before.name;
            manifest.write(&bucket, &job).await?;
        } else {
            build::keep(&bucket, &manifest, &executable(settings)).await?;
            manifest.submit(&bucket, &job).await?;
        }
        job::activate(&bucket, &job).await
    })?;
    let bucket = Arc::new(bucket);
    let upkeep = Upkeep::start(bucket.clone(), job.clone());
    let upkeep = upkeep.map_err(|source| StoreError::System { what: "start a thread", source })?;
    Ok(OwnJob { address, bucket, job, name: manifest.name, upkeep })
}

/// The seal that the environment asks for.
pub fn seal_of_environment() -> Result<Seal, StoreError> {
    match key_of_environment() {
        Some(path) => Seal::with_key_file(&path),
        None => Ok(Seal::without_key()),
    }
}

/// The file of the key that the environment names.
pub fn key_of_environment() -> Option<PathBuf> {
    std::env::var_os(KEY).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn executable(settings: &CrewSettings<'_>) -> PathBuf {
    settings.worker_executable().unwrap_or_else(|| "/proc/self/exe".into())
}

fn manifest(settings: &CrewSettings<'_>, name: Option<String>) -> Result<Manifest, StoreError> {
    let manifest = Manifest::of_executable(&executable(settings), name)?;
    Ok(Manifest { language: settings.language_setup(), command: settings.command(), ..manifest })
}
