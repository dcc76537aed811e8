//! Frames: any bytes, and any bytes around and inside good frames.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("frames"), |input: &[u8]| qjam_fuzz::targets::frames::target(input));
