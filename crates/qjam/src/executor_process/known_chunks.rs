//! Which chunks a worker has been told by name.
//!
//! A task names blocks by number; the names of their chunks go along the first time only. A large share is cut into
//! tasks that fit a frame each.

use crate::chunk::ChunkId;
use crate::dataset::CutData;
use qjam_core::ids::DataSetId;
use qjam_core::lease::BlockRange;
use qjam_core::reduce::Cut;
use std::collections::{HashMap, HashSet};

/// Names of chunks that go into one task at most.
const NAMES_MAX: u32 = 16 << 10;

/// What fits one task of a share.
pub(crate) struct TaskPart {
    pub(crate) ranges: Vec<BlockRange>,
    /// Names of chunks it has not been told: first index and the names from there on.
    pub(crate) chunks: Vec<(u32, Vec<ChunkId>)>,
}

/// Chunks that one worker has been told by name, per data set.
#[derive(Debug, Default)]
pub(crate) struct KnownChunks(HashMap<DataSetId, HashSet<u32>>);

impl KnownChunks {
    /// Cuts a share of a round into tasks that fit a frame: blocks, and the names of chunks it has not been told.
    pub(crate) fn tasks(&mut self, data: &CutData, cut: Cut, ranges: &[BlockRange]) -> Vec<TaskPart> {
        let told = self.0.entry(data.located).or_default();
        if told.len() == data.chunks.len() {
            return vec![TaskPart { ranges: ranges.to_vec(), chunks: Vec::new() }];
        }
        let step = (NAMES_MAX >> cut.level).max(1);
        let mut tasks: Vec<TaskPart> = Vec::new();
        let mut names = 0;
        for span in ranges {
            let mut first = span.first;
            while first < span.blocks().end {
                let len = step.min(span.blocks().end - first);
                let chunks =
                    cut.chunks_of(cut.node(first)).start..cut.chunks_of(cut.node(first + len - 1)).end;
                let new: Vec<u32> = chunks.filter(|&c| told.insert(c)).collect();
                let named = group(&new, |c| data.chunks[c as usize].id);
                let count = new.len() as u32;
                match tasks.last_mut() {
                    Some(last) if names + count <= NAMES_MAX => {
                        last.ranges.push(BlockRange { first, len, ..*span });
                        last.chunks.extend(named);
                        names += count;
                    }
                    _ => {
                        tasks.push(TaskPart {
                            ranges: vec![BlockRange { first, len, ..*span }],
                            chunks: named,
                        });
                        names = count;
                    }
                }
                first += len;
            }
        }
        tasks
    }

    /// What was told of a data set may not have arrived.
    pub(crate) fn unsay(&mut self, dataset: &DataSetId) {
        if let Some(told) = self.0.get_mut(dataset) {
            told.clear();
        }
    }

    /// A data set is no more. Says whether anything of it had been told.
    pub(crate) fn forget(&mut self, dataset: &DataSetId) -> bool {
        self.0.remove(dataset).is_some()
    }
}

/// Runs of neighbouring indices with the names from there on.
fn group<T>(indices: &[u32], name: impl Fn(u32) -> T) -> Vec<(u32, Vec<T>)> {
    let mut runs: Vec<(u32, Vec<T>)> = Vec::new();
    for &index in indices {
        match runs.last_mut() {
            Some((first, names)) if *first + names.len() as u32 == index => names.push(name(index)),
            _ => runs.push((index, vec![name(index)])),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_named_together() {
        assert_eq!(group(&[3, 4, 5, 9], |n| n), [(3, vec![3, 4, 5]), (9, vec![9])]);
    }
}
