//! What runs leave, as people look at it, go on from it, and repeat it.

use qjam::runs::{self, Run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A folder of runs that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("qjam-cli-runs-{}-{name}", std::process::id())))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qjam"));
        command.args(args).env("NO_COLOR", "1").env("QJAM_RUNS", &self.0);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the command starts")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", err(&output)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ROUNDS: &[&str] = &["bench", "rounds", "--workers", "proc:2", "--rounds", "10", "--json"];

#[test]
fn runs_are_listed_and_shown_to_people_and_to_programs() {
    let folder = Folder::new("shown");
    assert!(out(&folder.run(&["runs"])).starts_with("No runs in "));
    assert!(!folder.0.exists(), "looking makes nothing");
    assert!(folder.run(ROUNDS).status.success());
    let failing = ["bench", "rounds", "--workers", "big", "--rounds", "3"];
    let failed = folder.command(&failing).env("QJAM_SSH", "false").output().unwrap();
    assert!(!failed.status.success());

    let list = folder.json(&["runs", "--json"]);
    assert_eq!(list["folder"].as_str(), folder.0.to_str());
    let states: Vec<&str> =
        list["runs"].as_array().unwrap().iter().filter_map(|r| r["state"].as_str()).collect();
    assert_eq!(states, ["failed", "finished"]);
    let first = &list["runs"][1];
    assert_eq!(
        (&first["rounds"], &first["workers"], &first["program"]),
        (&15.into(), &"proc:2".into(), &"qjam".into())
    );
    let id = first["id"].as_str().unwrap();
    let text = out(&folder.run(&["runs"]));
    for word in ["id", "began", "program", "workers", "rounds", "state", "time", "size", id, "failed", "15"] {
        assert!(text.contains(word), "{word} is missing from:\n{text}");
    }

    let shown = folder.json(&["show", id, "--rounds", "--json"]);
    assert_eq!(
        (&shown["id"], &shown["state"], &shown["failed"]),
        (&id.into(), &"finished".into(), &0.into())
    );
    assert_eq!((&shown["computed"], &shown["results_kept"]), (&15.into(), &15.into()));
    assert!(shown["total"]["bytes_out"].as_u64().unwrap() > 0);
    assert_eq!(shown["list"].as_array().unwrap().len(), 15);
    assert_eq!(shown["list"][0]["result"], shown["list"][14]["result"]);
    let text = out(&folder.run(&["show", &id[id.len() - 6..], "--rounds"]));
    for word in [
        "T_worker",
        "T_master",
        "T_overhead",
        "seed",
        "version",
        "executable",
        "data",
        "bench_rounds::double",
        "result",
    ] {
        assert!(text.contains(word), "{word} is missing from:\n{text}");
    }
    let text = out(&folder.run(&["show", "last"]));
    assert!(text.contains("failed") && text.contains("big"), "{text}");
    for (name, words) in [
        ("nothing", "no run of that name"),
        ("", "no run of that name"),
        ("/nonexistent.run", "cannot be read"),
    ] {
        let output = folder.run(&["show", name]);
        assert!(output.status.code() == Some(1) && err(&output).contains(words), "{name}: {}", err(&output));
    }
}

#[test]
fn with_recording_off_nothing_is_left() {
    let folder = Folder::new("off");
    let output =
        folder.command(ROUNDS).env("QJAM_RUNS", "off").env("XDG_DATA_HOME", &folder.0).output().unwrap();
    assert!(output.status.success() && !folder.0.exists());
    let output =
        folder.command(ROUNDS).env_remove("QJAM_RUNS").env("XDG_DATA_HOME", &folder.0).output().unwrap();
    assert!(output.status.success());
    assert_eq!(std::fs::read_dir(folder.0.join("qjam/runs")).unwrap().count(), 1);
}

/// The demo, small; its last line but one has the bits.
fn demo(picture: &Path) -> [String; 7] {
    let picture = picture.display().to_string();
    ["demo", "--patches", "2000", "--evaluations", "60", "--out", &picture].map(str::to_owned)
}

fn bits(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("The bits are equal: ")).map(str::to_owned)
}

/// How many rounds the file of the last run has.
fn rounds(folder: &Folder) -> u64 {
    let last = runs::list(&folder.0).ok().and_then(|files| Run::read(files.last()?).ok());
    last.map_or(0, |run| run.rounds)
}

/// Starts a program and stops it when some rounds are done; nothing if it was over before.
fn stopped_in_its_rounds(folder: &Folder, args: &[&str]) -> Option<Child> {
    let _ = std::fs::remove_dir_all(&folder.0);
    let mut program = folder.command(args).stdout(Stdio::null()).spawn().expect("the command starts");
    while rounds(folder) < 5 && program.try_wait().expect("it can be waited for").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stopped =
        Command::new("kill").args(["-s", "STOP", &program.id().to_string()]).status().expect("kill runs");
    (stopped.success() && program.try_wait().expect("it can be waited for").is_none()).then_some(program)
}

#[test]
fn a_killed_program_goes_on_where_it_was() {
    let folder = Folder::new("resumed");
    let pictures = Folder::new("pictures");
    std::fs::create_dir_all(&pictures.0).unwrap();
    let words = demo(&pictures.0.join("features.png"));
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let undisturbed = out(&folder.run(&args));
    std::fs::remove_dir_all(&folder.0).unwrap();

    // Stopped when some of its rounds are done, so that it is not over however fast it is.
    let mut killed =
        (0..20).find_map(|_| stopped_in_its_rounds(&folder, &args)).expect("one that can be stopped");
    let running = folder.run(&["resume", "last"]);
    assert!(err(&running).contains("still going on"), "{}", err(&running));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let known = rounds(&folder);

    let resumed = folder.run(&["resume", "last"]);
    assert!(resumed.status.success(), "{}", err(&resumed));
    assert!(err(&resumed).contains("going on from run"), "{}", err(&resumed));
    assert!(bits(&undisturbed).is_some() && bits(&out(&resumed)) == bits(&undisturbed), "{}", out(&resumed));
    let list = folder.json(&["runs", "--json"]);
    let oldest_new =
        list["runs"].as_array().unwrap().iter().rev().find(|run| run["state"] == "finished").unwrap();
    let shown = folder.json(&["show", oldest_new["id"].as_str().unwrap(), "--json"]);
    assert!(shown["recalled"].as_u64().unwrap() >= known.min(60), "{known}: {shown}");

    let finished = folder.run(&["resume", "last"]);
    assert!(!finished.status.success() && err(&finished).contains("has finished"), "{}", err(&finished));
}

#[test]
fn a_replay_says_equal_or_names_the_first_round_that_differs() {
    let folder = Folder::new("replayed");
    assert!(folder.run(ROUNDS).status.success());
    let replayed = folder.run(&["replay", "last"]);
    assert!(replayed.status.success(), "{}", err(&replayed));
    assert!(out(&replayed).contains("equal: 15 of 15 rounds compared"), "{}", out(&replayed));
    assert_eq!(folder.json(&["runs", "--json"])["runs"].as_array().unwrap().len(), 1);

    // This benchmark sends along how often it measures, which depends on the time.
    let timed =
        ["bench", "autoencoder", "--patches", "300", "--workers", "local:2", "--evaluations", "10", "--json"];
    assert!(folder.run(&timed).status.success());
    let list = folder.json(&["runs", "--json"]);
    let is_meant = |run: &&Value| run["workers"] == "local:2";
    let id =
        list["runs"].as_array().unwrap().iter().find(is_meant).unwrap()["id"].as_str().unwrap().to_owned();
    let replayed = folder.run(&["replay", &id]);
    assert_eq!(replayed.status.code(), Some(1), "{}", out(&replayed));
    for words in ["round 1 ", "evaluate_again", "differs"] {
        assert!(out(&replayed).contains(words), "{words} is missing from {}", out(&replayed));
    }
}

#[test]
fn a_program_that_was_changed_is_refused() {
    let folder = Folder::new("changed");
    std::fs::create_dir_all(&folder.0).unwrap();
    let copy = folder.0.join("program");
    std::fs::copy(env!("CARGO_BIN_EXE_qjam"), &copy).unwrap();
    // Its hash is taken beside the run, and is in the file of one that is long enough.
    let has_hash = |rounds: u32| {
        let mut command = Command::new(&copy);
        command.args(["bench", "rounds", "--workers", "local:1", "--sleep-ms", "5", "--rounds"]);
        command.arg(rounds.to_string());
        assert!(command.env("QJAM_RUNS", &folder.0).output().unwrap().status.success());
        let files = runs::list(&folder.0).unwrap();
        Run::read(files.last().unwrap()).unwrap().executable.is_some()
    };
    assert!([100, 200, 400, 800, 1600, 3200].into_iter().any(has_hash), "no hash");
    std::fs::remove_file(&copy).unwrap();
    let gone = folder.run(&["replay", "last"]);
    assert!(!gone.status.success() && err(&gone).contains("is gone"), "{}", err(&gone));
    let mut other = std::fs::read(env!("CARGO_BIN_EXE_qjam")).unwrap();
    other.push(0);
    std::fs::write(&copy, other).unwrap();
    for command in ["replay", "resume"] {
        let output = folder.run(&[command, "last"]);
        let text = err(&output);
        let said = text.contains("is not the executable") || text.contains("has finished");
        assert!(output.status.code() == Some(1) && said, "{command}: {text}");
    }
}
