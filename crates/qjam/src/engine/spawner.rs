//! The thread that starts child processes.
//!
//! The kernel ends a child when the thread that started it ends, and the user's threads come and go. So one thread, which
//! lives as long as the master, starts all of them and puts them into the event queue.

use super::queue::{Event, EventQueue, SeatEvent};
use crate::process;
use qjam_core::ids::WorkerId;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A process that is wanted: for which worker, and with how many slots.
pub(crate) type SpawnRequest = (WorkerId, u32);

/// Asks the thread for processes.
pub(crate) struct Spawner {
    requests: Sender<SpawnRequest>,
}

/// The thread. It ends when its [`Spawner`] is gone.
pub(crate) struct SpawnerThread {
    /// Closed when the thread is over.
    over: Mutex<Receiver<Infallible>>,
}

impl Spawner {
    /// Starts the thread. Children are this same executable, or another one.
    pub(crate) fn start(
        queue: Arc<EventQueue>,
        executable: Option<PathBuf>,
        is_limited: bool,
    ) -> io::Result<(Spawner, SpawnerThread)> {
        let (spawner, requests) = Spawner::without_thread();
        let (until_over, over) = mpsc::channel();
        std::thread::Builder::new().name("qjam-spawner".into()).spawn(move || {
            for (worker, slots) in requests {
                let spawned = process::spawn(executable.as_deref(), slots, is_limited);
                queue.put(Event::Seat(worker, SeatEvent::Spawned(spawned)));
            }
            drop(until_over);
        })?;
        Ok((spawner, SpawnerThread { over: Mutex::new(over) }))
    }

    /// A spawner whose requests somebody else answers.
    pub(crate) fn without_thread() -> (Spawner, Receiver<SpawnRequest>) {
        let (requests, taken) = mpsc::channel();
        (Spawner { requests }, taken)
    }

    /// Asks for a process; says whether there is a thread to start it.
    pub(crate) fn request(&self, worker: WorkerId, slots: u32) -> bool {
        self.requests.send((worker, slots)).is_ok()
    }
}

impl SpawnerThread {
    /// Waits for the end of the thread, at most so long.
    pub(crate) fn wait(&self, at_most: Duration) {
        let _ = self.over.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(at_most);
    }
}
