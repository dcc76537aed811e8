//! The loss of a worker: its undelivered blocks are assigned again, and its seat is filled again.

use super::roster::{SeatRecord, SeatState};
use super::{Action, Config, Scheduler};
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
        self.rounds.values_mut().for_each(|r| r.recalls.retain(|asked, _| *asked != worker));
        let rounds: Vec<RoundId> =
            seat.worker().map(|w| w.leases.keys().copied().collect()).unwrap_or_default();
        for &round in &rounds {
            self.return_leases(worker, round, Some(&death), out);
        }
        for &round in &rounds {
            self.fail_if_poisoned(now, round, out);
        }
        self.rest(now, worker, death, !rounds.is_empty(), out);
        self.go_on(now, rounds, out);
    }

    /// Removes a seat: its worker's blocks go to others, no block is blamed, and its record is dropped.
    pub(super) fn on_seat_removed(&mut self, now: Time, seat_id: SeatId, out: &mut Vec<Action>) {
        let Some(seat) = self.roster.seats.get(&seat_id) else { return };
        let worker = WorkerId { seat: seat_id, incarnation: seat.incarnation };
        let rounds: Vec<RoundId> =
            seat.worker().map(|w| w.leases.keys().copied().collect()).unwrap_or_default();
        let was_up = seat.worker().is_some();
        if was_up {
            self.roster.last_up = now;
        }
        for &round in &rounds {
            self.return_leases(worker, round, None, out);
        }
        self.rounds.values_mut().for_each(|r| r.recalls.retain(|asked, _| *asked != worker));
        self.speeds.forget(seat_id);
        self.leave_home(seat_id);
        self.roster.seats.remove(&seat_id);
        if was_up {
            self.begin_to_be_alone(now, seat_id);
        }
        self.deadlines.forget(seat_id);
        out.push(Action::Note(What::SeatRemoved(seat_id)));
        self.go_on(now, rounds, out);
    }

    /// Assigns missing blocks of these rounds again, or fails all rounds if no worker is left or expected.
    fn go_on(&mut self, now: Time, rounds: Vec<RoundId>, out: &mut Vec<Action>) {
        for round in rounds {
            self.place(now, round, out);
        }
        self.place_held(now, out);
        if self.roster.is_deserted() {
            self.fail_all(now, out);
        }
    }

    /// Takes back all leases of a worker in a round; after a death, counts it against the blocks it was running.
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
        record.paces.remove(&worker);
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

    /// Empties a seat and decides when, if ever, it is filled again: immediately after useful work, with growing pauses after failed
    /// starts.
    ///
    /// A problem with another host may be temporary, and trying costs nothing while there are other workers. So such a seat is given up
    /// only if there is nothing else to wait for.
    fn rest(&mut self, now: Time, worker: WorkerId, death: Death, had_blocks: bool, out: &mut Vec<Action>) {
        let config = self.config;
        let seat = self.roster.seats.get_mut(&worker.seat).expect("the caller found it");
        let lived = seat.worker().map(|w| now.since(w.since));
        let was_up = lived.is_some();
        if lived.is_some_and(|lived| lived >= config.fruitful_after) {
            seat.fruitless = 0;
        }
        // One that died inside a block proves nothing about its seat: the block answers for it. Nor does one that was
        // ended for being slow to let go.
        let blames_a_block = death.cause.is_telling() && !death.inside.is_empty();
        if seat.remote && !was_up {
            seat.failed_starts += 1;
        } else if !blames_a_block && death.cause != Cause::Unresponsive {
            seat.fruitless += 1;
            if seat.remote && had_blocks {
                if seat.vain == 0 || lived.is_some_and(|lived| lived >= config.vain_life) {
                    seat.vain_since = now;
                }
                seat.vain += 1;
            }
        }
        seat.last_death = Some(death);
        let pause = pause(seat, &config);
        seat.state = SeatState::Resting { until: now + pause };
        if was_up {
            (seat.vacant_since, self.roster.last_up) = (now, now);
            self.begin_to_be_alone(now, worker.seat);
        }
        if self.is_hopeless(now, worker.seat, was_up) {
            self.give_up(worker.seat, out);
        } else if pause == Span(0) {
            self.start(now, worker.seat, out);
        }
    }

    /// A worker has gone. Losses of hosts count from when there is nobody else.
    fn begin_to_be_alone(&mut self, now: Time, gone: SeatId) {
        if self.roster.is_empty() {
            let others = self.roster.seats.iter_mut().filter(|(seat, _)| **seat != gone);
            others.for_each(|(_, seat)| seat.vain_since = now);
        } else if let Some(seat) = self.roster.seats.get_mut(&gone) {
            seat.vain_since = now;
        }
    }

    /// Whether a seat that was just emptied should be given up.
    fn is_hopeless(&self, now: Time, seat_id: SeatId, was_up: bool) -> bool {
        let seat = &self.roster.seats[&seat_id];
        let is_useless = seat.fruitless > self.config.fruitless_max;
        if !seat.remote {
            return is_useless;
        }
        let is_late = self.roster.gives_up_at(seat, &self.config) <= now;
        let is_in_vain = seat.vain > self.config.vain_max;
        self.roster.is_empty() && (is_late || (is_useless || is_in_vain) && was_up)
    }

    pub(super) fn give_up(&mut self, seat_id: SeatId, out: &mut Vec<Action>) {
        let seat = self.roster.seats.get_mut(&seat_id).expect("only known seats are given up");
        seat.state = SeatState::GivenUp;
        let worker = WorkerId { seat: seat_id, incarnation: seat.incarnation };
        out.push(Action::Note(What::SeatGivenUp(worker)));
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

    /// A worker is up, so hosts that were given up for lack of patience are tried again.
    pub(super) fn retry_given_up(&mut self, now: Time) {
        let fruitless_max = self.config.fruitless_max;
        let given_up = |s: &SeatRecord| s.remote && matches!(s.state, SeatState::GivenUp);
        let seats = self.roster.seats.iter_mut().filter(|(_, s)| given_up(s));
        for (&seat_id, seat) in seats.filter(|(_, s)| s.fruitless <= fruitless_max) {
            let until = now + pause(seat, &self.config);
            seat.state = SeatState::Resting { until };
            self.deadlines.note(seat_id, until);
        }
    }

    /// Tries every seat once more for a new round: the cause of failed starts may be gone.
    pub(super) fn revive(&mut self, now: Time, out: &mut Vec<Action>) {
        let seats: Vec<SeatId> = self.roster.seats.keys().copied().collect();
        for seat_id in seats {
            let seat = self.roster.seats.get_mut(&seat_id).expect("a key of the map");
            (seat.fruitless, seat.vain) = (self.config.fruitless_max, self.config.vain_max);
            seat.vacant_since = Time::default(); // the patience with it is used up
            seat.vain_since = now;
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

/// How long a seat stays empty after a loss.
fn pause(seat: &SeatRecord, config: &Config) -> Span {
    let doubled = |span: Span, times: u32| Span(span.0 << times.min(10));
    match (seat.failed_starts, seat.fruitless) {
        (0, 0 | 1) => Span(0),
        (0, n) if !seat.remote => doubled(config.restart_after, n - 2),
        (0, n) => doubled(config.remote_restart_after, n - 2).min(config.remote_restart_max),
        (n, _) => doubled(config.remote_restart_after, n - 1).min(config.remote_restart_max),
    }
}
