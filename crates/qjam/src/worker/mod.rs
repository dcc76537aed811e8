//! The body of the worker's machine: what runs user code.
//!
//! The same executable is master and worker. Started as an executor (the environment says so) it serves its master
//! over the socket it finds as standard input until that is closed, and never reaches the user's `main`. Started as a
//! supervisor, on a host, it does the same over an ssh connection, and has executors run the user's code.
//! [`serve_if_asked`] is that fork in the road; `#[qjam::main]` and [`worker_hook!`](crate::worker_hook) put it in place.
//!
//! [`entry`] is how a supervisor begins, [`supervisor`] what it does; [`executor`] is the process, [`round`] how blocks are run, [`slots`] threads for several at once, [`chunks`] what is
//! kept open, [`states`] what is kept between rounds, [`recipes`] how that is made again, [`faults`] how panics are caught,
//! [`own_limit`] how a process keeps to its memory.

pub(crate) mod arenas;
pub(crate) mod chunks;
mod data;
pub(crate) mod entry;
mod executor;
mod faults;
mod own_limit;
pub(crate) mod recipes;
pub(crate) mod round;
pub(crate) mod slots;
pub(crate) mod states;
pub(crate) mod supervisor;

use std::ffi::OsString;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Runs user code outside of any chunk; a panic becomes a fault.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Result<R, qjam_core::job::Fault> {
    faults::caught(None, f)
}

/// The environment variable that makes an executable an executor: version, parent's process id, slots.
pub(crate) const ASKED: &str = "QJAM_EXECUTOR";

/// Serves and exits if this process was started as a worker; otherwise returns at once.
///
/// `#[qjam::main]` calls this first thing. Call it yourself only if you write `main` by hand.
pub fn serve_if_asked() {
    HOOKED.store(true, Relaxed);
    let code = if let Some(asked) = take_question(entry::SUPERVISOR) {
        entry::serve(&asked).unwrap_or_else(|e| give_up("supervisor", &e))
    } else if let Some(asked) = take_question(ASKED) {
        executor::serve(&asked.to_string_lossy()).map_or_else(|e| give_up("executor", &e), |()| 0)
    } else {
        // One of several that a launcher has started serves, too, unless it is the first.
        crate::engine::ranks::join_if_launched();
        return;
    };
    std::process::exit(code);
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

/// Makes an executable without a `#[qjam::main]` able to be a worker: tests, doc tests, benchmarks.
///
/// Write it once anywhere in the test crate; the process then asks before `main` whether it was started as a worker.
///
/// ```
/// qjam::worker_hook!();
///
/// #[qjam::map]
/// fn rows(_: &(), x: &qjam::Dense<f64>) -> u64 {
///     x.rows() as u64
/// }
///
/// # fn main() -> qjam::Result<()> {
/// let m = qjam::Master::connect("proc:1")?;
/// let x = qjam::DataSet::dense(vec![0.5; 12], 3)?;
/// assert_eq!(m.run(rows, &(), &x)?, 4);
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! worker_hook {
    () => {
        const _: () = {
            extern "C" fn before_main() {
                $crate::worker::serve_if_asked();
            }
            #[used]
            #[allow(unsafe_code, reason = "running before main is what this macro is for")]
            #[unsafe(link_section = ".init_array")]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
}
