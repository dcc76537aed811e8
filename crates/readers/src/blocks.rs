//! Cuts text into blocks of whole records, which several threads parse.
//!
//! ```text
//!   Splitter ──block──▶ parsing threads ──parsed──▶ caller's thread, in the order of the text
//!       ▲                                              │
//!       └──────────────── buffers ─────────────────────┘
//! ```
//!
//! Comes in: a stream of text and a parser. Goes out: the parsed blocks, in the order of the text, on the caller's thread.
//!
//! A buffer returns to the splitter only after its parsed block has been handed over. So there are never more blocks than
//! buffers, and no more bytes in them than `IN_FLIGHT_BYTES_MAX`: memory stays bounded for any length of text and of lines.
//! Block boundaries depend on the text alone.

use crate::ReadError;
use crate::error::{BlockError, Problem};
use crate::input::Stream;
use crate::settings::Settings;
use memchr::{memchr, memchr2_iter, memrchr};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Target size of a block; it ends with a record.
const BLOCK_BYTES: usize = 1 << 20;

/// Maximum length of a record. Longer ones indicate a binary file or an unclosed quote.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Bytes of blocks that are being parsed at a time, unless a single one is longer.
const IN_FLIGHT_BYTES_MAX: usize = 128 << 20;

/// Cuts a stream into blocks of whole records.
pub(crate) struct Splitter {
    stream: Stream,
    /// Bytes read but not returned yet.
    carry: Vec<u8>,
    /// Quoting rules: a line break inside quotes does not end a record. A field is quoted if it starts with a quote.
    quotes: Option<Quotes>,
    /// Lines returned so far.
    lines: u64,
    ended: bool,
}

/// Delimiter and quote character.
#[derive(Clone, Copy)]
pub(crate) struct Quotes {
    pub(crate) quote: u8,
    pub(crate) delimiter: u8,
}

impl Splitter {
    pub(crate) fn new(stream: Stream, quotes: Option<Quotes>) -> Result<Self, ReadError> {
        let mut splitter = Splitter { stream, carry: Vec::new(), quotes, lines: 0, ended: false };
        splitter.read_more(BLOCK_BYTES)?;
        if splitter.carry.starts_with(b"\xef\xbb\xbf") {
            splitter.carry.drain(..3);
        }
        Ok(splitter)
    }

    fn read_more(&mut self, bytes: usize) -> Result<(), ReadError> {
        let before = self.carry.len();
        self.carry.resize(before + bytes, 0);
        let n = self.stream.fill(&mut self.carry[before..])?;
        self.ended = n < bytes;
        self.carry.truncate(before + n);
        Ok(())
    }

    /// The first record, without consuming it.
    pub(crate) fn peek(&mut self) -> Result<&[u8], ReadError> {
        loop {
            let end = first_end(&self.carry, self.quotes);
            if end.is_some() || self.ended {
                let end = end.unwrap_or(self.carry.len());
                return Ok(&self.carry[..end]);
            }
            self.bounded()?;
            self.read_more(self.carry.len().max(BLOCK_BYTES))?;
        }
    }

    /// Skips the first bytes, which must end with a line.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.lines += memchr::memchr_iter(b'\n', &self.carry[..bytes]).count() as u64;
        self.carry.drain(..bytes);
    }

    fn bounded(&self) -> Result<(), ReadError> {
        if self.carry.len() <= RECORD_BYTES_MAX {
            return Ok(());
        }
        let problem = Problem::TooLong { bytes_max: RECORD_BYTES_MAX };
        Err(ReadError::Text { path: self.stream.path().into(), line: self.lines + 1, column: 1, problem })
    }

    /// Clears `block` and reads the next block into it. Returns false at the end.
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, ReadError> {
        block.clear();
        std::mem::swap(block, &mut self.carry);
        loop {
            if self.ended {
                return Ok(!block.is_empty());
            }
            let more = BLOCK_BYTES.saturating_sub(block.len());
            let more = if more == 0 { block.len() } else { more };
            let before = block.len();
            block.resize(before + more, 0);
            let n = self.stream.fill(&mut block[before..])?;
            self.ended = n < more;
            block.truncate(before + n);
            if self.ended {
                return Ok(!block.is_empty());
            }
            if let Some(end) = last_end(block, self.quotes) {
                self.carry.clear();
                self.carry.extend_from_slice(&block[end..]);
                block.truncate(end);
                return Ok(true);
            }
            if block.len() > RECORD_BYTES_MAX {
                let problem = Problem::TooLong { bytes_max: RECORD_BYTES_MAX };
                let path = self.stream.path().into();
                return Err(ReadError::Text { path, line: 0, column: 1, problem });
            }
        }
    }
}

/// Calls `each` for every line end outside quotes, until it returns false.
fn ends(text: &[u8], quotes: Quotes, mut each: impl FnMut(usize) -> bool) {
    let (mut inside, mut quoted, mut field_start) = (false, false, 0);
    for at in memchr::memchr3_iter(quotes.quote, b'\n', quotes.delimiter, text) {
        match text[at] {
            byte if byte == quotes.quote => {
                // A doubled quote closes and reopens; a quote inside an unquoted field is an ordinary character.
                if inside {
                    inside = false;
                } else if at == field_start || (quoted && text[at - 1] == quotes.quote) {
                    (inside, quoted) = (true, true);
                }
            }
            _ if inside => {}
            byte => {
                (field_start, quoted) = (at + 1, false);
                if byte == b'\n' && !each(at + 1) {
                    return;
                }
            }
        }
    }
}

/// The end of the last complete record.
fn last_end(text: &[u8], quotes: Option<Quotes>) -> Option<usize> {
    match quotes {
        Some(quotes) if memchr(quotes.quote, text).is_some() => {
            let mut last = None;
            ends(text, quotes, |end| {
                last = Some(end);
                true
            });
            last
        }
        _ => memrchr(b'\n', text).map(|at| at + 1),
    }
}

/// The end of the first record.
fn first_end(text: &[u8], quotes: Option<Quotes>) -> Option<usize> {
    match quotes {
        Some(quotes) => {
            let mut first = None;
            ends(text, quotes, |end| {
                first = Some(end);
                false
            });
            first
        }
        None => memchr(b'\n', text).map(|at| at + 1),
    }
}

/// A parsed block: its number of lines, and the result of the parser.
pub(crate) struct Parsed<R> {
    pub(crate) lines: u64,
    pub(crate) made: R,
}

/// Parses all blocks and passes the results to `take` in order.
pub(crate) fn run<R: Send>(
    mut splitter: Splitter,
    total: u64,
    settings: &mut Settings,
    parse: impl Fn(&[u8]) -> Result<Parsed<R>, BlockError> + Sync,
    mut take: impl FnMut(R) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let path = splitter.stream.path().to_path_buf();
    let taken = splitter.stream.taken();
    let mut line = splitter.lines + 1;
    let threads = settings.threads();
    let (give_buffer, buffers) = channel::<Vec<u8>>();
    for _ in 0..threads * 3 {
        // Cannot fail: the receiver lives in this function.
        let _ = give_buffer.send(Vec::new());
    }
    let (give_block, blocks) = channel::<(u64, Vec<u8>)>();
    let blocks = Mutex::new(blocks);
    let (give_parsed, parsed) = channel();
    std::thread::scope(|scope| {
        let failed = give_parsed.clone();
        scope.spawn(move || split(&mut splitter, &buffers, &give_block, &failed));
        for _ in 0..threads {
            let (blocks, parse, give_parsed) = (&blocks, &parse, give_parsed.clone());
            scope.spawn(move || {
                loop {
                    let next = blocks.lock().map_or(None, |blocks| blocks.recv().ok());
                    let Some((index, block)) = next else { break };
                    let made = parse(&block);
                    if give_parsed.send(Ok((index, block, made))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(give_parsed);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        let mut failure = None;
        // Both ends are dropped with this closure; then all threads end.
        let (parsed, give_buffer) = (parsed, give_buffer);
        for message in &parsed {
            match message {
                Ok((index, block, made)) => waiting.insert(index, (block, made)),
                // An earlier block may contain an error in an earlier line.
                Err(error) => {
                    failure = Some(error);
                    None
                }
            };
            while let Some((block, made)) = waiting.remove(&next) {
                next += 1;
                let Parsed { lines, made } = made.map_err(|bad: BlockError| ReadError::Text {
                    path: path.clone(),
                    line: line + bad.line,
                    column: bad.column as u64 + 1,
                    problem: bad.problem,
                })?;
                line += lines;
                take(made)?;
                settings.tell(taken.load(Relaxed), total);
                let _ = give_buffer.send(block);
            }
        }
        match failure {
            Some(ReadError::Text { path, column, problem, .. }) => {
                Err(ReadError::Text { path, line, column, problem })
            }
            Some(error) => Err(error),
            None => Ok(()),
        }
    })
}

type Message<R> = Result<(u64, Vec<u8>, Result<Parsed<R>, BlockError>), ReadError>;

fn split<R>(
    splitter: &mut Splitter,
    buffers: &Receiver<Vec<u8>>,
    blocks: &Sender<(u64, Vec<u8>)>,
    failed: &Sender<Message<R>>,
) {
    // Bytes of blocks that were handed over and have not come back, and buffers that have.
    let (mut in_flight, mut back) = (0, Vec::new());
    for index in 0.. {
        let mut block = match back.pop() {
            Some(block) => block,
            None => match take_back(buffers, &mut in_flight) {
                Some(block) => block,
                None => return,
            },
        };
        match splitter.next(&mut block) {
            Ok(true) => {
                // Records may be long, and there may be many threads.
                while in_flight > 0 && in_flight + block.len() > IN_FLIGHT_BYTES_MAX {
                    match take_back(buffers, &mut in_flight) {
                        Some(other) => back.push(other),
                        None => return,
                    }
                }
                in_flight += block.len();
                if blocks.send((index, block)).is_err() {
                    return;
                }
            }
            Ok(false) => return,
            Err(error) => {
                let _ = failed.send(Err(error));
                return;
            }
        }
    }
}

/// Waits for a buffer. One that has become long is given back to the system.
fn take_back(buffers: &Receiver<Vec<u8>>, in_flight: &mut usize) -> Option<Vec<u8>> {
    let block = buffers.recv().ok()?;
    *in_flight -= block.len();
    Some(if block.capacity() > 4 * BLOCK_BYTES { Vec::new() } else { block })
}

/// Number of lines in a text; the last line may lack its line break.
pub(crate) fn count_lines(text: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text).count() as u64;
    ends + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// The end of the unquoted field that starts at `from`: a delimiter or the end of the line.
pub(crate) fn bare_end(text: &[u8], from: usize, delimiter: u8) -> usize {
    memchr2_iter(delimiter, b'\n', &text[from..]).next().map_or(text.len(), |at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_outside_quotes_only() {
        let quotes = Some(Quotes { quote: b'"', delimiter: b',' });
        for (text, first, last) in [
            ("a,b\nc,d\ne", Some(4), Some(8)),
            ("\"a\nb\",1\nc", Some(8), Some(8)),
            ("\"a\"\"\nb\",1\nc\n", Some(10), Some(12)),
            ("1,\"x\n", None, None),
            ("5\" pipe,1\n2,3\n", Some(10), Some(14)),
            ("", None, None),
        ] {
            assert_eq!(first_end(text.as_bytes(), quotes), first, "{text:?}");
            assert_eq!(last_end(text.as_bytes(), quotes), last, "{text:?}");
        }
    }
}
