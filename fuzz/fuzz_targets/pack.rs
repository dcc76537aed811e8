//! Packs of the cache: any bytes as a file of a cache's folder, which is opened, searched and verified.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("pack"), |input: &[u8]| qjam_fuzz::targets::pack::target(input));
