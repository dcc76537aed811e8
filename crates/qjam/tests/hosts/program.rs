//! This executable as a program of its own: a master that can be killed, or that runs a second time.

use crate::hosts::within;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

const NAME: &str = "QJAM_TEST_PROGRAM";
const ARGUMENT: &str = "QJAM_TEST_ARGUMENT";
const MARK: &str = "QJAM_TEST_MARK";
/// What a program says to the test, among what the test harness prints.
const SAYS: &str = "@ ";

/// A program of this executable, by name; it gets its argument.
pub(crate) type Programs = &'static [(&'static str, fn(&str))];

const PROGRAMS: [Programs; 6] = [
    crate::cache::PROGRAMS,
    crate::ends::PROGRAMS,
    crate::large::PROGRAMS,
    crate::mixed::PROGRAMS,
    crate::python::PROGRAMS,
    crate::stops::PROGRAMS,
];

/// Where a program begins. Does nothing among the tests.
#[test]
fn program() {
    let Ok(name) = std::env::var(NAME) else { return };
    let programs: BTreeMap<&str, fn(&str)> = PROGRAMS.concat().into_iter().collect();
    programs[name.as_str()](&std::env::var(ARGUMENT).unwrap_or_default());
}

/// Tells the test something.
pub(crate) fn say(text: impl std::fmt::Display) {
    println!("{SAYS}{text}");
}

/// A running program.
pub(crate) struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
    mark: String,
}

impl Program {
    pub(crate) fn start(name: &str, argument: &str) -> Self {
        let mark = format!(
            "{}-{:?}-{:?}",
            std::process::id(),
            std::thread::current().id(),
            std::time::Instant::now()
        );
        let mut child = Command::new("env")
            // Whoever started the tests may have them ignore Ctrl-C.
            .arg("--default-signal=INT")
            .arg(std::env::current_exe().unwrap())
            .args(["program::program", "--exact", "--nocapture", "--test-threads=1"])
            .env(NAME, name)
            .env(ARGUMENT, argument)
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own, as a shell gives a command.
            .process_group(0)
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Program { child, said, mark }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing it says.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap_or(0) > 0 {
            // The harness may have begun a line of its own.
            if let Some((_, text)) = line.trim_end().split_once(SAYS) {
                return Some(text.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Everything else it says, and how it ends.
    pub(crate) fn finish(&mut self) -> (Vec<String>, ExitStatus) {
        let said = std::iter::from_fn(|| self.hear()).collect();
        (said, self.child.wait().unwrap())
    }

    /// Processes of this machine that belong to it, besides itself.
    pub(crate) fn others(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_marked = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        pids.filter(|pid| *pid != self.pid()).filter(is_marked).collect()
    }

    /// Whether nobody of it is left on this machine within this time.
    pub(crate) fn leaves_nothing_within(&self, limit: Duration) -> bool {
        within(limit, || self.others().is_empty())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
