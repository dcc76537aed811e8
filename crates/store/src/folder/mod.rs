//! A folder as a bucket and a queue.
//!
//! Everything is done by steps that a file system does at once: a blob is written beside its place and renamed or linked into it; a
//! message is a file that is renamed by whoever takes it, which one process can do. So there are no locks, and whoever is killed
//! leaves nothing half done. It works on any file system that several machines share, as long as all mount the same folder.
//!
//! ```text
//!   blobs/jobs/JOB/…        blobs, by their names
//!   queues/JOB/ready/…      messages that can be taken, in the order of their names
//!   queues/JOB/taken/…      messages that somebody has, or that are hidden: until when is in the name
//!   beside/…                files that are being written
//! ```
//!
//! Time is that of the file system ([`clock`]), so that the clocks of machines may differ.

mod blobs;
mod clock;
mod news;
mod queue;
#[cfg(test)]
mod tests;

use crate::StoreError;
use crate::buffers::Buffers;
use bytes::Bytes;
use clock::FileClock;
use news::{Audience, Heard, News};
use qjam_core::bucket::{Delivery, Listed, Storage};
use qjam_core::time::Span;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A file that was begun longer ago was left by a process that was killed. Those of living ones are written again meanwhile.
const WRITTEN_WITHIN: Span = Span(3_600_000_000);

/// A folder that is a bucket, with the queue of one job.
pub struct Folder {
    blobs: PathBuf,
    queue: PathBuf,
    ready: PathBuf,
    taken: PathBuf,
    beside: PathBuf,
    clock: FileClock,
    buffers: Buffers,
    news: News,
    looks: Mutex<Looks>,
    /// What the names of this process's files begin with, and how many there have been.
    token: String,
    made: AtomicU64,
}

/// How a participant has looked for messages.
#[derive(Default)]
struct Looks {
    /// When it has last looked at all messages.
    at_all: Option<Instant>,
    /// A message that came since, by the name of its file.
    told: Option<String>,
}

impl Folder {
    /// Opens a folder, and makes what it needs inside of it. The folder itself must be there: one that is made by mistake, where
    /// another should have been mounted, would be a bucket in which nobody works.
    pub fn open(path: &Path, job: &str) -> Result<Folder, StoreError> {
        fs::metadata(path).map_err(failed("open", path))?;
        let [blobs, queues, beside] = ["blobs", "queues", "beside"].map(|name| path.join(name));
        let queue = queues.join(job);
        let (ready, taken) = (queue.join("ready"), queue.join("taken"));
        for folder in [&blobs, &ready, &taken, &beside] {
            fs::create_dir_all(folder).map_err(failed("make", folder))?;
        }
        let token = format!("{:016x}", crate::random::random());
        let clock = FileClock::new(&beside, &token).map_err(failed("write to", &beside))?;
        Ok(Folder {
            blobs,
            queue,
            ready,
            taken,
            beside,
            clock,
            buffers: Buffers::of_process(),
            news: News::new(),
            looks: Mutex::default(),
            token,
            made: AtomicU64::new(0),
        })
    }

    /// Hears of new blobs with this prefix, too, while it is idle.
    pub fn attend(&self, prefix: &str) {
        let folder = self.blobs.join(prefix.rsplit_once('/').map_or("", |(folder, _)| folder));
        if fs::create_dir_all(&folder).is_ok() {
            self.news.add(&folder, Audience::All);
        }
    }

    /// The file of a blob, for those who map it.
    pub fn file_of(&self, key: &str) -> PathBuf {
        self.path_of(key)
    }

    /// Removes the queue of the job.
    pub fn remove_queue(&self) -> Result<(), StoreError> {
        match fs::remove_dir_all(&self.queue) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("remove", &self.queue)(e)),
            _ => Ok(()),
        }
    }

    /// Removes files that were begun so long ago that nobody writes them any more.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.beside).map_err(failed("list", &self.beside))?;
        for entry in entries.flatten() {
            if entry.metadata().is_ok_and(|meta| self.clock.age(&meta) >= WRITTEN_WITHIN) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name that no other file has.
    fn fresh_name(&self) -> String {
        format!("{}-{:08x}", self.token, self.made.fetch_add(1, Relaxed))
    }
}

fn failed<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Folder { what, path: path.to_owned(), source }
}

impl Storage for Folder {
    type Blob = Bytes;
    type Receipt = String;
    type Error = StoreError;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.read(key)
    }

    async fn put(&self, key: &str, blob: Bytes) -> Result<(), StoreError> {
        self.write_parts(key, &[&blob], false).map(|_| ())
    }

    async fn create(&self, key: &str, blob: Bytes) -> Result<bool, StoreError> {
        self.write_parts(key, &[&blob], true)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Listed>, StoreError> {
        self.list_blobs(prefix)
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.remove(key)
    }

    async fn send(&self, message: &str, hidden: Span) -> Result<(), StoreError> {
        self.enqueue(message, hidden)
    }

    async fn receive(&self, hidden: Span) -> Result<Option<Delivery<String>>, StoreError> {
        self.dequeue(hidden)
    }

    async fn extend(&self, delivery: &mut Delivery<String>, hidden: Span) -> Result<bool, StoreError> {
        self.keep(&mut delivery.receipt, hidden)
    }

    async fn acknowledge(&self, delivery: Delivery<String>) -> Result<(), StoreError> {
        self.drop_message(&delivery.receipt)
    }

    /// A file is read from memory by whoever has the folder, however many they are.
    fn copies(&self, _: u32) -> u32 {
        1
    }

    async fn sleep(&self, span: Span) {
        crate::run::sleep(Duration::from_micros(span.0)).await;
    }

    async fn idle(&self, span: Span) {
        let heard = self.news.wait(Duration::from_micros(span.0));
        self.looks().told = if let Heard::Name(name) = heard { Some(name) } else { None };
    }
}
