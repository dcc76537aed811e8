//! Looking after hosts: whether one would serve as a worker, what is kept there, and removing all of it.
//!
//! A run does all that it needs by itself. These are for whoever wants to know before a run, or to tidy up after the
//! last one; the commands `qjam check`, `qjam cache` and `qjam clean` are made of them. Each goes to one host by the
//! user's own `ssh`, blocks for a time that is bounded, and gives a [`StartFailure`] when it does not get there. For
//! many hosts at once, call them on many threads.
//!
//! ```no_run
//! use qjam::engine::WorkerString;
//! use qjam::hosts;
//!
//! for seat in WorkerString::parse("ann@big, @hosts.txt")?.seats {
//!     let Some(address) = seat.host() else { continue };
//!     match hosts::check(address, &mut |_, _| {}) {
//!         Ok(found) => println!("{}: {} cores, round trip {:?}", seat.name, found.cores, found.round_trip),
//!         Err(failure) => println!("{}: {failure}", seat.name),
//!     }
//! }
//! # Ok::<(), qjam::Error>(())
//! ```

mod visit;

use crate::engine::HostAddress;
use crate::engine::ssh::{self, Shipped};
use crate::error::{StartFailure, Step};
use crate::store::cache;
use qjam_core::wire::host;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use visit::Visit;

/// With less than this, a host has hardly any room for data.
const MEMORY_FREE_MIN: u64 = 256 << 20;
/// With less than this on its disk, a host does not keep much data between runs.
const DISK_FREE_MIN: u64 = 1 << 30;

/// What a host is like that would serve.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checkup {
    /// The steps to it, and how long each took.
    pub steps: Vec<(Step, Duration)>,
    /// Whether the executable had to be sent; otherwise there is no [`Step::Copy`].
    pub copied: bool,
    /// The folder that is ours there.
    pub folder: String,
    /// Version of the worker.
    pub version: String,
    /// What the host calls itself.
    pub hostname: String,
    /// Kernel and machine.
    pub system: String,
    /// Cores that the user may use there.
    pub cores: u32,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// Memory that is free there.
    pub memory_free_bytes: u64,
    /// What is in its cache.
    pub cache: CacheState,
    /// From a word to its answer; the median of a few.
    pub round_trip: Duration,
    /// How fast data goes there; `None` when it was too slow to be measured.
    pub bytes_per_second: Option<f64>,
    /// What is not as it might be, each with what to do about it.
    pub warnings: Vec<String>,
}

/// The executable that goes to hosts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Executable {
    /// Where it is on this machine.
    pub path: PathBuf,
    /// How long it is.
    pub bytes: u64,
    /// BLAKE3, in hexadecimal digits.
    pub hash: String,
    /// The machine it runs on, in the words of `uname -m`.
    pub machine: String,
    /// Whether it needs libraries of the host.
    pub is_dynamic: bool,
    /// What is not as it might be, each with what to do about it.
    pub warnings: Vec<String>,
}

/// What to do with a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOrder {
    /// Only look.
    Survey,
    /// Remove all that is in it.
    Clear,
    /// Compare every chunk with its name; those that differ are not used any more.
    Verify,
    /// From now on let it take at most so many bytes; `None` for the default.
    Cap(Option<u64>),
}

/// What a cache is like after an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheState {
    /// Its folder.
    pub folder: String,
    /// How many chunks are in it.
    pub chunks: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Most bytes on disk.
    pub cap_bytes: u64,
    /// Bytes that are free on that disk.
    pub free_bytes: u64,
    /// Bytes that [`CacheOrder::Clear`] removed.
    pub removed_bytes: u64,
    /// Chunks that [`CacheOrder::Verify`] compared with their names.
    pub verified: u64,
    /// Those of them that differed.
    pub damaged: u64,
    /// Why the order could not be carried out.
    pub trouble: Option<String>,
}

/// What was removed from a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// Folders, and the bytes they took on the disk.
    pub removed: Vec<(String, u64)>,
    /// Folders that could not be removed, and why.
    pub left: Vec<String>,
}

/// The executable that would go to hosts: this program, or what `QJAM_WORKER` names.
pub fn executable() -> Result<Executable, StartFailure> {
    let shipped = Shipped::find(None)?;
    let path = shipped.path.canonicalize().unwrap_or_else(|_| shipped.path.clone());
    let mut warnings = Vec::new();
    if shipped.is_dynamic {
        warnings.push(
            "it needs the host's C library, and one that is not older than here: `cargo xtask dist` builds a `qjam` \
             that needs nothing; for your own program see \"Running on your hosts\" in the book"
                .into(),
        );
    }
    let is_this = std::env::current_exe().is_ok_and(|this| this == path);
    if is_this && cfg!(debug_assertions) {
        warnings.push("it is a debug build, slow and long: build it with --release".into());
    }
    Ok(Executable {
        path,
        bytes: shipped.length,
        hash: shipped.hash.clone(),
        machine: shipped.machine.clone(),
        is_dynamic: shipped.is_dynamic,
        warnings,
    })
}

/// Sets the `ssh` command, with arguments if needed, for hosts that this process connects to from now on. The variable `QJAM_SSH`
/// comes first.
pub fn use_ssh(command: &str) {
    ssh::use_command(command);
}

/// The `ssh` command: what `QJAM_SSH` names, or what [`use_ssh`] set, or `ssh`.
pub fn ssh_command() -> String {
    ssh::command()
}

/// Goes the whole way to a worker on a host, looks around and measures. `progress` is told of each step that is done,
/// so that it is known how far it came when it fails.
///
/// The executable and an empty cache stay there, as after a run.
pub fn check(
    address: &HostAddress,
    progress: &mut dyn FnMut(Step, Duration),
) -> Result<Checkup, StartFailure> {
    let shipped = Shipped::find(None)?;
    let (mut visit, mut steps) = Visit::to(address, &shipped, progress)?;
    let since = Instant::now();
    visit.try_worker()?;
    if let Some((Step::Handshake, took)) = steps.last_mut() {
        *took += since.elapsed();
        progress(Step::Handshake, *took);
    }
    let cache = visit.cache(CacheOrder::Survey)?;
    let round_trip = visit.round_trip()?;
    let bytes_per_second = visit.rate()?;
    let facts = visit.link.facts.clone();
    let (folder, copied) = (visit.link.dir.clone(), visit.copied);
    let mut warnings = std::mem::take(&mut visit.troubles);
    visit.leave();
    warnings.extend(warnings_about(&folder, &facts, &cache));
    Ok(Checkup {
        steps,
        copied,
        folder,
        version: facts.version,
        hostname: facts.hostname,
        system: facts.system,
        cores: facts.cores,
        memory_bytes: facts.memory_bytes,
        memory_free_bytes: facts.memory_free_bytes,
        cache,
        round_trip,
        bytes_per_second,
        warnings,
    })
}

/// Does something with the cache on a host. The executable goes there if it is not there.
pub fn cache(address: &HostAddress, order: CacheOrder) -> Result<CacheState, StartFailure> {
    let shipped = Shipped::find(None)?;
    let (mut visit, _) = Visit::to(address, &shipped, &mut |_, _| {})?;
    let state = visit.cache(order)?;
    visit.leave();
    Ok(state)
}

/// Does something with the cache on this machine, which is there if somebody uses it as a host.
pub fn cache_here(order: CacheOrder) -> CacheState {
    let dir = match order {
        CacheOrder::Cap(_) => cache::home_dir(),
        _ => cache::present_dir(),
    };
    match dir {
        Some(dir) => crate::execution::supervisor::carry_out(&dir, order.into()).into(),
        None => CacheState {
            trouble: Some("there is no folder for it: set XDG_CACHE_HOME to one that you may write".into()),
            ..CacheState::default()
        },
    }
}

/// Removes all that is ours on a host: executables, cache, folders.
pub fn clean(address: &HostAddress) -> Result<Cleaned, StartFailure> {
    let ssh::Cleaned { removed, left } = ssh::clean(address, &AtomicBool::new(false))?;
    Ok(Cleaned { removed, left })
}

/// What a user may want to change about a host that serves.
fn warnings_about(folder: &str, facts: &host::HostFacts, cache: &CacheState) -> Vec<String> {
    let mut warnings = Vec::new();
    match &cache.trouble {
        Some(trouble) => warnings.push(format!("the cache: {trouble}")),
        None if cache.free_bytes < DISK_FREE_MIN && cache.bytes + cache.free_bytes < cache.cap_bytes => {
            warnings.push(format!(
                "only {} MiB are free on the disk of {}: make room, or data beyond that is kept in memory and sent again by the next run",
                cache.free_bytes >> 20,
                cache.folder
            ));
        }
        None => {}
    }
    if folder.starts_with("/tmp/") || folder.starts_with("/dev/shm/") || folder.starts_with("/var/tmp/") {
        warnings.push(format!(
            "the home folder would not do, so {folder} is used, which may not last: is ~/.cache there full, read-only, or mounted noexec?"
        ));
    }
    if facts.memory_free_bytes < MEMORY_FREE_MIN {
        warnings.push(format!(
            "only {} MiB of memory are free: see what else runs there",
            facts.memory_free_bytes >> 20
        ));
    }
    warnings
}

impl From<CacheOrder> for host::CacheOrder {
    fn from(order: CacheOrder) -> Self {
        match order {
            CacheOrder::Survey => host::CacheOrder::Survey,
            CacheOrder::Clear => host::CacheOrder::Clear,
            CacheOrder::Verify => host::CacheOrder::Verify,
            CacheOrder::Cap(bytes_max) => host::CacheOrder::Cap(bytes_max),
        }
    }
}

impl From<host::CacheFacts> for CacheState {
    fn from(facts: host::CacheFacts) -> Self {
        let host::CacheFacts {
            folder,
            packs: _,
            chunks,
            bytes,
            cap_bytes,
            free_bytes,
            removed_bytes,
            verified,
            damaged,
            trouble,
        } = facts;
        CacheState { folder, chunks, bytes, cap_bytes, free_bytes, removed_bytes, verified, damaged, trouble }
    }
}
