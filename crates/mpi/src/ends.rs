//! How a rank begins and ends as a process: what the library and the allocator are told first; the launcher's signal, with
//! last words; leaving the others at the end.

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

/// Has those who wait inside the library give way, and the allocator keep what is given back to it.
///
/// A rank that waits for a long message would otherwise hold its core against the one that sends it, where both share
/// it. And vectors of some megabytes come and go in every round; giving their pages back to the system costs a fault for
/// each of them in the next round, many times what computing with them does.
#[expect(unsafe_code, reason = "changing the environment and the allocator's settings")]
pub(crate) fn prepare() {
    const YIELD: &str = "OMPI_MCA_mpi_yield_when_idle";
    if std::env::var_os(YIELD).is_none() {
        // SAFETY: this is among the first things the process does; no other thread exists that could read it.
        unsafe { std::env::set_var(YIELD, "1") };
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: sets two numbers of the allocator; what it does not take it leaves as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 512 << 20);
    }
}

/// Has this process say what it was in when a signal ends it.
#[expect(unsafe_code, reason = "installing signal handlers")]
pub(crate) fn catch_signals() {
    for signal in SIGNALS {
        // SAFETY: the structure is zeroed, which is a value, and the handler does only what a handler may: it reads
        // atomics, writes to descriptors, and ends the process by the signal's own way.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigfillset(&mut action.sa_mask);
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
    // Launchers send the same signal twice, to the process and to its group. Whoever comes second, in whichever thread, must
    // not end the process before the first has spoken.
    if SAID.swap(true, Relaxed) {
        return;
    }
    say_last(match signal {
        libc::SIGTERM => " was told to end (another rank may have died; the launcher says which)",
        libc::SIGINT => " was interrupted",
        libc::SIGHUP => " lost its terminal",
        libc::SIGSEGV => " crashed (signal 11, a bad address)",
        libc::SIGBUS => " crashed (signal 7, memory that is not there)",
        libc::SIGABRT => " aborted (signal 6)",
        _ => " crashed",
    });
    if signal == libc::SIGTERM {
        // What a process has said last is lost if the launcher notices its end first. It waits for a second.
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 300_000_000 };
        #[expect(unsafe_code, reason = "sleeping in a signal handler")]
        // SAFETY: this call is one of those that a handler may make.
        unsafe {
            libc::nanosleep(&pause, std::ptr::null_mut());
        }
    }
    #[expect(unsafe_code, reason = "ending as the signal would have")]
    // SAFETY: with the system's own way restored, this ends the process as soon as the handler returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
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
