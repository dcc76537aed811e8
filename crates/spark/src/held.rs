//! States as rounds have left them, for workers that lack them.
//!
//! A worker process keeps its states in memory, and Spark may run a task elsewhere, or end the process. So the states come home with
//! the parts of a round, and are kept in two versions: as the last round with a value left them, and as it found them.

use bytes::Bytes;
use qjam_core::ids::{HoldId, Version};
use qjam_core::order::HeldTask;
use std::collections::{BTreeMap, HashMap};

/// States by partition, encoded.
pub(crate) type Partitions = BTreeMap<u32, Bytes>;

/// The states of all holds.
#[derive(Default)]
pub(crate) struct HeldStates {
    holds: HashMap<HoldId, Vec<(Version, Partitions)>>,
}

impl HeldStates {
    /// The state of a partition as a round finds it; `None` if it is to be made from its chunk, or is not here.
    pub(crate) fn get(&self, task: HeldTask, partition: u32) -> Option<&Bytes> {
        let versions = self.holds.get(&task.hold)?;
        let (_, states) = versions.iter().find(|(version, _)| *version == task.base)?;
        states.get(&partition)
    }

    /// Keeps what a round with a value has left, and what it found.
    pub(crate) fn keep(&mut self, task: HeldTask, version: Version, states: Partitions) {
        let versions = self.holds.entry(task.hold).or_default();
        versions.retain(|(old, _)| *old == task.base);
        versions.push((version, states));
    }

    /// Nobody will ask for these states again.
    pub(crate) fn release(&mut self, hold: HoldId) {
        self.holds.remove(&hold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qjam_core::ids::RoundId;
    use qjam_core::order::MailTask;

    #[test]
    fn the_last_two_versions_are_here_and_a_round_that_is_tried_again_finds_its_own() {
        let mut held = HeldStates::default();
        let task = |base| HeldTask { hold: HoldId(3), base, mail: MailTask::Nothing };
        let states = |n: u8| BTreeMap::from([(0, Bytes::from(vec![n]))]);
        let (made, first, second) = (Version::MADE, Version::after(RoundId(1)), Version::after(RoundId(2)));
        held.keep(task(made), first, states(1));
        assert_eq!(held.get(task(first), 0).unwrap()[..], [1]);
        assert!(held.get(task(first), 1).is_none() && held.get(task(made), 0).is_none());
        held.keep(task(first), second, states(2));
        held.keep(task(first), Version::after(RoundId(3)), states(3));
        assert_eq!(held.get(task(first), 0).unwrap()[..], [1]);
        assert_eq!(held.get(task(Version::after(RoundId(3))), 0).unwrap()[..], [3]);
        assert!(held.get(task(second), 0).is_none(), "it was replaced");
        held.release(HoldId(3));
        assert!(held.get(task(first), 0).is_none());
    }
}
