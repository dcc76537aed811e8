//! `.npz` archives: any bytes, and archives whose list, lengths and checksums are right around any members.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("npz"), |input: &[u8]| qjam_fuzz::targets::npz::target(input));
