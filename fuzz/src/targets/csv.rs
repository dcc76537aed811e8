//! Blocks of CSV text; the first byte gives the number of columns.
//!
//! Accepted input has whole rows, refused input has a message, and memory is bounded by a multiple of the input.

use super::bounded;
use qjam_readers::csv::parse_for_fuzzing;

/// A value takes two bytes of text at least and eight of memory, in a list that doubles.
const FACTOR: usize = 32;
const SLACK_BYTES: usize = 64 << 10;

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((columns, text)) = input.split_first() else { return };
    let columns = usize::from(columns % 8) + 1;
    match bounded(FACTOR * text.len() + SLACK_BYTES, || parse_for_fuzzing(text, columns)) {
        Ok(values) => assert_eq!(values % columns, 0),
        Err(message) => assert!(!message.is_empty()),
    }
}
