//! Control groups for tests: a program can be run in one with a limit, where this user may make one.
//!
//! A group is made inside the one that the test is in, so whatever holds for the test holds for it, too, and it goes when
//! the test does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group that nobody else uses.
pub(crate) struct Group {
    folder: PathBuf,
    pub(crate) is_unified: bool,
}

impl Group {
    /// One for this controller, or why there is none here.
    pub(crate) fn new(controller: &str) -> Result<Group, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (mine, is_unified) = mine(controller).ok_or("no control groups are mounted")?;
        if is_unified {
            let given = fs::read_to_string(mine.join("cgroup.subtree_control")).unwrap_or_default();
            if !given.split_whitespace().any(|c| c == controller) {
                return Err(format!("{} does not hand {controller} on", mine.display()));
            }
        }
        let name = format!("qjam-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = mine.join(name);
        fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Group { folder, is_unified })
    }

    /// One with so much memory.
    pub(crate) fn with_memory(bytes: u64) -> Result<Group, String> {
        let group = Group::new("memory")?;
        let name = if group.is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        group.set(name, &bytes.to_string())?;
        Ok(group)
    }

    /// Writes one of its files.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), String> {
        fs::write(self.folder.join(name), value).map_err(|e| format!("{name}: {e}"))
    }

    /// A command that is run in it.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"";
        command.args(["-c", script]).arg(&self.folder).arg(program);
        command
    }

    /// Most bytes of memory that were taken in it, and how many processes the kernel ended for that.
    pub(crate) fn peak_and_kills(&self) -> (u64, u64) {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let (peak, events) = match self.is_unified {
            true => (read("memory.peak"), read("memory.events")),
            false => (read("memory.max_usage_in_bytes"), read("memory.oom_control")),
        };
        let kills =
            events.lines().find_map(|l| l.strip_prefix("oom_kill ")).and_then(|n| n.trim().parse().ok());
        (peak.trim().parse().unwrap_or(0), kills.unwrap_or(0))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever has ended in it may take a moment to leave.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        eprintln!("{} is left", self.folder.display());
    }
}

/// The group of this process for a controller, and whether it is of the second version.
fn mine(controller: &str) -> Option<(PathBuf, bool)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = |is_it: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let Some(path) = path(&|controllers| controllers.split(',').any(|c| c == controller)) {
        return Some((Path::new("/sys/fs/cgroup").join(controller).join(path), false));
    }
    let all = Path::new("/sys/fs/cgroup");
    let path = path(&str::is_empty)?;
    all.join("cgroup.controllers").exists().then(|| (all.join(path), true))
}
