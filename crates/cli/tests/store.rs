//! Workers that share a folder and nothing else, as people start them: the bits of threads under faults, submitters and workers that
//! are killed, and calls that are wrong.

mod bucket;

use bucket::{Bucket, err, files, jobs, wait_until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

/// What goes wrong in tests of faults.
const FAULTS: &str = "twice=30,late=30,late_ms=100,kill=1";

#[test]
fn k_means_has_the_bits_of_threads_whatever_goes_wrong() {
    let reference = Bucket::new("reference");
    let rows = reference.data(400);
    let learner = ["kmeans", &rows, "--k", "3", "--iterations", "3"];
    let wanted = reference.fit(&learner, "local:2", "threads.model");
    for workers in [1, 5, 16] {
        let mut bucket = Bucket::new(&format!("faults-{workers}"));
        bucket.faults = FAULTS;
        bucket.serve(workers, &[]);
        assert_eq!(bucket.fit(&learner, &bucket.workers_string(), "model"), wanted, "{workers} workers");
        let said = bucket.stop();
        assert!(said.contains("was ended by signal 9"), "no worker was killed: {said}");
        // The submitter has cleared its job away, as far as it could see it. There are no files to look for in a container.
        let left = files(&bucket.file("bucket/blobs/jobs"));
        assert!(!left.iter().any(|path| path.ends_with("job")), "{left:?}");
    }
}

#[test]
fn logistic_regression_has_the_bits_of_threads_whatever_goes_wrong() {
    let mut bucket = Bucket::new("logistic");
    bucket.faults = FAULTS;
    let rows = bucket.data(300);
    let learner = ["logistic", &rows, "--target", "y", "--max-rounds", "2"];
    let wanted = bucket.fit(&learner, "local:2", "threads.model");
    bucket.serve(3, &[]);
    assert_eq!(bucket.fit(&learner, &bucket.workers_string(), "model"), wanted);
    assert!(bucket.stop().contains("was ended by signal 9"), "no worker was killed");
}

#[test]
fn a_submitter_that_was_killed_is_resumed_with_the_same_bits_and_nothing_is_run_twice() {
    let mut bucket = Bucket::new("resumed");
    let rows = bucket.data(3000);
    let learner = ["kmeans", &rows, "--k", "12"];
    let wanted = bucket.fit(&learner, "local:2", "threads.model");
    let (out, workers) = (bucket.file("model"), format!("{}?job=night-run", bucket.workers_string()));
    let fit = [&["fit"], &learner[..], &["--workers", &workers, "--out", &out, "--json"]].concat();
    let mut submitter =
        bucket.command(&fit).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    // Without a worker nothing is done: it is killed while it waits for one round, and again in mid-run.
    wait_until("that a round begins", || jobs(&bucket.status()).iter().any(|job| job["round"] == 0));
    submitter.kill().expect("it can be killed");
    submitter.wait().expect("it ends");
    let resume = ["store", "resume", &bucket.url(), "night-run"];
    assert!(bucket.refused(&resume).contains("--trust runs it"));
    let resume = [&resume[..], &["--trust"]].concat();
    let mut submitter =
        bucket.command(&resume).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    bucket.serve(2, &[]);
    wait_until("that some rounds are done", || {
        jobs(&bucket.status()).iter().any(|job| job["rounds"].as_u64() >= Some(4))
    });
    submitter.kill().expect("it can be killed");
    submitter.wait().expect("it ends");
    let values = || -> Vec<(PathBuf, std::time::SystemTime)> {
        let all =
            files(&bucket.file("bucket/blobs/jobs")).into_iter().filter(|path| path.ends_with("end/value"));
        let mut all: Vec<_> =
            all.filter_map(|path| Some((path.clone(), fs::metadata(path).ok()?.modified().ok()?))).collect();
        all.sort();
        all
    };
    let status = bucket.status();
    assert_eq!(jobs(&status)[0]["name"], "night-run");
    // What was sent is done without a submitter, and then nothing happens.
    wait_until("that all messages are dealt with", || files(&bucket.file("bucket/queues")).is_empty());
    let before = values();
    assert!(before.len() >= 4);
    // The resumed program takes the values as they are.
    let resumed = bucket.command(&resume).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut resumed = resumed.expect("it starts");
    let mut most = before.len();
    while resumed.try_wait().expect("it is a child").is_none() {
        let now = values();
        most = most.max(now.len());
        for (path, time) in &now {
            let then = before.iter().find(|(old, _)| old == path).map(|(_, then)| then);
            assert!(then.is_none_or(|then| then == time), "{} was written again", path.display());
        }
    }
    let output = resumed.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["hash"], wanted.as_str());
    assert!(most > before.len(), "nothing was left to be done");
    assert!(jobs(&bucket.status()).is_empty());
}

/// A bucket may be read by more people than a run file.
#[test]
fn secrets_of_the_command_line_are_not_in_the_bucket() {
    let bucket = Bucket::new("secret");
    let data = bucket.file("password=hunter2.csv");
    fs::rename(bucket.data(300), &data).expect("a file");
    let (out, workers) = (bucket.file("model"), format!("{}?job=told", bucket.workers_string()));
    let fit = ["fit", "kmeans", &data, "--k", "3", "--workers", &workers, "--out", &out];
    let mut submitter =
        bucket.command(&fit).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("that a round begins", || jobs(&bucket.status()).iter().any(|job| job["round"] == 0));
    submitter.kill().expect("it can be killed");
    submitter.wait().expect("it ends");
    let all = files(&bucket.file("bucket"));
    let has = |words: &[u8]| {
        let read = |path: &PathBuf| fs::read(path).unwrap_or_default();
        all.iter().any(|path| read(path).windows(words.len()).any(|bytes| bytes == words))
    };
    assert!(has(b"kmeans"), "the command line is there: {all:?}");
    assert!(!has(b"hunter2"), "and the secret with it");
}

#[test]
fn wrong_calls_are_explained() {
    let mut bucket = Bucket::new("wrong");
    let rows = bucket.data(50);
    let model = bucket.file("model");
    for (url, words) in [
        (format!("file://{}", bucket.file("nowhere")), "make the folder first"),
        (format!("file://{}", bucket.file("rows.csv")), "Not a directory"),
        ("file:///proc/self".into(), "cannot make /proc/self/blobs"),
        ("ftp://big/bucket".into(), "`ftp` is no kind of storage"),
        ("bucket".into(), "it has no kind"),
        (format!("{}?job=night", bucket.url()), "here the bucket is meant"),
    ] {
        for command in ["serve", "status", "ls", "gc"] {
            let said = bucket.refused(&["store", command, &url]);
            assert!(said.contains(words), "{command} {url}: {said}");
        }
        if !url.contains("?job=") {
            let workers = format!("store:{url}");
            let said =
                bucket.refused(&["fit", "kmeans", &rows, "--k", "2", "--workers", &workers, "--out", &model]);
            assert!(said.contains(words), "{workers}: {said}");
        }
    }
    let url = bucket.url();
    let fit = |workers: &str| {
        ["fit", "kmeans", &rows, "--k", "2", "--out", &model, "--workers"]
            .iter()
            .map(|word| (*word).to_owned())
            .chain([workers.to_owned()])
            .collect::<Vec<String>>()
    };
    let said = |args: Vec<String>| bucket.refused(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(said(fit("store:")).contains("needs an address"));
    assert!(said(fit(&format!("store:{url}?job=Night Run"))).contains("is no name of a job"));
    assert!(said(fit(&format!("proc:1,store:{url}"))).contains("store"));
    assert!(bucket.refused(&["store", "resume", &url, "nothing"]).contains("there is no job `nothing`"));
    assert!(bucket.refused(&["store", "gc", &url, "--job", "nothing"]).contains("there is no job `nothing`"));
    // A key that others can read, or that is none.
    let key = bucket.file("key");
    bucket.out(&["store", "key", &key]);
    assert!(bucket.refused(&["store", "key", &key]).contains("File exists"));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a mode");
    assert!(bucket.refused(&["store", "serve", &url, "--key", &key]).contains("chmod 600"));
    // Two submitters with one name.
    let named = format!("store:{url}?job=night");
    let mut first = bucket.command(&["bench", "rounds", "--workers", &named, "--rounds", "1"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("that there is a job", || !jobs(&bucket.status()).is_empty());
    let taken = said(fit(&named));
    assert!(taken.contains("a job `night` is in this bucket already, submitted by"), "{taken}");
    assert!(bucket.refused(&["store", "gc", &url, "--job", "night"]).contains("its submitter waits for it"));
    first.kill().expect("it can be killed");
    first.wait().expect("it ends");
    // A submitter of this machine is known to be gone at once.
    assert!(bucket.out(&["store", "gc", &url, "--job", "night"]).contains("removed job night-"));
    assert!(jobs(&bucket.status()).is_empty());
    // A submitter that was killed before it had written more than the name: somebody has removed the rest.
    let mut early = bucket.command(&["bench", "rounds", "--workers", &named, "--rounds", "1"]);
    let mut early = early.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("that there is a job", || jobs(&bucket.status()).iter().any(|job| job["round"] == 0));
    early.kill().expect("it can be killed");
    early.wait().expect("it ends");
    fs::remove_dir_all(bucket.file("bucket/blobs/jobs")).expect("it can be removed");
    assert!(said(fit(&named)).contains("is in this bucket already, submitted by somebody"));
    assert!(bucket.out(&["store", "gc", &url, "--job", "night"]).contains("removed job night-"));
    bucket.serve(1, &[]);
    assert!(bucket.run(&["bench", "rounds", "--workers", &named, "--rounds", "3"]).status.success());
}

#[test]
fn foreign_messages_are_passed_over_and_removed_chunks_are_put_back() {
    let mut bucket = Bucket::new("removed");
    let rows = bucket.data(200);
    let learner = ["kmeans", &rows, "--k", "3"];
    let wanted = bucket.fit(&learner, "local:2", "threads.model");
    let (out, workers) = (bucket.file("model"), bucket.workers_string());
    let fit = [&["fit"], &learner[..], &["--workers", &workers, "--out", &out, "--json"]].concat();
    let submitter = bucket.command(&fit).stdout(Stdio::piped()).spawn().expect("it starts");
    wait_until("that a round begins", || jobs(&bucket.status()).iter().any(|job| job["round"] == 0));
    // Before anybody works on it: somebody writes to the queue, damages an order, and removes all data.
    let status = bucket.status();
    let job = jobs(&status)[0]["job"].as_str().expect("a job").to_owned();
    let ready = bucket.file(&format!("bucket/queues/{job}/ready"));
    for (n, text) in ["hello", "qjam1 map ../etc 0 0", "qjam1 fly", "\u{1b}[2J"].iter().enumerate() {
        fs::write(format!("{ready}/{n:020}-x-{n}.0"), text).expect("a message");
    }
    let order = bucket.file(&format!("bucket/blobs/jobs/{job}/rounds/0000000000/order/00000"));
    fs::write(&order, "nonsense").expect("an order");
    for chunk in files(&bucket.file("bucket/blobs/chunks")) {
        fs::remove_file(chunk).expect("a chunk");
    }
    bucket.serve(2, &[]);
    let output = submitter.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["hash"], wanted.as_str());
    let said = bucket.stop();
    assert!(said.contains("it is no message of qjam"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn jobs_are_signed_and_other_builds_come_with_them() {
    let mut bucket = Bucket::new("signed");
    let rows = bucket.data(200);
    let learner = ["kmeans", &rows, "--k", "3"];
    let wanted = bucket.fit(&learner, "local:2", "threads.model");
    let (key, other_key, out) = (bucket.file("key"), bucket.file("other"), bucket.file("model"));
    bucket.out(&["store", "key", &key]);
    bucket.out(&["store", "key", &other_key]);
    // Another build: it runs like this one, and has another hash.
    let other = bucket.file("other-build");
    fs::copy(env!("CARGO_BIN_EXE_qjam"), &other).expect("a copy");
    let mut bytes = fs::read(&other).expect("an executable");
    bytes.extend_from_slice(b"other");
    fs::write(&other, bytes).expect("an executable");
    let (url, workers) = (bucket.url(), bucket.workers_string());
    let worker = |bucket: &Bucket, name: &str, args: &[&str]| {
        let all = [&["store", "serve", &url, "--slots", "1", "--name", name], args].concat();
        let mut command = bucket.command_of(&other, &all);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a worker")
    };
    let fit = [&["fit"], &learner[..], &["--workers", &workers, "--out", &out, "--json"]].concat();
    let mut command = bucket.command(&fit);
    let submitter = command.env("QJAM_STORE_KEY", &key).stdout(Stdio::piped()).spawn().expect("it starts");
    // Workers that may not, each with what it says.
    for (name, args, words) in [
        ("without", &[][..], "is signed with a key, and none was given here"),
        ("wrong", &["--key", &other_key], "was written with another key"),
    ] {
        let mut refused = worker(&bucket, name, args);
        let mut line = String::new();
        let stderr = refused.stderr.take().expect("its errors");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("a line");
        assert!(line.contains(words), "{name}: {line}");
        refused.kill().expect("it can be killed");
        refused.wait().expect("it ends");
    }
    let good = worker(&bucket, "good", &["--key", &key]);
    bucket.workers.push(good);
    let output = submitter.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["hash"], wanted.as_str());
    let fetched = files(&bucket.file(".cache/qjam/builds"));
    assert_eq!(fetched.len(), 1);
    assert_eq!(fs::read(&fetched[0]).expect("it"), fs::read(env!("CARGO_BIN_EXE_qjam")).expect("this"));
    // Without a key, another build is not run.
    bucket.stop();
    let mut command = bucket.command(&fit);
    let mut submitter = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut refused = worker(&bucket, "unsigned", &[]);
    let mut line = String::new();
    let stderr = refused.stderr.take().expect("its errors");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("a line");
    assert!(line.contains("it is another build than this worker; other builds are run only if"), "{line}");
    for process in [&mut refused, &mut submitter] {
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
    }
}

#[test]
fn a_worker_that_is_ended_puts_its_task_back_and_leaves() {
    let mut bucket = Bucket::new("leaves");
    bucket.serve(1, &[]);
    let workers = bucket.workers_string();
    let rounds = ["bench", "rounds", "--workers", &workers, "--rounds", "1", "--sleep-ms", "1000", "--json"];
    let submitter = bucket.command(&rounds).stdout(Stdio::piped()).spawn().expect("it starts");
    let taken = |bucket: &Bucket| -> usize {
        let status = bucket.status();
        let Some(job) = jobs(&status).first().and_then(|job| job["job"].as_str()) else { return 0 };
        files(&bucket.file(&format!("bucket/queues/{job}/taken"))).len()
    };
    wait_until("that a task is taken", || taken(&bucket) > 0);
    bucket.stop();
    wait_until("that the worker is gone", || {
        bucket.status()["workers"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(taken(&bucket), 0, "its task is there for others");
    bucket.serve(1, &[]);
    assert!(submitter.wait_with_output().expect("it ends").status.success());
}

#[test]
fn garbage_is_collected_by_age_and_use() {
    let mut bucket = Bucket::new("garbage");
    let (url, workers) = (bucket.url(), bucket.workers_string());
    let rows = bucket.data(200);
    bucket.serve(1, &[]);
    bucket.fit(&["kmeans", &rows, "--k", "3"], &workers, "model");
    let count = |key: &str| bucket.status()[key].as_u64().expect("a number");
    assert!(count("chunks") > 0);
    // A job whose submitter was killed; its data is the same.
    let named = format!("{workers}?job=left");
    let args = ["bench", "rounds", "--workers", &named, "--rounds", "1000000"];
    let mut submitter = bucket.command(&args).stdout(Stdio::null()).spawn().expect("it starts");
    wait_until("that rounds are done", || {
        jobs(&bucket.status()).iter().any(|job| job["rounds"].as_u64() > Some(1))
    });
    let young = bucket.json(&["store", "gc", &url, "--json"]);
    assert_eq!((&young["jobs"], &young["chunks"]), (&Value::Array(vec![]), &0.into()));
    let before = count("chunks");
    let used = bucket.json(&["store", "gc", &url, "--older-than", "0s", "--json"]);
    assert_eq!(used["jobs"], Value::Array(vec![]), "its submitter lives");
    assert!(used["chunks"].as_u64() > Some(0), "what no job uses is gone");
    assert!(count("chunks") < before && count("chunks") > 0, "what the job uses is there");
    submitter.kill().expect("it can be killed");
    submitter.wait().expect("it ends");
    // The worker does what was sent.
    wait_until("that all messages are dealt with", || files(&bucket.file("bucket/queues")).is_empty());
    bucket.out(&["store", "gc", &url, "--job", "left"]);
    bucket.out(&["store", "gc", &url, "--older-than", "0s"]);
    assert!(jobs(&bucket.status()).is_empty());
    assert_eq!(count("chunks"), 0);
    bucket.stop();
    wait_until("that the worker is gone", || {
        bucket.status()["workers"].as_array().is_some_and(Vec::is_empty)
    });
    // What the submitter was writing when it was killed is removed when it is an hour old.
    for folder in ["bucket/blobs", "bucket/queues"] {
        assert_eq!(files(&bucket.file(folder)), Vec::<PathBuf>::new(), "something is left");
    }
}
