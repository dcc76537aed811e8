//! The half-built tree of one round, on which several threads work.
//!
//! Invariants: a part is taken once; nobody holds the lock while user code runs; whoever is counted in `running` leaves it,
//! whatever user code does; when the root is taken no helper has anything of the round left.

use super::helpers::Helpers;
use super::lock;
use crate::engine::queue::EventQueue;
use crate::engine::seat::PartValue;
use crate::execution::caught;
use crate::function::{AnyBox, Function, language, merge_fault};
use qjam_core::job::{Fault, FaultKind};
use qjam_core::reduce::tree::Offer;
use qjam_core::reduce::{Node, Tree};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A round is merged this way from the first result on that is so long: shorter ones are merged sooner than a thread wakes.
const LONG: usize = 512 << 10;
/// So much is decoded at once at most, apart from the first.
const AT_ONCE_BYTES: usize = 512 << 20;
/// The half-built tree of one round, shared with helpers. Dropping it calls them off.
pub(in crate::master::driver) struct WideMerge(Arc<Shared>);

pub(super) struct Shared {
    function: Function,
    state: Mutex<State>,
    /// Nobody is at work, and nothing is left to take.
    idle: Condvar,
    queue: Arc<EventQueue>,
}

struct State {
    todo: VecDeque<(Node, PartValue)>,
    tree: Tree<AnyBox>,
    running: usize,
    /// Helpers that have been asked and are not done.
    helpers: usize,
    fault: Option<Fault>,
    is_closed: bool,
}

impl Shared {
    /// Takes a part and merges it; says whether there was one.
    pub(in crate::master::driver) fn step(&self) -> bool {
        let mut state = lock(&self.state);
        let Some((node, value)) = state.todo.pop_front() else { return false };
        state.running += 1;
        drop(state);
        // Around everything, because values of the user's types are dropped along the way, too.
        let merged = caught(|| self.climb(node, value)).and_then(|merged| merged);
        let mut state = lock(&self.state);
        state.running -= 1;
        let mut rest = VecDeque::new();
        if let Err(fault) = merged {
            state.fault.get_or_insert(fault);
            rest = std::mem::take(&mut state.todo);
            self.queue.ring();
        }
        if state.running == 0 && state.todo.is_empty() {
            self.idle.notify_all();
        }
        drop(state);
        let _ = caught(|| drop(rest));
        true
    }

    /// A helper has found nothing to do.
    pub(super) fn leave(&self) {
        lock(&self.state).helpers -= 1;
    }

    fn climb(&self, node: Node, value: PartValue) -> Result<(), Fault> {
        let (mut node, mut value) = match value {
            PartValue::Ready(value) => (node, value),
            PartValue::Encoded(bytes) => {
                let read = self.function.decode(bytes);
                (node, read.map_err(|e| Fault::new(FaultKind::Result, e.to_string()))?)
            }
        };
        loop {
            let mut state = lock(&self.state);
            if state.is_closed {
                return Ok(());
            }
            let offer = state.tree.offer(node, value);
            drop(state);
            match offer {
                Offer::Kept => return Ok(()),
                Offer::Merge { node: up, mut left, right } => {
                    self.function.merge(&mut left, right).map_err(|e| merge_fault(&e))?;
                    (node, value) = (up, left);
                }
            }
        }
    }
}

/// Bytes of a part that is not decoded yet.
fn length(value: &PartValue) -> usize {
    if let PartValue::Encoded(bytes) = value { bytes.len() } else { 0 }
}

impl WideMerge {
    /// The tree goes on here, with what it has.
    pub(in crate::master::driver) fn new(
        function: Function,
        tree: Tree<AnyBox>,
        queue: Arc<EventQueue>,
    ) -> WideMerge {
        let todo = VecDeque::new();
        let state = State { todo, tree, running: 0, helpers: 0, fault: None, is_closed: false };
        WideMerge(Arc::new(Shared { function, state: Mutex::new(state), idle: Condvar::new(), queue }))
    }

    /// Whether a result should be merged this way. A function of another language is merged where its interpreter is.
    pub(in crate::master::driver) fn is_for(function: &Function, value: &PartValue) -> bool {
        length(value) >= LONG && !language::is_foreign(function.name())
    }

    /// Adds a part.
    pub(in crate::master::driver) fn add(&self, node: Node, value: PartValue) {
        lock(&self.0.state).todo.push_back((node, value));
    }

    /// Merges one part on this thread; says whether there was one.
    pub(in crate::master::driver) fn step(&self) -> bool {
        self.0.step()
    }

    /// Whether parts wait.
    pub(in crate::master::driver) fn has_more(&self) -> bool {
        !lock(&self.0.state).todo.is_empty()
    }

    /// Why it came to nothing, once.
    pub(in crate::master::driver) fn take_fault(&self) -> Option<Fault> {
        lock(&self.0.state).fault.take()
    }

    /// Merges all there is and waits for helpers; then gives the root, or says why there is none.
    pub(super) fn finish(&self) -> Result<Option<AnyBox>, Fault> {
        while self.step() {}
        let mut state = lock(&self.0.state);
        while state.running > 0 {
            state = self.0.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(state.tree.take_root()),
        }
    }

    /// Asks so many threads to help, those included that do so already.
    pub(super) fn ask(&self, helpers: usize, pool: &mut Helpers) {
        let mut state = lock(&self.0.state);
        let bytes = state.todo.iter().map(|(_, value)| length(value)).max().unwrap_or(0);
        let at_once = (AT_ONCE_BYTES / bytes.max(1)).min(state.todo.len());
        while state.helpers < helpers.min(at_once) && pool.give(&self.0) {
            state.helpers += 1;
        }
    }
}

impl Drop for WideMerge {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        let (todo, held) = (std::mem::take(&mut state.todo), state.tree.take());
        drop(state);
        let _ = caught(|| drop(todo));
        let _ = caught(|| drop(held));
    }
}
