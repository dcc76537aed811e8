//! Lists of edges: two numbers of vertices on a line.
//!
//! Comes in: a text file, optionally compressed. Goes out: the edges, in the order of the file. Numbers are separated by
//! spaces, tabs, commas or semicolons; empty lines and lines that begin with `#` or `%` are skipped.

use crate::ReadError;
use crate::error::{Problem, reserve, shown};
use crate::input::Input;
use std::path::Path;

/// Longest line.
const LINE_BYTES_MAX: usize = 1 << 20;
/// So many bytes are read at once.
const READ_BYTES: usize = 1 << 18;

/// An edge, from the first vertex to the second.
pub type Edge = (u64, u64);

/// Reads the edges of a file.
///
/// ```
/// let path = std::env::temp_dir().join(format!("edges-{}.tsv", std::process::id()));
/// std::fs::write(&path, "# from\tto\n30\t1412\n30\t3352\n")?;
/// assert_eq!(qjam_readers::edges(&path)?, [(30, 1412), (30, 3352)]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn edges(path: impl AsRef<Path>) -> Result<Vec<Edge>, ReadError> {
    let path = path.as_ref();
    let input = Input::open(path)?;
    let mut stream = input.stream()?;
    let mut lines = Lines::default();
    let mut block = vec![0; READ_BYTES];
    loop {
        let read = stream.fill(&mut block)?;
        reserve(&mut lines.edges, read / 4, path)?;
        lines.take_in(&block[..read], read < READ_BYTES).map_err(|bad| bad.at(path))?;
        if read < READ_BYTES {
            break;
        }
    }
    input.must_be_unchanged()?;
    match lines.edges.is_empty() {
        true => Err(ReadError::Empty {
            path: path.into(),
            what: "edges: each is a line with two numbers, from which vertex to which",
        }),
        false => Ok(lines.edges),
    }
}

/// What cannot be read, by line and byte of the line, both from 0.
struct Bad {
    line: u64,
    column: usize,
    problem: Problem,
}

impl Bad {
    fn at(self, path: &Path) -> ReadError {
        let Bad { line, column, problem } = self;
        ReadError::Text { path: path.into(), line: line + 1, column: column as u64 + 1, problem }
    }
}

/// A file as far as it was read.
#[derive(Default)]
struct Lines {
    edges: Vec<Edge>,
    /// How many lines are behind.
    line: u64,
    /// The beginning of the next one.
    rest: Vec<u8>,
}

impl Lines {
    fn take_in(&mut self, mut text: &[u8], is_last: bool) -> Result<(), Bad> {
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line = match self.rest.is_empty() {
                true => edge(&text[..end]),
                false => {
                    self.rest.extend_from_slice(&text[..end]);
                    edge(&std::mem::take(&mut self.rest))
                }
            };
            self.count(line)?;
            text = &text[end + 1..];
        }
        self.rest.extend_from_slice(text);
        if self.rest.len() > LINE_BYTES_MAX {
            let problem = Problem::TooLong { bytes_max: LINE_BYTES_MAX };
            return Err(Bad { line: self.line, column: 0, problem });
        }
        if is_last {
            let line = edge(&std::mem::take(&mut self.rest));
            self.count(line)?;
        }
        Ok(())
    }

    fn count(&mut self, line: Result<Option<Edge>, (usize, Problem)>) -> Result<(), Bad> {
        let found = line.map_err(|(column, problem)| Bad { line: self.line, column, problem })?;
        self.edges.extend(found);
        self.line += 1;
        Ok(())
    }
}

/// The edge of a line, if it has one; otherwise the byte where it goes wrong, and how.
fn edge(line: &[u8]) -> Result<Option<Edge>, (usize, Problem)> {
    if matches!(line.first(), Some(b'#' | b'%')) {
        return Ok(None);
    }
    let mut vertices = [0; 2];
    let mut count = 0;
    for field in line.split(|byte| b" \t\r,;".contains(byte)).filter(|field| !field.is_empty()) {
        if let Some(vertex) = vertices.get_mut(count) {
            let number = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
            let Some(number) = number else {
                // Both are parts of the line.
                let column = field.as_ptr() as usize - line.as_ptr() as usize;
                return Err((column, Problem::NotAVertex { found: shown(field) }));
            };
            *vertex = number;
        }
        count += 1;
    }
    match count {
        0 => Ok(None),
        2 => Ok(Some((vertices[0], vertices[1]))),
        found => Err((0, Problem::NotAnEdge { found })),
    }
}

/// Parses a text that is there as a whole, in pieces; for fuzzing.
#[doc(hidden)]
pub fn parse_for_fuzzing(text: &[u8], piece: usize) -> Result<Vec<Edge>, String> {
    let mut lines = Lines::default();
    let mut pieces = text.chunks(piece.max(1)).peekable();
    while let Some(piece) = pieces.next() {
        let taken = lines.take_in(piece, pieces.peek().is_none());
        taken.map_err(|bad| bad.at(Path::new("input")).to_string())?;
    }
    Ok(lines.edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_read_however_they_are_separated_and_wherever_a_block_ends() {
        let text = b"# from to\n1\t2\r\n\n 3 , 4 \n% more\n18446744073709551615;0\n5 5";
        let wanted = [(1, 2), (3, 4), (u64::MAX, 0), (5, 5)];
        for piece in 1..text.len() {
            assert_eq!(parse_for_fuzzing(text, piece).unwrap(), wanted, "pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_edge_is_told_with_its_line() {
        let told = |text: &str, words: &str| {
            let error = parse_for_fuzzing(text.as_bytes(), 3).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        told("1 2\n1 x2\n", "line 2, column 3: \"x2\" is no vertex");
        told("1 2\n\n7\n", "line 3, column 1: the line has 1 field; an edge is two numbers");
        told("1 2 0.5\n", "line 1, column 1: the line has 3 fields; an edge is two numbers");
        told("from to\n1 2\n", "line 1, column 1: \"from\" is no vertex");
        told("-1 2\n", "\"-1\" is no vertex");
        told("1 18446744073709551616\n", "is no vertex");
        told(&"1".repeat(LINE_BYTES_MAX + 9), "does not end within");
    }
}
