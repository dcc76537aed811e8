//! What a round is, as plain data.
//!
//! The master writes an [`OrderHead`] for every round. Whoever runs the round, or a part of it, gets it: a worker in each
//! `task`, ranks in their command, an engine in another process or language in the bytes of
//! the whole order. Nothing in it depends on who runs the round. The bytes of parameters and chunks go beside it.

use crate::ids::{DataSetId, HoldId, RoundId, Version};
use crate::job::RoundSpec;
use crate::lineage::Lineage;
use crate::records::RecordCounts;
use crate::reduce::Cut;
use serde::{Deserialize, Serialize};

/// What the blocks of a round over states have to do with mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailTask {
    /// Whoever runs the round carries no mail: a block that sends a letter fails.
    NotCarried,
    /// No block finds letters.
    Nothing,
    /// There are letters for some of the blocks: each asks for its own before it begins.
    Letters,
}

/// Which states a round begins with. Its blocks are single chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTask {
    /// Of which hold.
    pub hold: HoldId,
    /// The same of each partition.
    pub base: Version,
    /// Whether its blocks find letters, and may send some.
    pub mail: MailTask,
}

/// A round, described by names and numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderHead {
    /// Its number.
    pub round: RoundId,
    /// The function, by its path in the program.
    pub function: String,
    /// Seed of the run; random streams are keyed by (seed, round, chunk).
    pub seed: u64,
    /// The data set.
    pub dataset: DataSetId,
    /// Its chunks and blocks.
    pub cut: Cut,
    /// The states that it begins with, if it needs any, and whether its blocks find mail. One version serves all blocks;
    /// versions per block will be a further variant of what a block begins with.
    pub held: Option<HeldTask>,
    /// As many workers take part as have so many slots together, if not all should.
    pub slots_max: Option<u32>,
    /// How many records each chunk has, for functions that may ask.
    pub records: Option<RecordCounts>,
    /// How chunks are turned into what the function gets, if the data set is a derived one.
    pub lineage: Option<Box<Lineage>>,
}

impl OrderHead {
    /// The round as the scheduler sees it, when the first `done` blocks have been run already.
    pub fn spec(&self, done: u32) -> RoundSpec {
        RoundSpec {
            dataset: self.dataset,
            cut: self.cut,
            slots_max: self.slots_max,
            done,
            held: self.held.map(|held| held.hold),
        }
    }

    /// Whether the parts agree with each other: the cut is possible, states belong to single chunks, and what is said of
    /// chunks is said of as many as there are.
    pub fn is_possible(&self) -> bool {
        let chunks = self.cut.chunks;
        self.cut.is_possible()
            && (self.held.is_none() || self.cut.level == 0)
            && self.records.as_ref().is_none_or(|records| records.is_possible(chunks))
            && self.lineage.as_ref().is_none_or(|lineage| lineage.is_possible(chunks))
    }
}
