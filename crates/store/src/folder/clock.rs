//! The time of a file system.
//!
//! Machines that share a folder may have different clocks, and messages come back by time. So the time is asked of the file system:
//! it is that of a file of ours which was written just now. The difference to our own clock hardly changes, so it is asked for
//! only now and then.

use qjam_core::time::{Span, Time};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The difference between the two clocks is measured again after this time.
const MEASURED_EVERY: Duration = Duration::from_secs(10);

/// Knows the time of a file system.
pub(super) struct FileClock {
    /// Without a name, so that nothing is left of it however this process ends.
    file: File,
    measured: Mutex<(Instant, Time)>,
}

impl FileClock {
    /// The clock of the file system on which this folder is. The name is that of a file of our own there.
    pub(super) fn new(folder: &Path, name: &str) -> io::Result<FileClock> {
        let path = folder.join(format!("{name}-clock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        std::fs::remove_file(&path)?;
        let measured = Mutex::new((Instant::now(), measure(&file)?));
        Ok(FileClock { file, measured })
    }

    /// The time now.
    pub(super) fn now(&self) -> Time {
        let mut measured = self.measured.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if measured.0.elapsed() >= MEASURED_EVERY
            && let Ok(time) = measure(&self.file)
        {
            *measured = (Instant::now(), time);
        }
        measured.1 + Span(measured.0.elapsed().as_micros() as u64)
    }

    /// How long ago a file was written.
    pub(super) fn age(&self, meta: &Metadata) -> Span {
        self.now().since(modified(meta))
    }
}

fn modified(meta: &Metadata) -> Time {
    Time((meta.mtime().max(0) as u64) * 1_000_000 + (meta.mtime_nsec().max(0) as u64) / 1000)
}

fn measure(file: &File) -> io::Result<Time> {
    // The system that has the file sets the time if it is told to take its own.
    rustix::fs::futimens(
        file,
        &rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        },
    )?;
    Ok(modified(&file.metadata()?))
}
