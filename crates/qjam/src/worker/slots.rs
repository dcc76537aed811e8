//! Threads that run blocks, when a worker has more than one slot or lives inside the master.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many blocks the machine takes for running per thread: one that runs and one that waits behind it, so that no
/// thread idles while the end of its block goes to the machine and the next one comes back.
pub(crate) const BLOCKS_PER_THREAD: u32 = 2;

/// Something for a slot to do; it is told which slot it got.
pub(crate) type Work = Box<dyn FnOnce(u32) + Send>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    closed: bool,
}

/// So many threads, and what they are to do.
pub(crate) struct Slots {
    shared: Arc<(Mutex<Queue>, Condvar)>,
}

impl Slots {
    /// Starts the threads.
    pub(crate) fn start(slots: u32, name: &str) -> std::io::Result<Self> {
        let shared: Arc<(Mutex<Queue>, Condvar)> = Arc::default();
        let pool = Slots { shared: shared.clone() };
        for slot in 0..slots {
            let shared = shared.clone();
            // Not joined: a thread inside user code cannot be stopped, and one outside ends when the queue is closed.
            std::thread::Builder::new().name(format!("{name}/{slot}")).spawn(move || serve(&shared, slot))?;
        }
        Ok(pool)
    }

    /// Hands work to the next free thread.
    pub(crate) fn run(&self, work: Work) {
        lock(&self.shared.0).waiting.push_back(work);
        self.shared.1.notify_one();
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.0);
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        self.shared.1.notify_all();
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &(Mutex<Queue>, Condvar), slot: u32) {
    loop {
        let mut queue = lock(&shared.0);
        let work = loop {
            if let Some(work) = queue.waiting.pop_front() {
                break work;
            }
            if queue.closed {
                return;
            }
            queue = shared.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        work(slot);
    }
}
