//! Sounds: any bytes as a WAV file.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("sound"), |input: &[u8]| qjam_fuzz::targets::sound::target(input));
