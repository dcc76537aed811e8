//! What a child interpreter answers.
//!
//! Everything is copied out: long answers lie in memory that the child writes again. The layout is that of `child.py`;
//! since user code can write into that memory, and to the socket if it tries, nothing in it is taken for granted.

use super::letter::REFERENCE_BYTES;
use super::pickled::Pickled;
use super::raised::Raised;
use super::value::{Body, Leaf};
use bytes::Bytes;

/// An answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// What the function gave, and the pickle of the state, if it was pickled.
    /// `stays` if the state is also an object in the interpreter.
    Value { body: Body, state: Option<Pickled>, stays: bool },
    /// What it raised.
    Raised(Raised),
    /// The interpreter has started.
    Ready,
    /// It needs memory for so many bytes of results before it can answer.
    NeedsRoom(usize),
    /// It does not have the state, in the version that the call begins with.
    LacksState,
}

/// What comes before the references.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerHead {
    kind: u8,
    /// Whether user code still refers to the slot's arena.
    pub(super) is_kept: bool,
    references: usize,
}

const HEAD_BYTES: usize = 8;

impl AnswerHead {
    pub(super) fn read(message: &[u8]) -> Option<AnswerHead> {
        let head: &[u8; HEAD_BYTES] = message.first_chunk()?;
        let references = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        Some(AnswerHead { kind: head[0], is_kept: head[1] & 1 != 0, references })
    }
}

struct AnswerPart<'a> {
    tag: u8,
    bytes: &'a [u8],
    number: i64,
}

/// What a message says; `None` if it makes no sense.
pub(super) fn read(head: AnswerHead, message: &[u8], results: &[u8]) -> Option<Answer> {
    let table = message.get(HEAD_BYTES..)?.get(..head.references.checked_mul(REFERENCE_BYTES)?)?;
    let mut found = references(table, message, results)?;
    if let [AnswerPart { tag: b'*', bytes, .. }] = found[..] {
        found = references(bytes, message, results)?;
    }
    match head.kind {
        1 => value(&found),
        2 => raised(&found),
        3 => Some(Answer::Ready),
        5 => Some(Answer::LacksState),
        4 => found.first().and_then(|part| usize::try_from(part.number).ok()).map(Answer::NeedsRoom),
        _ => None,
    }
}

fn references<'a>(table: &'a [u8], message: &'a [u8], results: &'a [u8]) -> Option<Vec<AnswerPart<'a>>> {
    let u64_at = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes)
    };
    let rows = table.chunks_exact(REFERENCE_BYTES);
    if !rows.remainder().is_empty() {
        return None;
    }
    rows.map(|row| {
        let (tag, region, offset, length) = (row[0], u64_at(row, 1)?, u64_at(row, 9)?, u64_at(row, 17)?);
        if tag == b'i' {
            return Some(AnswerPart { tag, bytes: &[], number: length as i64 });
        }
        let memory = if region == 0 { message } else { results };
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        Some(AnswerPart { tag, bytes: memory.get(start..end)?, number: 0 })
    })
    .collect()
}

fn value(found: &[AnswerPart<'_>]) -> Option<Answer> {
    let split = found.iter().position(|part| matches!(part.tag, b's' | b'g')).unwrap_or(found.len());
    let stays = found.get(split).is_none_or(|part| part.tag == b's');
    let (value, state) = found.split_at(split);
    let (head, rest) = value.split_first()?;
    let body = match head.tag {
        b'P' => Body::Pickled(pickled(head, rest)?),
        b'N' => Body::Numbers {
            shape: Bytes::copy_from_slice(head.bytes),
            leaves: rest.iter().map(leaf).collect::<Option<_>>()?,
        },
        _ => return None,
    };
    let state = match state.split_first() {
        Some((head, rest)) => Some(pickled(head, rest)?),
        None => None,
    };
    Some(Answer::Value { body, state, stays })
}

fn pickled(stream: &AnswerPart<'_>, buffers: &[AnswerPart<'_>]) -> Option<Pickled> {
    let buffers = buffers.iter().map(|part| (part.tag == b'b').then(|| Bytes::copy_from_slice(part.bytes)));
    Some(Pickled { stream: Bytes::copy_from_slice(stream.bytes), buffers: buffers.collect::<Option<_>>()? })
}

fn leaf(part: &AnswerPart<'_>) -> Option<Leaf> {
    fn numbers<T: bytemuck::Pod>(bytes: &[u8]) -> Option<Vec<T>> {
        bytes.len().is_multiple_of(size_of::<T>()).then(|| bytemuck::pod_collect_to_vec(bytes))
    }
    Some(match part.tag {
        b'd' => Leaf::F64(numbers(part.bytes)?),
        b'f' => Leaf::F32(numbers(part.bytes)?),
        b'q' => Leaf::I64(numbers(part.bytes)?),
        b'i' => Leaf::Int(part.number),
        _ => return None,
    })
}

fn raised(found: &[AnswerPart<'_>]) -> Option<Answer> {
    let [message, place, traceback, pickled] = found else { return None };
    let text = |part: &AnswerPart<'_>| String::from_utf8_lossy(part.bytes).into_owned();
    let location = text(place);
    Some(Answer::Raised(Raised {
        message: text(message),
        location: (!location.is_empty()).then_some(location),
        traceback: text(traceback),
        pickled: pickled.bytes.to_vec(),
        ..Raised::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with these references and bytes behind them.
    fn message(kind: u8, references: &[(u8, u64, u64, i64)], rest: &[u8]) -> Vec<u8> {
        let mut out = vec![kind, 0, 0, 0];
        out.extend_from_slice(&(references.len() as u32).to_le_bytes());
        for (tag, region, offset, length) in references {
            out.push(*tag);
            out.extend_from_slice(&region.to_le_bytes());
            out.extend_from_slice(&offset.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
        }
        out.extend_from_slice(rest);
        out
    }

    fn read_all(message: &[u8], results: &[u8]) -> Option<Answer> {
        read(AnswerHead::read(message)?, message, results)
    }

    #[test]
    fn numbers_inside_and_beside_the_message_are_read() {
        let references = [(b'N', 0, 83, 2), (b'd', 1, 8, 8), (b'i', 0, 0, -3)];
        let message = message(1, &references, b"FI");
        let results = [0.0_f64, 2.5].map(f64::to_le_bytes).concat();
        let body = Body::Numbers {
            shape: Bytes::from_static(b"FI"),
            leaves: vec![Leaf::F64(vec![2.5]), Leaf::Int(-3)],
        };
        assert_eq!(read_all(&message, &results), Some(Answer::Value { body, state: None, stays: true }));
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        assert_eq!(read_all(&[], &[]), None);
        assert_eq!(read_all(&message(1, &[], &[]), &[]), None, "no value");
        assert_eq!(read_all(&message(9, &[], &[]), &[]), None, "no such kind");
        assert_eq!(read_all(&message(1, &[(b'N', 0, 0, 1 << 20)], &[]), &[]), None, "beyond the message");
        assert_eq!(read_all(&message(1, &[(b'P', 1, u64::MAX, 9)], &[]), &[0; 64]), None, "beyond memory");
        let odd = message(1, &[(b'N', 0, 8, 1), (b'd', 0, 8, 7)], &[]);
        assert_eq!(read_all(&odd, &[]), None, "seven eighths of a number");
        let mut short = message(1, &[(b'N', 0, 8, 1)], &[]);
        short.truncate(20);
        assert_eq!(read_all(&short, &[]), None, "cut off");
    }
}
