//! Headers of IDX files, and lists of members of `.npz` archives: any bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("idx"), |input: &[u8]| qjam_fuzz::targets::idx::target(input));
