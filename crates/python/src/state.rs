//! The state of a chunk of a Python function: an object in an interpreter, and how to make it again.
//!
//! Between two rounds a state stays an object of the interpreter that ran its last step. Besides there is its pickle after some
//! step, and the calls since. An interpreter may end, a round may fail, and another slot may run the next step: where the object
//! is not there in the version that is wanted, it is made again from these, with the same bits.

use super::call::Call;
use super::peer::Peer;
use super::pickled::Pickled;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Steps since the last pickle, at most.
const STEPS_MAX: usize = 64;
/// Bytes of the calls since the last pickle, at most, unless the pickle is longer.
const CALLS_BYTES_MAX: usize = 1 << 20;
/// Numbers of states are larger than those of regions.
const FIRST_STATE: u64 = 1 << 63;
/// Number, version before, version after, flags.
const REFERENCE_BYTES: usize = 25;

/// The state of a chunk.
#[derive(Clone, Debug, Default)]
pub struct ChunkState {
    /// Before the first of the steps in `since`; `None` before it was made.
    pickled: Option<Pickled>,
    /// The pickle may have come from another host: interpreters read it with guards. See [`named`](crate::named).
    is_foreign: bool,
    since: Vec<PastStep>,
    object: Option<StateObject>,
}

/// A call that has changed a state.
#[derive(Clone, Debug)]
pub(super) struct PastStep {
    pub(super) call: Arc<Call>,
    pub(super) round: u64,
}

/// An object in an interpreter.
#[derive(Clone, Debug)]
pub(super) struct StateObject {
    number: Arc<StateNumber>,
    version: u64,
}

/// The number of a state in an interpreter, which forgets the state when nobody has the number any more.
#[derive(Debug)]
struct StateNumber {
    number: u64,
    peer: Weak<Peer>,
}

impl Drop for StateNumber {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.upgrade() {
            peer.forget_state(self.number);
        }
    }
}

impl StateObject {
    /// A number for an object that this interpreter will make.
    pub(super) fn new(peer: &Arc<Peer>) -> Self {
        let number = StateNumber { number: FIRST_STATE + next(), peer: Arc::downgrade(peer) };
        StateObject { number: Arc::new(number), version: 0 }
    }

    /// The same after a step.
    pub(super) fn stepped(&self) -> Self {
        StateObject { number: self.number.clone(), version: next() }
    }

    /// Whether it has been made.
    pub(super) fn is_made(&self) -> bool {
        self.version != 0
    }

    /// What a call says of it: the version it begins with, the one it makes, whether to pickle that, and whether it is made again.
    pub(super) fn reference(&self, after: &Self, wants_pickle: bool, again: bool) -> [u8; REFERENCE_BYTES] {
        let mut out = [0; REFERENCE_BYTES];
        for (place, number) in [self.number.number, self.version, after.version].into_iter().enumerate() {
            out[8 * place..8 * place + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[REFERENCE_BYTES - 1] = u8::from(wants_pickle) | u8::from(again) << 1;
        out
    }
}

/// Versions and numbers are never used twice.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl ChunkState {
    /// A state that is only its pickle; `None` if it has not been made.
    pub fn of_pickle(pickled: Option<Pickled>) -> Self {
        ChunkState { pickled, ..ChunkState::default() }
    }

    /// The same of a pickle that may have come from another host: interpreters read it with guards.
    pub fn of_foreign_pickle(pickled: Pickled) -> Self {
        ChunkState { pickled: Some(pickled), is_foreign: true, ..ChunkState::default() }
    }

    /// Whether its pickle is read with guards.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Its pickle, if that is the state as it is now.
    pub fn pickle(&self) -> Option<&Option<Pickled>> {
        self.since.is_empty().then_some(&self.pickled)
    }

    /// The pickle that it is made from, and the steps since.
    pub(super) fn recipe(&self) -> (Option<&Pickled>, &[PastStep]) {
        (self.pickled.as_ref(), &self.since)
    }

    /// The object, if it is in this interpreter. Whether in this version only the interpreter knows.
    pub(super) fn object_in(&self, peer: &Arc<Peer>) -> Option<&StateObject> {
        self.object.as_ref().filter(|object| std::ptr::eq(object.number.peer.as_ptr(), Arc::as_ptr(peer)))
    }

    /// Whether the state is to be pickled after this call, instead of keeping the call to make it again.
    pub(super) fn wants_pickle_after(&self, call: &Call) -> bool {
        let calls: usize = self.since.iter().map(|step| step.call.bytes()).sum();
        let bytes_max = self.pickled.as_ref().map_or(0, Pickled::bytes).max(CALLS_BYTES_MAX);
        self.since.len() >= STEPS_MAX || calls + call.bytes() > bytes_max
    }

    /// The state after a call, with its pickle if it was pickled.
    pub(super) fn after(
        &self,
        call: &Call,
        round: u64,
        object: Option<StateObject>,
        pickled: Option<Pickled>,
    ) -> Self {
        match pickled {
            Some(pickled) => ChunkState { object, ..ChunkState::of_pickle(Some(pickled)) },
            None => {
                let mut since = self.since.clone();
                since.push(PastStep { call: call.kept(), round });
                ChunkState { pickled: self.pickled.clone(), is_foreign: self.is_foreign, since, object }
            }
        }
    }

    /// The same state, now that its pickle is known.
    pub(super) fn set_pickle(&mut self, pickled: Pickled, object: Option<StateObject>) {
        *self = ChunkState { object, ..ChunkState::of_pickle(Some(pickled)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use bytes::Bytes;

    fn call(bytes: usize) -> Call {
        let params = Pickled { stream: Bytes::from(vec![0; bytes]), buffers: Vec::new() };
        Call::new(Code::new(Bytes::from_static(b"code")), params, (3, 11))
    }

    #[test]
    fn few_short_calls_are_kept_and_then_the_state_is_pickled() {
        let mut state = ChunkState::of_pickle(Some(Pickled::default()));
        assert!(state.wants_pickle_after(&call(CALLS_BYTES_MAX + 1)), "a call longer than the state");
        let short = call(10);
        for _ in 0..STEPS_MAX {
            assert!(!state.wants_pickle_after(&short));
            state = state.after(&short, 7, None, None);
            assert!(state.pickle().is_none(), "the pickle is an old one");
        }
        assert!(state.wants_pickle_after(&short), "so many steps to repeat");
        let state = state.after(&short, 8, None, Some(Pickled::default()));
        assert_eq!(state.pickle(), Some(&Some(Pickled::default())));
        let large = Pickled { stream: Bytes::from(vec![0; 4 * CALLS_BYTES_MAX]), buffers: Vec::new() };
        assert!(!ChunkState::of_pickle(Some(large)).wants_pickle_after(&call(2 * CALLS_BYTES_MAX)));
    }

    #[test]
    fn a_pickle_from_elsewhere_is_that_until_there_is_another() {
        let state = ChunkState::of_foreign_pickle(Pickled::default());
        let stepped = state.after(&call(10), 7, None, None);
        assert!(state.is_foreign() && stepped.is_foreign(), "it is still made from that pickle");
        assert!(!stepped.after(&call(10), 8, None, Some(Pickled::default())).is_foreign());
    }

    #[test]
    fn kept_calls_have_memory_of_their_own_and_share_it() {
        let memory = Bytes::from(vec![1; 100]);
        let params = Pickled { stream: memory.clone(), buffers: vec![memory.slice(10..20)] };
        let call = Call::new(Code::new(memory.slice(..4)), params, (3, 11));
        let kept = call.kept();
        assert!(Arc::ptr_eq(&kept, &call.kept()));
        let range = memory.as_ptr_range();
        for part in [&kept.params.stream, &kept.params.buffers[0], kept.code.blob()] {
            assert!(!range.contains(&part.as_ptr()));
        }
        assert_eq!((&kept.params, kept.code.id()), (&call.params, call.code.id()));
    }
}
