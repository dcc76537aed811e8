//! Whether a round with the ranks is still wanted.

use crate::ctx::Cancelled;
use crate::engine::ranks::link::Link;
use crate::engine::ranks::wire::tag;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rank 0 looks so often whether another rank has failed while it runs blocks of its own.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Whether a round still is wanted, for rank 0 and those it tells.
#[derive(Clone)]
pub(super) struct RoundWatch(Arc<Watched>);

struct Watched {
    link: Arc<Link>,
    turn: u64,
    cancelled: Cancelled,
    /// Another rank has said that it has failed, or it was cancelled.
    is_over: AtomicBool,
    is_called_off: AtomicBool,
    looked: Mutex<Instant>,
}

impl RoundWatch {
    pub(super) fn new(link: Arc<Link>, turn: u64, cancelled: Cancelled) -> Self {
        RoundWatch(Arc::new(Watched {
            link,
            turn,
            cancelled,
            is_over: AtomicBool::new(false),
            is_called_off: AtomicBool::new(false),
            looked: Mutex::new(Instant::now()),
        }))
    }

    pub(super) fn is_over(&self) -> bool {
        let here = &self.0;
        if here.is_over.load(Relaxed) || (here.cancelled)() {
            here.is_over.store(true, Relaxed);
            return true;
        }
        {
            let mut looked = here.looked.lock().unwrap_or_else(PoisonError::into_inner);
            if looked.elapsed() < LOOK_EVERY {
                return false;
            }
            *looked = Instant::now();
        }
        while let Some((_, message)) = here.link.next_unless_busy(None, tag::FAILED) {
            // Those of earlier rounds may have been overtaken by results.
            if message.as_ref() == here.turn.to_le_bytes() {
                here.is_over.store(true, Relaxed);
            }
        }
        here.is_over.load(Relaxed)
    }

    /// Tells the others, once, that nobody wants it any more.
    pub(super) fn call_off(&self) {
        let here = &self.0;
        if !here.is_called_off.swap(true, Relaxed) {
            let turn = here.turn.to_le_bytes();
            (1..here.link.size()).for_each(|rank| here.link.send(rank, tag::CANCEL, &turn));
        }
    }
}
