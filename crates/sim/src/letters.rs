//! Simulated mail: what partitions write to each other, and what they must find.
//!
//! A letter says in which round it was sent and which of its sender's it is, so that a check can tell one that is lost from one
//! that comes twice or too early. What a partition sends depends on its state, and its next state on what it finds and in which
//! order. [`serial`] says what all partitions must find, without the code under test.

use crate::oracle::Value;
use crate::random::mix;
use qjam_core::ids::{RoundId, Version};
use qjam_core::mail::{Inbox, Outbox};
use std::collections::BTreeMap;

/// The content of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Letter {
    /// The round in which it was sent.
    pub round: RoundId,
    /// How many its sender sent before it in that round.
    pub number: u32,
    /// Some content.
    pub word: u64,
}

/// What a partition finds in rounds, by the version that each begins with.
pub type Inboxes = BTreeMap<Version, Inbox<Letter>>;

/// A partial result with the letters of its blocks.
#[derive(Clone, Debug)]
pub struct Posted {
    /// The result.
    pub value: Value,
    /// What its blocks have sent.
    pub outbox: Outbox<Letter>,
}

impl From<Value> for Posted {
    fn from(value: Value) -> Self {
        Posted { value, outbox: Outbox::default() }
    }
}

impl Posted {
    /// Merges the right neighbour into this one.
    pub fn merge(&mut self, right: Posted) {
        self.value.merge(right.value);
        self.outbox.merge(right.outbox);
    }
}

/// The state of a partition after it has read its mail.
pub fn read(state: u64, inbox: &[(u32, Letter)]) -> u64 {
    inbox
        .iter()
        .fold(state, |state, (from, letter)| mix(state.rotate_left(7) ^ u64::from(*from) ^ letter.word))
}

/// The letters that a partition sends when a round has left it in this state, with their receivers.
pub fn sent(state: u64, round: RoundId, partitions: u32) -> Vec<(u32, Letter)> {
    let count = mix(state) % 4;
    let letter = |number: u64| {
        let word = mix(state ^ mix(number | 1 << 50));
        let to = (word >> 8) % u64::from(partitions);
        (to as u32, Letter { round, number: number as u32, word })
    };
    (0..count).map(letter).collect()
}

/// What every partition finds in the round after one that has left these states.
pub fn serial(states: &[u64], round: RoundId) -> Vec<Inbox<Letter>> {
    let mut inboxes = vec![Vec::new(); states.len()];
    for (from, state) in (0..).zip(states) {
        for (to, letter) in sent(*state, round, states.len() as u32) {
            inboxes[to as usize].push((from, letter));
        }
    }
    inboxes
}
