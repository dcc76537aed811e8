//! From a block of text to rows of numbers.
//!
//! A number is read where it stands and the byte behind it looked at: nothing is copied or searched for twice. What is
//! not a bare number (quotes, spaces, missing values, words) goes a slower way.

use crate::blocks::{bare_end, count_lines};
use crate::error::{Bad, Problem, shown};
use crate::missing::says_missing;
use crate::{Missing, Real};

/// How to read a record.
pub(crate) struct Plan {
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) comment: Option<u8>,
    /// For each field of a record, where it goes in the row, or nowhere.
    pub(crate) slots: Vec<Option<usize>>,
    /// Whether every field goes to its own place.
    pub(crate) straight: bool,
    /// Names of the columns in the row.
    pub(crate) names: Vec<String>,
    pub(crate) missing: Missing,
}

impl Plan {
    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }
}

/// What was found besides numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) lines: u64,
    /// Rows left out.
    pub(crate) dropped: u64,
    /// Values put where some were missing.
    pub(crate) filled: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.lines += other.lines;
        self.dropped += other.dropped;
        self.filled += other.filled;
    }
}

/// What comes behind a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Field,
    Line,
}

/// Appends the rows of a text, whose last record may lack its end of line.
pub(crate) fn rows<T: Real>(plan: &Plan, text: &[u8], out: &mut Vec<T>) -> Result<Tally, Bad> {
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
            let behind = if let Some(slot) = slot {
                let (value, behind) = match quick::<T>(plan, text, at) {
                    Some((value, end, behind)) => {
                        at = end;
                        (value, behind)
                    }
                    None => slow::<T>(plan, text, &mut at, *slot, &mut tally, &mut drop)?,
                };
                if plan.straight {
                    out.push(value);
                } else {
                    out[row + slot] = value;
                }
                behind
            } else {
                skip(plan, text, &mut at)?
            };
            let last = field + 1 == fields;
            if last != (behind == Behind::Line) {
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

/// What follows at `at`, where a field ends, and where the next one starts.
#[inline]
fn behind(plan: &Plan, text: &[u8], at: usize) -> Option<(usize, Behind)> {
    match text.get(at) {
        None => Some((at, Behind::Line)),
        Some(byte) if *byte == plan.delimiter => Some((at + 1, Behind::Field)),
        Some(b'\n') => Some((at + 1, Behind::Line)),
        Some(b'\r') => match text.get(at + 1) {
            None => Some((at + 1, Behind::Line)),
            Some(b'\n') => Some((at + 2, Behind::Line)),
            _ => None,
        },
        _ => None,
    }
}

/// A bare finite number that ends where the field ends.
#[inline]
fn quick<T: Real>(plan: &Plan, text: &[u8], at: usize) -> Option<(T, usize, Behind)> {
    let (value, length) = T::parse(&text[at..])?;
    if !value.finite() {
        return None;
    }
    let (next, behind) = behind(plan, text, at + length)?;
    Some((value, next, behind))
}

/// A place in a text as line and column.
fn bad(text: &[u8], at: usize, problem: Problem) -> Bad {
    let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1);
    Bad { line: memchr::memchr_iter(b'\n', &text[..at]).count() as u64, column: at - start, problem }
}

/// Anything else in a field that is read.
#[cold]
fn slow<T: Real>(
    plan: &Plan,
    text: &[u8],
    at: &mut usize,
    slot: usize,
    tally: &mut Tally,
    drop: &mut bool,
) -> Result<(T, Behind), Bad> {
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

/// A number that is all of a field. Truth is a number too.
pub(crate) fn number<T: Real>(field: &[u8]) -> Option<T> {
    let bare = field.strip_prefix(b"+").filter(|rest| rest.first() != Some(&b'-')).unwrap_or(field);
    match T::parse(bare) {
        Some((value, length)) if length == bare.len() => Some(value),
        _ if field.eq_ignore_ascii_case(b"true") => Some(T::from_f64(1.0)),
        _ if field.eq_ignore_ascii_case(b"false") => Some(T::from_f64(0.0)),
        _ => None,
    }
}

/// A field as it stands, with its quotes; where the next one starts; and what comes behind it.
fn raw<'t>(plan: &Plan, text: &'t [u8], start: usize) -> Result<(&'t [u8], usize, Behind), Bad> {
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
    // What stands between the closing quote and the delimiter is part of the field, as every reader has it.
    let mut end = bare_end(text, end, plan.delimiter);
    if text.get(end).is_none_or(|byte| *byte == b'\n') && end > start && text[end - 1] == b'\r' {
        end -= 1;
    }
    match behind(plan, text, end) {
        Some((next, after)) => Ok((&text[start..end], next, after)),
        None => Err(bad(text, start, Problem::OpenQuote)),
    }
}

fn skip(plan: &Plan, text: &[u8], at: &mut usize) -> Result<Behind, Bad> {
    let (_, next, behind) = raw(plan, text, *at)?;
    *at = next;
    Ok(behind)
}

/// The content of a field in quotes.
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
    while let Ok(behind) = skip(plan, text, &mut at) {
        count += 1;
        if behind == Behind::Line {
            break;
        }
    }
    count
}

/// The fields of the first record of a text, without quotes and outer spaces.
pub(crate) fn fields(record: &[u8], delimiter: u8, quote: u8) -> Vec<Vec<u8>> {
    let (slots, names, missing) = (Vec::new(), Vec::new(), Missing::Error);
    let plan = Plan { delimiter, quote, comment: None, slots, straight: false, names, missing };
    let (mut at, mut found) = (0, Vec::new());
    while let Ok((field, next, behind)) = raw(&plan, record, at) {
        found.push(unquoted(field, quote).trim_ascii().to_vec());
        at = next;
        if behind == Behind::Line {
            break;
        }
    }
    found
}
