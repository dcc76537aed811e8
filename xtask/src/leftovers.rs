//! Finds processes that outlived the program that started them.
//!
//! Each program that is asked about gets a variable with a value of its own; children inherit it, whatever they are
//! called and whoever adopted them. Where the kernel shows the variable afterwards, somebody was left behind.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The variable.
pub const VARIABLE: &str = "QJAM_XTASK_MARK";

/// How long an orphan may take to notice that it is one.
const GRACE: Duration = Duration::from_secs(5);

/// A value that nothing else has.
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

    /// Waits a little for marked processes to go, ends those that do not, and names them.
    pub fn end_all(&self) -> Vec<String> {
        let began = Instant::now();
        let mut left = self.alive();
        while !left.is_empty() && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(50));
            left = self.alive();
        }
        for (pid, _) in &left {
            let _ = Command::new("sh")
                .args(["-c", &format!("kill -s KILL {pid}")])
                .stderr(Stdio::null())
                .status();
        }
        left.into_iter().map(|(pid, command)| format!("{pid} ({command})")).collect()
    }

    fn alive(&self) -> Vec<(u32, String)> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| strings(*pid, "environ").contains(&wanted))
            .map(|pid| (pid, strings(pid, "cmdline").join(" ")))
            .collect()
    }
}

/// The strings, separated by zero bytes, in a file about a process; none when it is gone, a zombie, or not ours.
fn strings(pid: u32, file: &str) -> Vec<String> {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join(file)).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
