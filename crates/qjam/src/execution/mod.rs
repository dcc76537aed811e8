//! The worker's side: runs user code, and keeps what it needs for that.
//!
//! The same executable is master and worker. Started as an executor (the environment says so) it serves its master over
//! the socket it finds as standard input until that is closed, and never reaches the user's `main`. Started as a supervisor,
//! on a host, it does the same over an ssh connection, and has executors run the user's code. Threads of the master's own
//! process and ranks use the same parts. Nothing here decides who runs what.
//!
//! | module | what it does |
//! |---|---|
//! | [`entry`], [`supervisor`] | how a supervisor begins, and what it does |
//! | [`executor`] | the process that runs user code |
//! | [`round`] | runs blocks and combines their values |
//! | [`slots`] | threads that run several blocks at once |
//! | [`chunks`] | chunks that are kept open |
//! | [`derive`] | makes the chunks of derived data sets |
//! | [`states`], [`recipes`] | states between rounds, and how lost ones are made again |
//! | [`faults`] | catches panics of user code |
//! | [`own_limit`] | keeps a process within its memory |

pub(crate) mod chunks;
mod data;
pub(crate) mod derive;
pub(crate) mod entry;
mod executor;
mod faults;
mod own_limit;
pub(crate) mod recipes;
pub(crate) mod round;
pub(crate) mod slots;
pub(crate) mod states;
pub(crate) mod supervisor;

use crate::process::ASKED;
use linkme::distributed_slice;
use std::ffi::OsString;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Most slots of one worker.
pub const SLOTS_MAX: u32 = 1024;

/// Runs user code outside of any chunk; a panic becomes a fault.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Result<R, qjam_core::job::Fault> {
    faults::caught(None, f)
}

/// Serves and exits if this process was started as an executor or a supervisor; otherwise returns at once.
pub(crate) fn serve_if_started() {
    HOOKED.store(true, Relaxed);
    let code = if let Some(asked) = take_question(entry::SUPERVISOR) {
        entry::serve(&asked).unwrap_or_else(|e| give_up("supervisor", &e))
    } else if let Some(asked) = take_question(ASKED) {
        executor::serve(&asked.to_string_lossy()).map_or_else(|e| give_up("executor", &e), |()| 0)
    } else if let Some((entry, asked)) = crew_entry() {
        (entry.serve)(&asked.to_string_lossy())
    } else {
        return;
    };
    std::process::exit(code);
}

/// What a process of a crew was started for, if this is one.
fn crew_entry() -> Option<(&'static CrewEntry, OsString)> {
    ENTRIES.iter().find_map(|entry| Some((entry, take_question(entry.variable)?)))
}

/// Says why a worker ends; gives the code to exit with.
fn give_up(who: &str, why: &dyn Display) -> i32 {
    // Standard error is captured by the master and shown with the death.
    #[expect(clippy::print_stderr, reason = "a worker has no other way to say why it ends")]
    {
        eprintln!("qjam {who}: {why}");
    }
    70
}

/// A process of a crew that is this same executable, started with a variable in its environment.
pub struct CrewEntry {
    /// The variable. It is taken out of the environment before `serve` is called.
    pub variable: &'static str,
    /// Serves, and returns the code to exit with.
    pub serve: fn(asked: &str) -> i32,
}

/// What processes of this executable may have been started for.
#[distributed_slice]
pub static ENTRIES: [CrewEntry];

/// Whether this program has asked if it is a worker. One that never does would run itself again from the beginning.
static HOOKED: AtomicBool = AtomicBool::new(false);

/// Whether executors of this program would serve.
pub(crate) fn is_hooked() -> bool {
    HOOKED.load(Relaxed)
}

/// Takes a question out of the environment: programs that user code starts must not take themselves for workers.
#[expect(unsafe_code, reason = "changing the environment")]
fn take_question(name: &str) -> Option<OsString> {
    let asked = std::env::var_os(name)?;
    // SAFETY: this is the first thing the process does; no other thread exists that could read the environment.
    unsafe { std::env::remove_var(name) };
    Some(asked)
}
