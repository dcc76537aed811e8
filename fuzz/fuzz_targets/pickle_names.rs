//! Pickles from hosts: any bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("pickle_names"), |input: &[u8]| qjam_fuzz::targets::pickle_names::target(input));
