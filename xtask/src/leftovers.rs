//! Finds processes that outlived the program that started them.
//!
//! Each program gets an environment variable with a unique value, which its children inherit, even if they are reparented. A process
//! that still has the variable afterwards was left behind.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The variable.
pub const VARIABLE: &str = "QJAM_XTASK_MARK";

/// How long an orphan may take to end.
const GRACE: Duration = Duration::from_secs(5);

/// The same on a host, whose connection may have been interrupted: it ends only after a time of silence.
const GRACE_AFAR: Duration = Duration::from_secs(20);

/// A unique value.
pub struct Mark(String);

impl Mark {
    /// A new one.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Mark(format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// What to set the variable to.
    pub fn value(&self) -> &str {
        &self.0
    }

    /// Waits briefly for marked processes to end, kills the others, and returns their names.
    pub fn end_all(&self) -> Vec<String> {
        let left = wait(GRACE, || self.alive());
        for (pid, _) in &left {
            let _ = Command::new("sh")
                .args(["-c", &format!("kill -s KILL {pid}")])
                .stderr(Stdio::null())
                .status();
        }
        shown(left)
    }

    fn alive(&self) -> Vec<(u32, String)> {
        let wanted = format!("{VARIABLE}={}", self.0);
        processes(|pid| strings(pid, "environ").contains(&wanted))
    }
}

/// Names processes of these users that are still there after [`GRACE_AFAR`]. A mark does not travel over ssh, but users of
/// test hosts run nothing else.
pub fn of_users(uids: &[u32]) -> Vec<String> {
    let theirs = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // A zombie runs nothing; whoever should ask for its exit code may take its time.
        !status.contains("\nState:\tZ") && user(&status).is_some_and(|uid| uids.contains(&uid))
    };
    shown(wait(GRACE_AFAR, || processes(theirs)))
}

/// The real user of a process, by what the kernel says of it.
fn user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// Looks again and again until nobody is left or the time is over.
fn wait(grace: Duration, look: impl Fn() -> Vec<(u32, String)>) -> Vec<(u32, String)> {
    let began = Instant::now();
    let mut left = look();
    while !left.is_empty() && began.elapsed() < grace {
        std::thread::sleep(Duration::from_millis(50));
        left = look();
    }
    left
}

fn shown(processes: Vec<(u32, String)>) -> Vec<String> {
    processes.into_iter().map(|(pid, command)| format!("{pid} ({command})")).collect()
}

/// Numbers and command lines of the processes that are `wanted`.
fn processes(wanted: impl Fn(u32) -> bool) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| wanted(*pid)).map(|pid| (pid, strings(pid, "cmdline").join(" "))).collect()
}

/// The strings, separated by zero bytes, in a file about a process; none when it is gone, a zombie, or not ours.
fn strings(pid: u32, file: &str) -> Vec<String> {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_process_is_the_first_of_four_numbers() {
        assert_eq!(user("Name:\tsh\nUid:\t77001\t0\t0\t0\nGid:\t5\t5\t5\t5\n"), Some(77001));
        assert_eq!(user("Name:\tsh\n"), None);
    }

    #[test]
    fn users_who_run_nothing_leave_nobody() {
        assert_eq!(of_users(&[4_000_000_001]), Vec::<String>::new());
    }
}
