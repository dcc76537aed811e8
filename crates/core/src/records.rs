//! How many records the chunks of a cut have, in few words.
//!
//! Most cuts have the same number in all chunks but the last, so neighbours with equally many are told together. It goes
//! with the description of a round to functions that may ask which records of the data set they have.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The numbers of records of all chunks of a cut, in order.
///
/// ```
/// use qjam_core::records::RecordCounts;
/// let counts = RecordCounts::of([4, 4, 4, 1]);
/// let starts = counts.starts();
/// assert_eq!((starts.range(2), starts.range(3), starts.range(4)), (8..12, 12..13, 13..13));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCounts {
    /// So many neighbours with so many records each.
    runs: Box<[(u32, u64)]>,
}

impl RecordCounts {
    /// Those of chunks with so many records each, in order.
    pub fn of(counts: impl IntoIterator<Item = u64>) -> RecordCounts {
        let mut runs: Vec<(u32, u64)> = Vec::new();
        for count in counts {
            match runs.last_mut() {
                Some((chunks, each)) if *each == count => *chunks += 1,
                _ => runs.push((1, count)),
            }
        }
        RecordCounts { runs: runs.into() }
    }

    /// Whether they are those of so many chunks, and can be added up. Counts from outside must be checked before use.
    pub fn is_possible(&self, chunks: u32) -> bool {
        let mut all = (0_u32, 0_u64);
        for (run, each) in self.runs.iter() {
            let records = u64::from(*run).checked_mul(*each).and_then(|n| n.checked_add(all.1));
            match (all.0.checked_add(*run), records) {
                (Some(chunks), Some(records)) => all = (chunks, records),
                _ => return false,
            }
        }
        all.0 == chunks
    }

    /// The same, to look up many chunks in.
    pub fn starts(&self) -> RecordStarts {
        let (mut chunk, mut record) = (0, 0);
        let runs = self.runs.iter().map(|(run, each)| {
            let start = (chunk, record, *each);
            chunk += run;
            record += u64::from(*run) * each;
            start
        });
        RecordStarts { runs: runs.collect(), end: record }
    }
}

/// Where the records of each chunk begin.
#[derive(Clone, Debug, Default)]
pub struct RecordStarts {
    /// First chunk of a run of equally long ones, its first record, and how many each has.
    runs: Vec<(u32, u64, u64)>,
    end: u64,
}

impl RecordStarts {
    /// The records of a chunk; none for a chunk that is not there.
    pub fn range(&self, chunk: u32) -> Range<u64> {
        let next = self.runs.partition_point(|(first, ..)| *first <= chunk);
        let Some((first, record, each)) = next.checked_sub(1).map(|run| self.runs[run]) else { return 0..0 };
        let start = record.saturating_add(u64::from(chunk - first).saturating_mul(each)).min(self.end);
        start..start.saturating_add(each).min(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_a_walk_whatever_the_counts() {
        for counts in [vec![7], vec![3, 3, 3, 1], vec![1, 2, 2, 0, 0, 5, 5, 5], vec![0, 0]] {
            let told = RecordCounts::of(counts.iter().copied());
            assert!(told.is_possible(counts.len() as u32) && !told.is_possible(counts.len() as u32 + 1));
            let starts = told.starts();
            let mut at = 0;
            for (chunk, count) in (0..).zip(&counts) {
                assert_eq!(starts.range(chunk), at..at + count, "{counts:?}");
                at += count;
            }
        }
    }

    #[test]
    fn counts_that_cannot_be_added_up_are_impossible() {
        assert!(!RecordCounts { runs: [(2, u64::MAX)].into() }.is_possible(2));
        assert!(!RecordCounts { runs: [(1, u64::MAX), (1, 1)].into() }.is_possible(2));
        assert!(!RecordCounts { runs: [(u32::MAX, 0), (2, 0)].into() }.is_possible(1));
    }
}
