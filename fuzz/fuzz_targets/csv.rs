//! Blocks of CSV text; the first byte gives the number of columns.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("csv"), |input: &[u8]| qjam_fuzz::targets::csv::target(input));
