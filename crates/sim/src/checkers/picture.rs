//! The state of workers, rounds and blocks, reconstructed from the scheduler's events and actions.
//!
//! It shares no code with the scheduler, and decides nothing.

use super::Answer;
use qjam_core::ids::{Attempt, Block, RoundId, SeatId, WorkerId};
use qjam_core::job::{Cause, Death};
use qjam_core::reduce::Cut;
use qjam_core::scheduler::{Config, Event};
use qjam_core::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A block.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockPicture {
    pub(crate) holders: Vec<(WorkerId, Attempt)>,
    pub(crate) attempts: Attempt,
    pub(crate) done: bool,
    /// Who died inside it.
    pub(crate) victims: Vec<WorkerId>,
    /// Who was told to keep it apart, because somebody else gets it, too.
    pub(crate) told_apart: Option<WorkerId>,
}

/// A round.
#[derive(Debug)]
pub(crate) struct RoundPicture {
    pub(crate) cut: Cut,
    pub(crate) blocks: Vec<BlockPicture>,
    /// Which chunks an accepted part covers.
    pub(crate) covered: Vec<bool>,
    pub(crate) answer: Option<Answer>,
    pub(crate) is_closed: bool,
    /// How many blocks are with somebody, by worker.
    pub(crate) held: BTreeMap<WorkerId, u32>,
    /// Who was asked for blocks and has not answered.
    pub(crate) asked: BTreeSet<WorkerId>,
    /// How many late blocks were given to somebody else, too.
    pub(crate) backups: usize,
    /// So many slots take part, if not all.
    pub(crate) slots_max: Option<u32>,
    /// Whether it is over states.
    pub(crate) is_held: bool,
}

/// A worker that has been started and not been lost.
#[derive(Debug)]
pub(crate) struct WorkerPicture {
    pub(crate) started: Time,
    pub(crate) joined: Option<Time>,
    pub(crate) last_said: Time,
    /// When it was last asked for a sign of life.
    pub(crate) asked: Option<Time>,
    pub(crate) is_suspect: bool,
    pub(crate) is_dying: bool,
    /// When it was told to let go of what, and whether it may take its time.
    pub(crate) told: BTreeMap<RoundId, (Time, bool)>,
}

impl WorkerPicture {
    /// Whether it can be given work.
    pub(crate) fn is_dependable(&self) -> bool {
        self.joined.is_some() && !self.is_suspect && !self.is_dying
    }
}

/// A seat.
#[derive(Debug, Default)]
pub(crate) struct SeatPicture {
    pub(crate) is_remote: bool,
    pub(crate) slots: u32,
    pub(crate) is_up: bool,
    pub(crate) has_been_up: bool,
    pub(crate) is_given_up: bool,
    /// Lives on it that came to nothing, since the last that did not; on another host only those that began.
    pub(crate) fruitless: u32,
    /// On another host: lives in a row that ended with blocks and had delivered none.
    pub(crate) vain: u32,
    /// When the first of those was lost that had lived for a short time, while nobody else was up.
    pub(crate) vain_since: Time,
    /// On another host: starts in a row from which nobody came up.
    pub(crate) failed_starts: u32,
    /// When the last worker on it was lost.
    pub(crate) lost: Time,
    /// When it was asked for, or the last worker on it that was up was lost.
    pub(crate) deserted: Time,
}

impl SeatPicture {
    /// How long it must stay empty after the last loss.
    pub(crate) fn pause(&self, config: &Config) -> Span {
        let (base, longest) = match self.is_remote {
            true => (config.remote_restart_after, config.remote_restart_max),
            false => (config.restart_after, Span(u64::MAX)),
        };
        // A life that ended is followed by another at once, a start that failed by a pause; then it gets longer.
        let times =
            if self.failed_starts > 0 { self.failed_starts } else { self.fruitless.saturating_sub(1) };
        if times == 0 { Span(0) } else { Span(base.0 << (times - 1).min(10)).min(longest) }
    }
}

/// The reconstructed state.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    pub(crate) rounds: BTreeMap<RoundId, RoundPicture>,
    pub(crate) closed: usize,
    pub(crate) workers: BTreeMap<WorkerId, WorkerPicture>,
    pub(crate) seats: BTreeMap<SeatId, SeatPicture>,
    /// Seats that are no longer wanted.
    pub(crate) removed: BTreeSet<SeatId>,
    /// How many seats have a worker that is up, and when that last became less.
    pub(crate) up: usize,
    pub(crate) last_up: Time,
    pub(crate) suspects: usize,
    /// Which seat got each partition last.
    pub(crate) homes: BTreeMap<Block, SeatId>,
    /// Results of open rounds of which a part was done already and a part was not.
    pub(crate) overlaps: u64,
}

/// Whether dying in this way says something about the blocks that were running.
pub(crate) fn is_telling(cause: &Cause) -> bool {
    !matches!(cause, Cause::Unresponsive | Cause::Protocol(_) | Cause::Start(_) | Cause::LinkLost(_))
}

impl Picture {
    /// Changes what the event alone changes. For a delivered part, says whether it must count.
    pub(crate) fn take_in(&mut self, now: Time, event: &Event, config: &Config) -> Option<bool> {
        match event {
            Event::SeatAdded { seat, slots, remote } => {
                let picture = SeatPicture {
                    is_remote: *remote,
                    slots: *slots,
                    deserted: now,
                    ..SeatPicture::default()
                };
                self.seats.insert(*seat, picture);
            }
            Event::SeatRemoved { seat } => {
                self.homes.retain(|_, home| home != seat);
                self.remove(now, *seat);
            }
            Event::WorkerSpoke { worker } | Event::Faulted { worker: Some(worker), .. } => {
                self.hear(now, *worker);
            }
            Event::WorkerLost { worker, death } => self.lose(now, *worker, death, config),
            Event::RoundSubmitted { round, spec } => {
                let mut blocks = vec![BlockPicture::default(); spec.cut.blocks() as usize];
                blocks.iter_mut().take(spec.done as usize).for_each(|block| block.done = true);
                let ready = u64::from(spec.done) << spec.cut.level;
                let covered = (0..u64::from(spec.cut.chunks)).map(|chunk| chunk < ready).collect();
                let picture = RoundPicture {
                    cut: spec.cut,
                    blocks,
                    covered,
                    slots_max: spec.slots_max,
                    answer: None,
                    is_closed: false,
                    held: BTreeMap::new(),
                    asked: BTreeSet::new(),
                    backups: 0,
                    is_held: spec.held.is_some(),
                };
                self.rounds.insert(*round, picture);
                self.revive(now, config);
            }
            Event::PartDelivered { worker, round, ranges, .. } => {
                self.hear(now, *worker);
                return Some(self.deliver(*worker, *round, ranges));
            }
            Event::RoundLetGo { worker, round } => {
                self.hear(now, *worker);
                self.take_back(*worker, *round, None);
            }
            Event::Returned { worker, round, returned } => {
                self.hear(now, *worker);
                self.give_back(*worker, *round, &returned.ranges);
            }
            Event::HoldDropped { .. } => self.homes.clear(),
            Event::Computed { .. }
            | Event::WorkerJoined { .. }
            | Event::RoundCancelled { .. }
            | Event::Faulted { worker: None, .. }
            | Event::Ticked => {}
        }
        None
    }

    /// When all seats were given up, a new round has each of them tried once more, at once.
    fn revive(&mut self, now: Time, config: &Config) {
        if self.seats.values().all(|seat| seat.is_given_up) {
            for seat in self.seats.values_mut() {
                (seat.is_given_up, seat.fruitless) = (false, config.fruitless_max);
                (seat.vain, seat.vain_since) = (config.vain_max, now);
                (seat.lost, seat.deserted) = (Time::default(), Time::default());
            }
        }
    }

    fn hear(&mut self, now: Time, worker: WorkerId) {
        if let Some(w) = self.workers.get_mut(&worker).filter(|w| w.joined.is_some()) {
            w.last_said = now;
        }
    }

    /// A part counts if its sender has all its blocks under these attempts, and none of them is done.
    fn deliver(&mut self, worker: WorkerId, round: RoundId, ranges: &[qjam_core::lease::BlockRange]) -> bool {
        let is_known = self.workers.contains_key(&worker);
        let Some(r) = self.rounds.get_mut(&round).filter(|r| is_known && !r.is_closed) else { return false };
        let is_open = r.answer.is_none();
        let named = || ranges.iter().flat_map(|s| s.blocks().map(|b| (b as usize, (worker, s.attempt))));
        let counts = is_open && named().all(|(b, h)| !r.blocks[b].done && r.blocks[b].holders.contains(&h));
        let done = named().filter(|(b, _)| r.blocks[*b].done).count();
        self.overlaps += u64::from(is_open && done > 0 && done < named().count());
        for (block, holder) in named() {
            let block = &mut r.blocks[block];
            if let Some(at) = block.holders.iter().position(|h| *h == holder) {
                block.holders.remove(at);
                let left = r.held.get_mut(&worker).expect("it holds this one");
                *left -= 1;
                if *left == 0 {
                    r.held.remove(&worker);
                    self.workers.get_mut(&worker).expect("it lives").told.remove(&round);
                }
            }
            block.done |= counts;
        }
        if counts {
            let seat = self.seats.get_mut(&worker.seat).expect("it has a seat");
            (seat.fruitless, seat.vain) = (0, 0);
        }
        counts
    }

    /// A worker does not have these any more.
    fn give_back(&mut self, worker: WorkerId, round: RoundId, ranges: &[qjam_core::lease::BlockRange]) {
        let is_known = self.workers.contains_key(&worker);
        let Some(r) = self.rounds.get_mut(&round).filter(|r| is_known && !r.is_closed) else { return };
        r.asked.remove(&worker);
        for (n, attempt) in ranges.iter().flat_map(|s| s.blocks().map(|b| (b as usize, s.attempt))) {
            let holders = &mut r.blocks[n].holders;
            let Some(at) = holders.iter().position(|h| *h == (worker, attempt)) else { continue };
            holders.remove(at);
            let left = r.held.get_mut(&worker).expect("it holds this one");
            *left -= 1;
            if *left == 0 {
                r.held.remove(&worker);
                self.workers.get_mut(&worker).expect("it lives").told.remove(&round);
            }
        }
    }

    /// Whether somebody dependable has nothing to do.
    pub(crate) fn is_idle(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(WorkerPicture::is_dependable)
            && !self.rounds.values().any(|r| r.held.contains_key(&worker))
    }

    /// Takes back what a worker has of a round.
    fn take_back(&mut self, worker: WorkerId, round: RoundId, death: Option<&Death>) {
        if let Some(w) = self.workers.get_mut(&worker) {
            w.told.remove(&round);
        }
        let Some(r) = self.rounds.get_mut(&round) else { return };
        if r.held.remove(&worker).is_none() {
            return;
        }
        for (n, block) in (0..).zip(&mut r.blocks) {
            let Some(at) = block.holders.iter().position(|(w, _)| *w == worker) else { continue };
            block.holders.remove(at);
            if death.is_some_and(|d| is_telling(&d.cause) && d.inside.contains(&(round, n as Block))) {
                block.victims.push(worker);
            }
        }
    }

    fn lose(&mut self, now: Time, worker: WorkerId, death: &Death, config: &Config) {
        let Some(w) = self.workers.get(&worker) else { return };
        let was_up = w.joined.is_some();
        let life = w.joined.map(|at| now.since(at));
        let lived_long = life.is_some_and(|life| life >= config.fruitful_after);
        let had_blocks = self.rounds.values().any(|round| round.held.contains_key(&worker));
        self.forget(now, worker, Some(death));
        let seat = self.seats.get_mut(&worker.seat).expect("it had a seat");
        (seat.is_up, seat.lost) = (false, now);
        if was_up {
            (seat.deserted, seat.failed_starts) = (now, 0);
        } else if seat.is_remote {
            seat.failed_starts += 1;
            return;
        }
        if lived_long {
            seat.fruitless = 0;
        }
        // A worker that died inside a block proves nothing about its seat, nor does one that the master itself ended for
        // being slow to let go.
        let blames_a_block = is_telling(&death.cause) && !death.inside.is_empty();
        if !blames_a_block && !matches!(death.cause, Cause::Unresponsive) {
            seat.fruitless += 1;
            if seat.is_remote && had_blocks {
                let lived_very_long = life.is_some_and(|life| life >= config.vain_life);
                if seat.vain == 0 || lived_very_long {
                    seat.vain_since = now;
                }
                seat.vain += 1;
            }
        }
        if was_up {
            self.begin_to_be_alone(now, worker.seat);
        }
    }

    /// A worker has gone. Only losses of a host that is alone count against it by the clock.
    fn begin_to_be_alone(&mut self, now: Time, gone: SeatId) {
        let is_empty = self.up == 0;
        let seats = self.seats.iter_mut().filter(|(seat, _)| (**seat == gone) != is_empty);
        seats.for_each(|(_, seat)| seat.vain_since = now);
    }

    /// Takes back all a worker has, and strikes it off.
    fn forget(&mut self, now: Time, worker: WorkerId, death: Option<&Death>) {
        let rounds: Vec<RoundId> =
            self.rounds.iter().filter(|(_, r)| r.held.contains_key(&worker)).map(|(id, _)| *id).collect();
        for round in rounds {
            self.take_back(worker, round, death);
        }
        self.rounds.values_mut().for_each(|r| r.asked.retain(|asked| *asked != worker));
        let Some(w) = self.workers.remove(&worker) else { return };
        self.suspects -= usize::from(w.is_suspect);
        if w.joined.is_some() {
            self.up -= 1;
            self.last_up = now;
        }
    }

    /// A seat is taken away; nobody is to blame.
    fn remove(&mut self, now: Time, seat: SeatId) {
        let here = WorkerId { seat, incarnation: 0 }..=WorkerId { seat, incarnation: u32::MAX };
        let workers: Vec<WorkerId> = self.workers.range(here).map(|(id, _)| *id).collect();
        for worker in workers {
            self.forget(now, worker, None);
        }
        let was_up = self.seats.remove(&seat).is_some_and(|record| record.is_up);
        self.removed.insert(seat);
        if was_up {
            self.begin_to_be_alone(now, seat);
        }
    }

    /// Whether somebody is on the seat, or about to be.
    pub(crate) fn is_taken(&self, seat: SeatId) -> bool {
        let here = WorkerId { seat, incarnation: 0 }..=WorkerId { seat, incarnation: u32::MAX };
        self.workers.range(here).next().is_some()
    }

    pub(crate) fn start(&mut self, now: Time, worker: WorkerId) {
        let picture = WorkerPicture {
            started: now,
            joined: None,
            last_said: now,
            asked: None,
            is_suspect: false,
            is_dying: false,
            told: BTreeMap::new(),
        };
        self.workers.insert(worker, picture);
    }

    /// Somebody comes up. Hosts that were given up for want of patience are tried again, after a pause.
    pub(crate) fn join(&mut self, now: Time, worker: WorkerId, slots: u32, config: &Config) {
        let is_worth_it = |s: &&mut SeatPicture| s.is_remote && s.fruitless <= config.fruitless_max;
        for seat in self.seats.values_mut().filter(|s| s.is_given_up).filter(is_worth_it) {
            (seat.is_given_up, seat.lost) = (false, now);
        }
        let w = self.workers.get_mut(&worker).expect("who joins was started");
        (w.joined, w.last_said) = (Some(now), now);
        self.up += 1;
        let seat = self.seats.get_mut(&worker.seat).expect("it has a seat");
        (seat.is_up, seat.has_been_up, seat.failed_starts, seat.slots) = (true, true, 0, slots);
    }

    pub(crate) fn ask(&mut self, now: Time, worker: WorkerId) {
        self.workers.get_mut(&worker).expect("who is asked lives").asked = Some(now);
    }

    pub(crate) fn kill(&mut self, worker: WorkerId) {
        self.workers.get_mut(&worker).expect("who is killed lives").is_dying = true;
    }

    pub(crate) fn suspect(&mut self, worker: WorkerId, suspect: bool) {
        let w = self.workers.get_mut(&worker).expect("who is suspected lives");
        if w.is_suspect != suspect {
            w.is_suspect = suspect;
            self.suspects = if suspect { self.suspects + 1 } else { self.suspects - 1 };
        }
    }

    pub(crate) fn tell_to_let_go(&mut self, now: Time, worker: WorkerId, round: RoundId, is_patient: bool) {
        self.workers.get_mut(&worker).expect("who is told lives").told.insert(round, (now, is_patient));
    }

    pub(crate) fn give_up(&mut self, seat: SeatId) {
        self.seats.get_mut(&seat).expect("it was added").is_given_up = true;
    }
}
