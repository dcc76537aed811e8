//! Messages: a good frame around any body, in all directions: between master and worker, and between master and the supervisor of a host; and recipes for states, which have no frame of their own.
//!
//! What is understood must survive being said again. What it costs is bounded by the length of the body: the longest
//! element of any list in a message takes under 256 bytes of memory, and a list never has room for more elements than
//! the body has bytes left.

use super::bounded;
use qjam_core::wire::frame::{self, Frame};
use qjam_core::wire::host::{KIND_FROM_HOST, KIND_TO_HOST};
use qjam_core::wire::message::{KIND_TO_MASTER, KIND_TO_WORKER, MessageError};
use qjam_core::wire::recipe::Recipe;
use qjam_core::wire::{FromHost, ToHost, ToMaster, ToWorker};

/// Bytes of memory for each byte of a body, and for an error's text.
const FACTOR: usize = 256;
const SLACK_BYTES: usize = 4096;

fn understood<M>(kind: u8, body: &[u8], read: impl Fn(&Frame<'_>) -> Result<M, MessageError>) -> Option<M> {
    let bytes = frame::encode(kind, body, b"");
    let Ok(Some((frame, _))) = Frame::parse(&bytes) else { panic!("a good frame was not read back") };
    bounded(FACTOR * body.len() + SLACK_BYTES, || read(&frame)).ok()
}

macro_rules! check {
    ($message:ty, $kind:expr, $body:expr) => {
        if let Some(message) = understood($kind, $body, <$message>::from_frame) {
            let again = understood($kind, &message.to_body(), <$message>::from_frame);
            assert_eq!(again, Some(message));
        }
    };
}

/// Tries an input.
pub fn target(input: &[u8]) {
    let Some((direction, body)) = input.split_first() else { return };
    match direction % 5 {
        0 => check!(ToWorker, KIND_TO_WORKER, body),
        1 => check!(ToMaster, KIND_TO_MASTER, body),
        2 => check!(ToHost, KIND_TO_HOST, body),
        3 => check!(FromHost, KIND_FROM_HOST, body),
        _ => {
            // What is found lies inside, and its steps are in order.
            let read = bounded(FACTOR * body.len() + SLACK_BYTES, || Recipe::parse(body));
            if let Ok(recipe) = read {
                let places = recipe.starts.iter().flatten().chain(&recipe.steps);
                places.for_each(|place| assert!(place.end <= body.len() && place.start <= place.end));
                (0..recipe.starts.len()).for_each(|n| {
                    std::hint::black_box(recipe.steps_of(n));
                });
            }
        }
    }
}
