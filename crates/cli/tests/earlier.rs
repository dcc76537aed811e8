//! Files that the first builds of version 0.1.0 wrote: models answer as they did then, and runs can be looked at.
//!
//! `earlier/` has a model of each learner there was, its answers about `x.csv` (the autoencoder's: `unit.csv`) as that build wrote them,
//! and a run file. None of them is ever written again; a new format gets new files beside these.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn earlier(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/earlier").join(name)
}

fn qjam(args: &[&Path]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_qjam")).args(args).env("NO_COLOR", "1").output();
    let output = output.expect("the command starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn models_of_earlier_builds_answer_as_they_did() {
    let folder = std::env::temp_dir().join(format!("qjam-cli-earlier-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let learners = [
        ("kmeans", "x.csv"),
        ("minibatch-kmeans", "x.csv"),
        ("ridge", "x.csv"),
        ("lasso", "x.csv"),
        ("elasticnet", "x.csv"),
        ("logistic", "x.csv"),
        ("svm", "x.csv"),
        ("autoencoder", "unit.csv"),
    ];
    for (learner, rows) in learners {
        let (model, answers) = (earlier(&format!("{learner}.model")), folder.join("answers.npy"));
        qjam(&["predict".as_ref(), &model, &earlier(rows), "--out".as_ref(), &answers]);
        let before = std::fs::read(earlier(&format!("{learner}.npy"))).unwrap();
        assert_eq!(std::fs::read(&answers).unwrap(), before, "{learner}");
        let shown = String::from_utf8(qjam(&["inspect".as_ref(), &model]).stdout).unwrap();
        assert!(shown.contains("version 1"), "{learner}: {shown}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn runs_of_earlier_builds_are_shown() {
    let shown = String::from_utf8(qjam(&["show".as_ref(), &earlier("kmeans.run")]).stdout).unwrap();
    for wanted in
        ["finished", "fit kmeans x.csv --k 2", "8 rounds finished", "clustering::kmeans::lloyd::assign"]
    {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}
