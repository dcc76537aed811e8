//! The state machine of the master: which worker runs which block, and which results count.
//!
//! Comes in: an [`Event`] and the time, through [`Scheduler::handle`]. Goes out: [`Action`]s of the same call, to be carried out in
//! order. The scheduler has no clock, sends nothing and never sees data; it knows chunks by index, blocks by number and results by the
//! root of their subtree.
//!
//! ```text
//!   events                                       actions
//!   SeatAdded, SeatRemoved, WorkerJoined,  ┌───────────┐  Start, Kill, Ping
//!   WorkerSpoke, WorkerLost ──────────────▶│           │──▶ Assign, Cancel
//!   RoundSubmitted, RoundCancelled, ──────▶│ Scheduler │
//!   HoldDropped ──────────────────────────▶│           │
//!   Computed, PartDelivered, Faulted, ────▶│           │──▶ Accept, Discard
//!   RoundLetGo, Returned ─────────────────▶│           │──▶ Recall, Apart
//!   Ticked ───────────────────────────────▶└───────────┘──▶ Finish, Fail, Close, Note
//! ```
//!
//! A round:
//!
//! ```text
//!   submitted ──▶ open ──▶ all blocks done: Finish ─┐
//!                  │                                ├──▶ over ──▶ no lease left: Close
//!                  └──▶ fault, poison, cancelled,  ─┘     holders are told to let go,
//!                       nobody left: Fail                 and killed if they do not
//! ```
//!
//! **Which results count.** A result is the root of a subtree and covers whole blocks. It counts only if its sender has a lease on every
//! block in it under the attempt it names, and none of them is done; otherwise all of it is dropped, because a combined result cannot
//! be separated. Late, repeated and overtaken results are the same case.
//!
//! **Slow workers** lose blocks that they have not started to idle workers, and late blocks get a backup: [`balance`].
//!
//! **States** stay on their workers, and blocks that need them are assigned there: [`homes`].
//!
//! **Invariants** between events are in [`invariants`], one named check for each.

mod action;
mod balance;
mod config;
mod deadlines;
mod event;
mod homes;
pub mod invariants;
mod median;
mod placement;
mod retry;
mod roster;
mod round;
mod speeds;
mod standing;
mod team;

pub use action::Action;
pub use config::Config;
pub use event::Event;
pub use standing::Standing;

use crate::ids::{HoldId, PartId, RoundId, SeatId, WorkerId};
use crate::job::{Cause, Death, RoundFailure, RoundSpec};
use crate::journal::What;
use crate::lease::BlockRange;
use crate::reduce::Node;
use crate::time::Time;
use deadlines::Deadlines;
use homes::Homes;
use roster::{Goodbye, Roster, SeatRecord, SeatState, WorkerRecord};
use round::RoundRecord;
use speeds::Speeds;
use std::collections::BTreeMap;

/// The state machine of the master.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    /// Every seat the user asked for.
    roster: Roster,
    /// Open rounds, and ended ones of which a worker still has a lease.
    rounds: BTreeMap<RoundId, RoundRecord>,
    /// Measured speeds of seats.
    speeds: Speeds,
    /// When each seat must be examined.
    deadlines: Deadlines,
    /// Where the states of partitions are.
    homes: BTreeMap<HoldId, Homes>,
}

impl Scheduler {
    /// A scheduler without seats and rounds.
    pub fn new(config: Config) -> Self {
        Scheduler {
            config,
            roster: Roster::default(),
            rounds: BTreeMap::new(),
            speeds: Speeds::default(),
            deadlines: Deadlines::default(),
            homes: BTreeMap::new(),
        }
    }

    /// Processes an event and appends the resulting actions to `out`.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let (seat, before) = (Self::seat_of(&event), out.len());
        let is_loss = matches!(event, Event::WorkerLost { .. } | Event::SeatRemoved { .. });
        self.take_in(now, event, out);
        self.note_deadlines(seat, &out[before..]);
        if is_loss && self.roster.is_empty() {
            self.note_all_deadlines();
        }
        if cfg!(debug_assertions) {
            invariants::check(self);
        }
    }

    fn take_in(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::SeatAdded { seat, slots, remote } => self.on_seat_added(now, seat, slots, remote, out),
            Event::SeatRemoved { seat } => self.on_seat_removed(now, seat, out),
            Event::WorkerJoined { worker, slots } => {
                self.on_worker_joined(now, worker, slots, out);
                self.rebalance(now, out);
            }
            Event::WorkerSpoke { worker } => self.hear(now, worker, out),
            Event::WorkerLost { worker, death } => self.on_worker_lost(now, worker, death, out),
            Event::RoundSubmitted { round, spec } => self.on_round_submitted(now, round, spec, out),
            Event::HoldDropped { hold } => self.on_hold_dropped(hold),
            Event::RoundCancelled { round } => self.fail(now, round, RoundFailure::Cancelled, out),
            Event::PartDelivered { part, worker, round, node, ranges } => {
                self.hear(now, worker, out);
                self.on_part_delivered(now, part, worker, (round, node), &ranges, out);
                self.rebalance(now, out);
            }
            Event::Computed { worker, round, blocks, span } => self.on_computed(worker, round, blocks, span),
            Event::Returned { worker, round, returned } => {
                self.hear(now, worker, out);
                self.on_returned(now, worker, round, &returned, out);
                self.rebalance(now, out);
            }
            Event::Faulted { worker, round, fault } => {
                if let Some(worker) = worker {
                    self.hear(now, worker, out);
                    let holds = self.roster.get(worker).is_some_and(|w| w.leases.contains_key(&round));
                    if !holds {
                        return; // of an attempt that no longer counts
                    }
                }
                self.fail(now, round, RoundFailure::Fault { worker, fault }, out);
            }
            Event::RoundLetGo { worker, round } => {
                self.hear(now, worker, out);
                self.on_round_let_go(worker, round, out);
                self.rebalance(now, out);
            }
            Event::Ticked => {
                self.on_ticked(now, out);
                self.rebalance(now, out);
            }
        }
    }

    /// When the next [`Event::Ticked`] is due if nothing else happens. There may be nothing to do then.
    pub fn next_deadline(&self) -> Option<Time> {
        let looks = self.rounds.values().filter(|r| !r.over).filter_map(|r| self.next_look(r));
        let homeless = self.rounds.values().filter_map(|r| self.next_homeless(r));
        looks.chain(homeless).chain(self.deadlines.first()).min()
    }

    /// When the next worker is to be pinged, suspected, killed, started or given up.
    fn next_judgement(&self) -> Option<Time> {
        let is_empty = self.roster.is_empty();
        self.roster.seats.values().filter_map(|seat| self.deadline(seat, is_empty)).min()
    }

    /// The deadline of a seat if no message arrives from it.
    fn deadline(&self, seat: &SeatRecord, is_empty: bool) -> Option<Time> {
        let c = &self.config;
        match &seat.state {
            SeatState::Starting { since, dying: false } if !seat.remote => Some(*since + c.start_within),
            SeatState::Resting { until } if seat.remote && is_empty => {
                Some(self.roster.gives_up_at(seat, c).min(*until))
            }
            SeatState::Resting { until } => Some(*until),
            SeatState::Up(w) if !w.dying && !w.leases.is_empty() => {
                let ping = w.heard.max(w.pinged) + c.ping_after;
                let verdict = w.heard + if w.suspect { c.lost_after } else { c.suspect_after };
                Some(ping.min(verdict).min(seat.let_go_by().unwrap_or(ping)))
            }
            _ => None,
        }
    }

    /// Whether every seat has a worker that is ready.
    pub fn is_complete(&self) -> bool {
        self.roster.seats.values().all(|s| s.worker().is_some())
    }

    /// Whether this seat has a worker that is ready.
    pub fn is_up(&self, seat: SeatId) -> bool {
        self.roster.seats.get(&seat).is_some_and(|s| s.worker().is_some())
    }

    /// How many seats have a worker that is ready.
    pub fn up_count(&self) -> usize {
        self.roster.up().count()
    }

    /// Whether this incarnation is awaited.
    pub fn is_starting(&self, worker: WorkerId) -> bool {
        let seat = self.roster.seats.get(&worker.seat).filter(|s| s.incarnation == worker.incarnation);
        seat.is_some_and(|s| matches!(s.state, SeatState::Starting { dying: false, .. }))
    }

    /// Seats that were given up, with the last incarnation and its death.
    pub fn given_up(&self) -> impl Iterator<Item = (WorkerId, Option<&Death>)> {
        self.roster
            .seats
            .iter()
            .filter(|(_, s)| matches!(s.state, SeatState::GivenUp))
            .map(|(&seat, s)| (WorkerId { seat, incarnation: s.incarnation }, s.last_death.as_ref()))
    }

    /// Seats on other hosts that never had a worker up and whose last start failed, with the newest incarnation and the last death. They
    /// are tried again; a caller that needs them need not wait.
    pub fn unstarted(&self) -> impl Iterator<Item = (WorkerId, &Death)> {
        self.roster.seats.iter().filter(|(_, s)| s.remote && !s.has_joined).filter_map(|(&seat, s)| {
            Some((WorkerId { seat, incarnation: s.incarnation }, s.last_death.as_ref()?))
        })
    }

    /// Number of slots of all seats that are not given up.
    pub fn slots(&self) -> u32 {
        self.roster.seats.values().filter(|s| !matches!(s.state, SeatState::GivenUp)).map(|s| s.slots).sum()
    }

    /// Workers that have blocks of a round, with how many.
    pub fn holders(&self, round: RoundId) -> impl Iterator<Item = (WorkerId, u32)> {
        self.roster.up().filter_map(move |(id, _, w)| Some((id, *w.leases.get(&round)?)))
    }

    /// Whether any round is open or waits for leases.
    pub fn is_busy(&self) -> bool {
        !self.rounds.is_empty()
    }

    fn on_seat_added(&mut self, now: Time, seat: SeatId, slots: u32, remote: bool, out: &mut Vec<Action>) {
        assert!(slots > 0, "a seat without slots");
        let worker = WorkerId { seat, incarnation: 0 };
        let old = self.roster.seats.insert(seat, SeatRecord::new(now, slots, remote));
        assert!(old.is_none(), "{seat} was added twice");
        out.push(Action::Note(What::WorkerStarted(worker)));
        out.push(Action::Start { worker });
    }

    fn on_worker_joined(&mut self, now: Time, worker: WorkerId, slots: u32, out: &mut Vec<Action>) {
        let Some(seat) = self.roster.seats.get_mut(&worker.seat) else { return };
        if seat.incarnation != worker.incarnation
            || !matches!(seat.state, SeatState::Starting { dying: false, .. })
        {
            return;
        }
        if slots == 0 {
            return self.kill(worker, Cause::Protocol("a worker without slots".into()), out);
        }
        (seat.slots, seat.has_joined, seat.failed_starts) = (slots, true, 0);
        seat.state = SeatState::Up(WorkerRecord::new(now));
        out.push(Action::Note(What::WorkerJoined(worker)));
        self.place_all(now, out);
        self.retry_given_up(now);
    }

    fn on_round_submitted(&mut self, now: Time, round: RoundId, spec: RoundSpec, out: &mut Vec<Action>) {
        assert!(spec.cut.chunks > 0, "{round} has no chunks");
        assert!(spec.held.is_none() || spec.cut.level == 0, "{round}: a state belongs to a single chunk");
        if let Some(hold) = spec.held {
            self.settle_newcomers(hold, out);
        }
        let (chunks, blocks) = (spec.cut.chunks, spec.cut.blocks());
        assert!(spec.done < blocks, "{round} has nothing left to do");
        let old = self.rounds.insert(round, RoundRecord::new(spec, now));
        assert!(old.is_none(), "{round} was submitted twice");
        out.push(Action::Note(What::RoundStarted { round, chunks, blocks }));
        if self.roster.is_deserted() {
            self.revive(now, out);
        }
        if self.roster.is_deserted() {
            self.fail_all(now, out); // there never was a seat
        } else {
            self.place(now, round, out);
        }
    }

    fn on_part_delivered(
        &mut self,
        now: Time,
        part: PartId,
        worker: WorkerId,
        (round, node): (RoundId, Node),
        ranges: &[BlockRange],
        out: &mut Vec<Action>,
    ) {
        let (Some(record), Some(_)) = (self.rounds.get_mut(&round), self.roster.get(worker)) else {
            out.push(Action::Discard { part, round, node });
            return;
        };
        let blocks = record.spec.cut.blocks_of(node);
        if blocks.is_empty() || !tiles(ranges, blocks.clone()) {
            let why = format!("a result for {node:?} that covers other blocks than it names");
            out.push(Action::Discard { part, round, node });
            self.kill(worker, Cause::Protocol(why), out);
            return;
        }
        let named = || ranges.iter().flat_map(|s| s.blocks().map(move |b| (b as usize, s.attempt)));
        let counts = !record.over
            && named()
                .all(|(b, attempt)| !record.blocks[b].done && record.blocks[b].is_held_as(worker, attempt));
        let mut returned = 0;
        for (b, attempt) in named() {
            let block = &mut record.blocks[b];
            if block.is_held_as(worker, attempt) {
                block.revoke(worker);
                returned += 1;
            }
            block.done |= counts;
        }
        record.leased -= returned;
        self.return_count(now, worker, round, returned);
        let record = self.rounds.get_mut(&round).expect("it was there");
        if counts {
            record.done += blocks.len() as u32;
            let finished = record.done as usize == record.blocks.len();
            let seat = self.roster.seats.get_mut(&worker.seat).expect("the worker is up");
            (seat.fruitless, seat.vain) = (0, 0);
            out.push(Action::Accept { part, round, node });
            if finished {
                out.push(Action::Finish { round });
                self.end(now, round, true, out);
            }
        } else {
            out.push(Action::Note(What::Discarded { round, worker, blocks: blocks.len() as u32 }));
            out.push(Action::Discard { part, round, node });
            self.close_if_idle(round, out);
            self.place(now, round, out);
        }
    }

    fn on_round_let_go(&mut self, worker: WorkerId, round: RoundId, out: &mut Vec<Action>) {
        match self.rounds.get(&round) {
            Some(record) if !record.over && self.roster.get(worker).is_some() => {
                self.kill(worker, Cause::Protocol(format!("it dropped {round}, which is not over")), out);
            }
            _ => self.return_leases(worker, round, None, out),
        }
    }

    fn on_ticked(&mut self, now: Time, out: &mut Vec<Action>) {
        self.excuse(now);
        let config = self.config;
        let seats = self.deadlines.take_due(now);
        let is_empty = self.roster.is_empty();
        let mut doubted = false;
        for &seat_id in &seats {
            let Some(seat) = self.roster.seats.get_mut(&seat_id) else { continue };
            let id = WorkerId { seat: seat_id, incarnation: seat.incarnation };
            let let_go_by = seat.let_go_by();
            match &mut seat.state {
                SeatState::Starting { since, dying: false }
                    if !seat.remote && now.since(*since) >= config.start_within =>
                {
                    let why = format!("no word from it within {}", config.start_within);
                    self.kill(id, Cause::Start(why), out);
                }
                SeatState::Resting { until } => {
                    let is_rested = *until <= now;
                    let seat = &self.roster.seats[&seat_id];
                    let is_late = self.roster.gives_up_at(seat, &config) <= now;
                    if seat.remote && is_empty && is_late {
                        self.give_up(seat_id, out);
                    } else if is_rested {
                        self.start(now, seat_id, out);
                    }
                }
                SeatState::Up(w) if !w.dying && !w.leases.is_empty() => {
                    let silent = now.since(w.heard);
                    if silent >= config.lost_after {
                        self.kill(id, Cause::Silent(silent.0), out);
                    } else if let_go_by.is_some_and(|by| by <= now) {
                        self.kill(id, Cause::Unresponsive, out);
                    } else {
                        if silent >= config.suspect_after && !w.suspect {
                            w.suspect = true;
                            doubted = true;
                            out.push(Action::Note(What::WorkerSuspected(id)));
                        }
                        if now.since(w.heard.max(w.pinged)) >= config.ping_after {
                            w.pinged = now;
                            out.push(Action::Ping { worker: id });
                        }
                    }
                }
                _ => {}
            }
        }
        seats.into_iter().for_each(|seat| self.note_deadline(seat));
        if doubted {
            self.place_all(now, out);
        }
        self.rehome(now, out);
        if self.roster.is_deserted() {
            self.fail_all(now, out);
        }
    }

    /// Time in which the master was stopped does not count against workers: after a gap it pings them before it suspects any.
    fn excuse(&mut self, now: Time) {
        let is_late = |due: Option<Time>| due.is_some_and(|due| now.since(due) >= self.config.ping_after);
        if !is_late(self.deadlines.first()) || !is_late(self.next_judgement()) {
            return;
        }
        let late = self.next_judgement().map(|due| now.since(due)).unwrap_or_default();
        let shifted = |time: Time| (time + late).min(now);
        self.roster.last_up = shifted(self.roster.last_up);
        for seat in self.roster.seats.values_mut() {
            seat.vacant_since = shifted(seat.vacant_since);
            seat.vain_since = shifted(seat.vain_since);
            match &mut seat.state {
                SeatState::Starting { since, .. } => *since = shifted(*since),
                SeatState::Up(w) => {
                    (w.heard, w.pinged) = (shifted(w.heard), shifted(w.pinged));
                    w.letting_go.values_mut().for_each(|bye| bye.since = bye.since.map(shifted));
                }
                SeatState::Resting { .. } | SeatState::GivenUp => {}
            }
        }
    }

    /// A worker sent a message: it is alive.
    fn hear(&mut self, now: Time, worker: WorkerId, out: &mut Vec<Action>) {
        let Some(record) = self.roster.get_mut(worker) else { return };
        record.heard = now;
        for bye in record.letting_go.values_mut() {
            bye.since.get_or_insert(now);
        }
        if std::mem::take(&mut record.suspect) {
            out.push(Action::Note(What::WorkerReturned(worker)));
            self.place_all(now, out);
        }
    }

    /// Kills a worker; it stays on record until its loss is reported, but gets no more blocks.
    fn kill(&mut self, worker: WorkerId, cause: Cause, out: &mut Vec<Action>) {
        let seat = self.roster.seats.get_mut(&worker.seat).expect("only known workers are killed");
        assert_eq!(seat.incarnation, worker.incarnation, "only the living are killed");
        let dying = match &mut seat.state {
            SeatState::Starting { dying, .. } => dying,
            SeatState::Up(w) => &mut w.dying,
            SeatState::Resting { .. } | SeatState::GivenUp => return,
        };
        if !std::mem::replace(dying, true) {
            out.push(Action::Kill { worker, cause });
        }
    }

    fn place_all(&mut self, now: Time, out: &mut Vec<Action>) {
        let open: Vec<RoundId> = self.rounds.iter().filter(|(_, r)| !r.over).map(|(id, _)| *id).collect();
        for round in open {
            self.place(now, round, out);
        }
    }

    fn fail(&mut self, now: Time, round: RoundId, failure: RoundFailure, out: &mut Vec<Action>) {
        if self.rounds.get(&round).is_some_and(|r| !r.over) {
            out.push(Action::Fail { round, failure });
            self.end(now, round, false, out);
        }
    }

    /// The round has ended. Workers that still have a lease on its blocks are told.
    fn end(&mut self, now: Time, round: RoundId, finished: bool, out: &mut Vec<Action>) {
        let record = self.rounds.get_mut(&round).expect("an open round");
        record.over = true;
        record.recalls.clear();
        if finished && self.config.balances && record.spec.held.is_none() {
            record.count_the_late(now);
            let seats = &self.roster.seats;
            self.speeds.learn(record.key(), &record.work, |seat| seats.get(&seat).map(|s| s.slots));
        }
        out.push(Action::Note(What::RoundOver { round, finished }));
        let holders: Vec<WorkerId> = self.holders(round).map(|(id, _)| id).collect();
        for worker in holders {
            let seat = self.roster.seats.get_mut(&worker.seat).expect("holders have seats");
            // A worker that is only late may finish; a silent one may not.
            let is_patient = finished && seat.worker().is_some_and(WorkerRecord::is_dependable);
            let within = seat.lets_go_within(&self.config, is_patient);
            let bye = Goodbye { since: (!seat.remote).then_some(now), within };
            seat.worker_mut().expect("holders are up").letting_go.insert(round, bye);
            out.push(Action::Cancel { worker, round, is_patient });
        }
        self.close_if_idle(round, out);
    }

    fn return_count(&mut self, now: Time, worker: WorkerId, round: RoundId, blocks: u32) {
        let Some(holder) = self.roster.get_mut(worker) else { return };
        let Some(left) = holder.leases.get_mut(&round) else { return };
        *left -= blocks;
        let has_none = *left == 0;
        if has_none {
            holder.leases.remove(&round);
            holder.letting_go.remove(&round);
        }
        let Some(record) = self.rounds.get_mut(&round) else { return };
        match record.paces.get_mut(&worker) {
            Some(_) if has_none => {
                record.paces.remove(&worker);
            }
            // Delivered blocks are done; returned ones say nothing about the others.
            Some(pace) if pace.progress.as_ref().is_none_or(|progress| progress.at != now) => {
                pace.since = now
            }
            _ => {}
        }
    }

    fn close_if_idle(&mut self, round: RoundId, out: &mut Vec<Action>) {
        if self.rounds.get(&round).is_some_and(|r| r.over && r.leased == 0) {
            self.rounds.remove(&round);
            out.push(Action::Close { round });
        }
    }
}

/// Whether the ranges are exactly these blocks, in order, none twice.
fn tiles(ranges: &[BlockRange], blocks: std::ops::Range<u32>) -> bool {
    let mut at = blocks.start;
    for range in ranges {
        if range.first != at || range.len == 0 || range.len > blocks.end - at {
            return false;
        }
        at += range.len;
    }
    at == blocks.end
}

#[cfg(test)]
mod tests;
