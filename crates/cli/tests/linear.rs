//! Linear learners from files, as people meet them: fit, predict, inspect; every kind of file; and calls that are wrong.

#![allow(clippy::unwrap_used, reason = "all of this is test: what is not there should end it")]

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn qjam(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
    command.args(args).env("NO_COLOR", "1").env("QJAM_RUNS", "off").output().expect("the command starts")
}

fn out(args: &[&str]) -> String {
    let output = qjam(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn json(args: &[&str]) -> Value {
    let said = out(&[args, &["--json"]].concat());
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"))
}

/// What a call that must fail says, which is one line.
fn refused(args: &[&str]) -> String {
    let output = qjam(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{args:?}: {said}");
    said
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("qjam-linear-{}-{name}", std::process::id()));
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
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn npy(shape: &str, values: &[f64]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    npy_of("<f8", shape, &bytes)
}

fn npy_of(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes].concat()
}

/// Homes of some size and some rooms; the price is 3 for the size and −2 for a room, and 10.
fn home(i: usize) -> (f64, f64, f64) {
    let (size, rooms) = ((i * 7 % 13) as f64 * 0.5, (i * 5 % 7) as f64);
    (size, rooms, 3.0 * size - 2.0 * rooms + 10.0)
}

fn homes(n: usize) -> String {
    let line = |i| {
        let (size, rooms, price) = home(i);
        format!("{size},{price},{rooms},{}\n", if i % 5 == 0 { 3 } else { 1 })
    };
    (0..n).fold("size,price,rooms,count\n".into(), |all, i| all + &line(i))
}

fn numbers(text: &str) -> Vec<f64> {
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_regression_is_fitted_to_a_table_inspected_and_asked() {
    let folder = Folder::new("table");
    let (csv, model) = (folder.with("homes.csv", homes(200)), folder.file("homes.model"));
    for learner in ["ridge", "lasso", "elasticnet"] {
        let fit = [
            "fit",
            learner,
            &csv,
            "--target",
            "price",
            "--without",
            "count",
            "--alpha",
            "1e-7",
            "--out",
            &model,
        ];
        let said = json(&fit);
        assert_eq!(
            (&said["converged"], &said["rows"], &said["columns"]),
            (&true.into(), &200.into(), &2.into())
        );
        assert!(said["gap"].as_f64().unwrap() >= 0.0 && said["objective"].is_number(), "{said}");
        // Columns are found by their names, in whatever order they come.
        let other = folder.with("other.csv", "rooms,size\n1,2\n0,4\n");
        let values = numbers(&out(&["predict", &model, &other]));
        assert!((values[0] - 14.0).abs() < 1e-4 && (values[1] - 22.0).abs() < 1e-4, "{learner}: {values:?}");
        let said = out(&fit);
        for words in [
            &format!("{learner}: 2 columns"),
            "converged after",
            "above the best one by at most",
            "intercept 9.99",
            "Next: qjam predict",
        ] {
            assert!(
                said.contains(words) || (words.starts_with("intercept") && said.contains("intercept 10.0")),
                "{words:?} is missing from {said}"
            );
        }
    }
    let said = out(&["inspect", &model]);
    for words in ["kind linear", "size, rooms", "--alpha 1e-7", "--max-rounds 10000", "--tol 1e-4"] {
        assert!(said.contains(words), "{words:?} is missing from {said}");
    }
    let said = json(&["inspect", &model]);
    assert_eq!(
        (&said["fitted"]["converged"], &said["columns"][1]),
        (&true.into(), &"rooms".into()),
        "{said}"
    );
    let (npy, text) = (folder.file("values.npy"), folder.file("values.csv"));
    assert!(out(&["predict", &model, &csv, "--out", &npy]).contains("200 values in"));
    assert_eq!(std::fs::metadata(&npy).unwrap().len(), 128 + 8 * 200);
    out(&["predict", &model, &csv, "--out", &text]);
    assert_eq!(numbers(&std::fs::read_to_string(&text).unwrap()).len(), 200);
}

#[test]
fn the_same_model_is_learnt_from_every_kind_of_file() {
    let folder = Folder::new("kinds");
    let rows: Vec<(f64, f64, f64)> = (0..60).map(home).collect();
    let x: Vec<f64> = rows.iter().flat_map(|(size, rooms, _)| [*size, *rooms]).collect();
    let y: Vec<f64> = rows.iter().map(|(.., price)| *price).collect();
    let labels = folder.with("y.npy", npy("(60,)", &y));
    let text = folder.with("y.txt", y.iter().fold(String::new(), |all, y| all + &format!("{y}\n")));
    let svm = rows.iter().fold(String::new(), |mut all, (size, rooms, price)| {
        let _ = writeln!(all, "{price} 1:{size} 2:{rooms}");
        all
    });
    let bare = rows
        .iter()
        .fold(String::new(), |all, (size, rooms, price)| all + &format!("{price};{size};{rooms}\n"));
    let model = folder.file("model");
    let mut hashes = Vec::new();
    for (data, more) in [
        (folder.with("x.npy", npy("(60, 2)", &x)), &["--labels", &labels][..]),
        (folder.with("x2.npy", npy("(60, 2)", &x)), &["--labels", &text]),
        (folder.with("x.svm", svm), &[]),
        (folder.with("homes.csv", homes(60)), &["--target", "price", "--columns", "size,rooms"]),
        (folder.with("bare.csv", bare), &["--target", "1"]),
    ] {
        let said = json(
            &[&["fit", "ridge", &data, "--alpha", "0.5", "--tol", "1e-12", "--out", &model], more].concat(),
        );
        assert_eq!(said["converged"], true, "{data}: {said}");
        hashes.push((said["hash"].clone(), data.ends_with(".svm")));
        let values = numbers(&out(&["predict", &model, &data]));
        assert!((values[7] - y[7]).abs() < 0.2, "{data}: {values:?}");
    }
    // Dense rows are the same numbers to the learner, whatever file they are from.
    let dense: Vec<&Value> = hashes.iter().filter(|(_, sparse)| !sparse).map(|(hash, _)| hash).collect();
    assert!(dense.iter().all(|hash| *hash == dense[0]), "{hashes:?}");
}

#[test]
fn weights_count_as_repeated_rows() {
    let folder = Folder::new("weights");
    let (once, model) = (folder.with("once.csv", homes(50).replace(",10,", ",11,")), folder.file("model"));
    let text = std::fs::read_to_string(&once).unwrap();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let repeated = lines.fold(format!("{head}\n"), |all, line| {
        let count: usize = line.rsplit(',').next().unwrap().parse().unwrap();
        all + &format!("{line}\n").repeat(count)
    });
    let repeated = folder.with("repeated.csv", repeated);
    let values = |data: &str, more: &[&str]| {
        let fit =
            ["fit", "ridge", data, "--target", "price", "--alpha", "3", "--tol", "1e-12", "--out", &model];
        let said = json(&[&fit[..], more].concat());
        (said["columns"].clone(), numbers(&out(&["predict", &model, &once])))
    };
    let (columns, weighted) = values(&once, &["--weights", "count"]);
    assert_eq!(columns, 2);
    let (_, repeated) = values(&repeated, &["--without", "count"]);
    let (_, plain) = values(&once, &["--without", "count"]);
    let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far(&weighted, &repeated) < 1e-8, "{weighted:?} {repeated:?}");
    assert!(far(&weighted, &plain) > 1e-4);
}

/// Two columns and a class: which side of a line, and for class 3 far away from it.
fn classes(n: usize, three: bool) -> String {
    let line = |i: usize| {
        let (a, b) = ((i * 7 % 11) as f64 - 5.0, (i * 3 % 13) as f64 - 6.0);
        let class = if three && a + b > 5.0 { 3 } else { usize::from(a - b > 0.5) + 1 };
        format!("{class} 1:{a} 2:{b}\n")
    };
    (0..n).map(line).collect()
}

#[test]
fn classifiers_tell_classes_apart_and_say_how_sure_they_are() {
    let folder = Folder::new("classes");
    let (model, file) = (folder.file("model"), folder.file("p.csv"));
    for (learner, three) in [("logistic", false), ("logistic", true), ("svm", false), ("svm", true)] {
        let text = classes(200, three);
        let data = folder.with("x.svm", &text);
        let said = json(&["fit", learner, &data, "--c", "10", "--out", &model, "--workers", "local:2"]);
        assert_eq!(said["classes"], if three { 3 } else { 2 }, "{learner}: {said}");
        let truth: Vec<f64> =
            text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        let found = numbers(&out(&["predict", &model, &data]));
        let right = truth.iter().zip(&found).filter(|(a, b)| a == b).count();
        assert!(right >= if three { 160 } else { 195 }, "{learner}, {three}: {right} of 200");
        out(&["predict", &model, &data, "--decisions", "--out", &file]);
        let width = std::fs::read_to_string(&file).unwrap().lines().next().unwrap().split(',').count();
        assert_eq!(width, if three { 3 } else { 1 });
        if learner == "svm" {
            assert!(
                refused(&["predict", &model, &data, "--probabilities"])
                    .contains("svm knows no probabilities")
            );
            continue;
        }
        out(&["predict", &model, &data, "--probabilities", "--out", &file]);
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let sum: f64 = line.split(',').map(|p| p.parse::<f64>().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{line}");
        }
    }
    // Together, chances follow from all decisions of a row; apart, each from its own.
    let data = folder.with("x.svm", classes(200, true));
    let cells = |what: &str| {
        out(&["predict", &model, &data, what, "--out", &file]);
        let text = std::fs::read_to_string(&file).unwrap();
        let line = text.lines().next().unwrap().to_string();
        line.split(',').map(|cell| cell.parse::<f64>().unwrap()).collect::<Vec<f64>>()
    };
    for (how, chance) in [("softmax", f64::exp as fn(f64) -> f64), ("ovr", |d| 1.0 / (1.0 + (-d).exp()))] {
        let said = json(&["fit", "logistic", &data, "--multi-class", how, "--out", &model]);
        assert_eq!((&said["converged"], &said["solver"]), (&true.into(), &"direct".into()), "{said}");
        let (chances, decisions) = (cells("--probabilities"), cells("--decisions"));
        let all: f64 = decisions.iter().map(|d| chance(*d)).sum();
        for (found, decision) in chances.iter().zip(decisions) {
            assert!((found - chance(decision) / all).abs() < 1e-12, "{how}: {found}");
        }
        assert!(out(&["inspect", &model]).contains(&format!("--multi-class {how}")));
    }
    let said = refused(&["fit", "logistic", &data, "--solver", "cocoa", "--out", &model]);
    assert!(
        said.contains("cocoa tells one class from the rest") && said.contains("--multi-class ovr"),
        "{said}"
    );
    // A file that lacks the last columns is read as wide as the model is.
    let narrow = folder.with("narrow.svm", "1 1:-5\n2 1:5\n");
    assert_eq!(numbers(&out(&["predict", &model, &narrow])).len(), 2);
    assert!(refused(&["predict", &model, &folder.with("wide.svm", "1 9:1\n")]).contains("line 1"));
}

#[test]
fn one_model_on_threads_and_processes_when_the_work_is_given() {
    let folder = Folder::new("hash");
    let model = folder.file("model");
    let text = (0..400).fold(String::new(), |mut all, i: usize| {
        let _ = write!(all, "{}", if i.is_multiple_of(3) { 1 } else { -1 });
        for k in 0..6 {
            let (column, value) = (k * 60 + i * (k + 3) % 59 + 1, (i * (k + 1) % 17) as f64 * 0.1 + 0.1);
            let _ = write!(all, " {column}:{value}");
        }
        all + "\n"
    });
    let data = folder.with("x.svm", text);
    for (learner, more) in [
        ("ridge", &["--alpha", "1"][..]),
        ("lasso", &["--alpha", "0.001"]),
        ("elasticnet", &["--alpha", "0.001"]),
        ("logistic", &["--penalty", "l1"]),
        ("logistic", &[]),
        ("svm", &["--loss", "hinge"]),
        ("svm", &["--no-intercept"]),
    ] {
        let hash = |workers: &str| {
            let fixed = [
                "--solver",
                "cocoa",
                "--h",
                "0.5",
                "--sigma",
                "2",
                "--partitions",
                "3",
                "--max-rounds",
                "40",
            ];
            let fit = ["fit", learner, &data, "--workers", workers, "--out", &model];
            json(&[&fit[..], &fixed, more].concat())["hash"].clone()
        };
        let expected = hash("local:1");
        assert_eq!(hash("local:2"), expected, "{learner} {more:?}");
        assert_eq!(hash("proc:2"), expected, "{learner} {more:?}");
    }
}

#[test]
fn what_was_chosen_is_explained() {
    let folder = Folder::new("explain");
    let (csv, model) = (folder.with("homes.csv", homes(100)), folder.file("model"));
    let fit = ["fit", "ridge", &csv, "--target", "price", "--out", &model, "--explain"];
    let few = qjam(&fit);
    assert!(String::from_utf8_lossy(&few.stderr).contains("[qjam] solver direct: 3 columns are few"));
    let many = qjam(&[&fit[..], &["--solver", "cocoa"]].concat());
    let said = String::from_utf8_lossy(&many.stderr);
    assert!(said.contains("solver cocoa: it was asked for") && said.contains("[qjam] round 1: "), "{said}");
    let parts = qjam(&[&fit[..], &["--solver", "cocoa", "--partitions", "50"]].concat());
    assert!(
        String::from_utf8_lossy(&parts.stderr).contains("50"),
        "{}",
        String::from_utf8_lossy(&parts.stderr)
    );
    let hasty = qjam(&[&fit[..], &["--solver", "cocoa", "--tol", "0", "--max-rounds", "1"]].concat());
    assert!(hasty.status.success() && String::from_utf8_lossy(&hasty.stderr).contains("--max-rounds"));
}

#[test]
fn wrong_calls_say_what_is_wrong_and_what_to_type() {
    let folder = Folder::new("wrong");
    let (csv, model) = (folder.with("homes.csv", homes(20)), folder.file("model"));
    let x = folder.with("x.npy", npy("(3, 2)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let holes = folder.with("holes.npy", npy("(3, 2)", &[1.0, 2.0, 3.0, f64::NAN, 5.0, 6.0]));
    let y = folder.with("y.npy", npy("(3,)", &[1.0, 2.0, 3.0]));
    let short = folder.with("short.npy", npy("(2,)", &[1.0, 2.0]));
    let nan = folder.with("nan.npy", npy("(3,)", &[1.0, f64::NAN, 3.0]));
    let ones = folder.with("ones.svm", "1 1:2\n1 2:1\n");
    let words_csv = folder.with("words.csv", "a,kind\n1,cat\n2,dog\n");
    let empty = folder.with("only.csv", "price\n1\n2\n");
    let none = folder.with("none.npy", npy("(0,)", &[]));
    let texts = folder.with("texts.npy", npy_of("|S3", "(3,)", b"catdogcat"));
    let halves = folder.with("halves.npy", npy("(3,)", &[1.0, 2.5, 3.0]));
    let huge = folder.with("huge.npy", npy("(3, 2)", &[1.0, 2.0, 3.0, 4e200, 5.0, 6.0]));
    let y_ones = folder.with("y-ones.npy", npy("(3,)", &[0.0, 1.0, 1.0]));
    for (learner, data, more, words) in [
        ("ridge", &csv, &[][..], &["homes.csv", "which column", "--target NAME"][..]),
        ("ridge", &csv, &["--target", "cost"], &["no column \"cost\"", "\"price\""]),
        ("ridge", &csv, &["--target", "price", "--labels", &y], &["--target price and --labels", "give one"]),
        ("ridge", &csv, &["--target", "price", "--weights", "w"], &["no column \"w\" of weights", "rooms"]),
        ("ridge", &empty, &["--target", "price"], &["only.csv", "nothing to learn from"]),
        ("ridge", &x, &[], &["x.npy", "--labels FILE.npy"]),
        ("ridge", &x, &["--labels", &short], &["short.npy", "2 numbers for the 3 rows"]),
        ("ridge", &x, &["--labels", &nan], &["nan.npy", "row 1 (counted from 0) is NaN"]),
        ("ridge", &x, &["--labels", &x], &["2 columns", "one number for each row"]),
        ("ridge", &x, &["--labels", "none.npy"], &["--labels none.npy cannot be read"]),
        ("ridge", &x, &["--labels", &y, "--weights", &short], &["--weights", "2 numbers for the 3 rows"]),
        (
            "ridge",
            &holes,
            &["--labels", &y],
            &["holes.npy", "row 1, column 1 (counted from 0) is NaN", "--missing drop"],
        ),
        (
            "lasso",
            &folder.with("gap.csv", "a,b\n1,2\n,3\n"),
            &["--target", "b"],
            &["line 3", "\"a\" is missing", "--missing mean"],
        ),
        (
            "lasso",
            &folder.with("inf.csv", "a,b\n1,2\ninf,3\n"),
            &["--target", "b"],
            &["line 3, column 1", "not finite"],
        ),
        ("svm", &words_csv, &["--target", "kind"], &["line 2", "\"cat\"", "write classes as 0, 1, 2"]),
        ("ridge", &x, &["--labels", &none], &["--labels", "none.npy", "no rows"]),
        ("logistic", &x, &["--labels", &texts], &["texts.npy", "texts (|S3)", "numpy.unique"]),
        ("logistic", &x, &["--labels", &halves], &["row 1 (counted from 0) is 2.5", "ridge, lasso"]),
        ("svm", &x, &["--labels", &halves], &["svm tells classes apart", "whole numbers"]),
        ("ridge", &holes, &["--labels", &y, "--missing", "drop"], &["leaves out 1 row", "--missing mean"]),
        ("ridge", &huge, &["--labels", &y], &["column 1 (counted from 0)", "beyond 1e70", "divide"]),
        ("lasso", &huge, &["--labels", &y, "--solver", "cocoa"], &["column 1", "beyond 1e70"]),
        ("logistic", &huge, &["--labels", &y_ones], &["column 1", "beyond 1e70"]),
        ("svm", &huge, &["--labels", &y_ones, "--solver", "cocoa"], &["column 1", "beyond 1e70"]),
        ("svm", &folder.with("bare.svm", "1:2 2:3\n"), &[], &["line 1, column 1", "has no label"]),
        ("svm", &folder.with("cats.svm", "cat 1:2\n"), &[], &["\"cat\"", "write classes as 0, 1, 2"]),
        ("svm", &ones, &[], &["ones.svm", "all rows are of class 1", "two classes"]),
        ("logistic", &ones, &[], &["ones.svm", "all rows are of class 1"]),
        ("ridge", &folder.with("falling.svm", "1 3:1 2:1\n"), &[], &["line 1, column 7", "must increase"]),
        ("ridge", &folder.with("twice.svm", "1 2:1 2:1\n"), &[], &["line 1, column 7", "must increase"]),
        ("ridge", &ones, &["--weights", "label"], &["--weights label"]),
        (
            "logistic",
            &ones,
            &["--penalty", "l1", "--l1-ratio", "0.5"],
            &["l1_ratio", "leave one of them out"],
        ),
    ] {
        let said = refused(&[&["fit", learner, data, "--out", &model], more].concat());
        for words in words {
            assert!(said.contains(words), "{learner} {data} {more:?}: {words:?} is missing from {said}");
        }
    }
    assert!(!Path::new(&model).exists());
    for (args, words) in [
        (&["--alpha", "-1"][..], "not negative"),
        (&["--alpha", "nan"], "not negative"),
        (&["--tol", "-1"], "not negative"),
        (&["--solver", "best"], "auto, direct, cocoa"),
        (&["--partitions", "0"], "from 1"),
        (&["--sigma", "0.5"], "from 1"),
        (&["--h", "0"], "give auto"),
        (&["--intercept"], "--no-intercept"),
    ] {
        let output = qjam(&[&["fit", "ridge", &csv, "--target", "price", "--out", &model], args].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(words),
            "{args:?}: {words:?} is missing from {said}"
        );
    }
    // Only ridge may do without its penalty: then it is least squares.
    let output = qjam(&["fit", "lasso", &csv, "--target", "price", "--alpha", "0", "--out", &model]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("over 0") && output.status.code() == Some(2));
    let output =
        qjam(&["fit", "elasticnet", &csv, "--target", "price", "--l1-ratio", "1.5", "--out", &model]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("from 0 to 1"));
    out(&["fit", "ridge", &csv, "--target", "price", "--without", "count", "--out", &model]);
    assert!(refused(&["predict", &model, &x, "--probabilities"]).contains("ridge knows no probabilities"));
    assert!(refused(&["predict", &model, &x, "--decisions"]).contains("for classifiers"));
    assert!(refused(&["predict", &model, &x, "--transform"]).contains("kind kmeans"));
    let three = folder.with("three.npy", npy("(2, 3)", &[1.0; 6]));
    assert!(refused(&["predict", &model, &three]).contains("it has 3 columns and"));
    assert!(refused(&["predict", &model, &holes]).contains("--missing"));
}

#[test]
fn odd_data_is_learnt_from_as_it_is() {
    let folder = Folder::new("odd");
    let model = folder.file("model");
    // No entry in most columns, no entry in a row; and nothing but zeros.
    for text in ["1 2:1 9:2\n3\n-1 2:0.5\n2 9:1\n", "1 1:0 2:0\n2\n", "0 1:0\n0 2:0\n"] {
        let data = folder.with("x.svm", text);
        for learner in ["ridge", "lasso", "elasticnet"] {
            for solver in ["auto", "cocoa"] {
                let said =
                    json(&["fit", learner, &data, "--alpha", "0.1", "--solver", solver, "--out", &model]);
                assert_eq!(said["converged"], true, "{learner}, {solver}, {text:?}: {said}");
            }
        }
    }
    let data = folder.with("y.svm", "1 1:0 2:0\n2\n1 1:0\n");
    for learner in ["logistic", "svm"] {
        let said = json(&["fit", learner, &data, "--out", &model]);
        assert_eq!((&said["converged"], &said["nonzero"]), (&true.into(), &0.into()), "{learner}: {said}");
    }
}

#[test]
fn truth_values_are_classes_and_a_target_that_never_changes_is_learnt() {
    let folder = Folder::new("truth");
    let model = folder.file("model");
    let x = folder.with("x.npy", npy("(4, 1)", &[1.0, 2.0, 3.0, 4.0]));
    let y = folder.with("y.npy", npy_of("|b1", "(4,)", &[0, 0, 1, 1]));
    let said = json(&["fit", "logistic", &x, "--labels", &y, "--out", &model]);
    assert_eq!((&said["converged"], &said["classes"]), (&true.into(), &2.into()), "{said}");
    assert_eq!(numbers(&out(&["predict", &model, &x])), [0.0, 0.0, 1.0, 1.0]);
    for value in [0.1, 3.0, 1e-9] {
        let same = folder.with("same.npy", npy("(4,)", &[value; 4]));
        for learner in ["ridge", "lasso"] {
            let said = json(&["fit", learner, &x, "--labels", &same, "--out", &model]);
            assert_eq!(
                (&said["converged"], &said["nonzero"]),
                (&true.into(), &0.into()),
                "{learner}: {said}"
            );
        }
    }
}

#[test]
fn a_model_goes_to_a_device_without_replacing_it_and_a_damaged_one_is_refused() {
    let folder = Folder::new("device");
    let (csv, model) = (folder.with("homes.csv", homes(20)), folder.file("model"));
    let fit = |to| ["fit", "ridge", &csv, "--target", "price", "--out", to];
    let said = out(&fit("/dev/null"));
    assert!(said.contains("/dev/null") && !said.contains("Next:"), "{said}");
    assert!(refused(&fit("/dev/full")).contains("make room"));
    assert!(["/dev/null", "/dev/full"].iter().all(|device| !Path::new(device).is_file()));
    out(&fit(&model));
    let mut bytes = std::fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    let said = refused(&["predict", &folder.with("damaged", bytes), &csv]);
    assert!(said.contains("damaged") && said.contains("not those that were saved"), "{said}");
}

#[test]
fn naive_bayes_tells_classes_apart_and_is_told_where_it_cannot() {
    let folder = Folder::new("bayes");
    let (model, file) = (folder.file("model"), folder.file("p.csv"));
    let rows = (0..90).fold("a,b,kind,w\n".to_string(), |all, i: usize| {
        let (class, noise) = (i % 3, (i * 7 % 11) as f64 * 0.1);
        all + &format!("{},{},{class},{}\n", class as f64 * 4.0 + noise, noise - class as f64, 1 + i % 2)
    });
    let data = folder.with("x.csv", rows);
    let fit = ["fit", "gaussian-nb", &data, "--target", "kind", "--weights", "w", "--out", &model];
    let said = json(&[&fit[..], &["--workers", "local:2"]].concat());
    assert_eq!((&said["classes"], &said["columns"]), (&3.into(), &2.into()), "{said}");
    assert_eq!(said["hash"], json(&[&fit[..], &["--workers", "proc:2"]].concat())["hash"]);
    let found = numbers(&out(&["predict", &model, &data]));
    assert_eq!(found, (0..90).map(|i| f64::from(i % 3)).collect::<Vec<_>>());
    out(&["predict", &model, &data, "--probabilities", "--out", &file]);
    for line in std::fs::read_to_string(&file).unwrap().lines() {
        let sum: f64 = line.split(',').map(|p| p.parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{line}");
    }
    let inspected = out(&["inspect", &model]);
    assert!(
        inspected.contains("of kind gaussian-nb") && inspected.contains("theta: 3 x 2 of F64"),
        "{inspected}"
    );
    assert!(refused(&["predict", &model, &data, "--decisions"]).contains("of kind linear"));
    let priors = folder.with("priors.csv", "0.5\n0.5\n");
    let said = refused(&[&fit[..], &["--priors", &priors]].concat());
    assert!(said.contains("2 priors for 3 classes"), "{said}");
    let sparse = folder.with("x.svm", "1 1:2\n2 1:3\n");
    assert!(
        refused(&["fit", "gaussian-nb", &sparse, "--out", &model])
            .contains("takes dense rows, and these are sparse")
    );
}
