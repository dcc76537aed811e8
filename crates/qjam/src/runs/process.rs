//! Who this process is: what a run file says of it, and what a resumed run must find again.

use super::record::{Began, Hash};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::SystemTime;

/// This executable, also when another build has taken its name.
const THIS: &str = "/proc/self/exe";

/// A number that nobody else has.
pub(super) fn chance() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The number that all masters of this process share.
fn process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(chance)
}

/// How many masters this process has made before this one.
pub(super) fn next_master() -> u32 {
    static MASTERS: AtomicU32 = AtomicU32::new(0);
    MASTERS.fetch_add(1, Relaxed)
}

pub(super) fn program() -> Vec<u8> {
    std::env::current_exe().unwrap_or_default().into_os_string().into_vec()
}

pub(super) fn arguments() -> Vec<Vec<u8>> {
    std::env::args_os().skip(1).map(OsStringExt::into_vec).collect()
}

/// Microseconds since 1970.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
}

/// What a file says first.
pub(super) fn began(nth: u32, workers: &str, seed: u64, resumed: Option<String>) -> Began {
    let file = std::fs::metadata(THIS);
    Began {
        unix_us: now_us(),
        pid: std::process::id(),
        process: process(),
        nth,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        program: program(),
        program_bytes: file.as_ref().map_or(0, MetadataExt::size),
        program_changed_us: file.map_or(0, |f| (f.mtime() * 1_000_000 + f.mtime_nsec() / 1000) as u64),
        arguments: arguments(),
        directory: std::env::current_dir().unwrap_or_default().into_os_string().into_vec(),
        version: crate::VERSION.into(),
        workers: workers.into(),
        seed,
        resumed,
    }
}

/// The hash of this executable, if somebody has computed it by now. The first call sees to that, on a thread of its
/// own: nobody who starts should wait for it.
pub(super) fn executable() -> Option<Hash> {
    static ASKED: OnceLock<()> = OnceLock::new();
    ASKED.get_or_init(|| {
        let _ = std::thread::Builder::new().name("qjam-hash".into()).spawn(|| HASH.get_or_init(hash_of_this));
    });
    *HASH.get()?
}

/// The same for who cannot do without it.
pub(super) fn executable_now() -> Option<Hash> {
    *HASH.get_or_init(hash_of_this)
}

static HASH: OnceLock<Option<Hash>> = OnceLock::new();

fn hash_of_this() -> Option<Hash> {
    hash_of(&File::open(THIS).ok()?).ok()
}

pub(super) fn hash_of(file: &File) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(*hasher.finalize().as_bytes())
}
