//! `qjam bench cocoa`: one hash everywhere, choices that are told and followed, and calls that are wrong.

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

use qjam::runs::{self, Run};
use serde_json::Value;
use std::fmt::Write;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
    command.args(["bench", "cocoa"]).args(args).env("NO_COLOR", "1").env("QJAM_RUNS", "off");
    command
}

fn ran(args: &[&str]) -> Output {
    command(args).output().expect("the command starts")
}

/// What it prints for programs.
fn json(args: &[&str]) -> Value {
    let output = ran(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

/// What a call that must fail says, which is one line.
fn refused(args: &[&str]) -> String {
    let output = ran(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{args:?}: {said}");
    said
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-cocoa-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn with(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.file(name)
    }

    /// Rows of some columns of many, of which the first are met most, and targets that follow from a few.
    fn rows(&self, name: &str, rows: usize, columns: usize) -> String {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut text = String::new();
        for _ in 0..rows {
            let mut places: Vec<usize> =
                (0..12).map(|_| (random().powi(3) * columns as f64) as usize).collect();
            places.sort_unstable();
            places.dedup();
            let values: Vec<f64> = places.iter().map(|_| random() + 0.1).collect();
            let target: f64 =
                places.iter().zip(&values).filter(|(at, _)| **at % 5 == 0).map(|(_, v)| v).sum();
            let _ = write!(text, "{:.6}", target + 0.1 * random());
            for (at, v) in places.iter().zip(values) {
                let _ = write!(text, " {}:{v:.6}", at + 1);
            }
            text.push('\n');
        }
        self.with(name, text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn npy(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes].concat()
}

/// An archive of members that are not packed.
fn zip(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let (name, at) = (format!("{name}.npy"), (file.len() as u32).to_le_bytes());
        let (crc, length) = (crc32fast::hash(content).to_le_bytes(), (content.len() as u32).to_le_bytes());
        let name_length = (name.len() as u16).to_le_bytes();
        let about = [&[0, 0, 0, 0, 0, 0, 33, 0][..], &crc, &length, &length, &name_length, &[0, 0]].concat();
        file.extend([b"PK\x03\x04\x14\x00", &about[..], name.as_bytes(), content].concat());
        list.extend([b"PK\x01\x02\x14\x00\x14\x00", &about[..], &[0; 10], &at, name.as_bytes()].concat());
    }
    let [at, size] = [file.len(), list.len()].map(|n| (n as u32).to_le_bytes());
    let count = (members.len() as u16).to_le_bytes();
    let end = [b"PK\x05\x06\x00\x00\x00\x00", &count[..], &count, &size, &at, &[0, 0]].concat();
    [file, list, end].concat()
}

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn doubles(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_matrix_of_scipys_and_its_targets_are_read_and_the_optimum_is_found() {
    let folder = Folder::new("scipy");
    // 2 0 | 3
    // 0 1 | 1
    // 1 1 | 2, by columns.
    let matrix = |format: &str, starts: &[i32], places: &[i32], values: &[f64]| {
        let length = |n: usize| format!("({n},)");
        zip(&[
            ("indices", npy("<i4", &length(places.len()), &ints(places))),
            ("indptr", npy("<i4", &length(starts.len()), &ints(starts))),
            ("format", npy("|S3", "()", format.as_bytes())),
            (
                "shape",
                npy("<i8", "(2,)", &[3_i64, 2].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>()),
            ),
            ("data", npy("<f8", &length(values.len()), &doubles(values))),
        ])
    };
    let csc = folder.with("csc.npz", matrix("csc", &[0, 2, 4], &[0, 2, 1, 2], &[2.0, 1.0, 1.0, 1.0]));
    let csr = folder.with("csr.npz", matrix("csr", &[0, 1, 2, 4], &[0, 1, 1, 0], &[2.0, 1.0, 1.0, 1.0]));
    let b = folder.with("b.npy", npy("<f8", "(3,)", &doubles(&[3.0, 1.0, 2.0])));
    let a = folder.file("a.npy");
    for data in [&csc, &csr] {
        let given =
            [data.as_str(), "--labels", &b, "--lambda", "1", "--workers", "local:1", "--partitions", "2"];
        let said = json(&[&given[..], &["--eta", "1", "--tol", "1e-9", "--out", &a]].concat());
        let bytes = std::fs::read(&a).unwrap();
        let found: Vec<f64> =
            bytes[128..].chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        assert!((found[0] - 21.0 / 17.0).abs() < 1e-4 && (found[1] - 10.0 / 17.0).abs() < 1e-4, "{found:?}");
        for key in
            ["seconds", "rounds", "objective", "gap", "worker_s", "master_s", "overhead_s", "h", "sigma"]
        {
            assert!(said[key].is_number(), "{key}: {said}");
        }
        assert_eq!((&said["outcome"], &said["entries"]), (&"converged".into(), &4.into()), "{said}");
        // To a target, there is a gap as well.
        let target = format!("{}", said["objective"].as_f64().unwrap() * 1.01);
        let said = json(&[&given[..], &["--eta", "1", "--target", &target]].concat());
        assert_eq!(said["outcome"], "target reached");
        assert!(
            said["gap"].as_f64().unwrap() < 0.2
                && said["objective"].as_f64().unwrap() <= target.parse().unwrap()
        );
    }
    let refusals = [
        (matrix("bsr", &[0, 2, 4], &[0, 2, 1, 2], &[1.0; 4]), "format \"bsr\""),
        (matrix("csc", &[0, 2, 4], &[0, 2, 1, 3], &[1.0; 4]), "row 3, column 1, counted from 0"),
        (matrix("csc", &[0, 2, 5], &[0, 2, 1, 2], &[1.0; 4]), "do not increase"),
        (matrix("csc", &[0, 2, 4], &[0, 2, 1, 2], &[1.0, 1.0, f64::NAN, 1.0]), "row 2, column \"2\""),
    ];
    for (bytes, words) in refusals {
        let bad = folder.with("bad.npz", bytes);
        let said = refused(&[&bad, "--labels", &b, "--lambda", "1", "--eta", "1", "--workers", "local:1"]);
        assert!(said.contains(words) && said.contains("bad.npz"), "{words}: {said}");
    }
}

#[test]
fn fixed_work_has_one_hash_on_threads_and_processes_also_after_a_kill() {
    let folder = Folder::new("hash");
    let data = folder.rows("x.svm", 600, 900);
    for (lambda, eta) in [("0.1", "1"), ("0.5", "0"), ("0.2", "0.4")] {
        let given = ["--lambda", lambda, "--eta", eta, "--partitions", "3", "--h", "0.5", "--sigma", "2"];
        let given = [&[data.as_str()], &given[..], &["--rounds", "40", "--tol", "0"]].concat();
        let on = |workers: &str| json(&[&given[..], &["--workers", workers]].concat())["hash"].clone();
        let expected = on("local:1");
        assert_eq!(on("local:2"), expected, "η {eta}");
        assert_eq!(on("proc:2"), expected, "η {eta}");
        assert_eq!(on("proc:3"), expected, "η {eta}");
        let slowly = [&given[..], &["--workers", "proc:2", "--delay-ms", "15", "--json"]].concat();
        let runs = folder.0.join("runs");
        let mut run = command(&slowly).env("QJAM_RUNS", &runs).stdout(Stdio::piped()).spawn().unwrap();
        kill_one_of(&mut run, &runs);
        std::fs::remove_dir_all(&runs).unwrap();
        let output = run.wait_with_output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["hash"], expected, "η {eta}, after a kill");
    }
}

/// Kills a worker when some rounds are in the run's file.
fn kill_one_of(run: &mut Child, runs: &Path) {
    let rounds = || Some(Run::read(runs::list(runs).ok()?.first()?).ok()?.rounds);
    while rounds().unwrap_or(0) < 3 {
        assert!(run.try_wait().unwrap().is_none(), "it ended without rounds");
        std::thread::sleep(Duration::from_millis(1));
    }
    let tasks = std::fs::read_dir(format!("/proc/{0}/task", run.id())).into_iter().flatten().flatten();
    let children = |task: DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<String> = tasks
        .flat_map(|task| children(task).split_whitespace().map(String::from).collect::<Vec<_>>())
        .collect();
    // Rounds go on for long after the third; one that has ended all the same has had nobody killed.
    assert!(all.len() >= 2 || run.try_wait().unwrap().is_some(), "{all:?}");
    if let Some(pid) = all.get(1) {
        let _ = Command::new("kill").args(["-s", "KILL", pid]).status();
    }
}

#[test]
fn the_partitions_that_follow_from_the_data_and_the_hash_are_the_same_on_all_workers() {
    let folder = Folder::new("cut");
    // More than 2^18 entries: several partitions, without anybody saying so.
    let data = folder.rows("x.svm", 26_000, 3_000);
    for (lambda, eta) in [("1", "1"), ("0.5", "0")] {
        let given = [data.as_str(), "--lambda", lambda, "--eta", eta, "--rounds", "12", "--tol", "0"];
        let on = |workers: &str| json(&[&given[..], &["--workers", workers]].concat());
        let expected = on("local:1");
        assert!(expected["entries"].as_u64().unwrap() > 1 << 18, "{expected}");
        assert!(expected["partitions"].as_u64().unwrap() >= 2, "{expected}");
        for workers in ["local:1", "local:3", "proc:2"] {
            let found = on(workers);
            for key in ["hash", "partitions", "rounds", "choices"] {
                assert_eq!(found[key], expected[key], "η {eta}, {key} on {workers}");
            }
        }
    }
}

#[test]
fn choices_are_told_and_written_and_followed_to_the_same_bits() {
    let folder = Folder::new("choices");
    let (data, choices) = (folder.rows("x.svm", 2000, 3000), folder.file("choices.jsonl"));
    for (lambda, eta) in [("0.02", "1"), ("0.5", "0")] {
        let given = [data.as_str(), "--lambda", lambda, "--eta", eta, "--tol", "1e-7", "--partitions", "4"];
        // By the clock, so that no other run would make the same choices by itself.
        let told =
            ["--workers", "local:2", "--tuning", "clock", "--choices", &choices, "--explain", "--json"];
        let output = ran(&[&given[..], &told[..]].concat());
        let (said, explained): (Value, String) =
            (serde_json::from_slice(&output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let written = std::fs::read_to_string(&choices).unwrap();
        assert_eq!(written.lines().count() as u64, said["choices"].as_u64().unwrap());
        assert_eq!(
            explained.lines().filter(|line| line.contains("σ'")).count(),
            written.lines().count(),
            "{explained}"
        );
        assert!(
            explained.starts_with("[qjam] round 1: ") && explained.contains("to begin with"),
            "{explained}"
        );
        for workers in ["local:1", "proc:2"] {
            let again = json(&[&given[..], &["--workers", workers, "--replay", &choices]].concat());
            assert_eq!((&again["hash"], &again["rounds"]), (&said["hash"], &said["rounds"]), "{workers}");
        }
        // A file with one other choice is followed, too, by whatever clock there is: to other bits, the same everywhere.
        let (h, sigma) = (0.37_f64, 3.25_f64);
        let bits = [h, sigma].map(|number| format!("{:016x}", number.to_bits()));
        let one =
            serde_json::json!({ "round": 1, "work": h, "sigma": sigma, "reason": "edited", "bits": bits });
        std::fs::write(&choices, format!("{one}\n")).unwrap();
        let replayed = |workers: &str, tuning: &str| {
            json(&[&given[..], &["--workers", workers, "--tuning", tuning, "--replay", &choices]].concat())
        };
        let edited = replayed("local:1", "counted");
        assert_ne!(edited["hash"], said["hash"]);
        assert_eq!((&edited["h"], &edited["sigma"]), (&h.into(), &sigma.into()));
        for (workers, tuning) in [("local:2", "clock"), ("proc:2", "counted")] {
            let again = replayed(workers, tuning);
            assert_eq!((&again["hash"], &again["rounds"]), (&edited["hash"], &edited["rounds"]), "{workers}");
        }
        let other = json(&[&given[..], &["--workers", "local:1", "--h", "0.37", "--sigma", "3.25"]].concat());
        assert_eq!((&other["h"], &other["sigma"], &other["choices"]), (&h.into(), &sigma.into(), &1.into()));
    }
}

#[test]
fn work_chosen_by_the_clock_ends_with_the_same_certificate_as_work_that_is_counted() {
    let folder = Folder::new("certificate");
    let data = folder.rows("x.svm", 300, 200);
    for (lambda, eta) in [("0.5", "0"), ("0.05", "1")] {
        let given = ["--lambda", lambda, "--eta", eta, "--tol", "1e-6", "--workers", "local:2", "--tuning"];
        let [counted, clock] =
            ["counted", "clock"].map(|tuning| json(&[&[data.as_str()], &given[..], &[tuning]].concat()));
        for said in [&counted, &clock] {
            assert_eq!(said["outcome"], "converged", "{said}");
            let (objective, gap) = (said["objective"].as_f64().unwrap(), said["gap"].as_f64().unwrap());
            assert!(gap <= 1e-6 * objective.abs().max(1.0), "{said}");
        }
        // Each is within its gap of the same optimum.
        let [a, b] = [&counted, &clock].map(|said| said["objective"].as_f64().unwrap());
        let gaps = counted["gap"].as_f64().unwrap() + clock["gap"].as_f64().unwrap();
        assert!((a - b).abs() <= gaps, "{counted} {clock}");
    }
}

#[test]
fn every_way_to_combine_comes_to_the_same_optimum() {
    let folder = Folder::new("combine");
    let data = folder.rows("x.svm", 300, 200);
    let given = [data.as_str(), "--lambda", "0.5", "--eta", "0.5", "--tol", "1e-6", "--workers", "local:2"];
    let objectives: Vec<f64> = ["searched", "added", "averaged"]
        .iter()
        .map(|combine| {
            json(&[&given[..], &["--combine", combine, "--h", "1"]].concat())["objective"].as_f64().unwrap()
        })
        .collect();
    assert!(objectives.iter().all(|value| (value / objectives[0] - 1.0).abs() < 2e-6), "{objectives:?}");
}

#[test]
fn odd_data_is_taken_as_it_is() {
    let folder = Folder::new("odd");
    let given = ["--lambda", "0.1", "--eta", "1", "--workers", "local:2"];
    // Columns without an entry, and rows without one.
    let hollow = folder.with("hollow.svm", "1 2:1 9:2\n3\n-1 2:0.5\n2 9:1\n");
    let said = json(&[&[hollow.as_str()], &given[..]].concat());
    assert_eq!(
        (&said["outcome"], &said["columns"], &said["nonzero"]),
        (&"converged".into(), &9.into(), &2.into())
    );
    // More partitions than columns: fewer, and it is said.
    let output = ran(&[&[hollow.as_str(), "--partitions", "20"], &given[..]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("9 partitions instead of 20"));
    for (name, text) in [("zero.svm", "1 1:0 2:0\n2\n"), ("nothing.svm", "0 1:0 2:0\n0 1:0\n")] {
        for eta in ["1", "0"] {
            let zero = folder.with(name, text);
            let said = json(&[&zero, "--lambda", "1", "--workers", "local:1", "--eta", eta]);
            assert_eq!((&said["outcome"], &said["nonzero"]), (&"converged".into(), &0.into()), "{said}");
        }
    }
    // A target that no coefficients come to, and one that was not come to.
    let best = json(&[&[hollow.as_str(), "--tol", "1e-12"], &given[..]].concat())["objective"].to_string();
    for (target, words) in [("-5", "no coefficients come to the target of -5"), (&best, "was not reached")] {
        let output = ran(&[&[hollow.as_str(), "--target", target, "--rounds", "1"], &given[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(words), "{target}: {said}");
    }
    // A price that is next to nothing: what is left is the rounding of the products.
    let free = ["--lambda", "1e-300", "--eta", "0", "--workers", "local:2", "--rounds", "200"];
    let square = folder.with("square.svm", "1 1:0.3 2:7\n3 1:0.1 2:0.7\n0.2 3:0.3\n");
    assert!(json(&[&[square.as_str()], &free[..]].concat())["objective"].as_f64().unwrap() < 1e-20);
    // As many rounds as there are, and no error.
    let few = json(&[&[hollow.as_str(), "--rounds", "1", "--tol", "1e-12"], &given[..]].concat());
    assert_eq!((&few["outcome"], &few["rounds"]), (&"rounds used up".into(), &1.into()));
}

#[test]
fn wrong_calls_say_what_is_wrong_and_what_to_do() {
    let folder = Folder::new("wrong");
    let x = folder.with("x.svm", "1 1:1 3:2\n2 2:1\n");
    let b3 = folder.with("b3.npy", npy("<f8", "(3,)", &doubles(&[1.0, 2.0, 3.0])));
    let nan = folder.with("nan.npy", npy("<f8", "(2,)", &doubles(&[1.0, f64::NAN])));
    let dense = folder.with("x.npy", npy("<f8", "(2, 2)", &doubles(&[1.0, 2.0, 3.0, 4.0])));
    let holes = folder.with("holes.npy", npy("<f8", "(2, 2)", &doubles(&[1.0, 2.0, f64::NAN, 4.0])));
    let b2 = folder.with("b2.npy", npy("<f8", "(2,)", &doubles(&[1.0, 2.0])));
    let log = folder.with("log.jsonl", "{\"round\":1,\"work\":1}\n");
    let none = folder.file("none.svm");
    let huge = folder.with("huge.npy", npy("<f8", "(2, 2)", &doubles(&[1.0, 2.0, 3.0, -1e80])));
    let member = |name: &'static str| (name, npy("<f8", "(2, 2)", &doubles(&[1.0; 4])));
    let several = folder.with("several.npz", zip(&[member("a.npy"), member("b.npy")]));
    let usual = ["--lambda", "1", "--eta", "1", "--workers", "local:1"];
    for (data, more, words) in [
        (
            &x,
            &["--lambda", "0", "--eta", "1", "--workers", "local:1"][..],
            &["--lambda", "λ is 0", "positive"][..],
        ),
        (&x, &["--lambda", "-2", "--eta", "1", "--workers", "local:1"], &["λ is -2", "positive"]),
        (&x, &["--lambda", "nan", "--eta", "1", "--workers", "local:1"], &["λ is NaN"]),
        (
            &x,
            &["--lambda", "1", "--eta", "1.5", "--workers", "local:1"],
            &["η is 1.5", "0 (lasso) to 1 (ridge)"],
        ),
        (&x, &["--lambda", "1", "--eta", "-0.1", "--workers", "local:1"], &["η is -0.1"]),
        (&none, &usual, &["none.svm"]),
        (&dense, &usual, &["x.npy", "no targets", "--labels"]),
        (&x, &[&usual[..], &["--labels", &b3]].concat(), &["b3.npy", "3 numbers for the 2 rows"]),
        (
            &x,
            &[&usual[..], &["--labels", &nan]].concat(),
            &["nan.npy", "row 1 (counted from 0) is NaN", "finite"],
        ),
        (&x, &[&usual[..], &["--labels", &dense]].concat(), &["2 columns", "one number for each row"]),
        (&holes, &[&usual[..], &["--labels", &b2]].concat(), &["holes.npy", "row 1, column 0", "NaN"]),
        (&x, &[&usual[..], &["--h", "0"]].concat(), &["0 passes", "positive"]),
        (&x, &[&usual[..], &["--sigma", "0.5"]].concat(), &["σ' is 0.5", "from 1"]),
        (
            &x,
            &[&usual[..], &["--sigma", "9", "--partitions", "2"]].concat(),
            &["--sigma is 9", "2 partitions"],
        ),
        (&x, &[&usual[..], &["--tol", "-1"]].concat(), &["tolerance is -1"]),
        (&x, &[&usual[..], &["--target", "nan"]].concat(), &["--target", "finite"]),
        (&x, &[&usual[..], &["--replay", &log]].concat(), &["log.jsonl, line 1", "--choices wrote"]),
        (&x, &[&usual[..], &["--out", "/nowhere/a.npy"]].concat(), &["/nowhere/a.npy", "cannot be written"]),
        (
            &x,
            &[&usual[..], &["--choices", "/nowhere/c"]].concat(),
            &["--choices /nowhere/c", "cannot be written"],
        ),
        (
            &several,
            &[&usual[..], &["--labels", &b2]].concat(),
            &["several.npz", "no single matrix", "save_npz"],
        ),
        (&huge, &[&usual[..], &["--labels", &b2]].concat(), &["column 1", "beyond 1e70", "divide"]),
        (&x, &["--lambda", "1", "--eta", "1", "--workers", "local:0"], &["local:0"]),
    ] {
        let said = refused(&[&[data.as_str()], more].concat());
        for words in words {
            assert!(said.contains(words), "{data} {more:?}: {words:?} is missing from {said}");
        }
    }
    for (text, words) in [
        ("1 3:1 2:1\n", &["line 1, column 7", "must increase"][..]),
        ("1 1:1\n1 2:1 2:1\n", &["line 2, column 7", "must increase"]),
        ("1 1:nan\n", &["line 1, column 5", "not finite"]),
        ("nan 1:1\n", &["line 1, column 1", "not finite"]),
        ("", &["empty"]),
    ] {
        let said = refused(&[&[folder.with("bad.svm", text).as_str()], &usual[..]].concat());
        for words in words {
            assert!(said.contains(words), "{text:?}: {words:?} is missing from {said}");
        }
    }
    let mixed = ran(&[&[x.as_str(), "--h", "1", "--replay", &log], &usual[..]].concat());
    assert_eq!(mixed.status.code(), Some(2), "{}", String::from_utf8_lossy(&mixed.stderr));
    let late = ran(&[&[x.as_str(), "--delay-ms", "-1"], &usual[..]].concat());
    assert!(String::from_utf8_lossy(&late.stderr).contains("from 0 to 60000"), "{late:?}");
    let nowhere = ran(&[&x, "--lambda", "1", "--eta", "1"]);
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("--workers"));
}
