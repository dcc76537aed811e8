//! Worker strings: any text, naming any file of hosts.
//!
//! Up to the first NUL the input is the string, after it the text of every file that the string names. What is accepted
//! stays within the bounds on seats and slots, names every seat differently, and gives `ssh` no host or user that it
//! could take for an option; what is refused comes with a short message free of control characters, because it is shown
//! on a terminal. Memory follows from the bounds and not from the numbers in the text.

use super::bounded;
use qjam::engine::{SEATS_MAX, SLOTS_MAX, SeatKind, WorkerString};
use std::collections::BTreeSet;

/// A growing list of all seats there may be, each with its name, user and host.
const SEATS_BYTES_MAX: usize = SEATS_MAX * 1024;

/// Tries an input.
pub fn target(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (text, file) = text.split_once('\0').unwrap_or((text, ""));
    // A string may name the file often, but one reading is over before the next.
    let bytes_max = SEATS_BYTES_MAX + 2 * file.len() + 4096;
    let parse = || WorkerString::parse_with(text, Some("ann"), &mut |_| Ok(file.to_owned()));
    match bounded(bytes_max, parse) {
        Ok(workers) => {
            assert!((1..=SEATS_MAX).contains(&workers.seats.len()), "{} seats", workers.seats.len());
            assert!(workers.seats.iter().all(|seat| (1..=SLOTS_MAX).contains(&seat.slots)));
            let names: BTreeSet<&str> = workers.seats.iter().map(|seat| seat.name.as_str()).collect();
            assert_eq!(names.len(), workers.seats.len(), "two seats have one name");
            for seat in &workers.seats {
                let SeatKind::Host(address) = &seat.kind else { continue };
                let plain = |name: &str| {
                    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
                    !name.is_empty() && !name.starts_with('-') && name.chars().all(allowed)
                };
                assert!(plain(&address.host), "{address:?}");
                assert!(address.user.as_deref().is_some_and(plain), "{address:?}");
            }
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && message.chars().count() < 2500, "{message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
}
