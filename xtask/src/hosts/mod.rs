//! Test hosts: small machines with an sshd each, made of namespaces of this one, for tests and for people.
//!
//! `cargo xtask hosts up` makes them, `down` removes every trace. Each host has namespaces of its own for network,
//! mounts, processes and name, a user of its own (number included), and a root folder in which only the system's
//! libraries are ours: `/usr/bin` has POSIX utilities and nothing else, home, `/tmp`, `/var/tmp` and `/dev/shm` are
//! empty. There is no Python, no compiler, no bash and no qjam. Login shells are `sh`. sshd is process 1; killing it is
//! pulling the plug. The hosts, and what is special about some, are in [`plan::HOSTS`].
//!
//! Everything lies in the folder `hosts` of cargo's target folder:
//!
//! - `ssh_config` knows all hosts by name: `ssh -F target/hosts/ssh_config a`, or `QJAM_SSH="ssh -F …"` for qjam.
//! - `hosts.txt` is for programs. One line per value, `KEY=VALUE`, the value reaching to the end of the line. First
//!   `hosts=` with the names, separated by spaces; then for each host `NAME.KEY=`:
//!
//!   | key | value |
//!   |---|---|
//!   | `ip`, `user`, `uid` | address, who logs in |
//!   | `pid` | of its sshd, as seen from our machine; `/proc/PID/root` is its root folder |
//!   | `netns` | its network namespace, as `ip -n` wants it |
//!   | `link` | our end of its cable (for `inner`: in the namespace of `jump`) |
//!   | `home` | its user's home, as seen from our machine |
//!   | `home_there` | the same, as seen there |
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
mod plan;

use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::setup;
use crate::shop::Shop;
use crate::step::Outcome;
use crate::{leftovers, suite};
use plan::{Host, Kind};
use std::fs::File;
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
pub fn obey(shop: &Shop, order: &Order) -> Outcome {
    match order {
        Order::Up => up(shop),
        Order::Down => down(shop),
        Order::Status => status(shop),
        Order::Shell(name) => shell(shop, name),
    }
}

/// Makes the hosts that do not answer.
pub fn up(shop: &Shop) -> Outcome {
    setup::ssh_server(shop)?;
    let ground = Ground::new(shop)?;
    let began = Instant::now();
    let hosts = ground.hosts();
    files::write(shop, &ground.dir, &hosts)?;
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
        ground.make(host)?;
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
    files::put(&ground.dir.join("hosts.txt"), &files::list(&ground.dir, ground.sudo, &listed))?;
    let config = ground.config();
    Ok(format!("{} hosts, {made} of them new: ssh -F {} a", listed.len(), config.display()))
}

/// Removes all of it.
pub fn down(shop: &Shop) -> Outcome {
    let ground = Ground::new(shop)?;
    files::scripts(&ground.dir)?;
    ground.root("sh")?.arg(ground.dir.join("down.sh")).arg(&ground.prefix).quiet()?;
    ground.root("rm")?.args(["-rf", "--"]).arg(&ground.dir).quiet()?;
    Ok("no test host is left".into())
}

/// Tells tests where the hosts are.
const FOLDER: &str = "QJAM_TEST_HOSTS";

/// Makes the hosts, runs the tests that need them, and removes them however the tests went. That no process of theirs is
/// left on a host is part of passing.
#[expect(dead_code, reason = "the step comes with the first test that needs hosts")]
pub fn test(shop: &Shop) -> Outcome {
    let outcome = up(shop).and_then(|_| tests(shop));
    let removed = down(shop);
    let note = outcome?;
    removed.map(|_| note)
}

fn tests(shop: &Shop) -> Outcome {
    let (dir, uids): (PathBuf, Vec<u32>) = {
        // Given up before the tests begin: they may want `cargo xtask hosts up` themselves.
        let ground = Ground::new(shop)?;
        (ground.dir.clone(), ground.hosts().iter().map(|host| host.uid).collect())
    };
    let words = "test -p qjam -p qjam-cli --test hosts --no-fail-fast";
    let cargo = shop.cargo(words).env(FOLDER, &dir);
    let ssh = format!("ssh -F {}", dir.join("ssh_config").display());
    let text = cargo.env("QJAM_SSH", ssh).limit_min(30).tee_and_leave_nothing()?;
    let processes = leftovers::of_users(&uids);
    if processes.is_empty() {
        return Ok(suite::summary(&text));
    }
    Err(Failure::LeftBehind { command: format!("cargo {words}"), processes })
}

/// Asks every host for a sign of life.
fn status(shop: &Shop) -> Outcome {
    let ground = Ground::new(shop)?;
    let hosts = ground.hosts();
    let silent: Vec<&str> = ground.silent(&hosts).iter().map(|host| host.name).collect();
    let line = |host: &Host| {
        let answer = if silent.contains(&host.name) { "silent" } else { "answers" };
        format!("{:<8} {:<14} {:<10} {:>6}  {answer}", host.name, host.ip, host.user, host.uid)
    };
    Ok(hosts.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Becomes a shell on a host.
fn shell(shop: &Shop, name: &str) -> Outcome {
    let config = Ground::new(shop)?.config();
    if !config.exists() {
        let remedy = "make the hosts with `cargo xtask hosts up`".into();
        return Err(Failure::Missing { tool: config.display().to_string(), remedy });
    }
    let source = Command::new("ssh").arg("-F").arg(config).arg(name).exec();
    Err(Failure::Start { command: format!("ssh {name}"), source })
}

/// Where the hosts of this checkout are made, and by whom.
struct Ground<'a> {
    shop: &'a Shop,
    /// The folder of all files.
    dir: PathBuf,
    /// What names of namespaces and cables begin with.
    prefix: String,
    /// Where cables are plugged in.
    bridge: String,
    /// Which network of 10.77 is theirs.
    network: u8,
    /// What makes a command root's.
    sudo: &'static [&'static str],
    /// Held so that two at once do not trip over each other.
    lock: File,
}

impl<'a> Ground<'a> {
    fn new(shop: &'a Shop) -> Result<Self, Failure> {
        let dir = shop.target.join("hosts");
        let sudo = setup::sudo(shop).ok_or_else(|| Failure::Missing {
            tool: "sudo that asks for no password".into(),
            remedy: "make test hosts as root".into(),
        })?;
        let path = dir.with_extension("lock");
        let lock = File::create(&path).about(&path)?;
        lock.lock().about(path)?;
        let prefix = plan::prefix(&dir);
        let bridge = format!("{prefix}net");
        let addresses = shop.program("ip").args(["-4", "-oneline", "address"]).ask()?;
        let network = plan::network(&addresses, &bridge).ok_or_else(|| Failure::Missing {
            tool: "a free network in 10.77.0.0/16".into(),
            remedy: "remove test hosts of other checkouts with `cargo xtask hosts down` there".into(),
        })?;
        Ok(Ground { shop, dir, prefix, bridge, network, sudo, lock })
    }

    fn config(&self) -> PathBuf {
        self.dir.join("ssh_config")
    }

    /// The hosts as they are, or as they would be made.
    fn hosts(&self) -> Vec<Host> {
        plan::hosts(&self.prefix, self.network)
    }

    /// A program to be run by root. It inherits the lock, so that it is waited for even when we are killed meanwhile.
    fn root(&self, program: &str) -> Result<Run, Failure> {
        let run = match self.sudo.split_first() {
            Some((sudo, options)) => self.shop.program(sudo).args(options).arg(program),
            None => self.shop.program(program),
        };
        Ok(run.input(self.lock.try_clone().about("the lock of the test hosts")?))
    }

    /// Makes the bridge that cables are plugged into; its own address is our machine's on that network. Without a
    /// hardware address of its own it would take one of the cables', and another whenever cables come and go.
    fn bridge(&self) -> Outcome {
        let script = "ip link show $0 >/dev/null 2>&1 || ip link add $0 address 02:77:00:00:00:01 type bridge; \
            ip -4 address show dev $0 | grep -q inet || ip address add $1/24 dev $0; ip link set $0 up";
        let ours = plan::outer(self.network, 1);
        self.root("sh")?.args(["-e", "-c", script, &self.bridge, &ours]).quiet()
    }

    /// Makes one host; what is left of an earlier one goes first.
    fn make(&self, host: &Host) -> Outcome {
        self.root("sh")?.arg(self.dir.join("down.sh")).args([&self.prefix, &host.link]).quiet()?;
        let inner = host.kind == Kind::Inner;
        let jump = format!("{}{}", self.prefix, plan::JUMP);
        let variables = [
            ("dir", self.dir.display().to_string()),
            ("name", host.name.into()),
            ("kind", host.kind.word().into()),
            ("netns", host.link.clone()),
            ("link", host.link.clone()),
            ("bridge", self.bridge.clone()),
            ("outer", if inner { jump } else { String::new() }),
            ("address", format!("{}/25", host.ip)),
            ("hardware", host.hardware.clone()),
            ("peer", format!("{}/25", plan::inner(self.network, 1))),
            ("user", host.user.clone()),
            ("uid", host.uid.to_string()),
        ];
        let variables = variables.iter().map(|(key, value)| format!("{key}={value}"));
        self.root("env")?.args(variables).arg("sh").arg(self.dir.join("link.sh")).quiet()
    }

    /// Those of `hosts` on which our user cannot run a command right now. All are asked at once.
    fn silent<'h>(&self, hosts: impl IntoIterator<Item = &'h Host>) -> Vec<&'h Host> {
        std::thread::scope(|scope| {
            let asked: Vec<_> =
                hosts.into_iter().map(|host| (host, scope.spawn(|| self.answers(host)))).collect();
            let silent = asked.into_iter().filter_map(|(host, answer)| match answer.join() {
                Ok(true) => None,
                _ => Some(host),
            });
            silent.collect()
        })
    }

    fn answers(&self, host: &Host) -> bool {
        // A key exchange that is quick, since nobody's secrets are at stake.
        let options = ["-oBatchMode=yes", "-oConnectTimeout=3", "-oKexAlgorithms=curve25519-sha256"];
        let ssh = self.shop.program("ssh").arg("-F").arg(self.config()).args(options);
        ssh.args([host.name, "id -u"]).limit_s(5).ask().is_ok_and(|uid| uid.trim() == host.uid.to_string())
    }

    /// The process that is number 1 on the host.
    fn first_process(&self, host: &Host) -> Result<u32, Failure> {
        let pids = self.root("ip")?.args(["netns", "pids", &host.link]).quiet()?;
        let first = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            is_first(&status)
        };
        pids.split_whitespace().filter_map(|pid| pid.parse().ok()).find(first).ok_or_else(|| {
            let what = format!("no process of test host '{}' is its first", host.name);
            Failure::Unexpected { what, expected: "its sshd" }
        })
    }
}

/// Whether a process is number 1 in a namespace below ours, by the numbers it has in each.
fn is_first(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| {
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        numbers.len() > 1 && numbers.last() == Some(&"1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_of_a_host_has_a_number_of_ours_too() {
        assert!(is_first("Name:\tsshd\nNSpid:\t4711\t1\n"));
        assert!(!is_first("Name:\tinit\nNSpid:\t1\n"));
        assert!(!is_first("Name:\tsh\nNSpid:\t4712\t31\n"));
        assert!(!is_first(""));
    }
}
