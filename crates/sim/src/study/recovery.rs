//! What failures cost: rounds over the time between failures.
//!
//! A round gives each worker 20 blocks of a second. Workers fail by themselves, at random, and their seats are filled
//! again within two seconds. A *crash* is seen at once, by the end of the connection; a host that *falls silent* is
//! doubted after 10 s and lost after 15 s. What was delivered before (every 2 s) is kept; for comparison, workers that
//! deliver only when they are through with their share. All *simulated*, as long as a run has at least five failures; for
//! rarer ones (marked ≈) the cost of a failure at the rarest rate that was simulated is scaled down.

use super::picture::{Line, Picture};
use super::table::{Table, time, whole};
use super::{for_each, hosts, mean, play, round, seconds};
use crate::fault::Fault;
use crate::random::Rng;
use qjam_core::time::{Span, Time};

/// Blocks of each worker, each of a second.
const BLOCKS: u32 = 20;
const BLOCK: Span = Span::from_ms(1_000);

/// How workers fail, and what they kept back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Crash,
    CrashWithShare,
    Silence,
}

const KINDS: [Kind; 3] = [Kind::Crash, Kind::CrashWithShare, Kind::Silence];
/// Time between the failures of a worker.
const BETWEEN_S: [f64; 6] = [600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0];
/// A run with fewer failures than this is not worth playing.
const FAILURES_MIN: f64 = 5.0;

/// How many rounds are played.
fn rounds_of(workers: u32) -> u32 {
    (2_000 / workers).clamp(1, 30)
}

/// Whether failures of this rate are played.
fn is_played(workers: u32, between_s: f64) -> bool {
    let span_s = f64::from(rounds_of(workers) * BLOCKS);
    f64::from(workers) * span_s / between_s >= FAILURES_MIN || between_s == BETWEEN_S[0]
}

/// What rounds came to.
#[derive(Clone, Copy, Debug, Default)]
struct FailureCost {
    round_s: f64,
    failures: f64,
    blocks_again: f64,
}

/// Plays rounds in which each worker fails once in so many seconds; `None`: never. Means over the rounds.
fn failure_cost(workers: u32, kind: Kind, between_s: Option<f64>) -> FailureCost {
    let rounds = rounds_of(workers);
    let mut plan = hosts(workers);
    if kind == Kind::CrashWithShare {
        plan.deliver_after = Span::from_ms(3_600_000);
    }
    for n in 0..rounds {
        let mut round = round(n, workers * BLOCKS, BLOCK);
        round.spread_percent = 10;
        plan.rounds.push(round);
    }
    if let Some(between_s) = between_s {
        let mut rng = Rng::new(u64::from(workers)).fork(between_s as u64);
        let mean_us = between_s * 1e6 / f64::from(workers);
        let horizon_us = 3e6 * f64::from(rounds * BLOCKS) + 60e6;
        let mut at = 4e6;
        loop {
            let even = (rng.any() >> 11) as f64 / (1u64 << 53) as f64;
            at -= (1.0 - even).ln() * mean_us;
            if at > horizon_us {
                break;
            }
            let seat = rng.below(workers.into()) as u32;
            let fault = match kind {
                Kind::Silence => Fault::Stop { seat, for_span: None },
                Kind::Crash | Kind::CrashWithShare => Fault::Crash { seat },
            };
            plan.faults.push((Time(at as u64), fault));
        }
    }
    let ending = play(&plan);
    let n = f64::from(rounds);
    let tally = &ending.tally;
    FailureCost {
        round_s: mean(&seconds(&ending)),
        failures: tally.faults.iter().sum::<u64>() as f64 / n,
        blocks_again: (tally.blocks_run as f64 / n - f64::from(workers * BLOCKS)).max(0.0),
    }
}

/// The table and the picture.
pub fn rounds(sizes: &[u32]) -> (Table, Picture) {
    let mut table = Table::new(
        "recovery",
        "Rounds of 20 s in which workers fail. Simulated; ≈: scaled down from the cost of a failure in the row above.",
        &[
            "workers",
            "each fails once in",
            "failures in a round",
            "crash: round, blocks again",
            "crash, whole shares lost",
            "silence",
            "100 rounds, crash",
            "100 rounds, silence",
        ],
    );
    let mut jobs: Vec<(u32, Kind, Option<f64>)> = Vec::new();
    for &p in sizes {
        for kind in KINDS {
            let played = BETWEEN_S.into_iter().filter(|s| is_played(p, *s)).map(Some);
            jobs.extend(std::iter::once(None).chain(played).map(|s| (p, kind, s)));
        }
    }
    let outcomes = for_each(&jobs, |&(p, kind, between)| failure_cost(p, kind, between));
    let find = |p: u32, kind: Kind, between: Option<f64>| {
        let at = jobs.iter().position(|job| *job == (p, kind, between)).unwrap_or_default();
        outcomes[at]
    };
    let mut lines: Vec<Line> = Vec::new();
    for &p in sizes {
        let mut by_kind: Vec<Vec<(f64, f64)>> = vec![Vec::new(); KINDS.len()];
        let rarest = BETWEEN_S.into_iter().filter(|s| is_played(p, *s)).fold(BETWEEN_S[0], f64::max);
        for between in BETWEEN_S {
            let is_scaled = !is_played(p, between);
            let results = KINDS.map(|kind| {
                let calm = find(p, kind, None);
                let rare = find(p, kind, Some(rarest));
                let failures = f64::from(p) * calm.round_s / between;
                let scale = failures / rare.failures.max(1e-9);
                let scaled = FailureCost {
                    round_s: calm.round_s + (rare.round_s - calm.round_s).max(0.0) * scale,
                    failures,
                    blocks_again: rare.blocks_again * scale,
                };
                let outcome = if is_scaled { scaled } else { find(p, kind, Some(between)) };
                (outcome, calm.round_s)
            });
            let mark = if is_scaled { "≈ " } else { "" };
            let ratio = |(o, calm): (FailureCost, f64)| format!("{mark}{:.2} × 20 s", o.round_s / calm);
            let hundred = |(o, _): (FailureCost, f64)| format!("{mark}{}", time(100.0 * o.round_s));
            table.row([
                whole(p.into()),
                time(between),
                format!("{mark}{}", brief(results[0].0.failures)),
                format!("{}, {}", ratio(results[0]), brief(results[0].0.blocks_again)),
                format!("{}, {}", ratio(results[1]), brief(results[1].0.blocks_again)),
                format!("{}, {}", ratio(results[2]), brief(results[2].0.blocks_again)),
                hundred(results[0]),
                hundred(results[2]),
            ]);
            for (points, (outcome, calm)) in by_kind.iter_mut().zip(results) {
                points.push((between / 60.0, outcome.round_s / calm));
            }
        }
        if [100, 10_000].contains(&p) {
            let names = ["crashes", "crashes, whole shares lost", "silence"];
            for (points, name) in by_kind.into_iter().zip(names) {
                lines.push(Line::new(format!("{name}, {} workers", whole(p.into())), points));
            }
        }
    }
    let marks = [
        (10.0, "10 min"),
        (60.0, "1 h"),
        (360.0, "6 h"),
        (1_440.0, "1 day"),
        (10_080.0, "1 week"),
        (43_200.0, "30 days"),
    ];
    let picture = Picture {
        name: "recovery",
        title: "Rounds of 20 s while workers fail".into(),
        x: "time between the failures of one worker".into(),
        y: "time of a round over that without failures".into(),
        x_range: (10.0, 43_200.0),
        y_range: (1.0, 1.8),
        y_is_log: false,
        x_marks: marks.map(|(x, label)| (x, label.to_string())).into(),
        y_marks: [1.0, 1.2, 1.4, 1.6, 1.8].map(|y| (y, format!("{y:.1}"))).into(),
        lines,
    };
    (table, picture)
}

fn brief(n: f64) -> String {
    match n {
        n if n >= 9.95 => whole(n.round() as u64),
        n if n >= 0.1 => format!("{n:.1}"),
        0.0 => "0".into(),
        n => format!("{n:.3}"),
    }
}
