//! Workers of a bucket.
//!
//! A worker is a process that never runs user code. It is the child of the process that a person starts and ends ([`front`]). It looks for jobs that are worked on, and for one at a time starts an executor,
//! the program that the job names. The executor takes tasks until there are none. A crash in user code costs the executor: the
//! worker puts its task back at once, says in the bucket how it died, and starts another.
//!
//! ```text
//!   worker ── active/… ─▶ which job? ── starts ─▶ executor ── queue of the job, blobs
//!     ▲ workers/NAME.SLOTS, every few seconds       │ what it has taken, over a socket
//!     └──────────────── put back what a dead one had ┘
//! ```

mod control;
mod executor;
mod front;
mod worker;

pub use front::serve_in_child;
pub use worker::{ServeOptions, serve};

/// What a process is started with, for its environment.
fn to_text(request: &impl serde::Serialize) -> String {
    let bytes = postcard::to_stdvec(request).expect("texts and numbers can be encoded");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a process was started with.
fn from_text<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
    postcard::from_bytes(&bytes?).ok()
}
