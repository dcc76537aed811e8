//! The files of the test hosts: keys, the configuration of ssh and sshd, system files of the hosts, and the list for programs.

use super::plan::{Host, JUMP, Kind};
use super::python::Python;
use crate::failure::{AboutFile, Failure};
use crate::workspace::Workspace;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What a host has in `/usr/bin`: utilities of POSIX that a program may hope for anywhere, and `mount` for whoever
/// makes faults. No compiler, nothing that only GNU has, and Python only where the plan says so.
const TOOLS: &str = "sh awk basename cat chgrp chmod chown cksum cmp comm cp cut date dd df dirname du env expr false \
    find getconf grep head id kill ln ls mkdir mkfifo mv nice nohup od paste printf ps pwd rm rmdir sed sleep sort tail \
    tee test touch tr true tty uname uniq wc xargs mount umount";

/// Where homes are on a host.
const HOMES: &str = "/home";

/// Writes everything that can be written before a host exists. Keys that are there stay, and so do homes.
pub fn write(workspace: &Workspace, dir: &Path, hosts: &[Host], python: &Python) -> Result<(), Failure> {
    scripts(dir)?;
    let client = key(workspace, &dir.join("key"))?;
    let tools = dir.join("bin");
    make(&tools)?;
    for tool in TOOLS.split_whitespace().chain(["bash"]) {
        copy_tool(tool, &tools.join(tool))?;
    }
    let mut known = String::new();
    for host in hosts {
        let own = dir.join(host.name);
        ["root", "home", "bin", "etc/ssh"].iter().try_for_each(|name| make(&own.join(name)))?;
        for tool in TOOLS.split_whitespace().chain((host.kind == Kind::Bash).then_some("bash")) {
            let link = own.join("bin").join(tool);
            if !link.exists() {
                std::fs::hard_link(tools.join(tool), &link).about(link)?;
            }
        }
        if host.kind.has_python() {
            python.put_into(&own.join("bin"))?;
        }
        let etc = own.join("etc");
        known += &format!("{} {}", host.ip, key(workspace, &etc.join("ssh/host_key"))?);
        put(&etc.join("ssh/sshd_config"), SSHD)?;
        put(&etc.join("ssh/authorized_keys"), &client)?;
        put(&etc.join("nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files\n")?;
        put(&etc.join("hosts"), "127.0.0.1 localhost\n")?;
        put(&etc.join("passwd"), &passwd(host))?;
        put(&etc.join("group"), &format!("root:x:0:\nnogroup:x:65534:\n{}:x:{}:\n", host.user, host.uid))?;
    }
    put(&dir.join("known_hosts"), &known)?;
    put(&dir.join("ssh_config"), &ssh_config(dir, hosts))
}

/// Writes the programs that make and remove hosts.
pub fn scripts(dir: &Path) -> Result<(), Failure> {
    make(dir)?;
    put(&dir.join("link.sh"), include_str!("link.sh"))?;
    put(&dir.join("boot.sh"), include_str!("boot.sh"))?;
    put(&dir.join("delay.py"), include_str!("delay.py"))?;
    put(&dir.join("down.sh"), include_str!("down.sh"))
}

/// What every sshd is told. All else is as it comes, `MaxStartups` above all.
const SSHD: &str = "\
Port 22
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
SetEnv PATH=/usr/bin:/bin
";

fn passwd(host: &Host) -> String {
    let shell = if host.kind == Kind::Bash { "/bin/bash" } else { "/bin/sh" };
    let Host { user, uid, .. } = host;
    // The middle one is who sshd becomes while it does not yet know who is there.
    format!(
        "root:*:0:0::/:/bin/sh\nsshd:*:65533:65534::/run/sshd:/bin/false\n{user}:*:{uid}:{uid}::{HOMES}/{user}:{shell}\n"
    )
}

fn ssh_config(dir: &Path, hosts: &[Host]) -> String {
    let mut text = String::new();
    for host in hosts {
        text += &format!("Host {}\n    HostName {}\n    User {}\n", host.name, host.ip, host.user);
        if host.kind == Kind::Inner {
            text += &format!("    ProxyJump {JUMP}\n");
        }
    }
    let shown = dir.display();
    text += &format!(
        "Host *\n    IdentityFile \"{shown}/key\"\n    IdentitiesOnly yes\n    UserKnownHostsFile \"{shown}/known_hosts\"\n\
         \x20   GlobalKnownHostsFile /dev/null\n    StrictHostKeyChecking yes\n    UpdateHostKeys no\n"
    );
    text
}

/// The list for programs; see the documentation of [`super`]. `sudo` comes before commands that only root may give.
pub fn list(dir: &Path, sudo: &[&str], hosts: &[(Host, u32)], python: (&Path, &str)) -> String {
    let sudo: String = sudo.iter().map(|word| format!("{word} ")).collect();
    let names: Vec<&str> = hosts.iter().map(|(host, _)| host.name).collect();
    let mut text = format!("hosts={}\n", names.join(" "));
    text += &format!("python={}\npython_version={}\n", python.0.display(), python.1);
    for (host, pid) in hosts {
        let Host { name, ip, user, uid, link, .. } = host;
        let place = match hosts.iter().find(|(other, _)| other.name == JUMP && host.kind == Kind::Inner) {
            Some((jump, _)) => format!("-n {} link set {link}", jump.link),
            None => format!("link set {link}"),
        };
        let values = [
            ("ip", ip.clone()),
            ("user", user.clone()),
            ("uid", uid.to_string()),
            ("pid", pid.to_string()),
            ("netns", link.clone()),
            ("link", link.clone()),
            ("home", dir.join(name).join("home").display().to_string()),
            ("home_there", format!("{HOMES}/{user}")),
            ("python", if host.kind.has_python() { "/usr/bin/python3" } else { "none" }.to_owned()),
            ("numpy", if host.kind == Kind::Python { "yes" } else { "no" }.to_owned()),
            ("log", dir.join(name).join("log").display().to_string()),
            ("cut", format!("{sudo}ip {place} down")),
            ("restore", format!("{sudo}ip {place} up")),
            ("enter", format!("{sudo}nsenter --target {pid} --mount --net --uts --ipc --pid")),
            ("enter_net", format!("{sudo}ip netns exec {link}")),
        ];
        values.iter().for_each(|(key, value)| text += &format!("{name}.{key}={value}\n"));
    }
    text
}

/// The public half of a key, which is made unless it is there.
fn key(workspace: &Workspace, path: &Path) -> Result<String, Failure> {
    let public = path.with_extension("pub");
    if !(path.exists() && public.exists()) {
        // The tool would ask whether it may overwrite half of a key.
        let _ = std::fs::remove_file(path);
        workspace
            .program("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
            .arg(path)
            .ask()?;
    }
    std::fs::read_to_string(&public).about(public)
}

fn copy_tool(name: &str, to: &Path) -> Result<(), Failure> {
    if to.exists() {
        return Ok(());
    }
    // Beside and renamed, so that there never is half a tool. The mode leaves out that `mount` runs as root.
    let beside = to.with_extension("new");
    std::fs::copy(Path::new("/usr/bin").join(name), &beside).about(Path::new("/usr/bin").join(name))?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)).about(&beside)?;
    std::fs::rename(&beside, to).about(to)
}

fn make(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).about(dir)
}

/// Writes beside and renames, so that whoever reads it meanwhile reads all of one version.
pub fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).about(&beside)?;
    std::fs::rename(&beside, path).about(path)
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    #[test]
    fn only_the_inner_host_is_reached_through_another() {
        let hosts = plan::hosts("x-", 3);
        let text = ssh_config(Path::new("t/hosts"), &hosts);
        assert!(text.starts_with("Host a\n    HostName 10.77.3.11\n    User at-a\nHost b\n"), "{text}");
        assert!(
            text.contains(
                "Host inner\n    HostName 10.77.3.130\n    User at-inner\n    ProxyJump jump\nHost"
            )
        );
        assert_eq!(text.matches("ProxyJump").count(), 1);
        assert!(text.contains("\n    IdentitiesOnly yes\n"));
    }

    #[test]
    fn the_list_has_a_line_for_each_value() {
        let hosts: Vec<(Host, u32)> = plan::hosts("x-", 0).into_iter().zip(100..).collect();
        let text = list(Path::new("t/hosts"), &["sudo", "-n"], &hosts, (Path::new("t/python"), "3.11"));
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{key}=")));
        assert_eq!(value("hosts").map(|names| names.split(' ').count()), Some(plan::HOSTS.len()));
        assert_eq!(value("b.cut"), Some("sudo -n ip link set x-b down"));
        assert_eq!(value("inner.cut"), Some("sudo -n ip -n x-jump link set x-inner down"));
        assert_eq!(value("python_version"), Some("3.11"));
        assert_eq!((value("py.python"), value("py.numpy")), (Some("/usr/bin/python3"), Some("yes")));
        assert_eq!((value("nonp.python"), value("nonp.numpy")), (Some("/usr/bin/python3"), Some("no")));
        assert_eq!((value("a.python"), value("a.numpy")), (Some("none"), Some("no")));
        assert_eq!(value("a.pid"), Some("100"));
        assert_eq!(value("a.home"), Some("t/hosts/a/home"));
    }
}
