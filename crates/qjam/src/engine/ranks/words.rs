//! Last words: what this rank was in, kept where a signal handler can read it.
//!
//! When a rank dies the launcher ends the others with a signal. Whoever reads the output then wants to know who was in
//! what. A signal handler may not allocate, lock or format, so all of it is kept ready in atomics, and put together by hand.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Doing {
    /// It has not met the others, or is leaving them.
    Nothing,
    /// Rank 0: what is between rounds.
    Program,
    /// Waiting to be told what to do.
    Serving,
    /// Taking in or giving out chunks.
    Data,
    /// Running a block.
    Block,
    /// Waiting for the results of other ranks.
    Gathering,
}

static DOING: AtomicU8 = AtomicU8::new(0);
static ROUND: AtomicU64 = AtomicU64::new(0);
static BLOCK: AtomicU32 = AtomicU32::new(0);
/// The name of the function, eight bytes in each, ended by a zero.
static NAME: [AtomicU64; 24] = [const { AtomicU64::new(0) }; 24];
/// `rank 2 of 4 on big, process 4711`.
static WHO: OnceLock<String> = OnceLock::new();

/// Says once who this is.
pub(super) fn introduce(rank: u32, size: u32, host: &str) {
    let pid = std::process::id();
    let _ = WHO.set(format!("rank {rank} of {size} on {host}, process {pid}"));
}

pub(super) fn doing(doing: Doing) {
    DOING.store(doing as u8, Relaxed);
}

/// A round begins.
pub(super) fn round(round: u64, function: &str) {
    ROUND.store(round, Relaxed);
    let mut bytes = [0; 8 * NAME.len()];
    let kept = function.len().min(bytes.len() - 1);
    bytes[..kept].copy_from_slice(&function.as_bytes()[..kept]);
    for (word, bytes) in NAME.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
    }
}

pub(super) fn block(block: u32) {
    BLOCK.store(block, Relaxed);
    doing(Doing::Block);
}

/// Whether user code is being run.
pub(super) fn is_in_block() -> bool {
    DOING.load(Relaxed) == Doing::Block as u8
}

/// What this rank has to say when it ends before its time: `qjam: rank 2 of 4 on big, process 4711, ended: it ran block 3
/// of round 7, my::function`. Gives how many bytes were written. Does nothing that a signal handler may not do.
pub(super) fn last_words(how: &str, out: &mut [u8]) -> usize {
    let mut words = Words { out, at: 0 };
    words.put("qjam: ");
    words.put(WHO.get().map_or("a rank that has not met the others", String::as_str));
    words.put(how);
    match DOING.load(Relaxed) {
        doing if doing == Doing::Program as u8 => {
            words.put(": it was between rounds");
            let rounds = ROUND.load(Relaxed);
            if NAME[0].load(Relaxed) != 0 {
                words.put(", the last was ");
                words.round(rounds);
            }
        }
        doing if doing == Doing::Serving as u8 => words.put(": it waited for the next round"),
        doing if doing == Doing::Data as u8 => words.put(": it was passing data on"),
        doing if doing == Doing::Block as u8 => {
            words.put(": it ran block ");
            words.number(u64::from(BLOCK.load(Relaxed)));
            words.put(" of ");
            words.round(ROUND.load(Relaxed));
        }
        doing if doing == Doing::Gathering as u8 => {
            words.put(": it had run its blocks and waited for results of ");
            words.round(ROUND.load(Relaxed));
        }
        _ => {}
    }
    words.put("\n");
    words.at
}

/// Text, as far as there is room.
struct Words<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Words<'_> {
    fn put(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.out.get_mut(self.at) {
                *place = *byte;
                self.at += 1;
            }
        }
    }

    fn number(&mut self, mut n: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.bytes(&digits[at..]);
    }

    /// The number of a round, and its function.
    fn round(&mut self, round: u64) {
        const INTERNAL: u64 = 1 << 63;
        self.put(if round & INTERNAL == 0 { "round " } else { "a look at states, number " });
        self.number(round & !INTERNAL);
        self.put(", ");
        for word in &NAME {
            let bytes = word.load(Relaxed).to_ne_bytes();
            let end = bytes.iter().position(|b| *b == 0);
            self.bytes(&bytes[..end.unwrap_or(bytes.len())]);
            if end.is_some() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_who_and_what_and_never_overflow() {
        let said = |how: &str| {
            let mut out = [0; 300];
            let bytes = last_words(how, &mut out);
            String::from_utf8_lossy(&out[..bytes]).into_owned()
        };
        let pid = std::process::id();
        introduce(2, 4, "big");
        round(17, "my::function_of_eight_bytes_and_more");
        block(0);
        assert_eq!(
            said(" was ended"),
            format!(
                "qjam: rank 2 of 4 on big, process {pid} was ended: it ran block 0 of round 17, my::function_of_eight_bytes_and_more\n"
            )
        );
        round(1 << 63, &"x".repeat(1000));
        doing(Doing::Gathering);
        let long = said("");
        assert!(long.contains("results of a look at states, number 0, xxx") && long.len() <= 300, "{long}");
        assert_eq!(last_words("", &mut [0; 3]), 3);
    }
}
