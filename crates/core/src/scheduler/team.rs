//! Who takes part in a round that not everybody should.
//!
//! The first dependable workers in a fixed order, those of this machine before those of others: so the same ones take part
//! in the next such round and have its chunks at hand, and when one dies the next in the order takes its place.

use super::Roster;
use crate::ids::WorkerId;

/// Who may be given blocks of a round.
pub(super) enum Team {
    Everybody,
    Only(Vec<WorkerId>),
}

impl Team {
    /// As many workers as have so many slots together.
    pub(super) fn of(roster: &Roster, slots_max: Option<u32>) -> Self {
        let Some(slots_max) = slots_max else { return Team::Everybody };
        let mut able: Vec<(bool, WorkerId, u32)> = roster
            .up()
            .filter(|(_, _, w)| w.is_dependable())
            .map(|(id, seat, _)| (seat.remote, id, seat.slots))
            .collect();
        able.sort_unstable();
        let mut slots = 0_u32;
        able.retain(|(_, _, more)| {
            let takes_part = slots < slots_max.max(1);
            slots = slots.saturating_add(*more);
            takes_part
        });
        Team::Only(able.into_iter().map(|(_, id, _)| id).collect())
    }

    pub(super) fn has(&self, worker: WorkerId) -> bool {
        match self {
            Team::Everybody => true,
            Team::Only(members) => members.contains(&worker),
        }
    }
}
