//! Frames: any bytes, and any bytes around and inside good frames.
//!
//! Parsing allocates nothing. Random bytes rarely have a valid checksum, so the input is also divided into bodies and tails of valid
//! frames, which must survive a round trip; then one byte is changed, which must be detected.

use super::bounded;
use qjam_core::wire::frame::{self, Frame, FrameError, HEADER_BYTES};
use qjam_core::wire::message::KIND_TO_WORKER;

/// Parses frame after frame as a reader of a connection does; where it stopped, and why.
fn read_all<'a>(mut bytes: &'a [u8], mut each: impl FnMut(Frame<'a>)) -> Result<usize, FrameError> {
    while let Some((frame, used)) = Frame::parse(bytes)? {
        assert!(used >= HEADER_BYTES && used <= bytes.len(), "{used} of {} bytes", bytes.len());
        assert_eq!(used, HEADER_BYTES + frame.body.len() + frame.tail.len());
        each(frame);
        bytes = &bytes[used..];
    }
    Ok(bytes.len())
}

/// One part of a frame, and what is left of the input.
fn part(input: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = input.split_first().map_or((0, input), |(n, rest)| (usize::from(*n), rest));
    rest.split_at(length.min(rest.len()))
}

/// Inputs to begin from: frames of real messages, and what such frames are made from.
pub fn seeds() -> Vec<Vec<u8>> {
    let bodies: Vec<Vec<u8>> = super::messages::to_worker().iter().map(|message| message.to_body()).collect();
    let framed = |body: &Vec<u8>| frame::encode(KIND_TO_WORKER, body, b"the tail");
    let stream: Vec<u8> = bodies.iter().flat_map(framed).collect();
    assert_eq!(read_all(&stream, |_| ()), Ok(0), "frames are none any more");
    let parts: Vec<u8> = bodies
        .iter()
        .flat_map(|body| {
            let body = &body[..body.len().min(255)];
            [&[KIND_TO_WORKER, body.len() as u8][..], body, &[8], b"the tail"].concat()
        })
        .collect();
    bodies.iter().map(framed).chain([stream, parts]).collect()
}

/// Tries an input.
pub fn target(input: &[u8]) {
    let _ = bounded(0, || read_all(input, |_| ()));

    let (mut stream, mut sent, mut rest) = (Vec::new(), Vec::new(), input);
    while let Some((kind, after)) = rest.split_first() {
        let (body, after) = part(after);
        let (tail, after) = part(after);
        stream.extend(frame::encode(*kind, body, tail));
        sent.push(Frame { kind: *kind, body, tail });
        rest = after;
    }
    let mut got = 0;
    let left = read_all(&stream, |frame| {
        assert_eq!(frame, sent[got]);
        got += 1;
    });
    assert_eq!((left, got), (Ok(0), sent.len()));

    // A good stream with one byte spoilt ends early: in an error, or waiting for bytes that never come.
    if let [a, b, flip, ..] = *input
        && flip != 0
        && !stream.is_empty()
    {
        let at = usize::from(u16::from_le_bytes([a, b])) % stream.len();
        stream[at] ^= flip;
        let mut got = 0;
        let left = bounded(0, || read_all(&stream, |_| got += 1));
        assert!(left != Ok(0) && got < sent.len(), "byte {at} was spoilt and nobody noticed");
    }
}
