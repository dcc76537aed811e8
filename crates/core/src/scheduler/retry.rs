//! What a loss costs: the blocks that were not delivered, and a seat that must be filled again.

use super::roster::SeatState;
use super::{Action, Scheduler};
use crate::ids::{RoundId, SeatId, WorkerId};
use crate::job::{Cause, Death, RoundFailure};
use crate::journal::What;
use crate::time::{Span, Time};

impl Scheduler {
    pub(super) fn on_worker_lost(
        &mut self,
        now: Time,
        worker: WorkerId,
        death: Death,
        out: &mut Vec<Action>,
    ) {
        let Some(seat) = self.roster.seats.get_mut(&worker.seat) else { return };
        if seat.incarnation != worker.incarnation
            || matches!(seat.state, SeatState::Resting { .. } | SeatState::GivenUp)
        {
            return; // an echo of a loss already dealt with
        }
        out.push(Action::Note(What::WorkerLost(worker, death.clone())));
        let rounds: Vec<RoundId> =
            seat.worker().map(|w| w.leases.keys().copied().collect()).unwrap_or_default();
        for &round in &rounds {
            self.return_leases(worker, round, Some(&death), out);
        }
        for &round in &rounds {
            self.fail_if_poisoned(now, round, out);
        }
        self.rest(now, worker, death, out);
        for round in rounds {
            self.place(now, round, out);
        }
        if self.roster.is_deserted() {
            self.fail_all(now, out);
        }
    }

    /// Takes back everything a worker has of a round; with a death, blames the blocks it died inside.
    pub(super) fn return_leases(
        &mut self,
        worker: WorkerId,
        round: RoundId,
        death: Option<&Death>,
        out: &mut Vec<Action>,
    ) {
        if let Some(holder) = self.roster.get_mut(worker) {
            holder.leases.remove(&round);
            holder.letting_go.remove(&round);
        }
        let Some(record) = self.rounds.get_mut(&round) else { return };
        for (block, state) in (0..).zip(&mut record.blocks) {
            if !state.revoke(worker) {
                continue;
            }
            record.leased -= 1;
            if let Some(death) = death.filter(|d| d.cause.is_telling() && d.inside.contains(&(round, block)))
            {
                state.kills += 1;
                record.deaths.entry(block).or_default().push((worker, death.clone()));
            }
        }
        self.close_if_idle(round, out);
    }

    fn fail_if_poisoned(&mut self, now: Time, round: RoundId, out: &mut Vec<Action>) {
        let Some(record) = self.rounds.get_mut(&round).filter(|r| !r.over) else { return };
        let kills_max = self.config.kills_max;
        let poison = (0..).zip(&record.blocks).find(|(_, b)| !b.done && b.kills >= kills_max).map(|(n, _)| n);
        if let Some(block) = poison {
            let deaths = record.deaths.remove(&block).unwrap_or_default();
            self.fail(now, round, RoundFailure::Poison { block, deaths }, out);
        }
    }

    /// Empties a seat and says when, if ever, it is filled again: at once after useful work, later and later after
    /// starts that came to nothing.
    fn rest(&mut self, now: Time, worker: WorkerId, death: Death, out: &mut Vec<Action>) {
        let config = self.config;
        let seat = self.roster.seats.get_mut(&worker.seat).expect("the caller found it");
        if seat.worker().is_some_and(|w| now.since(w.since) >= config.fruitful_after) {
            seat.fruitless = 0;
        }
        // One that died inside a block proves nothing about its seat: the block answers for it. Nor does one that was
        // ended for being slow to let go.
        let blames_a_block = death.cause.is_telling() && !death.inside.is_empty();
        if !blames_a_block && death.cause != Cause::Unresponsive {
            seat.fruitless += 1;
        }
        seat.last_death = Some(death);
        if seat.fruitless > config.fruitless_max {
            seat.state = SeatState::GivenUp;
            out.push(Action::Note(What::SeatGivenUp(worker)));
            return;
        }
        let pause = match seat.fruitless {
            0 | 1 => Span(0),
            n => Span(config.restart_after.0 << (n - 2).min(10)),
        };
        seat.state = SeatState::Resting { until: now + pause };
        if pause == Span(0) {
            self.start(now, worker.seat, out);
        }
    }

    /// Fills an empty seat with its next incarnation.
    pub(super) fn start(&mut self, now: Time, seat_id: SeatId, out: &mut Vec<Action>) {
        let seat = self.roster.seats.get_mut(&seat_id).expect("only known seats are filled");
        assert!(matches!(seat.state, SeatState::Resting { .. }), "{seat_id} is taken");
        seat.incarnation += 1;
        seat.state = SeatState::Starting { since: now, dying: false };
        let worker = WorkerId { seat: seat_id, incarnation: seat.incarnation };
        out.push(Action::Note(What::WorkerStarted(worker)));
        out.push(Action::Start { worker });
    }

    /// Tries every seat once more. A new round is a new occasion: what kept workers from starting may be over.
    pub(super) fn revive(&mut self, now: Time, out: &mut Vec<Action>) {
        let seats: Vec<SeatId> = self.roster.seats.keys().copied().collect();
        for seat_id in seats {
            let seat = self.roster.seats.get_mut(&seat_id).expect("a key of the map");
            seat.fruitless = self.config.fruitless_max;
            seat.state = SeatState::Resting { until: now };
            self.start(now, seat_id, out);
        }
    }

    pub(super) fn fail_all(&mut self, now: Time, out: &mut Vec<Action>) {
        let open: Vec<RoundId> = self.rounds.iter().filter(|(_, r)| !r.over).map(|(id, _)| *id).collect();
        for round in open {
            let deaths = self
                .roster
                .seats
                .iter()
                .filter_map(|(&seat, s)| {
                    Some((WorkerId { seat, incarnation: s.incarnation }, s.last_death.clone()?))
                })
                .collect();
            self.fail(now, round, RoundFailure::NoWorkers { deaths }, out);
        }
    }
}
