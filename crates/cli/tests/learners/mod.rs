//! A fit of any learner of the registry from the command line, for the tests of the same bits on threads, hosts and ranks.

use qjam_algos::learner::Learner;
use qjam_algos::options::Target;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("qjam-same-bits-{process}-{count}-{name}"));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const COLUMNS: usize = 24;
const ROWS: usize = 3_000;
/// So many have more entries than a linear model's only partition would.
const MANY_ROWS: usize = (1 << 18) / COLUMNS + 1;

/// Rows around three centres, and what is to be learnt from them.
fn rows(folder: &Folder, learner: &dyn Learner, count: usize) -> PathBuf {
    let target = learner.table().target;
    let mut random = qjam::Rng::keyed(11, 0, 0);
    let mut text: String = (0..COLUMNS).map(|column| format!("c{column},")).collect();
    text.push_str("y\n");
    for row in 0..count {
        let class = row % 3;
        let mut sum = 0.0;
        for column in 0..COLUMNS {
            let value = random.normal() * 0.4 + if column % 3 == class { 0.5 } else { -0.25 };
            let value = if learner.takes_negative() { value } else { value.abs() };
            sum += value * (column % 5) as f64;
            write!(text, "{value:.5},").unwrap();
        }
        match target {
            Target::Classes => writeln!(text, "{}", if random.below(10) == 0 { 1 } else { class }),
            _ => writeln!(text, "{:.5}", sum + random.normal()),
        }
        .unwrap();
    }
    let path = folder.path("rows.csv");
    std::fs::write(&path, text).unwrap();
    path
}

/// What makes a fit one of many rounds, and a linear one with several partitions that exchange.
pub(crate) fn options(name: &str) -> &'static [&'static str] {
    match name {
        "kmeans" => &["--k", "7", "--tol", "0"],
        "minibatch-kmeans" => &["--k", "7", "--batch", "200"],
        "autoencoder" => &["--hidden", "6", "--evaluations", "60"],
        "logistic" => &["--solver", "cocoa", "--partitions", "3", "--multi-class", "ovr"],
        "ridge" => &["--solver", "cocoa", "--partitions", "3", "--tol", "1e-7"],
        "lasso" | "elasticnet" => {
            &["--solver", "cocoa", "--partitions", "3", "--tol", "1e-7", "--alpha", "0.01"]
        }
        "svm" => &["--solver", "cocoa", "--partitions", "3", "--tol", "1e-2"],
        "gaussian-mixture" => &["--components", "3"],
        "mlp-classifier" | "mlp-regressor" => &["--hidden", "8", "--max-iter", "4"],
        _ => &[],
    }
}

/// A fit of one learner to one file.
pub(crate) struct Fit {
    #[allow(dead_code, reason = "it goes away with the fit; not every test looks into it")]
    pub(crate) folder: Folder,
    pub(crate) arguments: Vec<String>,
}

impl Fit {
    pub(crate) fn of(learner: &dyn Learner, more: &[&str]) -> Fit {
        Fit::to(learner, ROWS, options(learner.table().name), more)
    }

    /// One to so many rows that a linear model has several partitions although nobody says so.
    #[allow(dead_code, reason = "not every test looks at it")]
    pub(crate) fn of_many_rows(learner: &dyn Learner) -> Fit {
        let given = options(learner.table().name);
        let said = given.iter().position(|word| *word == "--partitions");
        let rest = said.map_or(given.to_vec(), |at| [&given[..at], &given[at + 2..]].concat());
        Fit::to(learner, MANY_ROWS, &rest, &[])
    }

    fn to(learner: &dyn Learner, count: usize, options: &[&str], more: &[&str]) -> Fit {
        let table = learner.table();
        let folder = Folder::new(table.name);
        let data = rows(&folder, learner, count);
        let (data, model) = (data.to_string_lossy(), folder.path("model").to_string_lossy().into_owned());
        let mut arguments: Vec<String> = vec!["fit".into(), table.name.into(), data.into_owned()];
        arguments.extend(["--json".into(), "--out".into(), model]);
        match table.target {
            Target::None => arguments.extend(["--without".into(), "y".into()]),
            _ => arguments.extend(["--target".into(), "y".into()]),
        }
        arguments.extend(options.iter().chain(more).map(|word| (*word).into()));
        Fit { folder, arguments }
    }
}
