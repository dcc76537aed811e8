//! How a rank ends: by the launcher's signal, with last words; or by itself, after leaving the others.

use qjam::engine::ranks::say_last;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Last words are said once.
static SAID: AtomicBool = AtomicBool::new(false);
/// What launchers send, what a terminal does, and what code does to itself.
const SIGNALS: [libc::c_int; 8] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGILL,
];

/// Has this process say what it was in when a signal ends it.
#[expect(unsafe_code, reason = "installing signal handlers")]
pub(crate) fn catch_signals() {
    for signal in SIGNALS {
        // SAFETY: the structure is zeroed, which is a value, and the handler does only what a handler may: it reads
        // atomics, writes to descriptors, and ends the process by the signal's own way.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Who leaves in order has no last words.
#[expect(unsafe_code, reason = "removing signal handlers")]
pub(crate) fn release_signals() {
    for signal in SIGNALS {
        // SAFETY: sets the system's own way with the signal.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    if !SAID.swap(true, Relaxed) {
        say_last(match signal {
            libc::SIGTERM => " was told to end (another rank may have died; the launcher says which)",
            libc::SIGINT => " was interrupted",
            libc::SIGHUP => " lost its terminal",
            libc::SIGSEGV => " crashed (signal 11, a bad address)",
            libc::SIGBUS => " crashed (signal 7, memory that is not there)",
            libc::SIGABRT => " aborted (signal 6)",
            _ => " crashed",
        });
    }
    #[expect(unsafe_code, reason = "ending as the signal would have")]
    // SAFETY: the handler was reset when it was entered, so this ends the process as soon as it returns.
    unsafe {
        libc::raise(signal);
    }
}

/// Has a function called at the end of the process.
#[expect(unsafe_code, reason = "registering a function for the end of the process")]
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: the function lives as long as the program.
    unsafe {
        libc::atexit(f);
    }
}
