//! Rust source as a list of tokens: words and signs, without comments, text and numbers.
//!
//! Only as much of the language is known as is needed to find paths: where comments and literals end, and that `'a` may
//! be a lifetime. Text that is not Rust gives some tokens, never a panic.

/// A word, or one sign. `::` is one token, every other sign is a single character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// An identifier or keyword.
    Word(String),
    /// A path separator.
    PathSep,
    /// Any other sign.
    Sign(char),
}

impl Token {
    /// Whether it is this word.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Token::Word(w) if w == word)
    }

    /// Whether it is this sign.
    pub fn is_sign(&self, sign: char) -> bool {
        *self == Token::Sign(sign)
    }
}

/// All tokens of a source.
pub fn tokens(source: &str) -> Vec<Token> {
    let text: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = text.get(at) {
        let next = text.get(at + 1).copied();
        if c.is_whitespace() {
            at += 1;
        } else if c == '/' && next == Some('/') {
            at = position(&text, at, |c| c == '\n');
        } else if c == '/' && next == Some('*') {
            at = after_block_comment(&text, at);
        } else if c == '"' {
            at = after_text(&text, at);
        } else if c == '\'' {
            at = after_quote(&text, at);
        } else if c.is_ascii_digit() {
            at = position(&text, at, |c| !is_word_part(c));
        } else if is_word_part(c) {
            let end = position(&text, at, |c| !is_word_part(c));
            let word: String = text[at..end].iter().collect();
            let is_raw = matches!(word.as_str(), "r" | "br" | "cr");
            match text.get(end) {
                Some('"' | '#') if is_raw && raw_text_begins(&text, end) => at = after_raw_text(&text, end),
                Some('"') if matches!(word.as_str(), "b" | "c") => at = after_text(&text, end),
                Some('\'') if word == "b" => at = after_quote(&text, end),
                // A raw identifier is the identifier.
                Some('#') if word == "r" => at = end + 1,
                _ => {
                    tokens.push(Token::Word(word));
                    at = end;
                }
            }
        } else if c == ':' && next == Some(':') {
            tokens.push(Token::PathSep);
            at += 2;
        } else {
            tokens.push(Token::Sign(c));
            at += 1;
        }
    }
    tokens
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first position from `at` on with such a character, or the end.
fn position(text: &[char], at: usize, is_it: impl Fn(char) -> bool) -> usize {
    text.get(at..).unwrap_or_default().iter().position(|c| is_it(*c)).map_or(text.len(), |n| at + n)
}

fn after_block_comment(text: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Behind the closing quote of the text whose opening quote is at `at`.
fn after_text(text: &[char], mut at: usize) -> usize {
    at += 1;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_text_begins(text: &[char], at: usize) -> bool {
    text.get(position(text, at, |c| c != '#')) == Some(&'"')
}

/// Behind a raw text whose first `#` or quote is at `at`.
fn after_raw_text(text: &[char], at: usize) -> usize {
    let quote = position(text, at, |c| c != '#');
    let hashes = quote - at;
    let mut end = quote + 1;
    while end < text.len() {
        let closes =
            text[end] == '"' && text[end + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        if closes {
            return end + 1 + hashes;
        }
        end += 1;
    }
    end
}

/// Behind a character, or behind the quote of a lifetime.
fn after_quote(text: &[char], at: usize) -> usize {
    match (text.get(at + 1), text.get(at + 2)) {
        (Some('\\'), _) => position(text, at + 3, |c| c == '\'') + 1,
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let shown = tokens(source).into_iter().map(|token| match token {
            Token::Word(word) => word,
            Token::PathSep => "::".into(),
            Token::Sign(sign) => sign.into(),
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{source}");
    }

    #[test]
    fn comments_text_and_numbers_leave_nothing() {
        check("a /* b /* c */ d */ e // f\n g", "a e g");
        check(r#"a("crate::b \" c") d"#, "a ( ) d");
        check(r##"a(r#"crate::"b"#, br"c", c"d", b"e\"") f"##, "a ( , , , ) f");
        check("1_000u64 + 0x1f", "+");
    }

    #[test]
    fn characters_are_not_lifetimes() {
        check(r"f<'a>('b', '\'', '\u{1F}', b'c', '\\') d", "f < a > ( , , , , ) d");
    }

    #[test]
    fn paths_and_raw_identifiers_are_words() {
        check("crate::r#type::X", "crate :: type :: X");
        check("a: b::c", "a : b :: c");
    }

    #[test]
    fn what_breaks_off_does_not_panic() {
        for source in ["\"a", "r#\"a", "'", "/* a", "b'", "'\\", "r#"] {
            tokens(source);
        }
    }
}
