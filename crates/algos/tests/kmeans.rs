//! k-means: one hash on every engine, with and without pruning, through kills; and what faults may not change.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it saw and stops where it fails"
)]

qjam::worker_hook!();

use qjam::{Csr, DataSet, Dense, Master, Rng};
use qjam_algos::clustering::kmeans::{Centres, Fit, Params, Points, Start, fit, fit_from, fit_minibatch};
use qjam_algos::kernels::nearest::Real;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const DIMS: usize = 80;

/// Clusters that overlap, so that it takes a while; two of five numbers are 0.
fn values() -> Vec<f32> {
    let mut random = Rng::keyed(5, 0, 0);
    let middles: Vec<f64> = (0..40 * DIMS).map(|_| random.normal()).collect();
    let row = |_| {
        let middle = random.below(40) as usize;
        let number = |p: usize| match (p + middle) % 5 {
            0 | 1 => 0.0,
            _ => (middles[middle * DIMS + p] + random.normal()) as f32,
        };
        (0..DIMS).map(number).collect::<Vec<_>>()
    };
    (0..6_000).flat_map(row).collect()
}

fn data() -> DataSet<Dense<f32>> {
    DataSet::dense(values(), DIMS).unwrap()
}

/// The same rows by what is not zero in them.
fn sparse<T: Real>(values: &[T], dims: usize) -> DataSet<Csr<T>> {
    let (mut starts, mut columns, mut numbers) = (vec![0], vec![], vec![]);
    for row in values.chunks(dims) {
        for (column, v) in row.iter().enumerate().filter(|(_, v)| v.to_f64() != 0.0) {
            columns.push(column as u32);
            numbers.push(*v);
        }
        starts.push(columns.len() as u64);
    }
    DataSet::csr(&Csr::from_vecs(starts, columns, numbers, dims, None).unwrap()).unwrap()
}

fn params() -> Params {
    Params::new(70).unwrap().with_tolerance(0.0).unwrap().with_iterations_max(25).unwrap().with_seed(2)
}

/// Bits of everything that fitting gives.
fn bits<C: Points>(m: &Master, params: &Params, data: &DataSet<C>) -> Vec<u64> {
    let fitted = fit(m, params, data, |_| {}).unwrap();
    let centres = fitted.model.centres().values().iter().map(|v| v.to_f64().to_bits());
    centres.chain([fitted.inertia.to_bits(), fitted.iterations as u64]).collect()
}

fn one_result<C: Points>(data: &DataSet<C>, params: &Params, engines: &[&str]) -> Vec<u64> {
    let expected = bits(&Master::connect("local:1").unwrap(), params, data);
    for workers in engines {
        for pruning in [true, false] {
            let m = Master::connect(workers).unwrap();
            let found = bits(&m, &params.with_pruning(pruning), data);
            assert!(found == expected, "{workers}, {:?}, pruning {pruning}: other bits", params.start());
        }
    }
    expected
}

#[test]
fn one_result_on_every_engine_with_and_without_pruning() {
    one_result(&data(), &params(), &["local:1", "local:2", "local:5", "proc:1", "proc:2", "proc:5"]);
    one_result(&data(), &params().with_start(Start::Parallel), &["local:5", "proc:2"]);
}

#[test]
fn one_result_of_sparse_rows_on_every_engine_which_is_that_of_dense_ones() {
    let params = params();
    let found = one_result(&sparse(&values(), DIMS), &params, &["local:2", "local:5", "proc:2"]);
    let dense = bits(&Master::connect("local:2").unwrap(), &params, &data());
    // All but the inertia, whose distances are sums in another order.
    let centres = params.k() * DIMS;
    assert!(found[..centres] == dense[..centres] && found[centres + 1] == dense[centres + 1]);
    let (found, dense) = (f64::from_bits(found[centres]), f64::from_bits(dense[centres]));
    assert!((found - dense).abs() <= 1e-12 * dense, "{found} {dense}");
}

#[test]
fn batches_give_one_result_on_every_engine() {
    let data = data();
    let run = |workers: &str| {
        fit_minibatch(
            &Master::connect(workers).unwrap(),
            &params().with_batch_rows(500).unwrap(),
            &data,
            |_| {},
        )
        .unwrap()
    };
    let expected = run("local:1");
    assert!(["local:5", "proc:2"].iter().all(|workers| run(workers) == expected));
}

fn survives_kills<C: Points>(data: &DataSet<C>, seeds: std::ops::Range<u64>) {
    let expected = bits(&Master::connect("local:2").unwrap(), &params(), data);
    for seed in seeds {
        let m = Master::connect("proc:2").unwrap();
        let over = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let mut random = Rng::keyed(seed, 0, 0);
                let mut kills = 0;
                // A third death inside the same block would rightly be held against the block.
                while kills < 2 && !over.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(5 + random.below(60)));
                    let pids: Vec<u32> = m.workers().into_iter().filter_map(|w| w.pid).collect();
                    if let Some(pid) = pids.get(random.below(2) as usize) {
                        let _ = kill_process(Pid::from_raw(*pid as i32).unwrap(), Signal::KILL);
                        kills += 1;
                    }
                }
                kills
            });
            let found = bits(&m, &params(), data);
            over.store(true, Relaxed);
            println!("seed {seed}: {} kills", killer.join().unwrap());
            found
        });
        assert!(found == expected, "seed {seed}: other bits");
    }
}

#[test]
fn killed_workers_change_nothing() {
    survives_kills(&data(), 0..2);
    survives_kills(&sparse(&values(), DIMS), 2..4);
}

/// What scikit-learn makes of the same rows and first centres: inertia, iterations, and a label for every row.
const PEER: &str = "
import sys
import numpy as np, scipy.sparse as sp
from sklearn.cluster import KMeans
rows, dims, k, kind, form = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
numbers = np.fromfile(sys.argv[6], dtype=np.float64).astype(kind)
x, first = numbers[: rows * dims].reshape(rows, dims), numbers[rows * dims :].reshape(k, dims)
x = sp.csr_matrix(x) if form == 'csr' else x
fit = KMeans(k, init=first, n_init=1, tol=0.0, max_iter=300, algorithm='lloyd').fit(x)
print(repr(float(fit.inertia_)), fit.n_iter_, *fit.labels_)
";

fn peer<T: Real>(rows: &[T], first: &[T], dims: usize, form: &str) -> (f64, Vec<u32>) {
    let python = std::env::var_os("QJAM_TEST_PYTHON").expect(
        "QJAM_TEST_PYTHON must name a Python with scikit-learn; `cargo xtask test` makes one and sets it",
    );
    let path =
        std::env::temp_dir().join(format!("qjam-peer-{}-{form}-{}", std::process::id(), size_of::<T>()));
    let bytes: Vec<u8> = rows.iter().chain(first).flat_map(|v| v.to_f64().to_le_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    let numbers = [rows.len() / dims, dims, first.len() / dims].map(|n| n.to_string());
    let kind = if size_of::<T>() == 4 { "float32" } else { "float64" };
    let output = std::process::Command::new(python)
        .args(["-c", PEER])
        .args(numbers)
        .args([kind, form])
        .arg(&path)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut words = text.split_whitespace();
    let inertia = words.next().unwrap().parse().unwrap();
    (inertia, words.skip(1).map(|label| label.parse().unwrap()).collect())
}

/// Whether two labellings are the same but for the names of the labels.
fn same_partition(a: &[u32], b: &[u32]) -> bool {
    let mut names = std::collections::BTreeMap::new();
    let one_way = a.iter().zip(b).all(|(a, b)| names.entry(*a).or_insert(*b) == b);
    let distinct: std::collections::BTreeSet<_> = names.values().collect();
    one_way && distinct.len() == names.len()
}

fn check_with_peer<T: Real, C: Points<Number = T>>(
    data: &DataSet<C>,
    rows: &[T],
    first: &[T],
    dims: usize,
    form: &str,
) {
    let params = Params::new(first.len() / dims).unwrap().with_tolerance(0.0).unwrap();
    let m = Master::connect("local:2").unwrap();
    let mut empty = 0;
    let centres = Centres::new(first.to_vec(), dims).unwrap();
    let found: Fit<T> = fit_from(&m, &params, data, centres, |seen| empty += seen.empty).unwrap();
    let (inertia, labels) = peer(rows, first, dims, form);
    println!("{form}: {} and {inertia}, {} iterations, {empty} empty", found.inertia, found.iterations);
    assert!((found.inertia - inertia).abs() <= 1e-6 * inertia, "{} {inertia}", found.inertia);
    assert!(same_partition(&found.model.predict(rows).unwrap(), &labels), "{form}: other labels");
    // Those of the first centres that are far from all rows have none in the first iteration.
    assert!(empty >= 3, "no centre lost its rows");
}

#[test]
fn inertia_and_labels_are_scikit_learns_from_the_same_start() {
    let mut random = Rng::keyed(8, 0, 0);
    let dims = 9;
    let middles: Vec<f64> = (0..14 * dims).map(|_| random.normal() * 6.0).collect();
    let rows: Vec<f64> = (0..1_500)
        .flat_map(|i| {
            let middle = &middles[i % 14 * dims..][..dims];
            // Every third column of a row is 0; numbers that 32 bits can hold.
            let noisy = |(p, m): (usize, &f64)| if (p + i) % 3 == 0 { 0.0 } else { m + random.normal() };
            middle.iter().enumerate().map(noisy).map(|v| f64::from(v as f32)).collect::<Vec<_>>()
        })
        .collect();
    let mut first = rows[..14 * dims].to_vec();
    // Far from all rows. Equal centres would lose theirs, too, but which of them does so depends on how the peer's BLAS rounds.
    for (away, centre) in [3, 7, 11].into_iter().enumerate() {
        first[centre * dims..][..dims].iter_mut().for_each(|v| *v += 500.0 * (away as f64 + 1.0));
    }
    check_with_peer(&DataSet::dense(rows.clone(), dims).unwrap(), &rows, &first, dims, "dense");
    check_with_peer(&sparse(&rows, dims), &rows, &first, dims, "csr");
    let single = |values: &[f64]| values.iter().map(|v| *v as f32).collect::<Vec<f32>>();
    let (rows, first) = (single(&rows), single(&first));
    check_with_peer(&DataSet::dense(rows.clone(), dims).unwrap(), &rows, &first, dims, "dense");
}
