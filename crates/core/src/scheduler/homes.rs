//! The homes of partitions: the seats that have their states.
//!
//! A round over states assigns each block to its partition's *home*, the seat that had it last. Such a block is not recalled, not backed
//! up and not placed by speed: anywhere else, its state would have to be rebuilt first.
//!
//! When the worker on a home is lost, another one usually sits there in a moment. Its partitions wait for that one, and
//! only if nobody is there in time do they get another home; otherwise every loss would make states again twice, once
//! elsewhere and once when the seat gets its share back. The same goes for a worker that is silent: its partitions go to
//! others at once, as any block does.
//!
//! ```text
//!              up, dependable
//!   home ────────────────────────▶ given to it
//!     │ just lost, being filled ─▶ waits, at most `home_patience`
//!     └ else ────────────────────▶ given to who has the fewest for its slots: its home from now on
//! ```
//!
//! At the beginning of a round a worker that has no partition gets some from those who have more than an even share.

use super::placement::{Why, grant, shares};
use super::roster::{Roster, SeatRecord, SeatState};
use super::round::RoundRecord;
use super::{Action, Scheduler};
use crate::ids::{Block, HoldId, RoundId, SeatId, WorkerId};
use crate::journal::What;
use crate::time::{Span, Time};
use std::collections::BTreeMap;

/// The homes of the partitions of a hold.
pub(crate) type Homes = BTreeMap<Block, SeatId>;

/// A worker that may get partitions.
struct Able {
    id: WorkerId,
    slots: u32,
    /// How many partitions of the hold are at home there.
    has: u32,
}

impl Able {
    /// Whether it would have fewer for its slots than the other, each with one more.
    fn is_less_loaded(&self, other: &Able) -> bool {
        let load = |a: &Able, b: &Able| u64::from(a.has + 1) * u64::from(b.slots);
        load(self, other) < load(other, self)
    }
}

impl Scheduler {
    /// Forgets a hold that the user dropped.
    pub(super) fn on_hold_dropped(&mut self, hold: HoldId) {
        self.homes.remove(&hold);
    }

    /// Forgets a removed seat.
    pub(super) fn leave_home(&mut self, seat: SeatId) {
        for homes in self.homes.values_mut() {
            homes.retain(|_, home| *home != seat);
        }
    }

    /// Whether any partition of this hold is at home on this seat.
    pub fn is_home(&self, hold: HoldId, seat: SeatId) -> bool {
        self.homes.get(&hold).is_some_and(|homes| homes.values().any(|home| *home == seat))
    }

    /// Assigns the blocks of a round over states that no dependable worker has, except those that wait for their home.
    pub(super) fn place_at_home(
        &mut self,
        now: Time,
        round: RoundId,
        needy: Vec<Block>,
        out: &mut Vec<Action>,
    ) {
        let patience = self.config.home_patience;
        let record = self.rounds.get_mut(&round).expect("the caller looked");
        let hold = record.spec.held.expect("the caller looked");
        let homes = self.homes.entry(hold).or_default();
        let roster = &mut self.roster;
        let mut able = able(roster, homes);
        if able.is_empty() {
            return;
        }
        let mut given: BTreeMap<WorkerId, Vec<Block>> = BTreeMap::new();
        let mut homeless: Vec<Block> = Vec::new();
        for block in needy {
            let home = homes.get(&block).copied();
            // If a block killed twice at its home, the seat may be the cause.
            let kills = record.blocks[block as usize].kills;
            let seat = home.filter(|_| kills < 2).and_then(|seat| Some((seat, roster.seats.get(&seat)?)));
            match seat {
                Some((seat, _)) if able.iter().any(|a| a.id.seat == seat) => {
                    let worker = WorkerId { seat, incarnation: roster.seats[&seat].incarnation };
                    given.entry(worker).or_default().push(block);
                }
                Some((_, seat)) if is_awaited(now, seat, patience) => {}
                _ => homeless.push(block),
            }
        }
        if homes.is_empty() {
            // Neighbouring blocks together, so that few roots are sent.
            let weights: Vec<(WorkerId, f64)> = able.iter().map(|a| (a.id, f64::from(a.slots))).collect();
            for (blocks, (worker, _)) in shares(&homeless, &weights).into_iter().zip(&weights) {
                homes.extend(blocks.iter().map(|&block| (block, worker.seat)));
                given.entry(*worker).or_default().extend(blocks);
            }
        } else {
            for block in homeless {
                let old = homes.get(&block).copied();
                let others = |a: &Able| Some(a.id.seat) != old || able.len() == 1;
                let places = (0..able.len()).filter(|&n| others(&able[n]));
                let best = places.reduce(|a, b| if able[b].is_less_loaded(&able[a]) { b } else { a });
                let best = &mut able[best.expect("somebody is able")];
                best.has += 1;
                homes.insert(block, best.id.seat);
                given.entry(best.id).or_default().push(block);
            }
        }
        for (worker, mut blocks) in given.into_iter().filter(|(_, blocks)| !blocks.is_empty()) {
            // What has killed goes last, or first while nothing has been delivered: see `place`.
            let is_last = |b: &Block| (record.blocks[*b as usize].kills > 0) == (record.done > 0);
            blocks.sort_by_key(|b| (is_last(b), *b));
            grant(roster, record, now, round, worker, &blocks, Why::Needed, out);
        }
    }

    /// A worker that has no partition gets its share from those who have more than theirs. Asked once, when a round
    /// begins; who has got some is not asked again.
    pub(super) fn settle_newcomers(&mut self, hold: HoldId, out: &mut Vec<Action>) {
        let Some(homes) = self.homes.get_mut(&hold) else { return };
        let mut able = able(&self.roster, homes);
        if able.iter().all(|a| a.has > 0) {
            return;
        }
        let slots: u32 = able.iter().map(|a| a.slots).sum();
        let all: u32 = able.iter().map(|a| a.has).sum();
        let most = |a: &Able| (all * a.slots).div_ceil(slots);
        let newcomers: Vec<usize> = (0..able.len()).filter(|&n| able[n].has == 0).collect();
        for to in newcomers {
            let mut moved: BTreeMap<SeatId, Vec<u32>> = BTreeMap::new();
            // An even share, rounded down: it is not worth making a state again for less than a whole one.
            while able[to].has < (all * able[to].slots / slots).max(1) {
                let from = (0..able.len()).filter(|&n| able[n].has > most(&able[n]));
                let Some(from) = from.reduce(|a, b| if able[a].is_less_loaded(&able[b]) { b } else { a })
                else {
                    break;
                };
                let (old, new) = (able[from].id.seat, able[to].id.seat);
                let last = homes.iter().rev().find(|(_, home)| **home == old).map(|(block, _)| *block);
                let block = last.expect("it has more than its share");
                homes.insert(block, new);
                able[from].has -= 1;
                able[to].has += 1;
                moved.entry(old).or_default().push(block);
            }
            for (from, partitions) in moved {
                let to = able[to].id.seat;
                out.push(Action::Note(What::Moved { hold, partitions, from, to }));
            }
        }
    }

    /// When the first block that waits for its home has waited long enough.
    pub(super) fn next_homeless(&self, record: &RoundRecord) -> Option<Time> {
        let hold = record.spec.held.filter(|_| !record.over)?;
        let homes = self.homes.get(&hold)?;
        self.roster.up().find(|(_, _, w)| w.is_dependable())?;
        let is_suspect = |worker| self.roster.is_suspect(worker);
        let waiting = (0..).zip(&record.blocks).filter(|(_, b)| b.is_needy(is_suspect));
        let seats = waiting.filter_map(|(block, _)| self.roster.seats.get(homes.get(&block)?));
        let patience = self.config.home_patience;
        seats.filter(|seat| is_coming(seat, patience)).map(|seat| seat.vacant_since + patience).min()
    }

    /// Assigns another home to partitions that have waited long enough.
    pub(super) fn rehome(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_due = |r: &RoundRecord| self.next_homeless(r).is_some_and(|at| at <= now);
        let due: Vec<RoundId> = self.rounds.iter().filter(|(_, r)| is_due(r)).map(|(id, _)| *id).collect();
        for round in due {
            self.place(now, round, out);
        }
    }

    /// Nobody will sit on a seat for a while: what waits for it waits no more.
    pub(super) fn place_held(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_open = |r: &RoundRecord| !r.over && r.spec.held.is_some();
        let open: Vec<RoundId> = self.rounds.iter().filter(|(_, r)| is_open(r)).map(|(id, _)| *id).collect();
        for round in open {
            self.place(now, round, out);
        }
    }

    /// Whether a block may be with nobody because the seat of its state is being filled.
    pub(super) fn waits_for_home(&self, record: &RoundRecord, block: Block) -> bool {
        let home = record.spec.held.and_then(|hold| self.homes.get(&hold)?.get(&block));
        let seat = home.and_then(|seat| self.roster.seats.get(seat));
        seat.is_some_and(|seat| matches!(seat.state, SeatState::Starting { .. } | SeatState::Resting { .. }))
    }
}

/// Whether somebody is started, or will be soon, on a seat where somebody was.
fn is_coming(seat: &SeatRecord, patience: Span) -> bool {
    seat.has_joined
        && match seat.state {
            SeatState::Starting { dying, .. } => !dying,
            SeatState::Resting { until } => until < seat.vacant_since + patience,
            SeatState::Up(_) | SeatState::GivenUp => false,
        }
}

fn is_awaited(now: Time, seat: &SeatRecord, patience: Span) -> bool {
    is_coming(seat, patience) && now.since(seat.vacant_since) < patience
}

/// Everybody who may get blocks, with what they have of a hold.
fn able(roster: &Roster, homes: &Homes) -> Vec<Able> {
    let mut has: BTreeMap<SeatId, u32> = BTreeMap::new();
    for seat in homes.values() {
        *has.entry(*seat).or_default() += 1;
    }
    let dependable = roster.up().filter(|(_, _, w)| w.is_dependable());
    let able = dependable.map(|(id, seat, _)| Able {
        id,
        slots: seat.slots,
        has: has.get(&id.seat).copied().unwrap_or(0),
    });
    able.collect()
}
