//! Parquet files: any bytes between the marks at both ends.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("table"), |input: &[u8]| qjam_fuzz::targets::table::target(input));
