//! Checkpoints of states: any bytes, and any bytes behind a right hash.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("state"), |input: &[u8]| qjam_fuzz::targets::state::target(input));
