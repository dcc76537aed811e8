//! Worker strings: any text.
//!
//! What is accepted stays within the bounds on seats and slots and names every seat differently; what is refused comes
//! with a short message free of control characters, because it is shown on a terminal. Memory follows from the bounds
//! and not from the numbers in the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qjam::engine::{SEATS_MAX, SLOTS_MAX, WorkerString};
use std::collections::BTreeSet;

/// A growing list of all seats there may be, their names, and an error's text.
const BYTES_MAX: usize = SEATS_MAX * 256 + 4096;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match qjam_fuzz::bounded(BYTES_MAX, || WorkerString::parse(text)) {
        Ok(workers) => {
            assert!((1..=SEATS_MAX).contains(&workers.seats.len()), "{} seats", workers.seats.len());
            assert!(workers.seats.iter().all(|seat| (1..=SLOTS_MAX).contains(&seat.slots)));
            let names: BTreeSet<&str> = workers.seats.iter().map(|seat| seat.name.as_str()).collect();
            assert_eq!(names.len(), workers.seats.len(), "two seats have one name");
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && message.chars().count() < 2500, "{message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
});
