//! A test executable as a program of its own, for what one process can only see of another.
//!
//! A promise about the end of a program, or about everything a process holds, cannot be checked among other tests. So the
//! executable is started again with the name of a program in its environment. It then runs that before its `main`, so that no
//! test has to stand for it, and ends. Whoever belongs to it carries its mark in the environment.

use crate::HANG;
use crate::support::{signal, within};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const NAME: &str = "QJAM_TEST_PROGRAM";
const ARGUMENT: &str = "QJAM_TEST_ARGUMENT";
const MARK: &str = "QJAM_TEST_MARK";
/// What a program says to the test, among what else it prints.
const SAYS: &str = "@ ";

/// Programs by name; each gets its argument.
pub type Programs = &'static [(&'static str, fn(&str))];

/// What a test executable does before its `main`: it serves if it was started as a worker, and runs a program if it was
/// started as one: of those given, or of the promises'.
#[macro_export]
macro_rules! hook {
    ($($programs:expr),* $(,)?) => {
        const _: () = {
            extern "C" fn before_main() {
                $crate::program::before_main(&[&[$($programs),*], $crate::PROGRAMS].concat());
            }
            #[used]
            #[allow(unsafe_code, reason = "running before main is what this macro is for")]
            #[unsafe(link_section = ".init_array")]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
}

/// See [`hook!`](crate::hook).
pub fn before_main(programs: &[Programs]) {
    // First of all: the workers of a program have its variables.
    qjam::worker::serve_if_asked();
    let Ok(name) = std::env::var(NAME) else { return };
    let mut all = programs.iter().copied().flatten();
    let program = all.find(|(own, _)| *own == name).map(|(_, program)| *program);
    let argument = std::env::var(ARGUMENT).unwrap_or_default();
    let ended =
        std::panic::catch_unwind(|| program.unwrap_or_else(|| panic!("no program {name}"))(&argument));
    std::process::exit(if ended.is_ok() { 0 } else { 101 });
}

/// Tells the test something.
pub fn say(text: impl std::fmt::Display) {
    println!("{SAYS}{text}");
}

/// What was said in a line, if that is a program's word to the test.
pub fn said(line: &str) -> Option<&str> {
    line.trim_end().split_once(SAYS).map(|(_, text)| text)
}

/// The command that runs a program of this executable.
pub fn command(name: &str, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    as_program(&mut command, name, argument);
    command
}

/// Has a command that ends in this executable run a program.
pub fn as_program(command: &mut Command, name: &str, argument: &str) {
    command.env(NAME, name).env(ARGUMENT, argument).stdin(Stdio::null());
}

/// A running program. It is killed at the latest when this is dropped, and so is whoever belongs to it on this machine.
pub struct Program {
    /// Its process.
    pub child: Child,
    said: BufReader<ChildStdout>,
    mark: String,
}

impl Program {
    /// Starts one of this executable, with nobody to hear its complaints.
    pub fn start(name: &str, argument: &str) -> Self {
        let mut command = command(name, argument);
        command.stderr(Stdio::null());
        Program::run(command)
    }

    /// Starts a command that becomes one.
    pub fn run(mut command: Command) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut child = command.env(MARK, &mark).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Program { child, said, mark }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing it says.
    pub fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap_or(0) > 0 {
            if let Some(text) = said(&line) {
                return Some(text.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Everything else it says, and how it ends.
    pub fn finish(&mut self) -> (Vec<String>, ExitStatus) {
        let said = std::iter::from_fn(|| self.hear()).collect();
        (said, self.child.wait().unwrap())
    }

    /// Processes of this machine that belong to it, besides itself.
    pub fn others(&self) -> Vec<u32> {
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
    pub fn executors(&self) -> Vec<u32> {
        // Before `exec` a process has its parent's environment, in which nothing asks for an executor.
        let is_executor = |pid: &u32| {
            let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"QJAM_EXECUTOR="))
        };
        // Before, its standard input is the socket. Other files may have come from whoever started the tests.
        let has_put_away = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|file| file.as_os_str() == "/dev/null")
        };
        self.others().into_iter().filter(|pid| is_executor(pid) && has_put_away(pid)).collect()
    }

    /// Waits until nobody of it is left on this machine.
    pub fn leaves_nothing(&self, what: &str) {
        let gone = within(HANG, || self.others().is_empty());
        assert!(gone, "{what}: {:?} are left", self.others());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.others() {
            signal(pid, Signal::KILL);
        }
    }
}
