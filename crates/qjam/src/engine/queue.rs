//! Events from other threads, on their way to the master's loop.
//!
//! Threads that start processes, reach hosts, run blocks or run whole rounds put an [`Event`] into the [`EventQueue`]; the
//! loop takes all of them when its eventfd becomes readable.

use super::local::BlockDone;
use super::order::Outcome;
use super::ssh::StartFailure;
use super::ssh::link::Link;
use crate::process::Spawned;
use qjam_core::ids::{RoundId, WorkerId};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Something that another thread has done.
pub(crate) enum Event {
    /// For the seat of this worker.
    Seat(WorkerId, SeatEvent),
    /// A crew has run a round on a thread of the master's.
    CrewDone(RoundId, Box<Outcome>),
}

/// Something for a seat. Each engine knows its own.
pub(crate) enum SeatEvent {
    Spawned(io::Result<Spawned>),
    Connected(Result<Box<Link>, Box<StartFailure>>),
    BlockDone(BlockDone),
}

/// Events that the loop has not taken yet, and the eventfd that says so.
pub(crate) struct EventQueue {
    events: Mutex<Vec<Event>>,
    bell: OwnedFd,
}

impl EventQueue {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventQueue { events: Mutex::default(), bell })
    }

    /// Adds an event and wakes the loop.
    pub(crate) fn put(&self, event: Event) {
        self.put_and(event, &|| true);
    }

    /// Adds an event, and wakes the loop if `is_urgent`, called afterwards, returns true. Otherwise the loop takes it when
    /// it wakes next.
    pub(crate) fn put_and(&self, event: Event, is_urgent: &dyn Fn() -> bool) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        if is_urgent() {
            self.ring();
        }
    }

    /// Wakes the loop.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes all events.
    pub(crate) fn take(&self) -> Vec<Event> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
