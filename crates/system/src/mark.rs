//! A mark that a process and all that descends from it have, whatever they do to their environment, session or parents.
//!
//! It is a limit on resources, `RLIMIT_LOCKS`: children inherit limits, other programs keep them, and this one has had no effect since
//! Linux 2.4.25, so that nobody sets it. The hard limit tells who is at the root: a process that is no member of any family. The soft
//! limit tells the families apart: half of its bits that of a child of the root, the other half one inside it.
//!
//! ```text
//!   hard   01rrrrrr…          a random number of the root
//!   soft   00cccc…c iiii…i    31 random bits of a child of the root, 31 of one inside that, or zeros
//! ```
//!
//! Families further inside have no marks of their own; they have that of the family around them. Where the system allows no such
//! limits, nobody is marked.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

const ROOT: u64 = 1 << 62;
const INSIDE_BITS: u32 = 31;
const INSIDE: u64 = (1 << INSIDE_BITS) - 1;

/// The mark of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    root: u64,
    own: u64,
}

impl Mark {
    /// The mark of a new family whose first member this process starts. `None` if there can be none.
    pub(crate) fn new() -> Option<Mark> {
        let limits = getrlimit(Resource::Locks);
        let Some(hard) = limits.maximum else {
            return Some(Mark { root: own_root(), own: part() << INSIDE_BITS });
        };
        let own = limits.current.unwrap_or_default();
        // A limit that somebody else has set, or a family inside one that is inside another.
        let is_first_inside = hard >= ROOT && own < ROOT && own & INSIDE == 0;
        is_first_inside.then(|| Mark { root: hard, own: own | part() })
    }

    /// The number of the process at the root, if that is this one.
    pub(crate) fn root(self) -> Option<u64> {
        (self.own & INSIDE == 0).then_some(self.root)
    }

    /// Marks a process that has not started anything yet. Says whether it could be.
    pub(crate) fn put(self, pid: Pid) -> bool {
        let limit = Rlimit { current: Some(self.own), maximum: Some(self.root) };
        prlimit(Some(pid), Resource::Locks, limit).is_ok()
    }

    /// Whether a process with these limits is a member.
    pub(crate) fn is_in(self, limits: &str) -> bool {
        let Some((soft, hard)) = locks(limits) else { return false };
        let is_same = if self.own & INSIDE == 0 {
            soft >> INSIDE_BITS == self.own >> INSIDE_BITS
        } else {
            soft == self.own
        };
        hard == self.root && soft < ROOT && is_same
    }
}

/// The number of this process as the root of its families.
pub(crate) fn own_root() -> u64 {
    static OWN: Mutex<Option<(u32, u64)>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    // A child that was forked has its parent's memory, but is another process.
    match own.filter(|(of, _)| *of == process) {
        Some((_, root)) => root,
        None => own.insert((process, ROOT | (random() >> 2))).1,
    }
}

/// Soft and hard limit, from `/proc/PID/limits`.
fn locks(limits: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    let mut fields = line.split_whitespace().map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

/// 31 random bits that are not all zero.
fn part() -> u64 {
    (random() & INSIDE).max(1)
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(soft: u64, hard: u64) -> String {
        format!(
            "Max pending signals       1                    1                    signals\n\
             Max file locks            {soft}                 {hard}                 locks     \n"
        )
    }

    #[test]
    fn members_are_told_from_others_of_the_same_root_and_of_other_roots() {
        let root = ROOT | 77;
        let outer = Mark { root, own: 5 << INSIDE_BITS };
        let inner = Mark { root, own: (5 << INSIDE_BITS) | 9 };
        for (soft, hard, is_outer, is_inner) in [
            (5 << INSIDE_BITS, root, true, false),
            ((5 << INSIDE_BITS) | 9, root, true, true),
            ((5 << INSIDE_BITS) | 8, root, true, false),
            (6 << INSIDE_BITS, root, false, false),
            (5 << INSIDE_BITS, root + 1, false, false),
        ] {
            let limits = shown(soft, hard);
            assert_eq!((outer.is_in(&limits), inner.is_in(&limits)), (is_outer, is_inner), "{soft} {hard}");
        }
        for limits in ["", "Max file locks", &shown(1, 1).replace('1', "unlimited")] {
            assert!(!outer.is_in(limits), "{limits}");
        }
    }
}
