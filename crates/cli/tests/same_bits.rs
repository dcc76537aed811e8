//! Every learner of the registry, as the command runs it: one hash in every run, on every kind of worker of this machine, after
//! `kill -9` and a resume, and in a replay. Hosts and ranks are in `hosts/linear.rs` and `ranks.rs`.

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

mod learners;

use learners::{Fit, options};
use qjam::runs::{self, Run, State};
use qjam_algos::registry::LEARNERS;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

impl Fit {
    fn runs(&self) -> PathBuf {
        self.folder.path("runs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
        command.args(arguments).env("NO_COLOR", "1").env("QJAM_RUNS", self.runs());
        // All values are kept, so that a resumed run could take each of them.
        command.env("QJAM_RECORD_COST", "inf").stdin(Stdio::null());
        command
    }

    fn on(&self, workers: &str) -> Command {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.command(&[&arguments[..], &["--workers", workers]].concat())
    }

    /// The model's hash after a fit on these workers.
    fn hash(&self, workers: &str) -> String {
        hash(&self.on(workers).output().unwrap())
    }

    /// The file of the last run.
    fn last_run(&self) -> Option<PathBuf> {
        runs::list(&self.runs()).unwrap_or_default().pop()
    }

    /// Runs the fit and kills the command without warning when some rounds are over.
    fn killed(&self, workers: &str) -> Run {
        for attempt in 0..100 {
            let _ = std::fs::remove_dir_all(self.runs());
            let mut child = self.on(workers).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // A learner of a single round is killed in it or before.
            let rounds = if attempt < 50 { 2 } else { 0 };
            let has_begun = || {
                let run = self.last_run().and_then(|path| Run::read(&path).ok());
                run.is_some_and(|run| run.rounds >= rounds)
            };
            while !has_begun() && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let run = Run::read(&self.last_run().unwrap()).unwrap();
            if run.state == State::Killed {
                return run;
            }
        }
        panic!("{:?} was always over before it could be killed", self.arguments);
    }

    /// Cuts the file of the last run in the middle, or further on where no round would be left: the rounds that are.
    fn cut_in_the_middle(&self) -> Vec<runs::Round> {
        let whole = std::fs::read(self.last_run().unwrap()).unwrap();
        for share in [0.5, 0.6, 0.7, 0.8, 0.9, 0.99] {
            let path = self.last_run().unwrap();
            std::fs::write(&path, &whole).unwrap();
            cut(&path, share);
            let rounds = Run::rounds(&path).unwrap_or_default();
            let finished: Vec<_> = rounds.into_iter().filter(|round| round.report.is_some()).collect();
            if !finished.is_empty() {
                return finished;
            }
        }
        panic!("{:?} has no round that ended before its run", self.arguments);
    }

    fn resumed(&self) -> Output {
        self.command(&["resume", "last"]).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn hash(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    let told: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(output)));
    told["hash"].as_str().unwrap().to_owned()
}

/// Cuts the file of a run to this share of its length: what is left when its writer was killed there.
fn cut(path: &Path, share: f64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len((length as f64 * share) as u64).unwrap();
}

/// Cuts the record of its end from the file of a run. The program's hash may come after that record.
fn cut_the_end(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    while Run::read(path).unwrap().state == State::Finished {
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    }
}

#[test]
fn every_learner_has_one_hash_on_all_workers_and_in_three_runs() {
    for learner in LEARNERS {
        let fit = Fit::of(*learner, &[]);
        let expected = fit.hash("local:1");
        for workers in ["local:1", "local:1", "local:2", "proc:2", "proc:3*2", "auto:local:2", "auto:proc:2"]
        {
            assert_eq!(fit.hash(workers), expected, "{learner:?} on {workers}");
        }
    }
}

#[test]
fn a_fit_behind_a_scaling_has_one_hash_and_is_resumed_and_replayed() {
    let kmeans = LEARNERS.iter().find(|learner| learner.table().name == "kmeans").unwrap();
    let plain = Fit::of(*kmeans, &[]).hash("local:2");
    for flag in ["--standardize", "--minmax"] {
        let fit = Fit::of(*kmeans, &[flag]);
        let expected = fit.hash("local:1");
        assert_ne!(expected, plain);
        for workers in ["local:2", "proc:2", "auto:proc:2"] {
            assert_eq!(fit.hash(workers), expected, "{flag} on {workers}");
        }
        let killed = fit.killed("proc:2");
        assert_eq!(hash(&fit.resumed()), expected, "{flag}, killed after {} rounds", killed.rounds);
        let replayed = fit.command(&["replay", "last"]).output().unwrap();
        assert!(replayed.status.success() && said(&replayed).contains("equal"), "{}", said(&replayed));
    }
}

#[test]
fn linear_models_have_one_hash_also_where_the_cut_follows_from_the_data() {
    let is_linear = |name| options(name).contains(&"--partitions");
    for learner in LEARNERS.iter().filter(|learner| is_linear(learner.table().name)) {
        let fit = Fit::of_many_rows(*learner);
        let told = |workers: &str| {
            let output = fit.on(workers).output().unwrap();
            let told: Value =
                serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
            (hash(&output), told["partitions"].clone())
        };
        let expected = told("local:1");
        // The rows of a support vector machine are one partition up to 2^25 entries.
        let partitions = if learner.table().name == "svm" { 1 } else { 2 };
        assert_eq!(expected.1.as_u64(), Some(partitions), "{learner:?}");
        for workers in ["local:1", "local:3", "proc:2"] {
            assert_eq!(told(workers), expected, "{learner:?} on {workers}");
        }
    }
}

#[test]
fn every_learner_has_the_same_hash_when_a_killed_run_is_resumed_and_when_it_is_replayed() {
    for learner in LEARNERS {
        let fit = Fit::of(*learner, &[]);
        let expected = fit.hash("local:2");
        let killed = fit.killed("proc:2");
        let resumed = fit.resumed();
        assert_eq!(hash(&resumed), expected, "{learner:?}, killed after {} rounds", killed.rounds);
        assert!(!said(&resumed).contains("is not that of run"), "{learner:?}: {}", said(&resumed));
        // What the second run took from the first is what the first had finished and written.
        let run = Run::read(&fit.last_run().unwrap()).unwrap();
        assert_eq!((run.state, run.recalled), (State::Finished, killed.rounds), "{learner:?}");
        let replayed = fit.command(&["replay", "last"]).output().unwrap();
        assert!(replayed.status.success() && said(&replayed).contains("equal"), "{}", said(&replayed));
        for share in [0.3, 0.6, 0.9] {
            let _ = std::fs::remove_dir_all(fit.runs());
            assert_eq!(fit.hash("local:2"), expected);
            cut(&fit.last_run().unwrap(), share);
            assert_eq!(hash(&fit.resumed()), expected, "{learner:?}, cut to {share}");
        }
    }
}

#[test]
fn choices_by_the_clock_are_followed_by_a_resumed_and_a_replayed_run() {
    for learner in LEARNERS.iter().filter(|learner| options(learner.table().name).contains(&"cocoa")) {
        let fit = Fit::of(*learner, &["--tuning", "clock"]);
        let chosen = fit.hash("local:2");
        let first = fit.last_run().unwrap();
        assert!(Run::read(&first).unwrap().observed > 0, "{learner:?} measured nothing");
        let replayed = fit.command(&["replay", "last"]).output().unwrap();
        assert!(replayed.status.success() && said(&replayed).contains("equal"), "{}", said(&replayed));
        // All but the record of its end: nothing is left to choose.
        cut_the_end(&first);
        assert_eq!(hash(&fit.resumed()), chosen, "{learner:?}");
        // A part of it, with one finished round or more: as far as it was recorded it does the same, and then it chooses
        // by itself.
        let _ = std::fs::remove_dir_all(fit.runs());
        hash(&fit.on("local:2").output().unwrap());
        let recorded = fit.cut_in_the_middle();
        hash(&fit.resumed());
        let after = Run::rounds(&fit.last_run().unwrap()).unwrap();
        for (old, new) in recorded.iter().zip(&after) {
            let of = |round: &runs::Round| (round.round, round.params.clone(), round.result.clone());
            assert_eq!(of(old), of(new), "{learner:?}, round {}", old.round);
        }
    }
}

#[test]
fn a_model_fitted_by_the_clock_has_its_choices_and_others_have_none() {
    let ridge = LEARNERS.iter().find(|learner| learner.table().name == "ridge").unwrap();
    for (more, has) in [(&["--tuning", "clock"][..], true), (&[], false)] {
        let fit = Fit::of(*ridge, more);
        fit.hash("local:2");
        let model = fit.folder.path("model").to_string_lossy().into_owned();
        let told = said(&fit.command(&["inspect", &model, "--json"]).output().unwrap());
        assert_eq!(told.contains("round 1: h 0.5 sigma 1"), has, "{told}");
    }
}
