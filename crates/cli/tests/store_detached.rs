//! Fits that nobody waits for: put into a bucket, worked on by whoever serves it, followed from anywhere.

mod bucket;

use bucket::{Bucket, err, files, jobs, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// What goes wrong: messages come twice, blobs are seen late, and the first executor of every task and of every step is killed.
const FAULTS: &str = "twice=30,late=30,late_ms=100,kill=1,kill_step=1";

impl Bucket {
    /// Detaches a fit under a name, and returns what the command says.
    fn detach(&self, learner: &[&str], name: &str) -> Value {
        let workers = format!("{}?job={name}", self.workers_string());
        self.json(&[&["fit"], learner, &["--workers", &workers, "--detach", "--json"]].concat())
    }

    /// Follows a job to its end, and returns the bytes of the model's file.
    fn attach(&self, name: &str, model: &str) -> Vec<u8> {
        let out = self.file(model);
        let report = self.json(&["store", "attach", &self.url(), name, "--out", &out, "--json"]);
        assert_eq!(report["model"], out.as_str());
        fs::read(&out).expect("a model")
    }

    /// Begins to follow a job.
    fn follower(&self, name: &str) -> Child {
        let mut command = self.command(&["store", "attach", &self.url(), name]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
    }

    /// The file of a model that threads have fitted.
    fn threads(&self, learner: &[&str]) -> Vec<u8> {
        self.fit(learner, "local:2", "threads.model");
        fs::read(self.file("threads.model")).expect("a model")
    }

    /// The state of the only job.
    fn state(&self) -> String {
        jobs(&self.status())[0]["state"].as_str().expect("a state").to_owned()
    }

    /// How often each task of each round was run.
    fn runs(&self) -> BTreeMap<String, u64> {
        let mut runs = BTreeMap::new();
        for path in files(&self.file("bucket/blobs/jobs")) {
            let is_run = path.parent().is_some_and(|folder| folder.ends_with("ran"));
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some((task, _)) = name.rsplit_once('-').filter(|_| is_run) {
                *runs.entry(task.to_owned()).or_default() += 1;
            }
        }
        runs
    }
}

fn end(mut process: Child) {
    process.kill().expect("it can be killed");
    process.wait().expect("it ends");
}

#[test]
fn a_detached_fit_has_the_file_of_threads_whatever_goes_wrong() {
    let mut bucket = Bucket::new("detached-faults");
    let rows = bucket.data(600);
    let learner = ["kmeans", &rows, "--k", "3", "--iterations", "2"];
    let wanted = bucket.threads(&learner);
    bucket.faults = FAULTS;
    bucket.serve(3, &[]);
    let job = bucket.detach(&learner, "night");
    assert!(job["attach"].as_str().is_some_and(|attach| attach.ends_with(" night")), "{job}");
    // Whoever looks for a job that cannot be seen yet is told that there is none.
    bucket.faults = "";
    assert_eq!(bucket.attach("night", "model"), wanted);
    let killed = files(&bucket.file("bucket/blobs/jobs"));
    let killed = killed.iter().filter(|path| path.to_string_lossy().ends_with("-step")).count();
    assert_eq!(
        killed, 7,
        "a look, three draws, two iterations and the inertia: a stepper was killed after each"
    );
    assert!(bucket.stop().contains("was ended by signal 9"));
}

#[test]
fn every_kind_of_start_has_the_file_of_threads() {
    let mut bucket = Bucket::new("detached-kinds");
    let rows = bucket.data(900);
    bucket.serve(2, &[]);
    let centres = bucket.file("centres.csv");
    fs::write(&centres, "0,0,0\n5,5,5\n1000,1000,1000\n").expect("centres");
    let kinds: [&[&str]; 3] = [
        &["--init", "random", "--starts", "2", "--seed", "7"],
        &["--columns", "a,b,c", "--init", &centres],
        &["--columns", "a,b,c", "--weights", "c", "--dtype", "f32"],
    ];
    for (n, more) in kinds.iter().enumerate() {
        let learner = [&["kmeans", &rows, "--k", "3", "--iterations", "4"], *more].concat();
        let wanted = bucket.threads(&learner);
        bucket.detach(&learner, &format!("kind-{n}"));
        assert_eq!(bucket.attach(&format!("kind-{n}"), "model"), wanted, "{more:?}");
    }
}

#[test]
fn nothing_is_computed_twice_when_whoever_follows_is_killed() {
    let mut bucket = Bucket::new("detached-once");
    let rows = bucket.data(1500);
    let learner = ["kmeans", &rows, "--k", "6", "--iterations", "5", "--tolerance", "0"];
    let wanted = bucket.threads(&learner);
    bucket.faults = "count=1";
    bucket.detach(&learner, "night");
    assert_eq!(bucket.state(), "detached");
    // One is killed before anybody works, and one as soon as it has something to say.
    end(bucket.follower("night"));
    let mut second = bucket.follower("night");
    bucket.serve(1, &[]);
    let mut line = String::new();
    let said = second.stdout.take().expect("its output");
    BufReader::new(said).read_line(&mut line).expect("a line");
    assert!(
        ["first centres: ", "iteration ", "kmeans: "].iter().any(|begin| line.starts_with(begin)),
        "{line}"
    );
    end(second);
    let others: Vec<Child> = (0..3).map(|_| bucket.follower("night")).collect();
    assert_eq!(bucket.attach("night", "model"), wanted);
    for other in others {
        let output = other.wait_with_output().expect("it ends");
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stdout).contains("kmeans: 6 clusters")
        );
    }
    let runs = bucket.runs();
    let rounds: u64 = 1 + 6 + 5 + 1;
    assert_eq!(runs.len() as u64, rounds * 8, "{runs:?}");
    assert!(runs.values().all(|times| *times == 1), "{runs:?}");
    // It is there for whoever comes later, and nothing is run for that.
    wait_until("that the job is finished", || bucket.state() == "finished");
    assert_eq!(jobs(&bucket.status())[0]["rounds"], rounds);
    assert_eq!(bucket.attach("night", "again"), wanted);
    assert_eq!(bucket.runs(), runs);
}

#[test]
fn a_finished_job_stays_until_it_is_old_or_removed_by_name() {
    let mut bucket = Bucket::new("detached-gc");
    let rows = bucket.data(300);
    let learner = ["kmeans", &rows, "--k", "2"];
    bucket.serve(1, &[]);
    bucket.detach(&learner, "old");
    bucket.attach("old", "model");
    let url = bucket.url();
    wait_until("that the queue is gone", || files(&bucket.file("bucket/queues")).is_empty());
    let listed = bucket.out(&["store", "ls", &url]);
    assert!(listed.contains("(old)") && listed.contains("finished"), "{listed}");
    assert_eq!(bucket.json(&["store", "gc", &url, "--json"])["jobs"], Value::Array(vec![]));
    bucket.attach("old", "model");
    bucket.out(&["store", "gc", &url, "--older-than", "0s"]);
    let said = bucket.refused(&["store", "attach", &url, "old"]);
    assert!(said.contains("there is no job `old`"), "{said}");
    // One that nobody has worked on is not taken for old, and can be given up.
    bucket.stop();
    wait_until("that the worker is gone", || {
        bucket.status()["workers"].as_array().is_some_and(Vec::is_empty)
    });
    bucket.detach(&learner, "left");
    let shown = bucket.out(&["store", "status", &url]);
    assert!(shown.contains("(left)  detached, by "), "{shown}");
    assert_eq!(
        bucket.json(&["store", "gc", &url, "--older-than", "0s", "--json"])["jobs"],
        Value::Array(vec![])
    );
    bucket.out(&["store", "gc", &url, "--job", "left"]);
    assert!(jobs(&bucket.status()).is_empty());
}

#[test]
fn what_fails_far_away_is_told_at_home() {
    let mut bucket = Bucket::new("detached-fails");
    let rows = bucket.data(600);
    let bad = bucket.file("bad.csv");
    fs::write(&bad, "a,b\n1,2\n3,1e300\n5,6\n").expect("rows");
    bucket.faults = "poison=2";
    bucket.serve(2, &[]);
    let url = bucket.url();
    // The step refuses what a look at the rows has found.
    bucket.detach(&["kmeans", &bad, "--k", "2"], "bad");
    let said = bucket.refused(&["store", "attach", &url, "bad"]);
    assert!(said.contains("failed: k-means: a number of size 1e300 is too large to be squared"), "{said}");
    // A task that ends every worker that runs it.
    bucket.detach(&["kmeans", &rows, "--k", "3"], "poison");
    let said = bucket.refused(&["store", "attach", &url, "poison"]);
    assert!(said.contains("task 0 was tried 4 times, and failed or ended its worker every time"), "{said}");
    assert!(said.contains("was ended by signal 9"), "{said}");
    wait_until("that nobody works on them", || {
        jobs(&bucket.status()).iter().all(|job| job["state"] == "failed")
            && files(&bucket.file("bucket/blobs/active")).is_empty()
    });
    // It is said again to whoever asks later.
    assert!(bucket.refused(&["store", "attach", &url, "bad"]).contains("too large to be squared"));
}

#[test]
fn wrong_calls_are_explained() {
    let bucket = Bucket::new("detached-wrong");
    let rows = bucket.data(50);
    let (url, workers) = (bucket.url(), bucket.workers_string());
    let fit = |learner: &[&str], workers: &str| -> String {
        bucket.refused(&[&["fit"], learner, &["--detach", "--workers", workers]].concat())
    };
    let kmeans = ["kmeans", &rows, "--k", "2"];
    for (learner, workers, words) in [
        (&["ridge", &rows, "--target", "y"][..], workers.as_str(), "ridge cannot be detached"),
        (&["minibatch-kmeans", &rows, "--k", "2"], &workers, "minibatch-kmeans cannot be detached"),
        (&kmeans, "local:2", "--workers store:URL"),
        (&["kmeans", &rows, "--k", "2", "--skip-bad-rows"], &workers, "cannot leave rows out"),
        (&["kmeans", &rows, "--k", "2", "--init", "parallel"], &workers, "choose k-means++ or random"),
        (&["kmeans", &rows, "--k", "51"], &workers, "51 clusters of 50 rows"),
        (&kmeans, &format!("{workers}?job=Night Run"), "is no name of a job"),
        (&kmeans, &format!("store:file://{}", bucket.file("nowhere")), "make the folder first"),
        (&kmeans, "store:file:///proc/self", "cannot make /proc/self/blobs"),
        (&kmeans, "store:ftp://big/bucket", "`ftp` is no kind of storage"),
    ] {
        let said = fit(learner, workers);
        assert!(said.contains(words), "{learner:?} {workers}: {said}");
    }
    assert!(jobs(&bucket.status()).is_empty(), "what is refused leaves nothing");
    let both =
        bucket.run(&[&["fit"], &kmeans[..], &["--detach", "--out", "x", "--workers", &workers]].concat());
    assert!(both.status.code() == Some(2) && err(&both).contains("cannot be used with"), "{}", err(&both));
    // Two submitters with one name.
    bucket.detach(&kmeans, "night");
    let said = fit(&kmeans, &format!("{workers}?job=night"));
    assert!(said.contains("a job `night` is in this bucket already, submitted by"), "{said}");
    assert!(bucket.refused(&["store", "resume", &url, "night"]).contains("`qjam store attach` follows it"));
    // Jobs that cannot be followed.
    let attach = |name: &str| bucket.refused(&["store", "attach", &url, name]);
    assert!(attach("nothing").contains("there is no job `nothing`"));
    assert!(attach("No Name").contains("is no name of a job"));
    let bench = ["bench", "rounds", "--workers", &format!("{workers}?job=plain"), "--rounds", "1"];
    let waiting =
        bucket.command(&bench).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("that there is a job", || jobs(&bucket.status()).len() == 2);
    assert!(attach("plain").contains("it was not detached"));
    end(waiting);
    let other = bucket.file("other-build");
    let build = fs::read(env!("CARGO_BIN_EXE_qjam")).expect("an executable");
    fs::copy(env!("CARGO_BIN_EXE_qjam"), &other).expect("a copy");
    fs::write(&other, [&build[..], b"other"].concat()).expect("an executable");
    let said = bucket.command_of(&other, &["store", "attach", &url, "night"]).output().expect("it starts");
    assert!(err(&said).contains("submitted it with another build of this program"), "{}", err(&said));
    // Somebody damages what is there.
    let orders = files(&bucket.file("bucket/blobs/jobs"));
    let of_night = |path: &&std::path::PathBuf| path.to_string_lossy().contains("/night-");
    for order in orders.iter().filter(of_night).filter(|path| path.ends_with("order/00000")) {
        fs::remove_file(order).expect("an order");
    }
    let said = attach("night");
    assert!(
        said.contains("somebody has removed or damaged blobs of its round") && said.contains("gc --job"),
        "{said}"
    );
    // Whoever submitted it was killed before the last blob was there.
    for active in files(&bucket.file("bucket/blobs/active")) {
        fs::remove_file(active).expect("a file");
    }
    assert!(attach("night").contains("was ended before all of it was in the bucket"));
}

#[test]
fn a_signed_job_is_followed_by_whoever_has_the_key() {
    let mut bucket = Bucket::new("detached-key");
    let rows = bucket.data(300);
    let learner = ["kmeans", &rows, "--k", "2"];
    let wanted = bucket.threads(&learner);
    let (url, key, out) = (bucket.url(), bucket.file("key"), bucket.file("model"));
    bucket.out(&["store", "key", &key]);
    let workers = format!("{}?job=night", bucket.workers_string());
    let fit = [&["fit"], &learner[..], &["--detach", "--workers", &workers]].concat();
    let detached = bucket.command(&fit).env("QJAM_STORE_KEY", &key).output().expect("it starts");
    assert!(detached.status.success(), "{}", err(&detached));
    let said = String::from_utf8_lossy(&detached.stdout).into_owned();
    assert!(
        said.contains("no worker is there yet") && said.contains(&format!("attach {url} night")),
        "{said}"
    );
    let said = bucket.refused(&["store", "attach", &url, "night"]);
    assert!(said.contains("is signed with a key, and none was given here"), "{said}");
    bucket.serve(1, &["--key", &key]);
    bucket.out(&["store", "attach", &url, "night", "--key", &key, "--out", &out]);
    assert_eq!(fs::read(&out).expect("a model"), wanted);
}
