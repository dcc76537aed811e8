//! Pictures: any bytes as PNG or JPEG.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("picture"), |input: &[u8]| qjam_fuzz::targets::picture::target(input));
