//! Long results, which come from a host in segments.
//!
//! In: the length that a host announces, then pieces. Out: whole results, in the order in which they came. A host cannot make the
//! master keep more than it announced, nor announce more than [`PART_BYTES_MAX`].

use crate::store::AlignedBuf;
use bytes::Bytes;
use std::collections::VecDeque;

/// Longest result.
const PART_BYTES_MAX: u64 = 1 << 40;

/// Results on their way, and those that are here.
#[derive(Default)]
pub(super) struct ArrivingParts {
    /// The one that is coming, and how much of it is here.
    open: Option<(AlignedBuf, usize)>,
    whole: VecDeque<Bytes>,
}

impl ArrivingParts {
    /// A result of this length follows.
    pub(super) fn open(&mut self, bytes: u64) -> Result<(), String> {
        if self.open.is_some() {
            return Err("a result inside another".into());
        }
        let room = (bytes <= PART_BYTES_MAX).then(|| AlignedBuf::try_zeroed(bytes)).flatten();
        let room = room.ok_or_else(|| format!("a result of {bytes} bytes: no memory for it"))?;
        self.open = Some((room, 0));
        self.keep_if_whole();
        Ok(())
    }

    /// A piece of the result that was announced.
    pub(super) fn put(&mut self, piece: &[u8]) -> Result<(), String> {
        let Some((part, at)) = &mut self.open else { return Err("a piece of nothing".into()) };
        let to = *at + piece.len();
        let room = part.as_mut_slice().get_mut(*at..to).ok_or("more of a result than was announced")?;
        room.copy_from_slice(piece);
        *at = to;
        self.keep_if_whole();
        Ok(())
    }

    fn keep_if_whole(&mut self) {
        if let Some((part, _)) = self.open.take_if(|(part, at)| *at == part.as_ref().len()) {
            self.whole.push_back(part.into_bytes());
        }
    }

    /// The next whole result, which must have this length.
    pub(super) fn take(&mut self, bytes: u64) -> Result<Bytes, String> {
        match self.whole.pop_front() {
            Some(part) if part.len() as u64 == bytes => Ok(part),
            _ => Err(format!("a result speaks of {bytes} bytes that did not come before it")),
        }
    }

    /// Drops whole results that nobody has taken.
    pub(super) fn clear(&mut self) {
        self.whole.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_results_in_order() {
        let mut parts = ArrivingParts::default();
        parts.open(5).unwrap();
        parts.put(b"he").unwrap();
        assert!(parts.open(1).is_err(), "one inside another");
        parts.put(b"llo").unwrap();
        parts.open(0).unwrap();
        assert_eq!(&parts.take(5).unwrap()[..], b"hello");
        assert!(parts.take(0).unwrap().is_empty());
        assert!(parts.take(0).is_err(), "there is no third");
    }

    #[test]
    fn what_was_not_announced_is_refused() {
        let mut parts = ArrivingParts::default();
        assert!(parts.put(b"x").unwrap_err().contains("nothing"));
        parts.open(2).unwrap();
        assert!(parts.put(b"xyz").unwrap_err().contains("more of a result"));
        assert!(ArrivingParts::default().open(u64::MAX).unwrap_err().contains("no memory"));
        parts.put(b"xy").unwrap();
        assert!(parts.take(3).unwrap_err().contains("3 bytes"));
    }
}
