//! Reading worker strings.

use std::fmt;
use thiserror::Error;

/// Most seats that one worker string may ask for.
pub const SEATS_MAX: usize = 4096;
/// Most slots of one seat.
pub const SLOTS_MAX: u32 = 1024;
/// Longest worker string.
const STRING_BYTES_MAX: usize = 64 << 10;

/// What kind of place a seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatKind {
    /// Threads of this process.
    Local,
    /// A child process.
    Proc,
}

/// One place for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// What it is.
    pub kind: SeatKind,
    /// How many blocks it runs at once.
    pub slots: u32,
    /// What messages call it: `local`, `proc:0`.
    pub name: String,
}

/// A [worker string](crate::engine#worker-strings), understood.
///
/// ```
/// use qjam::engine::{SeatKind, WorkerString};
/// let seats = WorkerString::parse("proc:2*4, local:1").unwrap().seats;
/// assert_eq!(seats.len(), 3);
/// assert_eq!((seats[1].kind, seats[1].slots, seats[1].name.as_str()), (SeatKind::Proc, 4, "proc:1"));
/// let error = WorkerString::parse("proc:two").unwrap_err();
/// assert_eq!(error.to_string(), "worker string `proc:two`, at `two`: not a number; write for example `proc:4`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerString {
    /// The seats, in order.
    pub seats: Vec<Seat>,
}

/// Why a worker string makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("worker string `{}`, at `{}`: {problem}; {remedy}", Shown(.input), Shown(.at))]
pub struct WorkerStringError {
    /// The whole string.
    pub input: String,
    /// The part that is wrong.
    pub at: String,
    /// What is wrong with it.
    pub problem: &'static str,
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

const EXAMPLES: &str = "write for example `local`, `local:4`, `proc:4`, `proc:2*4` or `proc:2,local:1`";

impl WorkerString {
    /// Reads a worker string.
    pub fn parse(input: &str) -> Result<Self, WorkerStringError> {
        let wrong = |at: &str, problem, remedy| {
            // Bounded, so that an error about a long string is not itself long.
            let short = |text: &str| text.chars().take(100).collect::<String>();
            Err(WorkerStringError { input: short(input), at: short(at), problem, remedy })
        };
        if input.len() > STRING_BYTES_MAX {
            return wrong(input, "too long", "at most 64 KiB");
        }
        if input.trim().is_empty() {
            return wrong("", "it is empty", EXAMPLES);
        }
        let mut seats: Vec<Seat> = Vec::new();
        let mut procs = 0;
        for item in input.split(',').map(str::trim) {
            if item.is_empty() {
                return wrong(item, "nothing between two commas", EXAMPLES);
            }
            let (kind, count) =
                item.split_once(':').map_or((item, None), |(kind, count)| (kind.trim(), Some(count.trim())));
            match kind {
                "local" => {
                    let slots = match count {
                        None => cores(),
                        Some(text) => match number(text, SLOTS_MAX) {
                            Ok(n) => n,
                            Err(problem) => return wrong(text, problem, "write for example `local:4`"),
                        },
                    };
                    if seats.iter().any(|s| s.kind == SeatKind::Local) {
                        return wrong(
                            item,
                            "`local` twice",
                            "give all threads in one, for example `local:4`",
                        );
                    }
                    if seats.len() == SEATS_MAX {
                        return wrong(item, "too many workers", "at most 4096 in all");
                    }
                    seats.push(Seat { kind: SeatKind::Local, slots, name: "local".into() });
                }
                "proc" => {
                    let (processes, slots) = match count {
                        None => (Ok(cores()), Ok(1)),
                        Some(text) => match text.split_once('*') {
                            None => (number(text, SEATS_MAX as u32), Ok(1)),
                            Some((p, s)) => (number(p.trim(), SEATS_MAX as u32), number(s.trim(), SLOTS_MAX)),
                        },
                    };
                    match (processes, slots) {
                        (Ok(processes), Ok(slots)) => {
                            if seats.len() + processes as usize > SEATS_MAX {
                                return wrong(item, "too many workers", "at most 4096 in all");
                            }
                            for _ in 0..processes {
                                seats.push(Seat {
                                    kind: SeatKind::Proc,
                                    slots,
                                    name: format!("proc:{procs}"),
                                });
                                procs += 1;
                            }
                        }
                        (Err(problem), _) | (_, Err(problem)) => {
                            return wrong(count.unwrap_or(""), problem, "write for example `proc:4`");
                        }
                    }
                }
                _ => return wrong(item, "an engine that this build does not know", EXAMPLES),
            }
        }
        Ok(WorkerString { seats })
    }
}

fn number(text: &str, max: u32) -> Result<u32, &'static str> {
    match text.parse::<u32>() {
        // `+4` parses, but nobody means it.
        _ if !text.bytes().all(|b| b.is_ascii_digit()) || text.is_empty() => Err("not a number"),
        Ok(0) => Err("zero would never finish"),
        Ok(n) if n <= max => Ok(n),
        _ => Err("too many: at most 4096 processes, and 1024 slots or threads each"),
    }
}

/// Cores this process may use.
fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(SLOTS_MAX as usize) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_strings_give_seats_in_order() {
        let seats = |text: &str| -> Vec<(String, u32)> {
            WorkerString::parse(text).unwrap().seats.into_iter().map(|s| (s.name, s.slots)).collect()
        };
        assert_eq!(seats("local:4"), [("local".into(), 4)]);
        assert_eq!(seats("local"), [("local".into(), cores())]);
        assert_eq!(seats("proc:2"), [("proc:0".into(), 1), ("proc:1".into(), 1)]);
        assert_eq!(
            seats(" proc:1*3 , local:2,proc:1 "),
            [("proc:0".into(), 3), ("local".into(), 2), ("proc:1".into(), 1)]
        );
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
            ("proc:99999999999999999999", "too many"),
            ("local:1,local:2", "twice"),
            ("local:1*2", "not a number"),
            ("spork:3", "does not know"),
            ("höst\u{7}", "does not know"),
        ] {
            let error = WorkerString::parse(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text:?}: {error}");
            assert!(!error.contains('\u{7}'), "control characters are shown as text");
        }
    }
}
