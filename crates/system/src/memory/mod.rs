//! How much memory there is, and how much is taken.
//!
//! A program in a container, a batch job or a service has less memory than its machine: its control group, and every
//! group around that, may have a limit. [`Limit::here`] is the smallest of them all. From it come the defaults for what
//! workers keep open and the refusal of rounds that cannot fit, here and on other hosts; [`Usage`] says what a process
//! has of it. Everything is read when it is asked for, from `/proc` and from the folders of control groups.

pub(crate) mod groups;

pub use groups::Kills;

use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// So many descendants of a process are looked at.
const TREE_MAX: usize = 64;

/// The most memory that this process and those it starts can have together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// So many bytes.
    pub bytes: u64,
    /// The control group whose limit it is; `None` when it is all that the machine has.
    pub group: Option<PathBuf>,
}

impl Limit {
    /// The smallest of the limits that hold here: of the control groups of this process, and of the machine.
    pub fn here() -> Limit {
        let machine = Limit { bytes: machine_bytes().unwrap_or(u64::MAX), group: None };
        let group = groups::smallest(&groups::mine());
        group.filter(|limit| limit.bytes < machine.bytes).unwrap_or(machine)
    }

    /// Most bytes that the group with this limit has had at a time, as far as the kernel tells.
    pub fn peak_bytes(&self) -> Option<u64> {
        groups::peak_bytes(self.group.as_deref()?)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group {
            Some(group) => write!(f, "{} for the control group {}", size(self.bytes), group.display()),
            None => write!(f, "{} in this machine", size(self.bytes)),
        }
    }
}

/// What a process has in memory, by whom it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Its own: values, stacks, chunks that were read from files.
    pub private_bytes: u64,
    /// In memory that processes share: data sets made from values, long parameters and results.
    pub shared_bytes: u64,
    /// Pages of files that the kernel takes back when it needs them: programs, chunks in a host's cache.
    pub file_bytes: u64,
    /// Most of all three together so far.
    pub peak_bytes: u64,
}

impl Usage {
    /// Of this process.
    pub fn here() -> io::Result<Usage> {
        Usage::read("/proc/self/status".as_ref())
    }

    /// Of another process of this machine.
    pub fn of(pid: u32) -> io::Result<Usage> {
        Usage::read(format!("/proc/{pid}/status").as_ref())
    }

    /// Of another process of this machine, and of those it has started and these in turn, up to [`TREE_MAX`]: an interpreter has
    /// its own memory, and the worker whose it is has little. Private memory is added up. Memory that they share counts once, as the most
    /// that one of them has of it, and so do pages of files. The peak is the sum of all peaks, which need not have been at one time.
    pub fn of_tree(pid: u32) -> io::Result<Usage> {
        let mut sum = Usage::of(pid)?;
        let mut tree = children(pid);
        let mut next = 0;
        while next < tree.len().min(TREE_MAX) {
            // One that has ended meanwhile has nothing.
            if let Ok(usage) = Usage::of(tree[next]) {
                sum.private_bytes = sum.private_bytes.saturating_add(usage.private_bytes);
                sum.shared_bytes = sum.shared_bytes.max(usage.shared_bytes);
                sum.file_bytes = sum.file_bytes.max(usage.file_bytes);
                sum.peak_bytes = sum.peak_bytes.saturating_add(usage.peak_bytes);
                tree.extend(children(tree[next]));
            }
            next += 1;
        }
        Ok(sum)
    }

    fn read(path: &Path) -> io::Result<Usage> {
        let text = std::fs::read_to_string(path)?;
        let bytes = |key: &str| kib(&text, key).unwrap_or(0) << 10;
        Ok(Usage {
            private_bytes: bytes("RssAnon:"),
            shared_bytes: bytes("RssShmem:"),
            file_bytes: bytes("RssFile:"),
            peak_bytes: bytes("VmHWM:"),
        })
    }
}

/// Processes that a process has started and that have not ended. Empty where the kernel does not say.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_thread = |thread: io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        Some(text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
    };
    threads.filter_map(of_thread).flatten().collect()
}

/// The most memory that this process can have: [`Limit::here`], and its own limits (`ulimit -v`, `ulimit -d`).
pub fn most_bytes() -> u64 {
    let own = [Resource::As, Resource::Data].map(|kind| getrlimit(kind).current.unwrap_or(u64::MAX));
    own.into_iter().fold(Limit::here().bytes, u64::min)
}

/// Memory that is free here: what the kernel can give without writing anything out, and what the control groups of this process
/// leave of it.
pub fn free_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = kib(&text, "MemAvailable:").unwrap_or(0) << 10;
    groups::free_bytes(&groups::mine()).map_or(machine, |group| group.min(machine))
}

/// What counts against `RLIMIT_DATA` in this process: private memory that can be written, touched or not.
pub fn private_bytes() -> Option<u64> {
    Some(kib(&std::fs::read_to_string("/proc/self/status").ok()?, "VmData:")? << 10)
}

/// Most bytes of opened chunks that a worker keeps if nobody says: half of what it may have itself, and not more than
/// its share of a quarter of what there is for all on its machine, for the processes themselves must be there, too.
pub fn cache_bytes(own_limit: Option<u64>, machine_bytes: u64, workers: usize) -> u64 {
    let share = machine_bytes / 4 / workers.max(1) as u64;
    own_limit.map_or(share, |own| share.min(own / 2)).min(CACHE_BYTES_MOST)
}

/// No more than this is kept without being asked: beyond it the system keeps files in memory by itself.
const CACHE_BYTES_MOST: u64 = 1 << 30;

/// What the system could write out to make room.
pub fn swap_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kib(&text, "SwapTotal:").unwrap_or(0) << 10
}

fn machine_bytes() -> Option<u64> {
    Some(kib(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")? << 10)
}

/// The number of a line like `MemTotal:  24681884 kB`.
fn kib(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// Bytes as people say them.
pub fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "bytes");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_worker_keeps_half_of_its_limit_or_its_share_of_a_quarter() {
        let gib = 1 << 30;
        assert_eq!(cache_bytes(None, 64 * gib, 4), gib, "never more than 1 GiB");
        assert_eq!(cache_bytes(None, gib, 4), gib / 16);
        assert_eq!(cache_bytes(Some(16 << 20), 64 * gib, 4), 8 << 20);
        assert_eq!(cache_bytes(Some(64 * gib), gib, 2), gib / 8, "a limit is not a promise");
        assert_eq!(cache_bytes(None, u64::MAX, 0), gib);
    }

    #[test]
    fn what_a_process_has_grows_with_what_it_takes() {
        let before = Usage::here().unwrap();
        let taken = std::hint::black_box(vec![1_u8; 32 << 20]);
        let after = Usage::of(std::process::id()).unwrap();
        assert!(after.private_bytes >= before.private_bytes + (30 << 20), "{before:?} {after:?}");
        assert!(after.peak_bytes >= after.private_bytes && after.file_bytes > 0);
        drop(taken);
    }

    #[test]
    fn a_process_has_the_memory_of_those_it_has_started() {
        let mut shell = Command::new("sh");
        let mut shell =
            shell.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        let (alone, tree) = (Usage::of(shell.id()).unwrap(), Usage::of_tree(shell.id()).unwrap());
        assert_eq!(children(shell.id()), [sleeper]);
        assert!(tree.private_bytes > alone.private_bytes, "{alone:?} {tree:?}");
        assert!(tree.peak_bytes > alone.peak_bytes);
        kill_process(Pid::from_raw(sleeper as i32).unwrap(), Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(Usage::of_tree(shell.id()).is_err(), "it has ended");
    }

    #[test]
    fn there_is_memory_here() {
        let limit = Limit::here();
        assert!(limit.bytes > 1 << 20 && limit.bytes <= machine_bytes().unwrap(), "{limit}");
    }

    #[test]
    fn sizes_are_said_in_words() {
        assert_eq!([size(0), size(1023), size(1536)], ["0 bytes", "1023 bytes", "1.5 KiB"]);
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }
}
