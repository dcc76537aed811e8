//! Work that takes a thread, as a future.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// What came of the work, and who waits for it.
struct Shared<T> {
    value: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// Sets a flag when it is dropped: nobody waits any more.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn lock<T>(shared: &Mutex<Shared<T>>) -> MutexGuard<'_, Shared<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function on a thread of its own. It is told by a flag when nobody waits for it any more. `Err` is why there is no thread.
pub(crate) async fn offload<T: Send + 'static>(
    work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
) -> std::io::Result<T> {
    let shared = Arc::new(Mutex::new(Shared { value: None, waker: None }));
    let is_gone = Gone(Arc::new(AtomicBool::new(false)));
    let (there, flag) = (shared.clone(), is_gone.0.clone());
    std::thread::Builder::new().name("qjam-task".into()).spawn(move || {
        let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(flag)));
        let mut there = lock(&there);
        there.value = Some(value);
        if let Some(waker) = there.waker.take() {
            waker.wake();
        }
    })?;
    let value = poll_fn(|cx| {
        let mut shared = lock(&shared);
        match shared.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                shared.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await;
    Ok(value.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
