//! A text that becomes four times as many numbers as workers may hold is read and worked on within bounds.
//!
//! The only test of its program, since it looks at the most memory that the program ever had.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod common;

use common::Folder;
use qjam::{Dense, Master};
use qjam_readers::Csv;
use std::fmt::Write;

qjam::worker_hook!();

#[qjam::map]
fn sum(_: &(), x: &Dense<f64>) -> f64 {
    x.as_slice().iter().sum()
}

/// The most memory that this program ever had, in bytes.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_text_of_four_times_the_limit_is_read_and_summed_within_it() {
    const LIMIT: u64 = 16 << 20;
    let folder = Folder::new();
    let mut text = String::new();
    for i in 0..1000 {
        writeln!(text, "{}.25,{}.5,{}.75,{}.125", i, i % 7, i % 100, i % 13).unwrap();
    }
    let expected = (0..1000).map(|i| f64::from(i + i % 7 + i % 100 + i % 13) + 1.625).sum::<f64>() * 2100.0;
    let path = folder.file("long.csv", "");
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    for _ in 0..2100 {
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    }
    let before = most();
    let table = Csv::new(&path).threads(2).keep_in(folder.path().join("kept")).read::<f64>().unwrap();
    let grown = most() - before;
    assert!(table.data.bytes() > 4 * LIMIT);
    assert!(grown < 3 * LIMIT, "{grown} bytes of memory for {} bytes of numbers", table.data.bytes());
    let master = Master::builder().memory_limit(LIMIT).connect("proc:2").unwrap();
    assert_eq!(master.run(sum, &(), &table.data).unwrap(), expected);
}
