//! The state of a seat, as shown in messages about what a round waits for.

use super::Scheduler;
use super::roster::SeatState;
use crate::ids::SeatId;
use crate::job::Death;
use crate::time::{Span, Time};

/// What the scheduler believes of a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its worker is up. Time since its last message.
    Up(Span),
    /// A worker is being started. How the previous one ended, if there was one.
    Starting(Option<Death>),
    /// It pauses before the next start. How the previous worker ended, if there was one.
    Resting(Option<Death>),
    /// No worker will be started again.
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
