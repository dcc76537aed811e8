//! Blocks of LIBSVM text. Accepted input is a valid sparse matrix, as its constructor checks.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("libsvm"), |input: &[u8]| qjam_fuzz::targets::libsvm::target(input));
