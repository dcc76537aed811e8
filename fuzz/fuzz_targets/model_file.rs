//! Model files: any bytes, or any header with its right length before it and some numbers behind.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("model_file"), |input: &[u8]| qjam_fuzz::targets::model_file::target(input));
