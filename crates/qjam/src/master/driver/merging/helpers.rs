//! Threads that help to merge long results, once they are needed. They end with the master's loop.

use super::lock;
use super::wide::Shared;
use crate::execution::caught;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// So many threads beside the loop at most.
const HELPERS_MAX: usize = 16;

/// The threads.
#[derive(Default)]
pub(in crate::master::driver) struct Helpers {
    shared: Arc<Pool>,
    threads: usize,
}

#[derive(Default)]
struct Pool {
    state: Mutex<PoolState>,
    bell: Condvar,
}

#[derive(Default)]
struct PoolState {
    asked: VecDeque<Arc<Shared>>,
    free: usize,
    is_closed: bool,
}

impl Helpers {
    /// Has one more thread help with a round; says whether there is one.
    pub(super) fn give(&mut self, round: &Arc<Shared>) -> bool {
        let mut state = lock(&self.shared.state);
        if state.free <= state.asked.len() {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("qjam-merge".into());
            if self.threads == HELPERS_MAX || thread.spawn(move || shared.serve()).is_err() {
                return false;
            }
            self.threads += 1;
        }
        state.asked.push_back(round.clone());
        drop(state);
        self.shared.bell.notify_one();
        true
    }
}

impl Pool {
    fn serve(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(round) = state.asked.pop_front() {
                drop(state);
                while round.step() {}
                round.leave();
                // It may be the last that holds values of the user's types.
                let _ = caught(|| drop(round));
                state = lock(&self.state);
            } else if state.is_closed {
                return;
            } else {
                state.free += 1;
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.free -= 1;
            }
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        lock(&self.shared.state).is_closed = true;
        self.shared.bell.notify_all();
    }
}
