//! What connected pages are sent: all of the run when they connect, and then what has changed.
//!
//! One thread reads the run file, and only while a page is connected: without one it waits. All pages get the same changes, so a message
//! is made once and shared. A page has a queue of [`QUEUE_MAX`] messages; one that does not read them is dropped with its connection,
//! and gets all of the run again when it comes back. Memory is bounded by the messages in the longest queue.

use crate::report::Summary;
use qjam::runs::RunError;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many pages may be connected.
pub(super) const PAGES_MAX: usize = 64;
/// So many messages wait for a page.
const QUEUE_MAX: usize = 16;
/// So often changes are sent.
const EVERY: Duration = Duration::from_millis(200);

/// So long the last changes are read. A run file that has grown by hundreds of megabytes keeps nobody from ending.
const LAST_READS: Duration = Duration::from_secs(2);

/// A message, as it is written to connections.
pub(super) type Message = Arc<str>;

/// Makes the messages.
pub(super) struct Feed {
    id: String,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Taken by the thread that reads.
    summary: Option<Summary>,
    /// Pages that have all of the run, and those that wait for it.
    pages: Vec<SyncSender<Message>>,
    new: Vec<SyncSender<Message>>,
    has_ended: bool,
    /// When reading stops, once the server ends.
    until: Option<Instant>,
}

impl Feed {
    pub(super) fn open(run_file: &Path) -> Result<Feed, RunError> {
        let summary = Summary::follow(run_file)?;
        let id = summary.id().to_owned();
        let state = State {
            summary: Some(summary),
            pages: Vec::new(),
            new: Vec::new(),
            has_ended: false,
            until: None,
        };
        Ok(Feed { id, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The name of the run.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages for one more page; `None` if there are too many pages, or the server ends.
    pub(super) fn connect(&self) -> Option<Receiver<Message>> {
        let mut state = self.lock();
        if state.has_ended || state.pages.len() + state.new.len() >= PAGES_MAX {
            return None;
        }
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        state.new.push(sender);
        self.changed.notify_all();
        Some(receiver)
    }

    pub(super) fn pages(&self) -> usize {
        let state = self.lock();
        state.pages.len() + state.new.len()
    }

    /// Ends the thread that reads, and, when pages have been told the last changes, all connections.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.until.get_or_insert_with(|| Instant::now() + LAST_READS);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether there is somebody to read for, and time for it.
    fn reads(&self) -> bool {
        let state = self.lock();
        let has_pages = !state.pages.is_empty() || !state.new.is_empty();
        has_pages && state.until.is_none_or(|until| Instant::now() < until)
    }

    /// Reads and sends until the server ends.
    pub(super) fn run(&self) {
        let Some(mut summary) = self.lock().summary.take() else { return };
        loop {
            let state = self.lock();
            let is_idle =
                |state: &mut State| !state.has_ended && state.pages.is_empty() && state.new.is_empty();
            let state = self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner);
            let is_last = state.has_ended;
            drop(state);
            // A file that cannot be read any more has nothing new; the page keeps what it has.
            while self.reads() && summary.advance().unwrap_or(false) {}
            self.send(&mut summary);
            let mut state = self.lock();
            if is_last {
                state.pages.clear();
                state.new.clear();
                return;
            }
            // A new page need not wait for the others' time.
            let is_quiet = |state: &mut State| !state.has_ended && state.new.is_empty();
            drop(self.changed.wait_timeout_while(state, EVERY, is_quiet));
        }
    }

    fn send(&self, summary: &mut Summary) {
        // Changes come first: they are what all of the run has that older pages lack.
        let changes = summary.changes();
        let new = std::mem::take(&mut self.lock().new);
        let whole = (!new.is_empty()).then(|| event("whole", &summary.whole()));
        let mut state = self.lock();
        if let Some(changes) = changes.filter(|_| !state.pages.is_empty()) {
            let message = event("more", &changes);
            state.pages.retain(|page| is_taken(page, &message));
        } else if let Some(tick) = state.pages.first().map(|_| Message::from(":\n\n")) {
            // A comment, by which the system notices a page that is gone.
            state.pages.retain(|page| is_taken(page, &tick));
        }
        if let Some(whole) = whole {
            state.pages.extend(new.into_iter().filter(|page| is_taken(page, &whole)));
        }
    }
}

/// Puts a message into a page's queue; false if the page is gone, or does not read.
fn is_taken(page: &SyncSender<Message>, message: &Message) -> bool {
    match page.try_send(message.clone()) {
        Ok(()) => true,
        Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
    }
}

/// A server-sent event. JSON has no line ends.
fn event(name: &str, json: &str) -> Message {
    format!("event: {name}\ndata: {json}\n\n").into()
}
