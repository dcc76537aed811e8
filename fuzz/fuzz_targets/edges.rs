//! Lists of edges: what is accepted does not depend on how they are read.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("edges"), |input: &[u8]| qjam_fuzz::targets::edges::target(input));
