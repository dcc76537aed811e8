//! Hears of changes to folders, where the system tells of them.
//!
//! Changes by other machines are not told, and not every file system tells. So whoever waits for news waits for some time only. The
//! system has few of the descriptors that tell (128 for a user), so a process has one, and a thread that listens for all.

use rustix::fs::inotify;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Hears of new names in some folders.
pub(super) struct News {
    /// `None` where the system tells nothing.
    listener: Option<Arc<Listener>>,
    /// The folders, and how many changes of each are known.
    known: Mutex<BTreeMap<i32, u64>>,
}

/// What a process hears of all folders.
struct Listener {
    told: OwnedFd,
    /// How many changes there were in each folder.
    changes: Mutex<BTreeMap<i32, u64>>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    /// That of this process.
    fn get() -> Option<Arc<Listener>> {
        static LISTENER: OnceLock<Option<Arc<Listener>>> = OnceLock::new();
        LISTENER.get_or_init(Listener::start).clone()
    }

    fn start() -> Option<Arc<Listener>> {
        let told = inotify::init(inotify::CreateFlags::CLOEXEC).ok()?;
        let listener = Arc::new(Listener { told, changes: Mutex::default(), changed: Condvar::new() });
        let listens = listener.clone();
        std::thread::Builder::new().name("qjam-news".into()).spawn(move || listens.listen()).ok()?;
        Some(listener)
    }

    fn listen(&self) {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.told, &mut room);
        loop {
            match reader.next() {
                Ok(event) => {
                    *lock(&self.changes).entry(event.wd()).or_default() += 1;
                    self.changed.notify_all();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

impl News {
    /// Of these folders.
    pub(super) fn of(folders: &[&Path]) -> News {
        let news = News { listener: Listener::get(), known: Mutex::default() };
        folders.iter().for_each(|folder| news.add(folder));
        news
    }

    /// Of another one, too.
    pub(super) fn add(&self, folder: &Path) {
        let what = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CREATE;
        if let Some(listener) = &self.listener
            && let Ok(watch) = inotify::add_watch(&listener.told, folder, what)
        {
            let changes = lock(&listener.changes).get(&watch).copied().unwrap_or(0);
            lock(&self.known).insert(watch, changes);
        }
    }

    /// Waits until there is something new, and no longer than this.
    pub(super) fn wait(&self, time: Duration) {
        let mut known = lock(&self.known);
        let Some(listener) = self.listener.as_ref().filter(|_| !known.is_empty()) else {
            return std::thread::sleep(time);
        };
        let until = Instant::now() + time;
        let mut changes = lock(&listener.changes);
        loop {
            let mut is_new = false;
            for (watch, known) in known.iter_mut() {
                let now = changes.get(watch).copied().unwrap_or(0);
                is_new |= now != *known;
                *known = now;
            }
            let left = until.saturating_duration_since(Instant::now());
            if is_new || left.is_zero() {
                return;
            }
            let (guard, _) =
                listener.changed.wait_timeout(changes, left).unwrap_or_else(PoisonError::into_inner);
            changes = guard;
        }
    }
}
