//! The command as people meet it: help, results, errors with what to do, exit codes, nothing left behind.

mod bombs;

use qjam_algos::learner::Learner;
use qjam_algos::registry::{LEARNERS, find};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn qjam(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qjam"))
        .args(args)
        .env("NO_COLOR", "1")
        .output()
        .expect("the command starts")
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A place that is empty again after the test, however that ends.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("qjam-cli-{}-{name}", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn help_names_the_commands_and_the_worker_strings() {
    let output = qjam(&["--help"]);
    let (out, _) = text(&output);
    assert!(output.status.success());
    for word in [
        "demo", "bench", "check", "cache", "clean", "runs", "show", "resume", "replay", "local:4",
        "proc:2*4", "NO_COLOR",
    ] {
        assert!(out.contains(word), "{word} is missing from:\n{out}");
    }
    let (out, _) = text(&qjam(&["bench", "rounds", "--help"]));
    for word in ["--workers", "--doubles", "--rounds", "--sleep-ms", "--json"] {
        assert!(out.contains(word), "{word} is missing from:\n{out}");
    }
}

#[test]
fn ranks_and_components_of_a_file_of_edges_are_printed_and_written() {
    let (edges, out) = (Temporary::new("edges.tsv"), Temporary::new("of-edges.tsv"));
    let (path, to) = (edges.0.to_str().unwrap(), out.0.to_str().unwrap());
    std::fs::write(path, "# from to\n7 1\n1\t9\n9,7\n40 41\n7 1\n").unwrap();
    let output =
        qjam(&["graph", "components", path, "--workers", "proc:2", "--partitions", "3", "--out", to]);
    let (told, noted) = text(&output);
    assert!(output.status.success() && told.contains("2 components"), "{told}{noted}");
    assert!(noted.contains("1 edge came again"), "{noted}");
    assert_eq!(std::fs::read_to_string(to).unwrap(), "1\t1\n7\t1\n9\t1\n40\t40\n41\t40\n");
    let (told, noted) = text(&qjam(&["graph", "pagerank", path, "--out", to, "--json"]));
    let told: serde_json::Value =
        serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {told}{noted}"));
    assert!(told["vertices"] == 5 && told["edges"] == 4 && told["converged"] == true, "{told}");
    // A ring keeps its ranks; 41 gets 0.15 + 0.85 * 0.15.
    let ranks = std::fs::read_to_string(to).unwrap();
    let rank = |line: usize| -> f64 {
        ranks.lines().nth(line).unwrap().split_once('\t').unwrap().1.parse().unwrap()
    };
    assert!((rank(0) - 1.0).abs() < 1e-9 && (rank(4) - 0.2775).abs() < 1e-12, "{ranks}");
    let refused = |args: &[&str], words: &str| {
        let output = qjam(&[&["graph", "pagerank"], args].concat());
        assert!(output.status.code() == Some(1) && text(&output).1.contains(words), "{output:?}");
    };
    refused(&[path, "--out", path], "name another file");
    refused(&["no-such-edges.tsv"], "no-such-edges.tsv does not exist; check the path");
    refused(&[path, "--partitions", "6"], "1 to 5 partitions, not 6");
    std::fs::write(path, "1 2\n1 x\n").unwrap();
    refused(&[path], "line 2, column 3");
    std::fs::write(path, "# nothing\n").unwrap();
    refused(&[path], "has no edges: each is a line with two numbers");
}

#[test]
fn wrong_calls_say_what_is_wrong_and_what_to_write() {
    for (args, code, words) in [
        (&["bench", "rounds", "--workers", "pro k:3"][..], 1, &["pro k", "neither an engine nor a host"][..]),
        (&["bench", "rounds", "--workers", "prok:three"], 1, &["`three`", "not a port", "big*4"]),
        (&["bench", "rounds", "--workers", ""], 1, &["empty", "local"]),
        (&["bench", "rounds", "--workers", "proc:0"], 1, &["zero"]),
        (&["bench", "rounds"], 2, &["--workers"]),
        (&["bench", "rounds", "--workers", "local:1", "--rounds", "0"], 2, &["--rounds", "1..=10000000"]),
        (&["bench", "rounds", "--workers", "local:1", "--doubles", "99999999999999"], 2, &["--doubles"]),
        (&["bench", "autoencoder", "--workers", "local:1", "--patches", "0"], 2, &["1..=10000000"]),
        (&["bench", "autoencoder", "--workers", "local:1", "--patches", "many"], 2, &["many"]),
        (&["demo", "--out", "/nonexistent/folder/x.png"], 1, &["/nonexistent/folder/x.png", "--out"]),
        (&["demo", "--workers", "pro k", "--out", "/nonexistent/x.png"], 1, &["pro k", "an engine"]),
        (&["demo", "--patches", "9223372036854775807"], 2, &["--patches"]),
        (&["dmeo"], 2, &["demo"]),
        (&["check"], 2, &["<HOST>"]),
        (&["check", "proc:2"], 1, &["`proc` is this machine", "ssh://proc"]),
        (&["check", "big", "a b"], 1, &["a b", "letters, digits"]),
        (&["check", "@/nonexistent/hosts"], 1, &["@/nonexistent/hosts", "text file"]),
        (&["clean"], 2, &["<HOST>"]),
        (&["cache", "--cap", "much"], 2, &["much", "20G", "default"]),
        (&["cache", "--cap", "1G", "--clear"], 2, &["--cap", "--clear"]),
    ] {
        let output = qjam(args);
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert_eq!(out, "", "{args:?}");
        for word in words {
            assert!(err.contains(word), "{args:?}: {word:?} is missing from:\n{err}");
        }
        assert!(!err.contains('\x1b') && !err.contains("panicked"), "{args:?}: {err}");
    }
}

#[test]
fn every_command_about_hosts_has_an_example() {
    for (command, words) in [
        ("check", ["qjam check big", "--json", "exit code", "QJAM_SSH"]),
        ("cache", ["qjam cache --cap 20G big", "--verify", "--clear", "exit code"]),
        ("clean", ["qjam clean big", "--json", "exit code", "@hosts.txt"]),
    ] {
        let (out, _) = text(&qjam(&[command, "--help"]));
        for word in words {
            assert!(out.contains(word), "{word} is missing from:\n{out}");
        }
    }
}

#[test]
fn what_cannot_be_reached_is_told_host_by_host_to_people_and_to_programs() {
    // An `ssh` that fails at once.
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
        command.args(args).env("NO_COLOR", "1").env("QJAM_SSH", "false").output().expect("the command starts")
    };
    let output = run(&["check", "big", "ann@small:2222"]);
    let (out, err) = text(&output);
    assert_eq!((output.status.code(), err.as_str()), (Some(1), ""), "{out}");
    for words in ["\nbig\n", "\nann@small:2222\n", "✗ place", "remedy: ", "0 of 2 hosts would serve"] {
        assert!(out.contains(words), "{words:?} is missing from:\n{out}");
    }
    for (command, list) in [("check", "hosts"), ("cache", "caches"), ("clean", "hosts")] {
        let output = run(&[command, "big", "--json"]);
        let report: serde_json::Value =
            serde_json::from_str(text(&output).0.trim()).expect("one JSON object");
        assert_eq!((output.status.code(), &report["ok"]), (Some(1), &false.into()), "{report}");
        let row = &report[list][0];
        assert_eq!((&row["host"], &row["ok"]), (&"big".into(), &false.into()), "{report}");
        for key in ["step", "what", "words", "remedy"] {
            assert!(!row["failure"][key].is_null(), "{key} is missing from {report}");
        }
    }
}

#[test]
fn the_cache_of_this_machine_is_capped_and_looking_at_it_makes_nothing() {
    let temporary = Temporary::new("cache");
    let home = temporary.0.clone();
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
        command.args(["cache", "--json"]).args(options).env("XDG_CACHE_HOME", &home);
        let output = command.output().expect("the command starts");
        let report: serde_json::Value =
            serde_json::from_str(text(&output).0.trim()).expect("one JSON object");
        assert!(output.status.success(), "{report}");
        report["caches"][0].clone()
    };
    let looked = run(&[]);
    assert!(!home.exists());
    assert!(looked["converted"].is_null(), "{looked}");
    assert_eq!(looked["folder"].as_str(), home.join("qjam/cache").to_str());
    assert_eq!((&looked["host"], &looked["bytes"]), (&serde_json::Value::Null, &0.into()));
    assert_eq!(run(&["--cap", "500M"])["cap_bytes"], 500 << 20);
    assert_eq!(run(&["--verify"])["damaged"], 0);
    assert_eq!(run(&["--clear"])["removed_bytes"], 0);
    assert_eq!(run(&[])["cap_bytes"], 500 << 20);

    let converted = home.join("qjam/converted");
    std::fs::create_dir_all(&converted).unwrap();
    std::fs::write(converted.join("a.qjam"), [0; 3000]).unwrap();
    let counts = |row: &serde_json::Value| {
        let converted = &row["converted"];
        (converted["files"].as_u64(), converted["bytes"].as_u64(), converted["removed_bytes"].as_u64())
    };
    assert_eq!(counts(&run(&[])), (Some(1), Some(3000), None));
    assert_eq!(counts(&run(&["--clear"])), (Some(0), Some(0), Some(3000)));
}

#[test]
fn rounds_print_one_line_of_json_with_the_promised_keys() {
    for workers in ["local:2", "proc:2", "proc:1*2"] {
        let output =
            qjam(&["bench", "rounds", "--workers", workers, "--rounds", "20", "--doubles", "5000", "--json"]);
        let (out, err) = text(&output);
        assert!(output.status.success(), "{workers}: {err}");
        let row: serde_json::Value = serde_json::from_str(out.trim()).expect("one JSON object");
        for key in
            ["workers", "doubles", "median_us", "p99_us", "bytes_out", "bytes_in", "worker_us", "overhead_us"]
        {
            assert!(!row[key].is_null(), "{workers}: {key} is missing from {out}");
        }
        assert_eq!((row["workers"].as_str(), row["doubles"].as_u64()), (Some(workers), Some(5000)));
        let bytes_in = row["bytes_in"].as_u64().unwrap();
        // One root per process comes back: 40 000 bytes of numbers each, and little else.
        let roots = if workers == "proc:2" { 2 } else { u64::from(workers != "local:2") };
        assert!((roots * 40_000..=roots * 41_000).contains(&bytes_in), "{workers}: {bytes_in}");
    }
}

#[test]
fn sleeping_workers_show_as_worker_time() {
    let output =
        qjam(&["bench", "rounds", "--workers", "proc:2", "--rounds", "3", "--sleep-ms", "30", "--json"]);
    let row: serde_json::Value = serde_json::from_str(text(&output).0.trim()).expect("one JSON object");
    assert!(row["worker_us"].as_u64().unwrap() >= 30_000, "{row}");
}

#[test]
fn the_autoencoder_benchmark_has_one_hash_whatever_the_workers() {
    let mut hashes = Vec::new();
    for workers in ["local:1", "proc:3", "proc:1,local:1"] {
        let args = [
            "bench",
            "autoencoder",
            "--patches",
            "600",
            "--workers",
            workers,
            "--evaluations",
            "10",
            "--json",
        ];
        let output = qjam(&args);
        let (out, err) = text(&output);
        assert!(output.status.success(), "{workers}: {err}");
        let row: serde_json::Value = serde_json::from_str(out.trim()).expect("one JSON object");
        for key in ["patches", "workers", "evaluation_ms", "total_s", "speedup", "ceiling", "cost", "hash"] {
            assert!(!row[key].is_null(), "{workers}: {key} is missing from {out}");
        }
        hashes.push(row["hash"].as_str().unwrap().to_owned());
    }
    assert!(hashes.iter().all(|h| *h == hashes[0]), "{hashes:?}");
}

#[test]
fn the_demo_survives_its_own_kill_and_writes_a_picture() {
    let picture = Temporary::new("features.png");
    let path = picture.0.to_str().unwrap();
    let output = qjam(&["demo", "--patches", "3000", "--evaluations", "12", "--out", path]);
    let (out, err) = text(&output);
    assert!(output.status.success(), "{err}");
    for words in
        ["SIGKILL to proc:1", "lost on the way: proc:1", "The bits are equal", "T_worker", "T_overhead"]
    {
        assert!(out.contains(words), "{words:?} is missing from:\n{out}");
    }
    assert!(!out.contains('\x1b'), "no control sequences outside a terminal:\n{out}");
    let bytes = std::fs::read(&picture.0).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
}

/// Runs the command with an address space of 3 GiB.
fn limited(args: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", "ulimit -v 3145728 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_qjam")])
        .args(args)
        .env("NO_COLOR", "1")
        .env("QJAM_RUNS", "off")
        .output()
        .expect("the command starts")
}

/// Fits a learner with what it needs to a file, within [`limited`] memory; fails unless that is an error, and returns its words.
fn refused(learner: &dyn Learner, data: &Path, more: &[&str]) -> String {
    let path = data.to_string_lossy();
    let mut args = vec!["fit", learner.table().name, &path];
    // Options without a default are asked for before anything is read.
    args.extend(match learner.table().name {
        "kmeans" | "minibatch-kmeans" => &["--k", "2"][..],
        "svd" => &["--components", "1"],
        _ => &[],
    });
    args.extend(["--workers", "local:1", "--out", "/dev/null"]);
    args.extend(more);
    let output = limited(&args);
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {:?} {err}", output.status);
    err
}

/// Those that take sparse rows and have numbers for each column.
fn sparse_learners() -> impl Iterator<Item = &'static dyn Learner> {
    LEARNERS.iter().copied().filter(|learner| learner.table().sparse)
}

#[test]
fn a_line_that_names_billions_of_columns_is_an_error_in_every_learner_and_not_the_end_of_the_process() {
    let temporary = Temporary::new("wide");
    std::fs::create_dir_all(&temporary.0).unwrap();
    let data = temporary.0.join("wide.svm");
    for index in ["4294967294", "400000000"] {
        std::fs::write(&data, format!("1 1:1 {index}:1\n2 1:2\n")).unwrap();
        for learner in sparse_learners() {
            let asked = refused(learner, &data, &[]);
            assert!(asked.contains(index) && asked.contains("confirm it with --features"), "{asked}");
            let refused = refused(learner, &data, &["--features", index]);
            assert!(refused.contains("columns") && refused.contains("memory"), "{refused}");
        }
    }
}

/// No reader asks about so many columns, and a vector of them is small. A matrix of them is not, nor is a vector for each class.
#[test]
fn models_that_grow_with_the_square_of_columns_or_with_classes_are_refused_before_they_are_made() {
    let temporary = Temporary::new("square");
    std::fs::create_dir_all(&temporary.0).unwrap();
    let data = temporary.0.join("square.svm");
    std::fs::write(&data, "1 1:1 400000:1\n2 1:2\n").unwrap();
    let refused_pca = refused(find("pca").unwrap(), &data, &[]);
    assert!(refused_pca.contains("columns") && refused_pca.contains("memory"), "{refused_pca}");
    let mut lines: String = (0..1000).map(|class| format!("{class} 1:1\n")).collect();
    lines.push_str("0 1000000:1\n");
    std::fs::write(&data, lines).unwrap();
    for name in ["multinomial-nb", "bernoulli-nb", "complement-nb", "logistic", "svm"] {
        let refused = refused(find(name).unwrap(), &data, &[]);
        assert!(refused.contains("columns") && refused.contains("memory"), "{name}: {refused}");
    }
}

#[test]
fn every_learner_that_standardizes_rows_takes_either_spelling() {
    for learner in LEARNERS.iter().map(|learner| learner.table().name) {
        let takes = |flag| qjam(&["fit", learner, flag, "--help"]).status.success();
        assert_eq!(takes("--standardise"), takes("--standardize"), "{learner}");
    }
}
