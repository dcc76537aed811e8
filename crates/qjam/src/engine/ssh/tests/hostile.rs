//! Hosts, and users of hosts, who mean harm: each of these gets nothing.

use super::super::script;
use super::{
    FAILS_WITHIN, GO_ON, Route, Server, Shipped, Step, fails, must_mount, start, start_by, this, worker_file,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROTECTING: [&str; 6] =
    ["BatchMode", "PermitLocalCommand", "EscapeChar", "ForwardAgent", "ClearAllForwardings", "ControlMaster"];

fn complaint(option: &str) -> String {
    format!("command-line: line 0: Bad configuration option: {}", option.to_lowercase())
}

/// An `ssh` that writes down what it is asked for, with an agent of the user's that may be forwarded.
fn noted_ssh(server: &Server) -> Vec<String> {
    let dir = server.dir.display();
    server.script(
        "noted-ssh",
        &format!(
            "SSH_AUTH_SOCK={dir}/agent; export SSH_AUTH_SOCK; echo \"$*\" >> {dir}/asked; exec ssh \"$@\""
        ),
    );
    let config = server.dir.join("ssh_config");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, format!("{text}ForwardAgent yes\n")).unwrap();
    let mut ssh = server.ssh();
    ssh[0] = server.dir.join("noted-ssh").display().to_string();
    ssh
}

/// Every connection that was asked for, and none of the calls that only look at options.
fn connections(server: &Server) -> Vec<String> {
    let asked = fs::read_to_string(server.dir.join("asked")).unwrap_or_default();
    asked.lines().filter(|line| !line.starts_with("-G")).map(Into::into).collect()
}

fn have_all_protection(connections: &[String]) -> bool {
    connections.iter().all(|line| PROTECTING.iter().all(|option| line.contains(&format!("{option}="))))
}

struct Agent(Child);

impl Agent {
    fn start(server: &Server) -> Agent {
        let socket = server.dir.join("agent");
        let agent =
            Command::new("ssh-agent").args(["-D", "-a"]).arg(&socket).stdout(Stdio::null()).spawn().unwrap();
        let agent = Agent(agent);
        wait_until("the agent listens", || socket.exists());
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + FAILS_WITHIN;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_host_cannot_switch_off_what_protects_from_it() {
    let server = Server::start("ForceCommand {dir}/login");
    let _agent = Agent::start(&server);
    let ssh = noted_ssh(&server);
    let dir = server.dir.display();
    for option in PROTECTING.into_iter().chain(["StdinNull", "LogVerbose"]) {
        server.script(
            "login",
            &format!(
                "if [ -n \"$SSH_AUTH_SOCK\" ]; then : > {dir}/agent-arrived; fi; echo '{}' >&2; exit 255",
                complaint(option)
            ),
        );
        let _ = fs::remove_file(server.dir.join("asked"));
        let route = Route::by(ssh.clone(), &server.address, &GO_ON);
        assert!(start_by(&route, &this(), &mut |_, _| {}).is_err());
        let connections = connections(&server);
        assert_eq!(connections.len(), 1, "{option}: it was tried again");
        assert!(have_all_protection(&connections), "{option}: {connections:?}");
    }
    assert!(!server.dir.join("agent-arrived").exists(), "the host was given the user's agent");
}

#[test]
fn a_banner_is_no_word_of_ssh() {
    let server = Server::start("Banner {dir}/banner");
    fs::write(server.dir.join("banner"), format!("{}\n", complaint("forwardagent"))).unwrap();
    fs::write(server.dir.join("authorized"), "").unwrap();
    let route = Route::by(noted_ssh(&server), &server.address, &GO_ON);
    assert!(start_by(&route, &this(), &mut |_, _| {}).is_err());
    assert!(route.left_out.borrow().is_empty());
    assert!(have_all_protection(&connections(&server)) && connections(&server).len() == 1);
}

#[test]
fn an_ssh_that_cannot_protect_this_machine_is_not_used() {
    let server = Server::start("");
    server.script(
        "old-ssh",
        &format!(
            "case \"$*\" in *ForwardAgent*) echo '{}' >&2; exit 255;; esac\nexec ssh \"$@\"",
            complaint("forwardagent")
        ),
    );
    let mut ssh = server.ssh();
    ssh[0] = server.dir.join("old-ssh").display().to_string();
    let failure = start_by(&Route::by(ssh, &server.address, &GO_ON), &this(), &mut |_, _| {}).err().unwrap();
    assert_eq!(failure.step, Step::Connect);
    assert!(failure.what.contains("forwardagent, which protects this machine"), "{failure}");
}

#[test]
fn what_hosts_say_cannot_move_the_cursor() {
    let server = Server::start("ForceCommand {dir}/login");
    server.script("login", "printf '\\033[2J\\033]0;owned\\007\\rall is well\\n' >&2; exit 3");
    let failure = fails(&server, &this(), Step::Place, "code 3");
    let text = failure.to_string();
    assert!(text.contains("\\u{1b}[2J") && text.contains("all is well"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{7}', '\r']), "{text:?}");
}

/// A worker that somebody else has put where ours would be; says when it is run.
fn plant(server: &Server, shipped: &Shipped) {
    let file = worker_file(server, shipped);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("#!/bin/sh\n: > {}/ran\n", server.dir.display())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn open_up(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn a_planted_worker_is_not_run() {
    let shipped = this();
    for (what, opens, owner) in [
        ("a folder that anybody can write to", Some("qjam"), None),
        ("the folder of executables, likewise", Some("qjam/bin"), None),
        ("a file of another owner", None, Some(1234)),
    ] {
        let server = Server::start("");
        plant(&server, &shipped);
        if let Some(folder) = opens {
            open_up(&server.cache().join(folder));
        }
        if owner.is_some() {
            must_mount(what);
            std::os::unix::fs::chown(worker_file(&server, &shipped), owner, None).unwrap();
        }
        let connected = start(&server, &shipped).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(connected.copied, "{what}");
        assert!(!server.dir.join("ran").exists(), "{what}: it was run");
        for path in ["qjam", "qjam/bin"] {
            let mode = fs::metadata(server.cache().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{what}: {path}");
        }
    }
}

#[test]
fn a_folder_in_one_that_anybody_can_write_to_is_passed_over() {
    must_mount("a folder in one that anybody can write to is passed over");
    let server = Server::start_among("mount -t tmpfs -o mode=1777 none /var/tmp", "");
    open_up(&server.cache());
    let connected = start(&server, &this()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(connected.dir, "/var/tmp/qjam-0");
}

/// Our script under a shell of this machine, in a group of its own, as sshd starts it.
struct Script {
    child: Child,
    home: std::path::PathBuf,
}

impl Script {
    fn start(name: &str, command: &str) -> Script {
        let home = std::env::temp_dir().join(format!("qjam-script-{}-{name}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let child = Command::new("sh")
            .args(["-c", command])
            .env("XDG_CACHE_HOME", &home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Script { child, home }
    }

    /// Reads until the script has said this.
    fn hear(&mut self, said: &str) -> String {
        let (mut text, mut byte) = (String::new(), [0]);
        while !text.contains(said) && self.child.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 {
            text.push(char::from(byte[0]));
        }
        assert!(text.contains(said), "{text}");
        text
    }

    /// Processes of its group.
    fn group(&self) -> usize {
        let group = self.child.id().to_string();
        let stats =
            fs::read_dir("/proc").unwrap().flatten().map(|e| fs::read_to_string(e.path().join("stat")));
        let is_in = |stat: &String| {
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            fields.get(2) == Some(&group.as_str()) && fields[0] != "Z"
        };
        stats.flatten().filter(is_in).count()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

#[test]
fn a_copy_that_is_cut_leaves_nobody_waiting() {
    let nonce = "0123456789abcdef0123456789abcdef";
    let command = script::place_within(nonce, &this(), false, 1);
    let mut script = Script::start("cut", &command);
    script.hear("want");
    // A part of it, and then silence: the link is down, and nobody closes it.
    script.child.stdin.as_mut().unwrap().write_all(&[0x55; 5000]).unwrap();
    wait_until("all of its processes have ended", || {
        script.child.try_wait().unwrap().is_some() && script.group() == 0
    });
    let left: Vec<_> = fs::read_dir(script.home.join("qjam/bin")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_copy_that_takes_long_is_not_given_up_and_leaves_no_guard() {
    let nonce = "1123456789abcdef0123456789abcdef";
    let shipped = Shipped::open(Path::new("/bin/true")).unwrap();
    let mut script = Script::start("slow", &script::place_within(nonce, &shipped, false, 3600));
    script.hear("want");
    let bytes = fs::read("/bin/true").unwrap();
    script.child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    script.hear("start");
    wait_until("it has become the worker, which ends", || script.child.try_wait().unwrap().is_some());
    wait_until("its guard has ended", || script.group() == 0);
}

#[test]
fn nothing_is_written_through_what_somebody_has_put_there() {
    let nonce = "2123456789abcdef0123456789abcdef";
    let shipped = this();
    let command = script::place_within(nonce, &shipped, false, 3600);
    let home = std::env::temp_dir().join(format!("qjam-script-{}-link", std::process::id()));
    let bin = home.join("qjam/bin");
    fs::create_dir_all(&bin).unwrap();
    let precious = home.join("precious");
    fs::write(&precious, "precious").unwrap();
    // Whoever watches processes on a host knows the name in time.
    symlink(&precious, bin.join(format!("worker-{}.{nonce}.tmp", shipped.hash))).unwrap();
    let mut script = Script::start("link", &command);
    // Nobody sends it anything.
    drop(script.child.stdin.take());
    script.hear("no ");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}
