//! Frames: a fixed header, a small body, and a tail of raw bytes.
//!
//! ```text
//!    0      2    3    4          8          12         16
//!   ┌──────┬────┬────┬──────────┬──────────┬──────────┬─ ─ ─ ─┬─ ─ ─ ─┐
//!   │ 'qj' │ver │kind│ body len │ tail len │ checksum │ body  │ tail  │     little-endian
//!   └──────┴────┴────┴──────────┴──────────┴──────────┴─ ─ ─ ─┴─ ─ ─ ─┘
//! ```
//!
//! The checksum (CRC-32) covers the header before it, the body and the tail. The body is a postcard message, the tail
//! raw numbers as they lie in memory. Both lengths are checked against their bounds before a byte is allocated, and
//! the version before the lengths are believed.
//!
//! ```
//! use qjam_core::wire::frame::{self, Frame};
//! let bytes = frame::encode(7, b"body", b"tail");
//! let (frame, used) = Frame::parse(&bytes).unwrap().unwrap();
//! assert_eq!((frame.kind, frame.body, frame.tail, used), (7, &b"body"[..], &b"tail"[..], bytes.len()));
//! assert!(Frame::parse(&bytes[..10]).unwrap().is_none(), "not all there yet");
//! ```

use thiserror::Error;

/// Version of frames and messages. Both sides must have the same.
pub const PROTOCOL: u8 = 1;
/// Length of the header.
pub const HEADER_BYTES: usize = 16;
/// Longest body.
pub const BODY_BYTES_MAX: u32 = 4 << 20;
/// Longest tail.
pub const TAIL_BYTES_MAX: u32 = 1 << 20;

const MAGIC: [u8; 2] = *b"qj";

/// A whole frame, borrowed from the bytes it was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message the body is.
    pub kind: u8,
    /// The message.
    pub body: &'a [u8],
    /// Raw bytes that the message refers to.
    pub tail: &'a [u8],
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum FrameError {
    #[error("not a frame: it begins with {0:02x?} instead of 'qj'")]
    Magic([u8; 2]),
    #[error("protocol version {theirs} there, {PROTOCOL} here: both sides must run the same build")]
    Version { theirs: u8 },
    #[error("a {part} of {bytes} bytes is over the bound of {max}")]
    TooLong { part: &'static str, bytes: u32, max: u32 },
    #[error("checksum {found:08x} instead of {expected:08x}: the bytes were damaged on the way")]
    Checksum { found: u32, expected: u32 },
}

/// What a header promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which message.
    pub kind: u8,
    /// Length of the body.
    pub body_bytes: u32,
    /// Length of the tail.
    pub tail_bytes: u32,
    checksum: u32,
}

impl Header {
    /// Reads and checks a header.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..2] != MAGIC {
            return Err(FrameError::Magic([bytes[0], bytes[1]]));
        }
        if bytes[2] != PROTOCOL {
            return Err(FrameError::Version { theirs: bytes[2] });
        }
        let header = Header { kind: bytes[3], body_bytes: word(4), tail_bytes: word(8), checksum: word(12) };
        if header.body_bytes > BODY_BYTES_MAX {
            return Err(FrameError::TooLong { part: "body", bytes: header.body_bytes, max: BODY_BYTES_MAX });
        }
        if header.tail_bytes > TAIL_BYTES_MAX {
            return Err(FrameError::TooLong { part: "tail", bytes: header.tail_bytes, max: TAIL_BYTES_MAX });
        }
        Ok(header)
    }

    /// Length of the whole frame.
    pub fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes as usize + self.tail_bytes as usize
    }
}

impl<'a> Frame<'a> {
    /// Finds the frame at the start of `bytes`; `None` when more must come first. Also says how many bytes it took.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            // A wrong beginning is told at once rather than waited upon.
            return match bytes.first_chunk::<2>() {
                Some(&magic) if magic != MAGIC => Err(FrameError::Magic(magic)),
                _ => Ok(None),
            };
        };
        let header = Header::parse(head)?;
        let Some(rest) = bytes.get(HEADER_BYTES..header.frame_bytes()) else { return Ok(None) };
        let (body, tail) = rest.split_at(header.body_bytes as usize);
        let found = checksum(head, body, tail);
        if found != header.checksum {
            return Err(FrameError::Checksum { found, expected: header.checksum });
        }
        Ok(Some((Frame { kind: header.kind, body, tail }, header.frame_bytes())))
    }
}

/// The header that goes before `body` and `tail`.
///
/// # Panics
/// When one is over its bound: whoever builds a message puts large things into shared memory.
pub fn header(kind: u8, body: &[u8], tail: &[u8]) -> [u8; HEADER_BYTES] {
    assert!(body.len() <= BODY_BYTES_MAX as usize, "a body of {} bytes", body.len());
    assert!(tail.len() <= TAIL_BYTES_MAX as usize, "a tail of {} bytes", tail.len());
    let mut head = [0; HEADER_BYTES];
    head[..2].copy_from_slice(&MAGIC);
    head[2] = PROTOCOL;
    head[3] = kind;
    head[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&(tail.len() as u32).to_le_bytes());
    let sum = checksum(&head, body, tail);
    head[12..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// A whole frame in one piece.
pub fn encode(kind: u8, body: &[u8], tail: &[u8]) -> Vec<u8> {
    [&header(kind, body, tail), body, tail].concat()
}

fn checksum(head: &[u8; HEADER_BYTES], body: &[u8], tail: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..12]);
    crc.update(body);
    crc.update(tail);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = encode(3, b"some body", b"and a tail");
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            match Frame::parse(&bad) {
                Err(_) | Ok(None) => {}
                Ok(Some(frame)) => panic!("bit {at} went unnoticed: {frame:?}"),
            }
        }
    }

    #[test]
    fn every_prefix_waits_for_more() {
        let good = encode(3, b"some body", b"and a tail");
        for len in 0..good.len() {
            assert_eq!(Frame::parse(&good[..len]), Ok(None), "{len} bytes");
        }
    }

    #[test]
    fn lengths_over_the_bound_are_refused_from_the_header_alone() {
        let mut head = header(1, b"", b"");
        head[4..8].copy_from_slice(&(BODY_BYTES_MAX + 1).to_le_bytes());
        assert!(matches!(Frame::parse(&head), Err(FrameError::TooLong { part: "body", .. })));
        let mut head = header(1, b"", b"");
        head[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(Frame::parse(&head), Err(FrameError::TooLong { part: "tail", .. })));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = encode(1, b"", b"");
        bytes[2] = 9;
        assert_eq!(Frame::parse(&bytes), Err(FrameError::Version { theirs: 9 }));
    }

    #[test]
    fn golden_frame_of_version_1() {
        let golden = [b'q', b'j', 1, 5, 2, 0, 0, 0, 1, 0, 0, 0, 0xd9, 0x11, 0x22, 0x33, b'h', b'i', b'!'];
        assert_eq!(encode(5, b"hi", b"!"), golden);
    }
}
