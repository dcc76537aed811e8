//! Hosts, and users of hosts, who mean harm: each of these gets nothing.

use super::super::{Patience, script};
use super::{
    GO_ON, HANG, Route, Server, Shipped, Step, clean, ends_when_closed, fails, must_mount, start, start_by,
    this, wait_until, worker_file,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PROTECTING: [&str; 8] = [
    "BatchMode",
    "PermitLocalCommand",
    "EscapeChar",
    "ForwardAgent",
    "GSSAPIDelegateCredentials",
    "ClearAllForwardings",
    "Tunnel",
    "ControlMaster",
];

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
fn what_the_users_configuration_opens_is_shut() {
    let server = Server::start("");
    let config = server.dir.join("ssh_config");
    let text = fs::read_to_string(&config).unwrap();
    let opens = "Tunnel yes\nGSSAPIDelegateCredentials yes\nForwardAgent yes\nForwardX11 yes\nPermitLocalCommand yes\n\
                 LocalCommand true\nControlMaster auto\nBatchMode no\nRemoteForward 1234 localhost:22\n";
    fs::write(config, format!("{text}{opens}")).unwrap();
    let route = Route::by(server.ssh(), &server.address, &GO_ON);
    let mut asked = Command::new("ssh");
    asked.arg("-G").args(super::super::options::arguments(&route)).args(["--", "127.0.0.1"]);
    let out = asked.output().unwrap();
    let meant = String::from_utf8(out.stdout).unwrap();
    for line in [
        "tunnel false",
        "gssapidelegatecredentials no",
        "forwardagent no",
        "forwardx11 no",
        "permitlocalcommand no",
        "controlmaster false",
        "batchmode yes",
        "clearallforwardings yes",
    ] {
        assert!(meant.lines().any(|l| l == line), "{line}: {meant}");
    }
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

/// A host that has the nonce of our script, and then says what it likes. `$size` is the length of the executable.
fn liar(says: &str) -> Server {
    let server = Server::start("ForceCommand {dir}/login");
    let dir = server.dir.display();
    server.script(
        "login",
        &format!(
            "set -- ${{SSH_ORIGINAL_COMMAND##*qjam }}\n\
             n=$1; size=$4\n\
             say() {{ echo \"qjam-$n $*\"; echo \"$1\" >> {dir}/said; }}\n\
             say hello $(uname -s -m)\n{says}"
        ),
    );
    server
}

/// How often a liar has said a word.
fn times_said(server: &Server, word: &str) -> usize {
    let said = fs::read_to_string(server.dir.join("said")).unwrap_or_default();
    said.lines().filter(|line| *line == word).count()
}

/// Something small to send.
fn small() -> Shipped {
    Shipped::open(Path::new("/bin/true")).unwrap()
}

/// A start that is called off if it does not fail by itself.
fn fails_by_itself(server: &Server, shipped: &Shipped, patience: Patience) -> String {
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + HANG;
            while !over.load(Relaxed) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Relaxed);
        });
        let mut route = Route::by(server.ssh(), &server.address, &stop);
        route.patience = patience;
        let failure = start_by(&route, shipped, &mut |_, _| {}).err().expect("it cannot start");
        over.store(true, Relaxed);
        failure.to_string()
    })
}

#[test]
fn a_host_that_repeats_itself_is_left() {
    let again = |what: &str| format!("i=0; while [ $i -lt 30 ]; do i=$((i + 1)); {what}; done");
    for (says, word, times_max, breach) in [
        (again("say want /x; head -c $size > /dev/null"), "want", 2, "`want` after `want`"),
        (again("say want /x; head -c $size > /dev/null; say no /x: full"), "want", 5, "`want`"),
        (again("say start /x"), "start", 30, "`start` after `start`"),
        (again("say no /x: full"), "no", 30, "more than 4 places"),
        (again("say hello Linux x86_64"), "hello", 31, "`hello` while"),
        (again("say tea"), "tea", 30, "`tea`"),
        ("say start $(head -c 100000 /dev/zero | tr '\\0' x); sleep 60".into(), "start", 1, "a line of"),
    ] {
        let server = liar(&says);
        let text = fails_by_itself(&server, &small(), Patience::USUAL);
        assert!(text.contains("does not do what our script does") && text.contains(breach), "{says}: {text}");
        assert!(times_said(&server, word) <= times_max, "{says}: {}", times_said(&server, word));
    }
}

#[test]
fn a_host_whose_copies_are_always_damaged_gets_few() {
    let server = liar("say want /x; head -c $size > /dev/null; say start /x; say damaged; exit 71");
    let text = fails_by_itself(&server, &small(), Patience::USUAL);
    assert!(text.contains("not what was sent"), "{text}");
    assert_eq!(times_said(&server, "want"), 2);
}

#[test]
fn a_host_that_takes_a_little_now_and_then_is_left() {
    let server = liar("say want /x; while [ \"$(head -c 1024 | wc -c)\" -gt 0 ]; do sleep 0.05; done");
    // Long enough to fill every buffer on the way; any rate is too low.
    let patience =
        Patience { copy_begins: Duration::from_secs(1), copy_bytes_per_s_min: u64::MAX, ..Patience::USUAL };
    let text = fails_by_itself(&server, &this(), patience);
    assert!(text.contains("the host takes less than"), "{text}");
}

#[test]
fn cleaning_ends_whatever_a_host_says() {
    let lines = "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); say gone 1 /x$i; done; say done";
    let server = liar(lines);
    let failure = clean(&server).expect_err("that many places there are not");
    assert!(failure.what.contains("more than 4 places"), "{failure}");
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

/// A `PATH` with what the script needs, and with these tools beside it.
fn path_with(server: &Server, tools: &[&str]) -> String {
    let bin = server.dir.join("bin");
    fs::create_dir(&bin).unwrap();
    let needed =
        ["sh", "uname", "id", "ls", "mkdir", "chmod", "rm", "mv", "df", "head", "cat", "wc", "sleep"];
    for tool in needed.iter().chain(tools) {
        let found = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(tool));
        let found = found.iter().find(|path| path.exists());
        symlink(found.unwrap_or_else(|| panic!("this test needs {tool}")), bin.join(tool)).unwrap();
    }
    bin.display().to_string()
}

#[test]
fn a_changed_worker_is_not_run_whatever_tool_the_host_has() {
    let shipped = this();
    for (tools, is_compared) in [
        (&["sha256sum"][..], true),
        (&["shasum"], true),
        (&["openssl"], true),
        // Nothing to compare with; all of this is then for its folder, which nobody else can write to, and for the worker itself.
        (&[], false),
    ] {
        let server = Server::start("ForceCommand {dir}/login");
        let path = path_with(&server, tools);
        server.script("login", &format!("PATH={path} exec sh -c \"$SSH_ORIGINAL_COMMAND\""));
        plant(&server, &shipped);
        for dir in ["qjam", "qjam/bin", &format!("qjam/bin/worker-{}", shipped.hash)] {
            fs::set_permissions(server.cache().join(dir), fs::Permissions::from_mode(0o700)).unwrap();
        }
        let connected = start(&server, &shipped).unwrap_or_else(|e| panic!("{tools:?}: {e}"));
        assert!(connected.copied, "{tools:?}");
        assert_eq!(server.dir.join("ran").exists(), !is_compared, "{tools:?}");
        assert!(ends_when_closed(&connected));
        // What was copied is whole, and is not copied again.
        assert!(!start(&server, &shipped).unwrap().copied, "{tools:?}");
    }
}

#[test]
fn a_tool_that_cannot_make_a_sum_does_not_decide() {
    let server = Server::start("ForceCommand {dir}/login");
    let path = path_with(&server, &[]);
    for (tool, prints) in [("b3sum", "exit 1"), ("sha256sum", "echo unknown option"), ("openssl", "kill $$")]
    {
        server.script(&format!("bin/{tool}"), prints);
    }
    server.script("login", &format!("PATH={path} exec sh -c \"$SSH_ORIGINAL_COMMAND\""));
    assert!(start(&server, &this()).unwrap_or_else(|e| panic!("{e}")).copied);
}

#[test]
fn a_copy_that_arrives_changed_is_not_run() {
    let server = Server::start("ForceCommand {dir}/login");
    let path = path_with(&server, &["sha256sum", "tr"]);
    // A disk that changes what is written to it.
    fs::remove_file(server.dir.join("bin/cat")).unwrap();
    server.script("bin/cat", "exec tr '\\000' '\\001'");
    server.script("login", &format!("PATH={path} exec sh -c \"$SSH_ORIGINAL_COMMAND\""));
    let failure = fails(&server, &small(), Step::Place, "not what was sent");
    assert!(failure.words.iter().all(|word| word.contains("not what was sent")), "{failure}");
    assert_eq!(fs::read_dir(server.cache().join("qjam/bin")).unwrap().count(), 0);
}

#[test]
fn every_folder_above_must_be_shut() {
    must_mount("every folder above must be shut");
    let above = |name: &str| format!("SetEnv XDG_CACHE_HOME={{dir}}/{name}");
    for (what, make, cache, is_used) in [
        ("ours all the way", "mkdir -p {dir}/x/y", "x/y", true),
        ("open two levels up", "mkdir -p {dir}/x/y; chmod 777 {dir}/x", "x/y", false),
        ("open to a group", "mkdir -p {dir}/x/y; chgrp 1234 {dir}/x; chmod 770 {dir}/x", "x/y", false),
        ("sticky two levels up", "mkdir -p {dir}/x/y; chmod 1777 {dir}/x", "x/y", true),
        ("another's two levels up", "mkdir -p {dir}/x/y; chown 1234 {dir}/x", "x/y", false),
        ("by a link to one that is ours", "mkdir -p {dir}/x/y; ln -s {dir}/x/y {dir}/z", "z", true),
        (
            "by a link into one that is open",
            "mkdir -p {dir}/x/y; chmod 777 {dir}/x; ln -s {dir}/x/y {dir}/z",
            "z",
            false,
        ),
    ] {
        let mounts = format!("mount -t tmpfs -o mode=1777 none /var/tmp; {make}");
        // The first `SetEnv` of a name counts.
        let server = Server::start_among_first(&mounts, &above(cache));
        let connected = start(&server, &this()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let ours = server.dir.join("x/y/qjam");
        let expected = if is_used { ours.as_path() } else { Path::new("/var/tmp/qjam-0") };
        assert_eq!(Path::new(&connected.dir), expected, "{what}");
    }
}

/// Our script under a shell of this machine, in a group of its own, as sshd starts it.
struct Script {
    child: Child,
    home: std::path::PathBuf,
}

impl Script {
    fn start(name: &str, command: &str) -> Script {
        Script::start_after(name, "", command)
    }

    /// The same after another command of the shell.
    fn start_after(name: &str, first: &str, command: &str) -> Script {
        let home = std::env::temp_dir().join(format!("qjam-script-{}-{name}", std::process::id()));
        fs::create_dir_all(&home).unwrap();
        let child = Command::new("sh")
            .args(["-c", &format!("{first}\n{command}")])
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
        // Its guard, too.
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
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
fn a_copy_that_cannot_be_written_is_taken_to_its_end() {
    let nonce = "3123456789abcdef0123456789abcdef";
    let shipped = this();
    let dir = std::env::temp_dir().join(format!("qjam-script-{}-ticks", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    // The guard's clock is ours: a second passes when the test says so.
    let (clock, sleep) = (dir.join("clock"), dir.join("sleep"));
    assert!(Command::new("mkfifo").arg(&clock).status().unwrap().success());
    fs::write(&sleep, format!("#!/bin/sh\nread x < {}\n", clock.display())).unwrap();
    fs::set_permissions(&sleep, fs::Permissions::from_mode(0o755)).unwrap();
    // No file gets longer than this, as on a full disk.
    let first = format!("PATH={}:$PATH; trap '' XFSZ; ulimit -f 128", dir.display());
    let mut script = Script::start_after("full", &first, &script::place_within(nonce, &shipped, false, 2));
    script.hear("want");
    let copy = script.home.join(format!("qjam/bin/worker-{}.{nonce}.tmp", shipped.hash));
    let length = || fs::metadata(&copy).map_or(0, |m| m.len());
    let mut left = shipped.length;
    let mut send = |script: &mut Script, bytes: u64| {
        left -= bytes;
        script.child.stdin.as_mut().unwrap().write_all(&vec![0x55; bytes as usize]).unwrap();
        left
    };
    send(&mut script, 1 << 20);
    wait_until("nothing more is kept of it", || length() > 0 && length() < 60_000);
    for _ in 0..8 {
        let before = length();
        send(&mut script, 64 << 10);
        wait_until("what came is seen", || length() > before);
        fs::write(&clock, "tick\n").unwrap();
    }
    let rest = send(&mut script, 0);
    send(&mut script, rest);
    let said = script.hear("no ");
    assert!(!said.contains("start"), "{said}");
    // It goes on to the next place; that it ends there is not what is tested here.
    drop(script.child.stdin.take());
    fs::remove_dir_all(&dir).unwrap();
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
