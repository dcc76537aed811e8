//! Counts what this process does with the bytes of chunks besides computing: naming, summing, copying.
//!
//! A round over an array that was left alone names and copies nothing. Tests hold it to that by these counts, which no other
//! program on the machine can change.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static NAMED: AtomicU64 = AtomicU64::new(0);
static SUMMED: AtomicU64 = AtomicU64::new(0);
static COPIED: AtomicU64 = AtomicU64::new(0);

/// Bytes since the process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Hashed, to name chunks or to compare them with their names.
    pub named: u64,
    /// Of which a checksum was made, to see whether an array was written to.
    pub summed: u64,
    /// Of chunks, copied into memory that another process maps.
    pub copied: u64,
}

/// What was counted so far.
pub fn traffic() -> Traffic {
    Traffic { named: NAMED.load(Relaxed), summed: SUMMED.load(Relaxed), copied: COPIED.load(Relaxed) }
}

pub(crate) fn note_named(bytes: u64) {
    NAMED.fetch_add(bytes, Relaxed);
}

pub(crate) fn note_summed(bytes: u64) {
    SUMMED.fetch_add(bytes, Relaxed);
}

/// Counts bytes of a chunk that were copied into memory that another process maps.
pub fn note_copied(bytes: u64) {
    COPIED.fetch_add(bytes, Relaxed);
}
