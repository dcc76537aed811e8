//! Blocks of LIBSVM text. Accepted input is a valid sparse matrix, as its constructor checks.

use super::bounded;
use qjam_readers::libsvm::parse_for_fuzzing;

/// A pair takes four bytes of text at least and twelve of memory; room is made for one in eight bytes beforehand.
const FACTOR: usize = 32;
const SLACK_BYTES: usize = 4096;

/// Tries an input.
pub fn target(input: &[u8]) {
    for first in [0, 1] {
        match bounded(FACTOR * input.len() + SLACK_BYTES, || parse_for_fuzzing(input, first)) {
            Ok(rows) => assert_eq!(rows.labels().map(<[f64]>::len), Some(rows.rows())),
            Err(message) => assert!(!message.is_empty()),
        }
    }
}
