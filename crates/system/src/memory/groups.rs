//! Control groups of this process, as far as they are about memory.
//!
//! Both versions are read, since many machines still have the first. Nothing is ever written: a group whose limit could
//! be set by an ordinary user is rare, and a process that may be somebody's shell is not for us to move about.

use super::Limit;
use std::fs;
use std::path::{Path, PathBuf};

/// A group's folder, and which version it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    folder: PathBuf,
    is_unified: bool,
}

/// The groups this process is in, innermost first.
pub(super) fn mine() -> Vec<Group> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    around(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// The folders of the groups that limit this process's share of the processors, innermost first, and whether they are of the
/// second version.
pub(crate) fn of_processors() -> Vec<(PathBuf, bool)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let groups = around_by("cpu", &read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    groups.into_iter().map(|group| (group.folder, group.is_unified)).collect()
}

/// Groups by what `/proc/self/cgroup` and `/proc/self/mountinfo` say.
fn around(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    around_by("memory", cgroup, mountinfo)
}

/// The same for a controller of the first version.
fn around_by(controller: &str, cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in mountinfo.lines() {
        // 36 25 0:32 ROOT FOLDER rw,relatime shared:9 - TYPE SOURCE OPTIONS
        let Some((mount, system)) = line.split_once(" - ") else { continue };
        let mut mount = mount.split(' ').skip(3);
        let (Some(root), Some(folder)) = (mount.next(), mount.next()) else { continue };
        let mut system = system.split(' ');
        let is_unified = match (system.next(), system.nth(1)) {
            (Some("cgroup2"), _) => true,
            (Some("cgroup"), Some(options)) if options.split(',').any(|o| o == controller) => false,
            _ => continue,
        };
        // 4:memory:/path, or 0::/path of the second version
        let path = cgroup.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = if is_unified {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|c| c == controller)
            };
            is_it.then_some(path)
        });
        // In a container the folder may show a part only, which then begins with our own group.
        let Some(path) = path else { continue };
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let inner = Path::new(folder).join(below);
        groups.extend(
            inner
                .ancestors()
                .take_while(|at| at.starts_with(folder))
                .map(|at| Group { folder: at.into(), is_unified }),
        );
    }
    groups
}

/// The smallest limit of these.
pub(super) fn smallest(groups: &[Group]) -> Option<Limit> {
    let limits = groups.iter().filter_map(|group| {
        let name = if group.is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        // `max`, and in the first version a number that nobody has, stand for none.
        let bytes = number(&group.folder.join(name)).filter(|bytes| *bytes < 1 << 60)?;
        Some(Limit { bytes, group: Some(group.folder.clone()) })
    });
    limits.min_by_key(|limit| limit.bytes)
}

/// The least that any of these groups has left; `None` if none has a limit. Pages of files that the kernel would give up first
/// count as free.
pub(super) fn free_bytes(groups: &[Group]) -> Option<u64> {
    let left = groups.iter().filter_map(|group| {
        let Limit { bytes, .. } = smallest(std::slice::from_ref(group))?;
        let (taken, files) = match group.is_unified {
            true => ("memory.current", "inactive_file "),
            false => ("memory.usage_in_bytes", "total_inactive_file "),
        };
        let taken = number(&group.folder.join(taken))?;
        let files = line(&group.folder.join("memory.stat"), files).unwrap_or(0);
        Some(bytes.saturating_sub(taken.saturating_sub(files)))
    });
    left.min()
}

/// Most bytes that a group has had.
pub(super) fn peak_bytes(folder: &Path) -> Option<u64> {
    number(&folder.join("memory.peak")).or_else(|| number(&folder.join("memory.max_usage_in_bytes")))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// How often the kernel has killed somebody for memory.
///
/// Counted before a process is started and looked at again when it was killed by nobody we know: if it has risen, that
/// is what it died of.
#[derive(Debug)]
pub struct Kills {
    limit: Limit,
    file: PathBuf,
    before: u64,
}

impl Kills {
    /// So far.
    pub fn so_far() -> Option<Kills> {
        let groups = mine();
        let machine = PathBuf::from("/proc/vmstat");
        // The innermost group counts what happens to those who are in it, whichever group's limit it was.
        let of_group = groups.iter().find_map(|group| {
            let name = if group.is_unified { "memory.events" } else { "memory.oom_control" };
            let file = group.folder.join(name);
            count(&file).map(|before| (file, before))
        });
        let (file, before) = of_group.or_else(|| count(&machine).map(|before| (machine, before)))?;
        Some(Kills { limit: Limit::here(), file, before })
    }

    /// The limit that somebody has been killed under since then, and the peak of who is under it.
    pub fn since(&self) -> Option<(u64, u64)> {
        let limit_bytes = self.limit.bytes;
        (count(&self.file)? > self.before)
            .then(|| (limit_bytes, self.limit.peak_bytes().unwrap_or(limit_bytes)))
    }
}

/// The number in the line `oom_kill 3`.
fn count(file: &Path) -> Option<u64> {
    line(file, "oom_kill ")
}

/// The number in the line that begins so.
fn line(file: &Path, start: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(start))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "\
25 1 0:22 / /sys rw - sysfs sysfs rw
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw
35 30 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
36 30 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory";

    fn folders(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
        around(cgroup, mountinfo).into_iter().map(|group| group.folder).collect()
    }

    #[test]
    fn all_groups_around_a_process_are_found() {
        let both = folders("9:name=systemd:/\n4:memory:/a/b\n1:cpu:/c\n0::/\n", BOTH);
        assert_eq!(
            both,
            [
                "/sys/fs/cgroup/unified",
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory/a",
                "/sys/fs/cgroup/memory"
            ]
            .map(PathBuf::from)
        );
        let unified = "31 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let user = "/sys/fs/cgroup/user.slice/user-7.slice";
        assert_eq!(
            folders("0::/user.slice/user-7.slice\n", unified)[..2],
            [user, "/sys/fs/cgroup/user.slice"].map(PathBuf::from)
        );
        // A container without a name space of its own sees the whole path, and its part of the tree.
        let part = "31 25 0:27 /docker/1f /sys/fs/cgroup ro - cgroup cgroup rw,memory";
        assert_eq!(
            folders("4:memory:/docker/1f/x\n", part),
            ["/sys/fs/cgroup/x", "/sys/fs/cgroup"].map(PathBuf::from)
        );
        assert_eq!(folders("4:memory:/elsewhere\n", part), [PathBuf::from("/sys/fs/cgroup")]);
        for nonsense in ["", "x", "4:memory", "::::", "0::"] {
            folders(nonsense, BOTH);
            folders("0::/a", nonsense);
        }
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_holds() {
        let root = std::env::temp_dir().join(format!("qjam-groups-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let group = |folder: &Path, is_unified| Group { folder: folder.into(), is_unified };
        let chain = [group(&inner, true), group(&root.join("a"), true), group(&root, true)];
        assert_eq!(smallest(&chain), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "1073741824\n").unwrap();
        fs::write(root.join("memory.max"), "2073741824\n").unwrap();
        let found = smallest(&chain).unwrap();
        assert_eq!((found.bytes, found.group), (1 << 30, Some(root.join("a"))));
        assert_eq!(free_bytes(&chain), None, "it is not known what is taken");
        fs::write(root.join("memory.current"), "2000000000\n").unwrap();
        fs::write(root.join("a/memory.current"), "1073000000\n").unwrap();
        assert_eq!(free_bytes(&chain), Some(741_824));
        fs::write(root.join("a/memory.stat"), "anon 5\ninactive_file 500000000\n").unwrap();
        assert_eq!(free_bytes(&chain), Some(73_741_824));
        fs::write(root.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(smallest(&[group(&root, false)]), None, "the first version's word for none");
        fs::write(root.join("memory.peak"), "77\n").unwrap();
        assert_eq!((peak_bytes(&root), peak_bytes(&inner)), (Some(77), None));
        fs::write(root.join("memory.events"), "low 0\noom 2\noom_kill 3\noom_group_kill 0\n").unwrap();
        assert_eq!(count(&root.join("memory.events")), Some(3));
        fs::remove_dir_all(&root).unwrap();
    }
}
