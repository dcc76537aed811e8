//! Lists of edges. What is accepted does not depend on where the blocks end in which the file is read.

use super::bounded;
use qjam_readers::edges::parse_for_fuzzing;

/// An edge takes four bytes of text and sixteen of memory, and the list grows by doubling.
const FACTOR: usize = 16;
const SLACK_BYTES: usize = 4096;

/// Tries an input.
pub fn target(input: &[u8]) {
    let whole = bounded(FACTOR * input.len() + SLACK_BYTES, || parse_for_fuzzing(input, input.len()));
    assert_eq!(whole, bounded(FACTOR * input.len() + SLACK_BYTES, || parse_for_fuzzing(input, 7)));
    if let Err(message) = whole {
        assert!(message.contains("line "), "{message}");
    }
}
