//! Threads that run blocks, when a worker has more than one slot or lives inside the master.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many blocks the machine takes for running per thread: one that runs and one that waits behind it, so that no
/// thread idles while the end of its block goes to the machine and the next one comes back.
pub(crate) const BLOCKS_PER_THREAD: u32 = 2;

/// Something for a slot to do; it is told which slot it got.
pub(crate) type Work = Box<dyn FnOnce(u32) + Send>;

struct Queue {
    waiting: VecDeque<Work>,
    /// Threads that are at work, and how many may be.
    busy: u32,
    busy_max: u32,
    closed: bool,
}

/// So many threads, and what they are to do.
pub(crate) struct Slots {
    shared: Arc<(Mutex<Queue>, Condvar)>,
}

impl Slots {
    /// Starts the threads.
    pub(crate) fn start(slots: u32, name: &str) -> std::io::Result<Self> {
        let queue = Queue { waiting: VecDeque::new(), busy: 0, busy_max: slots, closed: false };
        let shared = Arc::new((Mutex::new(queue), Condvar::new()));
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
        let mut queue = lock(&self.shared.0);
        queue.waiting.push_back(work);
        // Otherwise one that is busy takes it next.
        if queue.busy < queue.busy_max {
            self.shared.1.notify_one();
        }
    }

    /// So many threads may be at work from now on; those that are finish first.
    pub(crate) fn limit(&self, busy_max: u32) {
        let mut queue = lock(&self.shared.0);
        let more = busy_max > queue.busy_max;
        queue.busy_max = busy_max.max(1);
        if more && !queue.waiting.is_empty() {
            self.shared.1.notify_all();
        }
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
    let mut queue = lock(&shared.0);
    loop {
        let free = if queue.busy < queue.busy_max { queue.waiting.pop_front() } else { None };
        if let Some(work) = free {
            queue.busy += 1;
            drop(queue);
            work(slot);
            queue = lock(&shared.0);
            queue.busy -= 1;
        } else if queue.closed {
            return;
        } else {
            queue = shared.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::time::Duration;

    /// The most threads that were at work at once.
    fn most_at_once(slots: &Slots, works: u32) -> u32 {
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let (done, all) = mpsc::channel();
        for _ in 0..works {
            let (counts, done) = (counts.clone(), done.clone());
            slots.run(Box::new(move |_| {
                let now = counts.0.fetch_add(1, SeqCst) + 1;
                counts.1.fetch_max(now, SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                counts.0.fetch_sub(1, SeqCst);
                done.send(()).unwrap();
            }));
        }
        (0..works).for_each(|_| all.recv_timeout(Duration::from_secs(20)).unwrap());
        counts.1.load(SeqCst)
    }

    #[test]
    fn no_more_threads_work_than_may() {
        let slots = Slots::start(4, "test").unwrap();
        for limit in [1, 2, 1, 3] {
            slots.limit(limit);
            assert!(most_at_once(&slots, 12) <= limit, "limit {limit}");
        }
        slots.limit(4);
        assert!(most_at_once(&slots, 40) > 1);
    }
}
