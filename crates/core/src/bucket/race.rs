//! Waiting for the first of two things, for all of many, and for one while another is done now and then.

use super::storage::Storage;
use crate::time::Span;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

/// What came first.
pub(super) enum First<A, B> {
    One(A),
    Other(B),
}

/// Waits for either future. The first wins if both are ready. The other is dropped if it is not borrowed.
pub(super) async fn race<A, B>(
    mut one: Pin<&mut impl Future<Output = A>>,
    other: impl Future<Output = B>,
) -> First<A, B> {
    let mut other = pin!(other);
    poll_fn(|cx| {
        if let Poll::Ready(value) = one.as_mut().poll(cx) {
            return Poll::Ready(First::One(value));
        }
        other.as_mut().poll(cx).map(First::Other)
    })
    .await
}

/// Waits for some work, and does something else every so often until it is done.
pub(super) async fn with_ticks<S: Storage, T>(
    storage: &S,
    every: Span,
    work: impl Future<Output = T>,
    mut tick: impl AsyncFnMut(),
) -> T {
    let mut work = pin!(work);
    loop {
        match race(work.as_mut(), storage.sleep(every)).await {
            First::One(done) => return done,
            First::Other(()) => tick().await,
        }
    }
}

/// Does the same for each of these, with so many under way at once. The results are in order; the first error ends it.
pub async fn for_each<A, T, E, F: Future<Output = Result<T, E>>>(
    of: impl IntoIterator<Item = A>,
    at_once: usize,
    work: impl Fn(A) -> F,
) -> Result<Vec<T>, E> {
    let mut waiting = of.into_iter();
    let mut running: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    let mut done: Vec<Option<T>> = Vec::new();
    poll_fn(move |cx| {
        loop {
            while running.len() < at_once.max(1)
                && let Some(next) = waiting.next()
            {
                running.push((done.len(), Box::pin(work(next))));
                done.push(None);
            }
            let before = running.len();
            let mut failed = None;
            running.retain_mut(|(at, future)| match future.as_mut().poll(cx) {
                Poll::Ready(Ok(value)) => {
                    done[*at] = Some(value);
                    false
                }
                Poll::Ready(Err(e)) => {
                    failed.get_or_insert(e);
                    false
                }
                Poll::Pending => true,
            });
            if let Some(e) = failed {
                return Poll::Ready(Err(e));
            }
            if running.len() == before {
                let is_done = running.is_empty();
                return if is_done {
                    Poll::Ready(Ok(done.drain(..).flatten().collect()))
                } else {
                    Poll::Pending
                };
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::{Context, Waker};

    /// A future that is ready when it is polled for the nth time, and must not be polled afterwards.
    async fn turns(n: u32) {
        let mut left = n;
        poll_fn(|_| {
            left = left.checked_sub(1).expect("a turn is left");
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return value;
            }
        }
    }

    #[test]
    fn several_futures_run_at_a_time_until_one_fails() {
        let (now, most, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let work = |n: u32| {
            let (now, most, done) = (&now, &most, &done);
            async move {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                turns(2 + n % 3).await;
                now.set(now.get() - 1);
                done.set(done.get() + 1);
                if n == 50 { Err(n) } else { Ok(n) }
            }
        };
        assert_eq!(run(for_each(0..40, 4, work)), Ok((0..40).collect()));
        assert_eq!((now.get(), most.get(), done.get()), (0, 4, 40));
        assert_eq!(run(for_each(40..1000, 4, work)), Err(50));
        assert!(done.get() < 60, "it went on after an error");
        assert_eq!(run(for_each(0..0, 4, work)), Ok(Vec::new()));
    }
}
