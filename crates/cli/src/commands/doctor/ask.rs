//! Starts a program and reads what it says, with a limit on time and length.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Java takes a second, an interpreter on a network disk several.
const WITHIN: Duration = Duration::from_secs(20);
/// So long after its end it is waited for: a process in a system call that does not end cannot be killed, and a daemon that it left
/// behind holds its pipes.
const LINGERS: Duration = Duration::from_secs(1);
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
    let readers = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
    let ended = wait(&mut child, WITHIN);
    // Whoever it started may still hold the pipes.
    let group = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let until = Instant::now() + LINGERS;
    if ended.is_none() {
        // So that no entry of a process is left behind, if it can be had.
        let _ = wait(&mut child, LINGERS);
    }
    let said: String = readers.iter().flatten().map(|reader| sent(reader, until)).collect();
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

/// Reads a pipe to its end and sends what it says, up to [`BYTES_MAX`].
fn reader(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (mut pipe, mut bytes, mut left) = (pipe, vec![0; 4096], BYTES_MAX);
        loop {
            match pipe.read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => {
                    let taken = n.min(left);
                    left -= taken;
                    if taken > 0 && sender.send(bytes[..taken].to_vec()).is_err() {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}

/// What a reader has sent by the deadline.
fn sent(reader: &Receiver<Vec<u8>>, until: Instant) -> String {
    let mut bytes = Vec::new();
    while let Ok(piece) = reader.recv_timeout(until.saturating_duration_since(Instant::now())) {
        bytes.extend(piece);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for its end; `None` if it does not come in time.
fn wait(child: &mut Child, patience: Duration) -> Option<io::Result<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(Ok(status)),
            Err(e) => return Some(Err(e)),
            Ok(None) if Instant::now() >= until => return None,
            Ok(None) => thread::sleep(Duration::from_millis(10)),
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
        // One that leaves somebody behind with its pipes is not waited for.
        assert_eq!(ask("sh", &["-c", "sleep 100 & echo c"]), Answer::Said("c\n".into()));
        // Nor is one that has left its group, which is not killed. The outer shell ends after it has left.
        let leaves = "exec 3>&1; echo $(setsid sh -c 'sleep 100 >&3 & echo $!')";
        let Answer::Said(pid) = ask("sh", &["-c", leaves]) else { panic!("it fails") };
        let left = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(left, rustix::process::Signal::KILL).expect("it is still there");
    }
}
