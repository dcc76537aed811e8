//! Test hosts: small machines with an sshd each, made of Linux namespaces of this machine, for tests and for manual use.
//!
//! `cargo xtask hosts up` makes them, `down` removes every trace. Each host has namespaces of its own for network,
//! mounts, processes and name, a user of its own (number included), and a root folder in which only the system's
//! libraries are ours: `/usr/bin` has POSIX utilities and nothing else, home, `/tmp`, `/var/tmp` and `/dev/shm` are
//! empty. There is no Python, no compiler, no bash and no qjam, but for a few hosts with a bash, or a Python, of their
//! own. Login shells are `sh`. sshd is process 1; killing it is pulling the plug. The hosts, and what is special about
//! some, are in [`plan::HOSTS`].
//!
//! Everything lies in the folder `hosts` of cargo's target folder:
//!
//! - `ssh_config` knows all hosts by name: `ssh -F target/hosts/ssh_config a`, or `QJAM_SSH="ssh -F …"` for qjam.
//! - `hosts.txt` is for programs. One line per value, `KEY=VALUE`, the value reaching to the end of the line. First
//!   `hosts=` with the names, separated by spaces, `python=` with an interpreter here that is the same as those on
//!   hosts, `python_version=` with its first two numbers; then for each host `NAME.KEY=`:
//!
//!   | key | value |
//!   |---|---|
//!   | `ip`, `user`, `uid` | address, who logs in |
//!   | `pid` | of its sshd, as seen from our machine; `/proc/PID/root` is its root folder |
//!   | `netns` | its network namespace, as `ip -n` wants it |
//!   | `link` | our end of its cable (for `inner`: in the namespace of `jump`) |
//!   | `home` | its user's home, as seen from our machine |
//!   | `home_there` | the same, as seen there |
//!   | `python`, `numpy` | its interpreter there, or `none`; `yes` if that has NumPy, or `no` |
//!   | `log` | what sshd said |
//!   | `cut`, `restore` | commands that pull and plug its cable |
//!   | `enter` | begin of a command that is to run on it as root: in all its namespaces |
//!   | `enter_net` | the same with only its network, and our machine's files and tools |
//!
//!   Commands are words separated by spaces, `sudo -n` first where needed.
//!
//! Faults, as root; `ENTER`, `NETNS`, `HOME` and so on are values from the list:
//!
//! ```text
//! pull the cable, plug it in    CUT; RESTORE        (ip link set LINK down; … up)
//! swallow all packets           ip netns exec NETNS nft add table inet hole
//!                               ip netns exec NETNS nft add chain inet hole in '{type filter hook input priority 0; policy drop;}'
//!     and no longer             ip netns exec NETNS nft delete table inet hole
//! lose 5 % of the packets       the same with `policy accept`, and then
//!                               ip netns exec NETNS nft add rule inet hole in numgen random mod 100 '<' 5 drop
//! home read-only, back          ENTER mount -o remount,bind,ro HOME_THERE; … remount,bind,rw …
//! home without execution, back  ENTER mount -o remount,bind,noexec HOME_THERE; … remount,bind,exec …
//! home with 64 KiB left, back   ENTER mount -t tmpfs -o size=64k,mode=700,uid=UID,gid=UID full HOME_THERE;
//!                               ENTER umount HOME_THERE
//!     likewise (no `bind`)      /tmp, /var/tmp, /dev/shm: mount -o remount,ro | remount,noexec | remount,size=64k
//! noise before every command    write HOME/.bashrc of the host `bash`, HOME/.ssh/rc of any
//! what listens                  ip netns exec NETNS ss -ltn
//! who runs                      processes in our /proc whose Uid is UID
//! another kind of CPU           the host `i686`
//! pull the plug                 kill -s KILL PID; `cargo xtask hosts up` makes that host again, its home as it was
//! ```
//!
//! Making them needs root, or a sudo that asks no password. Names begin with a tag of the target folder, so that two
//! checkouts do not meet. `up` keeps hosts that answer and makes the others; neither command trusts what it left
//! behind earlier, so both recover from having been killed.

mod files;
mod ground;
mod plan;
mod python;

use crate::failure::{AboutFile, Failure};
use crate::step::StepResult;
use crate::workspace::Workspace;
use crate::{fresh, leftovers, package, setup, suite};
use ground::Ground;
use plan::{Host, Kind};
use python::Python;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a new host may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to do with the hosts.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    Up,
    Down,
    Status,
    Shell(String),
}

/// Does it, and has something to say when it went well.
pub fn obey(workspace: &Workspace, order: &Order) -> StepResult {
    match order {
        Order::Up => up(workspace),
        Order::Down => down(workspace),
        Order::Status => status(workspace),
        Order::Shell(name) => shell(workspace, name),
    }
}

/// Makes the hosts that do not answer.
pub fn up(workspace: &Workspace) -> StepResult {
    setup::ssh_server(workspace)?;
    let python = Python::find(workspace)?;
    let ground = Ground::new(workspace)?;
    let began = Instant::now();
    let hosts = ground.hosts();
    files::write(workspace, &ground.dir, &hosts, &python)?;
    ground.bridge()?;
    let there = |host: &Host| Path::new("/run/netns").join(&host.link).exists();
    let mut missing: Vec<&Host> = hosts.iter().filter(|host| !there(host)).collect();
    missing.extend(ground.silent(hosts.iter().filter(|host| there(host))));
    // A host whose cable ends at another goes with it.
    if missing.iter().any(|host| host.name == plan::JUMP) {
        missing.retain(|host| host.kind != Kind::Inner);
        missing.extend(hosts.iter().filter(|host| host.kind == Kind::Inner));
    }
    for host in &missing {
        ground.make(host, &python)?;
    }
    let mut silent = ground.silent(missing.iter().copied());
    while let Some(host) = silent.first() {
        if began.elapsed() > PATIENCE {
            let log = std::fs::read_to_string(ground.dir.join(host.name).join("log")).unwrap_or_default();
            let what = format!("test host '{}' does not answer; its sshd said: {}", host.name, log.trim());
            return Err(Failure::Unexpected { what, expected: "a shell over ssh" });
        }
        std::thread::sleep(Duration::from_millis(50));
        silent = ground.silent(silent);
    }
    let made = missing.len();
    let listed = hosts.into_iter().map(|host| ground.first_process(&host).map(|pid| (host, pid)));
    let listed: Vec<(Host, u32)> = listed.collect::<Result<_, _>>()?;
    let list = files::list(&ground.dir, ground.sudo, &listed, (&python.environment, &python.version));
    files::put(&ground.dir.join("hosts.txt"), &list)?;
    let config = ground.config();
    Ok(format!("{} hosts, {made} of them new: ssh -F {} a", listed.len(), config.display()))
}

/// Removes all of it.
pub fn down(workspace: &Workspace) -> StepResult {
    let ground = Ground::new(workspace)?;
    files::scripts(&ground.dir)?;
    ground.root("sh")?.arg(ground.dir.join("down.sh")).arg(&ground.prefix).quiet()?;
    ground.root("rm")?.args(["-rf", "--"]).arg(&ground.dir).quiet()?;
    Ok("no test host is left".into())
}

/// Tells tests where the hosts are.
const FOLDER: &str = "QJAM_TEST_HOSTS";

/// Makes the hosts, runs the tests that need them, and removes them however the tests went. That no process of theirs is
/// left on a host is part of passing.
pub fn test(workspace: &Workspace) -> StepResult {
    with_hosts(workspace, |dir, uids| tests(workspace, dir, uids, &[OWN_TESTS, CONFORMANCE]))
}

/// The tests of the Python package that need hosts, and what a new account has from them.
pub fn python_test(workspace: &Workspace) -> StepResult {
    with_hosts(workspace, |dir, uids| {
        let python = package::host_tests(workspace, dir, &ssh(dir))?;
        let list = std::fs::read_to_string(dir.join("hosts.txt")).about(dir.join("hosts.txt"))?;
        let fresh = fresh::on_hosts(workspace, &with_numpy(&list), &ssh(dir))?;
        nobody_left(uids, "the Python tests")?;
        Ok(format!("{python}; {fresh}"))
    })
}

/// The same with those that take minutes.
pub fn long_test(workspace: &Workspace) -> StepResult {
    with_hosts(workspace, |dir, uids| tests(workspace, dir, uids, &[LONG_TESTS]))
}

/// Makes the hosts, does something with them, and removes them however that went.
pub fn with_hosts(workspace: &Workspace, what: impl FnOnce(&Path, &[u32]) -> StepResult) -> StepResult {
    let outcome = up(workspace).and_then(|_| {
        let (dir, uids): (PathBuf, Vec<u32>) = {
            // Given up before anything is done with them: tests may want `cargo xtask hosts up` themselves.
            let ground = Ground::new(workspace)?;
            (ground.dir.clone(), ground.hosts().iter().map(|host| host.uid).collect())
        };
        what(&dir, &uids)
    });
    let removed = down(workspace);
    let note = outcome?;
    removed.map(|_| note)
}

/// What makes qjam use the hosts.
pub fn ssh(dir: &Path) -> String {
    format!("ssh -F {}", dir.join("ssh_config").display())
}

/// Tests that need hosts. Asked for in the whole workspace, as by other steps: then crates have the same features, and none
/// is compiled again.
const OWN_TESTS: &str = "test --workspace --test hosts --no-fail-fast";
/// Those that take minutes.
const LONG_TESTS: &str = "test --release -p qjam --test hosts --no-fail-fast -- --ignored --nocapture";
/// The promises that every engine is held to: those that hosts make.
const CONFORMANCE: &str = "test --workspace --test conformance --no-fail-fast";
/// The engines they are checked on here.
const ENGINES: &str = "a*1;b*2,c*2;inner*1,d*1;far*1,proc:1,local:1";

fn tests(workspace: &Workspace, dir: &Path, uids: &[u32], commands: &[&str]) -> StepResult {
    let mut said = String::new();
    for &words in commands {
        let cargo = workspace.cargo(words).env(FOLDER, dir).env("QJAM_SSH", ssh(dir));
        said += &cargo.env("QJAM_TEST_ENGINES", ENGINES).limit_min(60).tee_and_leave_nothing()?;
        nobody_left(uids, &format!("cargo {words}"))?;
    }
    Ok(suite::summary(&said))
}

/// That no process of theirs is left on a host is part of passing.
fn nobody_left(uids: &[u32], command: &str) -> Result<(), Failure> {
    let processes = leftovers::of_users(uids);
    if processes.is_empty() {
        return Ok(());
    }
    Err(Failure::LeftBehind { command: command.into(), processes })
}

/// The first two hosts on which Python has NumPy.
fn with_numpy(list: &str) -> Vec<String> {
    let names = list.lines().filter_map(|line| line.strip_suffix(".numpy=yes"));
    names.take(2).map(String::from).collect()
}

/// Asks every host for a sign of life.
fn status(workspace: &Workspace) -> StepResult {
    let ground = Ground::new(workspace)?;
    let hosts = ground.hosts();
    let silent: Vec<&str> = ground.silent(&hosts).iter().map(|host| host.name).collect();
    let line = |host: &Host| {
        let answer = if silent.contains(&host.name) { "silent" } else { "answers" };
        format!("{:<8} {:<14} {:<10} {:>6}  {answer}", host.name, host.ip, host.user, host.uid)
    };
    Ok(hosts.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Becomes a shell on a host.
fn shell(workspace: &Workspace, name: &str) -> StepResult {
    if !plan::HOSTS.iter().any(|(host, _)| *host == name) {
        let names: Vec<&str> = plan::HOSTS.iter().map(|(host, _)| *host).collect();
        let remedy = format!("there are {}", names.join(", "));
        return Err(Failure::Missing { tool: format!("a test host '{name}'"), remedy });
    }
    let config = Ground::new(workspace)?.config();
    if !config.exists() {
        let remedy = "make the hosts with `cargo xtask hosts up`".into();
        return Err(Failure::Missing { tool: config.display().to_string(), remedy });
    }
    let source = Command::new("ssh").arg("-F").arg(config).arg(name).exec();
    Err(Failure::Start { command: format!("ssh {name}"), source })
}
