//! Virtual time, and the futures that live in it.
//!
//! [`Tasks`] polls futures one at a time, in an order that depends on nothing but what they wait for. When all of them wait for
//! time to pass, it jumps to the next moment that one waits for.

use qjam_core::time::{Span, Time};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The time, and who waits for it.
#[derive(Clone, Default)]
pub struct Clock(Rc<Inner>);

#[derive(Default)]
struct Inner {
    now: Cell<u64>,
    /// The task that is being polled.
    current: Cell<u64>,
    /// When which task wants to be polled. The second number keeps the order among equals.
    due: RefCell<BinaryHeap<Reverse<(u64, u64, u64)>>>,
    asked: Cell<u64>,
}

impl Clock {
    /// The time now.
    pub fn now(&self) -> Time {
        Time(self.0.now.get())
    }

    /// Lets time pass.
    pub async fn sleep(&self, span: Span) {
        let until = self.0.now.get() + span.0;
        let mut is_noted = false;
        poll_fn(move |_| {
            if self.0.now.get() >= until && is_noted {
                return Poll::Ready(());
            }
            if !is_noted {
                is_noted = true;
                self.note(until);
            }
            Poll::Pending
        })
        .await
    }

    fn note(&self, at: u64) {
        let order = self.0.asked.get();
        self.0.asked.set(order + 1);
        self.0.due.borrow_mut().push(Reverse((at, order, self.0.current.get())));
    }
}

/// Futures that run beside each other.
pub struct Tasks<'a> {
    clock: Clock,
    running: BTreeMap<u64, Pin<Box<dyn Future<Output = ()> + 'a>>>,
    next: u64,
}

impl<'a> Tasks<'a> {
    /// No futures yet.
    pub fn new(clock: &Clock) -> Self {
        Tasks { clock: clock.clone(), running: BTreeMap::new(), next: 0 }
    }

    /// Starts one, after this time. Returns what it is known by.
    pub fn start(&mut self, after: Span, future: impl Future<Output = ()> + 'a) -> u64 {
        let id = self.next;
        self.next += 1;
        self.running.insert(id, Box::pin(future));
        let inner = &self.clock.0;
        let order = inner.asked.get();
        inner.asked.set(order + 1);
        inner.due.borrow_mut().push(Reverse((inner.now.get() + after.0, order, id)));
        id
    }

    /// Ends one where it is.
    pub fn kill(&mut self, id: u64) -> bool {
        self.running.remove(&id).is_some()
    }

    /// Whether one is running.
    pub fn has(&self, id: u64) -> bool {
        self.running.contains_key(&id)
    }

    /// Goes on to the next moment that somebody waits for. Returns false if there is none.
    pub fn turn(&mut self) -> bool {
        let inner = self.clock.0.clone();
        let Some(Reverse((at, _, id))) = inner.due.borrow_mut().pop() else { return false };
        inner.now.set(inner.now.get().max(at));
        inner.current.set(id);
        if let Some(future) = self.running.get_mut(&id) {
            let mut context = Context::from_waker(Waker::noop());
            if future.as_mut().poll(&mut context).is_ready() {
                self.running.remove(&id);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_in_order_and_the_dead_do_nothing() {
        let clock = Clock::default();
        let said = RefCell::new(Vec::new());
        let mut tasks = Tasks::new(&clock);
        let one = |name: &'static str, ms: u64| {
            let (clock, said) = (&clock, &said);
            async move {
                for _ in 0..2 {
                    clock.sleep(Span::from_ms(ms)).await;
                    said.borrow_mut().push((name, clock.now().0));
                }
            }
        };
        tasks.start(Span(0), one("slow", 30));
        let dead = tasks.start(Span(0), one("dead", 25));
        tasks.start(Span(0), one("fast", 20));
        while tasks.turn() {
            if clock.now() >= Time(20_000) {
                tasks.kill(dead);
            }
        }
        assert_eq!(*said.borrow(), [("fast", 20_000), ("slow", 30_000), ("fast", 40_000), ("slow", 60_000)]);
    }
}
