//! The descriptors that the master's loop waits on.
//!
//! Two epoll sets: connections, which wake the loop; and output pipes of workers, which count as one descriptor of the
//! first set, so that whoever ends a round can ask once whether there is any output. Descriptors of a seat are registered
//! under the seat's worker and a number of its choice.

use super::queue::EventQueue;
use qjam_core::ids::{SeatId, WorkerId};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::time::Duration;

/// The token of the event queue.
const QUEUE: u64 = u64::MAX;
/// The token of all pipes together.
const PIPES: u64 = u64::MAX - 1;
/// Events that one call takes at most.
const EVENTS_MAX: usize = 64;

/// Numbers for descriptors of one seat.
pub(crate) const DESCRIPTORS_MAX: u64 = 4;

/// The two sets.
pub(crate) struct Poller {
    connections: OwnedFd,
    pipes: OwnedFd,
}

/// What woke the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// Other threads have put events into the queue.
    Queue,
    /// Output pipes have something.
    Pipes,
    /// A seat's connection.
    Seat { worker: WorkerId, descriptor: u64, flags: EventFlags },
}

impl Poller {
    pub(crate) fn new(queue: &EventQueue) -> rustix::io::Result<Poller> {
        let connections = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let pipes = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&connections, queue, EventData::new_u64(QUEUE), EventFlags::IN)?;
        epoll::add(&connections, &pipes, EventData::new_u64(PIPES), EventFlags::IN)?;
        Ok(Poller { connections, pipes })
    }

    /// Waits at most so long for connections and the queue, and puts what woke it into a list.
    pub(crate) fn wait(&self, at_most: Option<Duration>, ready: &mut Vec<Ready>) -> rustix::io::Result<()> {
        let timeout =
            at_most.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) });
        let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
        let (events, _) = epoll::wait(&self.connections, &mut events, timeout.as_ref())?;
        ready.extend(events.iter().map(|event| match event.data.u64() {
            QUEUE => Ready::Queue,
            PIPES => Ready::Pipes,
            token => {
                let (worker, descriptor) = from_token(token);
                Ready::Seat { worker, descriptor, flags: event.flags }
            }
        }));
        Ok(())
    }

    /// Pipes that have something now: the worker, and the number of the pipe.
    pub(crate) fn ready_pipes(&self) -> Vec<(WorkerId, u64)> {
        let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.pipes, &mut events, Some(&now)) else { return Vec::new() };
        events.iter().map(|event| from_token(event.data.u64())).collect()
    }

    /// Adds a connection.
    pub(crate) fn add(&self, fd: impl AsFd, worker: WorkerId, descriptor: u64) -> Result<(), Errno> {
        epoll::add(&self.connections, fd, token(worker, descriptor), EventFlags::IN)
    }

    /// Whether a connection is also watched for room to write.
    pub(crate) fn watch_for_room(&self, fd: impl AsFd, worker: WorkerId, descriptor: u64, on: bool) {
        let flags = if on { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let _ = epoll::modify(&self.connections, fd, token(worker, descriptor), flags);
    }

    /// Adds an output pipe.
    pub(crate) fn add_pipe(&self, fd: impl AsFd, worker: WorkerId, descriptor: u64) -> Result<(), Errno> {
        epoll::add(&self.pipes, fd, token(worker, descriptor), EventFlags::IN)
    }

    /// Forgets a connection.
    pub(crate) fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.connections, fd);
    }

    /// Forgets an output pipe.
    pub(crate) fn remove_pipe(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.pipes, fd);
    }
}

/// Whether flags say that something can be read, or that the other side is gone.
pub(crate) fn is_readable(flags: EventFlags) -> bool {
    flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
}

/// Seat, incarnation and descriptor in one number.
fn token(worker: WorkerId, descriptor: u64) -> EventData {
    debug_assert!(descriptor < DESCRIPTORS_MAX);
    EventData::new_u64(u64::from(worker.incarnation) << 32 | u64::from(worker.seat.0) << 2 | descriptor)
}

fn from_token(token: u64) -> (WorkerId, u64) {
    let seat = SeatId((token as u32) >> 2);
    (WorkerId { seat, incarnation: (token >> 32) as u32 }, token & 3)
}
