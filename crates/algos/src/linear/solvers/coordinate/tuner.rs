//! How much to compute between two exchanges, and how carefully: chosen while running.
//!
//! Two numbers: the *work* of a round in passes over a partition (H divided by its coordinates), and σ', by which partitions
//! allow for what the others do at the same time. Little work pays the exchange often; much work is spent on a
//! gradient that is out of date. A small σ' takes long steps that may not add up, σ' = K is always safe and often slow.
//!
//! What is best depends on the data and on what a round costs, which the caller tells of every round: counted at fixed
//! prices (`prices.rs`), or measured. If it takes `a` passes in
//! many small rounds and at least `b` rounds however large, it takes about `a/h + b` rounds of `h` passes, and the best `h`
//! is the root of `a/b` times what an exchange takes in passes. `a/b` was between ½ and 1 where it was looked at, and the curve is
//! flat there: so that root is the choice after the first round, and again whenever costs have become others.
//!
//! For data that are different, now and then some rounds are run with another setting, and what they gained in a
//! second is compared with as many before and after them: progress falls off geometrically, so the geometric mean
//! of these is what the rounds in between would have gained. Single rounds would not do: the first one with more
//! work gains a lot, once. Nor would parts of a pass: what they gain depends on whose turn it is. Seconds are not those of the rounds themselves, which on a busy machine are
//! mostly chance: what an exchange and a pass take is the median of the last rounds, and a round takes one and so many of the
//! other. Where seconds are measured, a worker also takes a time that does not depend on its passes (it is woken up, copies its
//! state, tells its terms): a line is fitted to the workers' seconds over passes, and what it begins with belongs to the exchange.
//! The better setting stays; one that was worse is tried again later, each
//! time after twice as long.
//!
//! That no step makes the objective worse is not left to this: see [`search`](super::search). A round without any gain
//! doubles σ' at once.

use std::collections::VecDeque;
use std::fmt;

/// Work and σ' of a round, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The first round that it is for, counted from 1.
    pub round: usize,
    /// Passes over each partition.
    pub work: f64,
    /// σ'.
    pub sigma: f64,
    /// Why.
    pub reason: Reason,
}

/// Why a choice was made.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It was given.
    Given,
    /// Nothing is known yet.
    First,
    /// What an exchange costs and what a pass costs, in seconds, counted or measured.
    Costs {
        /// Of a round beside the workers' computing.
        exchange_s: f64,
        /// Of one pass.
        pass_s: f64,
    },
    /// To see whether it is better.
    Trial,
    /// Back to what was before a trial, to compare.
    Compared,
    /// A trial gained so many times what its neighbours did.
    Better {
        /// Gain in a second over theirs.
        ratio: f64,
    },
    /// A trial was no better.
    NoBetter {
        /// Gain in a second over that of its neighbours.
        ratio: f64,
    },
    /// The last round gained nothing.
    NoGain,
    /// Changes are added as they are: see [`whole`](super::whole).
    Whole,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Given => write!(f, "given"),
            Reason::First => write!(f, "to begin with"),
            Reason::Costs { exchange_s, pass_s } => {
                write!(f, "an exchange costs {:.2} ms and a pass {:.2} ms", exchange_s * 1e3, pass_s * 1e3)
            }
            Reason::Trial => write!(f, "a trial"),
            Reason::Compared => write!(f, "back, to compare"),
            Reason::Better { ratio } => write!(f, "gained {ratio:.2} times as much a second"),
            Reason::NoBetter { ratio } => write!(f, "back: gained {ratio:.2} times as much a second"),
            Reason::NoGain => write!(f, "the last round gained nothing"),
            Reason::Whole => write!(f, "changes taken whole"),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}: {:.3} passes, σ' {:.2}: {}", self.round, self.work, self.sigma, self.reason)
    }
}

/// What a round came to.
#[derive(Clone, Copy, Debug)]
pub struct RoundCost {
    /// By how much it lowered the objective.
    pub gain: f64,
    /// All of its time.
    pub seconds: f64,
    /// The slowest worker's share of it.
    pub worker_s: f64,
    /// Passes that were made.
    pub passes: f64,
    /// Whether it was run as was chosen, and not as a certificate wants it.
    pub usual: bool,
}

const WORK_LEAST: f64 = 1.0 / 64.0;
const WORK_MOST: f64 = 16.0;
/// The first choice of work, and what costs alone may make of it.
const WORK_FIRST: f64 = 0.5;
const WORK_BY_COSTS: (f64, f64) = (0.1, 8.0);
/// Passes in many small rounds over rounds however large.
const PASSES_OVER_ROUNDS: f64 = 0.7;
/// Costs whose ratio is so many times what it was are others.
const OTHERS: f64 = 4.0;
/// A trial that gains so much more wins; one of more work has to gain this, since part of it is what the rounds after it
/// would have gained.
const CLEARLY: f64 = 1.25;
const CLEARLY_MORE_WORK: f64 = 1.5;
/// Rounds of a trial at least, and passes; and of what it is compared with before and after it.
const ROUNDS_COMPARED: usize = 2;
const PASSES_COMPARED: f64 = 1.0;
/// Stretches of that length between trials of one kind, at first and at most.
const WAIT_FIRST: usize = 4;
const WAIT_MOST: usize = 32;
/// Rounds whose costs are remembered.
const COSTS_KEPT: usize = 9;

/// What one round cost.
#[derive(Clone, Copy, Debug)]
struct Paid {
    exchange_s: f64,
    worker_s: f64,
    passes: f64,
}

/// What the last rounds cost: the exchange, and a pass.
#[derive(Clone, Debug, Default)]
struct Costs {
    rounds: VecDeque<Paid>,
    /// Whether seconds are measured. Counted ones are in proportion to the passes.
    measured: bool,
}

/// Of a worker's seconds at least so much is due to its passes, whatever a busy machine says.
const LEAST_SHARE: f64 = 0.05;
/// Passes of two rounds that tell a slope differ by this factor at least.
const APART: f64 = 1.25;

impl Costs {
    fn add(&mut self, outcome: &RoundCost) {
        if outcome.passes <= 0.0 {
            return;
        }
        let exchange_s = (outcome.seconds - outcome.worker_s).max(1e-6);
        self.rounds.push_back(Paid { exchange_s, worker_s: outcome.worker_s, passes: outcome.passes });
        if self.rounds.len() > COSTS_KEPT {
            self.rounds.pop_front();
        }
    }

    fn medians(&self) -> (f64, f64) {
        let of_rounds = |of: fn(&Paid) -> f64| median(self.rounds.iter().map(of).collect());
        let exchange_s = of_rounds(|paid| paid.exchange_s).unwrap_or(1e-6);
        if let Some((start_s, pass_s)) = self.line() {
            return (exchange_s + start_s, pass_s);
        }
        (exchange_s, of_rounds(|paid| (paid.worker_s / paid.passes).max(1e-9)).unwrap_or(1e-6))
    }

    /// What workers take whatever their passes, and for a pass: the median of the slopes between two rounds each, which a few
    /// rounds on a busy machine do not move. `None` if seconds are counted or all rounds had about as many passes.
    fn line(&self) -> Option<(f64, f64)> {
        if !self.measured {
            return None;
        }
        let pairs =
            self.rounds.iter().enumerate().flat_map(|(n, a)| self.rounds.range(..n).map(move |b| (a, b)));
        let slopes = pairs
            .filter(|(a, b)| a.passes > APART * b.passes || b.passes > APART * a.passes)
            .map(|(a, b)| (a.worker_s - b.worker_s) / (a.passes - b.passes));
        let slope = median(slopes.collect())?;
        let most = median(self.rounds.iter().map(|paid| paid.worker_s / paid.passes).collect())?;
        // No worker begins before its round does.
        let pass_s = slope.clamp(most * LEAST_SHARE, most).max(1e-9);
        let start_s = median(self.rounds.iter().map(|paid| paid.worker_s - pass_s * paid.passes).collect())?;
        Some((start_s.max(0.0), pass_s))
    }

    /// Of a round of so many passes.
    fn of(&self, passes: f64) -> f64 {
        let (exchange_s, pass_s) = self.medians();
        exchange_s + pass_s * passes
    }
}

/// Of two in the middle the lower: what comes on top is chance.
fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len().saturating_sub(1) / 2).copied()
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    work: f64,
    sigma: f64,
}

/// One way to change a setting.
#[derive(Clone, Copy, Debug)]
struct Direction {
    work: f64,
    sigma: f64,
    /// Stretches until it is tried, and how long it waits next time.
    due: usize,
    wait: usize,
}

/// What some rounds in a row gained, and took.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    rounds: usize,
    passes: f64,
    gain: f64,
    seconds: f64,
}

impl Stretch {
    fn add(&mut self, outcome: &RoundCost, seconds: f64) {
        self.rounds += 1;
        self.passes += outcome.passes;
        self.gain += outcome.gain;
        self.seconds += seconds;
    }

    fn is_long(&self) -> bool {
        self.rounds >= ROUNDS_COMPARED && self.passes >= PASSES_COMPARED
    }

    fn rate(&self) -> f64 {
        self.gain / self.seconds
    }
}

/// A trial under way.
#[derive(Clone, Copy, Debug)]
struct Trial {
    direction: usize,
    setting: Setting,
    /// Gain in a second of the rounds before.
    before: f64,
    trial: Stretch,
    after: Stretch,
}

/// Chooses work and σ' for each round.
#[derive(Clone, Debug)]
pub struct Tuner {
    partitions: f64,
    setting: Setting,
    round: usize,
    reason: Reason,
    costs: Costs,
    /// What an exchange took in passes when the work was set by it.
    ratio: Option<f64>,
    /// The last rounds with the setting, for what comes next.
    last: Stretch,
    trial: Option<Trial>,
    directions: [Direction; 4],
    /// Whether work and σ' are left as they are.
    kept: (bool, bool),
}

impl Tuner {
    /// For so many partitions.
    pub fn new(partitions: usize) -> Tuner {
        let way = |work, sigma, due| Direction { work, sigma, due, wait: WAIT_FIRST };
        Tuner {
            partitions: partitions as f64,
            // A single partition is never out of date.
            setting: Setting { work: if partitions == 1 { 1.0 } else { WORK_FIRST }, sigma: 1.0 },
            round: 0,
            reason: Reason::First,
            costs: Costs::default(),
            ratio: None,
            last: Stretch::default(),
            trial: None,
            directions: [way(2.0, 1.0, 3), way(0.5, 1.0, 2), way(1.0, 2.0, 5), way(1.0, 0.5, 6)],
            kept: (false, false),
        }
    }

    /// With one of them given, which is left as it is.
    pub fn keeping(self, work: Option<f64>, sigma: Option<f64>) -> Tuner {
        let setting = Setting {
            work: work.unwrap_or(self.setting.work),
            sigma: sigma.unwrap_or(self.setting.sigma).clamp(1.0, self.partitions),
        };
        Tuner { setting, kept: (work.is_some(), sigma.is_some()), ..self }
    }

    /// Told seconds as a clock measured them.
    pub fn measured(mut self) -> Tuner {
        self.costs.measured = true;
        self
    }

    /// The choice for the next round.
    pub fn choose(&mut self) -> Choice {
        self.round += 1;
        let (setting, reason) = match &self.trial {
            Some(Trial { setting, trial, .. }) if !trial.is_long() => (*setting, Reason::Trial),
            Some(_) => (self.setting, Reason::Compared),
            None => (self.setting, self.reason.clone()),
        };
        Choice { round: self.round, work: setting.work, sigma: setting.sigma, reason }
    }

    /// Learns what the last round came to.
    pub fn learn(&mut self, outcome: &RoundCost) {
        self.costs.add(outcome);
        if outcome.gain <= 0.0 {
            self.interrupted();
            if self.setting.sigma < self.partitions && !self.kept.1 {
                self.setting.sigma = (2.0 * self.setting.sigma).min(self.partitions);
                self.reason = Reason::NoGain;
            }
            return;
        }
        if !outcome.usual {
            return;
        }
        if self.set_by_costs() {
            self.interrupted();
            return;
        }
        let seconds = self.costs.of(outcome.passes);
        match &mut self.trial {
            Some(Trial { trial, .. }) if !trial.is_long() => trial.add(outcome, seconds),
            Some(Trial { direction, setting, before, trial, after }) => {
                after.add(outcome, seconds);
                if after.is_long() {
                    let ratio = trial.rate() / (*before * after.rate()).sqrt();
                    let (direction, setting, after) = (*direction, *setting, *after);
                    self.trial = None;
                    self.judge(direction, setting, ratio);
                    // What came after one trial comes before the next.
                    if self.setting != setting {
                        self.perhaps_try(after.rate());
                    }
                }
            }
            None => {
                self.last.add(outcome, seconds);
                if self.last.is_long() {
                    let before = std::mem::take(&mut self.last);
                    self.perhaps_try(before.rate());
                }
            }
        }
    }

    /// Learns what a round of another kind cost.
    pub fn pay(&mut self, outcome: &RoundCost) {
        self.interrupted();
        self.costs.add(outcome);
    }

    /// Rounds of another kind came in between: what was before them is compared with nothing after them.
    fn interrupted(&mut self) {
        (self.trial, self.last) = (None, Stretch::default());
    }

    /// Sets the work by what exchanges and passes take, if that is not known yet or no longer so.
    fn set_by_costs(&mut self) -> bool {
        let (exchange_s, pass_s) = self.costs.medians();
        let ratio = exchange_s / pass_s;
        if self.kept.0 || self.ratio.is_some_and(|then| ratio < OTHERS * then && then < OTHERS * ratio) {
            return false;
        }
        let (least, most) = WORK_BY_COSTS;
        // What trials have found out stays.
        self.setting.work = match self.ratio {
            Some(then) => (self.setting.work * (ratio / then).sqrt()).clamp(WORK_LEAST, WORK_MOST),
            None => (PASSES_OVER_ROUNDS * ratio).sqrt().clamp(least, most),
        };
        self.ratio = Some(ratio);
        self.reason = Reason::Costs { exchange_s, pass_s };
        true
    }

    fn judge(&mut self, direction: usize, setting: Setting, ratio: f64) {
        let way = &mut self.directions[direction];
        let clearly = if way.work > 1.0 { CLEARLY_MORE_WORK } else { CLEARLY };
        if ratio > clearly {
            self.setting = setting;
            self.reason = Reason::Better { ratio };
            (way.wait, way.due) = (WAIT_FIRST, 1);
        } else {
            self.reason = Reason::NoBetter { ratio };
            way.wait = (2 * way.wait).min(WAIT_MOST);
            way.due = way.wait;
        }
    }

    fn perhaps_try(&mut self, rate: f64) {
        self.directions.iter_mut().for_each(|way| way.due = way.due.saturating_sub(1));
        let allowed = |way: &Direction| {
            let (work, sigma) = (self.setting.work * way.work, self.setting.sigma * way.sigma);
            let (work_kept, sigma_kept) = self.kept;
            let work_may = way.work == 1.0 || (!work_kept && (WORK_LEAST..=WORK_MOST).contains(&work));
            let sigma_may = way.sigma == 1.0 || (!sigma_kept && (1.0..=self.partitions).contains(&sigma));
            work_may && sigma_may
        };
        let Some(direction) = self.directions.iter().position(|way| way.due == 0 && allowed(way)) else {
            return;
        };
        let way = self.directions[direction];
        let setting = Setting { work: self.setting.work * way.work, sigma: self.setting.sigma * way.sigma };
        let (trial, after) = (Stretch::default(), Stretch::default());
        self.trial = Some(Trial { direction, setting, before: rate, trial, after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A world in which what is left shrinks every round by a share that depends on work and σ'.
    fn run(partitions: usize, exchange_s: f64, shrink: impl Fn(&Choice) -> f64) -> (Vec<Choice>, f64) {
        let (mut tuner, mut left, mut choices, mut seconds_all) = (Tuner::new(partitions), 1.0, vec![], 0.0);
        for _ in 0..150 {
            let choice = tuner.choose();
            let gain = left * shrink(&choice);
            left -= gain;
            let worker_s = 0.010 * choice.work;
            let seconds = worker_s + exchange_s;
            seconds_all += seconds;
            tuner.learn(&RoundCost { gain, seconds, worker_s, passes: choice.work, usual: true });
            choices.push(choice);
        }
        (choices, -f64::ln(left) / seconds_all)
    }

    /// Gains that grow with the work and then level off.
    fn levelling(choice: &Choice) -> f64 {
        0.5 * choice.work / (choice.work + 1.0)
    }

    #[test]
    fn dear_exchanges_are_made_less_often() {
        let last = |exchange_s| run(2, exchange_s, levelling).0.last().map(|c| c.work).unwrap();
        assert!(last(0.0002) < 0.5, "{}", last(0.0002));
        assert!(last(0.1) > 2.0, "{}", last(0.1));
    }

    #[test]
    fn ends_near_the_best_fixed_choice() {
        for exchange_s in [0.0002, 0.005, 0.05] {
            let (choices, rate) = run(2, exchange_s, levelling);
            let best = (-6..=4)
                .map(|power| 2.0_f64.powi(power))
                .map(|work| {
                    let fixed = Choice { work, ..choices[0].clone() };
                    -f64::ln(1.0 - levelling(&fixed)) / (0.010 * work + exchange_s)
                })
                .fold(0.0, f64::max);
            assert!(rate > best / 1.3, "{exchange_s} s: {rate} and {best}");
        }
    }

    #[test]
    fn careful_steps_win_where_bold_ones_do_not_add_up() {
        let (choices, _) = run(8, 0.001, |c| levelling(c) * if c.sigma < 8.0 { 0.05 * c.sigma } else { 1.0 });
        assert_eq!(choices.last().map(|c| c.sigma), Some(8.0));
        let (choices, _) = run(8, 0.001, |c| levelling(c) / c.sigma);
        assert!(choices.iter().filter(|c| c.sigma > 1.0).count() < 10);
    }

    #[test]
    fn a_busy_machine_does_not_mislead() {
        let mut random = qjam::Rng::keyed(1, 0, 0);
        let mut tuner = Tuner::new(2);
        let (mut left, mut works) = (1.0, vec![]);
        for _ in 0..100 {
            let choice = tuner.choose();
            let gain = left * levelling(&choice);
            left -= gain;
            // One round in three takes five times as long.
            let busy = if random.below(3) == 0 { 5.0 } else { 1.0 };
            let (worker_s, other_s) = (0.010 * choice.work * busy, 0.0005 * busy);
            let outcome =
                RoundCost { gain, seconds: worker_s + other_s, worker_s, passes: choice.work, usual: true };
            tuner.learn(&outcome);
            works.push(choice.work);
        }
        assert!(works[20..].iter().all(|work| (0.05..1.0).contains(work)), "{works:?}");
    }

    #[test]
    fn what_workers_take_without_any_pass_belongs_to_the_exchange() {
        let (exchange_s, start_s, pass_s) = (0.001, 0.019, 0.010);
        let run = |tuner: Tuner| {
            let (mut tuner, mut left, mut seconds_all, mut work) = (tuner, 1.0, 0.0, 0.0);
            let mut random = qjam::Rng::keyed(3, 0, 0);
            for _ in 0..60 {
                let choice = tuner.choose();
                work = choice.work;
                let gain = left * levelling(&choice);
                left -= gain;
                // One round in four takes three times as long.
                let busy = if random.below(4) == 0 { 3.0 } else { 1.0 };
                let worker_s = busy * (start_s + pass_s * work);
                let seconds = worker_s + exchange_s;
                seconds_all += start_s + pass_s * work + exchange_s;
                tuner.learn(&RoundCost { gain, seconds, worker_s, passes: work, usual: true });
            }
            (work, -f64::ln(left) / seconds_all)
        };
        let ((through_origin, slow), (with_start, fast)) =
            (run(Tuner::new(2)), run(Tuner::new(2).measured()));
        assert!(with_start > 2.0 * through_origin, "{with_start} and {through_origin} passes");
        assert!(fast > 1.2 * slow, "{fast} and {slow}");
        let best = (-6..=4)
            .map(|power| 2.0_f64.powi(power))
            .map(|work| -f64::ln(1.0 - 0.5 * work / (work + 1.0)) / (pass_s * work + start_s + exchange_s))
            .fold(0.0, f64::max);
        assert!(fast > best / 1.3, "{fast} and {best}");
    }

    #[test]
    fn counted_seconds_are_in_proportion_whatever_rounding_says() {
        let mut costs = Costs::default();
        for passes in [0.1, 0.3, 0.7] {
            let worker_s = 0.01 * passes;
            costs.add(&RoundCost { gain: 1.0, seconds: worker_s + 1.0, worker_s, passes, usual: true });
        }
        assert_eq!(costs.line(), None);
    }

    #[test]
    fn a_round_without_gain_makes_the_next_more_careful() {
        let mut tuner = Tuner::new(3);
        let nothing = RoundCost { gain: 0.0, seconds: 1.0, worker_s: 0.5, passes: 0.2, usual: true };
        let sigmas: Vec<f64> = (0..4)
            .map(|_| {
                let sigma = tuner.choose().sigma;
                tuner.learn(&nothing);
                sigma
            })
            .collect();
        assert_eq!(sigmas, [1.0, 2.0, 3.0, 3.0]);
        assert_eq!(
            tuner.choose().to_string(),
            "round 5: 0.500 passes, σ' 3.00: the last round gained nothing"
        );
    }

    #[test]
    fn what_was_given_is_kept_and_the_other_is_chosen() {
        let shrink = |choice: &Choice| 0.02 * choice.work.min(2.0) * choice.sigma.sqrt();
        for (work, sigma) in [(Some(30.0), None), (None, Some(2.0))] {
            let mut tuner = Tuner::new(8).keeping(work, sigma);
            let (mut left, mut others) = (1.0, vec![]);
            for round in 0..150 {
                let choice = tuner.choose();
                assert_eq!(work.unwrap_or(choice.work), choice.work);
                assert_eq!(sigma.unwrap_or(choice.sigma), choice.sigma);
                others.push(if work.is_some() { choice.sigma } else { choice.work });
                // Once there is no gain at all, whatever was chosen.
                let gain = if round == 40 { 0.0 } else { left * shrink(&choice) };
                left -= gain;
                let worker_s = 0.010 * choice.work;
                let seconds = worker_s + 0.020;
                tuner.learn(&RoundCost { gain, seconds, worker_s, passes: choice.work, usual: true });
            }
            others.dedup();
            assert!(others.len() > 3, "{work:?} {sigma:?}: {others:?}");
        }
    }
}
