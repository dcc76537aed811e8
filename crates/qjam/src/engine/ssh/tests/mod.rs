//! Starts against a real sshd on this machine, in good order and in every kind of bad.

mod hostile;
mod server;

use super::dialogue::Route;
use super::start::{clean_by, start_by};
use super::{Cleaned, Connected, Shipped, StartFailure, Step};
use crate::engine::HostAddress;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use server::{Server, is_root};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

crate::worker_hook!();

/// Whoever waits longer waits for ever. Nothing is measured with it.
const HANG: Duration = Duration::from_secs(180);

static GO_ON: AtomicBool = AtomicBool::new(false);

fn this() -> Shipped {
    Shipped::open(Path::new("/proc/self/exe")).unwrap()
}

fn start(server: &Server, shipped: &Shipped) -> Result<Connected, StartFailure> {
    start_by(&Route::by(server.ssh(), &server.address, &GO_ON), shipped, &mut |_, _| {})
}

fn clean(server: &Server) -> Result<Cleaned, StartFailure> {
    clean_by(&Route::by(server.ssh(), &server.address, &GO_ON))
}

/// The failure of a start that must fail, at this step, saying this.
#[track_caller]
fn fails(server: &Server, shipped: &Shipped, step: Step, says: &str) -> StartFailure {
    let Err(failure) = start(server, shipped) else { panic!("it started") };
    let text = failure.to_string();
    assert_eq!(failure.step, step, "{text}");
    assert!(text.contains(says), "{text}");
    assert!(text.starts_with(&format!("{step}: ")) && text.contains("\n  remedy: "), "{text}");
    failure
}

fn worker_file(server: &Server, shipped: &Shipped) -> PathBuf {
    server.cache().join("qjam/bin").join(format!("worker-{}", shipped.hash))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the connection ends when our side is closed.
fn ends_when_closed(connected: &Connected) -> bool {
    rustix::net::shutdown(&connected.socket, rustix::net::Shutdown::Write).unwrap();
    let deadline = Instant::now() + HANG;
    while Instant::now() < deadline {
        let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        poll(&mut [PollFd::new(&connected.socket, PollFlags::IN)], Some(&wait)).unwrap();
        if let Ok((0, _)) = recv(&connected.socket, &mut [0; 4096], RecvFlags::DONTWAIT) {
            return true;
        }
    }
    false
}

#[test]
fn the_first_start_copies_and_the_second_does_not_and_cleaning_leaves_nothing() {
    let server = Server::start("");
    let shipped = this();
    let mut steps = Vec::new();
    let route = Route::by(server.ssh(), &server.address, &GO_ON);
    let first = start_by(&route, &shipped, &mut |step, _| steps.push(step)).unwrap();
    assert!(first.copied);
    assert_eq!(steps, [Step::Connect, Step::Authenticate, Step::Place, Step::Copy, Step::Start]);
    assert_eq!(first.timings.iter().map(|(s, _)| *s).collect::<Vec<_>>(), steps);
    let dir = server.cache().join("qjam");
    assert_eq!(Path::new(&first.dir), dir);
    for path in [&dir, &dir.join("bin"), &worker_file(&server, &shipped)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700, "{}", path.display());
    }
    assert_eq!(fs::read_dir(dir.join("bin")).unwrap().count(), 1, "nothing but the worker is left there");

    let second = start(&server, &shipped).unwrap();
    assert!(!second.copied);
    assert!(second.timings.iter().all(|(s, _)| *s != Step::Copy), "{:?}", second.timings);
    assert!(ends_when_closed(&first) && ends_when_closed(&second));

    let cleaned = clean(&server).unwrap();
    let (place, bytes) = &cleaned.removed[0];
    assert_eq!(Path::new(place), dir);
    assert!(*bytes >= shipped.length / 2, "{bytes} of {}", shipped.length);
    assert!(!dir.exists() && cleaned.left.is_empty());
    assert!(!clean(&server).unwrap().removed.iter().any(|(p, _)| Path::new(p) == dir));
}

#[test]
fn cleaning_leaves_what_is_not_ours() {
    let server = Server::start("");
    let elsewhere = server.dir.join("elsewhere");
    fs::create_dir_all(elsewhere.join("bin")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, server.cache().join("qjam")).unwrap();
    clean(&server).unwrap();
    assert!(elsewhere.join("bin").exists(), "a link is not followed");
    fs::remove_file(server.cache().join("qjam")).unwrap();
    fs::create_dir_all(server.cache().join("qjam/photos")).unwrap();
    clean(&server).unwrap();
    assert!(server.cache().join("qjam/photos").exists(), "it does not look like ours");
}

#[test]
fn any_login_shell_will_do_and_may_print_what_it_likes() {
    for shell in ["sh", "bash", "dash", "busybox sh", "mksh", "zsh", "tcsh", "fish"] {
        let program = shell.split(' ').next().unwrap();
        if !["/bin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(program).exists()) {
            continue;
        }
        let server = Server::start("ForceCommand {dir}/login");
        server.script(
            "login",
            &format!(
                "echo Welcome; echo 'the disk is nearly full' >&2; printf 'no end of line > '\n\
                 exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""
            ),
        );
        let connected = start(&server, &this()).unwrap_or_else(|e| panic!("{shell}: {e}"));
        assert!(connected.copied, "{shell}");
    }
}

#[test]
fn the_worker_finds_its_environment_as_it_was() {
    let server = Server::start("ForceCommand {dir}/login");
    server.script("login", "umask 027; exec sh -c \"$SSH_ORIGINAL_COMMAND\"");
    let connected = start(&server, &this()).unwrap();
    // Whoever has our worker as its program and asks nothing is the supervisor.
    let file = worker_file(&server, &this());
    let pids = fs::read_dir("/proc").unwrap().flatten().map(|e| e.path());
    let supervisor = pids
        .filter(|p| fs::read_link(p.join("exe")).is_ok_and(|exe| exe == file))
        .find_map(|p| fs::read_to_string(p.join("status")).ok())
        .expect("it runs");
    assert!(supervisor.contains("Umask:\t0027"), "{supervisor}");
    assert!(ends_when_closed(&connected));
}

#[test]
fn a_closed_port_is_named() {
    let mut server = Server::start("");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    server.address.port = Some(port);
    let failure = fails(&server, &this(), Step::Connect, "nobody listens");
    assert!(failure.words.iter().any(|w| w.contains("Connection refused")), "{failure}");
}

#[test]
fn a_name_that_does_not_exist_is_named() {
    let mut server = Server::start("");
    server.address.host = "no-such-host.invalid".into();
    fails(&server, &this(), Step::Connect, "no host of that name");
}

#[test]
fn a_key_that_does_not_fit_is_named() {
    let server = Server::start("");
    fs::write(server.dir.join("authorized"), "").unwrap();
    fails(&server, &this(), Step::Authenticate, "without a password");
}

#[test]
fn a_changed_host_key_is_named() {
    let server = Server::start("");
    let other = fs::read_to_string(server.dir.join("key.pub")).unwrap();
    let known = format!("[127.0.0.1]:{} {other}", server.address.port.unwrap());
    fs::write(server.dir.join("known"), known).unwrap();
    fails(&server, &this(), Step::Authenticate, "not the one that is known");
}

#[test]
fn an_unknown_host_key_is_named() {
    let server = Server::start("");
    fs::write(server.dir.join("known"), "").unwrap();
    fails(&server, &this(), Step::Authenticate, "not known here");
}

#[test]
fn another_kind_of_machine_is_named_before_anything_is_copied() {
    let server = Server::start("ForceCommand {dir}/login");
    fs::create_dir(server.dir.join("bin")).unwrap();
    server.script("bin/uname", "echo Linux aarch64");
    server.script(
        "login",
        &format!("PATH={}/bin:$PATH exec sh -c \"$SSH_ORIGINAL_COMMAND\"", server.dir.display()),
    );
    let failure = fails(&server, &this(), Step::Place, "Linux aarch64");
    assert!(failure.what.contains(std::env::consts::ARCH), "{failure}");
    assert!(!server.cache().join("qjam").exists());
}

#[test]
fn a_worker_that_dies_is_named_with_its_last_words() {
    let server = Server::start("");
    let shipped = Shipped::open(Path::new("/bin/false")).unwrap();
    fails(&server, &shipped, Step::Start, "ended with code 1");
    // This time it is there already, and is sent again in case that was why.
    fails(&server, &shipped, Step::Start, "ended with code 1");
    fails(&server, &Shipped::open(Path::new("/bin/true")).unwrap(), Step::Start, "#[qjam::main]");
    let failure = fails(&server, &Shipped::open(Path::new("/usr/bin/id")).unwrap(), Step::Start, "ended");
    assert!(!failure.words.is_empty(), "what it printed is shown: {failure}");
}

#[test]
fn a_damaged_copy_is_replaced() {
    let server = Server::start("");
    let shipped = this();
    drop(start(&server, &shipped).unwrap());
    let file = worker_file(&server, &shipped);
    let sound = fs::read(&file).unwrap();
    let whole = sound.len() as u64;
    // At the end, where nothing is needed to run; at the beginning; all of it; and one that is too short.
    for (at, length) in [(whole - 1, 1), (0, 4), (0, whole), (whole, 0)] {
        let damaged = file.with_extension("damaged");
        fs::copy(&file, &damaged).unwrap();
        let open = fs::File::options().write(true).open(&damaged).unwrap();
        open.write_all_at(&vec![0x55; length as usize], at).unwrap();
        if length == 0 {
            open.set_len(whole / 2).unwrap();
        }
        drop(open);
        fs::rename(&damaged, &file).unwrap();
        let connected = start(&server, &shipped).unwrap_or_else(|e| panic!("{at}, {length}: {e}"));
        assert!(connected.copied);
        assert!(fs::read(&file).unwrap() == sound, "what lies there is whole again");
    }
}

#[test]
fn a_host_that_takes_connections_and_says_nothing_is_given_up() {
    let mut server = Server::start("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    server.address.port = Some(listener.local_addr().unwrap().port());
    fails(&server, &this(), Step::Connect, "does not answer");
}

#[test]
fn a_start_that_nobody_wants_any_more_ends_at_once() {
    let server = Server::start("ForceCommand {dir}/login");
    let begun = server.dir.join("begun");
    server.script("login", &format!(": > {}; read x", begun.display()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let route = Route::by(server.ssh(), &server.address, &stop);
        let start = scope.spawn(move || start_by(&route, &this(), &mut |_, _| {}));
        wait_until("the login has begun", || begun.exists());
        stop.store(true, Relaxed);
        let failure = start.join().unwrap().err().expect("it was called off");
        assert!(failure.what.contains("called off"), "{failure}");
    });
}

#[test]
fn a_host_that_closes_every_connection_is_tried_a_few_times() {
    let mut server = Server::start("");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    server.address.port = Some(listener.local_addr().unwrap().port());
    let closing = std::thread::spawn(move || {
        let mut times = 0;
        while listener.accept().is_ok_and(|(_, from)| from.ip().is_loopback()) && times < 100 {
            times += 1;
            if times == 3 {
                break;
            }
        }
        times
    });
    fails(&server, &this(), Step::Connect, "");
    assert_eq!(closing.join().unwrap(), 3);
}

#[test]
fn a_shell_that_ends_or_hangs_before_our_script_is_named() {
    let server = Server::start("ForceCommand {dir}/login");
    server.script("login", "echo 'This account is currently not available.'; exit 0");
    let failure = fails(&server, &this(), Step::Place, "start-up file");
    assert!(failure.words.iter().any(|w| w.contains("not available")), "{failure}");
    server.script("login", "exit 3");
    fails(&server, &this(), Step::Place, "code 3");
    server.script("login", "read x; exec sh -c \"$SSH_ORIGINAL_COMMAND\"");
    fails(&server, &this(), Step::Place, "start-up files");
    server.script("login", "yes");
    fails(&server, &this(), Step::Place, "prints and prints");
}

#[test]
fn options_that_this_ssh_does_not_know_are_left_out() {
    let server = Server::start("");
    server.script(
        "old-ssh",
        "case \"$*\" in *StdinNull*) echo 'command-line: line 0: Bad configuration option: stdinnull' >&2; exit 255;; esac\n\
         exec ssh \"$@\"",
    );
    let mut ssh = server.ssh();
    ssh[0] = server.dir.join("old-ssh").display().to_string();
    start_by(&Route::by(ssh, &server.address, &GO_ON), &this(), &mut |_, _| {}).unwrap();
    let ssh = vec![server.dir.join("no-ssh").display().to_string()];
    let error = start_by(&Route::by(ssh, &server.address, &GO_ON), &this(), &mut |_, _| {}).err().unwrap();
    assert!(error.to_string().contains("there is no ssh"), "{error}");
}

#[test]
fn many_starts_at_once_get_through_to_one_host() {
    let server = Server::start("MaxStartups 4:50:8");
    let shipped = this();
    let starts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(|| start(&server, &shipped))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for start in starts {
        start.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A test needs root to make the file systems it wants.
fn must_mount(test: &str) {
    assert!(is_root(), "NOT TESTED for lack of root: {test}");
}

#[test]
fn places_that_will_not_do_are_passed_over() {
    must_mount("places that will not do are passed over");
    for (mount, why) in [
        ("mount -t tmpfs -o noexec none {dir}/cache", "noexec"),
        ("mount -t tmpfs -o ro none {dir}/cache", "Read-only"),
        ("mount -t tmpfs -o size=64k none {dir}/cache", "KiB free"),
        ("mkdir {dir}/cache/qjam; chown 1234 {dir}/cache/qjam", "somebody else"),
        ("ln -s / {dir}/cache/qjam", "symbolic link"),
        ("touch {dir}/cache/qjam", "mkdir: "),
    ] {
        let server = Server::start_among(&format!("mount -t tmpfs none /var/tmp; {mount}"), "");
        let connected = start(&server, &this()).unwrap_or_else(|e| panic!("{mount}: {e}"));
        assert_eq!(connected.dir, "/var/tmp/qjam-0", "{mount}");
        drop(connected);
        let everywhere = "for d in /var/tmp /tmp /dev/shm; do mount -t tmpfs -o ro none $d; done;";
        let server = Server::start_among(&format!("{everywhere} {mount}"), "");
        let failure = fails(&server, &this(), Step::Place, why);
        assert_eq!(failure.words.len(), 4, "{failure}");
    }
}

#[test]
fn a_disk_that_is_full_before_the_copy_is_whole_is_passed_over() {
    must_mount("a disk that is full before the copy is whole is passed over");
    // A `df` that lies, like one that knows nothing of quotas.
    let server = Server::start_among(
        "mount -t tmpfs none /var/tmp; mount -t tmpfs -o size=1M none {dir}/cache",
        "ForceCommand {dir}/login",
    );
    fs::create_dir(server.dir.join("bin")).unwrap();
    server.script("bin/df", "echo header; echo none 99999999 0 99999999 0% /");
    server.script(
        "login",
        &format!("PATH={}/bin:$PATH exec sh -c \"$SSH_ORIGINAL_COMMAND\"", server.dir.display()),
    );
    let connected = start(&server, &this()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(connected.dir, "/var/tmp/qjam-0");
}
