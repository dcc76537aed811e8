//! Headers of IDX files, and lists of members of `.npz` archives: any bytes.

use super::bounded;

const FACTOR: usize = 16;
const SLACK_BYTES: usize = 1024;

/// Tries an input.
pub fn target(input: &[u8]) {
    let bytes_max = FACTOR * input.len() + SLACK_BYTES;
    match bounded(bytes_max, || qjam_readers::idx::parse_header(input)) {
        Ok(header) => assert!(header.data_bytes > 0 && header.shape.iter().all(|length| *length > 0)),
        Err(message) => assert!(!message.is_empty()),
    }
    match bounded(bytes_max, || qjam_readers::npz::parse_directory(input)) {
        Ok(members) => assert!(members.len() * 46 <= input.len()),
        Err(message) => assert!(!message.is_empty()),
    }
}
