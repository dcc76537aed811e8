//! Threads that run blocks, when a worker has more than one slot or lives inside the master.

use crate::function::language;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How many blocks the machine takes for running per thread: one that runs and one that waits behind it, so that no
/// thread idles while the end of its block goes to the machine and the next one comes back. No more: nobody else can have
/// them.
pub(crate) const BLOCKS_PER_THREAD: u32 = 2;

/// The end of a block that took this long is told at once: that costs little beside it.
const LONG: Duration = Duration::from_millis(1);

/// How long the end of the threads waits for the end of their interpreters.
const INTERPRETERS_MAX: Duration = Duration::from_secs(5);

/// Something for a slot to do; it is told which slot it got.
pub(crate) type Work = Box<dyn FnOnce(u32) + Send>;

struct Queue {
    waiting: VecDeque<Work>,
    /// What only one slot can do, by slot.
    bound: Vec<VecDeque<Work>>,
    /// Threads that are at work, and how many may be.
    busy: u32,
    busy_max: u32,
    closed: bool,
}

impl Queue {
    fn length(&self) -> usize {
        self.waiting.len() + self.bound.iter().map(VecDeque::len).sum::<usize>()
    }

    /// What only this slot can do comes first.
    fn next_for(&mut self, slot: u32) -> Option<Work> {
        self.bound[slot as usize].pop_front().or_else(|| self.waiting.pop_front())
    }

    /// Whether other slots have something that only they can do.
    fn has_other_bound(&self, slot: u32) -> bool {
        self.bound.iter().enumerate().any(|(n, works)| n != slot as usize && !works.is_empty())
    }
}

/// What the threads share.
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
    threads: Vec<ThreadId>,
}

/// Says whether the end of a block can wait to be told.
pub(crate) struct Urgency {
    shared: Arc<Shared>,
    few: usize,
    start: Instant,
}

impl Urgency {
    /// Whether to tell at once. To be asked after the word was left where it is looked for: then, if not, there is more
    /// to run, and whoever is told of the end of that finds both.
    pub(crate) fn is_pressing(&self) -> bool {
        self.shared.waiting.load(Relaxed) < self.few || self.start.elapsed() >= LONG
    }
}

impl Slots {
    /// Starts the threads.
    pub(crate) fn start(slots: u32, name: &str) -> std::io::Result<Self> {
        let bound = (0..slots).map(|_| VecDeque::new()).collect();
        let queue = Queue { waiting: VecDeque::new(), bound, busy: 0, busy_max: slots, closed: false };
        let shared = Shared { queue: Mutex::new(queue), bell: Condvar::new(), waiting: AtomicUsize::new(0) };
        let shared = Arc::new(shared);
        let mut pool = Slots { shared: shared.clone(), slots: slots as usize, threads: Vec::new() };
        language::add_thread_slots(pool.slots as isize);
        for slot in 0..slots {
            let shared = shared.clone();
            // Not joined: a thread inside user code cannot be stopped, and one outside ends when the queue is closed.
            let thread = std::thread::Builder::new().name(format!("{name}/{slot}"));
            pool.threads.push(thread.spawn(move || serve(&shared, slot))?.thread().id());
        }
        Ok(pool)
    }

    /// Hands work to a slot, or to the next free one.
    pub(crate) fn run_on(&self, slot: Option<u32>, work: Work) {
        let mut queue = lock(&self.shared.queue);
        let is_bound = slot.is_some();
        match slot {
            Some(slot) => queue.bound[slot as usize].push_back(work),
            None => queue.waiting.push_back(work),
        }
        self.shared.waiting.store(queue.length(), Relaxed);
        // Otherwise one that is busy takes it next.
        let is_free = queue.busy < queue.busy_max;
        drop(queue);
        if is_free && is_bound {
            self.shared.bell.notify_all();
        } else if is_free {
            self.shared.bell.notify_one();
        }
    }

    /// So many threads may be at work from now on; those that are finish first.
    pub(crate) fn limit(&self, busy_max: u32) {
        let mut queue = lock(&self.shared.queue);
        let more = busy_max > queue.busy_max;
        queue.busy_max = busy_max.max(1);
        if more && queue.length() > 0 {
            self.shared.bell.notify_all();
        }
    }

    /// To be asked by work that begins now, when it is done. Fewer than so many that wait for each thread are few: more
    /// should be on their way.
    pub(crate) fn urgency(&self, few: usize) -> impl Fn() -> Urgency + Send + 'static {
        let (shared, few) = (self.shared.clone(), few * self.slots);
        move || Urgency { shared: shared.clone(), few, start: Instant::now() }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        language::add_thread_slots(-(self.slots as isize));
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        queue.waiting.clear();
        queue.bound.iter_mut().for_each(VecDeque::clear);
        drop(queue);
        self.shared.bell.notify_all();
        // A program that ends now would take these threads along before they have ended what their interpreters started.
        let begun = Instant::now();
        while self.threads.iter().any(|thread| language::has_interpreter(*thread))
            && begun.elapsed() < INTERPRETERS_MAX
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Shared, slot: u32) {
    let mut queue = lock(&shared.queue);
    loop {
        let free = if queue.busy < queue.busy_max { queue.next_for(slot) } else { None };
        if let Some(work) = free {
            queue.busy += 1;
            shared.waiting.store(queue.length(), Relaxed);
            drop(queue);
            work(slot);
            queue = lock(&shared.queue);
            queue.busy -= 1;
            if queue.has_other_bound(slot) {
                // There may be room for another thread only now.
                shared.bell.notify_all();
            }
        } else if queue.closed {
            return;
        } else {
            queue = shared.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::{Barrier, mpsc};

    /// Whoever waits longer waits for ever.
    const HANG: Duration = Duration::from_secs(180);

    /// The most threads that were at work at once.
    fn most_at_once(slots: &Slots, works: u32) -> u32 {
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let (done, all) = mpsc::channel();
        for _ in 0..works {
            let (counts, done) = (counts.clone(), done.clone());
            slots.run_on(
                None,
                Box::new(move |_| {
                    let now = counts.0.fetch_add(1, SeqCst) + 1;
                    counts.1.fetch_max(now, SeqCst);
                    // Long enough that others begin, if they may.
                    std::thread::sleep(Duration::from_millis(5));
                    counts.0.fetch_sub(1, SeqCst);
                    done.send(()).unwrap();
                }),
            );
        }
        (0..works).for_each(|_| all.recv_timeout(HANG).unwrap());
        counts.1.load(SeqCst)
    }

    #[test]
    fn no_more_threads_work_than_may() {
        let slots = Slots::start(4, "test").unwrap();
        for limit in [1, 2, 1, 3] {
            slots.limit(limit);
            assert!(most_at_once(&slots, 12) <= limit, "limit {limit}");
        }
        // All that may are at work at once: none of these ends before the last has begun.
        slots.limit(4);
        let (done, all) = mpsc::channel();
        let barrier = Arc::new(Barrier::new(4));
        for _ in 0..4 {
            let (barrier, done) = (barrier.clone(), done.clone());
            slots.run_on(
                None,
                Box::new(move |_| {
                    barrier.wait();
                    done.send(()).unwrap();
                }),
            );
        }
        (0..4).for_each(|_| all.recv_timeout(HANG).unwrap());
    }

    #[test]
    fn bound_work_runs_on_its_slot_also_when_few_threads_may_work() {
        let slots = Slots::start(3, "test").unwrap();
        for limit in [3, 1] {
            slots.limit(limit);
            let (done, all) = mpsc::channel();
            for n in 0..30 {
                let done = done.clone();
                slots.run_on(Some(n % 3), Box::new(move |slot| done.send((n % 3, slot)).unwrap()));
            }
            for _ in 0..30 {
                let (wanted, got) = all.recv_timeout(HANG).unwrap();
                assert_eq!(wanted, got);
            }
        }
    }
}
