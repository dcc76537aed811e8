//! How derived chunks are made: the operations of a derived data set, as plain data.
//!
//! A derived data set has no chunks of its own. Its rounds are rounds over the chunks of its sources, and their description
//! says by which operations each is turned into what the function gets. Functions are named by their path in the program,
//! as the function of a round is. Whoever runs a block does the operations when it opens the chunk.
//!
//! An operation here is the field's "transformation". What is random is keyed by the name of what it is applied to, its own
//! seed and the chunk, so that a chunk that is made again has the same bits.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Most operations of one chain. Data that is derived again and again is better written down on the way.
pub const OPERATIONS_MAX: usize = 1024;

/// How the chunks of a derived data set are made from those of its sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Neighbouring chunks with the same operations: one such stretch, and more of them after a union.
    pub stretches: Vec<Stretch>,
}

/// Neighbouring chunks and what is done with each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// How many chunks.
    pub chunks: u32,
    /// What the chunks of the source are opened as, by the name of the type.
    pub source: String,
    /// What is done, first to last.
    pub operations: Vec<Operation>,
}

/// Something done with the records of a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// What.
    pub kind: OperationKind,
    /// The user's function, by its path in the program; empty for operations without one.
    pub function: String,
    /// Its parameters, encoded.
    pub params: Vec<u8>,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationKind {
    /// One record for each.
    Map,
    /// One record for each and its number: its place in its source, counted from here.
    Numbered {
        /// The number of the first record of the stretch.
        first: u64,
    },
    /// The records for which the function says so.
    Filter,
    /// Any number of records for each.
    FlatMap,
    /// A row of a matrix for each, or none.
    Rows {
        /// Numbers in a row.
        cols: u64,
    },
    /// Each record with this probability.
    Sample {
        /// The probability, in units of 2⁻⁵³.
        fraction: u64,
        /// Seed of the draws.
        seed: u64,
    },
    /// Nothing, but from here on it is another data set: a part of a union.
    Part(u32),
    /// Nothing, but what there is here is kept by the worker that made it.
    Persist,
}

impl Lineage {
    /// Whether it is that of so many chunks, and not too long.
    pub fn is_possible(&self, chunks: u32) -> bool {
        let all = self.stretches.iter().try_fold(0_u32, |sum, stretch| sum.checked_add(stretch.chunks));
        all == Some(chunks) && self.stretches.iter().all(|s| s.operations.len() <= OPERATIONS_MAX)
    }

    /// The stretch of a chunk, by its number, and the index of the chunk in it.
    pub fn stretch_of(&self, chunk: u32) -> Option<(usize, u32)> {
        let mut local = chunk;
        for (number, stretch) in self.stretches.iter().enumerate() {
            match local.checked_sub(stretch.chunks) {
                None => return Some((number, local)),
                Some(rest) => local = rest,
            }
        }
        None
    }
}

impl Stretch {
    /// Whether what is there after the first `count` operations depends on where the chunk is in its source.
    pub fn depends_on_place(&self, count: usize) -> bool {
        let depends = |kind| matches!(kind, OperationKind::Numbered { .. } | OperationKind::Sample { .. });
        self.operations[..count].iter().any(|operation| depends(operation.kind))
    }

    /// The name of what is there after the first `count` operations, whatever the chunk.
    pub fn name(&self, count: usize) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"qjam lineage 1\0");
        hasher.update(&(self.source.len() as u64).to_le_bytes());
        hasher.update(self.source.as_bytes());
        for operation in &self.operations[..count] {
            let bytes = postcard::to_stdvec(operation).expect("names and numbers can be encoded");
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        *hasher.finalize().as_bytes()
    }
}

impl fmt::Display for Operation {
    /// As a user would call it: `map(my::parse)`, `sample(0.1, seed 7)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = &self.function;
        match self.kind {
            OperationKind::Map => write!(f, "map({function})"),
            OperationKind::Numbered { .. } => write!(f, "map_numbered({function})"),
            OperationKind::Filter => write!(f, "filter({function})"),
            OperationKind::FlatMap => write!(f, "flat_map({function})"),
            OperationKind::Rows { cols } => write!(f, "rows({function}, {cols} columns)"),
            OperationKind::Sample { fraction, seed } => {
                write!(f, "sample({}, seed {seed})", fraction as f64 / (1_u64 << 53) as f64)
            }
            OperationKind::Part(number) => write!(f, "union(part {number})"),
            OperationKind::Persist => f.write_str("persist()"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: OperationKind, function: &str) -> Operation {
        Operation { kind, function: function.into(), params: vec![1] }
    }

    #[test]
    fn every_part_of_an_operation_and_their_order_are_in_the_name() {
        let a = operation(OperationKind::Map, "a");
        let others = [
            operation(OperationKind::Map, "b"),
            operation(OperationKind::Filter, "a"),
            Operation { params: vec![2], ..a.clone() },
            operation(OperationKind::Sample { fraction: 1, seed: 2 }, "a"),
            operation(OperationKind::Sample { fraction: 2, seed: 1 }, "a"),
        ];
        let name = |operations: &[&Operation]| {
            let operations: Vec<Operation> = operations.iter().map(|o| (*o).clone()).collect();
            Stretch { chunks: 1, source: String::new(), operations: operations.clone() }
                .name(operations.len())
        };
        for other in &others {
            assert_ne!(name(&[&a]), name(&[other]));
            assert_ne!(name(&[&a, other]), name(&[other, &a]));
        }
        let both =
            Stretch { chunks: 9, source: String::new(), operations: vec![a.clone(), others[0].clone()] };
        assert_eq!(both.name(1), name(&[&a]), "what comes later is not in the name of what is before");
    }

    #[test]
    fn chunks_are_found_in_their_stretch() {
        let stretch = |chunks| Stretch { chunks, source: String::new(), operations: Vec::new() };
        let lineage = Lineage { stretches: vec![stretch(2), stretch(0), stretch(3)] };
        assert!(lineage.is_possible(5) && !lineage.is_possible(4));
        let found: Vec<_> = (0..6).map(|chunk| lineage.stretch_of(chunk)).collect();
        assert_eq!(found, [Some((0, 0)), Some((0, 1)), Some((2, 0)), Some((2, 1)), Some((2, 2)), None]);
    }
}
