//! Run files: any bytes, and any records with valid checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("run_file"), |input: &[u8]| qjam_fuzz::targets::run_file::target(input));
