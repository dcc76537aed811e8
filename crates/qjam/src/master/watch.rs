//! Calling off what a library does on the caller's thread.
//!
//! A learner runs round after round with [`Master::run`](super::Master::run) and knows nothing of who called it. An
//! interpreter that called it must look up now and then, for signals, and must be able to call it off. So the question is
//! left with the thread: every wait for a round on it asks. A round that is called off is cancelled and fails with
//! [`Error::Cancelled`], which the learner hands on as it does any other error.

use crate::ctx::Cancelled;
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// How often a wait asks.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    static CURRENT: RefCell<Option<Cancelled>> = const { RefCell::new(None) };
}

/// Does some work whose rounds are called off when `called_off` says so. It is asked before every wait for a round and
/// every 50 ms in it, on this thread, and so by functions that this thread runs itself.
///
/// ```
/// use qjam::{DataSet, Dense, Error, Master, watched};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// #[qjam::map]
/// fn total(_: &(), x: &Dense<f64>) -> f64 {
///     x.as_slice().iter().sum()
/// }
///
/// let (m, x) = (Master::connect("local:1")?, DataSet::dense(vec![0.5; 8], 1)?);
/// let asked = Arc::new(AtomicU32::new(0));
/// let enough = { let asked = asked.clone(); move || asked.fetch_add(1, Relaxed) >= 20 };
/// // As it would go on for ever:
/// let end = watched(Arc::new(enough), || loop {
///     if let Err(error) = m.run(total, &(), &x) {
///         return error;
///     }
/// });
/// assert!(matches!(end, Error::Cancelled));
/// assert_eq!(m.run(total, &(), &x)?, 4.0);
/// # Ok::<(), Error>(())
/// ```
pub fn watched<R>(called_off: Arc<dyn Fn() -> bool + Send + Sync>, work: impl FnOnce() -> R) -> R {
    /// Puts back what was there, also when the work panics.
    struct Restore(Option<Cancelled>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(Some(called_off)));
    work()
}

/// Who is to be asked on this thread.
pub(super) fn current() -> Option<Cancelled> {
    CURRENT.with_borrow(Clone::clone)
}

/// Waits without limit, by waits with one; says that the answer is there.
pub(super) fn wait(
    called_off: &Cancelled,
    mut wait: impl FnMut(Option<Duration>) -> Result<Option<()>>,
) -> Result<bool> {
    loop {
        if called_off() {
            return Err(Error::Cancelled);
        }
        if wait(Some(PAUSE))?.is_some() {
            return Ok(true);
        }
    }
}
