//! The loop, shared by the threads that want to turn it.
//!
//! At most one thread has the [`Driver`] at a time. A caller that waits for an answer takes it and turns it until the
//! answer is there; a second caller sleeps until the first is done or has brought the second's answer along. Who only asks
//! for something gets the loop between two turns. When no caller waits, a background thread has it; unless a round is under
//! way it takes the loop only after a pause, so that a program that runs round after round never meets it.
//!
//! A caller may also run a round itself, on its own thread ([`SharedLoop::inside`]). Then the background thread looks every
//! other millisecond whether it is still the same round. If so, and if that should be over by now, it takes the loop, which may
//! give workers what is left of it. Where there has been no such round for a while it does not look.

use super::driver::Driver;
use crate::engine::queue::EventQueue;
use crate::error::Error;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The background thread leaves the loop alone for so long after a caller turned it.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it looks whether a caller is in the same round as before, and how often without seeing a new one before it stops.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const LOOKS: u32 = 10;

struct Slot {
    /// The loop, unless a thread has it.
    driver: Option<Box<Driver>>,
    /// Whether the background thread should not pause: something is under way that no caller may be waiting for.
    urgent: bool,
    /// When it was last turned. Asking does not count: a caller that asks again and again must not keep the background
    /// thread away.
    last_turned: Instant,
    closed: bool,
}

/// The loop and the threads that want to turn it.
pub(crate) struct SharedLoop {
    slot: Mutex<Slot>,
    changed: Condvar,
    /// Threads that want something from the loop between two turns.
    asking: AtomicU32,
    /// Threads that sleep until somebody else's turns bring their answer.
    waiting: AtomicU32,
    /// Threads that run a round themselves, and how many have begun one so far.
    inside: AtomicU32,
    begun: AtomicU64,
    /// How long the last of these rounds may take before somebody looks after it, in microseconds.
    patience_us: AtomicU64,
    /// Whether the background thread does not look for such rounds.
    dozes: AtomicBool,
    queue: Arc<EventQueue>,
}

/// A caller's thread that runs a round itself, as long as it does.
pub(crate) struct Inside<'a>(&'a SharedLoop);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

impl SharedLoop {
    pub(crate) fn start(driver: Driver, queue: Arc<EventQueue>) -> io::Result<Arc<Self>> {
        let slot = Slot {
            driver: Some(Box::new(driver)),
            urgent: false,
            last_turned: Instant::now(),
            closed: false,
        };
        let shared = Arc::new(SharedLoop {
            slot: Mutex::new(slot),
            changed: Condvar::new(),
            asking: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            begun: AtomicU64::new(0),
            patience_us: AtomicU64::new(0),
            dozes: AtomicBool::new(true),
            queue,
        });
        let background = shared.clone();
        std::thread::Builder::new().name("qjam-loop".into()).spawn(move || background.run())?;
        Ok(shared)
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the loop, asking whoever has it; `None` when it is closed.
    fn take(&self) -> Option<Turn<'_>> {
        let mut slot = self.lock();
        if let Some(driver) = slot.driver.take() {
            return Some(Turn { driver: Some(driver), shared: self });
        }
        self.asking.fetch_add(1, SeqCst);
        self.queue.ring();
        let taken = loop {
            if let Some(driver) = slot.driver.take() {
                break Some(driver);
            }
            if slot.closed {
                break None;
            }
            slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
        };
        self.asking.fetch_sub(1, SeqCst);
        taken.map(|driver| Turn { driver: Some(driver), shared: self })
    }

    /// Does something with the loop between two turns; `None` when it is closed. With `urgent` the
    /// background thread goes on with what was begun.
    pub(crate) fn with<R>(&self, urgent: bool, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        let mut turn = self.take()?;
        let result = f(&mut turn);
        turn.give_back(urgent, false);
        Some(result)
    }

    /// The calling thread runs a round itself. If that takes longer than this, the background thread turns the loop meanwhile.
    pub(crate) fn inside(&self, patience: Duration) -> Inside<'_> {
        self.patience_us.store(patience.as_micros().try_into().unwrap_or(u64::MAX), SeqCst);
        self.inside.fetch_add(1, SeqCst);
        self.begun.fetch_add(1, SeqCst);
        if self.dozes.swap(false, SeqCst) {
            let _slot = self.lock(); // so that it is not between looking and sleeping
            self.changed.notify_all();
        }
        Inside(self)
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
        let mut slot = self.lock();
        loop {
            if let Some(answer) = ask(None) {
                return Ok(Some(answer));
            }
            if left() == Some(Duration::ZERO) {
                return Ok(None);
            }
            if let Some(driver) = slot.driver.take() {
                slot.urgent = false;
                drop(slot);
                let mut turn = Turn { driver: Some(driver), shared: self };
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
                slot = self.lock();
                continue;
            }
            if slot.closed {
                return Err(Error::Cancelled);
            }
            self.waiting.fetch_add(1, SeqCst);
            self.queue.ring();
            let nap = left().unwrap_or(Duration::from_secs(1));
            (slot, _) = self.changed.wait_timeout(slot, nap).unwrap_or_else(PoisonError::into_inner);
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
            let answered = driver.answered();
            if let Err(e) = driver.turn(left) {
                return Turned::Failed(e);
            }
            if driver.answered() != answered && self.waiting.load(SeqCst) > 0 {
                let _place = self.lock(); // so that nobody is between looking and sleeping
                self.changed.notify_all();
            }
        }
    }

    /// The background thread.
    fn run(&self) {
        let wanted = || self.asking.load(SeqCst) + self.waiting.load(SeqCst) > 0;
        let (mut begun, mut looks, mut since, mut tended) = (0, 0, Instant::now(), Instant::now());
        let mut slot = self.lock();
        loop {
            if slot.closed {
                return;
            }
            let now = self.begun.load(SeqCst);
            looks += 1;
            if now != begun {
                (begun, looks, since) = (now, 0, Instant::now());
            }
            let is_inside = self.inside.load(SeqCst) > 0;
            let patience = Duration::from_micros(self.patience_us.load(SeqCst));
            // A round that has just begun is left alone.
            let is_long = looks > 0 && is_inside && since.elapsed() >= patience;
            let rested = slot.last_turned.elapsed() >= PAUSE && tended.elapsed() >= PAUSE;
            if (slot.urgent || is_long || rested)
                && !wanted()
                && let Some(driver) = slot.driver.take()
            {
                slot.urgent = false;
                drop(slot);
                let mut turn = Turn { driver: Some(driver), shared: self };
                while !wanted() && turn.turn(None).is_ok() {}
                let urgent = turn.is_busy();
                turn.give_back(urgent, true);
                tended = Instant::now();
                slot = self.lock();
            }
            let is_quiet = looks > LOOKS && !is_inside;
            if is_quiet && !self.dozes.swap(true, SeqCst) && self.begun.load(SeqCst) != begun {
                self.dozes.store(false, SeqCst);
                continue;
            }
            let nap = if is_quiet { PAUSE } else { LOOK_EVERY };
            (slot, _) = self.changed.wait_timeout(slot, nap).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all workers and the background thread. Rounds still pending are cancelled.
    pub(crate) fn close(&self) {
        drop(self.take());
    }

    /// Drops what the loop has not taken in: processes end that way.
    pub(crate) fn drop_events(&self) {
        drop(self.queue.take());
    }
}

/// The loop in the hands of one thread. It is given back, or, should this thread panic, closed: nobody may wait for a
/// loop that does not come back.
struct Turn<'a> {
    driver: Option<Box<Driver>>,
    shared: &'a SharedLoop,
}

impl Turn<'_> {
    fn give_back(mut self, urgent: bool, turned: bool) {
        let shared = self.shared;
        let mut slot = shared.lock();
        slot.driver = self.driver.take();
        if turned {
            slot.last_turned = Instant::now();
        }
        slot.urgent |= urgent;
        drop(slot);
        if urgent || shared.asking.load(SeqCst) > 0 || shared.waiting.load(SeqCst) > 0 {
            shared.changed.notify_all();
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
            self.shared.lock().closed = true;
            self.shared.changed.notify_all();
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
