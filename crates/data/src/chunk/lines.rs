//! Lines of text, kept as they were in the file.

use super::{Chunk, ChunkError, Header, expect_kind};
use bytes::Bytes;

/// Some whole lines of a text.
///
/// ```
/// use qjam::Lines;
/// let lines = Lines::from_text("one\r\ntwo\n\nfour");
/// assert_eq!(lines.iter().collect::<Vec<_>>(), ["one", "two", "", "four"]);
/// ```
#[derive(Clone, Debug)]
pub struct Lines {
    /// Valid UTF-8; checked when it came in.
    bytes: Bytes,
    lines: usize,
}

impl Lines {
    /// The lines of a text, for tests and serial runs.
    pub fn from_text(text: &str) -> Self {
        Lines { bytes: Bytes::copy_from_slice(text.as_bytes()), lines: count_lines(text.as_bytes()) as usize }
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// The lines in order, without their `\n` or `\r\n`.
    pub fn iter(&self) -> std::str::Lines<'_> {
        self.as_str().lines()
    }

    /// The text as it was in the file.
    pub fn as_str(&self) -> &str {
        // Checking again runs at the speed of memory, and a copy or an unchecked conversion would buy less than it
        // costs.
        std::str::from_utf8(&self.bytes).expect("the text was valid when it came in")
    }
}

impl<'a> IntoIterator for &'a Lines {
    type Item = &'a str;
    type IntoIter = std::str::Lines<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Lines of a text; the last need not end in a newline.
fn count_lines(text: &[u8]) -> u64 {
    let ends = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    ends + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}

impl Chunk for Lines {
    fn open(header: &Header, bytes: Bytes) -> Result<Self, ChunkError> {
        let &[expected] = expect_kind(header, &bytes, "lines")?;
        if let Err(error) = std::str::from_utf8(&bytes) {
            let before = &bytes[..error.valid_up_to()];
            let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            return Err(ChunkError::Text { line, column: (before.len() - start) as u64 + 1 });
        }
        let found = count_lines(&bytes);
        if found != expected {
            return Err(ChunkError::Records { expected, found });
        }
        Ok(Lines { bytes, lines: found as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &[u8], lines: u64) -> Result<Lines, ChunkError> {
        let header = Header {
            kind: "lines".into(),
            dtype: "utf8".into(),
            shape: vec![lines],
            bytes: text.len() as u64,
        };
        Lines::open(&header, Bytes::copy_from_slice(text))
    }

    #[test]
    fn counting_agrees_with_the_iterator() {
        for text in ["", "\n", "a", "a\n", "a\nb", "a\n\n", "\r\n\r\n", "ä\nö\r\nü"] {
            let lines = Lines::from_text(text);
            assert_eq!(lines.len(), lines.iter().count(), "{text:?}");
            assert_eq!(open(text.as_bytes(), lines.len() as u64).unwrap().as_str(), text);
        }
    }

    #[test]
    fn invalid_text_is_named_by_line_and_column() {
        let error = open(b"fine\nalso fine\nno\xfft\n", 3).unwrap_err();
        assert_eq!(error, ChunkError::Text { line: 3, column: 3 });
        assert_eq!(open(b"\xc3", 1).unwrap_err(), ChunkError::Text { line: 1, column: 1 });
    }

    #[test]
    fn another_number_of_lines_is_an_error() {
        assert_eq!(open(b"a\nb\n", 3).unwrap_err(), ChunkError::Records { expected: 3, found: 2 });
    }
}
