//! How the blocks of a round are shared out among tasks.

use std::ops::Range;

/// Neighbouring blocks for each task, for as many tasks as can run at once. The division depends on nothing but the two numbers, so
/// that a task finds in the next round what it left in this one.
pub(crate) fn shares(blocks: u32, slots: u32) -> Vec<Range<u32>> {
    let tasks = u64::from(blocks.min(slots.max(1)));
    let start = |task: u64| (u64::from(blocks) * task / tasks) as u32;
    (0..tasks).map(|task| start(task)..start(task + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_in_one_share_and_no_share_is_empty() {
        for blocks in 0..40 {
            for slots in 0..12 {
                let shares = shares(blocks, slots);
                assert_eq!(shares.len() as u32, blocks.min(slots.max(1)));
                assert!(shares.iter().all(|share| !share.is_empty()));
                assert_eq!(
                    shares.into_iter().flatten().collect::<Vec<u32>>(),
                    (0..blocks).collect::<Vec<u32>>()
                );
            }
        }
    }
}
