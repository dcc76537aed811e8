//! What other threads have for the loop: processes that were started, hosts that were reached, blocks that threads have run.

use crate::engine::local::LocalDone;
use crate::engine::proc::Spawned;
use crate::engine::ranks::Outcome;
use crate::engine::ssh::StartFailure;
use crate::engine::ssh::link::Link;
use qjam_core::ids::{RoundId, WorkerId};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::{Mutex, PoisonError};

/// What other threads have for the loop.
pub(crate) enum News {
    Spawned { worker: WorkerId, result: io::Result<Spawned> },
    Connected { worker: WorkerId, result: Result<Box<Link>, Box<StartFailure>> },
    LocalDone(LocalDone),
    RanksDone { round: RoundId, outcome: Box<Outcome> },
}

/// Where other threads put it, and the eventfd that says so.
pub(crate) struct NewsBox {
    news: Mutex<Vec<News>>,
    bell: OwnedFd,
}

impl NewsBox {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(NewsBox {
            news: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(crate) fn put(&self, news: News) {
        self.put_and(news, &|| true);
    }

    /// Leaves it for when the loop looks up next; has it look up at once if that, asked afterwards, is pressing.
    pub(crate) fn put_and(&self, news: News, is_pressing: &dyn Fn() -> bool) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news);
        if is_pressing() {
            self.ring();
        }
    }

    /// Has whoever turns the loop look up.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn take(&self) -> Vec<News> {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for NewsBox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
