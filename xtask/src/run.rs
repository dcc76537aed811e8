//! Runs one program to its end, or to its time limit.
//!
//! Programs have an empty standard input, so that none waits for the user. Without a terminal each gets its own process group, so that
//! ending it at the limit also ends its children; with a terminal it stays in ours, so that Ctrl-C reaches it.

use crate::failure::Failure;
use crate::leftovers;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// A program about to be run.
pub struct Run {
    command: Command,
    limit: Duration,
}

impl Run {
    /// A program without arguments and with a limit of half an hour.
    pub fn new(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        if !std::io::stdin().is_terminal() {
            command.process_group(0);
        }
        Run { command, limit: Duration::from_secs(30 * 60) }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds one argument.
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes all variables whose names begin with one of these.
    pub fn without(mut self, beginnings: &[&str]) -> Self {
        let ours = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let set: Vec<String> =
            self.command.get_envs().filter_map(|(name, _)| name.to_str().map(String::from)).collect();
        for name in ours.chain(set).filter(|name| beginnings.iter().any(|begin| name.starts_with(begin))) {
            self.command.env_remove(name);
        }
        self
    }

    /// Sets its working folder.
    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets its standard input.
    pub fn input(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Sets the time limit in minutes.
    pub fn limit_min(mut self, minutes: u64) -> Self {
        self.limit = Duration::from_secs(minutes * 60);
        self
    }

    /// Sets the time limit in seconds.
    pub fn limit_s(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Runs it with our standard output.
    pub fn run(mut self) -> Result<String, Failure> {
        eprintln!("    {}", self.shown());
        let mut child = self.start()?;
        let status = self.wait(&mut child)?;
        self.judge(status).map(|()| String::new())
    }

    /// Runs it, prints its output as it arrives, and returns it.
    pub fn tee(mut self) -> Result<String, Failure> {
        eprintln!("    {}", self.shown());
        self.lines(true)
    }

    /// Runs it without printing anything and returns its output; for example to ask for a version.
    pub fn ask(mut self) -> Result<String, Failure> {
        self.command.stderr(Stdio::null());
        self.lines(false)
    }

    /// Like [`Run::tee`], and fails if a process that it started is left.
    pub fn tee_and_leave_nothing(self) -> Result<String, Failure> {
        let mark = leftovers::Mark::new();
        let shown = self.shown();
        let outcome = self.env(leftovers::VARIABLE, mark.value()).tee();
        // Those left behind are ended either way; they are only told of when nothing worse happened.
        let processes = mark.end_all();
        let text = outcome?;
        if processes.is_empty() { Ok(text) } else { Err(Failure::LeftBehind { command: shown, processes }) }
    }

    /// Runs it without a word of ours and returns what it printed; its complaints are shown.
    pub fn quiet(mut self) -> Result<String, Failure> {
        self.lines(false)
    }

    fn lines(&mut self, show: bool) -> Result<String, Failure> {
        self.command.stdout(Stdio::piped());
        let mut child = self.start()?;
        let output = child.stdout.take().map(|pipe| read_lines(pipe, show));
        let status = self.wait(&mut child)?;
        let text = match output.map(|text| text.recv_timeout(Duration::from_secs(10))) {
            Some(Ok(text)) => text,
            // Somebody still holds the other end although the program is gone.
            _ => {
                let processes = vec!["one that holds its standard output".to_string()];
                return Err(Failure::LeftBehind { command: self.shown(), processes });
            }
        };
        self.judge(status).map(|()| text)
    }

    fn start(&mut self) -> Result<Child, Failure> {
        self.command.spawn().map_err(|source| Failure::Start { command: self.shown(), source })
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus, Failure> {
        let began = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if began.elapsed() < self.limit => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) => {
                    end_group(child);
                    return Err(Failure::TooLong { command: self.shown(), limit_s: self.limit.as_secs() });
                }
                Err(source) => return Err(Failure::Start { command: self.shown(), source }),
            }
        }
    }

    fn judge(&self, status: ExitStatus) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        Err(Failure::Exit { command: self.shown(), status: status.to_string() })
    }

    /// The command as one would type it.
    fn shown(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// Collects the lines of `pipe` in a thread of its own, and sends them when the pipe has ended.
fn read_lines(pipe: impl std::io::Read + Send + 'static, show: bool) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut reader, mut text, mut line) = (BufReader::new(pipe), String::new(), Vec::new());
        while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let shown = String::from_utf8_lossy(&line);
            if show {
                print!("{shown}");
            }
            text += &shown;
            line.clear();
        }
        // Nobody listens any more when the time limit was reached; then nobody misses it.
        let _ = send.send(text);
    });
    receive
}

/// Kills the child and, where it has a process group of its own, everything in it.
fn end_group(child: &mut Child) {
    let group = format!("kill -s KILL -- -{}", child.id());
    let _ = Command::new("sh").args(["-c", &group]).stderr(Stdio::null()).status();
    // The group may be ours, and then the line above has hit nobody.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Run {
        Run::new(Path::new("sh")).args(["-c", script])
    }

    #[test]
    fn output_comes_back() {
        assert_eq!(shell("echo one; echo two").ask().unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_bad_end_names_the_command() {
        let text = shell("exit 3").ask().unwrap_err().to_string();
        assert_eq!(text, "`sh -c exit 3` ended with exit status: 3");
    }

    #[test]
    fn a_program_over_its_limit_is_ended() {
        let mut run = shell("exec sleep 600");
        run.limit = Duration::from_millis(50);
        assert!(matches!(run.ask(), Err(Failure::TooLong { .. })));
    }

    #[test]
    fn a_process_left_behind_is_found_and_ended() {
        let outcome = shell("sleep 600 >/dev/null 2>&1 & true").tee_and_leave_nothing();
        let Err(Failure::LeftBehind { processes, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(processes.len(), 1, "{processes:?}");
        assert!(processes[0].contains("sleep 600"), "{processes:?}");
    }
}
