//! Lines of a text, in memory or in a file.
//!
//! Nothing is kept about single lines, so that a file of any length costs no more than its chunks: each cut goes
//! through the text once to find where the chunks end, and once more to name them.

use super::cut::{Packer, Rule};
use super::location::{Backing, ChunkEntry, UserFile};
use super::{DataError, Source};
use crate::chunk::Header;
use crate::store::Region;
use std::path::Path;

/// A text and the number of its lines.
pub(crate) struct Text {
    backing: Backing,
    bytes: u64,
    lines: u64,
}

impl Text {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let file = UserFile::open(path)?;
        let bytes = file.bytes();
        Text::over(Backing::File(file), bytes)
    }

    pub(crate) fn in_memory(text: &str) -> Result<Self, DataError> {
        let bytes = text.len() as u64;
        let region =
            Region::copy_of(text.as_bytes()).map_err(|source| DataError::Memory { bytes, source })?;
        Text::over(Backing::Shared(region), bytes)
    }

    fn over(backing: Backing, bytes: u64) -> Result<Self, DataError> {
        let mut lines = 0;
        each_line(&backing, bytes, |_| lines += 1)?;
        if lines == 0 {
            return Err(DataError::Empty { what: "lines" });
        }
        Ok(Text { backing, bytes, lines })
    }
}

/// Tells the length of each line, with its end, in order.
fn each_line(backing: &Backing, bytes: u64, mut line: impl FnMut(u64)) -> Result<(), DataError> {
    let mut open = 0;
    backing.stream(0, bytes, |piece| {
        let mut rest = piece;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            line(open + at as u64 + 1);
            open = 0;
            rest = &rest[at + 1..];
        }
        open += rest.len() as u64;
    })?;
    if open > 0 {
        line(open);
    }
    Ok(())
}

/// The lines of a chunk.
fn header(lines: u64, bytes: u64) -> Header {
    Header { kind: "lines".into(), dtype: "utf8".into(), shape: vec![lines], bytes }
}

impl Source for Text {
    fn records(&self) -> u64 {
        self.lines
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn cut(&self, rule: Rule) -> Result<Vec<ChunkEntry>, DataError> {
        let mut packer = Packer::new(self.bytes);
        let mut counts = rule.counts(self.lines, self.lines)?;
        let mut due = 0;
        let mut pieces: Vec<(Header, u64)> = Vec::new();
        let mut at = 0;
        each_line(&self.backing, self.bytes, |bytes| {
            let starts = match rule {
                Rule::Standard => packer.starts_chunk(bytes),
                _ => due == 0,
            };
            if starts {
                due = counts.next().unwrap_or(u64::MAX);
                pieces.push((header(0, 0), at));
            }
            // Saturating, because a file that gains lines meanwhile is only found out when its chunks are named.
            due = due.saturating_sub(1);
            at += bytes;
            if let Some((header, _)) = pieces.last_mut() {
                header.shape[0] += 1;
                header.bytes += bytes;
            }
        })?;
        if pieces.len() > u32::MAX as usize {
            return Err(DataError::TooManyChunks { chunks: pieces.len() as u64 });
        }
        self.backing.name(pieces)
    }
}
