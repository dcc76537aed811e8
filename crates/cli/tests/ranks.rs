//! Linear learners on ranks of MPI: the same bits as on threads. Needs the feature `mpi` and a real `mpirun`, so the step
//! `mpi` runs it.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

mod learners;

use learners::Fit;
use qjam_algos::registry::LEARNERS;
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// Files that go away with the test.
struct Files(PathBuf);

impl Files {
    fn write(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("qjam-ranks-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::new();
        for i in 0..900_usize {
            write!(text, "{}", (i * 31 % 17) as f64 * 0.25 - 2.0).unwrap();
            for k in 0..8 {
                let (column, value) =
                    (k * 70 + i * (2 * k + 3) % 69 + 1, (i * (k + 5) % 23) as f64 * 0.1 + 0.05);
                write!(text, " {column}:{value}").unwrap();
            }
            text.push('\n');
        }
        std::fs::write(folder.join("x.svm"), text).unwrap();
        Files(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the command says, on so many ranks or without any.
fn json(ranks: Option<&str>, words: &[&str]) -> Value {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]);
    if let Some(ranks) = ranks {
        command.args(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks]);
    }
    command.arg(env!("CARGO_BIN_EXE_qjam")).args(words).arg("--json");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = command.env("QJAM_RUNS", "off").output().expect("timeout starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{ranks:?} {words:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = said.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no JSON in {said}"))).unwrap()
}

#[test]
fn given_work_has_one_hash_on_threads_and_ranks() {
    let files = Files::write("hash");
    let data = files.file("x.svm");
    for penalty in [["--lambda", "0.1", "--eta", "1"], ["--lambda", "0.5", "--eta", "0"]] {
        let given = ["--partitions", "3", "--h", "0.5", "--sigma", "2", "--rounds", "30", "--tol", "0"];
        let words = [&["bench", "cocoa", &data], &penalty[..], &given].concat();
        let expected = json(None, &[&words[..], &["--workers", "local:2"]].concat());
        for ranks in ["2", "4"] {
            let found = json(Some(ranks), &[&words[..], &["--engine", "mpi"]].concat());
            assert_eq!(
                (&found["hash"], &found["rounds"]),
                (&expected["hash"], &expected["rounds"]),
                "{ranks} ranks"
            );
        }
    }
}

#[test]
fn a_model_is_fitted_on_four_ranks() {
    let files = Files::write("fit");
    let (data, here, there) = (files.file("x.svm"), files.file("here.model"), files.file("there.model"));
    let words = [
        "fit",
        "ridge",
        &data,
        "--alpha",
        "2",
        "--solver",
        "cocoa",
        "--partitions",
        "4",
        "--h",
        "1",
        "--sigma",
        "2",
    ];
    let expected = json(None, &[&words[..], &["--out", &here, "--workers", "local:1"]].concat());
    let found = json(Some("4"), &[&words[..], &["--out", &there, "--workers", "mpi"]].concat());
    assert_eq!((&found["hash"], &found["converged"]), (&expected["hash"], &true.into()));
    // The model says how it came about, and where that was is no part of it.
    assert_eq!(std::fs::read(&here).unwrap(), std::fs::read(&there).unwrap());
}

#[test]
fn every_learner_has_one_hash_on_ranks_and_here() {
    for learner in LEARNERS {
        let fit = Fit::of(*learner, &[]);
        let on = |ranks: Option<&str>, workers: &str| {
            let arguments: Vec<&str> = fit.arguments.iter().map(String::as_str).collect();
            let words: Vec<&str> = arguments.into_iter().filter(|word| *word != "--json").collect();
            json(ranks, &[&words[..], &["--workers", workers]].concat())["hash"].clone()
        };
        assert_eq!(on(Some("3"), "mpi"), on(None, "local:2"), "{learner:?}");
    }
}
