//! When which seat must be looked at, without asking every seat after every event.
//!
//! What a worker says moves its deadlines away, once a second for each of thousands. So nothing is done then: a seat
//! keeps the moment that was noted for it, which is never later than its deadline. When that moment comes the seat is
//! looked at and its true deadline noted. A seat costs one look a second that way, however much is heard of others.
//!
//! A deadline comes nearer only in a call of [`Scheduler::handle`] whose event or actions name the seat; those are
//! noted again at its end. That no deadline is earlier than what is noted is an invariant, checked with the others.

use super::{Action, Event, Scheduler};
use crate::ids::SeatId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// For each seat that has a deadline, a moment that is not later.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    order: BTreeSet<(Time, SeatId)>,
    by_seat: BTreeMap<SeatId, Time>,
}

impl Deadlines {
    /// Sees to it that a seat is looked at by then.
    pub(crate) fn note(&mut self, seat: SeatId, at: Time) {
        let noted = self.by_seat.entry(seat).or_insert(Time(u64::MAX));
        if at < *noted {
            self.order.remove(&(*noted, seat));
            self.order.insert((at, seat));
            *noted = at;
        }
    }

    /// A seat is no more.
    pub(crate) fn forget(&mut self, seat: SeatId) {
        if let Some(at) = self.by_seat.remove(&seat) {
            self.order.remove(&(at, seat));
        }
    }

    /// Takes out the seats to be looked at now, in their order.
    pub(crate) fn take_due(&mut self, now: Time) -> BTreeSet<SeatId> {
        let mut due = BTreeSet::new();
        while let Some(&(at, seat)) = self.order.first().filter(|(at, _)| *at <= now) {
            self.order.remove(&(at, seat));
            self.by_seat.remove(&seat);
            due.insert(seat);
        }
        due
    }

    /// When the first seat is to be looked at.
    pub(crate) fn first(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// What is noted for a seat.
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
