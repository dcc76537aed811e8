//! The test hosts, the command, and faults that are undone whatever happens.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Whoever waits longer waits for ever. Nothing is measured with it.
pub(crate) const HANG: Duration = Duration::from_secs(180);

/// Waits until something has happened.
pub(crate) fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + HANG;
    while !happened() {
        assert!(Instant::now() < end, "{what}: not in {HANG:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folder of the test hosts.
pub(crate) fn folder() -> PathBuf {
    let folder = std::env::var_os("QJAM_TEST_HOSTS");
    folder.expect("QJAM_TEST_HOSTS must name the folder that `cargo xtask hosts up` makes").into()
}

/// A test host that nobody else uses meanwhile.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    values: &'static HashMap<String, String>,
    _ours: MutexGuard<'static, ()>,
}

impl Host {
    pub(crate) fn take(name: &'static str) -> Host {
        static VALUES: OnceLock<HashMap<String, String>> = OnceLock::new();
        static LOCKS: Mutex<Option<HashMap<&'static str, &'static Mutex<()>>>> = Mutex::new(None);
        assert!(
            std::env::var_os("QJAM_SSH").is_some(),
            "QJAM_SSH must name an ssh that knows the test hosts"
        );
        let values = VALUES.get_or_init(|| {
            let path = folder().join("hosts.txt");
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
        });
        let lock = {
            let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
            *locks.get_or_insert_default().entry(name).or_insert_with(|| Box::leak(Box::default()))
        };
        Host { name, values, _ours: lock.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub(crate) fn value(&self, key: &str) -> &str {
        let key = format!("{}.{key}", self.name);
        self.values.get(&key).unwrap_or_else(|| panic!("hosts.txt has no {key}"))
    }

    /// Runs a command by root on the host.
    pub(crate) fn root(&self, words: &[&str]) -> String {
        must(&self.words("enter", words))
    }

    /// Runs a command of this machine by root in the network of the host.
    pub(crate) fn net(&self, words: &[&str]) -> String {
        must(&self.words("enter_net", words))
    }

    /// A fault made by root on the host, and what undoes it.
    pub(crate) fn fault(&self, make: &[&str], undo: &[&str]) -> Fault {
        let fault = Fault(self.words("enter", undo));
        self.root(make);
        fault
    }

    /// The same in the network of the host.
    pub(crate) fn net_fault(&self, make: &[&[&str]], undo: &[&str]) -> Fault {
        let fault = Fault(self.words("enter_net", undo));
        make.iter().for_each(|words| drop(self.net(words)));
        fault
    }

    /// Another file system over each of the places where something of ours could go. It goes away even while somebody
    /// who is just ending still has a file of it open.
    pub(crate) fn cover_all(&self, options: &str) -> Vec<Fault> {
        let uid = self.value("uid");
        let options = format!("{options},mode=700,uid={uid},gid={uid}");
        [self.value("home_there"), "/tmp", "/var/tmp", "/dev/shm"]
            .iter()
            .map(|place| {
                self.fault(
                    &["mount", "-t", "tmpfs", "-o", &options, "cover", place],
                    &["umount", "-l", place],
                )
            })
            .collect()
    }

    /// A file in the home of the host's user, until the end of the test.
    pub(crate) fn file_in_home(&self, name: &str, text: &str) -> Fault {
        let path = format!("{}/{name}", self.value("home_there"));
        self.fault(
            &["sh", "-c", "mkdir -p \"${0%/*}\" && printf %s \"$1\" > \"$0\"", &path, text],
            &["rm", "-f", &path],
        )
    }

    /// Ends what the host's user still runs at the end of the test.
    pub(crate) fn quiet_after(&self) -> Fault {
        let kill = "kill -s KILL $(ps -u \"$0\" -o pid=)";
        self.fault(&["true"], &["sh", "-c", kill, self.value("uid")])
    }

    /// Processes of the host's user.
    pub(crate) fn processes(&self) -> Vec<String> {
        let uid = format!("Uid:\t{}\t", self.value("uid"));
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            if status.contains(&uid) && !status.contains("State:\tZ") {
                found.push(status.lines().next().unwrap_or_default().replace("Name:\t", ""));
            }
        }
        found
    }

    fn words(&self, key: &str, words: &[&str]) -> Vec<String> {
        self.value(key).split(' ').chain(words.iter().copied()).map(Into::into).collect()
    }
}

/// Undone when dropped.
#[must_use]
pub(crate) struct Fault(Vec<String>);

impl Drop for Fault {
    fn drop(&mut self) {
        // Not an assertion: one in a test that fails already would end the others, too.
        match Command::new(&self.0[0]).args(&self.0[1..]).output() {
            Ok(output) if output.status.success() => {}
            other => eprintln!("not undone: {:?}: {other:?}", self.0),
        }
    }
}

fn must(words: &[String]) -> String {
    let output = Command::new(&words[0]).args(&words[1..]).output().expect("the command starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How the command went.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

/// The command. It is killed when it hangs, and has then no exit code.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    let seconds = HANG.as_secs().to_string();
    command.args(["-s", "KILL", &seconds, env!("CARGO_BIN_EXE_qjam")]).args(args);
    command.env("NO_COLOR", "1").env_remove("QJAM_WORKER").env_remove("QJAM_USER");
    command
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let begun = Instant::now();
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: status.code(), out: text(stdout), err: text(stderr), took: begun.elapsed() }
}

/// The shortest of runs.
pub(crate) fn rounds(workers: &str) -> Command {
    command(&["bench", "rounds", "--rounds", "3", "--workers", workers])
}

impl Ran {
    /// It failed, and says where, at which step, why and what to do.
    pub(crate) fn must_fail(&self, host: &str, step: &str, words: &[&str]) {
        let Ran { code, out, err, took } = self;
        assert_eq!(*code, Some(1), "{host}: {out}{err}");
        // Whoever is waited for is named before it fails.
        let first = err.lines().find(|line| !line.starts_with("[qjam] waiting for ")).unwrap_or_default();
        assert!(first.starts_with(&format!("error: {host}: {step}: ")), "{host}: {err}");
        for word in words.iter().chain(&["\n  remedy: "]) {
            assert!(err.contains(word), "{host}: {word:?} is missing from:\n{err}");
        }
        assert!(!err.contains("panicked") && out.is_empty(), "{host}: {out}{err}");
        // What a test saw is worth reading when one fails next to it.
        eprintln!("{:.1} s: {err}", took.as_secs_f64());
    }

    pub(crate) fn must_work(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        &self.out
    }

    /// What it printed, as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
}

/// How often a process has waited so far, which it does a few times to start and then for every message.
fn waits(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let waits = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waits.and_then(|waits| waits.trim().parse().ok()).unwrap_or(0)
}

/// A process on the host that computes: a worker that a worker has started.
fn executor(host: &Host) -> Option<String> {
    let words = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_worker = |pid: &str| words(pid).contains("/bin/worker-");
    let uid = format!("Uid:\t{}\t", host.value("uid"));
    let names = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).find(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).unwrap_or("0");
        status.contains(&uid) && is_worker(pid) && is_worker(parent)
    })
}

/// Runs something on these hosts and kills a worker of each meanwhile, once: a block that is there whenever a worker dies
/// would be blamed for it.
pub(crate) fn through_kills<T: Send>(hosts: &[&Host], run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = scope.spawn(run);
        let mut left = hosts.to_vec();
        while !run.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            // Not before it is in the middle of it: a worker that dies before it has joined is a host that cannot be used.
            if let Some(pid) = left.last().and_then(|host| executor(host)).filter(|pid| waits(pid) >= 25) {
                let killed = Command::new("kill").args(["-s", "KILL", &pid]).status().unwrap();
                assert!(killed.success(), "process {pid}");
                left.pop();
            }
        }
        assert!(left.is_empty(), "it was over before anybody was killed");
        run.join().unwrap()
    })
}
