//! Linear learners: one hash on every engine and through kills, and scikit-learn's coefficients.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it saw and stops where it fails"
)]

qjam::worker_hook!();

use qjam::{Csc, Csr, DataSet, Master, Rng, Rows};
use qjam_algos::linear::{
    Given, Kind, Learned, Local, Margin, Outcome, Params, Partitioned, Scaling, Solver, Spec, logistic,
    regress, svm, train,
};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A sparse matrix with a few long columns and many short ones, and targets.
fn data(rows: usize, cols: usize, per_row: usize) -> (Csr<f64>, Vec<f64>) {
    let mut random = Rng::keyed(9, 0, 0);
    let (mut starts, mut columns, mut values, mut targets) = (vec![0], vec![], vec![], vec![]);
    let truth: Vec<f64> = (0..cols).map(|j| if j % 7 == 0 { random.normal() } else { 0.0 }).collect();
    for _ in 0..rows {
        let mut row: Vec<u32> =
            (0..per_row).map(|_| (random.uniform().powi(3) * cols as f64) as u32).collect();
        row.sort_unstable();
        row.dedup();
        let entries: Vec<f64> = row.iter().map(|_| random.normal() + 0.2).collect();
        let fitted: f64 = row.iter().zip(&entries).map(|(j, v)| truth[*j as usize] * v).sum();
        targets.push(1.5 + fitted + 0.3 * random.normal());
        columns.extend(row);
        values.extend(entries);
        starts.push(columns.len() as u64);
    }
    (Csr::from_vecs(starts, columns, values, cols, None).unwrap(), targets)
}

/// A file that goes away with the test, however that ends.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("qjam-linear-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn given(eta: f64, intercept: bool) -> Given {
    Given { lambda: 0.5, eta, scaling: Scaling::HalfSum, intercept }
}

fn fixed(rounds: usize) -> Params {
    let local = Local::Fixed { work: 0.4, sigma: 1.5 };
    Params::default().with_local(local).unwrap().with_rounds_max(rounds).unwrap().with_seed(3)
}

/// Bits of everything that fitting gives.
fn bits(learned: &Learned) -> Vec<u64> {
    let all = learned.coefficients.iter().chain([&learned.intercept, &learned.objective, &learned.gap]);
    all.map(|v| v.to_bits()).chain([learned.fit.rounds as u64]).collect()
}

fn hash(bits: &[u64]) -> u64 {
    bits.iter().fold(0, |h, b| (h ^ b).wrapping_mul(0x100_0000_01b3).rotate_left(17))
}

fn columns(partitions: usize) -> (Partitioned<Csc<f64>>, Vec<f64>) {
    let (x, targets) = data(3_000, 2_000, 12);
    (Partitioned::columns_of(&DataSet::csr(&x).unwrap(), partitions).unwrap(), targets)
}

#[test]
fn one_hash_on_every_engine() {
    let (x, targets) = data(3_000, 2_000, 12);
    let rows = DataSet::csr(&x).unwrap();
    let columns = Partitioned::columns_of(&rows, 4).unwrap();
    let labels: Vec<f64> = targets.iter().map(|t| if *t > 1.5 { 1.0 } else { -1.0 }).collect();
    let examples = Partitioned::examples_of(&rows, &labels, 1.0, 4).unwrap();
    let all = |workers: &str| -> Vec<u64> {
        let m = Master::builder().no_run_file().connect(workers).unwrap();
        let (mut found, params) = (vec![], fixed(30));
        for eta in [1.0, 0.5, 0.0] {
            found.extend(bits(&regress(&m, &columns, &targets, &given(eta, true), &params, |_| {}).unwrap()));
        }
        found.extend(bits(&logistic(&m, &columns, &labels, &given(0.5, true), &params, |_| {}).unwrap()));
        found.extend(bits(&svm(&m, &examples, 0.1, Margin::Hinge, 1.0, &params, |_| {}).unwrap()));
        found
    };
    let expected = all("local:1");
    for workers in ["local:1", "local:2", "local:3", "proc:2"] {
        let found = all(workers);
        println!("{workers:8} {:016x}", hash(&found));
        assert!(found == expected, "{workers}: other bits");
    }
}

#[test]
fn newtons_steps_have_one_hash_on_every_engine() {
    let wide = data(3_000, 2_000, 12);
    let narrow = data(3_000, 60, 12);
    let dense: Vec<f32> = (0..3_000_u64 * 40).map(|i| (i * i % 101) as f32 / 50.0 - 1.0).collect();
    let dense = DataSet::dense(dense, 40).unwrap();
    let (of_wide, of_narrow) = (DataSet::csr(&wide.0).unwrap(), DataSet::csr(&narrow.0).unwrap());
    let sets: [(Rows, &[f64], Solver); 3] = [
        ((&of_wide).into(), &wide.1, Solver::NewtonCg),
        ((&of_narrow).into(), &narrow.1, Solver::Direct),
        ((&dense).into(), &narrow.1, Solver::NewtonCg),
    ];
    let weights: Vec<f64> = (0..3_000).map(|row| 0.5 + f64::from(row % 3)).collect();
    let all = |workers: &str| -> Vec<u64> {
        let m = Master::builder().no_run_file().connect(workers).unwrap();
        let mut found = vec![];
        for (rows, targets, solver) in &sets {
            let labels: Vec<f64> = targets.iter().map(|t| f64::from(*t > 1.5)).collect();
            for kind in [Kind::Ridge, Kind::Logistic, Kind::Svm] {
                let spec = Spec::new(kind).with_solver(*solver).unwrap();
                let targets = if kind == Kind::Ridge { *targets } else { &labels[..] };
                let trained = train(&m, rows, targets, Some(&weights), &spec, |_| {}).unwrap();
                assert_eq!((trained.solver, trained.outcome), (*solver, Outcome::Converged));
                let numbers = trained.model.coefficients().iter().chain(trained.model.intercepts());
                found.extend(numbers.chain([&trained.objective, &trained.gap]).map(|v| v.to_bits()));
                found.push(trained.rounds as u64);
            }
        }
        found
    };
    let expected = all("local:1");
    for workers in ["local:2", "local:5", "proc:2"] {
        assert!(all(workers) == expected, "{workers}: other bits");
    }
}

#[test]
fn killed_workers_change_nothing() {
    let (columns, targets) = columns(4);
    let run =
        |m: &Master| bits(&regress(m, &columns, &targets, &given(0.0, false), &fixed(60), |_| {}).unwrap());
    let expected = run(&Master::builder().no_run_file().connect("local:2").unwrap());
    for seed in 0..2 {
        let m = Master::builder().no_run_file().connect("proc:2").unwrap();
        let over = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                let (mut random, mut kills) = (Rng::keyed(seed, 0, 0), 0);
                while kills < 2 && !over.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(3 + random.below(20)));
                    let pids: Vec<u32> = m.workers().into_iter().filter_map(|w| w.pid).collect();
                    if let Some(pid) = pids.get(random.below(2) as usize) {
                        let _ = kill_process(Pid::from_raw(*pid as i32).unwrap(), Signal::KILL);
                        kills += 1;
                    }
                }
                kills
            });
            let found = run(&m);
            over.store(true, Relaxed);
            println!("seed {seed}: {} kills", killer.join().unwrap());
            found
        });
        assert!(found == expected, "seed {seed}: other bits");
    }
}

#[test]
fn tuned_runs_say_what_they_chose_and_converge_on_processes() {
    let (columns, targets) = columns(2);
    let m = Master::builder().no_run_file().connect("proc:2").unwrap();
    let params = Params::default().with_tolerance(1e-5).unwrap();
    let learned = regress(&m, &columns, &targets, &given(1.0, true), &params, |_| {}).unwrap();
    assert_eq!(learned.fit.outcome, Outcome::Converged);
    assert!(learned.gap <= 1e-5 * learned.objective && learned.gap >= 0.0);
    let log: Vec<String> = learned.fit.choices.iter().map(ToString::to_string).collect();
    assert!(log[0].ends_with("to begin with") && log.len() > 1, "{log:?}");
    assert!(log[1].contains("an exchange costs"), "{log:?}");
}

/// Fits the same data with scikit-learn and prints its coefficients, one model a line.
const SCIKIT_LEARN: &str = r"
import sys, numpy as np, scipy.sparse as sp
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge
from sklearn.svm import LinearSVC
rows, cols = int(sys.argv[2]), int(sys.argv[3])
x = sp.csr_matrix(np.fromfile(sys.argv[1]).reshape(rows, cols + 1)[:, :-1])
b = np.fromfile(sys.argv[1]).reshape(rows, cols + 1)[:, -1]
y = np.where(b > 1.5, 1, -1)
for i in (False, True):
    models = [
        Ridge(alpha=0.5, fit_intercept=i, solver='sparse_cg' if i else 'cholesky', tol=1e-14, max_iter=100000),
        ElasticNet(alpha=0.5 / rows, l1_ratio=0.5, fit_intercept=i, tol=1e-13, max_iter=100000),
        Lasso(alpha=0.5 / rows, fit_intercept=i, tol=1e-13, max_iter=100000),
        LogisticRegression(C=2.0, fit_intercept=i, solver='newton-cholesky', tol=1e-12, max_iter=1000),
        LinearSVC(C=0.1, loss='squared_hinge', fit_intercept=i, dual=True, tol=1e-9, max_iter=200000, random_state=0),
    ]
    for n, model in enumerate(models):
        model.fit(x, b if n < 3 else y)
        print(*np.ravel(model.coef_), *np.ravel(model.intercept_ if i else 0.0))
";

#[test]
fn coefficients_are_scikit_learns_to_six_digits() {
    let python = std::env::var_os("QJAM_TEST_PYTHON").expect(
        "QJAM_TEST_PYTHON must name a Python with scikit-learn; `cargo xtask test` makes one and sets it",
    );
    let (rows, cols) = (300, 60);
    let (x, targets) = data(rows, cols, 12);
    let mut bytes = vec![];
    for (row, target) in targets.iter().enumerate() {
        let mut line = vec![0.0; cols];
        let (columns, values) = x.row(row);
        columns.iter().zip(values).for_each(|(c, v)| line[*c as usize] = *v);
        bytes.extend(line.iter().chain([target]).flat_map(|v| v.to_le_bytes()));
    }
    let file = Temporary::new("raw", &bytes);
    let output = Command::new(python)
        .args(["-c", SCIKIT_LEARN])
        .arg(&file.0)
        .args([rows.to_string(), cols.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<Vec<f64>> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split(' ').map(|v| v.parse().unwrap()).collect())
        .collect();

    let m = Master::builder().no_run_file().connect("local:2").unwrap();
    let data = DataSet::csr(&x).unwrap();
    let columns = Partitioned::columns_of(&data, 3).unwrap();
    let labels: Vec<f64> = targets.iter().map(|t| if *t > 1.5 { 1.0 } else { -1.0 }).collect();
    let params = Params::default().with_tolerance(1e-15).unwrap();
    let mut at = theirs.iter();
    for intercept in [false, true] {
        let mut ours: Vec<(String, Learned)> = vec![];
        for eta in [1.0, 0.5, 0.0] {
            let learned = regress(&m, &columns, &targets, &given(eta, intercept), &params, |_| {}).unwrap();
            ours.push((format!("regression, η {eta}"), learned));
        }
        let learned = logistic(&m, &columns, &labels, &given(1.0, intercept), &params, |_| {}).unwrap();
        ours.push(("logistic".into(), learned));
        let constant = f64::from(u8::from(intercept));
        let examples = Partitioned::examples_of(&data, &labels, constant, 3).unwrap();
        let learned = svm(&m, &examples, 0.1, Margin::SquaredHinge, constant, &params, |_| {}).unwrap();
        ours.push(("squared hinge".into(), learned));
        for (name, learned) in ours {
            let theirs = at.next().unwrap();
            let found = learned.coefficients.iter().chain([&learned.intercept]);
            let worst = found.zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            println!("{name}, intercept {intercept}: {worst:.1e} apart after {} rounds", learned.fit.rounds);
            assert!(worst <= 1e-6, "{name}, intercept {intercept}: {worst:e}");
        }
    }
}

/// The same with weights, and all models that scikit-learn has.
const SCIKIT_LEARN_ALL: &str = r"
import sys, warnings, numpy as np, scipy.sparse as sp, sklearn
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
warnings.simplefilter('ignore')
rows, cols = int(sys.argv[2]), int(sys.argv[3])
table = np.fromfile(sys.argv[1]).reshape(rows, cols + 2)
x, b, w = sp.csr_matrix(table[:, :-2]), table[:, -2], table[:, -1]
y = np.where(b > 1.5, 1, 0)
old = tuple(map(int, sklearn.__version__.split('.')[:2])) < (1, 8)
def logistic(share, **more):
    if old: more['penalty'] = {0: 'l2', 1: 'l1'}.get(share, 'elasticnet')
    if share not in (0, 1) or not old: more['l1_ratio'] = share
    return LogisticRegression(C=2.0, max_iter=200000, tol=1e-13, random_state=0, **more)
for i in (False, True):
    for weights in (None, w):
        svc = dict(C=0.1, fit_intercept=i, dual=True, tol=1e-10, max_iter=5000000, random_state=0)
        models = [
            Ridge(alpha=0.5, fit_intercept=i, solver='sparse_cg' if i else 'cholesky', tol=1e-15, max_iter=100000),
            ElasticNet(alpha=0.002, l1_ratio=0.5, fit_intercept=i, tol=1e-14, max_iter=1000000),
            Lasso(alpha=0.002, fit_intercept=i, tol=1e-14, max_iter=1000000),
            logistic(0, fit_intercept=i, solver='newton-cholesky'),
            logistic(1, fit_intercept=i, solver='saga'),
            logistic(0.5, fit_intercept=i, solver='saga'),
            LinearSVC(loss='squared_hinge', **svc),
            LinearSVC(loss='hinge', **svc),
        ]
        for n, model in enumerate(models):
            model.fit(x if n != 2 or weights is None else x.toarray(), b if n < 3 else y, sample_weight=weights)
            print(*np.ravel(model.coef_), *np.ravel(model.intercept_ if i else 0.0))
";

#[test]
fn what_is_trained_has_scikit_learns_coefficients_to_six_digits() {
    let python = std::env::var_os("QJAM_TEST_PYTHON").expect(
        "QJAM_TEST_PYTHON must name a Python with scikit-learn; `cargo xtask test` makes one and sets it",
    );
    let (rows, cols) = (250, 30);
    let (x, targets) = data(rows, cols, 8);
    let weights: Vec<f64> = (0..rows).map(|row| [1.0, 0.0, 0.5, 2.25][row % 4]).collect();
    let mut dense = vec![0.0; rows * cols];
    for row in 0..rows {
        let (columns, values) = x.row(row);
        columns.iter().zip(values).for_each(|(c, v)| dense[row * cols + *c as usize] = *v);
    }
    let mut bytes = vec![];
    for row in 0..rows {
        let line = dense[row * cols..][..cols].iter().chain([&targets[row], &weights[row]]);
        bytes.extend(line.flat_map(|v| v.to_le_bytes()));
    }
    let file = Temporary::new("all.raw", &bytes);
    let output = Command::new(python)
        .args(["-c", SCIKIT_LEARN_ALL])
        .arg(&file.0)
        .args([rows.to_string(), cols.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<Vec<f64>> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split(' ').map(|v| v.parse().unwrap()).collect())
        .collect();

    let m = Master::builder().no_run_file().connect("local:2").unwrap();
    let (sparse, dense) = (DataSet::csr(&x).unwrap(), DataSet::dense(dense, cols).unwrap());
    let labels: Vec<f64> = targets.iter().map(|t| f64::from(*t > 1.5)).collect();
    let params = Params::default().with_tolerance(1e-15).unwrap().with_rounds_max(50_000).unwrap();
    let logistic = |share: f64| Spec::new(Kind::Logistic).with_c(2.0).unwrap().with_l1_ratio(share).unwrap();
    let machine = |margin| Spec::new(Kind::Svm).with_c(0.1).unwrap().with_margin(margin);
    let specs = [
        ("ridge", Spec::new(Kind::Ridge).with_lambda(0.5).unwrap()),
        ("elastic net", Spec::new(Kind::ElasticNet).with_lambda(0.002).unwrap()),
        ("lasso", Spec::new(Kind::Lasso).with_lambda(0.002).unwrap()),
        ("logistic l2", logistic(0.0)),
        ("logistic l1", logistic(1.0)),
        ("logistic elastic net", logistic(0.5)),
        ("squared hinge", machine(Margin::SquaredHinge)),
        ("hinge", machine(Margin::Hinge)),
    ];
    let (mut at, mut wrong) = (theirs.iter(), vec![]);
    for intercept in [false, true] {
        for weights in [None, Some(&weights[..])] {
            for (name, spec) in &specs {
                let theirs = at.next().unwrap();
                let spec = spec.clone().with_intercept(intercept).with_params(params.clone());
                let targets = if spec.kind().classifies() { &labels } else { &targets };
                for (solver, examples) in [
                    (Solver::Direct, Rows::from(&dense)),
                    (Solver::Direct, Rows::from(&sparse)),
                    (Solver::Cocoa, Rows::from(&dense)),
                    (Solver::Cocoa, Rows::from(&sparse)),
                ] {
                    let Ok(spec) = spec.clone().with_solver(solver) else { continue };
                    let spec = spec.with_partitions((solver == Solver::Cocoa).then_some(2));
                    let found = train(&m, &examples, targets, weights, &spec, |_| {}).unwrap();
                    let ours = found.model.coefficients().iter().chain(found.model.intercepts());
                    let worst = ours.zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                    let what = format!(
                        "{name}, {solver:?}, sparse {}, intercept {intercept}, weights {}: {worst:.1e} apart after {} rounds, {:?}",
                        examples.is_sparse(),
                        weights.is_some(),
                        found.rounds,
                        found.outcome
                    );
                    println!("{what}");
                    if worst > 1e-6 {
                        wrong.push(what);
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
