//! Who turns the loop.
//!
//! At most one thread has the [`Driver`] at a time. Whoever waits for an answer takes it and turns it until the answer
//! is there; who comes second sleeps until the first is done or has brought the second's answer along. Who only asks
//! for something gets it between two turns. When nobody waits, the tender's thread has it; unless a round is under
//! way it takes it only after a pause, so that a program that runs round after round never meets it.

use super::driver::{Driver, NewsBox};
use crate::error::Error;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The tender leaves the loop alone for so long after somebody turned it.
const PAUSE: Duration = Duration::from_millis(20);

struct Place {
    /// The loop, unless somebody turns it.
    driver: Option<Box<Driver>>,
    /// Whether the tender should not wait: something is under way that nobody may be waiting for.
    urgent: bool,
    /// When somebody last turned it. Asking does not count: who asks again and again must not keep the tender away.
    last_turned: Instant,
    closed: bool,
}

/// The loop and those who want to turn it.
pub(crate) struct Tended {
    place: Mutex<Place>,
    changed: Condvar,
    /// Threads that want something from the loop between two turns.
    asking: AtomicU32,
    /// Threads that sleep until somebody else's turns bring their answer.
    waiting: AtomicU32,
    news: Arc<NewsBox>,
}

impl Tended {
    pub(crate) fn start(driver: Driver, news: Arc<NewsBox>) -> io::Result<Arc<Self>> {
        let place = Place {
            driver: Some(Box::new(driver)),
            urgent: false,
            last_turned: Instant::now(),
            closed: false,
        };
        let tended = Arc::new(Tended {
            place: Mutex::new(place),
            changed: Condvar::new(),
            asking: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            news,
        });
        let tender = tended.clone();
        std::thread::Builder::new().name("qjam-tender".into()).spawn(move || tender.tend())?;
        Ok(tended)
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the loop, asking whoever has it; `None` when it is closed.
    fn take(&self) -> Option<Turn<'_>> {
        let mut place = self.lock();
        if let Some(driver) = place.driver.take() {
            return Some(Turn { driver: Some(driver), tended: self });
        }
        self.asking.fetch_add(1, SeqCst);
        self.news.ring();
        let taken = loop {
            if let Some(driver) = place.driver.take() {
                break Some(driver);
            }
            if place.closed {
                break None;
            }
            place = self.changed.wait(place).unwrap_or_else(PoisonError::into_inner);
        };
        self.asking.fetch_sub(1, SeqCst);
        taken.map(|driver| Turn { driver: Some(driver), tended: self })
    }

    /// Does something with the loop between two turns; `None` when it is closed. With `urgent` the tender goes on with
    /// what was begun.
    pub(crate) fn with<R>(&self, urgent: bool, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        let mut turn = self.take()?;
        let result = f(&mut turn);
        turn.give_back(urgent, false);
        Some(result)
    }

    /// Turns the loop, or sleeps while somebody else does, until `ask` has an answer; `None` when time is up before.
    /// `ask` gets the loop whenever this thread has it.
    pub(crate) fn drive<R>(
        &self,
        limit: Option<Duration>,
        ask: impl Fn(Option<&Driver>) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        // A limit beyond the end of time is none.
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let left = || end.map(|end| end.saturating_duration_since(Instant::now()));
        let mut place = self.lock();
        loop {
            if let Some(answer) = ask(None) {
                return Ok(Some(answer));
            }
            if left() == Some(Duration::ZERO) {
                return Ok(None);
            }
            if let Some(driver) = place.driver.take() {
                place.urgent = false;
                drop(place);
                let mut turn = Turn { driver: Some(driver), tended: self };
                let result = self.turn_until(&mut turn, &left, &ask);
                // Rounds of others may be under way, and nobody may be waiting for them.
                let urgent = turn.is_busy();
                turn.give_back(urgent, true);
                match result {
                    Turned::Answered(answer) => return Ok(Some(answer)),
                    Turned::Failed(e) => return Err(e),
                    Turned::Asked => std::thread::yield_now(),
                    Turned::TimeIsUp => {}
                }
                place = self.lock();
                continue;
            }
            if place.closed {
                return Err(Error::Cancelled);
            }
            self.waiting.fetch_add(1, SeqCst);
            self.news.ring();
            let nap = left().unwrap_or(Duration::from_secs(1));
            (place, _) = self.changed.wait_timeout(place, nap).unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, SeqCst);
        }
    }

    fn turn_until<R>(
        &self,
        driver: &mut Driver,
        left: &dyn Fn() -> Option<Duration>,
        ask: &dyn Fn(Option<&Driver>) -> Option<R>,
    ) -> Turned<R> {
        loop {
            if let Some(answer) = ask(Some(driver)) {
                return Turned::Answered(answer);
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Turned::TimeIsUp;
            }
            if self.asking.load(SeqCst) > 0 {
                return Turned::Asked;
            }
            let answered = driver.answered;
            if let Err(e) = driver.turn(left) {
                return Turned::Failed(e);
            }
            if driver.answered != answered && self.waiting.load(SeqCst) > 0 {
                let _place = self.lock(); // so that nobody is between looking and sleeping
                self.changed.notify_all();
            }
        }
    }

    /// The tender's thread.
    fn tend(&self) {
        let wanted = || self.asking.load(SeqCst) + self.waiting.load(SeqCst) > 0;
        let mut place = self.lock();
        loop {
            if place.closed {
                return;
            }
            let rested = place.urgent || place.last_turned.elapsed() >= PAUSE;
            if rested
                && !wanted()
                && let Some(driver) = place.driver.take()
            {
                place.urgent = false;
                drop(place);
                let mut turn = Turn { driver: Some(driver), tended: self };
                while !wanted() && turn.turn(None).is_ok() {}
                let urgent = turn.is_busy();
                turn.give_back(urgent, true);
                place = self.lock();
            }
            (place, _) = self.changed.wait_timeout(place, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all workers and the tender. Rounds still pending are cancelled.
    pub(crate) fn close(&self) {
        drop(self.take());
    }

    /// Drops what the loop has not taken in: processes end that way.
    pub(crate) fn drop_news(&self) {
        drop(self.news.take());
    }
}

/// The loop in the hands of one thread. It is given back, or, should this thread panic, closed: nobody may wait for a
/// loop that does not come back.
struct Turn<'a> {
    driver: Option<Box<Driver>>,
    tended: &'a Tended,
}

impl Turn<'_> {
    fn give_back(mut self, urgent: bool, turned: bool) {
        let tended = self.tended;
        let mut place = tended.lock();
        place.driver = self.driver.take();
        if turned {
            place.last_turned = Instant::now();
        }
        place.urgent |= urgent;
        drop(place);
        if urgent || tended.asking.load(SeqCst) > 0 || tended.waiting.load(SeqCst) > 0 {
            tended.changed.notify_all();
        }
    }
}

impl Deref for Turn<'_> {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("a turn has the loop until it is over")
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("a turn has the loop until it is over")
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.driver.is_some() {
            self.tended.lock().closed = true;
            self.tended.changed.notify_all();
        }
    }
}

/// Why a thread stopped turning.
enum Turned<R> {
    Answered(R),
    Asked,
    TimeIsUp,
    Failed(Error),
}
