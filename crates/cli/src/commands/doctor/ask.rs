//! Starts a program and reads what it says, with a limit on time and length.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Java takes a second, an interpreter on a network disk several.
const WITHIN: Duration = Duration::from_secs(20);
/// A killed process is waited for no longer than this: one in a system call that does not end cannot be killed.
const LINGERS: Duration = Duration::from_secs(1);
const LOOKS_EVERY: Duration = Duration::from_millis(10);
const BYTES_MAX: usize = 64 << 10;
const LINE_CHARS_MAX: usize = 160;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// What it wrote to standard output and standard error.
    Said(String),
    /// There is no such program.
    NotThere,
    /// It is there and does not work: why.
    Fails(String),
}

/// Asks a program. Its children end with it.
pub(super) fn ask(program: &str, arguments: &[&str]) -> Answer {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Answer::NotThere,
        Err(e) => return Answer::Fails(e.to_string()),
    };
    let stdout = child.stdout.take().map(Pipe::new);
    let stderr = child.stderr.take().map(Pipe::new);
    let (mut stdout, mut stderr) = match (stdout.transpose(), stderr.transpose()) {
        (Ok(stdout), Ok(stderr)) => (stdout, stderr),
        (Err(e), _) | (_, Err(e)) => {
            end(&mut child);
            return Answer::Fails(e.to_string());
        }
    };
    let mut read = || [&mut stdout, &mut stderr].into_iter().flatten().for_each(Pipe::read);
    let ended = wait(&mut child, WITHIN, &mut read);
    end(&mut child);
    // All that it wrote before its end is in the pipes by now. Daemons that it left behind may hold them open: nobody waits for these.
    read();
    let said: String = [stdout, stderr].iter().flatten().map(Pipe::text).collect();
    match ended {
        None => Answer::Fails(format!("it does not answer within {} seconds", WITHIN.as_secs())),
        Some(Ok(status)) if status.success() => Answer::Said(said),
        Some(Ok(status)) => Answer::Fails(match last(&said) {
            "" => status.to_string(),
            last => format!("{status}: {last}"),
        }),
        Some(Err(e)) => Answer::Fails(e.to_string()),
    }
}

/// Kills the process group and waits for the child, so that no zombie is left.
fn end(child: &mut Child) {
    let group = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = wait(child, LINGERS, || {});
}

/// The reading end of a pipe, read without waiting.
struct Pipe {
    from: Box<dyn Read>,
    /// What came, up to [`BYTES_MAX`]; the rest is read and dropped, so that the program can go on.
    bytes: Vec<u8>,
}

impl Pipe {
    fn new(from: impl Read + AsFd + 'static) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&from)?;
        rustix::fs::fcntl_setfl(&from, flags | OFlags::NONBLOCK)?;
        Ok(Pipe { from: Box::new(from), bytes: Vec::new() })
    }

    /// Reads what is there, a bounded number of times: a daemon may write without end.
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        for _ in 0..BYTES_MAX / bytes.len() {
            match self.from.read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => {
                    let taken = n.min(BYTES_MAX - self.bytes.len());
                    self.bytes.extend_from_slice(&bytes[..taken]);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Waits for its end and calls `meanwhile` now and then; `None` if the end does not come in time.
fn wait(
    child: &mut Child,
    patience: Duration,
    mut meanwhile: impl FnMut(),
) -> Option<io::Result<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(Ok(status)),
            Err(e) => return Some(Err(e)),
            Ok(None) if Instant::now() >= until => return None,
            Ok(None) => {
                meanwhile();
                thread::sleep(LOOKS_EVERY);
            }
        }
    }
}

/// The first line with something in it, no longer than a terminal is wide.
pub(super) fn first(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(LINE_CHARS_MAX).collect()
}

fn last(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_answer_fail_or_are_not_there() {
        assert_eq!(ask("sh", &["-c", "echo a; echo b >&2"]), Answer::Said("a\nb\n".into()));
        assert_eq!(ask("no-such-program-anywhere", &[]), Answer::NotThere);
        let Answer::Fails(why) = ask("sh", &["-c", "echo broken >&2; exit 3"]) else { panic!("it works") };
        assert!(why.contains('3') && why.ends_with("broken"), "{why}");
        // A process that it leaves behind in its group is killed.
        assert_eq!(ask("sh", &["-c", "sleep 100 & echo c"]), Answer::Said("c\n".into()));
        // One that has left the group is not, and is not waited for. The outer shell ends after it has left.
        let leaves = "exec 3>&1; echo $(setsid sh -c 'sleep 100 >&3 & echo $!')";
        let Answer::Said(pid) = ask("sh", &["-c", leaves]) else { panic!("it fails") };
        let left = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(left, rustix::process::Signal::KILL).expect("it is still there");
    }

    #[test]
    fn long_output_is_read_to_its_end_and_cut() {
        let Answer::Said(text) = ask("sh", &["-c", "yes | head -c 1000000; echo end >&2"]) else {
            panic!("it fails")
        };
        assert_eq!(text.len(), BYTES_MAX + "end\n".len());
        assert!(text.ends_with("end\n"));
    }
}
