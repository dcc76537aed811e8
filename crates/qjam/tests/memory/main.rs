//! Memory: what cannot fit is refused with the numbers, what runs out is told as that, and nothing hangs or is left.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test: what is not there should end it"
)]

qjam_conformance::hook!(cores::PROGRAMS, groups::PROGRAMS);

mod cores;
mod fills;
mod group;
mod groups;
mod refusals;

use qjam::{DataSet, Dense};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const MIB: u64 = 1 << 20;

/// A file of numbers that goes when the test does.
struct Numbers(PathBuf);

impl Numbers {
    fn new(bytes: u64) -> Numbers {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("qjam-numbers-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let values: Vec<u8> = (0..bytes / 8).flat_map(|n| ((n % 1000) as f64).to_le_bytes()).collect();
        std::fs::write(&path, values).unwrap();
        Numbers(path)
    }

    /// Eight columns, so that a row has 64 bytes.
    fn data(&self) -> DataSet<Dense<f64>> {
        DataSet::<Dense<f64>>::raw(&self.0, 8).unwrap()
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[qjam::map]
fn sum(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}
