//! Worker strings: any text, naming any file of hosts.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("worker_string"), |input: &[u8]| qjam_fuzz::targets::worker_string::target(input));
