//! The workers that take part in a round that is limited to some of them.
//!
//! They are the first dependable workers in a fixed order, those of this machine before others. So the same workers take part in the
//! next such round and have its chunks, and if one dies, the next in the order replaces it.

use super::Roster;
use crate::ids::WorkerId;

/// The workers that may be assigned blocks of a round.
pub(super) enum Team {
    Everybody,
    Only(Vec<WorkerId>),
}

impl Team {
    /// The first workers that together have this many slots.
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
