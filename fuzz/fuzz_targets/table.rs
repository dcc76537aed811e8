//! Parquet files: any bytes between the marks at both ends.

#![no_main]

libfuzzer_sys::fuzz_target!(init: { qjam_fuzz::plant("table"); qjam_fuzz::bear_panics_of("/parquet-") }, |input: &[u8]| qjam_fuzz::targets::table::target(input));
