//! Functions of another language, as workers and engines see them.
//!
//! Such functions are registered Rust functions that hand their parameters to an interpreter. Whoever runs the
//! interpreters registers one [`Language`] here; the rest of the system calls the functions of this module and knows
//! no language by name. Setup and findings are bytes that only the language reads. At most one language is registered.

use linkme::distributed_slice;
use qjam_core::job::{Death, Fault};
use std::any::Any;
use std::thread::ThreadId;

/// What a panic of user code carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// What runs functions of another language.
pub(crate) struct Language {
    /// Whether the function of this name is one of its own.
    pub(crate) owns: fn(&str) -> bool,
    /// Keeps what the master's welcome brought; `false` if it cannot be read.
    pub(crate) welcome: fn(&[u8]) -> bool,
    /// Looks for an interpreter on this host and describes it, or says why there is none. May take seconds.
    pub(crate) find: fn() -> Result<Vec<u8>, String>,
    /// Limits the private memory of interpreters that this thread starts from now on.
    pub(crate) limit_memory: fn(Option<u64>),
    /// Tells that this process has so many more slots that are threads; fewer, if negative.
    pub(crate) add_thread_slots: fn(isize),
    /// Interpreters of this thread that have ended since this was last asked, and were replaced.
    pub(crate) take_losses: fn() -> Vec<Death>,
    /// Whether a thread has an interpreter, or is ending one.
    pub(crate) has_interpreter: fn(ThreadId) -> bool,
    /// The fault of an exception, if that is what a panic carries; otherwise what it carries.
    pub(crate) fault: fn(Payload, Option<u32>) -> Result<Fault, Payload>,
}

/// The languages that the program was linked with.
#[distributed_slice]
pub(crate) static LANGUAGES: [Language];

/// Whether a function is one of another language.
pub(crate) fn is_foreign(function: &str) -> bool {
    LANGUAGES.iter().any(|language| (language.owns)(function))
}

/// Keeps what the master's welcome brought; `false` if nobody can read it.
pub(crate) fn welcome(setup: &[u8]) -> bool {
    LANGUAGES.iter().any(|language| (language.welcome)(setup))
}

/// Looks for what runs functions of another language on this host.
pub(crate) fn find() -> Result<Vec<u8>, String> {
    let language = LANGUAGES.first().ok_or("this program runs no functions of other languages")?;
    (language.find)()
}

/// Limits the private memory of interpreters that this thread starts from now on.
pub(crate) fn limit_memory(bytes_max: Option<u64>) {
    LANGUAGES.iter().for_each(|language| (language.limit_memory)(bytes_max));
}

/// Tells that this process has so many more slots that are threads; fewer, if negative.
pub(crate) fn add_thread_slots(more: isize) {
    LANGUAGES.iter().for_each(|language| (language.add_thread_slots)(more));
}

/// Interpreters of this thread that have ended since this was last asked, and were replaced.
pub(crate) fn take_losses() -> Vec<Death> {
    LANGUAGES.iter().flat_map(|language| (language.take_losses)()).collect()
}

/// Whether a thread has an interpreter, or is ending one.
pub(crate) fn has_interpreter(thread: ThreadId) -> bool {
    LANGUAGES.iter().any(|language| (language.has_interpreter)(thread))
}

/// The fault of an exception, if that is what a panic carries; otherwise what it carries.
pub(crate) fn fault(payload: Payload, chunk: Option<u32>) -> Result<Fault, Payload> {
    LANGUAGES
        .iter()
        .try_fold(payload, |payload, language| match (language.fault)(payload, chunk) {
            Ok(fault) => Err(fault),
            Err(payload) => Ok(payload),
        })
        .map_or_else(Ok, Err)
}
