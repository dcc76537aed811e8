//! Threads that run blocks, when a worker has more than one slot or lives inside the master.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many blocks the machine takes for running per thread: one that runs and some that wait behind it, so that no
/// thread idles while the end of its block goes to the machine and the next one comes back, and the machine need not be
/// woken for every short block.
pub(crate) const BLOCKS_PER_THREAD: u32 = 4;

/// The end of a block that took this long is told at once: that costs little beside it.
const LONG: Duration = Duration::from_millis(1);

/// Something for a slot to do; it is told which slot it got.
pub(crate) type Work = Box<dyn FnOnce(u32) + Send>;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    closed: bool,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    /// Length of the queue.
    waiting: AtomicUsize,
}

/// So many threads, and what they are to do.
pub(crate) struct Slots {
    shared: Arc<Shared>,
    slots: usize,
}

/// Says whether the end of a block can wait to be told.
pub(crate) struct Urgency {
    shared: Arc<Shared>,
    slots: usize,
    start: Instant,
}

impl Urgency {
    /// Whether to tell at once. To be asked after the word was left where it is looked for: then, if not, there is more
    /// to run, and whoever is told of the end of that finds both.
    pub(crate) fn is_pressing(&self) -> bool {
        self.shared.waiting.load(Relaxed) < self.slots || self.start.elapsed() >= LONG
    }
}

impl Slots {
    /// Starts the threads.
    pub(crate) fn start(slots: u32, name: &str) -> std::io::Result<Self> {
        let shared: Arc<Shared> = Arc::default();
        let pool = Slots { shared: shared.clone(), slots: slots as usize };
        for slot in 0..slots {
            let shared = shared.clone();
            // Not joined: a thread inside user code cannot be stopped, and one outside ends when the queue is closed.
            std::thread::Builder::new().name(format!("{name}/{slot}")).spawn(move || serve(&shared, slot))?;
        }
        Ok(pool)
    }

    /// Hands work to the next free thread.
    pub(crate) fn run(&self, work: Work) {
        let mut queue = lock(&self.shared.queue);
        queue.waiting.push_back(work);
        self.shared.waiting.store(queue.waiting.len(), Relaxed);
        drop(queue);
        self.shared.bell.notify_one();
    }

    /// To be asked by work that begins now, when it is done.
    pub(crate) fn urgency(&self) -> impl Fn() -> Urgency + Send + 'static {
        let (shared, slots) = (self.shared.clone(), self.slots);
        move || Urgency { shared: shared.clone(), slots, start: Instant::now() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        queue.waiting.clear();
        drop(queue);
        self.shared.bell.notify_all();
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Shared, slot: u32) {
    loop {
        let mut queue = lock(&shared.queue);
        let work = loop {
            if let Some(work) = queue.waiting.pop_front() {
                shared.waiting.store(queue.waiting.len(), Relaxed);
                break work;
            }
            if queue.closed {
                return;
            }
            queue = shared.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        work(slot);
    }
}
