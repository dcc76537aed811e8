//! This executable as a program of its own, for what one process can only see of another.
//!
//! A promise about the end of a program, or about everything a process holds, cannot be checked among other tests. So
//! the executable is started again with the name of a program in its environment, runs that instead of tests, and is
//! watched from here. Whoever belongs to it carries its mark in the environment.

use crate::support::within;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const NAME: &str = "QJAM_TEST_PROGRAM";
const MARK: &str = "QJAM_TEST_MARK";
/// What a program says to the test, among what the test harness prints.
const SAYS: &str = "@ ";

/// Where a program begins. Does nothing among the tests.
#[test]
fn program() {
    let Ok(name) = std::env::var(NAME) else { return };
    let programs: BTreeMap<&str, fn()> =
        [crate::lifecycle::PROGRAMS, crate::leaks::PROGRAMS, crate::limits::PROGRAMS, crate::kills::PROGRAMS]
            .concat()
            .into_iter()
            .collect();
    programs[name.as_str()]();
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
    pub(crate) fn start(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["program::program", "--exact", "--nocapture", "--test-threads=1"])
            .env(NAME, name)
            .env(MARK, &mark)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
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
        while self.said.read_line(&mut line).unwrap() > 0 {
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

    /// Processes that belong to it, besides itself.
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

    /// Those of them that are through their `exec` and have asked to die with their parent: they have put their socket
    /// away by then. A process that is stopped before that stays so, whatever becomes of its parent: nothing of ours has
    /// run in it.
    pub(crate) fn executors(&self) -> Vec<u32> {
        let words = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).count()
        };
        // Before, its standard input is the socket. Other files may have come from whoever started the tests.
        let has_put_away = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|file| file.as_os_str() == "/dev/null")
        };
        self.others().into_iter().filter(|pid| words(pid) == 1 && has_put_away(pid)).collect()
    }

    /// Whether nobody of it is left within this time.
    pub(crate) fn leaves_nothing_within(&self, limit: Duration) -> Result<(), String> {
        let gone = within(limit, || self.others().is_empty());
        if gone { Ok(()) } else { Err(format!("{:?} are left", self.others())) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.others() {
            crate::support::signal(pid, rustix::process::Signal::KILL);
        }
    }
}
