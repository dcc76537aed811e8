//! All that descends from a process, also in other groups and sessions.
//!
//! Members are known by an environment variable that they inherit. A process that was started without its parent's environment
//! is no member; if it stayed in the group of the first member, it ends with that group.
//!
//! A family also has a folder for files that should not outlive it. It is made by whoever needs it and removed at the end.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The names of the families that a process belongs to, the outermost first.
const FAMILY: &str = "QJAM_FAMILY";
/// Members that remove what others left behind as soon as those have ended: the resource trackers of `multiprocessing` and joblib.
const TRACKER: &[u8] = b"resource_tracker";
/// How long trackers may take for that.
const TRACKERS_MAX: Duration = Duration::from_secs(2);
/// How long the kernel may take to end the members. It cannot end one that waits for a broken device.
const END_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Looks that find nobody before it is believed, and such looks at most while some process shows no environment: one that is
/// about to become another program shows none for a moment.
const LOOKS_IN_VAIN: u32 = 2;
const LOOKS_IN_DOUBT: u32 = 20;
/// Where folders of families are: files there are memory that processes share.
const SHARED_MEMORY: &str = "/dev/shm";

/// A process and its descendants.
pub struct Family {
    /// Names of all families that a member belongs to, separated by colons; the last is that of this one.
    names: String,
}

struct Member {
    pid: Pid,
    is_tracker: bool,
}

/// What a process is to a family.
enum Kinship {
    Member(Member),
    /// It shows no environment.
    Unknown,
    None,
}

impl Family {
    /// A family inside the one that this process belongs to, if it does.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let own = format!("{:016x}", RandomState::new().build_hasher().finish());
        let outer = std::env::var(FAMILY).ok().filter(|names| is_names(names));
        Family { names: outer.map_or_else(|| own.clone(), |outer| format!("{outer}:{own}")) }
    }

    /// The folder for files that end with the family. Nobody has made it yet.
    pub fn folder(&self) -> PathBuf {
        folders().join(self.folder_name())
    }

    fn folder_name(&self) -> String {
        format!("qjam-{}", self.names.replace(':', "."))
    }

    /// Makes the process that the command starts a member.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(FAMILY, &self.names);
    }

    /// Ends all members and removes the folders of the family and of families inside it.
    pub(crate) fn end(&self) {
        let begun = Instant::now();
        let (mut spared_since, mut in_vain) = (None, 0);
        loop {
            let (members, is_in_doubt) = self.members();
            in_vain = if members.is_empty() { in_vain + 1 } else { 0 };
            let enough = if is_in_doubt { LOOKS_IN_DOUBT } else { LOOKS_IN_VAIN };
            if in_vain >= enough || begun.elapsed() > END_MAX {
                break;
            }
            // Trackers last: while they live, and see the others end, they remove shared memory that those have named.
            let only_trackers = !members.is_empty() && members.iter().all(|member| member.is_tracker);
            let spares =
                !only_trackers || spared_since.get_or_insert_with(Instant::now).elapsed() <= TRACKERS_MAX;
            for member in members.iter().filter(|member| !(spares && member.is_tracker)) {
                self.kill(member.pid);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.remove_folders();
    }

    /// All members, and whether there may be more: whether a process of this user shows no environment.
    fn members(&self) -> (Vec<Member>, bool) {
        let Ok(entries) = std::fs::read_dir("/proc") else { return (Vec::new(), false) };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let (mut members, mut is_in_doubt) = (Vec::new(), false);
        for pid in pids.filter_map(Pid::from_raw) {
            match self.kinship(pid) {
                Kinship::Member(member) => members.push(member),
                Kinship::Unknown => is_in_doubt |= has_memory(pid),
                Kinship::None => {}
            }
        }
        (members, is_in_doubt)
    }

    /// Whether a process is a member. One that shows no environment has ended, or is about to become another program.
    fn kinship(&self, pid: Pid) -> Kinship {
        let Some(environment) = about(pid, "environ") else { return Kinship::None };
        if environment.is_empty() {
            return Kinship::Unknown;
        }
        let mut entries = environment.split(|byte| *byte == 0);
        let names = entries.find_map(|entry| entry.strip_prefix(FAMILY.as_bytes())?.strip_prefix(b"="));
        match names.and_then(|names| names.strip_prefix(self.names.as_bytes())) {
            Some(rest) if rest.is_empty() || rest[0] == b':' => {
                let line = about(pid, "cmdline").unwrap_or_default();
                let is_tracker = line.windows(TRACKER.len()).any(|part| part == TRACKER);
                Kinship::Member(Member { pid, is_tracker })
            }
            _ => Kinship::None,
        }
    }

    fn kill(&self, pid: Pid) {
        // The number may have become somebody else's, so it is looked at again once it is held.
        if let Ok(held) = pidfd_open(pid, PidfdFlags::empty())
            && matches!(self.kinship(pid), Kinship::Member(_))
        {
            let _ = pidfd_send_signal(held, Signal::KILL);
        }
    }

    fn remove_folders(&self) {
        let own = self.folder_name();
        let Ok(entries) = std::fs::read_dir(folders()) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(&own));
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// What the system says of a process; `None` if it may not be asked, or is gone.
fn about(pid: Pid, what: &str) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{}/{what}", pid.as_raw_nonzero())).ok()
}

/// Whether a process has memory of its own. The kernel's own threads, and what has ended, have none.
fn has_memory(pid: Pid) -> bool {
    about(pid, "statm").is_some_and(|pages| pages.first().is_some_and(|digit| *digit != b'0'))
}

fn is_names(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
}

fn folders() -> PathBuf {
    let shared = Path::new(SHARED_MEMORY);
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use std::io::Read;
    use std::process::Stdio;

    /// Starts a shell with this script; gives its process and the first line it prints.
    fn shell(script: &str) -> (Process, PathBuf, String) {
        let family = Family::new();
        let folder = family.folder();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("FOLDER", &folder);
        let mut process = Process::spawn(&mut command, family).unwrap();
        let (mut out, _) = process.take_pipes().unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        (process, folder, String::from_utf8(line).unwrap())
    }

    fn lives(pid: &str) -> bool {
        // A zombie has ended, and is somebody else's to reap.
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
    }

    #[test]
    fn what_has_a_session_of_its_own_ends_with_its_family() {
        let (mut process, folder, pid) =
            shell("mkdir -p \"$FOLDER/deep\"; setsid sleep 1000 & echo $!; wait");
        assert!(lives(&pid) && folder.join("deep").exists(), "{pid}");
        process.end();
        assert!(!lives(&pid) && !folder.exists());
    }

    #[test]
    fn what_a_dead_process_has_left_ends_too_and_others_do_not() {
        let (mut other, _, other_pid) = shell("setsid sleep 1000 & echo $!; wait");
        let (mut process, _, pid) = shell("setsid sleep 1000 & echo $!; kill -9 $$");
        process.end();
        assert!(!lives(&pid) && lives(&other_pid));
        other.end();
        assert!(!lives(&other_pid));
    }

    #[test]
    fn a_tracker_sees_the_others_end_before_it_is_ended() {
        // As trackers do, it cleans up when the pipe closes that all others have open.
        let file = std::env::temp_dir().join(format!("qjam-tracked-{}", std::process::id()));
        let tracker =
            format!("echo ready; while read line; do :; done; echo cleaned up > {}", file.display());
        let script = format!(
            "mkfifo {0}.pipe; sh -c '{tracker}' resource_tracker <{0}.pipe & \
             exec 3>{0}.pipe; rm {0}.pipe; exec sleep 1000",
            file.display()
        );
        let (mut process, _, line) = shell(&script);
        assert_eq!(line, "ready");
        process.end();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "cleaned up\n");
        std::fs::remove_file(&file).unwrap();
        // The shell may have been ended before it came to this.
        let _ = std::fs::remove_file(file.with_extension("pipe"));
    }
}
