//! Messages: a good frame around any body, in all directions: between master and worker, and between master and the supervisor of a host; and recipes for states, which have no frame of their own.

#![no_main]

libfuzzer_sys::fuzz_target!(init: qjam_fuzz::plant("messages"), |input: &[u8]| qjam_fuzz::targets::messages::target(input));
