//! A bucket in a folder, workers that serve it, and the command that uses it.

#![allow(dead_code, reason = "each test executable uses a part of it")]
#![allow(unreachable_pub, reason = "it is a module of several test executables")]

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A wait longer than this counts as a hang. No verdict about speed uses it.
const HANG: Duration = Duration::from_secs(300);
/// Names a container of Azure's storage, to be used instead of folders by tests that look into no files.
const CONTAINER: &str = "QJAM_TEST_CONTAINER";

/// A folder with a bucket that is gone afterwards.
pub struct Bucket {
    pub folder: PathBuf,
    pub faults: &'static str,
    pub workers: Vec<Child>,
}

impl Bucket {
    pub fn new(name: &str) -> Bucket {
        let folder = std::env::temp_dir().join(format!("qjam-cli-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bucket")).expect("a folder");
        Bucket { folder, faults: "", workers: Vec::new() }
    }

    pub fn url(&self) -> String {
        match std::env::var(CONTAINER) {
            Ok(container) => {
                let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                format!("azure://{container}/{name}")
            }
            Err(_) => format!("file://{}", self.file("bucket")),
        }
    }

    pub fn workers_string(&self) -> String {
        format!("store:{}", self.url())
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    pub fn command_of(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("NO_COLOR", "1").env("QJAM_RUNS", "off");
        command.env("QJAM_STORE_TEST_FAULTS", self.faults).env_remove("QJAM_STORE_KEY");
        command.env("HOME", &self.folder).env_remove("XDG_CACHE_HOME");
        command
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_qjam"), args)
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the command starts")
    }

    pub fn out(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", err(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What a call that must fail says.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", err(&output));
        assert!(err(&output).starts_with("error: "), "{args:?}: {}", err(&output));
        err(&output)
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.out(args)).expect("JSON")
    }

    pub fn status(&self) -> Value {
        self.json(&["store", "status", &self.url(), "--json"])
    }

    pub fn serve(&mut self, count: usize, args: &[&str]) {
        let url = self.url();
        for n in 0..count {
            let name = format!("w{}", self.workers.len() + n);
            let all: Vec<&str> = [&["store", "serve", &url, "--slots", "1", "--name", &name], args].concat();
            let worker = self.command(&all).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
            self.workers.push(worker.expect("a worker"));
        }
        let wanted = self.workers.len();
        wait_until("that workers are there", || {
            self.status()["workers"].as_array().map(Vec::len) == Some(wanted)
        });
    }

    /// Ends the workers, and returns what they said.
    pub fn stop(&mut self) -> String {
        let mut said = String::new();
        for mut worker in self.workers.drain(..) {
            worker.kill().expect("it can be killed");
            let output = worker.wait_with_output().expect("it ends");
            said += &String::from_utf8_lossy(&output.stderr);
        }
        said
    }

    /// Fits a model, and returns its hash.
    pub fn fit(&self, learner: &[&str], workers: &str, model: &str) -> String {
        let out = self.file(model);
        let args = [&["fit"], learner, &["--workers", workers, "--out", &out, "--json"]].concat();
        self.json(&args)["hash"].as_str().expect("a hash").to_owned()
    }

    /// Rows of numbers that follow from their positions.
    pub fn data(&self, rows: usize) -> String {
        let text: String = (0..rows)
            .map(|n| {
                let at = |k: usize| ((n * (k + 3) * 7919) % 1009) as f64 / 100.0 + ((n * k) % 5) as f64 * 4.0;
                format!("{},{},{},{}\n", at(0), at(1), at(2), u8::from(at(0) + at(1) > 9.0 + at(2) / 3.0))
            })
            .collect();
        let path = self.file("rows.csv");
        fs::write(&path, format!("a,b,c,y\n{text}")).expect("a file");
        path
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let said = self.stop();
        if std::thread::panicking() && !said.is_empty() {
            let _ = fs::write(self.folder.with_extension("said"), said);
        }
        // The workers leave in order, as their parents are gone, and write there until then.
        let gone = Instant::now();
        while fs::remove_dir_all(&self.folder).is_err() && gone.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < HANG, "{what} has not happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Files below a folder.
pub fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

/// The jobs of a bucket.
pub fn jobs(status: &Value) -> &[Value] {
    status["jobs"].as_array().map_or(&[], Vec::as_slice)
}
