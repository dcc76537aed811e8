//! What is done to a run, drawn from a seed.

use crate::victim::Pace;
use qjam::Rng;
use qjam::job::Activity;

/// What a run should be hit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Whatever comes.
    Anything,
    /// Executors in this state.
    At(Activity),
    /// The master, when it is at this.
    Master(MasterAt),
}

/// What a master can be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MasterAt {
    /// Starting its workers.
    Starting,
    /// In a round.
    Round,
    /// Between two rounds, or after the last.
    Rest,
}

/// When something is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// So many milliseconds after the program began to start workers.
    AfterStart(u64),
    /// So many milliseconds after the n-th round began.
    InRound { round: u64, ms: u64 },
    /// So many milliseconds after its end.
    AfterRound { round: u64, ms: u64 },
    /// When an executor appears that was not there when the attack before this one was over.
    Newborn,
}

/// To whom.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whom {
    /// Each executor by the toss of a coin, but at least one.
    Some,
    /// All executors.
    All,
    /// The one that started last.
    Youngest,
    /// The master.
    Master,
}

/// What.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT after so many milliseconds, if ever.
    Stop { wake_after_ms: Option<u64> },
}

/// One attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) when: When,
    pub(crate) whom: Whom,
    pub(crate) deed: Deed,
}

/// The attacks on a run. Few enough that it can still end: what is stopped for good costs fifteen seconds.
pub(crate) fn draw(rng: &mut Rng, workers: u64, pace: &Pace, aim: Aim) -> Vec<Attack> {
    if let Aim::Master(at) = aim {
        return vec![Attack {
            when: masters_moment(rng, workers, pace, at),
            whom: Whom::Master,
            deed: Deed::Kill,
        }];
    }
    let mut attacks = Vec::new();
    let mut left_stopped = false;
    for _ in 0..1 + rng.below(3) {
        let (when, youngest) = match aim {
            Aim::At(activity) => aimed(rng, workers, pace, activity),
            _ => moment(rng, workers, pace),
        };
        let whom = match rng.below(20) {
            _ if youngest => Whom::Youngest,
            0..3 if aim == Aim::Anything => Whom::Master,
            3..9 => Whom::All,
            _ => Whom::Some,
        };
        let deed = match rng.below(20) {
            _ if aim != Aim::Anything => Deed::Kill,
            0 if !left_stopped && !matches!(whom, Whom::Master) => {
                left_stopped = true;
                Deed::Stop { wake_after_ms: None }
            }
            1..5 => Deed::Stop { wake_after_ms: Some(1 + rng.below(2_000)) },
            _ => Deed::Kill,
        };
        if matches!((whom, deed), (Whom::Master, Deed::Kill)) {
            let at = [MasterAt::Starting, MasterAt::Round, MasterAt::Rest][rng.below(3) as usize];
            attacks.push(Attack { when: masters_moment(rng, workers, pace, at), whom, deed });
            break;
        }
        attacks.push(Attack { when, whom, deed });
        // Whoever was killed is started again: the next blow may fall on a newborn.
        if matches!(deed, Deed::Kill) && aim == Aim::Anything && rng.below(3) == 0 {
            attacks.push(Attack { when: When::Newborn, whom: Whom::Youngest, deed: Deed::Kill });
        }
    }
    attacks
}

/// Any moment, and whether it is the youngest that should be hit.
fn moment(rng: &mut Rng, workers: u64, pace: &Pace) -> (When, bool) {
    match rng.below(10) {
        0 => (When::AfterStart(rng.below(12)), rng.below(2) == 0),
        _ => {
            let ms = rng.below(pace.round_ms(workers) + pace.idle_ms);
            (When::InRound { round: rng.below(4), ms }, false)
        }
    }
}

/// A moment for the master: it starts workers and rests between rounds for much shorter than its rounds last.
fn masters_moment(rng: &mut Rng, workers: u64, pace: &Pace, at: MasterAt) -> When {
    match at {
        MasterAt::Starting => When::AfterStart(rng.below(5)),
        MasterAt::Round => aimed(rng, workers, pace, Activity::Mapping).0,
        MasterAt::Rest => aimed(rng, workers, pace, Activity::Idle).0,
    }
}

/// A moment at which executors are likely to be in a state.
fn aimed(rng: &mut Rng, workers: u64, pace: &Pace, activity: Activity) -> (When, bool) {
    let round = rng.below(4);
    let map_ms = pace.map_ms * 16 / workers;
    let (from, len) = match activity {
        Activity::Starting => return (When::AfterStart(rng.below(6)), true),
        Activity::Receiving => (0, pace.receive_ms),
        Activity::Mapping => (pace.receive_ms, map_ms),
        Activity::Sending => (pace.receive_ms + map_ms, pace.send_ms),
        Activity::Idle => return (When::AfterRound { round, ms: rng.below(pace.idle_ms.max(1)) }, false),
    };
    (When::InRound { round, ms: from + rng.below(len.max(1)) }, false)
}
