//! Run files: any bytes, and any records with valid checksums.
//!
//! Memory is bounded by the input: a list in a record never reserves room for more elements than the record has bytes left, and an element
//! takes less than 256 bytes.

use super::{bounded, crc};

/// The beginning of a file of this version.
const HEAD: &[u8; 16] = b"qjam run\x01\0\0\0\0\0\0\0";
/// Bytes of memory for each byte of a file, and for buffers.
const FACTOR: usize = 512;
const SLACK_BYTES: usize = 128 << 10;

/// Inputs to begin from: a whole file, and its records.
pub fn seeds() -> Vec<Vec<u8>> {
    let file = qjam::runs::sample();
    assert!(
        qjam::runs::read_bytes(&file).is_some_and(|(rounds, torn)| rounds > 0 && torn == 0),
        "no run file any more"
    );
    let (mut bodies, mut rest) = (Vec::new(), &file[HEAD.len()..]);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Some((body, after)) =
            after.get(4..).and_then(|after| after.split_at_checked(u32::from_le_bytes(*length) as usize))
        else {
            break;
        };
        bodies.push(body);
        rest = after;
    }
    vec![[&[0][..], &file].concat(), [&[1][..], &bodies.join(&0xff)].concat()]
}

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let mut file = Vec::new();
    if *kind % 2 == 0 {
        file.extend_from_slice(rest);
    } else {
        // Every run of bytes up to a 0xff is the body of a record.
        file.extend_from_slice(HEAD);
        for body in rest.split(|byte| *byte == 0xff) {
            file.extend_from_slice(&(body.len() as u32).to_le_bytes());
            file.extend_from_slice(&crc(body).to_le_bytes());
            file.extend_from_slice(body);
        }
    }
    let bytes_max = FACTOR * file.len() + SLACK_BYTES;
    bounded(bytes_max, || qjam::runs::read_bytes(&file));
}
