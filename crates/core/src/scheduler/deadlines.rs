//! When each seat must be examined, without examining every seat after every event.
//!
//! Every message of a worker postpones its deadlines, once a second for each of thousands of workers. So postponing does nothing: a seat
//! keeps its noted time, which is never later than its deadline. At that time the seat is examined and its current deadline noted. So a
//! seat is examined about once a second, however many messages arrive.
//!
//! A deadline moves forward only in a call of [`Scheduler::handle`] whose event or actions name the seat; such seats are noted again at
//! the end of the call. An invariant checks that no deadline is earlier than its noted time.

use super::{Action, Event, Scheduler};
use crate::ids::SeatId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// For each seat with a deadline, a time that is not later.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    order: BTreeSet<(Time, SeatId)>,
    by_seat: BTreeMap<SeatId, Time>,
}

impl Deadlines {
    /// Notes that a seat must be examined by then.
    pub(crate) fn note(&mut self, seat: SeatId, at: Time) {
        let noted = self.by_seat.entry(seat).or_insert(Time(u64::MAX));
        if at < *noted {
            self.order.remove(&(*noted, seat));
            self.order.insert((at, seat));
            *noted = at;
        }
    }

    /// Removes a seat.
    pub(crate) fn forget(&mut self, seat: SeatId) {
        if let Some(at) = self.by_seat.remove(&seat) {
            self.order.remove(&(at, seat));
        }
    }

    /// Removes and returns the seats that are due, in order.
    pub(crate) fn take_due(&mut self, now: Time) -> BTreeSet<SeatId> {
        let mut due = BTreeSet::new();
        while let Some(&(at, seat)) = self.order.first().filter(|(at, _)| *at <= now) {
            self.order.remove(&(at, seat));
            self.by_seat.remove(&seat);
            due.insert(seat);
        }
        due
    }

    /// The earliest noted time.
    pub(crate) fn first(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The noted time of a seat.
    pub(crate) fn noted(&self, seat: SeatId) -> Option<Time> {
        self.by_seat.get(&seat).copied()
    }
}

impl Scheduler {
    /// The seat whose own deadlines an event may bring nearer.
    pub(super) fn seat_of(event: &Event) -> Option<SeatId> {
        match event {
            Event::SeatAdded { seat, .. } | Event::SeatRemoved { seat } => Some(*seat),
            Event::WorkerJoined { worker, .. }
            | Event::WorkerSpoke { worker }
            | Event::WorkerLost { worker, .. }
            | Event::PartDelivered { worker, .. }
            | Event::Computed { worker, .. }
            | Event::Returned { worker, .. }
            | Event::RoundLetGo { worker, .. } => Some(worker.seat),
            Event::Faulted { worker, .. } => worker.map(|w| w.seat),
            Event::RoundSubmitted { .. }
            | Event::RoundCancelled { .. }
            | Event::HoldDropped { .. }
            | Event::Ticked => None,
        }
    }

    /// Notes the deadlines of all seats that were named.
    pub(super) fn note_deadlines(&mut self, seat: Option<SeatId>, actions: &[Action]) {
        let named = actions.iter().filter_map(|action| match action {
            Action::Start { worker }
            | Action::Assign { worker, .. }
            | Action::Cancel { worker, .. }
            | Action::Ping { worker } => Some(worker.seat),
            _ => None,
        });
        for seat in seat.into_iter().chain(named) {
            self.note_deadline(seat);
        }
    }

    pub(super) fn note_deadline(&mut self, seat: SeatId) {
        let is_empty = self.roster.is_empty();
        let due = self.roster.seats.get(&seat).and_then(|record| self.deadline(record, is_empty));
        if let Some(at) = due {
            self.deadlines.note(seat, at);
        }
    }

    /// Nobody is up any more: the patience with hosts that rest begins to run.
    pub(super) fn note_all_deadlines(&mut self) {
        let seats: Vec<SeatId> = self.roster.seats.keys().copied().collect();
        seats.into_iter().for_each(|seat| self.note_deadline(seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_moment_noted_for_a_seat_counts() {
        let mut deadlines = Deadlines::default();
        deadlines.note(SeatId(1), Time(50));
        deadlines.note(SeatId(2), Time(40));
        deadlines.note(SeatId(1), Time(70));
        assert_eq!((deadlines.first(), deadlines.noted(SeatId(1))), (Some(Time(40)), Some(Time(50))));
        deadlines.note(SeatId(1), Time(30));
        assert_eq!(deadlines.take_due(Time(35)), BTreeSet::from([SeatId(1)]));
        assert_eq!((deadlines.first(), deadlines.noted(SeatId(1))), (Some(Time(40)), None));
    }
}
