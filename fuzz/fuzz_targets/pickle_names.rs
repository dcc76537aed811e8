//! Pickles from hosts, whose names are listed before they are read.
//!
//! Accepted input names only what stands in it as text, refused input has a message, and memory is bounded by a multiple of the
//! input.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qjam::python::named::names_in;

/// An instruction of one byte puts an object of 32 bytes on the stack, and another into the memo; both lists double.
const FACTOR: usize = 256;
const SLACK_BYTES: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    match qjam_fuzz::bounded(FACTOR * input.len() + SLACK_BYTES, || names_in(input)) {
        Ok(names) => assert!(names.iter().all(|named| named.module.len() + named.name.len() <= 2000)),
        Err(message) => assert!(!message.is_empty()),
    }
});
