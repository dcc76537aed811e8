//! Hosts that would not serve: each is noticed in time, named, explained, and something can be done about it.

use crate::support::{Host, command, folder, ran, rounds};
use std::path::PathBuf;
use std::process::Command;

/// A configuration of ssh that is that of the test hosts with something replaced, and a key that no host knows.
struct OtherConfig(PathBuf);

impl OtherConfig {
    fn new(name: &str, change: impl Fn(&str, &str) -> String) -> OtherConfig {
        let dir = std::env::temp_dir().join(format!("qjam-hosts-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let made = OtherConfig(dir);
        let key = made.0.join("key");
        let keygen =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        assert!(keygen.unwrap().success());
        let config = std::fs::read_to_string(folder().join("ssh_config")).unwrap();
        std::fs::write(made.0.join("config"), change(&config, key.to_str().unwrap())).unwrap();
        made
    }

    fn ssh(&self) -> String {
        format!("ssh -F {}", self.0.join("config").display())
    }
}

impl Drop for OtherConfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The value of an option in a configuration of ssh, as it is written there.
fn option<'a>(config: &'a str, name: &str) -> &'a str {
    config.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap().trim()
}

#[test]
fn a_closed_port() {
    let _jump = Host::take("jump");
    ran(&mut rounds("jump:1")).must_fail(
        "jump:1",
        "connect",
        &["nobody listens", "| ssh: ", "Connection refused"],
    );
}

#[test]
fn a_key_that_the_host_does_not_know() {
    let _jump = Host::take("jump");
    let other = OtherConfig::new("key", |config, key| config.replace(option(config, "IdentityFile"), key));
    ran(rounds("jump").env("QJAM_SSH", other.ssh())).must_fail(
        "jump",
        "authenticate",
        &["without a password", "| at-jump@", "Permission denied", "ssh-copy-id"],
    );
}

#[test]
fn a_host_key_that_has_changed() {
    let jump = Host::take("jump");
    let other = OtherConfig::new("host-key", |config, key| {
        let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
        let known = PathBuf::from(key).with_extension("known");
        std::fs::write(&known, format!("{} {public}", jump.value("ip"))).unwrap();
        config.replace(option(config, "UserKnownHostsFile"), known.to_str().unwrap())
    });
    ran(rounds("jump").env("QJAM_SSH", other.ssh())).must_fail(
        "jump",
        "authenticate",
        &["not the one that is known", "| Host key verification failed", "ssh-keygen -R"],
    );
}

#[test]
fn start_up_files_that_talk_and_dawdle_do_no_harm() {
    let bash = Host::take("bash");
    let noise = "\
echo 'Welcome!  qjam-0123456789abcdef ready'
printf '\\377\\376\\000\\001\\033[2J no end of line' 
echo complaint >&2
sleep 1
head -c 70000 /dev/urandom
";
    let _rc = bash.file_in_home(".bashrc", noise);
    let _ssh_rc = bash.file_in_home(".ssh/rc", "echo more noise; echo and more >&2\n");
    ran(&mut rounds("bash*2")).must_work();
    let checked = ran(&mut command(&["check", "bash", "--json"]));
    checked.must_work();
    assert_eq!(checked.json()["ok"], true);
}

#[test]
fn start_up_files_that_never_end_or_end_everything() {
    let bash = Host::take("bash");
    // Its shell waits on, whoever has gone.
    let _quiet = bash.quiet_after();
    {
        let _rc = bash.file_in_home(".bashrc", "sleep 100\n");
        ran(&mut rounds("bash*2")).must_fail("bash", "place", &["start-up files"]);
    }
    let _rc = bash.file_in_home(".bashrc", "echo bye; exit 3\n");
    ran(&mut rounds("bash*2")).must_fail("bash", "place", &["code 3", "| bye"]);
}

#[test]
fn no_folder_where_programs_may_run() {
    let a = Host::take("a");
    let _covered = a.cover_all("noexec");
    let home = format!("| {}/.cache/qjam: ", a.value("home_there"));
    ran(&mut rounds("a")).must_fail("a", "place", &["no folder", &home, "noexec", "| /dev/shm/"]);
}

#[test]
fn full_disks() {
    let a = Host::take("a");
    let _covered = a.cover_all("size=64k");
    ran(&mut rounds("a")).must_fail("a", "place", &["no folder", "full: ", "KiB needed", "make room"]);
}

#[test]
fn a_disk_with_room_for_nothing_but_the_worker() {
    // The worker fits, what is cached does not: the run goes on in memory, and says so.
    let b = Host::take("b");
    let executable = std::fs::metadata(env!("CARGO_BIN_EXE_qjam")).unwrap().len();
    let _covered = b.cover_all(&format!("size={}k", executable / 1024 + 64));
    let checked = ran(&mut command(&["check", "b"]));
    assert!(checked.must_work().contains("! only 0 MiB are free"), "{}", checked.out);
    let run = ran(&mut command(&["bench", "transfer", "--mib", "8", "--workers", "b"]));
    run.must_work();
    assert!(run.err.contains("[b] ") && run.err.contains("memory"), "{}", run.err);
}

#[test]
fn a_read_only_home_is_no_obstacle_but_nothing_else_is_left() {
    let c = Host::take("c");
    let home = c.value("home_there");
    ran(&mut command(&["clean", "c"])).must_work();
    {
        let _read_only =
            c.fault(&["mount", "-o", "remount,bind,ro", home], &["mount", "-o", "remount,bind,rw", home]);
        ran(&mut rounds("c")).must_work();
        let checked = ran(&mut command(&["check", "c"]));
        assert!(
            checked.must_work().contains("! the home folder would not do, so /var/tmp/qjam-"),
            "{}",
            checked.out
        );
        let cleaned = ran(&mut command(&["clean", "c"]));
        assert!(cleaned.must_work().contains("removed /var/tmp/qjam-"), "{}", cleaned.out);
    }
    let _covered = c.cover_all("ro");
    ran(&mut rounds("c")).must_fail("c", "place", &["no folder", "Read-only file system"]);
}

#[test]
fn another_kind_of_machine() {
    let _i686 = Host::take("i686");
    ran(&mut rounds("i686")).must_fail("i686", "place", &["another kind", "i686", "x86_64", "leave it out"]);
}

#[test]
fn a_host_that_swallows_everything() {
    let d = Host::take("d");
    let chain = "{type filter hook input priority 0; policy drop;}";
    let _hole = d.net_fault(
        &[&["nft", "add", "table", "inet", "hole"], &["nft", "add", "chain", "inet", "hole", "in", chain]],
        &["nft", "delete", "table", "inet", "hole"],
    );
    ran(&mut rounds("d")).must_fail("d", "connect", &["does not answer", "firewall"]);
}

#[test]
fn a_worker_that_dies_at_once() {
    let only22 = Host::take("only22");
    ran(rounds("only22").env("QJAM_WORKER", "/bin/false")).must_fail(
        "only22",
        "start",
        &["ended with code 1", "a build of this program"],
    );
    ran(rounds("only22").env("QJAM_WORKER", "/bin/true")).must_fail(
        "only22",
        "start",
        &["ended at once", "#[qjam::main]"],
    );
    ran(rounds("only22").env("QJAM_WORKER", "/etc/passwd")).must_fail(
        "only22",
        "copy",
        &["/etc/passwd", "QJAM_WORKER"],
    );
    ran(&mut command(&["clean", "only22"])).must_work();
    drop(only22);
}

#[test]
fn a_run_does_not_go_on_with_fewer_hosts_than_it_was_given() {
    let _inner = Host::take("inner");
    ran(&mut rounds("inner,inner:1")).must_fail("inner:1", "connect", &["the jump host does not reach it"]);
}
