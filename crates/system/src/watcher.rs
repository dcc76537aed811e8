//! A shell that ends what a killed process has left.
//!
//! A process that is killed can end nothing. Its children end with it, since they ask the kernel for that, but not those that they
//! have started. So a process that is the root of families has a shell beside it, as long as there is one of them, which waits for the
//! end of a pipe: the kernel closes it, however the process ends. The shell then ends all that has the mark of this root ([`Mark`]),
//! trackers of shared memory last, and removes the folders of its families.
//!
//! A child that the user's own code has forked has the pipe, too: then it is waited for that one as well.
//!
//! [`Mark`]: crate::mark::Mark

use crate::mark;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Arguments: the number of the root, where folders of families are, and how their names begin. The shell reads all of it, being one
/// command, before it waits for the end of the pipe that it came by.
const SCRIPT: &[u8] = br#"{
read x
n=0
while [ $n -lt 20 ]; do
  left=
  for limits in $(grep -ls "^Max file locks .* $1 " /proc/[0-9]*/limits); do
    p=${limits#/proc/}; p=${p%/limits}
    { read stat < /proc/$p/stat; } 2>/dev/null || continue
    case "${stat##*) }" in Z*|X*) continue;; esac
    left=$p
    if [ $n -lt 10 ] && grep -qs resource_tracker /proc/$p/cmdline; then continue; fi
    kill -9 $p 2>/dev/null
  done
  if [ -z "$left" ]; then break; fi
  # A moment for the kernel; trackers may take longer.
  n=$((n + 1))
  if [ $n -gt 2 ]; then sleep 1; fi
done
rm -rf "$2/$3".* 2>/dev/null
exit
}
"#;

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

struct Watcher {
    /// Members that are first in their families, of this process.
    users: usize,
    /// The process that started it. A child that was forked has a copy of this that is not its own.
    process: u32,
    child: Child,
    /// Nothing more is written to it.
    _pipe: Option<ChildStdin>,
}

/// As long as one of these is there, somebody watches.
pub(crate) struct Watched(());

impl Watched {
    /// Has this process watched. Whoever cannot start a shell is not.
    pub(crate) fn begin() -> Option<Watched> {
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        let own = std::process::id();
        match watcher.as_mut().filter(|watcher| watcher.process == own) {
            Some(watcher) => watcher.users += 1,
            None => *watcher = Some(Watcher::start(own).ok()?),
        }
        Some(Watched(()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watching) = watcher.as_mut().filter(|watcher| watcher.process == std::process::id()) else {
            return;
        };
        watching.users -= 1;
        if watching.users == 0
            && let Some(mut watching) = watcher.take()
        {
            let _ = watching.child.kill();
            let _ = watching.child.wait();
        }
    }
}

impl Watcher {
    fn start(process: u32) -> io::Result<Watcher> {
        let root = mark::own_root();
        let folders = crate::family::folders();
        let mut child = Command::new("/bin/sh")
            .args(["-s", &root.to_string()])
            .arg(folders)
            .arg(crate::family::folder_prefix())
            // For those who look at the list of processes.
            .arg("qjam-watcher")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal is not for it.
            .process_group(0)
            .spawn()?;
        let mut pipe = child.stdin.take();
        if let Some(pipe) = &mut pipe {
            pipe.write_all(SCRIPT)?;
        }
        Ok(Watcher { users: 1, process, child, _pipe: pipe })
    }
}
