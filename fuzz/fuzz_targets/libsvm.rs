//! Blocks of LIBSVM text. Accepted input is a valid sparse matrix, as its constructor checks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qjam_readers::libsvm::parse_for_fuzzing;

/// A pair takes four bytes of text at least and twelve of memory; room is made for one in eight bytes beforehand.
const FACTOR: usize = 32;
const SLACK_BYTES: usize = 4096;

fuzz_target!(|input: &[u8]| {
    for first in [0, 1] {
        match qjam_fuzz::bounded(FACTOR * input.len() + SLACK_BYTES, || parse_for_fuzzing(input, first)) {
            Ok(rows) => assert_eq!(rows.labels().map(<[f64]>::len), Some(rows.rows())),
            Err(message) => assert!(!message.is_empty()),
        }
    }
});
