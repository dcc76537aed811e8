//! Why storage cannot be used.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What went wrong with a bucket, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The address cannot be understood.
    #[error("`{url}` is no address of a bucket: {problem}; {remedy}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A folder could not be read or written.
    #[error("cannot {what} {}: {source}{}", path.display(), remedy(source))]
    Folder {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A cloud refuses, or cannot be reached.
    #[error("{url}: {problem}; {remedy}")]
    Cloud {
        /// The bucket.
        url: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// This program was built without a kind of storage.
    #[error(
        "`{url}` cannot be used: this program was built without {kind}; build it with `--features cloud`"
    )]
    NotBuilt {
        /// The bucket.
        url: String,
        /// The kind of storage.
        kind: &'static str,
    },
    /// The file of a key cannot be used.
    #[error("cannot use the key in {}: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A blob was written without our key.
    #[error(
        "the blob `{name}` was written with another key, or with none: give submitter and workers the same file by `--key`, or \
         find out who else writes to the bucket"
    )]
    Forged {
        /// Its name.
        name: String,
    },
    /// A blob was written with a key, and there is none here.
    #[error(
        "the blob `{name}` is signed with a key, and none was given here: name its file by `--key` or QJAM_STORE_KEY"
    )]
    Signed {
        /// Its name.
        name: String,
    },
    /// The program of a job cannot be run here.
    #[error("the program that {by} submitted cannot be run here: {problem}")]
    Build {
        /// Who submitted it.
        by: String,
        /// Why not.
        problem: String,
    },
    /// There is no such job.
    #[error("there is no job `{job}` in this bucket; `qjam store ls` lists them")]
    NoJob {
        /// Its name.
        job: String,
    },
    /// A job of that name is in the bucket.
    #[error(
        "a job `{job}` is in this bucket already, submitted by {by}; choose another name, go on with it by `qjam store resume` \
         or, if it was detached, `qjam store attach`, or remove it by `qjam store gc --job {job}`"
    )]
    JobTaken {
        /// Its name.
        job: String,
        /// Who submitted it.
        by: String,
    },
    /// A job cannot be gone on with, or removed.
    #[error("job `{job}` is left alone: {problem}")]
    Busy {
        /// Its name.
        job: String,
        /// Why.
        problem: String,
    },
    /// A job cannot be put into the bucket without a submitter.
    #[error("the job cannot be detached: {problem}")]
    Detach {
        /// Why.
        problem: String,
    },
    /// A job cannot be followed.
    #[error("job `{job}` cannot be followed: {problem}")]
    Attach {
        /// Its name.
        job: String,
        /// Why.
        problem: String,
    },
    /// A name of a job where there can be none.
    #[error(
        "`?job={job}` belongs into a worker string (`store:URL?job={job}`); here the bucket is meant, without a job"
    )]
    JobInAddress {
        /// The name.
        job: String,
    },
    /// An experiment came to nothing.
    #[error("the experiment came to nothing: {problem}")]
    Experiment {
        /// Why.
        problem: String,
    },
    /// A name that cannot be one of a job.
    #[error("`{job}` is no name of a job: use up to 64 small letters, digits and hyphens")]
    JobName {
        /// The name.
        job: String,
    },
}

/// Why functions of another language are refused without a key.
pub(crate) const KEY_NEEDED: &str = "Python functions run through a bucket only if submitter and workers share a key, because whoever can \
     write to the bucket could otherwise run code: make one with `qjam store key FILE`, and name it by QJAM_STORE_KEY here and by \
     `--key` for workers";

/// What to do about an error of the system.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; everybody who works for the bucket needs to write there",
        io::ErrorKind::ReadOnlyFilesystem => "; a bucket must be on a disk that can be written to",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room, for example with `qjam store gc`"
        }
        io::ErrorKind::NotFound => "; make the folder first, and mount it on every machine",
        _ => "",
    }
}
