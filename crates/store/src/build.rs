//! The program that runs the tasks of a job.
//!
//! A worker runs its own executable if the job names that build. Another build is fetched from the bucket, where a submitter with a
//! key leaves its own, but only if the job is signed with the key that the worker was given: otherwise whoever can write to the
//! bucket could run programs here.

use crate::job::{self, Manifest};
use crate::run::block_on;
use crate::{Bucket, StoreError};
use bytes::Bytes;
use qjam_core::bucket::Storage;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Builds are here, by their hashes.
pub(crate) const BUILDS: &str = "builds/";
/// Fetched builds that nobody has used for this long are removed.
const KEPT: Duration = Duration::from_secs(14 * 24 * 3600);

/// The hash of this executable.
pub(crate) fn own_build() -> Option<&'static str> {
    static BUILD: OnceLock<Option<String>> = OnceLock::new();
    BUILD.get_or_init(|| job::build_of("/proc/self/exe".as_ref()).ok()).as_deref()
}

/// Leaves the submitter's build in the bucket, for workers that have another.
pub(crate) async fn keep(bucket: &Bucket, manifest: &Manifest, path: &Path) -> Result<(), StoreError> {
    let key = format!("{BUILDS}{}", manifest.build);
    if !bucket.has_key() || !bucket.list(&key).await?.is_empty() {
        return Ok(());
    }
    let read = fs::read(path);
    let build = read.map_err(|source| StoreError::Folder { what: "read", path: path.to_owned(), source })?;
    bucket.create(&key, Bytes::from(build)).await.map(|_| ())
}

/// The executable for a job.
pub(crate) fn program_for(bucket: &Bucket, manifest: &Manifest) -> Result<PathBuf, StoreError> {
    if own_build() == Some(manifest.build.as_str()) {
        // By its own link: another build may have taken the name meanwhile.
        return Ok("/proc/self/exe".into());
    }
    let refused = |problem: String| StoreError::Build { by: manifest.by(), problem };
    if manifest.arch != std::env::consts::ARCH {
        let here = std::env::consts::ARCH;
        return Err(refused(format!("it is for {} and this machine is {here}", manifest.arch)));
    }
    if !bucket.has_key() {
        return Err(refused(
            "it is another build than this worker; other builds are run only if submitter and workers have a key (`--key`)"
                .into(),
        ));
    }
    if manifest.build.len() != 64 || !manifest.build.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(refused("its hash is none".into()));
    }
    let folder = folder().ok_or_else(|| refused("there is no private folder to keep it in".into()))?;
    let path = folder.join(&manifest.build);
    if job::build_of(&path).is_ok_and(|hash| hash == manifest.build) {
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        return Ok(path);
    }
    let Some(build) = block_on(bucket.get(&format!("{BUILDS}{}", manifest.build)))? else {
        return Err(refused("it is another build than this worker, and is not in the bucket".into()));
    };
    if blake3::hash(&build).to_hex().as_str() != manifest.build {
        return Err(refused("what is in the bucket under its hash is something else".into()));
    }
    write(&folder, &path, &build).map_err(|source| StoreError::Folder {
        what: "write",
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

/// Where fetched builds are: in the folder of this user's own that also has the cache.
fn folder() -> Option<PathBuf> {
    Some(qjam::store::cache::home_dir()?.join("builds"))
}

fn write(folder: &Path, path: &Path, build: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    tidy(folder);
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o700).open(&beside)?;
    let placed = file.write_all(build).and_then(|()| {
        drop(file);
        fs::rename(&beside, path)
    });
    if placed.is_err() {
        let _ = fs::remove_file(&beside);
    }
    placed
}

/// Removes what nobody has used for long. What cannot be removed does no harm.
fn tidy(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|meta| meta.modified());
        if changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > KEPT)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
