//! Pickles from hosts, whose names are listed before they are read, and which get guards.
//!
//! Accepted input names only what stands in it as text, refused input has a message, and memory is bounded by a multiple of the
//! input. A pickle with guards has the same names, is a few times as long at most, and is not itself accepted: guards come from here.

use super::bounded;
use qjam::python::named::{guarded, names_in};

/// An instruction of one byte puts an object of 40 bytes on the stack, another into the memo, and a third into the list of those that
/// change; the lists double. A guard takes up to five bytes instead of one.
const FACTOR: usize = 512;
const SLACK_BYTES: usize = 64 << 10;
const GUARD_BYTES: usize = 5;

/// Tries an input.
pub fn target(input: &[u8]) {
    let names = bounded(FACTOR * input.len() + SLACK_BYTES, || names_in(input));
    let guarded = bounded(FACTOR * input.len() + SLACK_BYTES, || guarded(input));
    match (names, guarded) {
        (Ok(names), Ok(guarded)) => {
            assert!(names.iter().all(|named| named.module.len() + named.name.len() <= 2000));
            assert_eq!(names, guarded.names);
            if let Some(stream) = guarded.stream {
                assert!(stream.len() <= GUARD_BYTES * input.len() && stream[..2] == input[..2]);
                assert!(names_in(&stream).is_err(), "guards from outside are accepted");
            }
        }
        (Err(message), Err(again)) => assert!(!message.is_empty() && message == again),
        (names, guarded) => panic!("{names:?} without guards, {guarded:?} with them"),
    }
}

/// Inputs to begin from: plain values, an array, a scalar of an array, objects that are called, an exception.
pub fn seeds() -> Vec<Vec<u8>> {
    SEEDS.iter().map(|seed| seed.to_vec()).collect()
}

const SEEDS: &[&[u8]] = &[
    b"\x80\x05\x95,\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01G@\x04\x00\x00\x00\x00\x00\x00Ne\x8c\x01b\x94C\x02xy\x94\x8f\x94(K\x01K\x02\x90\x86\x94u.",
    b"\x80\x05\x95\x9b\x00\x00\x00\x00\x00\x00\x00\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x02K\x01\x86\x94h\x03\x8c\x05dtype\x94\x93\x94\x8c\x02f8\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b\x89C\x10\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x00\x00\x94t\x94b.",
    b"\x80\x05\x95\x93\x00\x00\x00\x00\x00\x00\x00\x8c\x16numpy._core.multiarray\x94\x8c\x06scalar\x94\x93\x94\x8c\x05numpy\x94\x8c\x05dtype\x94\x93\x94\x8c\x02V4\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94N\x8c\x01a\x94\x85\x94}\x94h\x0ah\x05\x8c\x02f4\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94bK\x00\x86\x94sK\x04K\x01K\x10t\x94bC\x04\x00\x00\x00\x00\x94\x86\x94R\x94.",
    b"\x80\x05\x95\x8d\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x08datetime\x94\x8c\x04date\x94\x93\x94C\x04\x07\xe4\x01\x01\x94\x85\x94R\x94\x8c\x0bcollections\x94\x8c\x05deque\x94\x93\x94)R\x94K\x01a\x8c\x08builtins\x94\x8c\x07getattr\x94\x93\x94\x8c\x08zoneinfo\x94\x8c\x08ZoneInfo\x94\x93\x94\x8c\x09_unpickle\x94\x86\x94R\x94\x8c\x03UTC\x94K\x01\x86\x94R\x94e.",
    b"\x80\x05\x95%\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x94\x8c\x0aValueError\x94\x93\x94\x8c\x01a\x94K\x01\x86\x94R\x94.",
];
