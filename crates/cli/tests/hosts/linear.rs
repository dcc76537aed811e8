//! Learners on other hosts: one hash there and here, through kills; and what a tuner chose there by the clock can be followed
//! here.

use crate::learners::Fit;
use crate::support::{Host, command, ran, through_kills};
use qjam_algos::registry::LEARNERS;
use std::fmt::Write;
use std::path::PathBuf;

/// A file that goes away with the test.
struct File(PathBuf);

impl File {
    /// Rows of a few columns of many, and targets.
    fn write(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("qjam-hosts-{name}-{}.svm", std::process::id()));
        let mut state = 3_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / f64::from(1 << 24)
        };
        let mut text = String::new();
        for _ in 0..2_000 {
            write!(text, "{:.4}", random() - 0.5).unwrap();
            for column in 0..10 {
                write!(text, " {}:{:.4}", column * 300 + (random() * 299.0) as u32 + 1, random()).unwrap();
            }
            text.push('\n');
        }
        std::fs::write(&path, text).unwrap();
        File(path)
    }

    /// What a run on these workers says.
    fn run(&self, workers: &str, more: &str) -> serde_json::Value {
        let file = self.0.to_string_lossy().into_owned();
        let mut args = vec!["bench", "cocoa", &file, "--workers", workers, "--json", "--partitions", "3"];
        args.extend(more.split(' '));
        let ran = ran(&mut command(&args));
        ran.must_work();
        ran.json()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn linear_learners_have_one_hash_on_hosts_and_here_through_kills() {
    let (a, b) = (Host::take("a"), Host::take("b"));
    let file = File::write("hash");
    for penalty in ["--lambda 0.1 --eta 1", "--lambda 0.2 --eta 0"] {
        let given = format!("{penalty} --h 0.5 --sigma 2 --rounds 40 --tol 0");
        let expected = file.run("local:2", &given)["hash"].clone();
        assert_eq!(file.run("proc:2", &given)["hash"], expected, "{penalty}");
        assert_eq!(file.run("a*2,b", &given)["hash"], expected, "{penalty}");
        let slowly = format!("{given} --delay-ms 20");
        let found = through_kills(&[&a, &b], || file.run("a*2,b", &slowly));
        assert_eq!(found["hash"], expected, "{penalty}, through kills");
    }
}

#[test]
fn what_was_chosen_on_hosts_is_followed_here() {
    let (_c, _d) = (Host::take("c"), Host::take("d"));
    let file = File::write("choices");
    let log = file.0.with_extension("jsonl");
    let there = file
        .run("c,d", &format!("--lambda 0.1 --eta 1 --tol 1e-6 --tuning clock --choices {}", log.display()));
    let here = file.run("local:2", &format!("--lambda 0.1 --eta 1 --tol 1e-6 --replay {}", log.display()));
    let _ = std::fs::remove_file(&log);
    assert_eq!((&here["hash"], &here["rounds"]), (&there["hash"], &there["rounds"]));
}

#[test]
fn every_learner_has_one_hash_on_hosts_and_here() {
    let (_a, _b) = (Host::take("a"), Host::take("b"));
    for learner in LEARNERS {
        let fit = Fit::of(*learner, &[]);
        let on = |workers: &str| {
            let arguments: Vec<&str> = fit.arguments.iter().map(String::as_str).collect();
            let ran = ran(&mut command(&[&arguments[..], &["--workers", workers]].concat()));
            ran.must_work();
            ran.json()["hash"].clone()
        };
        assert_eq!(on("a*2,b"), on("local:2"), "{learner:?}");
    }
}
