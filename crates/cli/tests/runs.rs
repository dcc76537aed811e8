//! What runs leave, as people look at it, go on from it, and repeat it.

use qjam::runs::{self, Run};
use serde_json::Value;
use std::io::{BufRead, BufReader};
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
    assert_eq!(out(&folder.run(&["show"])), text, "without a name the latest run is shown");
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

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new("full");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the system has it");
    for args in [ROUNDS, &["runs"], &["show"], &["--help"], &["--version"]] {
        let output = folder.command(args).stdout(full()).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = err(&output);
        assert!(
            said.contains("standard output cannot be written") && said.contains("No space left"),
            "{said}"
        );
    }
    let shown = folder.json(&["show", "--json"]);
    assert_eq!(shown["state"], "failed");
    assert!(shown["error"].as_str().unwrap().contains("No space left"), "{shown}");
    // A fit has saved its model by then, and says all the same that nobody got what it printed.
    let (data, model) = (folder.0.join("x.csv"), folder.0.join("model"));
    std::fs::write(&data, "1,2\n3,4\n5,6\n").unwrap();
    let [data, model] = [&data, &model].map(|path| path.to_str().unwrap());
    let fit = ["fit", "kmeans", data, "--k", "2", "--out", model];
    let fit_json = [&fit[..], &["--json"]].concat();
    for args in [&fit[..], &fit_json, &["predict", model, data], &["inspect", model]] {
        let output = folder.command(args).stdout(full()).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", err(&output));
        assert!(err(&output).contains("standard output cannot be written"), "{args:?}: {}", err(&output));
    }
    assert!(folder.run(&["inspect", model]).status.success());
}

#[test]
fn a_run_that_nobody_reads_any_more_is_not_called_killed() {
    let folder = Folder::new("closed");
    let closed = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = folder.command(args).stdout(writer).output().expect("the command starts");
        assert!(output.status.success() && err(&output).is_empty(), "{}", err(&output));
        folder.json(&["show", "--json"])
    };
    let rounds = closed(ROUNDS);
    assert_eq!(rounds["state"], "failed");
    assert!(rounds["error"].as_str().unwrap().contains("nobody reads"), "{rounds}");
    // A fit has saved its model by then.
    let (data, model) = (folder.0.join("x.csv"), folder.0.join("model"));
    std::fs::write(&data, "1,2\n3,4\n5,6\n").unwrap();
    let [data, model] = [&data, &model].map(|path| path.to_str().unwrap());
    let fit = closed(&["fit", "kmeans", data, "--k", "2", "--out", model]);
    assert_eq!(fit["state"], "finished");
    let predict = closed(&["predict", model, data]);
    assert_eq!(predict["state"], "finished");
}

#[test]
fn a_fit_that_waits_says_so_where_there_is_no_terminal() {
    let folder = Folder::new("waits");
    std::fs::create_dir_all(&folder.0).unwrap();
    let data = folder.0.join("x.csv");
    std::fs::write(&data, "1,2\n3,4\n").unwrap();
    // A host that takes the connection and never answers.
    let silent = folder.0.join("silent");
    std::fs::write(&silent, "#!/bin/sh\nexec cat >/dev/null\n").unwrap();
    let mut child = folder
        .command(&[
            "fit",
            "kmeans",
            data.to_str().unwrap(),
            "--k",
            "1",
            "--workers",
            "far",
            "--out",
            "/dev/null",
        ])
        .env("QJAM_SSH", format!("sh {}", silent.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = said.take(1).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said[0].starts_with("[qjam] ") && said[0].contains("waiting for far"), "{said:?}");
}

#[test]
fn a_memory_limit_that_nothing_enforces_is_told() {
    let folder = Folder::new("limit");
    std::fs::create_dir_all(&folder.0).unwrap();
    let data = folder.0.join("x.csv");
    std::fs::write(&data, "1,2\n3,4\n5,6\n").unwrap();
    for (workers, is_told) in [("local:1", true), ("proc:1", false)] {
        let fit = ["fit", "kmeans", data.to_str().unwrap(), "--k", "1", "--out", "/dev/null"];
        let fit =
            folder.command(&fit).args(["--memory-limit", "64M", "--workers", workers]).output().unwrap();
        assert!(fit.status.success(), "{}", err(&fit));
        assert_eq!(
            err(&fit).contains("nothing holds them to the limit"),
            is_told,
            "{workers}: {}",
            err(&fit)
        );
    }
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
    // By chance it may come to the same number again.
    let replayed = (0..20).map(|_| folder.run(&["replay", &id])).find(|again| again.status.code() == Some(1));
    let replayed = replayed.expect("a replay that differs");
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

/// A run file that has nothing but a beginning, and names another program.
fn forged(folder: &Folder, real: &Path, program: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    const HEAD_BYTES: usize = 16;
    assert!(folder.run(ROUNDS).status.success());
    let newest = runs::list(&folder.0).ok().and_then(|files| files.last().cloned()).expect("a run file");
    let file = std::fs::read(newest).expect("it can be read");
    let length =
        file[HEAD_BYTES..HEAD_BYTES + 4].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
    let mut body = file[HEAD_BYTES + 8..HEAD_BYTES + 8 + length].to_vec();
    // A text is its length and its bytes, as postcard writes them.
    let text = |path: &Path| postcard::to_stdvec(path.as_os_str().as_bytes()).expect("bytes can be written");
    let (real, program) = (text(real), text(program));
    let at = body.windows(real.len()).position(|bytes| bytes == real).expect("the program is in it");
    body.splice(at..at + real.len(), program);
    let frame = [(body.len() as u32).to_le_bytes(), crc32fast::hash(&body).to_le_bytes()].concat();
    [&file[..HEAD_BYTES], &frame, &body].concat()
}

#[test]
fn a_file_that_others_can_have_written_is_not_run_but_shown() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("forged");
    let elsewhere = Folder::new("elsewhere");
    std::fs::create_dir_all(&elsewhere.0).unwrap();
    let real = std::fs::canonicalize(env!("CARGO_BIN_EXE_qjam")).unwrap();
    let mark = elsewhere.0.join("ran");
    let program = elsewhere.0.join("program");
    std::fs::write(&program, format!("#!/bin/sh\ntouch '{}'\n", mark.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let forged = forged(&folder, &real, &program);
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let put = |place: &Path| {
        let path = place.join("20261115T063324Z-00ff1e.run");
        std::fs::write(&path, &forged).unwrap();
        mode(&path, 0o600);
        path
    };
    let (outside, inside) = (put(&elsewhere.0), put(&folder.0));
    let refused = |args: &[&str], words: &str| {
        for command in ["resume", "replay"] {
            let output = folder.command(&[command]).args(args).output().unwrap();
            let said = err(&output);
            assert!(output.status.code() == Some(1) && said.contains(words), "{command} {args:?}: {said}");
            assert!(!mark.exists(), "{command} {args:?} ran it");
        }
    };
    let (outside, name) = (outside.to_str().unwrap(), "00ff1e");
    refused(&[outside], "is not in the folder of runs");
    refused(&[outside], program.to_str().unwrap());
    refused(&[outside, "--anyway"], "--trust runs it");
    mode(&inside, 0o620);
    refused(&[name], "can be written by other users");
    mode(&inside, 0o600);
    mode(&folder.0, 0o777);
    refused(&[name], "can be written by other users");
    mode(&folder.0, 0o700);
    assert!(rustix::process::geteuid().is_root(), "NOT TESTED for lack of root: files of other users");
    for path in [&inside, &folder.0] {
        std::os::unix::fs::chown(path, Some(1234), None).unwrap();
        refused(&[inside.to_str().unwrap()], &format!("{} belongs to another user", path.display()));
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
    // In its place, and this user's own: what is left is that nothing says which build it was.
    refused(&[name], "has no hash of its executable");
    refused(&[outside, "--trust"], "has no hash of its executable");
    let trusted = folder.run(&["resume", outside, "--trust", "--anyway"]);
    assert!(mark.exists() && err(&trusted).contains("running what the file says"), "{}", err(&trusted));
    assert!(err(&trusted).contains(program.to_str().unwrap()), "{}", err(&trusted));
}

#[test]
fn secrets_of_a_command_line_are_not_recorded() {
    let folder = Folder::new("secrets");
    std::fs::create_dir_all(&folder.0).unwrap();
    let data = folder.0.join("password=hunter2.csv");
    std::fs::write(&data, "1,2\n3,4\n5,6\n").unwrap();
    let fit = folder.run(&["fit", "kmeans", data.to_str().unwrap(), "--k", "1", "--out", "/dev/null"]);
    assert!(fit.status.success(), "{}", err(&fit));
    let file = std::fs::read(runs::list(&folder.0).unwrap().last().unwrap()).unwrap();
    assert!(!file.windows(7).any(|bytes| bytes == b"hunter2"), "it is in the run file");
    let replayed = folder.run(&["replay", "last"]);
    assert!(err(&replayed).contains("had a secret, which is not recorded"), "{}", err(&replayed));
}

#[test]
fn run_files_cannot_move_the_cursor() {
    let folder = Folder::new("cursor");
    std::fs::create_dir_all(&folder.0).unwrap();
    // What a run file has of its program is whatever the program was called.
    let program = folder.0.join("harm\u{1b}[2J\u{9b}less");
    std::fs::copy(env!("CARGO_BIN_EXE_qjam"), &program).unwrap();
    let runs = folder.0.join("runs");
    let ran = Command::new(&program).args(ROUNDS).env("QJAM_RUNS", &runs).output().unwrap();
    assert!(ran.status.success(), "{}", err(&ran));
    let bad = folder.0.join("bad.csv");
    std::fs::write(&bad, "1,2\n3,\u{1b}[2Jx\n").unwrap();
    // A model file of a kind that nobody knows: a length, a header, no tensors.
    let header = r#"{"__metadata__":{"qjam":"{\"kind\":\"harm\\u001b[2J\",\"version\":1}"}}"#;
    let model = folder.0.join("bad.model");
    std::fs::write(&model, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()).unwrap();
    let is_plain = |text: &str| !text.contains(['\u{1b}', '\u{9b}']);
    for (args, says) in [
        (vec!["runs"], "harm\\u{1b}[2J\\u{9b}less"),
        (vec!["show"], "harm\\u{1b}[2J\\u{9b}less"),
        (vec!["fit", "kmeans", bad.to_str().unwrap(), "--k", "1", "--out", "never.qjam"], "\\u{1b}[2Jx"),
        (vec!["inspect", model.to_str().unwrap()], "harm\\u{1b}[2J"),
    ] {
        let output = folder.command(&args).env("QJAM_RUNS", &runs).output().unwrap();
        let text = out(&output) + &err(&output);
        assert!(text.contains(says) && is_plain(&text), "{args:?}: {text:?}");
    }
    let output = folder.command(&["runs", "--json"]).env("QJAM_RUNS", &runs).output().unwrap();
    assert!(is_plain(&out(&output)));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let programs: Vec<&Value> = list["runs"].as_array().unwrap().iter().map(|run| &run["program"]).collect();
    assert!(programs.contains(&&Value::from("harm\u{1b}[2J\u{9b}less")), "{programs:?}");
}
