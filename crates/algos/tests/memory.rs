//! Data four times larger than memory: the autoencoder trains inside its limit, to the same bits.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what it saw and stops where it fails"
)]

qjam_conformance::hook!(PROGRAMS);

#[path = "../../qjam/tests/memory/group.rs"]
mod group;

use group::Group;
use qjam::journal::What;
use qjam::memory::{Limit, Usage};
use qjam::{DataSet, Dense, Master};
use qjam_algos::images;
use qjam_algos::neural::autoencoder::{self, Params, Shape};
use qjam_algos::optimize::lbfgs;
use qjam_conformance::program::{Programs, as_program, say};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

const MIB: u64 = 1 << 20;
/// Few, since it is not the arithmetic that is tested.
const HIDDEN: usize = 6;
const EVALUATIONS: usize = 5;
/// Bytes of a patch.
const ROW_BYTES: u64 = 64 * 8;

/// A file of patches that goes when the test does.
struct Patches(PathBuf);

impl Patches {
    fn new(bytes: u64) -> Patches {
        let rows = bytes / ROW_BYTES;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("qjam-memory-{}-{}.npy", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 64), }}");
        header.push_str(&" ".repeat(117 - header.len()));
        header.push('\n');
        let mut file = BufWriter::new(std::fs::File::create(&path).unwrap());
        file.write_all(b"\x93NUMPY\x01\x00").unwrap();
        file.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        images::each_patch(rows as usize, 8, 1, |row| {
            row.iter().try_for_each(|v| file.write_all(&v.to_le_bytes()))
        })
        .unwrap();
        file.flush().unwrap();
        Patches(path)
    }

    /// Has the system forget the file, so that whoever reads it next pays for it.
    fn forget(&self) {
        let file = std::fs::File::open(&self.0).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

impl Drop for Patches {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What a training came to.
#[derive(Debug)]
struct Trained {
    bits: Vec<u64>,
    /// Most that one worker had of its own and in shared memory, looked at after every evaluation.
    worker_bytes: u64,
    deaths: usize,
}

fn train(m: &Master, data: &DataSet<Dense<f64>>) -> Trained {
    let params = Params::new(Shape::new(64, HIDDEN).unwrap());
    let stopping = lbfgs::Options { evaluations_max: EVALUATIONS, ..lbfgs::Options::default() };
    let theta = autoencoder::initial(&params.shape(), 1);
    let own = |usage: Usage| usage.private_bytes + usage.shared_bytes;
    let mut worker_bytes = 0;
    let fit = autoencoder::fit(m, &params.with_stopping(stopping), data, theta, |_| {
        let workers = m.workers().into_iter().filter_map(|w| Usage::of(w.pid?).ok());
        worker_bytes = workers.map(own).fold(worker_bytes, u64::max);
    })
    .unwrap();
    let deaths = m.journal().iter().filter(|entry| matches!(entry.what, What::WorkerLost(..))).count();
    Trained { bits: fit.model.theta().iter().map(|v| v.to_bits()).collect(), worker_bytes, deaths }
}

/// Trains with limited workers on data of four times the limit, in a file, and compares with data in memory.
fn check_workers(limit: u64, engines: &[&str]) {
    let patches = Patches::new(4 * limit);
    let data = DataSet::<Dense<f64>>::npy(&patches.0).unwrap();
    let here = DataSet::dense(images::patches((4 * limit / ROW_BYTES) as usize, 8, 1), 64).unwrap();
    let expected = train(&Master::connect("local:2").unwrap(), &here).bits;
    drop(here);
    for engine in engines {
        let began = Instant::now();
        let m = Master::builder().memory_limit(limit).connect(engine).unwrap();
        let trained = train(&m, &data);
        println!(
            "{engine}: {} MiB of data, workers had up to {} KiB of {} KiB, in {:.1?}",
            4 * limit / MIB,
            trained.worker_bytes >> 10,
            limit >> 10,
            began.elapsed()
        );
        assert!(trained.bits == expected, "{engine}: other bits");
        assert_eq!(trained.deaths, 0, "{engine}: somebody ran out of memory on the way");
        assert!(trained.worker_bytes > 0 && trained.worker_bytes <= limit, "{engine}: {trained:?}");
    }
}

#[test]
fn data_four_times_the_limit_trains_to_the_same_bits_inside_it() {
    check_workers(16 * MIB, &["proc:2", "proc:1*2"]);
}

#[test]
#[ignore = "writes a file of 1 GiB and takes a minute or two"]
fn a_gibibyte_trains_in_workers_of_a_quarter_of_it() {
    check_workers(256 * MIB, &["proc:2", "proc:1*2"]);
}

/// A training as a program of its own: engine and file.
const PROGRAMS: Programs = &[("train", |what| {
    let (engine, file) = what.split_once(' ').unwrap();
    let data = DataSet::<Dense<f64>>::npy(Path::new(file)).unwrap();
    let trained = train(&Master::connect(engine).unwrap(), &data);
    say(format!("{} {} {:?}", Limit::here(), trained.deaths, trained.bits));
})];

/// Trains with everybody, the master too, in a group with a quarter of the data's memory.
fn check_group(limit: u64, engines: &[&str]) {
    let group = Group::with_memory(limit);
    let group =
        group.unwrap_or_else(|why| panic!("NOT TESTED, since there is no control group to be had: {why}"));
    let patches = Patches::new(4 * limit);
    let data = DataSet::<Dense<f64>>::npy(&patches.0).unwrap();
    let expected = format!("{:?}", train(&Master::connect("local:2").unwrap(), &data).bits);
    for engine in engines {
        patches.forget();
        let began = Instant::now();
        let mut command = group.command(&std::env::current_exe().unwrap());
        as_program(&mut command, "train", &format!("{engine} {}", patches.0.display()));
        let output = command.env("QJAM_RUNS", "off").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (peak, kills) = group.peak_and_kills();
        println!(
            "{engine}: {} MiB of data, all together had {} KiB of {} KiB, in {:.1?}",
            4 * limit / MIB,
            peak >> 10,
            limit >> 10,
            began.elapsed()
        );
        assert!(output.status.success(), "{engine}: {said} {}", String::from_utf8_lossy(&output.stderr));
        let line = said.lines().find_map(|line| line.split_once("@ ")).unwrap().1;
        assert!(line.ends_with(&expected) && line.contains(" 0 ["), "{engine}: {}", &line[..200]);
        assert!(line.contains("for the control group"), "{engine}: {}", &line[..200]);
        assert!(kills == 0 && peak <= limit, "{engine}: {kills} were killed, at {peak}");
    }
}

#[test]
fn a_whole_job_trains_in_a_quarter_of_its_data() {
    // The executable of a test build takes a few of it.
    check_group(32 * MIB, &["local:2", "proc:2"]);
}

#[test]
#[ignore = "writes a file of 1 GiB and takes a minute or two"]
fn a_whole_job_over_a_gibibyte_trains_in_a_quarter_of_it() {
    check_group(256 * MIB, &["local:2", "proc:2", "proc:1*2"]);
}
