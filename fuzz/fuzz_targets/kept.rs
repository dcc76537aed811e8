//! Files that readers keep: any bytes, and any index behind some bytes with a right trailer.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("kept"), |input: &[u8]| qjam_fuzz::targets::kept::target(input));
