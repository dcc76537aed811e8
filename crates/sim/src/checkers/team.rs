//! Checks which workers take part in a round that is limited to some.

use super::picture::Picture;
use super::{Verdict, promise};
use qjam_core::ids::{RoundId, WorkerId};

impl Picture {
    /// Who may be given blocks of a round: the first dependable ones, those of this machine before others.
    pub(crate) fn team(&self, round: RoundId) -> Vec<WorkerId> {
        let dependable = self.workers.iter().filter(|(_, w)| w.is_dependable()).map(|(id, _)| *id);
        let mut able: Vec<WorkerId> = dependable.collect();
        let Some(slots_max) = self.rounds.get(&round).and_then(|r| r.slots_max) else { return able };
        able.sort_by_key(|id| (self.seats[&id.seat].is_remote, *id));
        let mut left = i64::from(slots_max);
        able.into_iter()
            .take_while(|id| {
                let takes_part = left > 0;
                left -= i64::from(self.seats[&id.seat].slots);
                takes_part
            })
            .collect()
    }
}

/// Blocks go to those who take part.
pub(super) fn gets_blocks(picture: &Picture, worker: WorkerId, round: RoundId) -> Verdict {
    let limit = picture.rounds.get(&round).and_then(|r| r.slots_max);
    promise!(
        limit.is_none() || picture.team(round).contains(&worker),
        "only_those_who_take_part_get_blocks",
        "{round}, {limit:?} slots: to {worker}, not one of {:?}",
        picture.team(round)
    );
    Ok(())
}
