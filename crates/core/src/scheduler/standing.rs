//! Where a seat stands, for whoever has to say whom it waits for.

use super::Scheduler;
use super::roster::SeatState;
use crate::ids::SeatId;
use crate::job::Death;
use crate::time::{Span, Time};

/// What the scheduler believes of a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its worker is there, and said nothing for so long.
    Up(Span),
    /// Somebody is being started there. If there was one before, this is how that one ended.
    Starting(Option<Death>),
    /// It is empty for a moment, after this.
    Resting(Option<Death>),
    /// Nobody will sit there.
    GivenUp,
}

impl Scheduler {
    /// Where a seat stands; `None` for one that was removed.
    pub fn standing(&self, now: Time, seat: SeatId) -> Option<Standing> {
        let seat = self.roster.seats.get(&seat)?;
        Some(match &seat.state {
            SeatState::Up(worker) => Standing::Up(now.since(worker.heard)),
            SeatState::Starting { .. } => Standing::Starting(seat.last_death.clone()),
            SeatState::Resting { .. } => Standing::Resting(seat.last_death.clone()),
            SeatState::GivenUp => Standing::GivenUp,
        })
    }
}
