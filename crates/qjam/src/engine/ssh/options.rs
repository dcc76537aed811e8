//! The options that `ssh` is given, whatever the user's own configuration says, and those that an older `ssh` does without.
//!
//! Which options an `ssh` does not know is asked of that `ssh` alone, by a call that reaches no host (`ssh -G`): a host can print
//! the same words, before it has proved who it is (a banner) and after. The answer holds for one host and one start. An option that
//! protects this machine from the host is never left out.

use super::dialogue::Route;
use super::words;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Without these a host could use the agent, the tickets of Kerberos, the forwardings, the network, the terminal or the shared
/// connections of this machine.
const PROTECTING: [&str; 8] = [
    "BatchMode=yes",
    "PermitLocalCommand=no",
    "EscapeChar=none",
    "ForwardAgent=no",
    // An `ssh` that was built without Kerberos says that it does not support this one, and goes on.
    "GSSAPIDelegateCredentials=no",
    "ClearAllForwardings=yes",
    // A network interface between the two machines is no forwarding.
    "Tunnel=no",
    // A connection that others share is used, but ours does not become one: it ends when we do.
    "ControlMaster=no",
];

/// Without these a start takes longer, says less, or fails where the user's configuration asks for something unusual.
const HELPFUL: [&str; 11] = [
    // The first is given with the seconds of the route.
    "ConnectTimeout=",
    "ConnectionAttempts=1",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    // Quieter, it would not say why it fails.
    "LogLevel=INFO",
    "RemoteCommand=none",
    "SessionType=default",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
    "RequestTTY=no",
    // It says when it has reached the host, and when it has logged in; no more.
    "LogVerbose=sshconnect.c:ssh_login():*,sshconnect2.c:ssh_userauth2():*",
];

/// `ssh -G` reads files, and may run what the user's configuration asks about hosts.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// More than this it does not say.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What `ssh` says about its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It knows all that it is given.
    KnowsAll,
    /// It does not know some that it can do without, which are left out from now on.
    LeftOut,
    /// It does not know this one, which protects this machine.
    Unprotected(String),
}

/// The words before the host: the program's own arguments, then ours.
pub(super) fn arguments(route: &Route<'_>) -> Vec<String> {
    let left_out = route.left_out.borrow();
    let given = PROTECTING.iter().chain(HELPFUL.iter().filter(|o| !left_out.iter().any(|l| is_called(o, l))));
    let mut words: Vec<String> = route.ssh.iter().skip(1).cloned().collect();
    words.extend(["-T".into(), "-x".into()]);
    let seconds = route.patience.connect_s;
    let whole =
        |option: &str| if option.ends_with('=') { format!("{option}{seconds}") } else { option.to_owned() };
    words.extend(given.flat_map(|option| ["-o".into(), whole(option)]));
    if let Some(user) = &route.address.user {
        words.extend(["-l".into(), user.clone()]);
    }
    if let Some(port) = route.address.port {
        words.extend(["-p".into(), port.to_string()]);
    }
    words
}

/// Asks `ssh` which of the options it does not know.
pub(super) fn ask(route: &Route<'_>) -> Answer {
    let mut answer = Answer::KnowsAll;
    // It names one at a time.
    for _ in 0..=HELPFUL.len() {
        let Some(option) = first_unknown(route) else { break };
        if PROTECTING.iter().any(|o| is_called(o, &option)) {
            return Answer::Unprotected(option);
        }
        let is_new = !route.left_out.borrow().contains(&option);
        if !is_new || !HELPFUL.iter().any(|o| is_called(o, &option)) {
            // One that the user has given.
            break;
        }
        route.left_out.borrow_mut().push(option);
        answer = Answer::LeftOut;
    }
    answer
}

fn first_unknown(route: &Route<'_>) -> Option<String> {
    let mut child = Command::new(route.program())
        .arg("-G")
        .args(arguments(route))
        .args(["--", &route.address.host])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let stderr = child.stderr.take();
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.map(|stderr| stderr.take(ANSWER_BYTES_MAX).read_to_end(&mut text));
        text
    });
    let deadline = Instant::now() + ANSWERS_WITHIN;
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = said.join().unwrap_or_default();
    let lines: Vec<String> = String::from_utf8_lossy(&text).lines().map(Into::into).collect();
    words::unknown_option(&lines)
}

fn is_called(option: &str, name: &str) -> bool {
    option.split('=').next().is_some_and(|o| o.eq_ignore_ascii_case(name))
}
