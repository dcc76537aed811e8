//! The network and folder of the test hosts of one checkout, and the operations on a single host.
//!
//! Decides nothing: names and addresses come from [`super::plan`], the work is done as root by the scripts beside this file.

use super::plan::{self, Host, Kind};
use super::python::Python;
use crate::failure::{AboutFile, Failure};
use crate::run::Run;
use crate::setup;
use crate::step::StepResult;
use crate::workspace::Workspace;
use std::fs::File;
use std::path::PathBuf;

/// Where the hosts of this checkout are made, and by whom.
pub struct Ground<'a> {
    workspace: &'a Workspace,
    /// The folder of all files.
    pub dir: PathBuf,
    /// What names of namespaces and cables begin with.
    pub prefix: String,
    /// Where cables are plugged in.
    bridge: String,
    /// Which network of 10.77 is theirs.
    network: u8,
    /// What makes a command root's.
    pub sudo: &'static [&'static str],
    /// Held so that two at once do not trip over each other.
    lock: File,
}

impl<'a> Ground<'a> {
    /// Waits until nobody else is at work here.
    pub fn new(workspace: &'a Workspace) -> Result<Self, Failure> {
        let dir = workspace.target.join("hosts");
        let sudo = setup::sudo(workspace).ok_or_else(|| Failure::Missing {
            tool: "sudo that asks for no password".into(),
            remedy: "make test hosts as root".into(),
        })?;
        let path = dir.with_extension("lock");
        let lock = File::create(&path).about(&path)?;
        lock.lock().about(path)?;
        let prefix = plan::prefix(&dir);
        let bridge = format!("{prefix}net");
        let addresses = workspace.program("ip").args(["-4", "-oneline", "address"]).ask()?;
        let network = plan::network(&addresses, &bridge).ok_or_else(|| Failure::Missing {
            tool: "a free network in 10.77.0.0/16".into(),
            remedy: "remove test hosts of other checkouts with `cargo xtask hosts down` there".into(),
        })?;
        Ok(Ground { workspace, dir, prefix, bridge, network, sudo, lock })
    }

    /// What ssh is to read.
    pub fn config(&self) -> PathBuf {
        self.dir.join("ssh_config")
    }

    /// The hosts as they are, or as they would be made.
    pub fn hosts(&self) -> Vec<Host> {
        plan::hosts(&self.prefix, self.network)
    }

    /// A program to be run by root. It inherits the lock, so that it is waited for even when we are killed meanwhile.
    pub fn root(&self, program: &str) -> Result<Run, Failure> {
        let run = match self.sudo.split_first() {
            Some((sudo, options)) => self.workspace.program(sudo).args(options).arg(program),
            None => self.workspace.program(program),
        };
        Ok(run.input(self.lock.try_clone().about("the lock of the test hosts")?))
    }

    /// Makes the bridge that cables are plugged into; its own address is our machine's on that network. Without a
    /// hardware address of its own it would take one of the cables', and another whenever cables come and go.
    pub fn bridge(&self) -> StepResult {
        let script = "ip link show $0 >/dev/null 2>&1 || ip link add $0 address 02:77:00:00:00:01 type bridge; \
            ip -4 address show dev $0 | grep -q inet || ip address add $1/24 dev $0; ip link set $0 up";
        let ours = plan::outer(self.network, 1);
        self.root("sh")?.args(["-e", "-c", script, &self.bridge, &ours]).quiet()
    }

    /// Makes one host; what is left of an earlier one goes first.
    pub fn make(&self, host: &Host, python: &Python) -> StepResult {
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
        let python = python.variables(host);
        let variables = variables.iter().chain(&python).map(|(key, value)| format!("{key}={value}"));
        self.root("env")?.args(variables).arg("sh").arg(self.dir.join("link.sh")).quiet()
    }

    /// Those of `hosts` on which our user cannot run a command right now. All are asked at once.
    pub fn silent<'h>(&self, hosts: impl IntoIterator<Item = &'h Host>) -> Vec<&'h Host> {
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
        let ssh = self.workspace.program("ssh").arg("-F").arg(self.config()).args(options);
        ssh.args([host.name, "id -u"]).limit_s(5).ask().is_ok_and(|uid| uid.trim() == host.uid.to_string())
    }

    /// The process that is number 1 on the host.
    pub fn first_process(&self, host: &Host) -> Result<u32, Failure> {
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
