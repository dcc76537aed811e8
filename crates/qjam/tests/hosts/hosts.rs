//! The test hosts: what is known of them, what runs on them, and what can be done to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Where the hosts are, as `cargo xtask hosts up` left it.
const FOLDER: &str = "QJAM_TEST_HOSTS";

/// When a program has ended, whoever works for it elsewhere ends, too; whoever is there after this time stays for ever. How
/// long they take is measured by the tests that are ignored.
pub(crate) const GONE_WITHIN: Duration = qjam_conformance::HANG;

fn folder() -> PathBuf {
    let folder = std::env::var_os(FOLDER).unwrap_or_else(|| {
        panic!("{FOLDER} is not set: these tests need hosts; `cargo xtask test` makes them and runs this")
    });
    assert!(std::env::var_os("QJAM_SSH").is_some(), "QJAM_SSH is not set: \"ssh -F …/ssh_config\"");
    folder.into()
}

/// What `hosts.txt` says.
fn facts() -> &'static BTreeMap<String, String> {
    static FACTS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    FACTS.get_or_init(|| {
        let path = folder().join("hosts.txt");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    })
}

/// The version of Python on those hosts that have one, and here.
pub(crate) fn python_version() -> (u8, u8) {
    let (major, minor) = facts()["python_version"].split_once('.').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}

/// An interpreter here that is the same as those on hosts.
pub(crate) fn python_here() -> &'static str {
    &facts()["python"]
}

/// A host that this test alone uses.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    was_cut: AtomicBool,
    /// Locked for as long as it is open.
    _claim: File,
}

/// Takes hosts for a test: nobody else has them, here or in another process of these tests, nothing of an earlier test
/// runs on them, and they can be reached. Their names are given in the order of the alphabet, so that nobody waits for
/// each other.
pub(crate) fn claim<const N: usize>(names: [&'static str; N]) -> [Host; N] {
    assert!(names.is_sorted(), "claims in another order could wait for each other");
    names.map(|name| {
        let claim = File::create(folder().join(format!("claim-{name}"))).unwrap();
        claim.lock().unwrap();
        let host = Host { name, was_cut: AtomicBool::new(false), _claim: claim };
        host.restore();
        assert!(host.is_quiet_within(GONE_WITHIN), "{name} is not free: {:?}", host.processes());
        host
    })
}

/// A process on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// As we see it, and as the host does.
    pub(crate) pid: u32,
    pub(crate) there: u32,
    pub(crate) kind: Kind,
    pub(crate) command: String,
}

/// What a process of a host's user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server's process for one connection.
    Session,
    Supervisor,
    Executor,
    /// The shell that ends what a killed executor has left.
    Watcher,
    /// A shell, or what user code started.
    Other,
}

impl Process {
    /// Whether it is a process that we brought to the host, and not the server's.
    pub(crate) fn is_ours(&self) -> bool {
        self.kind != Kind::Session
    }
}

impl Host {
    fn fact(&self, key: &str) -> &'static str {
        let key = format!("{}.{key}", self.name);
        facts().get(&key).unwrap_or_else(|| panic!("hosts.txt has no {key}"))
    }

    /// Its user's home, as this machine sees it.
    pub(crate) fn home(&self) -> PathBuf {
        self.fact("home").into()
    }

    /// The same, as the host sees it.
    pub(crate) fn home_there(&self) -> &'static str {
        self.fact("home_there")
    }

    pub(crate) fn uid(&self) -> u32 {
        self.fact("uid").parse().unwrap()
    }

    pub(crate) fn cut(&self) {
        self.was_cut.store(true, Relaxed);
        command(self.fact("cut"), &[]);
    }

    pub(crate) fn restore(&self) {
        command(self.fact("restore"), &[]);
    }

    /// Runs a shell's command on it, as root; gives what it prints.
    pub(crate) fn sh(&self, script: &str) -> String {
        command(self.fact("enter"), &["sh", "-c", script])
    }

    /// What listens on it.
    pub(crate) fn listening(&self) -> String {
        command(self.fact("enter_net"), &["ss", "-ltnH"])
    }

    /// What its user runs, zombies aside.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| self.process(pid)).collect()
    }

    fn process(&self, pid: u32) -> Option<Process> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |status: &str, key: &str, n: usize| -> Option<String> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?.to_owned();
            line.split_whitespace().nth(n).map(String::from)
        };
        if field(&status, "Uid:", 0)? != self.fact("uid") || field(&status, "State:", 0)? == "Z" {
            return None;
        }
        let command = command_line(pid);
        let parent = command_line(field(&status, "PPid:", 0)?.parse().ok()?);
        let is_worker = |command: &str| command.contains("/bin/worker-");
        let kind = match (is_worker(&command), is_worker(&parent)) {
            _ if command.starts_with("sshd") => Kind::Session,
            (true, false) => Kind::Supervisor,
            (true, true) => Kind::Executor,
            _ if command.contains("qjam-watcher") => Kind::Watcher,
            _ => Kind::Other,
        };
        let there = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let there = there.split_whitespace().last()?.parse().ok()?;
        Some(Process { pid, there, kind, command })
    }

    /// Sends a signal to those of a kind; says to how many.
    pub(crate) fn signal(&self, kind: Kind, signal: &str) -> usize {
        let those: Vec<Process> = self.processes().into_iter().filter(|p| p.kind == kind).collect();
        for process in &those {
            self.sh(&format!("kill -s {signal} {} 2>/dev/null || true", process.there));
        }
        those.len()
    }

    /// Waits until its user runs nothing.
    pub(crate) fn is_quiet_within(&self, limit: Duration) -> bool {
        within(limit, || self.processes().is_empty())
    }

    /// Fails unless its user runs nothing, or soon does not.
    pub(crate) fn must_be_quiet(&self) {
        assert!(self.is_quiet_within(GONE_WITHIN), "left on {}: {:?}", self.name, self.processes());
    }

    /// Removes what is kept there between runs, except the executable.
    pub(crate) fn empty_cache(&self) {
        self.sh(&format!("rm -rf {}/.cache/qjam/cache", self.home_there()));
    }

    /// The packs of its cache, as this machine sees them.
    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.home().join(".cache/qjam/cache")) else { return Vec::new() };
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(|path| path.metadata().is_ok_and(|m| m.is_file() && m.len() > 4096)).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.restore();
        if *self.was_cut.get_mut() {
            // The server finds out late that nobody is at the other end of a connection; who comes next need not wait.
            self.signal(Kind::Session, "KILL");
        }
    }
}

fn command_line(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
}

/// Runs a command of `hosts.txt`, which must succeed.
fn command(begin: &str, rest: &[&str]) -> String {
    let mut words = begin.split(' ');
    let mut command = Command::new(words.next().unwrap());
    let out = command.args(words).args(rest).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{begin} {rest:?}: {} {said}", out.status);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Waits until something is so. Says whether it became so in time.
pub(crate) fn within(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if so() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
