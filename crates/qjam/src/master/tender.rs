//! Who turns the loop.
//!
//! At most one thread has the [`Driver`] at a time. Whoever waits for an answer takes it and turns it until the answer
//! is there; who comes second sleeps until the first is done or has brought the second's answer along. Who only asks
//! for something gets it between two turns. When nobody waits, the tender's thread has it; it takes it only after a
//! pause, so that a program that runs round after round never meets it.

use super::driver::{Driver, NewsBox};
use crate::error::Error;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The tender leaves the loop alone for so long after somebody turned it.
const PAUSE: Duration = Duration::from_millis(20);

struct Place {
    /// The loop, unless somebody turns it.
    driver: Option<Box<Driver>>,
    /// Whether the tender should not wait: something was begun that nobody waits for.
    urgent: bool,
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
    fn take(&self) -> Option<Box<Driver>> {
        let mut place = self.lock();
        if let Some(driver) = place.driver.take() {
            return Some(driver);
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
        taken
    }

    fn give(&self, driver: Box<Driver>, urgent: bool) {
        let mut place = self.lock();
        place.driver = Some(driver);
        place.last_turned = Instant::now();
        place.urgent |= urgent;
        drop(place);
        if urgent || self.asking.load(SeqCst) > 0 || self.waiting.load(SeqCst) > 0 {
            self.changed.notify_all();
        }
    }

    /// Does something with the loop between two turns; `None` when it is closed. With `urgent` the tender goes on with
    /// what was begun.
    pub(crate) fn with<R>(&self, urgent: bool, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        let mut driver = self.take()?;
        let result = f(&mut driver);
        self.give(driver, urgent);
        Some(result)
    }

    /// Turns the loop, or sleeps while somebody else does, until `ask` has an answer; `None` when time is up before.
    /// `ask` gets the loop whenever this thread has it.
    pub(crate) fn drive<R>(
        &self,
        limit: Option<Duration>,
        ask: impl Fn(Option<&Driver>) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        let end = limit.map(|limit| Instant::now() + limit);
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
                drop(place);
                let (driver, result) = self.turn_until(driver, &left, &ask);
                // Rounds of others may be under way, and nobody may be waiting for them.
                let urgent = driver.is_busy();
                self.give(driver, urgent);
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
        mut driver: Box<Driver>,
        left: &dyn Fn() -> Option<Duration>,
        ask: &dyn Fn(Option<&Driver>) -> Option<R>,
    ) -> (Box<Driver>, Turned<R>) {
        loop {
            if let Some(answer) = ask(Some(&driver)) {
                return (driver, Turned::Answered(answer));
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return (driver, Turned::TimeIsUp);
            }
            if self.asking.load(SeqCst) > 0 {
                return (driver, Turned::Asked);
            }
            let answered = driver.answered;
            if let Err(e) = driver.turn(left) {
                return (driver, Turned::Failed(e));
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
                && let Some(mut driver) = place.driver.take()
            {
                place.urgent = false;
                drop(place);
                while !wanted() && driver.turn(None).is_ok() {}
                self.give(driver, false);
                place = self.lock();
            }
            (place, _) = self.changed.wait_timeout(place, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all workers and the tender. Rounds still pending are cancelled.
    pub(crate) fn close(&self) {
        let driver = self.take();
        self.lock().closed = true;
        self.changed.notify_all();
        drop(driver);
    }
}

/// Why a thread stopped turning.
enum Turned<R> {
    Answered(R),
    Asked,
    TimeIsUp,
    Failed(Error),
}
