//! Orders of rounds: any bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("order"), |input: &[u8]| qjam_fuzz::targets::order::target(input));
