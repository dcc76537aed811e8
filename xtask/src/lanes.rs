//! Runs two lanes of steps at the same time: builds for tests with the tests, and builds for users with the Python package.
//!
//! A single step rarely keeps two cores busy: tests wait for processes, and the last crate of a build is compiled alone. The lanes use
//! different profiles, so that cargo's locks do not make one wait for the other.
//!
//! Each step runs in a process of its own, another instance of this executable, so that all of its output goes to a file. The files are
//! printed one after the other, as steps end.

use crate::args::STEP;
use crate::failure::{AboutFile, Failure};
use crate::step::{Done, Lane, Step, StepResult, run_here};
use crate::steps::{CHECKS, SETUP};
use crate::workspace::Workspace;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Runs the steps of both lanes; each lane in order, and each step after those it waits for. The results are in the order of `steps`.
pub fn run(workspace: &Workspace, steps: &[&'static Step]) -> Vec<Done> {
    let (ended, changed) = (Mutex::new(Vec::<Done>::new()), Condvar::new());
    let lock = || ended.lock().unwrap_or_else(PoisonError::into_inner);
    let lane = |lane: Lane| {
        for step in steps.iter().filter(|step| step.lane == lane) {
            let missing = |done: &mut Vec<Done>| {
                let has_ended = |name| done.iter().any(|(ended, ..)| ended == name);
                let is_coming = |name| steps.iter().any(|step| step.name == name);
                step.after.iter().any(|name| is_coming(*name) && !has_ended(name))
            };
            drop(changed.wait_while(lock(), missing).unwrap_or_else(PoisonError::into_inner));
            eprintln!("--> {} begins", step.name);
            let began = Instant::now();
            let (outcome, said) = elsewhere(workspace, step);
            let outcome = outcome.map_err(|why| with_reasons(why, &said));
            let mut done = lock();
            // Printed under the lock: two steps may end at once.
            let failed = outcome.as_ref().err().map(|why| format!("FAILED {}: {why}\n", step.name));
            println!("\n==> {}\n{}{}", step.name, said.trim_end(), failed.unwrap_or_default());
            done.push((step.name, began.elapsed(), outcome));
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| lane(Lane::Tests));
        lane(Lane::Package);
    });
    let mut done = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(name, ..)| steps.iter().position(|step| step.name == *name));
    done
}

/// So many lines of a step's output are repeated below the table.
const REASONS_MAX: usize = 40;

/// A failure, and with it the lines that name what failed or was not tested: whoever has only the end of the output reads the table alone.
fn with_reasons(why: Failure, said: &str) -> Failure {
    let (mut lines, own): (Vec<&str>, String) = (Vec::new(), why.to_string());
    let mut follows_panic = false;
    // The step itself has printed why it failed.
    for line in said.lines().filter(|line| !line.contains(&own)) {
        let names_test = line.starts_with("test ") && line.trim_end().ends_with("FAILED");
        let is_summary = ["NOT TESTED", "FAILED ", "ERROR "].iter().any(|start| line.starts_with(start));
        let is_panic = line.starts_with("thread '") && line.contains(" panicked at ");
        if (names_test || is_summary || is_panic || follows_panic) && !lines.contains(&line) {
            lines.push(line);
        }
        follows_panic = is_panic;
    }
    if lines.is_empty() {
        return why;
    }
    let more = lines.len().saturating_sub(REASONS_MAX);
    lines.truncate(REASONS_MAX);
    let more = if more == 0 { String::new() } else { format!("\n    and {more} more lines") };
    Failure::Told(format!("{why}\n    {}{more}", lines.join("\n    ")))
}

/// Runs a step in its own process; returns its result and output.
fn elsewhere(workspace: &Workspace, step: &Step) -> (StepResult, String) {
    let folder = match workspace.empty_folder(&format!("steps/{}", step.name)) {
        Ok(folder) => folder,
        Err(failure) => return (Err(failure), String::new()),
    };
    let (printed, outcome) = (folder.join("printed"), folder.join("outcome"));
    let temporary = match Temporary::new(step.name) {
        Ok(temporary) => temporary,
        Err(failure) => return (Err(failure), String::new()),
    };
    let run = || -> StepResult {
        let to = File::create(&printed).about(&printed)?;
        let this = std::env::current_exe().about("this executable")?;
        let mut command = if step.patient { Command::new("nice") } else { Command::new(&this) };
        if step.patient {
            command.args(["-n", "10"]).arg(&this);
        }
        command.arg(STEP).arg(step.name).arg(&outcome).stdin(Stdio::null());
        command.stdout(to.try_clone().about(&printed)?).stderr(to).env("TMPDIR", &temporary.0);
        let status = command.status().map_err(|source| {
            let command = format!("{} {STEP} {}", this.display(), step.name);
            Failure::Start { command, source }
        })?;
        let note = match std::fs::read_to_string(&outcome) {
            Ok(text) => read(&text)?,
            Err(_) => return Err(Failure::Told(format!("it ended without a word, with {status}"))),
        };
        match temporary.ours() {
            left if left.is_empty() => Ok(note),
            left => Err(Failure::Told(format!("it left {} among temporary files", left.join(", ")))),
        }
    };
    let outcome = run();
    let said = std::fs::read(&printed).unwrap_or_default();
    (outcome, String::from_utf8_lossy(&said).into_owned())
}

/// A folder for a step's temporary files, removed when dropped.
struct Temporary(PathBuf);

impl Temporary {
    /// In the system's temporary folder instead of the target folder, because paths of sockets must be short.
    fn new(name: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).about(&path)?;
        Ok(Temporary(path))
    }

    /// Files that our programs and tests have left. Files that Python's tools keep for diagnosis are ignored.
    fn ours(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("qjam")).collect()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The process of a step: runs it and writes the result to a file.
pub fn one_step(workspace: &Workspace, name: &str, file: &Path) -> StepResult {
    let step = SETUP.iter().chain(CHECKS).find(|step| step.name == name);
    let remedy = || "`cargo xtask list` names them".to_string();
    let step = step.ok_or_else(|| Failure::Missing { tool: format!("a step '{name}'"), remedy: remedy() })?;
    let (_, _, outcome) = run_here(workspace, step);
    // Renamed when complete, so that a partial result is never read.
    let beside = file.with_extension("new");
    std::fs::write(&beside, written(&outcome)).about(&beside)?;
    std::fs::rename(&beside, file).about(file)?;
    Ok(String::new())
}

/// A result as text.
fn written(outcome: &StepResult) -> String {
    match outcome {
        Ok(note) => format!("ok\n{note}"),
        Err(failure) => format!("failed\n{failure}"),
    }
}

/// Parses the text of a result.
fn read(text: &str) -> StepResult {
    match text.split_once('\n') {
        Some(("ok", note)) => Ok(note.to_string()),
        Some(("failed", why)) => Err(Failure::Told(why.to_string())),
        _ => Err(Failure::Unexpected { what: format!("it said '{text}'"), expected: "'ok' or 'failed'" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_leave_among_temporary_files_is_named_and_removed() {
        let temporary = Temporary::new("of-a-test").unwrap();
        for name in ["qjam-left", "pytest-of-somebody"] {
            std::fs::create_dir(temporary.0.join(name)).unwrap();
        }
        assert_eq!(temporary.ours(), ["qjam-left"]);
        let path = temporary.0.clone();
        drop(temporary);
        assert!(!path.exists());
    }

    #[test]
    fn what_failed_or_was_not_tested_is_told_with_the_failure() {
        let with = |said: &str| with_reasons(Failure::Told("it gave up".into()), said).to_string();
        assert_eq!(with("NOT TESTED, since so\nmore\n"), "it gave up\n    NOT TESTED, since so");
        assert_eq!(with("all well\ntest a ... ok\nFAILED step: it gave up\n"), "it gave up");
        let cargo = "test a ... FAILED\nthread 'a' (7) panicked at x.rs:1:\nleft is not right\n  note\ntest a ... FAILED\n";
        let told = "it gave up\n    test a ... FAILED\n    thread 'a' (7) panicked at x.rs:1:\n    left is not right";
        assert_eq!(with(cargo), told);
        let pytest = "collected\nFAILED tests/test_a.py::test_b - assert 1 == 2\n";
        assert_eq!(with(pytest), "it gave up\n    FAILED tests/test_a.py::test_b - assert 1 == 2");
        let many: String = (0..50).map(|n| format!("test t{n} ... FAILED\n")).collect();
        assert!(with(&many).ends_with("test t39 ... FAILED\n    and 10 more lines"));
    }

    #[test]
    fn outcomes_come_through_a_file() {
        for outcome in [Ok(String::new()), Ok("two\nlines".into()), Err(Failure::Told("no\nluck".into()))] {
            let again = read(&written(&outcome));
            assert_eq!(format!("{again:?}"), format!("{outcome:?}"));
        }
        assert!(read("").is_err() && read("perhaps\n").is_err());
    }

    #[test]
    fn a_step_waits_only_for_earlier_ones_of_the_other_lane() {
        let all: Vec<&Step> = SETUP.iter().chain(CHECKS).collect();
        for (i, step) in all.iter().enumerate() {
            for name in step.after {
                let waited = all[..i].iter().find(|earlier| earlier.name == *name);
                let lane = waited.unwrap_or_else(|| panic!("{} waits for {name}", step.name)).lane;
                assert!(![step.lane, Lane::Alone].contains(&lane), "{} need not wait for {name}", step.name);
            }
        }
    }
}
