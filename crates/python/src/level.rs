//! The level that user code logged a line with.
//!
//! Child interpreters mark such lines (`python/qjam/_worker/levels.py`). The mark passes through executors and supervisors
//! with the line, and is removed where a line reaches the master.

const MARK: char = '\u{1e}';
const END: char = '\u{1f}';

/// The level of a line, as Python's `logging` numbers levels, and the line without its mark. `None`: it was printed.
pub fn split_level(line: &str) -> (Option<u16>, &str) {
    let marked = line.strip_prefix(MARK).and_then(|rest| rest.split_once(END));
    match marked.and_then(|(level, text)| Some((level.parse().ok()?, text))) {
        Some((level, text)) => (Some(level), text),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_split_off_and_anything_else_is_a_printed_line() {
        assert_eq!(split_level("\u{1e}30\u{1f}late"), (Some(30), "late"));
        assert_eq!(split_level("late"), (None, "late"));
        for line in ["\u{1e}30 late", "\u{1e}x\u{1f}late", "\u{1e}99999\u{1f}late", ""] {
            assert_eq!(split_level(line), (None, line));
        }
    }
}
