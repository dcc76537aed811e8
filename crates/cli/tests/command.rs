//! The command as people meet it: help, results, errors with what to do, exit codes, nothing left behind.

use std::path::PathBuf;
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

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("qjam-cli-{}-{name}", std::process::id()))
}

#[test]
fn help_names_the_commands_and_the_worker_strings() {
    let output = qjam(&["--help"]);
    let (out, _) = text(&output);
    assert!(output.status.success());
    for word in ["demo", "bench", "local:4", "proc:2*4", "NO_COLOR"] {
        assert!(out.contains(word), "{word} is missing from:\n{out}");
    }
    let (out, _) = text(&qjam(&["bench", "rounds", "--help"]));
    for word in ["--workers", "--doubles", "--rounds", "--sleep-ms", "--json"] {
        assert!(out.contains(word), "{word} is missing from:\n{out}");
    }
}

#[test]
fn wrong_calls_say_what_is_wrong_and_what_to_write() {
    for (args, code, words) in [
        (&["bench", "rounds", "--workers", "prok:3"][..], 1, &["prok:3", "proc:4"][..]),
        (&["bench", "rounds", "--workers", ""], 1, &["empty", "local"]),
        (&["bench", "rounds", "--workers", "proc:0"], 1, &["zero"]),
        (&["bench", "rounds"], 2, &["--workers"]),
        (&["bench", "rounds", "--workers", "local:1", "--rounds", "0"], 2, &["--rounds", "1..=10000000"]),
        (&["bench", "rounds", "--workers", "local:1", "--doubles", "99999999999999"], 2, &["--doubles"]),
        (&["bench", "autoencoder", "--workers", "local:1", "--patches", "0"], 2, &["1..=10000000"]),
        (&["bench", "autoencoder", "--workers", "local:1", "--patches", "many"], 2, &["many"]),
        (&["demo", "--out", "/nonexistent/folder/x.png"], 1, &["/nonexistent/folder/x.png", "--out"]),
        (&["demo", "--workers", "prok:2", "--out", "/nonexistent/x.png"], 1, &["prok:2", "proc:4"]),
        (&["demo", "--patches", "9223372036854775807"], 2, &["--patches"]),
        (&["dmeo"], 2, &["demo"]),
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
    assert!(row["overhead_us"].as_u64().unwrap() < 30_000, "{row}");
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
    let picture = temporary("features.png");
    let path = picture.to_str().unwrap();
    let output = qjam(&["demo", "--patches", "3000", "--evaluations", "12", "--out", path]);
    let (out, err) = text(&output);
    assert!(output.status.success(), "{err}");
    for words in
        ["SIGKILL to proc:1", "lost on the way: proc:1", "The bits are equal", "T_worker", "T_overhead"]
    {
        assert!(out.contains(words), "{words:?} is missing from:\n{out}");
    }
    assert!(!out.contains('\x1b'), "no control sequences outside a terminal:\n{out}");
    let bytes = std::fs::read(&picture).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    std::fs::remove_file(&picture).unwrap();
}
