//! The tuner: chooses how many workers a round uses.
//!
//! Short rounds finish first on the caller's thread; long rounds finish first on all workers. The boundary depends on the function, the
//! data, the parameters and the machine, so it is measured. For each [`Kind`] of work the tuner keeps the time of a round on one thread,
//! and for each number of workers that was tried two figures: the overhead of a round, and the share to which the computing time shrinks.
//! These give the time with any number of workers, also after the cost of the work has changed:
//!
//! ```text
//!   time with w workers = overhead of w + share of w × time on one thread (+ data that must be sent first)
//! ```
//!
//! For a number that was not tried, the estimate is optimistic: the overhead of its kind of worker, and a perfect speed-up. It is tried if
//! the estimate beats the known choices and the gain over the past rounds would have paid for the attempt. The loss by attempts, compared
//! with the best known choice, stays below a share of the total time ([`LOST_SHARE`]).
//!
//! Work of unknown cost begins on the caller's thread; after each block the [`Plan`] decides whether workers get the rest. So even the
//! first round is never much slower than one thread, and sends no data in vain.
//!
//! The same function over the same data may cost a millisecond in one round and minutes in the next, if its parameters say so. Where the
//! last rounds differ by more than a factor ([`Recent`]), a round begins on the caller's thread as if its cost were unknown, unless short
//! and long ones alike are best with workers. A round that turns out to be other work than was measured ([`OTHER_WORK`]) may be handed
//! over to anybody, and changes nothing that was learned but the cost on one thread.
//!
//! Comes in: times from the reports of finished rounds. Goes out: a choice with its reason. Reads no clock.

mod costs;
mod explained;
mod guesses;
#[cfg(test)]
mod tests;

pub use explained::{Explained, Predicted};

use crate::ids::DataSetId;
use costs::{Estimate, Recent, Tried};
use std::collections::BTreeMap;

/// For so many kinds of work costs are remembered.
const KINDS_MAX: usize = 64;
/// Attempts stop while they have cost more than this share of all time beyond the best known choice.
const LOST_SHARE: f64 = 0.1;
/// What looking at more workers may cost, as a share of all time.
const LOOK_SHARE: f64 = 0.02;
/// A number of workers is tried only if it may be better than the best known one by this factor.
const TRY_BELOW: f64 = 0.9;
/// The choice is changed only for a gain of this factor.
const CHANGE_BELOW: f64 = 0.95;
/// A choice that was tried and found worse is tried again after so many rounds; then twice as many, and so on.
const AGAIN_AFTER: u64 = 48;
/// Bytes that go to another host in a microsecond, until that was measured.
const BYTES_PER_US: f64 = 150.0;
/// Data is sent only after rounds that took this many times as long as sending: a program that stops right afterwards
/// has lost a bounded part of its time.
const SEND_TIMES: f64 = 2.5;
/// The rest of a round is handed over only for a gain of this factor.
const HAND_OVER_BELOW: f64 = 0.9;
/// Work that takes this many times as long as it should is other work than was measured.
const OTHER_WORK: f64 = 4.0;
/// A round that has taken less than this is not taken for other work: a thread may have waited for its core for so long.
const OTHER_WORK_US: f64 = 1e3;
/// What was learned of a number of workers is doubted for work that takes this many times as long.
const FAR_LONGER: f64 = 16.0;

/// What costs belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// A number for the function.
    pub function: u64,
    /// The data.
    pub dataset: DataSetId,
    /// The magnitude of the parameters: how many bits their length has.
    pub params_bits: u32,
}

/// A round to decide about.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What it is.
    pub kind: Kind,
    /// The function, for people.
    pub name: &'a str,
    /// Bytes of its data.
    pub bytes: u64,
    /// Its chunks; no more than so many can be worked on at once.
    pub chunks: u32,
    /// Whether the caller's thread may run it.
    pub can_inline: bool,
}

impl Work<'_> {
    /// What cost is counted in where the data are new.
    fn amount(&self) -> f64 {
        self.bytes.max(u64::from(self.chunks)).max(1) as f64
    }
}

/// How far away workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Threads of the master.
    Threads,
    /// Processes beside it.
    Processes,
    /// Other hosts: data must be sent there.
    Hosts,
}

/// A number of workers that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Team {
    /// Blocks that they run at once. No two teams have the same number.
    pub slots: u32,
    /// How many of them there are: each costs messages.
    pub workers: u32,
    /// Where the farthest are.
    pub distance: Distance,
    /// How much faster than one thread they can be at best: a machine has only so many cores.
    pub speedup_max: f64,
    /// The share of the data that is sent if no worker has any.
    pub far_share: f64,
}

impl Team {
    /// To what share computing shrinks at best.
    fn perfect_share(&self, work: &Work<'_>) -> f64 {
        1.0 / self.speedup_max.min(f64::from(work.chunks)).max(1.0)
    }

    /// An estimate of what a round costs besides computing, until that is measured. On the low side, because a team that
    /// looks too expensive is never tried.
    fn overhead_us(&self) -> f64 {
        let workers = f64::from(self.workers);
        match self.distance {
            Distance::Threads => 10.0 + 2.0 * f64::from(self.slots),
            Distance::Processes => 30.0 + 8.0 * workers,
            Distance::Hosts => 200.0 + 50.0 * workers,
        }
    }
}

/// What was chosen for a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How many slots; 0 is the caller's own thread.
    pub slots: u32,
    /// How long it should take on the caller's thread, where that is known.
    expected_us: Option<f64>,
    /// To whom the rest may be handed over if it takes longer.
    handovers: Vec<Handover>,
    /// What the best known choice would take.
    best_us: Option<f64>,
    /// Whether this is another, to see what it takes.
    is_trial: bool,
    /// Why, if this is not what was chosen for such work before.
    pub change: Option<String>,
}

/// What it takes to hand over: so much, and such a share of what is left.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Handover {
    slots: u32,
    fixed_us: f64,
    share: f64,
    /// The share at best, for other work than was measured.
    hoped_share: f64,
    /// What the gain must be worth.
    risk_us: f64,
    /// Whether it may be tried with work that costs what it should; attempts may have cost too much already.
    is_open: bool,
}

impl Plan {
    /// So many slots, whatever it costs.
    pub fn fixed(slots: u32) -> Self {
        Plan { slots, expected_us: None, handovers: Vec::new(), best_us: None, is_trial: false, change: None }
    }

    /// Asked after each block on the caller's thread: whether so many slots should have the rest.
    pub fn hands_over(&self, elapsed_us: f64, done: u32, blocks: u32) -> Option<u32> {
        let left = blocks.checked_sub(done).filter(|left| *left > 0 && done > 0)?;
        self.handover(elapsed_us, elapsed_us / f64::from(done), 0.0, left)
    }

    /// Asked while the caller's thread is in the last block that it has claimed: whether so many slots should have the others. The
    /// thread stays in that block for as long again, as far as anybody can tell.
    pub fn relieves(&self, elapsed_us: f64, claimed: u32, blocks: u32) -> Option<u32> {
        let left = blocks.checked_sub(claimed).filter(|left| *left > 0 && claimed > 0)?;
        let block_us = elapsed_us / f64::from(claimed);
        self.handover(elapsed_us, block_us, block_us, left)
    }

    /// When [`relieves`](Plan::relieves) should be asked for the first time; `None` if nobody could have the rest.
    pub fn relief_after_us(&self) -> Option<f64> {
        (!self.handovers.is_empty()).then(|| 1.5 * self.expected_us.unwrap_or(0.0))
    }

    /// Who should have blocks that take so long each, while the caller's thread is busy for a while.
    fn handover(&self, elapsed_us: f64, block_us: f64, busy_us: f64, left: u32) -> Option<u32> {
        let exceeds = |factor: f64| self.expected_us.is_some_and(|us| elapsed_us >= factor * us);
        // What takes as long as it should is left alone: blocks may differ.
        if self.expected_us.is_some() && !exceeds(1.5) {
            return None;
        }
        let is_other_work = exceeds(OTHER_WORK) && elapsed_us >= OTHER_WORK_US;
        let rest_us = block_us * f64::from(left);
        let with = |handover: &Handover| {
            let share = if is_other_work { handover.hoped_share } else { handover.share };
            busy_us.max(handover.fixed_us + share.max(1.0 / f64::from(left)) * rest_us)
        };
        let open = self.handovers.iter().filter(|handover| handover.is_open || is_other_work);
        let best = open.min_by(|a, b| with(a).total_cmp(&with(b)))?;
        let gain = busy_us + rest_us - with(best);
        (with(best) < HAND_OVER_BELOW * (busy_us + rest_us) && gain >= best.risk_us).then_some(best.slots)
    }

    /// Whether a round that would have taken so long on one thread is other work than was expected.
    fn is_other_work(&self, serial_us: f64) -> bool {
        serial_us >= OTHER_WORK_US && self.expected_us.is_some_and(|us| serial_us >= OTHER_WORK * us)
    }
}

/// The cost of a round, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundCost {
    /// How many slots it had in the end.
    pub slots: u32,
    /// All of it.
    pub total_us: f64,
    /// Computing of the slowest worker; on the caller's thread the blocks it ran.
    pub worker_us: f64,
    /// If the caller's thread had begun it: for how long, and how many of how many blocks.
    pub begun: Option<(f64, u32, u32)>,
    /// Bytes of chunks that went to other hosts.
    pub bytes_sent: u64,
    /// Whether workers had to get or open chunks first. The next such round need not.
    pub is_cold: bool,
    /// Whether other rounds went on, or workers were lost: then it says little.
    pub is_disturbed: bool,
}

/// What is known of a kind of work.
#[derive(Debug)]
struct Known {
    name: String,
    bytes: u64,
    chunks: u32,
    /// When it was last asked for.
    used: u64,
    /// All of it on one thread.
    serial: Estimate,
    /// The same of the last rounds, one by one.
    recent: Recent,
    /// The caller's thread, as one of the choices.
    inline: Tried,
    tried: BTreeMap<u32, Tried>,
    choice: Option<u32>,
    rounds: u64,
    spent_us: f64,
    lost_us: f64,
}

/// Decides, and learns from what comes of it.
#[derive(Debug, Default)]
pub struct Tuner {
    teams: Vec<Team>,
    kinds: BTreeMap<Kind, Known>,
    /// What functions cost on one thread for each byte, or chunk without bytes.
    rates: BTreeMap<u64, f64>,
    /// What rounds cost beside their computing, whatever they were.
    overheads: BTreeMap<u32, Estimate>,
    bytes_per_us: Estimate,
    clock: u64,
}

impl Tuner {
    /// What can be chosen from now on. What was measured of teams that are still there is kept.
    pub fn set_teams(&mut self, teams: Vec<Team>) {
        let before = std::mem::replace(&mut self.teams, teams);
        let is_same = |slots: &u32| {
            let of = |teams: &[Team]| teams.iter().find(|team| team.slots == *slots).copied();
            of(&before) == of(&self.teams)
        };
        self.overheads.retain(|slots, _| is_same(slots));
        for known in self.kinds.values_mut() {
            known.tried.retain(|slots, _| is_same(slots));
        }
    }

    /// The teams that can be chosen.
    pub fn teams(&self) -> &[Team] {
        &self.teams
    }

    /// Says how many workers a round should have.
    pub fn choose(&mut self, work: &Work<'_>) -> Plan {
        self.clock += 1;
        let clock = self.clock;
        let guess = self.rates.get(&work.kind.function).map(|rate| rate * work.amount());
        let known = self.kinds.entry(work.kind).or_insert_with(|| Known::new(work));
        known.used = clock;
        let serial_us = known.serial.get().or(guess);
        let known = &self.kinds[&work.kind];
        let mut plan = match serial_us {
            None if work.can_inline => Plan {
                slots: 0,
                expected_us: None,
                handovers: self.handovers(known, work, None),
                best_us: None,
                is_trial: false,
                change: None,
            },
            // As long as nothing is known a byte takes a nanosecond.
            None => Plan::fixed(self.best_tried(known, work, work.amount() * 1e-3).0),
            Some(serial_us) => match known.recent.range() {
                Some(range) => self.decide_between(known, work, range, serial_us),
                None => self.decide(known, work, serial_us),
            },
        };
        let known = self.kinds.get_mut(&work.kind).expect("it was looked up");
        if known.choice != Some(plan.slots) {
            plan.change = Some(reason(&plan, known.choice, serial_us));
            known.choice = Some(plan.slots);
        }
        self.forget_oldest();
        plan
    }

    /// Chooses where the cost on one thread is known, or guessed.
    fn decide(&self, known: &Known, work: &Work<'_>, serial_us: f64) -> Plan {
        let (best, best_us) = self.best_tried(known, work, serial_us);
        let current = known.choice.filter(|&slots| slots != best);
        let current = current.and_then(|slots| Some((slots, self.predict(known, work, slots, serial_us)?)));
        let mut slots = match current {
            Some((slots, us)) if best_us > CHANGE_BELOW * us => slots,
            _ => best,
        };
        let trial = self.trial(known, work, serial_us, best_us);
        slots = trial.unwrap_or(slots);
        let handovers = if slots == 0 { self.handovers(known, work, Some(serial_us)) } else { Vec::new() };
        Plan {
            slots,
            expected_us: Some(serial_us),
            handovers,
            best_us: Some(best_us),
            is_trial: trial.is_some(),
            change: None,
        }
    }

    /// Chooses where the last rounds took as little and as much as this on one thread.
    fn decide_between(&self, known: &Known, work: &Work<'_>, range: (f64, f64), serial_us: f64) -> Plan {
        let (least_us, most_us) = range;
        let (short, short_us) = self.best_tried(known, work, least_us);
        let hope_us = |team: &&Team| self.overhead_guess(known, team) + team.perfect_share(work) * most_us;
        let long = self.teams.iter().min_by(|a, b| hope_us(a).total_cmp(&hope_us(b)));
        match long.filter(|team| hope_us(team) < TRY_BELOW * most_us) {
            // Long rounds are noticed within a millisecond or so; short ones are over by then.
            Some(_) if short == 0 => Plan {
                slots: 0,
                expected_us: Some(least_us),
                handovers: self.handovers(known, work, None),
                best_us: Some(short_us),
                is_trial: false,
                change: None,
            },
            // Long rounds are what counts, and cannot be helped later. Only what was measured is believed here; others are tried
            // as for any work, within what trials may cost.
            Some(_) => match self.best_tried(known, work, most_us).0 {
                long if long > short => Plan { best_us: Some(short_us), ..Plan::fixed(long) },
                _ => self.decide(known, work, serial_us),
            },
            None => self.decide(known, work, serial_us),
        }
    }

    /// The best of what was tried; if nothing was, of what is guessed. The caller's thread counts as tried.
    fn best_tried(&self, known: &Known, work: &Work<'_>, serial_us: f64) -> (u32, f64) {
        let inline = work.can_inline.then_some((0, serial_us));
        let tried = known
            .tried
            .keys()
            .filter_map(|&slots| Some((slots, self.predict(known, work, slots, serial_us)?)));
        let least = |totals: &mut dyn Iterator<Item = (u32, f64)>| totals.min_by(|a, b| a.1.total_cmp(&b.1));
        let guessed = || {
            let teams = self.teams.iter();
            least(&mut teams.map(|team| (team.slots, self.guess(known, work, team, serial_us))))
        };
        least(&mut inline.into_iter().chain(tried)).or_else(guessed).unwrap_or((0, serial_us))
    }

    /// What a round takes with a number of workers that was tried.
    fn predict(&self, known: &Known, work: &Work<'_>, slots: u32, serial_us: f64) -> Option<f64> {
        if slots == 0 {
            return work.can_inline.then_some(serial_us);
        }
        let team = self.teams.iter().find(|team| team.slots == slots)?;
        let tried = known.tried.get(&slots)?;
        Some(tried.overhead.get()? + self.share(tried, work, team, serial_us) * serial_us)
    }

    /// The share that was learned of a team, for work that takes so long on one thread. Much longer work than it was learned with
    /// may be shared better.
    fn share(&self, tried: &Tried, work: &Work<'_>, team: &Team, serial_us: f64) -> f64 {
        match serial_us > FAR_LONGER * tried.serial_us {
            true => tried.share.min(team.perfect_share(work)),
            false => tried.share,
        }
    }

    fn forget_oldest(&mut self) {
        if self.kinds.len() > KINDS_MAX {
            let oldest = self.kinds.iter().min_by_key(|(_, known)| known.used).map(|(kind, _)| *kind);
            oldest.map(|kind| self.kinds.remove(&kind));
        }
        if self.rates.len() > KINDS_MAX {
            self.rates.pop_first();
        }
    }

    /// A round is over that was run as planned.
    pub fn learn(&mut self, work: &Work<'_>, plan: &Plan, outcome: &RoundCost) {
        let Some(known) = self.kinds.get_mut(&work.kind) else { return };
        known.rounds += 1;
        known.spent_us += outcome.total_us;
        if outcome.is_disturbed {
            return;
        }
        let is_handed_over = outcome.slots > 0 && outcome.begun.is_some();
        let whole_us =
            outcome.begun.map(|(us, done, blocks)| us * f64::from(blocks) / f64::from(done.max(1)));
        if let Some(best_us) = plan.best_us.filter(|_| plan.is_trial || is_handed_over) {
            // Of other work than was expected it is not known what would have been best; one thread is all that is.
            let serial_us = whole_us.unwrap_or(outcome.worker_us);
            let best_us = if plan.is_other_work(serial_us) { serial_us } else { best_us };
            known.lost_us += (outcome.total_us - best_us).max(0.0);
        }
        match (outcome.slots, outcome.begun, whole_us) {
            (0, ..) => {
                known.learn_serial(outcome.total_us, known.inline.visits < 2);
                known.inline.visit(known.rounds);
            }
            (slots, Some((us, ..)), Some(whole_us)) => {
                known.learn_serial(whole_us, known.inline.visits < 2);
                let rest_us = (whole_us - us).max(1e-3);
                let rest = RoundCost { total_us: outcome.total_us - us, ..*outcome };
                // While the caller's thread was in its last block, workers had the rest: what that cost beside computing cannot be told.
                if rest.total_us >= rest.worker_us {
                    known.learn_team(slots, &rest, rest_us, self.overheads.entry(slots).or_default());
                }
            }
            (slots, ..) => {
                // Nobody is faster than all of them together can be.
                let most_us = outcome.worker_us * f64::from(slots.min(work.chunks).max(1));
                let tried = known.tried.get(&slots).filter(|t| !t.is_cold() && t.share > 0.0);
                let share = tried.map(|t| t.share);
                let serial_us = match known.serial.get() {
                    // One of them computed for much longer than one thread should have for all of it: the work has grown, and to
                    // what share cannot be told.
                    Some(us) if outcome.worker_us >= (OTHER_WORK * us).max(OTHER_WORK_US) => {
                        let team = self.teams.iter().find(|team| team.slots == slots);
                        let hoped = || team.map_or(1.0, |team| team.perfect_share(work));
                        outcome.worker_us / share.unwrap_or_else(hoped)
                    }
                    Some(us) if us <= 1.1 * most_us => us,
                    _ => {
                        known.serial.set(most_us);
                        most_us
                    }
                };
                match share {
                    // How much faster so many are than one is known: what differs is the work.
                    Some(share) => known.learn_serial(outcome.worker_us / share, false),
                    None if known.serial.get() != Some(serial_us) => known.learn_serial(serial_us, false),
                    None => known.recent.add(serial_us),
                }
                let overhead = self.overheads.entry(slots).or_default();
                known.learn_team(slots, outcome, serial_us.max(1e-3), overhead);
            }
        }
        if outcome.bytes_sent > 1 << 20 {
            let us = (outcome.total_us - outcome.worker_us).max(1.0);
            self.bytes_per_us.learn(outcome.bytes_sent as f64 / us, false);
        }
        if let Some(us) = known.serial.get() {
            self.rates.insert(work.kind.function, us / work.amount());
        }
    }

    /// All that is known, the kinds of work used last first.
    pub fn explain(&self) -> Vec<Explained> {
        let mut known: Vec<(&Kind, &Known)> = self.kinds.iter().filter(|(_, k)| k.rounds > 0).collect();
        known.sort_by_key(|(_, known)| std::cmp::Reverse(known.used));
        known.into_iter().map(|(kind, known)| self.explained(kind, known)).collect()
    }
}

impl Known {
    fn new(work: &Work<'_>) -> Self {
        Known {
            name: work.name.to_owned(),
            bytes: work.bytes,
            chunks: work.chunks,
            used: 0,
            serial: Estimate::default(),
            recent: Recent::default(),
            inline: Tried::default(),
            tried: BTreeMap::new(),
            choice: None,
            rounds: 0,
            spent_us: 0.0,
            lost_us: 0.0,
        }
    }

    /// A round took so long on one thread, or would have.
    fn learn_serial(&mut self, us: f64, early: bool) {
        self.serial.learn(us, early);
        self.recent.add(us);
    }

    fn learn_team(&mut self, slots: u32, outcome: &RoundCost, serial_us: f64, usual: &mut Estimate) {
        let overhead_us = (outcome.total_us - outcome.worker_us).max(0.0);
        let tried = self.tried.entry(slots).or_default();
        let is_first = tried.is_cold();
        tried.learn(outcome.is_cold, overhead_us, (outcome.worker_us, serial_us), self.rounds);
        if !outcome.is_cold {
            usual.learn(overhead_us, is_first);
        }
    }
}

/// One line for the journal.
fn reason(plan: &Plan, before: Option<u32>, serial_us: Option<f64>) -> String {
    let now = explained::workers(plan.slots);
    match (before, serial_us, plan.best_us) {
        (None, None, _) => format!("{now} first: nothing is known of it yet"),
        (_, Some(serial_us), Some(best_us)) => format!(
            "{now}: one thread takes {}, the best known choice {}",
            explained::time(serial_us),
            explained::time(best_us)
        ),
        _ => format!("{now}: as far as can be guessed"),
    }
}
