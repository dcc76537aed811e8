//! Memory of workers on other hosts: data of four times the limit, and a disk that has no room for it.

use crate::hosts::claim;
use qjam::journal::What;
use qjam::memory::Usage;
use qjam::{DataSet, Dense, Error, Master};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 16 * MIB;

#[qjam::map]
fn weigh(theta: &[f64], x: &Dense<f64>) -> f64 {
    x.rows_iter().map(|row| row.iter().zip(theta).map(|(a, b)| a * b).sum::<f64>()).sum()
}

/// A file of four times the limit that goes when the test does.
struct Numbers(PathBuf);

impl Numbers {
    fn new(kind: u64) -> Numbers {
        let path = std::env::temp_dir().join(format!("qjam-hosts-memory-{}-{kind}", std::process::id()));
        let number = |n: u64| ((n ^ (kind << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as f64 / 1e3;
        let bytes: Vec<u8> = (0..4 * LIMIT / 8).flat_map(|n| number(n).to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
        Numbers(path)
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn data_of_four_times_the_limit_streams_through_a_host() {
    let [c] = claim(["c"]);
    c.empty_cache();
    let numbers = Numbers::new(1);
    let data = DataSet::<Dense<f64>>::raw(&numbers.0, 64).unwrap();
    let theta: Vec<f64> = (0..64).map(|n| 1.0 / f64::from(n + 1)).collect();
    let expected = Master::connect("local:2").unwrap().run(weigh, &theta[..], &data).unwrap();
    for workers in ["c*1", "c*2"] {
        let m = Master::builder().memory_limit(LIMIT).connect(workers).unwrap();
        let (mut own, mut of_files) = (0, 0);
        for _ in 0..3 {
            assert_eq!(m.run(weigh, &theta[..], &data).unwrap().to_bits(), expected.to_bits(), "{workers}");
            for process in c.processes().into_iter().filter(|process| process.is_ours()) {
                let Ok(usage) = Usage::of(process.pid) else { continue };
                own = own.max(usage.private_bytes + usage.shared_bytes);
                of_files = of_files.max(usage.file_bytes);
            }
        }
        println!(
            "{workers}: each had up to {} KiB of its own, and {} KiB of files",
            own >> 10,
            of_files >> 10
        );
        assert!(own > 0 && own <= LIMIT, "{workers}: {own}");
        let deaths = m.journal().iter().filter(|entry| matches!(entry.what, What::WorkerLost(..))).count();
        assert_eq!(deaths, 0, "{workers}");
        drop(m);
        c.must_be_quiet();
    }
}

#[test]
fn results_longer_than_the_limit_are_told_with_the_host() {
    #[qjam::map]
    fn long(bytes: &u64, _: &qjam::Nothing) -> Vec<u8> {
        vec![1; *bytes as usize]
    }
    let [d] = claim(["d"]);
    let m = Master::builder().memory_limit(LIMIT).on_log(|_| {}).connect("d*1").unwrap();
    let error = m.run(long, &(LIMIT * 5 / 8), &DataSet::nothing(1).unwrap()).unwrap_err();
    // It dies while it sends, inside no block.
    let (Error::Poison { deaths, .. } | Error::NoWorkers { deaths }) = &error else { panic!("{error}") };
    assert!(deaths.iter().all(|(worker, _)| worker == "d"), "{error}");
    assert!(error.to_string().contains(&format!("limit of {LIMIT}")), "{error}");
    assert_eq!(m.run(long, &1000, &DataSet::nothing(1).unwrap()).unwrap().len(), 1000);
    drop(m);
    d.must_be_quiet();
}
