//! Headers of `.npy` files: any bytes, and any text after a valid beginning.
//!
//! Accepted input must be consistent, refused input must have a message, and memory must be bounded by a small multiple of the input.

use super::bounded;
use qjam::source::npy::{ACCEPTED, parse_header};

/// Bytes of memory for each byte of input: a dimension takes two characters, and eight bytes in a growing list.
const FACTOR: usize = 16;
const SLACK_BYTES: usize = 256;

fn check(start: &[u8]) {
    match bounded(FACTOR * start.len() + SLACK_BYTES, || parse_header(start)) {
        Ok(header) => {
            assert!(ACCEPTED.contains(&header.descr), "{header:?}");
            assert!(header.data_offset <= start.len() as u64, "{header:?}");
            let width = u64::from(header.descr.as_bytes()[2] - b'0');
            let bytes = header.rows.checked_mul(header.cols).and_then(|values| values.checked_mul(width));
            assert_eq!(bytes, Some(header.data_bytes), "{header:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Tries an input.
pub fn target(input: &[u8]) {
    check(input);
    let Some((version, text)) = input.split_first() else { return };
    let version = version % 3 + 1;
    let mut file = b"\x93NUMPY".to_vec();
    file.extend([version, 0]);
    match version {
        1 => file.extend((text.len() as u16).to_le_bytes()),
        _ => file.extend((text.len() as u32).to_le_bytes()),
    }
    file.extend(text);
    check(&file);
}
