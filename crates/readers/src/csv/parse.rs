//! Parses a block of CSV text into rows of numbers.
//!
//! Comes in: a block of whole records and a [`Plan`]. Goes out: values, appended row by row. A plain number is parsed in place
//! and the byte after it examined, so nothing is copied or scanned twice. Everything else (quotes, spaces, missing values,
//! words) takes a slower path.

use crate::blocks::{bare_end, count_lines};
use crate::error::{BlockError, Problem, shown};
use crate::missing::says_missing;
use crate::{Missing, Real};

/// How to read a record.
pub(crate) struct Plan {
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) comment: Option<u8>,
    /// For each field of a record, its column in the row, if it is read.
    pub(crate) slots: Vec<Option<usize>>,
    /// Whether all fields are read in their own order.
    pub(crate) straight: bool,
    /// Names of the columns of the row.
    pub(crate) names: Vec<String>,
    pub(crate) missing: Missing,
}

impl Plan {
    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }
}

/// Counts of rows and missing values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) lines: u64,
    /// Rows dropped.
    pub(crate) dropped: u64,
    /// Missing values replaced.
    pub(crate) filled: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.lines += other.lines;
        self.dropped += other.dropped;
        self.filled += other.filled;
    }
}

/// What follows a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Field,
    Line,
}

/// Appends the rows of a text. The last record may lack its line break.
pub(crate) fn rows<T: Real>(plan: &Plan, text: &[u8], out: &mut Vec<T>) -> Result<Tally, BlockError> {
    let mut tally = Tally::default();
    let width = plan.width();
    let fields = plan.slots.len();
    let mut at = 0;
    while at < text.len() {
        let record = at;
        match text[at] {
            b'\n' => {
                at += 1;
                continue;
            }
            b'\r' if text.get(at + 1).is_none_or(|next| *next == b'\n') => {
                at += 1;
                continue;
            }
            byte if plan.comment == Some(byte) => {
                at = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end);
                continue;
            }
            _ => {}
        }
        let row = out.len();
        out.reserve(width);
        if !plan.straight {
            out.resize(row + width, T::MISSING);
        }
        let mut drop = false;
        for (field, slot) in plan.slots.iter().enumerate() {
            let after = if let Some(slot) = slot {
                let (value, after) = match quick::<T>(plan, text, at) {
                    Some((value, end, after)) => {
                        at = end;
                        (value, after)
                    }
                    None => slow::<T>(plan, text, &mut at, *slot, &mut tally, &mut drop)?,
                };
                if plan.straight {
                    out.push(value);
                } else {
                    out[row + slot] = value;
                }
                after
            } else {
                skip(plan, text, &mut at)?
            };
            let last = field + 1 == fields;
            if last != (after == After::Line) {
                let found = count_fields(plan, &text[record..]);
                return Err(bad(text, record, Problem::Fields { expected: fields, found }));
            }
        }
        if drop {
            tally.dropped += 1;
            out.truncate(row);
        }
    }
    tally.lines = count_lines(text);
    Ok(tally)
}

/// What follows the field that ends at `at`, and the start of the next one.
#[inline]
fn after(plan: &Plan, text: &[u8], at: usize) -> Option<(usize, After)> {
    match text.get(at) {
        None => Some((at, After::Line)),
        Some(byte) if *byte == plan.delimiter => Some((at + 1, After::Field)),
        Some(b'\n') => Some((at + 1, After::Line)),
        Some(b'\r') => match text.get(at + 1) {
            None => Some((at + 1, After::Line)),
            Some(b'\n') => Some((at + 2, After::Line)),
            _ => None,
        },
        _ => None,
    }
}

/// A plain finite number that fills its field.
#[inline]
fn quick<T: Real>(plan: &Plan, text: &[u8], at: usize) -> Option<(T, usize, After)> {
    let (value, length) = T::parse(&text[at..])?;
    if !value.finite() {
        return None;
    }
    let (next, after) = after(plan, text, at + length)?;
    Some((value, next, after))
}

/// An error at a position, as line and column.
fn bad(text: &[u8], at: usize, problem: Problem) -> BlockError {
    let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
    BlockError { line: memchr::memchr_iter(b'\n', &text[..at]).count() as u64, column: at - start, problem }
}

/// Parses any other field.
#[cold]
fn slow<T: Real>(
    plan: &Plan,
    text: &[u8],
    at: &mut usize,
    slot: usize,
    tally: &mut Tally,
    drop: &mut bool,
) -> Result<(T, After), BlockError> {
    let start = *at;
    let (field, next, after) = raw(plan, text, start)?;
    *at = next;
    let content = unquoted(field, plan.quote);
    let content = content.trim_ascii();
    let value = number::<T>(content);
    match value {
        Some(value) if value.finite() => return Ok((value, after)),
        None if !says_missing(content) => {
            let name = Some(plan.names[slot].clone());
            return Err(bad(text, start, Problem::NotANumber { found: shown(content), name }));
        }
        Some(value) if !value.missing() && plan.missing != Missing::DropRow => {
            return Err(bad(text, start, Problem::NotFinite { found: shown(content) }));
        }
        _ => {}
    }
    let value = match plan.missing {
        Missing::Error => return Err(bad(text, start, Problem::Missing { name: plan.names[slot].clone() })),
        Missing::Value(value) => {
            tally.filled += 1;
            T::from_f64(value)
        }
        Missing::Mean => {
            tally.filled += 1;
            T::MISSING
        }
        Missing::DropRow => {
            *drop = true;
            T::MISSING
        }
    };
    Ok((value, after))
}

/// The number that fills a field; `true` and `false` are 1 and 0.
pub(crate) fn number<T: Real>(field: &[u8]) -> Option<T> {
    let bare = field.strip_prefix(b"+").filter(|rest| rest.first() != Some(&b'-')).unwrap_or(field);
    match T::parse(bare) {
        Some((value, length)) if length == bare.len() => Some(value),
        _ if field.eq_ignore_ascii_case(b"true") => Some(T::from_f64(1.0)),
        _ if field.eq_ignore_ascii_case(b"false") => Some(T::from_f64(0.0)),
        _ => None,
    }
}

/// A field with its quotes, the start of the next field, and what follows.
fn raw<'t>(plan: &Plan, text: &'t [u8], start: usize) -> Result<(&'t [u8], usize, After), BlockError> {
    let mut end = start;
    if text.get(start) == Some(&plan.quote) {
        end += 1;
        loop {
            match memchr::memchr(plan.quote, &text[end..]) {
                None => return Err(bad(text, start, Problem::OpenQuote)),
                Some(quote) => end += quote + 1,
            }
            if text.get(end) != Some(&plan.quote) {
                break;
            }
            end += 1;
        }
    }
    // Text between the closing quote and the delimiter belongs to the field, as in other readers.
    let mut end = bare_end(text, end, plan.delimiter);
    if text.get(end).is_none_or(|byte| *byte == b'\n') && end > start && text[end - 1] == b'\r' {
        end -= 1;
    }
    match after(plan, text, end) {
        Some((next, after)) => Ok((&text[start..end], next, after)),
        None => Err(bad(text, start, Problem::OpenQuote)),
    }
}

fn skip(plan: &Plan, text: &[u8], at: &mut usize) -> Result<After, BlockError> {
    let (_, next, after) = raw(plan, text, *at)?;
    *at = next;
    Ok(after)
}

/// The content of a quoted field.
fn unquoted(field: &[u8], quote: u8) -> std::borrow::Cow<'_, [u8]> {
    let Some(inner) = field.strip_prefix(&[quote]) else { return field.into() };
    let mut content = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().peekable();
    let mut inside = true;
    while let Some(byte) = bytes.next() {
        if inside && *byte == quote {
            if bytes.peek() == Some(&&quote) {
                bytes.next();
            } else {
                inside = false;
                continue;
            }
        }
        content.push(*byte);
    }
    content.into()
}

fn count_fields(plan: &Plan, text: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Ok(after) = skip(plan, text, &mut at) {
        count += 1;
        if after == After::Line {
            break;
        }
    }
    count
}

/// The fields of the first record of a text, without quotes and surrounding spaces.
pub(crate) fn fields(record: &[u8], delimiter: u8, quote: u8) -> Vec<Vec<u8>> {
    let (slots, names, missing) = (Vec::new(), Vec::new(), Missing::Error);
    let plan = Plan { delimiter, quote, comment: None, slots, straight: false, names, missing };
    let (mut at, mut found) = (0, Vec::new());
    while let Ok((field, next, after)) = raw(&plan, record, at) {
        found.push(unquoted(field, quote).trim_ascii().to_vec());
        at = next;
        if after == After::Line {
            break;
        }
    }
    found
}
