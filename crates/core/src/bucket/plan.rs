//! How a round is shared out: its tasks, and which results are merged together.
//!
//! Tasks and groups are nodes of the tree over the chunks, each stage at one level. So merging group by group is merging along the
//! tree, and the value has the bits of every other engine, whatever the plan.
//!
//! ```text
//!   stage 2   value                 ┌───────┴───────┐             one group
//!   stage 1   groups            ┌───┴───┐       ┌───┴───┐         about √P of them
//!   stage 0   tasks            t0 t1 t2 t3     t4 t5 t6 t7        P
//! ```

use crate::reduce::{Cut, Node};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Results of fewer tasks than this are merged by one worker: a second stage would cost more than it saves.
const GROUPS_FROM: u32 = 5;
/// From this size on, sending a result takes longer than the requests about it, on the links of a cloud.
const LARGE_BYTES: u64 = 512 << 10;
/// Most stages of a plan that comes from outside.
const STAGES_MAX: usize = 33;

/// How many results are merged at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// All by one worker.
    Flat,
    /// About √P groups of about √P results, and then those: two stages.
    #[default]
    SquareRoot,
    /// At most `1 << bits` at a time, in as many stages as that takes.
    FanIn {
        /// At least 1.
        bits: u8,
    },
}

impl Shape {
    /// The quickest for results of about this size, where each participant reads and writes over a link of its own. Many stages
    /// read fewer results one after the other, and wait for more answers.
    pub fn over_links(result_bytes: u64) -> Shape {
        if result_bytes >= LARGE_BYTES { Shape::FanIn { bits: 2 } } else { Shape::SquareRoot }
    }
}

/// The tasks of a round and their groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    cut: Cut,
    /// The level of each stage's nodes, ascending. The first are the tasks; the last has one node, the value.
    levels: Vec<u8>,
}

impl Plan {
    /// At most so many tasks of whole blocks.
    pub fn new(cut: Cut, tasks_max: u32, shape: Shape) -> Plan {
        let root = cut.root().level;
        let count = |level: u8| Cut::new(cut.chunks, level.min(31)).blocks();
        let task = (cut.level..root).find(|&level| count(level) <= tasks_max.max(1)).unwrap_or(root);
        let height = root - task;
        let step = match shape {
            Shape::Flat => height,
            Shape::SquareRoot if count(task) < GROUPS_FROM => height,
            Shape::SquareRoot => height.div_ceil(2),
            Shape::FanIn { bits } => bits.max(1),
        };
        let mut levels = vec![task];
        while let Some(&last) = levels.last().filter(|&&last| last < root) {
            levels.push((last + step).min(root));
        }
        Plan { cut, levels }
    }

    /// Whether a plan that comes from outside makes sense.
    pub fn is_possible(&self) -> bool {
        self.cut.is_possible()
            && (1..=STAGES_MAX).contains(&self.levels.len())
            && self.levels.windows(2).all(|pair| pair[0] < pair[1])
            && self.levels.first().is_some_and(|first| *first >= self.cut.level)
            && self.levels.last() == Some(&self.cut.root().level)
    }

    /// The round's cut.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The stage of the value.
    pub fn last(&self) -> u8 {
        (self.levels.len() - 1) as u8
    }

    /// How many results a stage has.
    pub fn count(&self, stage: u8) -> u32 {
        let level = self.levels[usize::from(stage)];
        u64::from(self.cut.chunks).div_ceil(1 << level) as u32
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> u32 {
        self.count(0)
    }

    /// The node of a result.
    pub fn node(&self, stage: u8, index: u32) -> Node {
        Node { level: self.levels[usize::from(stage)], index }
    }

    /// The group in which a result is merged, which is the index of the merged one in the next stage; 0 for the value.
    pub fn group_of(&self, stage: u8, index: u32) -> u32 {
        match self.levels.get(usize::from(stage) + 1) {
            Some(up) => index >> (up - self.levels[usize::from(stage)]),
            None => 0,
        }
    }

    /// The results that are merged into one of a later stage.
    pub fn members(&self, stage: u8, index: u32) -> Range<u32> {
        let Some(below) = usize::from(stage).checked_sub(1) else { return 0..0 };
        let up = self.levels[below + 1] - self.levels[below];
        let at = |index: u64| (index << up).min(u64::from(self.count(stage - 1))) as u32;
        at(u64::from(index))..at(u64::from(index) + 1)
    }

    /// How many copies of the order there are, so that not all tasks read the same blob: about √P.
    pub fn copies(&self) -> u32 {
        (1..).find(|n| n * n >= self.tasks()).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_in_one_group_and_every_group_under_the_value() {
        let shapes = [Shape::Flat, Shape::SquareRoot, Shape::FanIn { bits: 1 }, Shape::FanIn { bits: 3 }];
        for (chunks, level) in [(1, 0), (2, 0), (5, 0), (120, 0), (1000, 3), (4097, 2)] {
            for (tasks_max, shape) in [1, 2, 7, 120, 100_000].into_iter().zip(shapes.into_iter().cycle()) {
                let plan = Plan::new(Cut::new(chunks, level), tasks_max, shape);
                assert!(plan.is_possible(), "{plan:?}");
                assert!(plan.tasks() <= tasks_max, "{plan:?}");
                assert_eq!(plan.count(plan.last()), 1);
                for stage in 1..=plan.last() {
                    let below: Vec<u32> =
                        (0..plan.count(stage)).flat_map(|index| plan.members(stage, index)).collect();
                    assert_eq!(below, (0..plan.count(stage - 1)).collect::<Vec<_>>());
                    for index in below {
                        assert!(plan.members(stage, plan.group_of(stage - 1, index)).contains(&index));
                    }
                }
                let chunks_of = |index| plan.cut().chunks_of(plan.node(0, index));
                assert_eq!(
                    (0..plan.tasks()).map(|task| chunks_of(task).len()).sum::<usize>(),
                    chunks as usize
                );
            }
        }
    }

    #[test]
    fn groups_are_about_as_many_as_they_are_large() {
        for chunks in [16, 64, 120, 1000, 10_000] {
            let plan = Plan::new(Cut::new(chunks, 0), chunks, Shape::SquareRoot);
            assert_eq!(plan.last(), 2);
            let (groups, size) = (plan.count(1), plan.members(1, 0).len() as u32);
            assert!(groups <= 2 * size && size <= 2 * groups + 2, "{chunks}: {groups} groups of {size}");
            let root = f64::from(chunks).sqrt().ceil() as u32;
            assert_eq!(plan.copies(), root);
        }
        assert_eq!(Plan::new(Cut::new(4, 0), 4, Shape::SquareRoot).last(), 1);
        assert_eq!(Plan::new(Cut::new(1, 0), 4, Shape::SquareRoot).last(), 0);
    }

    #[test]
    fn large_results_are_merged_in_many_stages_where_links_are_slow() {
        let stages = |bytes| Plan::new(Cut::new(1000, 0), 1000, Shape::over_links(bytes)).last();
        assert_eq!((stages(8), stages(LARGE_BYTES - 1)), (2, 2));
        assert_eq!((stages(LARGE_BYTES), stages(8_000_000)), (5, 5));
    }

    #[test]
    fn plans_that_make_no_sense_are_seen() {
        let good = Plan::new(Cut::new(100, 1), 30, Shape::SquareRoot);
        let with = |levels: Vec<u8>| Plan { levels, ..good.clone() };
        for levels in [vec![], vec![0, 7], vec![1], vec![3, 3, 7], vec![5, 3, 7], vec![1, 9]] {
            assert!(!with(levels.clone()).is_possible(), "{levels:?}");
        }
        assert!(!Plan { cut: Cut { chunks: 0, level: 0 }, levels: vec![0] }.is_possible());
    }
}
