//! Runs the protocol's futures on the thread that calls.
//!
//! A participant waits for two things only: for time to pass, and for work on other threads. So a thread is parked until either
//! comes. No runtime is needed.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

thread_local! {
    /// When the future that is being polled wants to be polled again, at the latest.
    static WAKE_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end. Also inside another one, which is polled again afterwards, since what woke it may have been taken for
/// what this one waited for.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let outer = WAKE_AT.get();
    let value = run(future);
    WAKE_AT.set(outer);
    thread::current().unpark();
    value
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        WAKE_AT.set(None);
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        match WAKE_AT.get() {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}

/// Lets time pass. Only inside [`block_on`].
pub async fn sleep(time: Duration) {
    let until = Instant::now() + time;
    poll_fn(|_| {
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        WAKE_AT.set(Some(WAKE_AT.get().map_or(until, |at| at.min(until))));
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_waits_for_time_and_for_other_threads() {
        let began = Instant::now();
        block_on(sleep(Duration::from_millis(3)));
        assert!(began.elapsed() >= Duration::from_millis(3));
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let sets = done.clone();
        let other = thread::spawn(move || {
            let waker = receiver.recv().unwrap();
            sets.store(true, std::sync::atomic::Ordering::SeqCst);
            waker.wake();
        });
        block_on(poll_fn(|cx| {
            if done.load(std::sync::atomic::Ordering::SeqCst) {
                return Poll::Ready(());
            }
            sender.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }));
        other.join().unwrap();
    }
}
