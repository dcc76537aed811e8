//! The order in which a host may say the words of our scripts, and how often.
//!
//! In: each marked line of a host. Out: its word, if it may come now. Every word gives a start more time, and `want` has the whole
//! executable sent; so a host that could repeat them would keep a start from ever ending. There are four places
//! (`place.sh`), hence at most four of what is said once for each.
//!
//! ```text
//! place:  hello ─▶ (no | want ─▶ no)* ─▶ nowhere
//!                └─▶ (want ─▶)? start ─▶ ready | damaged
//! clean:  hello ─▶ (gone | left)* ─▶ done
//! ```

/// Folders that the scripts look at: the user's cache, `/var/tmp`, `/tmp` and `/dev/shm`.
const PLACES: usize = 4;
/// Longest line: a word and a path.
const LINE_BYTES_MAX: usize = 8 << 10;

/// What a script has said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    /// `hello`, or what is said of a place that is done with.
    Hello,
    /// The executable is on its way.
    Want,
    /// The worker is about to run.
    Start,
    /// A word after which frames follow, or nothing.
    Last,
}

/// One run of a script on a host.
#[derive(Debug)]
pub(super) struct Conversation {
    said: Said,
    /// Places that are done with.
    places: usize,
}

impl Conversation {
    pub(super) fn new() -> Self {
        Conversation { said: Said::Nothing, places: 0 }
    }

    /// A line of the script that looks for a place: its word and the rest, or what is wrong with it.
    pub(super) fn of_place<'l>(&mut self, line: &'l str) -> Result<(&'l str, &'l str), String> {
        let (word, rest) = split(line)?;
        let next = match (self.said, word) {
            (Said::Nothing, "hello") => Said::Hello,
            (Said::Hello | Said::Want, "no") => return self.place_done(word, rest),
            (Said::Hello, "want") if self.places < PLACES => Said::Want,
            (Said::Hello | Said::Want, "start") => Said::Start,
            (Said::Hello, "nowhere") | (Said::Start, "ready" | "damaged") => Said::Last,
            _ => return Err(self.breach(word)),
        };
        self.said = next;
        Ok((word, rest))
    }

    /// The same for the script that removes everything.
    pub(super) fn of_clean<'l>(&mut self, line: &'l str) -> Result<(&'l str, &'l str), String> {
        let (word, rest) = split(line)?;
        self.said = match (self.said, word) {
            (Said::Nothing, "hello") => Said::Hello,
            (Said::Hello, "gone" | "left") => return self.place_done(word, rest),
            (Said::Hello, "done") => Said::Last,
            _ => return Err(self.breach(word)),
        };
        Ok((word, rest))
    }

    fn place_done<'l>(&mut self, word: &'l str, rest: &'l str) -> Result<(&'l str, &'l str), String> {
        if self.places == PLACES {
            return Err(format!("it speaks of more than {PLACES} places"));
        }
        (self.said, self.places) = (Said::Hello, self.places + 1);
        Ok((word, rest))
    }

    fn breach(&self, word: &str) -> String {
        let after = match self.said {
            Said::Nothing => "at the beginning",
            Said::Hello => "while it looks for a place",
            Said::Want => "after `want`",
            Said::Start => "after `start`",
            Said::Last => "after its last word",
        };
        format!("`{}` {after}", super::words::shown(&word.chars().take(20).collect::<String>()))
    }
}

fn split(line: &str) -> Result<(&str, &str), String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("a line of {} bytes", line.len()));
    }
    Ok(line.split_once(' ').unwrap_or((line, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the words are taken, and what is said of the next.
    #[track_caller]
    fn check(
        hear: impl for<'l> Fn(&mut Conversation, &'l str) -> Result<(&'l str, &'l str), String>,
        words: &str,
        taken: usize,
        says: &str,
    ) {
        let mut conversation = Conversation::new();
        for (n, word) in words.split(' ').enumerate() {
            match hear(&mut conversation, word) {
                Ok((heard, _)) => assert!(heard == word && n < taken, "{words}: {word} was taken"),
                Err(why) => {
                    assert!(n == taken && !says.is_empty() && why.contains(says), "{words}: {n}: {why}");
                    return;
                }
            }
        }
        assert!(says.is_empty(), "{words}: all were taken");
    }

    #[test]
    fn a_place_is_found_in_every_way_that_the_script_has() {
        let place = Conversation::of_place;
        check(place, "hello start ready", 3, "");
        check(place, "hello no want start ready", 5, "");
        check(place, "hello start damaged", 3, "");
        check(place, "hello no no no no nowhere", 6, "");
        check(place, "hello want no want no want no want no nowhere", 10, "");
        check(Conversation::of_clean, "hello gone left gone gone done", 6, "");
        check(Conversation::of_clean, "hello done", 2, "");
    }

    #[test]
    fn no_word_comes_twice_where_the_script_says_it_once() {
        let place = Conversation::of_place;
        check(place, "hello hello", 1, "`hello` while it looks");
        check(place, "hello want want", 2, "`want` after `want`");
        check(place, "hello want no want no want no want no want", 9, "`want`");
        check(place, "hello no no no no no", 5, "more than 4 places");
        check(place, "hello start start", 2, "`start` after `start`");
        check(place, "hello start no", 2, "`no` after `start`");
        check(place, "hello want start want", 3, "`want` after `start`");
        check(place, "hello start ready ready", 3, "after its last word");
        check(place, "ready", 0, "`ready` at the beginning");
        check(place, "hello joke", 1, "`joke`");
        check(Conversation::of_clean, "hello gone gone gone gone left", 5, "more than 4 places");
        check(Conversation::of_clean, "hello hello", 1, "`hello`");
        check(Conversation::of_clean, "gone", 0, "at the beginning");
    }

    #[test]
    fn a_long_line_is_refused() {
        let line = format!("start {}", "x".repeat(LINE_BYTES_MAX));
        assert!(Conversation::new().of_place(&line).unwrap_err().contains("a line of"));
    }
}
