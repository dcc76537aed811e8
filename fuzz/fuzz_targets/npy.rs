//! Headers of `.npy` files: any bytes, and any text after a valid beginning.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("npy"), |input: &[u8]| qjam_fuzz::targets::npy::target(input));
