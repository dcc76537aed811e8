//! The limit on the private memory of this process (`RLIMIT_DATA`), changed by one thread at a time.
//!
//! An allocation beyond the soft limit fails and ends the process. [`with_room`] raises the soft limit to the hard limit
//! for the duration of a call.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Held by the thread that changes the limit.
static TURN: Mutex<()> = Mutex::new(());

/// Sets the soft and the hard limit.
pub fn set(soft_bytes: u64, hard_bytes: u64) -> io::Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    setrlimit(Resource::Data, Rlimit { current: Some(soft_bytes), maximum: Some(hard_bytes) })?;
    Ok(())
}

/// Calls `f` with the soft limit raised to the hard limit.
///
/// For what must not run out of memory: if an allocation fails while a backtrace is made, Rust's runtime waits for ever
/// for a lock that it holds itself.
pub fn with_room<R>(f: impl FnOnce() -> R) -> R {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Data);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let is_raised = limit.current != limit.maximum && setrlimit(Resource::Data, raised).is_ok();
    let done = f();
    if is_raised {
        let _ = setrlimit(Resource::Data, limit);
    }
    done
}
