//! `qjam bench store`, small: what it measures adds up, nothing is left in the bucket, and mistakes are explained.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-bench-store-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Files anywhere below it.
    fn files(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.0.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bench(store: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
    command
        .args(["bench", "store", "--json", "--store", store])
        .args(args)
        .output()
        .expect("the command starts")
}

fn row(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

#[test]
fn the_bench_of_a_bucket_adds_up_and_leaves_nothing() {
    let folder = Folder::new("small");
    let store = format!("file://{}", folder.0.display());
    let args = ["--mappers", "7", "--work-ms", "20", "--iterations", "3", "--bytes", "80000"];
    let row = row(&bench(&store, &args));
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"));
    assert!((number("wall_s") - number("communication_s") - 0.06).abs() < 1e-9, "{row}");
    assert!((number("efficiency") - 0.06 / number("wall_s")).abs() < 1e-9, "{row}");
    assert!(number("cpu_s") > 0.0, "{row}");
    assert!(number("tasks") >= 21.0, "{row}");
    assert!(number("blob_requests") > 21.0 && number("queue_requests") > 42.0, "{row}");
    assert_eq!(folder.files(), Vec::<PathBuf>::new());
}

#[test]
fn backups_end_what_a_slow_mapper_would_take_minutes_for() {
    let folder = Folder::new("slow");
    let store = folder.0.display().to_string();
    let few = ["--mappers", "4", "--work-ms", "300", "--iterations", "1", "--bytes", "8", "--slow", "1"];
    let without = row(&bench(&store, &[&few[..], &["--slowness", "2", "--no-backups"]].concat()));
    assert_eq!(without["tasks"], 4, "{without}");
    let with = row(&bench(&store, &[&few[..], &["--slowness", "1000"]].concat()));
    assert!(with["tasks"].as_u64() > Some(4) && with["wall_s"].as_f64() < Some(300.0), "{with}");
}

#[test]
fn a_bucket_that_is_not_there_is_named() {
    let output = bench("file:///nowhere/at/all", &["--mappers", "2"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("/nowhere/at/all") && words.contains("make the folder first"), "{words}");
}
