//! Panics in user code, caught with their message, place and backtrace.
//!
//! A panic hook is the only place that sees where a panic came from. Ours keeps that for the thread that is inside
//! [`caught`] and leaves all other panics to whatever hook was there before.

use crate::function::language;
use qjam_core::job::{Fault, FaultKind};
use qjam_system::data_limit::with_room;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Longest backtrace that is passed on.
const BACKTRACE_BYTES_MAX: usize = 32 << 10;
/// Longest message that is passed on.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

#[derive(Default)]
struct Caught {
    /// What it said, in case there is no later.
    first: String,
    location: Option<String>,
    backtrace: Option<String>,
}

thread_local! {
    /// `Some` while this thread is inside user code.
    static INSIDE: RefCell<Option<Caught>> = const { RefCell::new(None) };
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let ours = INSIDE.with(|inside| match inside.try_borrow_mut() {
                Ok(mut inside) => match inside.as_mut() {
                    // A second panic while the first unwinds ends the process: both are said while there is time.
                    Some(Caught { location: Some(at), first, .. }) => {
                        let words = format!("panicked at {at}: {first}, and then again:\n");
                        let _ = rustix::io::write(rustix::stdio::stderr(), words.as_bytes());
                        false
                    }
                    Some(caught) => {
                        caught.first = info.payload_as_str().unwrap_or("(no message)").to_owned();
                        caught.location = info.location().map(ToString::to_string);
                        caught.backtrace =
                            Some(trimmed(&with_room(|| Backtrace::force_capture().to_string())));
                        true
                    }
                    None => false,
                },
                Err(_) => false,
            });
            if !ours {
                before(info);
            }
        }));
    });
}

/// Runs user code; a panic becomes a [`Fault`].
pub(crate) fn caught<R>(chunk: Option<u32>, f: impl FnOnce() -> R) -> Result<R, Fault> {
    install_hook();
    // User code may itself run rounds on threads of this process: one `caught` within another.
    let outer = INSIDE.replace(Some(Caught::default()));
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    let caught = INSIDE.replace(outer).unwrap_or_default();
    result.map_err(|payload| {
        let payload = match language::fault(payload, chunk) {
            Ok(fault) => return fault,
            Err(payload) => payload,
        };
        let message = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".into());
        Fault {
            kind: FaultKind::Panic,
            chunk,
            message: cut(&message, MESSAGE_BYTES_MAX),
            location: caught.location,
            backtrace: caught.backtrace,
            carried: Vec::new(),
        }
    })
}

/// Frames between the user's function and the panic: what is ours above and below says nothing.
fn trimmed(backtrace: &str) -> String {
    let frames = split_frames(backtrace);
    let first = frames.iter().position(|f| f.contains("begin_unwind")).map_or(0, |n| n + 1);
    // The first of ours is where the user's function was called from.
    let is_ours = |f: &String| {
        // By its file, too: names of frames that were inlined lack their path.
        [crate::function::FILE, "qjam::function::", "execution::faults::caught"]
            .iter()
            .any(|ours| f.contains(ours))
    };
    let last = frames.iter().position(is_ours).unwrap_or(frames.len());
    let kept = if first < last { &frames[first..last] } else { &frames[..] };
    cut(&kept.concat(), BACKTRACE_BYTES_MAX)
}

/// A frame is a line that begins with its number, and the lines that say where.
fn split_frames(backtrace: &str) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    for line in backtrace.lines() {
        let starts =
            line.trim_start().split_once(':').is_some_and(|(n, _)| n.bytes().all(|b| b.is_ascii_digit()));
        if starts || frames.is_empty() {
            frames.push(String::new());
        }
        if let Some(frame) = frames.last_mut() {
            frame.push_str(line);
            frame.push('\n');
        }
    }
    frames
}

fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_place() {
        let fault = caught(Some(3), || -> () { panic!("the row is {}", "empty") }).unwrap_err();
        assert_eq!((fault.message.as_str(), fault.chunk), ("the row is empty", Some(3)));
        assert!(fault.location.unwrap().contains("faults.rs:"));
        assert!(fault.backtrace.unwrap().contains("faults"));
        assert_eq!(caught(None, || 7), Ok(7));
    }

    #[test]
    fn a_panic_with_an_odd_payload_is_told_too() {
        let fault = caught(None, || -> () { std::panic::panic_any(17) }).unwrap_err();
        assert_eq!(fault.message, "a panic without a message");
    }
}
