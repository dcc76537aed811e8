//! This executable as a program of its own, which can be killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const NAME: &str = "QJAM_TEST_PROGRAM";
/// What a program says to the test, among what the test harness prints.
const SAYS: &str = "@ ";

/// Where a program begins. Does nothing among the tests.
#[test]
fn program() {
    match std::env::var(NAME).as_deref() {
        Ok("descent") => crate::kills::descent(),
        Ok("stateful") => crate::state::stateful(),
        Ok("crowded") => crate::files::crowded(),
        Ok("calling") => crate::waits::calling(),
        Ok(other) => panic!("no program {other}"),
        Err(_) => {}
    }
}

/// Tells the test something.
pub(crate) fn say(text: impl std::fmt::Display) {
    println!("{SAYS}{text}");
}

/// The command that runs a program.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["program::program", "--exact", "--nocapture", "--test-threads=1"])
        .env(NAME, name)
        .stdout(Stdio::piped());
    command
}

/// A running program. It is killed at the latest when this is dropped.
pub(crate) struct Program {
    pub(crate) child: Child,
    said: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(mut command: Command) -> Program {
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Program { child, said }
    }

    /// The next thing it says.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            if let Some((_, text)) = line.trim_end().split_once(SAYS) {
                return Some(text.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Everything else it says.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
