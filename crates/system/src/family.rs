//! All that descends from a process, also in other groups and sessions.
//!
//! Members are known by a limit that they inherit ([`Mark`]), or by an environment variable, where there are no such limits. A process
//! that was started without its parent's environment is known by the limit alone; where there is none and it stayed in the group of the
//! first member, it ends with that group.
//!
//! A family also has a folder for files that should not outlive it. It is made by whoever needs it and removed at the end.

use crate::mark::{self, Mark};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The names of the families that a process belongs to, the outermost first.
const FAMILY: &str = "QJAM_FAMILY";
/// Members that remove what others left behind as soon as those have ended: the resource trackers of `multiprocessing` and joblib.
const TRACKER: &[u8] = b"resource_tracker";
/// How long trackers may sleep after the others have ended: they wait for somebody who is no member. One that is runnable is at work,
/// or waits for the processor on a machine that has much to do.
const TRACKERS_SLEEP_MAX: Duration = Duration::from_secs(2);
/// How long trackers may take in all.
const TRACKERS_MAX: Duration = Duration::from_secs(60);
/// How long the kernel may take to end the others. It cannot end one that waits for a broken device.
const END_MAX: Duration = Duration::from_secs(5);
/// How much of what the system says of a process is read at once.
const READ_BYTES: usize = 1 << 15;
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Looks that find nobody before it is believed, and such looks at most while some process shows no environment: one that is
/// about to become another program shows none for a moment.
const LOOKS_IN_VAIN: u32 = 2;
const LOOKS_IN_DOUBT: u32 = 20;
/// Where folders of families are: files there are memory that processes share.
const SHARED_MEMORY: &str = "/dev/shm";
/// How names of folders begin.
const FOLDER: &str = "qjam-";

/// A process and its descendants.
pub struct Family {
    /// Names of all families that a member belongs to, separated by colons; the last is that of this one.
    names: String,
    /// `None` if the first member could not be marked.
    mark: Option<Mark>,
}

struct Member {
    pid: Pid,
    is_tracker: bool,
    is_asleep: bool,
}

/// What a process is to a family.
enum Kinship {
    Member(Member),
    /// It shows no environment.
    Unknown,
    /// It has ended, or is about to.
    Ended,
    /// It belongs to others, and will: membership is inherited, not acquired.
    Stranger,
}

/// What a search for members keeps from one look at all processes to the next.
#[derive(Default)]
struct Search {
    /// They are not asked again.
    strangers: HashSet<Pid>,
    /// What was read last of a process.
    text: Vec<u8>,
}

impl Family {
    /// A family inside the one that this process belongs to, if it does.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        let own = format!("{:016x}", RandomState::new().build_hasher().finish());
        let outer = std::env::var(FAMILY).ok().filter(|names| is_names(names));
        let outer = outer.unwrap_or_else(|| format!("{:016x}", mark::own_root()));
        Family { names: format!("{outer}:{own}"), mark: Mark::new() }
    }

    /// The folder for files that end with the family. Nobody has made it yet.
    pub fn folder(&self) -> PathBuf {
        folders().join(self.folder_name())
    }

    fn folder_name(&self) -> String {
        format!("{FOLDER}{}", self.names.replace(':', "."))
    }

    /// Makes the process that the command starts a member.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(FAMILY, &self.names);
    }

    /// Marks the process that was started so, before it has started anything. Says whether this process is at the root of families.
    pub(crate) fn begin(&mut self, pid: Option<Pid>) -> bool {
        self.mark = self.mark.filter(|mark| pid.is_some_and(|pid| mark.put(pid)));
        self.mark.is_some_and(|mark| mark.root().is_some())
    }

    /// Ends all members and removes the folders of the family and of families inside it.
    pub(crate) fn end(&self) {
        let begun = Instant::now();
        let (mut trackers, mut search, mut in_vain) = (Trackers::default(), Search::default(), 0);
        loop {
            let (members, is_in_doubt) = self.members(&mut search);
            in_vain = if members.is_empty() { in_vain + 1 } else { 0 };
            let enough = if is_in_doubt { LOOKS_IN_DOUBT } else { LOOKS_IN_VAIN };
            // Trackers last: while they live, and see the others end, they remove shared memory that those have named.
            let only_trackers = !members.is_empty() && members.iter().all(|member| member.is_tracker);
            let spares =
                !only_trackers || trackers.are_at_work(members.iter().all(|member| member.is_asleep));
            let limit = if only_trackers { TRACKERS_MAX + END_MAX } else { END_MAX };
            if in_vain >= enough || begun.elapsed() > limit {
                break;
            }
            for member in members.iter().filter(|member| !(spares && member.is_tracker)) {
                self.kill(member.pid, &mut search);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.remove_folders();
    }

    /// All members, and whether there may be more: whether a process of this user shows no environment.
    fn members(&self, search: &mut Search) -> (Vec<Member>, bool) {
        let Ok(entries) = std::fs::read_dir("/proc") else { return (Vec::new(), false) };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let (mut members, mut is_in_doubt) = (Vec::new(), false);
        for pid in pids.filter_map(Pid::from_raw) {
            if search.strangers.contains(&pid) {
                continue;
            }
            match self.kinship(pid, search) {
                Kinship::Member(member) => members.push(member),
                Kinship::Unknown => is_in_doubt |= search.has_memory(pid),
                Kinship::Ended => {}
                Kinship::Stranger => {
                    search.strangers.insert(pid);
                }
            }
        }
        (members, is_in_doubt)
    }

    /// Whether a process is a member. One that shows no environment has none, has ended, or is about to become another program.
    fn kinship(&self, pid: Pid, search: &mut Search) -> Kinship {
        let environment = search.about(pid, "environ");
        let has_name = environment.is_ok_and(|environment| self.is_named_in(environment));
        let shows_none = environment.map(<[u8]>::is_empty);
        match (has_name, shows_none, self.mark) {
            (true, ..) => {}
            // It has no memory: it has ended, or is a thread of the kernel.
            (false, Err(Errno::SRCH), _) => return Kinship::Ended,
            (false, _, Some(mark)) => {
                let limits = search.about(pid, "limits").unwrap_or_default();
                if !mark.is_in(&String::from_utf8_lossy(limits)) {
                    return Kinship::Stranger;
                }
            }
            (false, Ok(true), None) => return Kinship::Unknown,
            (false, _, None) => return Kinship::Stranger,
        }
        // What has ended, and waits for its parent to ask how, is still there.
        let stat = search.about(pid, "stat").unwrap_or_default();
        let state = stat.rsplit(|byte| *byte == b')').next().and_then(|rest| rest.get(1)).copied();
        let (Some(state), true) = (state, !matches!(state, Some(b'Z' | b'X'))) else { return Kinship::Ended };
        let line = search.about(pid, "cmdline").unwrap_or_default();
        let is_tracker = line.windows(TRACKER.len()).any(|part| part == TRACKER);
        Kinship::Member(Member { pid, is_tracker, is_asleep: state == b'S' })
    }

    fn is_named_in(&self, environment: &[u8]) -> bool {
        let mut entries = environment.split(|byte| *byte == 0);
        let names = entries.find_map(|entry| entry.strip_prefix(FAMILY.as_bytes())?.strip_prefix(b"="));
        let rest = names.and_then(|names| names.strip_prefix(self.names.as_bytes()));
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b':')
    }

    fn kill(&self, pid: Pid, search: &mut Search) {
        // The number may have become somebody else's, so it is looked at again once it is held.
        if let Ok(held) = pidfd_open(pid, PidfdFlags::empty())
            && matches!(self.kinship(pid, search), Kinship::Member(_))
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

impl Search {
    /// What the system says of a process. `ESRCH` if it has ended; another error if it may not be asked.
    fn about(&mut self, pid: Pid, what: &str) -> Result<&[u8], Errno> {
        let failed = |e: std::io::Error| match Errno::from_io_error(&e) {
            Some(Errno::NOENT) => Errno::SRCH,
            other => other.unwrap_or(Errno::IO),
        };
        let mut file = File::open(format!("/proc/{}/{what}", pid.as_raw_nonzero())).map_err(failed)?;
        // The system does not know how long such a file is, so it is asked for more than most have.
        let mut len = 0;
        loop {
            if self.text.len() - len < READ_BYTES {
                self.text.resize(len + READ_BYTES, 0);
            }
            match file.read(&mut self.text[len..]).map_err(failed)? {
                0 => return Ok(&self.text[..len]),
                more => len += more,
            }
        }
    }

    /// Whether a process has memory of its own. The kernel's own threads, and what has ended, have none.
    fn has_memory(&mut self, pid: Pid) -> bool {
        self.about(pid, "statm").is_ok_and(|pages| pages.first().is_some_and(|digit| *digit != b'0'))
    }
}

/// Trackers that are the last of a family.
#[derive(Default)]
struct Trackers {
    since: Option<Instant>,
    asleep_since: Option<Instant>,
}

impl Trackers {
    /// Whether they are to be waited for: they are at work, or have not slept for long.
    fn are_at_work(&mut self, are_asleep: bool) -> bool {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        self.asleep_since = are_asleep.then(|| self.asleep_since.unwrap_or(now));
        let has_slept = self.asleep_since.is_some_and(|since| now - since > TRACKERS_SLEEP_MAX);
        !has_slept && now - since <= TRACKERS_MAX
    }
}

fn is_names(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
}

/// How the names of the folders of all families of this process begin.
pub(crate) fn folder_prefix() -> String {
    format!("{FOLDER}{:016x}", mark::own_root())
}

/// Where folders of families are.
pub(crate) fn folders() -> PathBuf {
    let shared = Path::new(SHARED_MEMORY);
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use std::io::{Read, Write};
    use std::process::Stdio;

    /// Starts a shell with this script; gives its process and the first line it prints.
    fn shell(script: &str) -> (Process, PathBuf, String) {
        let family = Family::new();
        let folder = family.folder();
        let mut command = Command::new("sh");
        // It begins when it is told to, as workers do.
        let (reads, mut told) = std::io::pipe().unwrap();
        command.args(["-c", &format!("read go; {script}")]).stdin(reads);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("FOLDER", &folder);
        let mut process = Process::spawn(&mut command, family).unwrap();
        told.write_all(b"go\n").unwrap();
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
    fn what_has_no_environment_no_session_and_no_parent_in_common_ends_with_its_family() {
        let orphan = "env -i setsid sh -c 'echo $$; exec sleep 1000' &";
        for script in [
            // A child with nothing of its parent but its limits.
            format!("{orphan} wait"),
            // One whose parents have ended, as daemons do.
            format!("(env -i sh -c \"({orphan}) & \"); exec sleep 1000"),
            // The same, and the first of the family is gone.
            format!("(({orphan}) &); kill -9 $$"),
        ] {
            let (mut other, _, other_pid) = shell(&format!("{orphan} wait"));
            let (mut process, _, pid) = shell(&script);
            assert!(lives(&pid) && lives(&other_pid), "{script}: {pid}");
            process.end();
            assert!(!lives(&pid), "{script}: {pid} lives");
            assert!(lives(&other_pid), "{script}: another family was ended");
            other.end();
            assert!(!lives(&other_pid));
        }
    }

    #[test]
    fn a_process_is_no_member_of_the_families_that_it_starts() {
        let outer = Mark::new().unwrap();
        let root = outer.root().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert!(!outer.is_in(&limits), "this process is no member of what it starts");
        let (mut process, _, pid) = shell("env -i setsid sh -c 'echo $$; exec sleep 1000' & wait");
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        assert!(limits.contains(&root.to_string()) && !outer.is_in(&limits), "{limits}");
        process.end();
    }

    #[test]
    fn a_tracker_that_gets_no_processor_is_waited_for_and_one_that_sleeps_is_not_for_ever() {
        let mut trackers = Trackers::default();
        assert!(trackers.are_at_work(false) && trackers.are_at_work(true));
        let long_ago = Instant::now().checked_sub(TRACKERS_SLEEP_MAX * 2).unwrap();
        (trackers.since, trackers.asleep_since) = (Some(long_ago), Some(long_ago));
        assert!(trackers.are_at_work(false), "it is runnable");
        assert!(trackers.are_at_work(true), "it has only just fallen asleep");
        trackers.asleep_since = Some(long_ago);
        assert!(!trackers.are_at_work(true));
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
