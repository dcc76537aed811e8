//! The processes of a run, seen from outside.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The variable whose value all processes of a run have in their environment.
pub(crate) const MARK: &str = "QJAM_CHAOS_ID";

/// Processes with this mark, zombies aside.
pub(crate) fn members(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    pids.filter(is_marked).collect()
}

/// Whether a process is through its `exec` and has become an executor. One that is stopped before that stays so,
/// whatever becomes of its parent: nothing of ours has run in it.
pub(crate) fn is_executor(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(b"QJAM_EXECUTOR="))
}

/// What a process that should not be there is called and does.
pub(crate) fn describe(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    format!("{pid} ({})", stat.chars().skip_while(|c| *c != '(').take(40).collect::<String>())
}

/// Sends a signal to a process that may be gone.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// A listening socket that one of these processes holds, if any does.
pub(crate) fn listens(pids: &[u32]) -> Option<String> {
    let listening = listening();
    pids.iter().find_map(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let sockets = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        let inodes = sockets
            .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()));
        let open = inodes.into_iter().find(|inode| listening.contains(inode))?;
        Some(format!("process {pid} listens on socket {open}"))
    })
}

/// Inodes of all sockets of this host that listen.
fn listening() -> BTreeSet<String> {
    let column = |file: &str, is_listening: fn(&[&str]) -> bool, inode: usize| -> Vec<String> {
        let text = fs::read_to_string(Path::new("/proc/net").join(file)).unwrap_or_default();
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row.len() > inode && is_listening(row)).map(|row| row[inode].to_owned()).collect()
    };
    let tcp = |row: &[&str]| row[3] == "0A";
    let unix = |row: &[&str]| row[3] == "00010000";
    let all = [column("tcp", tcp, 9), column("tcp6", tcp, 9), column("unix", unix, 6)];
    all.into_iter().flatten().collect()
}

#[test]
fn a_listening_socket_is_seen() {
    let me = [std::process::id()];
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(listens(&me).is_some());
    drop(listener);
    let path = std::env::temp_dir().join(format!("qjam-chaos-{}.socket", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(listens(&me).is_some());
    drop(listener);
    fs::remove_file(path).unwrap();
}
