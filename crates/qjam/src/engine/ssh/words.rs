//! What the texts of `ssh` mean.
//!
//! `ssh` has one exit code for everything that can go wrong on the way to a host, so its words are all there is. They
//! have been the same for many years; what is not recognised is shown as it is.

use super::Step;
use crate::engine::HostAddress;
use qjam_core::text::printable;

/// Longest line that is kept.
const LINE_CHARS_MAX: usize = 300;
/// Most lines that are kept.
const LINES_MAX: usize = 20;

/// The last lines that somebody said, bounded, control characters escaped.
#[derive(Debug, Default)]
pub(super) struct LastLines(Vec<String>);

impl LastLines {
    pub(super) fn push(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        if self.0.len() == LINES_MAX {
            self.0.remove(0);
        }
        self.0.push(shown(line));
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.0
    }
}

/// Text from outside, bounded and without control characters.
pub(super) fn shown(text: &str) -> String {
    let end = text.char_indices().nth(LINE_CHARS_MAX).map_or(text.len(), |(at, _)| at);
    printable(&text[..end]).into_owned()
}

/// What is to be made of the words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) step: Step,
    pub(super) what: &'static str,
    pub(super) remedy: String,
    /// Whether a little later it may go well.
    pub(super) may_pass: bool,
}

/// Words of `ssh`, in lower case, and what they mean.
struct Known {
    /// Any of these.
    words: &'static [&'static str],
    step: Step,
    what: &'static str,
    /// What to do: `{ssh}` is the command that does it by hand, `{host}` the host.
    remedy: Remedy,
    may_pass: bool,
}

enum Remedy {
    Text(&'static str),
    /// As for a step that took too long.
    Silence,
}

const fn known(
    words: &'static [&'static str],
    step: Step,
    what: &'static str,
    remedy: &'static str,
) -> Known {
    Known { words, step, what, remedy: Remedy::Text(remedy), may_pass: false }
}

/// The first that fits counts: some words are also part of others' texts.
const KNOWN: &[Known] = &[
    known(
        &[
            "bad configuration option",
            "bad owner or permissions",
            "no argument after keyword",
            "missing argument.",
        ],
        Step::Connect,
        "ssh does not accept its configuration",
        "mend what it names; `{ssh} true` must work",
    ),
    known(
        &["host identification has changed"],
        Step::Authenticate,
        "its host key is not the one that is known here",
        "if the host was really set up anew, `ssh-keygen -R` what it names, then `{ssh}` once; otherwise somebody else may be answering for it",
    ),
    known(
        &["host key verification failed", "no matching host key fingerprint"],
        Step::Authenticate,
        "its host key is not known here",
        "run `{ssh}` once and compare the fingerprint",
    ),
    known(
        &["too many authentication failures"],
        Step::Authenticate,
        "too many keys were tried before the right one",
        "name the right key for {host} in ~/.ssh/config: IdentityFile, and IdentitiesOnly yes",
    ),
    known(
        &["unprotected private key file"],
        Step::Authenticate,
        "ssh does not use a key that others can read",
        "chmod 600 the key",
    ),
    known(
        &["permission denied"],
        Step::Authenticate,
        "it does not let this user in without a password",
        "`{ssh} true` must work without a password: put your public key there (ssh-copy-id), or the key into the agent (ssh-add); check the user's name",
    ),
    known(
        &["no matching ", "unable to negotiate"],
        Step::Connect,
        "ssh and the host have no method in common",
        "allow one for this host in ~/.ssh/config, as its last line lists them",
    ),
    known(
        &["could not resolve hostname", "name or service not known", "temporary failure in name resolution"],
        Step::Connect,
        "there is no host of that name",
        "check the spelling; an alias must be in ~/.ssh/config; engines are `local` and `proc`",
    ),
    known(
        &["stdio forwarding failed", "administratively prohibited", "open failed: connect failed"],
        Step::Connect,
        "the jump host does not reach it",
        "`{ssh} true` must work; try it from the jump host",
    ),
    known(
        &["connection refused"],
        Step::Connect,
        "nobody listens at that port",
        "is sshd running there, and is it this port? (what follows a colon is a port; slots follow a star: `{host}*4`)",
    ),
    known(
        &["no route to host", "network is unreachable", "host is down"],
        Step::Connect,
        "there is no way to it",
        "is it switched on, and is this machine in a network that reaches it?",
    ),
    Known {
        words: &["timed out"],
        step: Step::Connect,
        what: "it does not answer",
        remedy: Remedy::Silence,
        may_pass: false,
    },
    Known {
        words: &[
            "kex_exchange_identification",
            "ssh_exchange_identification",
            "connection closed",
            "connection reset",
        ],
        step: Step::Connect,
        what: "it closed the connection before anybody had logged in",
        remedy: Remedy::Text(
            "see its log; it may have too many connections waiting (MaxStartups) or not want this machine",
        ),
        may_pass: true,
    },
];

/// What `ssh` means by its last words, if it ended before the host said anything. `None` when they are not known.
pub(super) fn meaning(said: &[String], address: &HostAddress) -> Option<Meaning> {
    let all = said.join("\n").to_lowercase();
    let known = KNOWN.iter().find(|known| known.words.iter().any(|word| all.contains(word)))?;
    let remedy = match known.remedy {
        Remedy::Text(text) => text.replace("{ssh}", &by_hand(address)).replace("{host}", &address.host),
        Remedy::Silence => silence(known.step, address),
    };
    Some(Meaning { step: known.step, what: known.what, remedy, may_pass: known.may_pass })
}

/// What to do about a step that took too long.
pub(super) fn silence(step: Step, address: &HostAddress) -> String {
    let ssh = by_hand(address);
    match step {
        Step::Connect => format!("is it switched on, and does a firewall let us through? try `{ssh} true`"),
        Step::Authenticate => {
            format!("`{ssh} true` must work by itself: an agent or a key may be waiting for you")
        }
        Step::Place => {
            format!(
                "try `{ssh} /bin/sh -c true`: start-up files of the shell may be waiting for something, or the home folder's server may not answer"
            )
        }
        Step::Copy => "the connection takes nothing any more: is the link up?".into(),
        Step::Start | Step::Handshake => "is the host overloaded? try again".into(),
    }
}

/// The command that does by hand what we do.
pub(super) fn by_hand(address: &HostAddress) -> String {
    let mut command = String::from("ssh ");
    if let Some(port) = address.port {
        command += &format!("-p {port} ");
    }
    if let Some(user) = &address.user {
        command += &format!("{user}@");
    }
    command + &address.host
}

/// The option that an older `ssh` does not know, if that is what it says.
pub(super) fn unknown_option(said: &[String]) -> Option<String> {
    said.iter().find_map(|line| {
        let line = line.to_lowercase();
        // In a file it is the user's to mend.
        let (before, after) = line.split_once("bad configuration option: ")?;
        before.contains("command-line").then(|| after.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> HostAddress {
        HostAddress { user: Some("ann".into()), host: "big".into(), port: Some(2222) }
    }

    #[test]
    fn what_ssh_says_is_understood() {
        for (said, step, what) in [
            ("ssh: connect to host big port 22: Connection refused", Step::Connect, "nobody listens"),
            ("ssh: connect to host big port 22: Connection timed out", Step::Connect, "does not answer"),
            (
                "Connection timed out during banner exchange\nConnection to 127.0.0.1 port 1 timed out",
                Step::Connect,
                "does not answer",
            ),
            ("ssh: connect to host big port 22: No route to host", Step::Connect, "no way"),
            (
                "ssh: Could not resolve hostname bgi: Name or service not known",
                Step::Connect,
                "no host of that name",
            ),
            (
                "ann@big: Permission denied (publickey,password).",
                Step::Authenticate,
                "does not let this user in",
            ),
            ("Host key verification failed.", Step::Authenticate, "not known here"),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
                Step::Authenticate,
                "not the one",
            ),
            (
                "kex_exchange_identification: read: Connection reset by peer",
                Step::Connect,
                "closed the connection",
            ),
            (
                "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed\nkex_exchange_identification: Connection closed by remote host",
                Step::Connect,
                "jump host",
            ),
            (
                "/people/a/.ssh/config: line 3: Bad configuration option: foo\n/people/a/.ssh/config: terminating, 1 bad configuration options",
                Step::Connect,
                "configuration",
            ),
            (
                "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. Their offer: ssh-rsa",
                Step::Connect,
                "in common",
            ),
        ] {
            let lines: Vec<String> = said.lines().map(Into::into).collect();
            let meaning = meaning(&lines, &address()).expect(said);
            assert_eq!(meaning.step, step, "{said}");
            assert!(meaning.what.contains(what), "{said}: {}", meaning.what);
            assert_eq!(meaning.may_pass, said.starts_with("kex"), "{said}");
        }
        assert_eq!(meaning(&["something new".into()], &address()), None);
    }

    #[test]
    fn only_our_own_options_are_left_out() {
        let said = |line: &str| unknown_option(&[line.to_owned()]);
        assert_eq!(
            said("command-line: line 0: Bad configuration option: logverbose"),
            Some("logverbose".into())
        );
        assert_eq!(
            said("command-line line 0: Bad configuration option: SessionType"),
            Some("sessiontype".into())
        );
        assert_eq!(said("/people/a/.ssh/config: line 3: Bad configuration option: foo"), None);
    }

    #[test]
    fn lines_are_bounded_and_plain() {
        let mut last = LastLines::default();
        for n in 0..2 * LINES_MAX {
            last.push(&format!("{n}\u{1b}[31m{}", "x".repeat(1000)));
        }
        last.push("\r\n");
        assert_eq!(last.lines().len(), LINES_MAX);
        assert!(last.lines()[0].starts_with(&format!("{LINES_MAX}\\u{{1b}}[31mxxx")));
        assert!(last.lines().iter().all(|l| l.chars().count() <= LINE_CHARS_MAX + 10));
    }
}
