//! Hears of changes to folders, where the system tells of them.
//!
//! Changes by other machines are not told, and not every file system tells. So whoever waits for news waits for some time only. The
//! system has few of the descriptors that tell (128 for a user), so a process has one, and a thread that listens for all of its
//! participants. A new blob is news for all who wait for it; a new message is for one of those who wait, with its name, since only
//! one can take it. Were all woken, P messages for P workers would cost P² looks into the queue.
//!
//! What must hold: news that nobody is waiting for wake the next one who comes to wait.

use rustix::fs::inotify::{self, ReadFlags};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// For whom a new name in a folder is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// For everyone.
    All,
    /// For one of those who wait.
    One,
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing, for the whole time.
    Nothing,
    /// Something is new.
    Something,
    /// This name is new in a folder with an audience of one, and nobody else in this process is told.
    Name(String),
}

/// Hears of new names in some folders.
pub(super) struct News {
    /// `None` where the system tells nothing.
    listener: Option<Arc<Listener>>,
    /// Its number in this process.
    number: u64,
}

/// What a process hears of all folders.
struct Listener {
    told: OwnedFd,
    members: Mutex<BTreeMap<u64, Member>>,
}

/// What the listener knows of one [`News`].
#[derive(Default)]
struct Member {
    /// The folders it hears of.
    folders: BTreeMap<i32, Audience>,
    is_waiting: bool,
    /// What it has not been told yet.
    heard: Option<Heard>,
    called: Arc<Condvar>,
}

impl Member {
    fn tell(&mut self, heard: Heard) {
        // Two things are something.
        self.heard = Some(if self.heard.is_none() { heard } else { Heard::Something });
        self.called.notify_all();
    }
}

impl Listener {
    /// That of this process.
    fn get() -> Option<Arc<Listener>> {
        static LISTENER: OnceLock<Option<Arc<Listener>>> = OnceLock::new();
        LISTENER.get_or_init(Listener::start).clone()
    }

    fn start() -> Option<Arc<Listener>> {
        let told = inotify::init(inotify::CreateFlags::CLOEXEC).ok()?;
        let listener = Arc::new(Listener { told, members: Mutex::default() });
        let listens = listener.clone();
        std::thread::Builder::new().name("qjam-news".into()).spawn(move || listens.listen()).ok()?;
        Some(listener)
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<u64, Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self) {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.told, &mut room);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    self.members().values_mut().for_each(|member| member.tell(Heard::Something));
                }
                Ok(event) => {
                    let name = event.file_name().and_then(|name| name.to_str().ok()).map(str::to_owned);
                    spread(&mut self.members(), event.wd(), name);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Tells those whom it concerns of a new name in a folder.
fn spread(members: &mut BTreeMap<u64, Member>, folder: i32, name: Option<String>) {
    let mut of_one: Vec<&mut Member> = Vec::new();
    for member in members.values_mut() {
        match member.folders.get(&folder) {
            Some(Audience::All) => member.tell(Heard::Something),
            Some(Audience::One) => of_one.push(member),
            None => {}
        }
    }
    let waits = of_one.iter_mut().find(|member| member.is_waiting && member.heard.is_none());
    match (waits, name) {
        (Some(member), Some(name)) => member.tell(Heard::Name(name)),
        _ => of_one.into_iter().for_each(|member| member.tell(Heard::Something)),
    }
}

impl News {
    /// Of no folder yet.
    pub(super) fn new() -> News {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let (listener, number) = (Listener::get(), NUMBERS.fetch_add(1, Relaxed));
        if let Some(listener) = &listener {
            listener.members().insert(number, Member::default());
        }
        News { listener, number }
    }

    /// Of this folder, too.
    pub(super) fn add(&self, folder: &Path, audience: Audience) {
        let what = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CREATE;
        if let Some(listener) = &self.listener
            && let Ok(watch) = inotify::add_watch(&listener.told, folder, what)
            && let Some(member) = listener.members().get_mut(&self.number)
        {
            member.folders.insert(watch, audience);
        }
    }

    /// Waits until there is something new, and no longer than this.
    pub(super) fn wait(&self, time: Duration) -> Heard {
        let until = Instant::now() + time;
        let is_deaf = |member: &Member| member.folders.is_empty();
        let Some(listener) =
            self.listener.as_ref().filter(|l| l.members().get(&self.number).is_some_and(|m| !is_deaf(m)))
        else {
            std::thread::sleep(time);
            return Heard::Nothing;
        };
        let mut members = listener.members();
        loop {
            let Some(member) = members.get_mut(&self.number) else { return Heard::Nothing };
            let left = until.saturating_duration_since(Instant::now());
            member.is_waiting = member.heard.is_none() && !left.is_zero();
            if !member.is_waiting {
                return member.heard.take().unwrap_or(Heard::Nothing);
            }
            let called = member.called.clone();
            (members, _) = called.wait_timeout(members, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for News {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.members().remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: i32 = 1;
    const BLOBS: i32 = 2;

    fn members(waiting: &[bool]) -> BTreeMap<u64, Member> {
        let folders = BTreeMap::from([(QUEUE, Audience::One), (BLOBS, Audience::All)]);
        let member = |is_waiting| Member { folders: folders.clone(), is_waiting, ..Member::default() };
        waiting.iter().map(|is_waiting| member(*is_waiting)).zip(0..).map(|(m, n)| (n, m)).collect()
    }

    fn heard(members: &BTreeMap<u64, Member>) -> Vec<Option<Heard>> {
        members.values().map(|member| member.heard.clone()).collect()
    }

    #[test]
    fn a_message_is_news_for_one_of_those_who_wait() {
        let mut all = members(&[false, true, true]);
        spread(&mut all, QUEUE, Some("a".into()));
        assert_eq!(heard(&all), [None, Some(Heard::Name("a".into())), None]);
        spread(&mut all, QUEUE, Some("b".into()));
        assert_eq!(heard(&all)[2], Some(Heard::Name("b".into())));
        // Nobody waits who has not been told: then everyone looks when it comes to wait.
        spread(&mut all, QUEUE, Some("c".into()));
        assert_eq!(heard(&all), [const { Some(Heard::Something) }; 3]);
    }

    #[test]
    fn a_blob_is_news_for_all_who_hear_of_its_folder() {
        let mut all = members(&[false, true]);
        spread(&mut all, BLOBS, Some("a".into()));
        assert_eq!(heard(&all), [const { Some(Heard::Something) }; 2]);
        let mut all = members(&[true]);
        spread(&mut all, 3, Some("a".into()));
        assert_eq!(heard(&all), [None]);
        // A name that is no text, or that the system does not tell.
        spread(&mut all, QUEUE, None);
        assert_eq!(heard(&all), [Some(Heard::Something)]);
    }
}
