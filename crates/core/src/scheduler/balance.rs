//! Load balancing: recalls unstarted blocks of slow workers for idle ones, and gives late blocks a backup.
//!
//! The scheduler hears of a worker only when it delivers, so it estimates its progress from the time of blocks on other workers in this
//! round, or in earlier ones, and from the start of its work. If a worker is idle and another one should have enough work left, or
//! should have delivered long ago, that one is asked ([`Action::Recall`]). Its answer says which blocks it returns, which it keeps and
//! which it is running; from then on its progress is known. Returned blocks are assigned only after the answer, so no block is run
//! twice.
//!
//! ```text
//!   somebody is idle ──▶ who finishes last? ──▶ Recall ──▶ Returned ──▶ given to the idle
//!                            │ it has nothing unstarted           │
//!                            └─▶ a block has run for twice as long as they do, and it still does:
//!                                Apart to its holder, a copy to somebody idle; the first result counts
//! ```
//!
//! No worker is asked while none is late: a round with equally fast workers has no additional messages.

use super::placement::{Why, grant, least_loaded, shares};
use super::round::{RoundRecord, WorkerProgress};
use super::speeds::Work;
use super::team::Team;
use super::{Action, Scheduler};
use crate::ids::{Block, RoundId, SeatId, WorkerId};
use crate::job::Cause;
use crate::journal::What;
use crate::lease::Returned;
use crate::time::{Span, Time};

/// Shorter measurements are ignored.
const COMPUTED_MIN: Span = Span(200);

/// Each repeated recall of the same worker must gain twice as much, up to this many times. Beyond that the threshold stays: where
/// many workers become idle one after the other, the same slow worker is asked often, and rightly.
const DOUBLINGS_MAX: u32 = 5;

/// With more workers than this, the time between two searches for slow workers grows with their number, by [`LOOK_PAUSE_US`] for
/// each, so that searching stays a small part of the master's time.
const LOOKS_COUNT_FROM: usize = 100;
const LOOK_PAUSE_US: u64 = 5;

/// The first search for slow workers comes at the latest this many times `steal_min` after the round began.
const FIRST_LOOK: u64 = 100;

/// A worker counts as slow only if it is late by more than this: on a busy machine every worker is now and then.
const GRACE: Span = Span(2_000);

/// If every worker has one block, an unstarted block is only slightly late; recalling it must gain this many times more.
const ONE_EACH: u64 = 100;

/// What may be gained from a worker.
enum Guess {
    /// So many blocks are not started and would take so long; it does so many in a microsecond.
    Worth { left_us: u64, unstarted: f64, rate: f64 },
    /// Nothing before then.
    Later(Time),
    /// All it has is running or finished.
    Started,
}

/// A worker whose unstarted blocks others should have.
struct Slow {
    worker: WorkerId,
    left_us: u64,
    unstarted: f64,
    rate: f64,
}

/// What a look at a round found.
#[derive(Default)]
struct Survey {
    slow: Vec<Slow>,
    /// Blocks that take too long: for how long, which, and who runs them.
    late: Vec<(Span, Block, WorkerId)>,
    /// Workers that may have finished late blocks since they last reported.
    ask_again: Vec<WorkerId>,
    /// When there may be more to find.
    look_at: Option<Time>,
}

/// The earlier of two times, of which either may be missing.
fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}

/// An idle worker.
struct Idle {
    id: WorkerId,
    slots: u32,
    remote: bool,
}

impl Scheduler {
    /// A worker reports the time of its blocks.
    pub(super) fn on_computed(&mut self, worker: WorkerId, round: RoundId, blocks: u32, span: Span) {
        if span < COMPUTED_MIN {
            return;
        }
        let Some(slots) = self.roster.get(worker).map(|_| self.roster.seats[&worker.seat].slots) else {
            return;
        };
        let Some(record) = self.rounds.get_mut(&round).filter(|r| r.may_be_helped() && blocks > 0) else {
            return;
        };
        let work = record.work.entry(worker.seat).or_default();
        work.blocks += u64::from(blocks);
        work.busy_us += span.0;
        let own_us = slot_us(&Work { blocks: blocks.into(), busy_us: span.0 }, slots);
        let speed = self.speeds.measured(&record.key(), worker.seat);
        record.block_times.push((own_us as f64 * speed) as u64);
    }

    /// A worker returns blocks and reports its progress.
    pub(super) fn on_returned(
        &mut self,
        now: Time,
        worker: WorkerId,
        round: RoundId,
        returned: &Returned,
        out: &mut Vec<Action>,
    ) {
        let (Some(record), Some(_)) = (self.rounds.get_mut(&round), self.roster.get(worker)) else { return };
        record.recalls.remove(&worker);
        if returned.ranges.iter().any(|s| s.blocks().end as usize > record.blocks.len()) {
            let why = format!("it gave back {:?} of {} blocks", returned.ranges, record.blocks.len());
            return self.kill(worker, Cause::Protocol(why), out);
        }
        let mut freed: Vec<Block> = Vec::new();
        for (block, attempt) in returned.ranges.iter().flat_map(|s| s.blocks().map(move |b| (b, s.attempt))) {
            let state = &mut record.blocks[block as usize];
            if state.is_held_as(worker, attempt) {
                state.revoke(worker);
                freed.push(block);
            }
        }
        let count = freed.len() as u32;
        record.leased -= count;
        let held = self.roster.get(worker).and_then(|w| w.leases.get(&round)).map_or(0, |held| held - count);
        record.see(now, worker, held, returned);
        self.return_count(now, worker, round, count);
        let record = self.rounds.get_mut(&round).expect("it was there");
        if record.over {
            return self.close_if_idle(round, out);
        }
        record.look_at = None;
        let roster = &self.roster;
        freed.retain(|&b| record.blocks[b as usize].is_needy(|w| roster.is_suspect(w)));
        if !freed.is_empty() {
            out.push(Action::Note(What::Stolen { round, worker, blocks: freed.len() as u32 }));
            self.hand_over(now, worker, round, &freed, out);
        }
    }

    /// Assigns returned blocks: to idle workers, else to other workers, else to the worker that returned them.
    fn hand_over(
        &mut self,
        now: Time,
        from: WorkerId,
        round: RoundId,
        blocks: &[Block],
        out: &mut Vec<Action>,
    ) {
        let (speeds, roster) = (&self.speeds, &mut self.roster);
        let record = self.rounds.get_mut(&round).expect("the caller looked");
        let key = record.key();
        let team = Team::of(roster, record.spec.slots_max);
        let dependable = || roster.up().filter(|(id, _, w)| w.is_dependable() && team.has(*id));
        let weigh = |(id, slots): (WorkerId, u32)| (id, f64::from(slots) * speeds.applied(&key, id.seat));
        let others =
            || dependable().filter(|(id, _, _)| *id != from).map(|(id, seat, w)| ((id, seat.slots), w));
        let mut able: Vec<(WorkerId, f64)> =
            others().filter(|(_, w)| w.leases.is_empty()).map(|(a, _)| weigh(a)).collect();
        if able.is_empty() {
            // Whoever was idle has got something else since.
            let able_then = others().map(|(a, w)| (weigh(a), w.held())).collect();
            able = least_loaded(able_then, blocks.len());
        }
        if able.is_empty() {
            able = dependable().map(|(id, seat, _)| weigh((id, seat.slots))).collect();
        }
        if able.is_empty() {
            return; // all of them are doubted: whoever comes next gets it
        }
        let shares = shares(blocks, &able);
        for ((worker, _), blocks) in able.into_iter().zip(shares).filter(|(_, blocks)| !blocks.is_empty()) {
            grant(roster, record, now, round, worker, &blocks, Why::Stolen, out);
        }
    }

    /// If a worker is idle: finds workers that need help, and helps them.
    pub(super) fn rebalance(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.config.balances {
            return;
        }
        let from = self.config.steal_min;
        let is_due = |r: &RoundRecord| {
            r.may_be_helped() && r.begun + from <= now && r.look_at.is_none_or(|at| at <= now)
        };
        let due: Vec<RoundId> = self.rounds.iter().filter(|(_, r)| is_due(r)).map(|(id, _)| *id).collect();
        let pause = self.look_pause();
        for round in due {
            let record = self.rounds.get_mut(&round).expect("a key of the map");
            if now < record.looked + pause {
                record.look_at = Some(record.looked + pause);
                continue;
            }
            record.looked = now;
            let team = Team::of(&self.roster, self.rounds[&round].spec.slots_max);
            let mut idle: Vec<Idle> = self
                .roster
                .up()
                .filter(|(id, _, w)| w.is_dependable() && w.leases.is_empty() && team.has(*id))
                .map(|(id, seat, _)| Idle { id, slots: seat.slots, remote: seat.remote })
                .collect();
            let look_at = if idle.is_empty() { None } else { self.help(now, round, &mut idle, out) };
            let record = self.rounds.get_mut(&round).expect("a key of the map");
            record.is_looked_at = true;
            record.look_at = look_at.map(|at| at.max(now + Span(self.config.steal_min.0 / 2 + 1)));
        }
    }

    /// Minimum time between two searches for slow workers.
    fn look_pause(&self) -> Span {
        let workers = self.roster.seats.len();
        Span(if workers > LOOKS_COUNT_FROM { LOOK_PAUSE_US * workers as u64 } else { 0 })
    }

    /// When slow workers must be looked for, if nobody delivers before. A round that is over soon has no use for a timer
    /// that would be set and stopped for each of its messages, so the first one comes late.
    pub(super) fn next_look(&self, record: &RoundRecord) -> Option<Time> {
        let first = record.begun + Span(FIRST_LOOK * self.config.steal_min.0);
        let first = (self.config.balances && record.may_be_helped() && !record.is_looked_at).then_some(first);
        record.look_at.or(first)
    }

    /// Asks slow workers for blocks and gives late blocks a backup. Returns when to look again if nothing happens until then.
    fn help(
        &mut self,
        now: Time,
        round: RoundId,
        idle: &mut Vec<Idle>,
        out: &mut Vec<Action>,
    ) -> Option<Time> {
        let Survey { mut slow, mut late, ask_again, mut look_at } = self.survey(now, round, idle);
        slow.sort_by_key(|victim| (std::cmp::Reverse(victim.left_us), victim.worker));
        slow.truncate(idle.len());
        late.sort_by_key(|(long, block, _)| (std::cmp::Reverse(*long), *block));
        let asked = self.recall(round, idle, &slow, out);
        if asked < idle.len() {
            // As many as were asked have got something to do.
            idle.drain(..asked);
            let record = self.rounds.get_mut(&round).expect("a key of the map");
            for worker in ask_again.into_iter().take(idle.len()) {
                record.recalls.insert(worker, 0);
                out.push(Action::Recall { worker, round, blocks: 0 });
            }
            for (long, block, holder) in late {
                let retry_at = self.back_up_by_able(now, round, (long, block, holder), idle, out);
                look_at = earliest(look_at, retry_at);
            }
        }
        look_at
    }

    /// Finds the workers of a round that need help, and the blocks that are late.
    fn survey(&self, now: Time, round: RoundId, idle: &[Idle]) -> Survey {
        let record = &self.rounds[&round];
        let mut survey = Survey::default();
        let far = idle.iter().all(|i| i.remote);
        let slots: u32 = self.roster.up().map(|(_, seat, _)| seat.slots).sum();
        let is_one_each = record.blocks.len() as u32 <= slots;
        for &worker in record.paces.keys() {
            if record.recalls.contains_key(&worker) || self.roster.is_suspect(worker) {
                continue;
            }
            let worth = self.worth(far, worker.seat);
            // Blocks should not wander between workers that all wait for their chunks: each time it must be worth more.
            let times = record.times_asked.get(&worker).copied().unwrap_or(0);
            let times_worth = (1 << times.min(DOUBLINGS_MAX)) * if is_one_each { ONE_EACH } else { 1 };
            match self.guess(now, record, worker, Span(worth.0 * times_worth)) {
                Guess::Worth { left_us, unstarted, rate } => {
                    survey.slow.push(Slow { worker, left_us, unstarted, rate });
                }
                Guess::Later(at) => survey.look_at = earliest(survey.look_at, Some(at)),
                Guess::Started => self.find_late(now, record, worker, worth, &mut survey),
            }
        }
        survey
    }

    /// Finds late blocks among those that a worker is running.
    fn find_late(&self, now: Time, record: &RoundRecord, worker: WorkerId, worth: Span, survey: &mut Survey) {
        if !self.config.backs_up || record.backups >= record.backups_max() {
            return;
        }
        let (Some(progress), Some(median_us)) = (&record.paces[&worker].progress, record.median_block_us())
        else {
            return;
        };
        let patience = Span((2 * median_us).max(10 * worth.0));
        // What was said since the last look is news.
        let fresh = GRACE.max(Span(2 * self.look_pause().0));
        let mut is_old = false;
        for &(block, since) in &progress.running {
            if !record.blocks[block as usize].may_be_backed_up(worker) {
                continue;
            }
            match now.since(since) {
                long if long < patience => survey.look_at = earliest(survey.look_at, Some(since + patience)),
                long if now.since(progress.at) <= fresh => survey.late.push((long, block, worker)),
                _ => is_old = true, // it may have finished since
            }
        }
        if is_old {
            survey.ask_again.push(worker);
        }
    }

    /// Gives a late block a backup with an idle worker that should finish it before it has taken twice as long. Returns when one
    /// that is too slow now will do, if all are.
    fn back_up_by_able(
        &mut self,
        now: Time,
        round: RoundId,
        (long, block, holder): (Span, Block, WorkerId),
        idle: &mut Vec<Idle>,
        out: &mut Vec<Action>,
    ) -> Option<Time> {
        let record = &self.rounds[&round];
        let median_us = record.median_block_us();
        let is_slow = |us: &u64| median_us.is_some_and(|median_us| *us > 2 * median_us);
        // A slow worker gets the block only after it has run for as long as it would run there.
        let own_us = |i: &Idle| self.block_us(record, i.id.seat).filter(is_slow).unwrap_or(0);
        let (mut able, slow): (Vec<Idle>, Vec<Idle>) = idle.drain(..).partition(|i| own_us(i) <= long.0);
        let retry_at = match slow.iter().map(own_us).min() {
            Some(least_us) if able.is_empty() => Some(now + Span(least_us - long.0)),
            _ => None,
        };
        self.back_up(now, round, block, holder, &mut able, out);
        idle.extend(able.into_iter().chain(slow));
        retry_at
    }

    /// Minimum remaining time of a worker for help to be worth its messages.
    fn worth(&self, far: bool, seat: SeatId) -> Span {
        let far = far || self.roster.seats[&seat].remote;
        if far { self.config.remote_steal_min } else { self.config.steal_min }
    }

    /// What a block takes in a slot of this seat: as it was in this round, as it is for the others, as it was before.
    fn block_us(&self, record: &RoundRecord, seat: SeatId) -> Option<u64> {
        let key = record.key();
        let own = record.work.get(&seat).map(|work| slot_us(work, self.roster.seats[&seat].slots));
        let others = || Some((record.median_block_us()? as f64 / self.speeds.measured(&key, seat)) as u64);
        own.or_else(others).or_else(|| self.speeds.block_us(&key, seat)).map(|us| us.max(1))
    }

    fn guess(&self, now: Time, record: &RoundRecord, worker: WorkerId, worth: Span) -> Guess {
        let pace = &record.paces[&worker];
        let slots = f64::from(self.roster.seats[&worker.seat].slots);
        // Start time, number of blocks, unstarted blocks, and blocks per microsecond.
        let (since, blocks, idle_ones, rate) = match pace.progress.as_deref() {
            Some(WorkerProgress { unstarted: 0, .. }) => return Guess::Started,
            Some(progress) => {
                let running = progress.running.len() as f64 / 2.0;
                (
                    progress.at,
                    f64::from(progress.unstarted) + running,
                    f64::from(progress.unstarted),
                    Some(progress.rate),
                )
            }
            None => {
                let held = self.roster.get(worker).map_or(0, |w| w.leases.values().sum::<u32>());
                let rate = self.block_us(record, worker.seat).map(|us| slots / us as f64);
                (pace.since, f64::from(held), f64::from(held) - slots, rate)
            }
        };
        let elapsed = now.since(since).0;
        let expected = rate.map_or(0.0, |rate| blocks / rate) as u64;
        if elapsed < expected {
            let left_us = expected - elapsed;
            let unstarted = idle_ones - (blocks - blocks * left_us as f64 / expected as f64);
            if left_us >= worth.0 && unstarted >= 1.0 {
                return Guess::Worth { left_us, unstarted, rate: blocks / expected as f64 };
            }
        }
        // About to deliver, by all that is known.
        let grace = expected / 16 + worth.max(GRACE).0;
        if elapsed < expected + grace {
            return Guess::Later(since + Span(expected + grace));
        }
        // It is slower than anybody knew, and nobody knows how slow. If too much is taken from it, it will be idle soon
        // and take some back; if too little, everybody waits.
        Guess::Worth {
            left_us: elapsed,
            unstarted: idle_ones.max(1.0),
            rate: blocks / 2.0 / elapsed.max(1) as f64,
        }
    }

    /// Asks the workers that finish last for the blocks that idle ones would finish first. Returns how many workers were asked.
    fn recall(&mut self, round: RoundId, idle: &[Idle], slow: &[Slow], out: &mut Vec<Action>) -> usize {
        let record = &self.rounds[&round];
        let mut idle: Vec<(Option<u64>, u32)> =
            idle.iter().map(|i| (self.block_us(record, i.id.seat), i.slots)).collect();
        idle.sort_unstable();
        // Workers of unknown speed come first; the others add their blocks per microsecond.
        let unknown = idle.partition_point(|(us, _)| us.is_none());
        let unknown_slots = idle[..unknown].iter().map(|(_, slots)| f64::from(*slots)).sum::<f64>();
        let mut sum = 0.0;
        let sums: Vec<f64> = idle[unknown..]
            .iter()
            .map(|(us, slots)| {
                sum += f64::from(*slots) / us.unwrap_or(1) as f64;
                sum
            })
            .collect();
        let mut asked: Vec<(WorkerId, u32)> = Vec::new();
        for &Slow { worker, left_us, unstarted, rate } in slow {
            // A worker that cannot finish one block in time does not help; one of unknown speed may.
            let able = idle.partition_point(|(us, _)| us.is_none_or(|us| us < left_us)) - unknown;
            let known = able.checked_sub(1).map_or(0.0, |last| sums[last]);
            let help = (unknown_slots * rate + known) / slow.len() as f64;
            if help > 0.0 {
                let blocks = (unstarted * help / (help + rate)).ceil();
                asked.push((worker, (blocks as u32).max(1)));
            }
        }
        let count = asked.len();
        let record = self.rounds.get_mut(&round).expect("the caller looked");
        for (worker, blocks) in asked {
            record.recalls.insert(worker, blocks);
            *record.times_asked.entry(worker).or_default() += 1;
            out.push(Action::Recall { worker, round, blocks });
        }
        count
    }

    /// Assigns a backup of a late block to an idle worker.
    fn back_up(
        &mut self,
        now: Time,
        round: RoundId,
        block: Block,
        holder: WorkerId,
        idle: &mut Vec<Idle>,
        out: &mut Vec<Action>,
    ) {
        let record = self.rounds.get_mut(&round).expect("the caller looked");
        if record.backups >= record.backups_max() {
            return;
        }
        let key = record.key();
        let speed = |i: &Idle| self.speeds.measured(&key, i.id.seat);
        let best = (0..idle.len()).max_by(|&a, &b| speed(&idle[a]).total_cmp(&speed(&idle[b])));
        let Some(best) = best else { return };
        let worker = idle.remove(best).id;
        record.backups += 1;
        record.blocks[block as usize].is_backed_up = true;
        out.push(Action::Note(What::BackedUp { round, block, late: holder, worker }));
        out.push(Action::Apart { worker: holder, round, block });
        grant(&mut self.roster, record, now, round, worker, &[block], Why::Backup, out);
    }
}

/// Time of a slot for each block.
fn slot_us(work: &Work, slots: u32) -> u64 {
    work.busy_us * work.blocks.min(u64::from(slots)) / work.blocks.max(1)
}
