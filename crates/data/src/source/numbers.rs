//! Text files of numbers whose lines are equally long, so that a row is found by counting bytes.
//!
//! The file may be larger than memory: chunks are lines of it, read where they are wanted and taken apart there. That
//! every line has the length of the first is checked once, because a row that is looked for at the wrong place would
//! be wrong numbers.

use super::cut::{Rule, python_chunk_bytes};
use super::location::{Backing, ChunkEntry, UserFile};
use super::{DataError, Source};
use crate::chunk::Header;
use std::path::Path;

/// Lines of one length in a file.
pub(crate) struct NumberLines {
    backing: Backing,
    bytes: u64,
    /// Of a line, with its end.
    line_bytes: u64,
    lines: u64,
    cols: u64,
}

/// A matrix in a text file, of so many columns.
pub(crate) fn open(path: &Path, cols: u64) -> Result<NumberLines, DataError> {
    let file = UserFile::open(path)?;
    let bytes = file.bytes();
    let backing = Backing::File(file);
    let (mut lines, mut first, mut open) = (0_u64, None, 0_u64);
    let mut wrong = None;
    let mut each = |length: u64, is_last: bool| {
        lines += 1;
        let expected = *first.get_or_insert(length);
        // The last line may end with the file.
        let fits = length == expected || is_last && length + 1 == expected;
        if !fits && wrong.is_none() {
            wrong = Some(DataError::UnequalLines { path: path.into(), line: lines, expected, found: length });
        }
    };
    backing.stream(0, bytes, |piece| {
        let mut rest = piece;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            each(open + at as u64 + 1, false);
            open = 0;
            rest = &rest[at + 1..];
        }
        open += rest.len() as u64;
    })?;
    if open > 0 {
        each(open, true);
    }
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let Some(line_bytes) = first else { return Err(DataError::Empty { what: "lines" }) };
    Ok(NumberLines { backing, bytes, line_bytes, lines, cols })
}

impl Source for NumberLines {
    fn records(&self) -> u64 {
        self.lines
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        let standard = (python_chunk_bytes(self.bytes) / self.line_bytes).max(1);
        let mut at = 0;
        let pieces = rule.counts(self.lines, standard)?.map(|lines| {
            let start = at;
            at = (at + lines * self.line_bytes).min(self.bytes);
            let header = Header {
                kind: "numbers".into(),
                dtype: "f64".into(),
                shape: vec![lines, self.cols],
                bytes: at - start,
            };
            (header, start)
        });
        self.backing.name(pieces.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::DataSet;

    fn check(text: &str, expected: Result<&[&str], (u64, u64, u64)>) {
        let path = std::env::temp_dir().join(format!("qjam-numbers-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let found = match DataSet::number_lines(&path, 2, Some(2)) {
            Ok(set) => Ok((0..set.len()).map(|i| set.chunk(i).unwrap().bytes).collect::<Vec<_>>()),
            Err(DataError::UnequalLines { line, expected, found, .. }) => Err((line, expected, found)),
            Err(DataError::Empty { .. }) => Err((0, 0, 0)),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(
            found,
            expected.map(|chunks| chunks.iter().map(|c| bytes::Bytes::from(c.to_string())).collect())
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn lines_of_one_length_are_cut_by_counting_and_others_are_named() {
        check("1 2\n3 4\n5 6\n", Ok(&["1 2\n3 4\n", "5 6\n"]));
        check("1 2\n3 4\n5 6", Ok(&["1 2\n3 4\n", "5 6"]));
        check("1 2", Ok(&["1 2"]));
        check("1 2\n3 40\n5 6\n", Err((2, 4, 5)));
        check("1 2\n3 4\n5 \n", Err((3, 4, 3)));
        check("1 2\n3 4\n\n", Err((3, 4, 1)));
        check("", Err((0, 0, 0)));
    }
}
