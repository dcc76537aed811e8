//! The autoencoder's final parameters: one hash on every engine, through kills and stops, and close to NumPy's.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it saw and stops where it fails"
)]

qjam::worker_hook!();

use qjam::{DataSet, Dense, Master, Rng};
use qjam_algos::images;
use qjam_algos::neural::autoencoder::{self, Params, Shape, evaluate, evaluate_into, sums};
use qjam_algos::optimize::lbfgs;
use qjam_core::reduce::{Cut, Tree};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const THREADS: &[&str] = &["local:1", "local:2", "local:3", "local:8"];
const PROCESSES: &[&str] = &["proc:1", "proc:2", "proc:3", "proc:8", "proc:2*2"];

fn params() -> Params {
    Params::new(Shape::new(64, 30).unwrap())
}

fn data(patches: usize) -> DataSet<Dense<f64>> {
    DataSet::dense(images::patches(patches, 8, 1), 64).unwrap()
}

/// Final parameters after so many evaluations, as bits.
fn train(
    evaluations: usize,
    mut total: impl FnMut(&[f64]) -> qjam::Result<autoencoder::Sums>,
) -> qjam::Result<Vec<u64>> {
    let params = params();
    let options = lbfgs::Options { evaluations_max: evaluations, ..lbfgs::Options::default() };
    let minimum = lbfgs::minimize(
        &options,
        autoencoder::initial(&params.shape(), 1),
        |theta, gradient| Ok::<_, qjam::Error>(evaluate_into(&params, theta, &total(theta)?, gradient)),
        |_| {},
    )?;
    Ok(minimum.x.iter().map(|v| v.to_bits()).collect())
}

/// The same cut, walked here without any engine.
fn serial(data: &DataSet<Dense<f64>>, theta: &[f64]) -> autoencoder::Sums {
    let cut = Cut::new(data.len() as u32, 0);
    let mut tree = Tree::new(cut);
    for n in 0..data.len() {
        let part = sums(theta, &data.chunk(n).unwrap());
        tree.insert(cut.node(n as u32), part, qjam::Reduce::try_merge).unwrap();
    }
    tree.take_root().unwrap()
}

/// What a schedule did.
#[derive(Default)]
struct Faults {
    kills: AtomicU32,
    stops: AtomicU32,
    lasting: AtomicU32,
}

/// How many workers may be ended in a round. A third death inside the same block would rightly be held against the block.
const DEATHS_MAX: usize = 2;

/// Kills and stops worker processes at moments drawn from the seed until told to end. `round` is the number of the current one.
fn torment(m: &Master, seed: u64, round: &AtomicU32, over: &AtomicBool, faults: &Faults) {
    let mut rng = Rng::keyed(seed, 0, 0);
    // The last round in which each was ended.
    let mut ended: Vec<u32> = Vec::new();
    for _ in 0..1 + rng.below(6) {
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
        let now = round.load(Relaxed);
        if over.load(Relaxed) || ended.iter().filter(|round| **round >= now).count() >= DEATHS_MAX {
            continue;
        }
        let pids: Vec<u32> = m.workers().into_iter().filter_map(|w| w.pid).collect();
        if pids.is_empty() {
            continue;
        }
        let pid = Pid::from_raw(pids[rng.below(pids.len() as u64) as usize] as i32).unwrap();
        match rng.below(20) {
            0 if seed.is_multiple_of(4) => {
                faults.lasting.fetch_add(1, Relaxed);
                let _ = kill_process(pid, Signal::STOP);
                ended.push(round.load(Relaxed));
            }
            n if n < 8 => {
                faults.stops.fetch_add(1, Relaxed);
                let _ = kill_process(pid, Signal::STOP);
                std::thread::sleep(Duration::from_millis(1 + rng.below(100)));
                let _ = kill_process(pid, Signal::CONT);
            }
            _ => {
                faults.kills.fetch_add(1, Relaxed);
                let _ = kill_process(pid, Signal::KILL);
                ended.push(round.load(Relaxed));
            }
        }
    }
}

fn sweep(schedules: u64, patches: usize, evaluations: usize) {
    let data = data(patches);
    let expected = train(evaluations, |theta| Ok(serial(&data, theta))).unwrap();
    let hash =
        |bits: &[u64]| bits.iter().fold(0u64, |h, b| (h ^ b).wrapping_mul(0x100_0000_01b3).rotate_left(17));
    for workers in THREADS {
        for _ in 0..schedules.min(3) {
            let m = Master::connect(workers).unwrap();
            let bits = train(evaluations, |theta| m.run(sums, theta, &data)).unwrap();
            assert!(bits == expected, "{workers}: other bits than the serial run");
        }
        println!("{workers:10} {:016x}", hash(&expected));
    }
    for (n, workers) in PROCESSES.iter().enumerate() {
        let faults = Faults::default();
        for schedule in 0..schedules {
            let seed = 1000 * n as u64 + schedule;
            let m = Master::connect(workers).unwrap();
            let (over, round) = (AtomicBool::new(false), AtomicU32::new(0));
            let bits = std::thread::scope(|scope| {
                scope.spawn(|| torment(&m, seed, &round, &over, &faults));
                let bits = train(evaluations, |theta| {
                    round.fetch_add(1, Relaxed);
                    m.run(sums, theta, &data)
                });
                over.store(true, Relaxed);
                bits
            });
            let bits = bits.unwrap_or_else(|e| panic!("{workers}, schedule {seed}: {e}"));
            assert!(bits == expected, "{workers}, schedule {seed}: other bits than the serial run");
        }
        let count = |n: &AtomicU32| n.load(Relaxed);
        println!(
            "{workers:10} {:016x}  {schedules} schedules: {} kills, {} stops, {} of them for ever",
            hash(&expected),
            count(&faults.kills),
            count(&faults.stops) + count(&faults.lasting),
            count(&faults.lasting),
        );
    }
}

#[test]
fn one_hash_on_every_engine_through_kills_and_stops() {
    sweep(2, 3_000, 30);
}

#[test]
#[ignore = "takes minutes; part of the full tier"]
fn one_hash_on_every_engine_through_twenty_schedules_each() {
    sweep(20, 10_000, 60);
}

/// An `.npy` file of doubles.
fn write_npy(path: &Path, rows: usize, cols: Option<usize>, values: &[f64]) {
    let shape = cols.map_or(format!("({rows},)"), |cols| format!("({rows}, {cols})"));
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn cost_and_gradient_are_numpys_to_twelve_digits() {
    let python = std::env::var_os("QJAM_TEST_PYTHON")
        .expect("QJAM_TEST_PYTHON must name a Python with NumPy; `cargo xtask test` makes one and sets it");
    let patches = 5_000;
    let data = data(patches);
    let params = params();
    let theta = autoencoder::initial(&params.shape(), 1);
    let m = Master::connect("proc:2").unwrap();
    let (cost, gradient) = evaluate(&params, &theta, &m.run(sums, &theta[..], &data).unwrap());

    let folder = std::env::temp_dir().join(format!("qjam-numpy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str| folder.join(name);
    write_npy(&file("theta.npy"), theta.len(), None, &theta);
    write_npy(&file("x.npy"), patches, Some(64), &images::patches(patches, 8, 1));
    let script: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "bench", "peer_autoencoder.py"].iter().collect();
    let status = Command::new(python)
        .arg(script)
        .args(["eval", "--theta"])
        .arg(file("theta.npy"))
        .arg("--x")
        .arg(file("x.npy"))
        .arg("--out")
        .arg(file("out.npy"))
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let theirs = DataSet::<Dense<f64>>::npy(file("out.npy")).unwrap().chunk(0).unwrap();
    let theirs = theirs.as_slice();
    assert_eq!(theirs.len(), gradient.len() + 1);
    let scale = theirs[1..].iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let worst = gradient.iter().zip(&theirs[1..]).map(|(a, b)| (a - b).abs() / scale).fold(0.0, f64::max);
    println!("cost {:.2e} apart, gradient {worst:.2e}", (cost - theirs[0]).abs() / theirs[0]);
    assert!((cost - theirs[0]).abs() <= 1e-12 * theirs[0].abs(), "{cost} and {}", theirs[0]);
    assert!(worst <= 1e-12, "{worst:e}");
    std::fs::remove_dir_all(&folder).unwrap();
}
