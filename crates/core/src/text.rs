//! Text from elsewhere, as it may be shown.
//!
//! What hosts, files and run files say ends on a terminal, which obeys control characters: they move the cursor, rewrite what was
//! shown, and on some terminals type for the user. Every path that shows such text takes it through [`printable`].

use std::borrow::Cow;

/// The same text with everything escaped that a terminal would obey: control characters other than the ends of lines and tabs, and
/// characters that turn the direction of writing.
///
/// ```
/// assert_eq!(qjam_core::text::printable("done\n\u{1b}[2J"), "done\n\\u{1b}[2J");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_obeyed(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Whether a terminal does something with a character instead of showing it.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        let shown = printable(&all);
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{9b}', '\r', '\u{7f}']));
        assert!(matches!(printable("plain\ttext, ünïcode ✓\n"), Cow::Borrowed(_)));
        assert_eq!(printable("a\u{1b}]0;x\u{7}b\rc"), "a\\u{1b}]0;x\\u{7}b\\u{d}c");
    }
}
