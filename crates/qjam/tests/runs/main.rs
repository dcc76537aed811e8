//! Run files: what every master leaves, also when it is killed, and going on from it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it"
)]

qjam_conformance::hook!(PROGRAMS);

mod files;
mod kills;
mod memory;
mod packs;
#[path = "../state/ridge.rs"]
mod ridge;
mod state;
mod waits;

use qjam::runs::{self, Run};
use qjam::{DataSet, Dense};
use qjam_conformance::program::Programs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What this executable can be started as.
const PROGRAMS: Programs = &[
    ("descent", kills::descent),
    ("stateful", state::stateful),
    ("crowded", files::crowded),
    ("calling", waits::calling),
    ("dropping", waits::dropping),
    ("spoilt", packs::spoilt),
    ("spoilt inside", packs::spoilt_inside),
];

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Folder(std::env::temp_dir().join(format!("qjam-runs-test-{}-{number}", std::process::id())))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// All runs in it, oldest first. A program that is killed at its very beginning leaves a file without a run.
    fn runs(&self) -> Vec<Run> {
        runs::list(&self.0).unwrap().iter().filter_map(|path| Run::read(path).ok()).collect()
    }

    fn last(&self) -> Option<Run> {
        self.runs().pop()
    }

    fn only(&self) -> Run {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers in 16 chunks.
fn numbers() -> DataSet<Dense<f64>> {
    DataSet::dense((0..1600).map(f64::from).collect(), 1).unwrap().chunk_records(100).unwrap()
}

/// A sum that rounds, so that its bits depend on everything.
#[qjam::map]
fn wave(theta: &[f64], x: &Dense<f64>) -> Vec<f64> {
    let sum = |t: &f64| x.as_slice().iter().map(|v| (v * t).sin() / 3.0).sum();
    theta.iter().map(sum).collect()
}
