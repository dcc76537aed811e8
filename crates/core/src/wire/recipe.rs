//! Recipes: how to rebuild the states of partitions, from a start and the rounds since, and the letters that partitions find.
//!
//! A worker that lacks states requests them (`behind`) and receives a recipe: one sequence of bytes, divided into pieces that fit into
//! frames.
//!
//! ```text
//!   offset 0   length of the head   u64
//!          8   head                 a postcard message: Head
//!              then, each at the next offset that 64 divides (gaps are zero):
//!              the checkpoint of every partition that has one, in the order of the head
//!              the parameters of every round, in the order of the head
//!              the letters of every inbox, in the order of the head
//! ```
//!
//! Input is not trusted: [`Recipe::parse`] checks every length against the bytes present.

use super::message::MessageError;
use crate::ids::{RoundId, Version};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Every payload in a recipe begins at a multiple of this.
pub const ALIGN: u64 = 64;

/// What the state of a partition is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Which partition.
    pub partition: u32,
    /// The version it has then.
    pub version: Version,
    /// Length of the checkpoint; `None` if it is made from its chunk.
    pub bytes: Option<u64>,
}

/// A round to run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Which; random streams are keyed by it.
    pub round: RoundId,
    /// Its function, by its place among the names.
    pub function: u32,
    /// Length of its parameters.
    pub bytes: u64,
}

/// A letter that a partition finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// The partition that sent it.
    pub from: u32,
    /// What kind of value it is.
    pub kind: u64,
    /// Length of its content.
    pub bytes: u64,
}

/// What a partition finds in the round that begins with a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbox {
    /// Which partition.
    pub partition: u32,
    /// With which version the round begins.
    pub version: Version,
    /// In order.
    pub letters: Vec<Letter>,
}

/// What a recipe consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The partitions whose states it makes.
    pub starts: Vec<Start>,
    /// Partitions whose states the worker has: the recipe brings their letters only.
    pub mail_only: Vec<u32>,
    /// Names of functions.
    pub functions: Vec<String>,
    /// The rounds, oldest first. Each partition needs those after its own version.
    pub steps: Vec<Step>,
    /// What partitions find, in the round itself and in those to run again.
    pub inboxes: Vec<Inbox>,
}

/// A recipe with the places of its payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What it consists of.
    pub head: Head,
    /// Where the checkpoint of each partition is.
    pub starts: Vec<Option<Range<usize>>>,
    /// Where the parameters of each round are.
    pub steps: Vec<Range<usize>>,
    /// Where the letters of each inbox are.
    pub letters: Vec<Vec<Range<usize>>>,
    /// Length of it all.
    pub bytes: usize,
}

impl Head {
    /// The bytes of a recipe before its first payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = postcard::to_allocvec(self).expect("a head is plain data");
        let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
        bytes.extend(head);
        bytes
    }

    /// Where everything goes, after so many bytes for the head; `None` if it is longer than can be.
    fn lay_out(self, head_bytes: u64) -> Option<Recipe> {
        let mut at = head_bytes;
        let mut place = |bytes: u64| {
            let from = at.checked_next_multiple_of(ALIGN)?;
            at = from.checked_add(bytes)?;
            Some(usize::try_from(from).ok()?..usize::try_from(at).ok()?)
        };
        let starts = self
            .starts
            .iter()
            .map(|start| match start.bytes {
                Some(bytes) => place(bytes).map(Some),
                None => Some(None),
            })
            .collect::<Option<_>>()?;
        let steps = self.steps.iter().map(|step| place(step.bytes)).collect::<Option<_>>()?;
        let inbox = |inbox: &Inbox| inbox.letters.iter().map(|letter| place(letter.bytes)).collect();
        let letters = self.inboxes.iter().map(inbox).collect::<Option<_>>()?;
        Some(Recipe { head: self, starts, steps, letters, bytes: usize::try_from(at).ok()? })
    }
}

impl Recipe {
    /// Reads the head of a whole recipe and finds its payloads.
    pub fn parse(bytes: &[u8]) -> Result<Recipe, MessageError> {
        let wrong = |why: String| MessageError::Body { kind: "recipe", why };
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(|| wrong("no length".into()))?;
        let length = u64::from_le_bytes(*length);
        let head = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let head = head.ok_or_else(|| wrong(format!("a head of {length} bytes in {}", bytes.len())))?;
        let head = match postcard::take_from_bytes::<Head>(head) {
            Ok((head, [])) => head,
            Ok((_, rest)) => return Err(wrong(format!("{} bytes too many", rest.len()))),
            Err(e) => return Err(wrong(e.to_string())),
        };
        if let Some(step) = head.steps.iter().find(|s| s.function as usize >= head.functions.len()) {
            return Err(wrong(format!("{} has no function", step.round)));
        }
        if !head.steps.is_sorted_by(|a, b| a.round < b.round) {
            return Err(wrong("rounds out of order".into()));
        }
        let recipe = head.lay_out(8 + length).filter(|recipe| recipe.bytes <= bytes.len());
        recipe.ok_or_else(|| wrong(format!("more than its {} bytes", bytes.len())))
    }

    /// The steps that a partition needs: those after the version it begins with.
    pub fn steps_of(&self, start: usize) -> Range<usize> {
        let version = self.head.starts[start].version;
        let is_before = |step: &Step| Version::after(step.round) <= version;
        self.head.steps.partition_point(is_before)..self.head.steps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Head, Vec<u8>) {
        let head = Head {
            starts: vec![
                Start { partition: 3, version: Version::after(RoundId(1)), bytes: Some(5) },
                Start { partition: 9, version: Version::MADE, bytes: None },
            ],
            functions: vec!["a::b".into()],
            steps: (0..4).map(|n| Step { round: RoundId(n), function: 0, bytes: n }).collect(),
            mail_only: vec![4],
            inboxes: vec![Inbox {
                partition: 4,
                version: Version::after(RoundId(3)),
                letters: vec![Letter { from: 3, kind: 7, bytes: 6 }, Letter { from: 9, kind: 7, bytes: 2 }],
            }],
        };
        let mut bytes = head.to_bytes();
        let mut put = |payload: &[u8]| {
            bytes.resize(bytes.len().next_multiple_of(64), 0);
            bytes.extend(payload);
        };
        put(b"state");
        [&b""[..], b"1", b"22", b"333"].iter().for_each(|params| put(params));
        put(b"letter");
        put(b"no");
        (head, bytes)
    }

    #[test]
    fn a_recipe_is_found_again() {
        let (head, bytes) = sample();
        let recipe = Recipe::parse(&bytes).unwrap();
        assert_eq!(recipe.head, head);
        assert_eq!(&bytes[recipe.starts[0].clone().unwrap()], b"state");
        assert_eq!(&bytes[recipe.steps[3].clone()], b"333");
        assert_eq!(&bytes[recipe.letters[0][1].clone()], b"no");
        assert_eq!((recipe.steps_of(0), recipe.steps_of(1)), (2..4, 0..4));
        assert_eq!(recipe.bytes, bytes.len());
    }

    #[test]
    fn a_recipe_cut_short_is_refused() {
        let (_, bytes) = sample();
        for len in 0..bytes.len() {
            assert!(Recipe::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_recipe_that_lies_is_refused() {
        let (head, _) = sample();
        let refused = |change: fn(&mut Head)| {
            let mut head = head.clone();
            change(&mut head);
            let mut bytes = head.to_bytes();
            bytes.resize(4096, 0);
            assert!(Recipe::parse(&bytes).is_err(), "{head:?}");
        };
        refused(|head| head.steps[1].function = 1);
        refused(|head| head.steps[1].bytes = u64::MAX);
        refused(|head| head.starts[0].bytes = Some(5000));
        refused(|head| head.steps.swap(0, 1));
        refused(|head| head.inboxes[0].letters[0].bytes = u64::MAX);
        refused(|head| head.inboxes[0].letters[1].bytes = 5000);
    }
}
