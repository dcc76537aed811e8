//! External faults, drawn from the seed.
//!
//! Each seed allows only some kinds of faults, because runs with one or two kinds reach states that a mixture of all kinds hides.

use crate::random::Rng;
use qjam_core::time::{Span, Time};

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process on a seat dies.
    Crash {
        /// Where.
        seat: u32,
    },
    /// Every process dies at the same moment.
    CrashAll,
    /// The process dies while it sends its next result, which is lost.
    CrashSending {
        /// Where.
        seat: u32,
    },
    /// The process is stopped: it loses nothing and makes no progress.
    Stop {
        /// Where.
        seat: u32,
        /// How long until it continues; `None` for ever.
        for_span: Option<Span>,
    },
    /// The connection breaks: messages in transit are lost, and each end learns of it at its own time.
    Cut {
        /// Where.
        seat: u32,
        /// When the master learns of it; `None` if it does not.
        master_learns: Option<Span>,
        /// When the worker learns of it and ends.
        worker_learns: Span,
    },
    /// Blocks take `factor` times as long.
    SlowWorker {
        /// Where.
        seat: u32,
        /// How many times.
        factor: u64,
        /// For how long.
        for_span: Span,
    },
    /// Messages take `factor` times as long.
    SlowLink {
        /// Where.
        seat: u32,
        /// How many times.
        factor: u64,
        /// For how long.
        for_span: Span,
    },
    /// Starts of workers fail.
    StartsFail {
        /// Where.
        seat: u32,
        /// Whether they stay silent or end immediately.
        silently: bool,
        /// For how long.
        for_span: Span,
    },
    /// A host is unreachable. Messages in transit are delayed, or lost if it lasts too long; starts fail.
    Outage {
        /// Where; a seat on another host.
        seat: u32,
        /// Whether the network reports it, or lets both sides wait.
        refuses: bool,
        /// For how long; `None` for ever.
        for_span: Option<Span>,
    },
    /// The master's process is stopped for a while.
    MasterStalls {
        /// For how long.
        for_span: Span,
    },
}

/// Names of the kinds, in the order of [`Fault::kind`].
pub const KINDS: [&str; 10] = [
    "crash",
    "crash of all",
    "crash while sending",
    "stop",
    "cut",
    "slow worker",
    "slow link",
    "failing starts",
    "stalled master",
    "outage",
];

/// Number of kinds that can affect any seat: all but the last.
const ANYWHERE: u64 = KINDS.len() as u64 - 1;

impl Fault {
    /// Which kind it is: an index into [`KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Fault::Crash { .. } => 0,
            Fault::CrashAll => 1,
            Fault::CrashSending { .. } => 2,
            Fault::Stop { .. } => 3,
            Fault::Cut { .. } => 4,
            Fault::SlowWorker { .. } => 5,
            Fault::SlowLink { .. } => 6,
            Fault::StartsFail { .. } => 7,
            Fault::MasterStalls { .. } => 8,
            Fault::Outage { .. } => 9,
        }
    }

    /// When the fault ends. Its consequences may last longer.
    pub fn end(&self, at: Time) -> Time {
        match *self {
            Fault::Crash { .. } | Fault::CrashAll | Fault::CrashSending { .. } => at,
            Fault::Stop { for_span, .. } | Fault::Outage { for_span, .. } => {
                at + for_span.unwrap_or_default()
            }
            Fault::Cut { master_learns, .. } => at + master_learns.unwrap_or_default(),
            Fault::SlowWorker { for_span, .. }
            | Fault::SlowLink { for_span, .. }
            | Fault::StartsFail { for_span, .. }
            | Fault::MasterStalls { for_span } => at + for_span,
        }
    }
}

/// What faults can strike: the seats of a plan, and the time it takes.
pub(crate) struct Targets {
    /// How many seats there are.
    pub(crate) seats: u32,
    /// Those of them that are on other hosts.
    pub(crate) remote: Vec<u32>,
    /// About how long it all takes when nothing goes wrong.
    pub(crate) calm: Span,
}

/// Draws the faults of a plan.
pub(crate) fn draw(rng: &mut Rng, targets: &Targets) -> Vec<(Time, Fault)> {
    if rng.percent(8) {
        return Vec::new();
    }
    let allowed: Vec<usize> = match rng.below(3) {
        0 => vec![rng.below(ANYWHERE) as usize],
        1 => vec![rng.below(ANYWHERE) as usize, rng.below(ANYWHERE) as usize],
        // Kinds that end a run early are drawn less often.
        _ => vec![0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 7, 8],
    };
    let seats = u64::from(targets.seats);
    let n = match rng.percent(80) {
        true => rng.between(1, 3 + seats / 2),
        false => rng.between(1, 12 + seats),
    };
    // Most faults occur while rounds are running; some long after.
    let calm_us = targets.calm.0;
    let within_us = if rng.percent(75) { calm_us + calm_us / 2 } else { calm_us + 40_000_000 };
    let mut faults: Vec<(Time, Fault)> = (0..n)
        .map(|_| {
            let kind = *rng.pick(&allowed);
            (Time(rng.below(within_us)), draw_one(rng, kind, seats))
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Stops that end at about the time a worker is suspected, while there is work, and some deaths after that.
pub(crate) fn draw_silence(rng: &mut Rng, targets: &Targets) -> Vec<(Time, Fault)> {
    let seats = u64::from(targets.seats);
    let calm_us = targets.calm.0;
    let mut faults = Vec::new();
    for _ in 0..rng.between(1, 2 * seats) {
        let (at, span) = (Time(rng.below(calm_us)), Span(rng.between(9_900_000, 13_000_000)));
        faults.push((at, Fault::Stop { seat: rng.below(seats) as u32, for_span: Some(span) }));
        // The worker that took over may die while both run the block.
        for _ in 0..rng.below(4) {
            let later = at + span + Span(rng.below(3_000_000));
            faults.push((later, Fault::Crash { seat: rng.below(seats) as u32 }));
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// All workers die, and starts fail for about as long as it takes to give the seats up.
pub(crate) fn draw_desertion(rng: &mut Rng, targets: &Targets) -> Vec<(Time, Fault)> {
    let at = Time(rng.below(targets.calm.0));
    let for_span = Span(rng.magnitude(500_000, 30_000_000));
    let silently = rng.percent(10);
    let seats = 0..targets.seats;
    let mut faults: Vec<(Time, Fault)> =
        seats.map(|seat| (at, Fault::StartsFail { seat, silently, for_span })).collect();
    faults.push((at, Fault::CrashAll));
    faults
}

/// Unreachable hosts: one at a time, or all together, as when the master's own network is down.
pub(crate) fn draw_outages(rng: &mut Rng, targets: &Targets) -> Vec<(Time, Fault)> {
    let hosts = &targets.remote;
    let calm_us = targets.calm.0;
    let within_us = if rng.percent(75) { calm_us + calm_us / 2 } else { calm_us + 40_000_000 };
    let mut outages = Vec::new();
    if rng.percent(30) {
        let (at, for_span, refuses) = (Time(rng.below(within_us)), draw_outage(rng), rng.percent(50));
        // They return together, or one by one at about the time the master stops waiting for them.
        let is_staggered = rng.percent(50);
        outages.extend(hosts.iter().map(|&seat| {
            let own = is_staggered.then(|| Span(rng.between(60_000_000, 100_000_000)));
            (at, Fault::Outage { seat, refuses, for_span: own.or(for_span) })
        }));
    } else if !hosts.is_empty() {
        for _ in 0..rng.below(2 + hosts.len() as u64) {
            let (seat, for_span, refuses) = (*rng.pick(hosts), draw_outage(rng), rng.percent(50));
            outages.push((Time(rng.below(within_us)), Fault::Outage { seat, refuses, for_span }));
        }
    }
    outages
}

/// Outages are survived, break the connection, exceed the patience with a host, or never end.
fn draw_outage(rng: &mut Rng) -> Option<Span> {
    match rng.below(8) {
        0 | 1 => Some(Span(rng.magnitude(1_000, 9_000_000))),
        2 | 3 => Some(Span(rng.between(9_000_000, 16_000_000))),
        4 | 5 => Some(Span(rng.between(16_000_000, 50_000_000))),
        6 => Some(Span(rng.between(50_000_000, 120_000_000))),
        _ => None,
    }
}

fn draw_one(rng: &mut Rng, kind: usize, seats: u64) -> Fault {
    let seat = rng.below(seats) as u32;
    match kind {
        0 => Fault::Crash { seat },
        1 => Fault::CrashAll,
        2 => Fault::CrashSending { seat },
        3 => Fault::Stop { seat, for_span: draw_stop(rng) },
        4 => Fault::Cut {
            seat,
            master_learns: rng.percent(70).then(|| Span(rng.magnitude(10, 20_000_000))),
            worker_learns: Span(rng.magnitude(10, 40_000_000)),
        },
        5 => Fault::SlowWorker {
            seat,
            factor: rng.between(2, 20),
            for_span: Span(rng.magnitude(1_000, 20_000_000)),
        },
        6 => Fault::SlowLink {
            seat,
            factor: rng.magnitude(2, 200),
            for_span: Span(rng.magnitude(1_000, 20_000_000)),
        },
        7 => Fault::StartsFail {
            seat,
            silently: rng.percent(30),
            for_span: Span(rng.magnitude(100_000, 40_000_000)),
        },
        _ => Fault::MasterStalls { for_span: Span(rng.magnitude(1_000, 20_000_000)) },
    }
}

/// Stops end soon, at about the time a worker is suspected, at about the time it counts as lost, or never.
fn draw_stop(rng: &mut Rng) -> Option<Span> {
    match rng.below(6) {
        0 | 1 => Some(Span(rng.magnitude(1_000, 5_000_000))),
        2 | 3 => Some(Span(rng.between(9_500_000, 12_000_000))),
        4 => Some(Span(rng.between(12_000_000, 17_000_000))),
        _ => None,
    }
}
