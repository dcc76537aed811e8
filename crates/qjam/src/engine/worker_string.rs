//! Reading worker strings, and the files of hosts they name.
//!
//! A string comes from a program or a command line, is cut at commas, and becomes seats. An item `@file` is replaced by
//! the items of that file. Whatever is wrong is said with the item, the file and the line it stands in.

use super::address::{HostAddress, check_user};
use super::{kinds, provider, ssh};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use thiserror::Error;

/// Most seats that one worker string may ask for.
pub const SEATS_MAX: usize = 4096;
pub use crate::execution::SLOTS_MAX;
/// Longest worker string.
const STRING_BYTES_MAX: usize = 64 << 10;
/// Longest file of hosts.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The environment variable that names the user on hosts written without one.
const USER: &str = "QJAM_USER";

/// What kind of place a seat is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeatKind {
    /// Threads of this process.
    Local,
    /// A child process.
    Proc,
    /// A machine reached by ssh.
    Host(HostAddress),
    /// A process that a launcher such as `mpirun` has started together with this one.
    Rank,
    /// A crew that another crate [provides](crate::engine::provider).
    Crew {
        /// The word of its provider.
        word: &'static str,
        /// What follows the colon.
        rest: String,
    },
}

/// One place for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// What it is.
    pub kind: SeatKind,
    /// How many blocks it runs at once; see [`slots_given`](Seat::slots_given) for a host.
    pub slots: u32,
    /// Whether `slots` is settled. A host written without slots takes one per core, and says how many those are when it
    /// is reached; until then `slots` is 1.
    pub slots_given: bool,
    /// What messages call it: `local`, `proc:0`, `ann@big:2222`; the second seat on one host is `big#2`.
    pub name: String,
}

/// A [worker string](crate::engine#worker-strings), understood.
///
/// ```
/// use qjam::engine::{SeatKind, WorkerString};
/// let seats = WorkerString::parse("proc:2*4, local:1, ann@big*8").unwrap().seats;
/// assert_eq!(seats.len(), 4);
/// assert_eq!((&seats[1].kind, seats[1].slots, seats[1].name.as_str()), (&SeatKind::Proc, 4, "proc:1"));
/// assert_eq!((seats[3].slots, seats[3].name.as_str()), (8, "ann@big"));
/// let error = WorkerString::parse("proc:two").unwrap_err();
/// assert_eq!(error.to_string(), "worker string `proc:two`, at `two`: not a number; write for example `proc:4`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerString {
    /// The seats, in order.
    pub seats: Vec<Seat>,
    /// Whether only as many of them take part in a round as pay: `auto` stood before them.
    pub auto: bool,
}

/// Why a worker string makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("worker string `{}`{}, at `{}`: {}; {remedy}", Shown(.input), InFile(.file), Shown(.at), Shown(.problem))]
pub struct WorkerStringError {
    /// The whole string.
    pub input: String,
    /// The file of hosts in which it stands and the line, counted from 1.
    pub file: Option<(String, usize)>,
    /// The part that is wrong.
    pub at: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub remedy: &'static str,
}

/// Text from outside, bounded and without control characters.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(80) {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

struct InFile<'a>(&'a Option<(String, usize)>);

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((file, line)) => write!(f, ", line {line} of `{}`", Shown(file)),
            None => Ok(()),
        }
    }
}

const EXAMPLES: &str =
    "write for example `auto`, `local:4`, `proc:4`, `ann@big:22*8`, `@hosts.txt` or `proc:2,big*4`";
/// What to write where `auto` makes no sense.
pub(super) const AUTO: &str = "write `auto` for threads of this machine, or `auto:` once before all workers, for example `auto:proc:4,big*8`; a host of that name is `ssh://auto`";

impl WorkerString {
    /// Reads a worker string, the files of hosts it names, and `QJAM_USER`.
    pub fn parse(input: &str) -> Result<Self, WorkerStringError> {
        let user = std::env::var_os(USER).map(|user| user.to_string_lossy().into_owned());
        Self::parse_with(input, user.as_deref(), &mut read_hosts)
    }

    /// The same with the outside given: who logs in when nobody is named, and how a file is read.
    #[doc(hidden)]
    pub fn parse_with(
        input: &str,
        user: Option<&str>,
        read: &mut dyn FnMut(&Path) -> io::Result<String>,
    ) -> Result<Self, WorkerStringError> {
        let mut seating = Seating { seats: Vec::new(), hosts: HashMap::new(), user: None };
        let mut file = None;
        let auto = after_auto(input);
        seating.fill(input, user, read, &mut file).map_err(|Wrong { at, problem, remedy }| {
            // Bounded, so that an error about a long string is not itself long.
            let short = |text: &str| text.chars().take(100).collect::<String>();
            WorkerStringError { input: short(input), file, at: short(&at), problem, remedy }
        })?;
        Ok(WorkerString { seats: seating.seats, auto: auto.is_some() })
    }
}

impl WorkerString {
    /// The seats, where whether to choose among them is no question any more.
    pub(crate) fn without_auto(self, input: &str) -> Result<Vec<Seat>, WorkerStringError> {
        if !self.auto {
            return Ok(self.seats);
        }
        Err(WorkerStringError {
            input: input.chars().take(100).collect(),
            file: None,
            at: "auto".into(),
            problem: "whether to choose is said when a master is connected".into(),
            remedy: "write the workers alone, for example `proc:2`",
        })
    }
}

/// The workers after an `auto:`, which stands before all of them; alone it means the threads of this machine.
fn after_auto(input: &str) -> Option<&str> {
    let rest = input.trim_start().strip_prefix("auto")?.trim_start();
    if rest.is_empty() { Some("local") } else { rest.strip_prefix(':') }
}

/// What is wrong with an item.
pub(super) struct Wrong {
    at: String,
    problem: String,
    remedy: &'static str,
}

pub(super) fn wrong<T>(at: &str, problem: impl Into<String>, remedy: &'static str) -> Result<T, Wrong> {
    Err(Wrong { at: at.to_owned(), problem: problem.into(), remedy })
}

impl From<(&str, &'static str, &'static str)> for Wrong {
    fn from((at, problem, remedy): (&str, &'static str, &'static str)) -> Self {
        Wrong { at: at.to_owned(), problem: problem.to_owned(), remedy }
    }
}

/// The seats while a string is read.
pub(super) struct Seating {
    pub(super) seats: Vec<Seat>,
    /// How many seats each host has, by the name that messages give it.
    pub(super) hosts: HashMap<String, u32>,
    /// Who logs in where nobody is named.
    pub(super) user: Option<String>,
}

impl Seating {
    /// Takes in a whole string. `file` says where it was when something is wrong.
    fn fill(
        &mut self,
        input: &str,
        user: Option<&str>,
        read: &mut dyn FnMut(&Path) -> io::Result<String>,
        file: &mut Option<(String, usize)>,
    ) -> Result<(), Wrong> {
        if input.len() > STRING_BYTES_MAX {
            return wrong(input, "too long", "at most 64 KiB; a file of hosts may be longer: `@hosts.txt`");
        }
        if input.trim().is_empty() {
            return wrong("", "it is empty", EXAMPLES);
        }
        if provider::parse(self, input)? {
            return Ok(());
        }
        let auto = after_auto(input);
        if let Some(rest) = auto.filter(|rest| rest.trim().bytes().all(|b| b.is_ascii_digit())) {
            return wrong(rest.trim(), "no workers to choose from", AUTO);
        }
        let input = auto.unwrap_or(input);
        if let Some(user) = user.filter(|user| !user.is_empty()) {
            self.user = match check_user(user) {
                Ok(user) => Some(user),
                Err((at, _, remedy)) => return wrong(at, "QJAM_USER is not a user's name", remedy),
            };
        }
        for item in input.split(',').map(str::trim) {
            let Some(path) = item.strip_prefix('@') else {
                self.take_in(item)?;
                continue;
            };
            let text = match read(Path::new(path)) {
                Ok(text) => text,
                Err(e) => {
                    let remedy = "after `@` comes a text file with hosts, relative to the working folder";
                    return wrong(item, format!("cannot be read: {e}"), remedy);
                }
            };
            let before = self.seats.len();
            for (n, line) in text.lines().enumerate() {
                *file = Some((path.chars().take(100).collect(), n + 1));
                let said = line.split('#').next().unwrap_or_default();
                for item in said.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                    if item.starts_with('@') {
                        return wrong(
                            item,
                            "a file within a file",
                            "name each file in the worker string itself",
                        );
                    }
                    self.take_in(item)?;
                }
            }
            *file = None;
            if self.seats.len() == before {
                return wrong(item, "it names no host", "write one per line, for example `ann@big:22*8`");
            }
        }
        kinds::check_together(&self.seats, auto.is_some())
    }

    /// One item that is not a file.
    fn take_in(&mut self, item: &str) -> Result<(), Wrong> {
        if item.is_empty() {
            return wrong(item, "nothing between two commas", EXAMPLES);
        }
        let (word, count) =
            item.split_once(':').map_or((item, None), |(word, count)| (word.trim(), Some(count.trim())));
        if word == "auto" {
            return wrong(item, "`auto` is no worker by itself", AUTO);
        }
        match kinds::with_word(word) {
            Some(engine) => (engine.parse)(self, item, count),
            None => ssh::parse(self, item),
        }
    }

    /// Adds a seat.
    pub(super) fn push(&mut self, kind: SeatKind, slots: u32, name: String) {
        self.seats.push(Seat { kind, slots, slots_given: true, name });
    }

    /// Refuses more seats than there may be.
    pub(super) fn room_for(&self, item: &str, more: usize) -> Result<(), Wrong> {
        if self.seats.len() + more > SEATS_MAX {
            return wrong(item, "too many workers", "at most 4096 in all");
        }
        Ok(())
    }
}

/// The text of a file of hosts.
fn read_hosts(path: &Path) -> io::Result<String> {
    // Anything else might keep us waiting for ever, or never end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not an ordinary file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    Ok(text)
}

/// A number from 1 to `max`.
pub(super) fn number(text: &str, max: u32) -> Result<u32, &'static str> {
    match text.parse::<u32>() {
        // `+4` parses, but nobody means it.
        _ if !text.bytes().all(|b| b.is_ascii_digit()) || text.is_empty() => Err("not a number"),
        Ok(0) => Err("zero would never finish"),
        Ok(n) if n <= max => Ok(n),
        _ => Err("too many: at most 4096 processes, and 1024 slots or threads each"),
    }
}

/// Cores this process may use.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(SLOTS_MAX as usize) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, slots, and whether those are settled.
    fn seats(text: &str, file: &str) -> Vec<(String, u32, bool)> {
        let parsed = WorkerString::parse_with(text, None, &mut |_| Ok(file.to_owned())).unwrap();
        parsed.seats.into_iter().map(|s| (s.name, s.slots, s.slots_given)).collect()
    }

    fn seat(name: &str, slots: u32) -> (String, u32, bool) {
        (name.into(), slots, true)
    }

    fn open_seat(name: &str) -> (String, u32, bool) {
        (name.into(), 1, false)
    }

    #[test]
    fn good_strings_give_seats_in_order() {
        assert_eq!(seats("local:4", ""), [seat("local", 4)]);
        assert_eq!(seats("local", ""), [seat("local", cores())]);
        assert_eq!(seats("proc:2", ""), [seat("proc:0", 1), seat("proc:1", 1)]);
        assert_eq!(
            seats(" proc:1*3 , local:2,proc:1 ", ""),
            [seat("proc:0", 3), seat("local", 2), seat("proc:1", 1)]
        );
    }

    #[test]
    fn hosts_stand_among_the_other_engines() {
        assert_eq!(
            seats("big, ann@big:2222 * 4,proc:1,[::1]:22*2,local:1", ""),
            [
                open_seat("big"),
                seat("ann@big:2222", 4),
                seat("proc:0", 1),
                seat("[::1]:22", 2),
                seat("local", 1)
            ]
        );
        assert_eq!(seats("ssh://big*2", ""), [seat("big", 2)]);
        assert_eq!(
            seats("ssh://proc:1,proc:2,ssh://local", ""),
            [open_seat("ssh://proc:1"), seat("proc:0", 1), seat("proc:1", 1), open_seat("ssh://local")]
        );
        assert_eq!(seats("spork:3", ""), [open_seat("spork:3")]);
    }

    #[test]
    fn auto_stands_before_all_that_there_is_to_choose_from() {
        let parse = |text: &str| WorkerString::parse_with(text, None, &mut |_| Ok("big*2".into()));
        for (text, same) in [
            ("auto", "local"),
            (" auto ", "local"),
            ("auto:local:8", "local:8"),
            ("auto:proc:4", "proc:4"),
            (" auto : a*2, b*2", "a*2,b*2"),
            ("auto:@hosts", "@hosts"),
            ("auto:ssh://auto*2", "ssh://auto*2"),
        ] {
            let (chosen, fixed) = (parse(text).unwrap(), parse(same).unwrap());
            assert!(chosen.auto && !fixed.auto, "{text}");
            assert_eq!(chosen.seats, fixed.seats, "{text}");
        }
        // Hosts may be called like it, said with more than the name.
        assert_eq!(parse("ssh://auto").unwrap().seats[0].name, "ssh://auto");
        assert_eq!(parse("ann@auto:22").unwrap().seats[0].name, "ann@auto:22");
        assert_eq!(parse("autobahn").unwrap().seats[0].name, "autobahn");
        for text in [
            "auto:",
            "auto:4",
            "auto: 22",
            "auto*4",
            "auto,proc:2",
            "proc:2,auto",
            "auto:auto",
            "proc:2,auto:proc:2",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("`auto:proc:4,big*8`"), "{text}: {error}");
        }
        let file = WorkerString::parse_with("@hosts", None, &mut |_| Ok("auto:proc:2".into()));
        assert!(file.unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn a_host_named_twice_is_two_seats_told_apart() {
        assert_eq!(seats("big*2,big,big", ""), [seat("big", 2), open_seat("big#2"), open_seat("big#3")]);
    }

    #[test]
    fn the_user_of_the_environment_is_for_hosts_without_one() {
        let parsed = WorkerString::parse_with("big,bob@big", Some("ann"), &mut read_hosts).unwrap();
        let users: Vec<_> = parsed
            .seats
            .iter()
            .map(|s| match &s.kind {
                SeatKind::Host(address) => address.user.as_deref(),
                _ => None,
            })
            .collect();
        assert_eq!(users, [Some("ann"), Some("bob")]);
        assert_eq!(parsed.seats[0].name, "big", "names are as written");
        let error = WorkerString::parse_with("big", Some("-x"), &mut read_hosts).unwrap_err().to_string();
        assert!(error.contains("QJAM_USER"), "{error}");
    }

    #[test]
    fn a_file_gives_items_line_by_line() {
        let file = "# ours\n\nbig*2, small   # the old one\r\n  ann@far:22 ,\nproc:1\n";
        assert_eq!(
            seats("local:1,@hosts.txt,big", file),
            [
                seat("local", 1),
                seat("big", 2),
                open_seat("small"),
                open_seat("ann@far:22"),
                seat("proc:0", 1),
                open_seat("big#2")
            ]
        );
    }

    #[test]
    fn errors_in_a_file_name_file_and_line() {
        let error = |file: &str| {
            WorkerString::parse_with("proc:1,@a/hosts", None, &mut |_| Ok(file.to_owned()))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("big\n\nbig;rm *2\n"),
            "worker string `proc:1,@a/hosts`, line 3 of `a/hosts`, at `big;rm`: neither an engine nor a host; names \
             consist of letters, digits, `.`, `_` and `-`, and do not begin with `-`"
        );
        assert!(error("@more\n").contains("a file within a file"));
        assert!(error("# none\n").contains("names no host"));
        let missing = WorkerString::parse("@/nowhere/hosts").unwrap_err().to_string();
        assert!(missing.contains("No such file"), "{missing}");
        let endless = WorkerString::parse("@/dev/zero").unwrap_err().to_string();
        assert!(endless.contains("not an ordinary file"), "{endless}");
    }

    #[test]
    fn bad_strings_are_told_what_is_wrong_and_what_to_write() {
        for (text, problem) in [
            ("", "empty"),
            ("  ", "empty"),
            (",", "nothing between"),
            ("proc:2,,local", "nothing between"),
            ("proc:", "not a number"),
            ("proc:0", "zero"),
            ("proc:-1", "not a number"),
            ("proc:+1", "not a number"),
            ("proc:2*", "not a number"),
            ("proc:2*0", "zero"),
            ("proc:99999", "too many"),
            ("proc:4096,proc:1", "too many workers"),
            ("proc:4096,local", "too many workers"),
            ("proc:4096,big", "too many workers"),
            ("proc:99999999999999999999", "too many"),
            ("local:1,local:2", "twice"),
            ("local:1*2", "not a number"),
            ("local*2", "follow a colon"),
            ("proc*2", "follow a colon"),
            ("big*", "not a number"),
            ("big*0", "zero"),
            ("big*9999", "too many"),
            ("big:x", "not a port"),
            ("fd00::7", "too many colons"),
            ("ssh://", "neither"),
            ("höst\u{7}", "neither"),
            ("@", "cannot be read"),
        ] {
            let error = WorkerString::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text:?}: {error}");
            assert!(!error.contains('\u{7}'), "control characters are shown as text");
        }
    }
}
