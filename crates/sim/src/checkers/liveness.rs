//! A bound on the duration of a run.
//!
//! After the last fault, there is always a next event, and the number of consecutive waits is bounded. The longest waits are:
//!
//! - a worker that never comes back is lost after `lost_after`, and its seat filled again: a start that says nothing
//!   takes `start_within`, and pauses between starts double until the seat is given up;
//! - a host that is out of reach is waited for with patience, after the longest pause and the longest start;
//! - the work itself, in the worst case all of it by one slot at its slowest, and every byte over the slowest link.
//!
//! This much, a *turn*, can be needed once for each thing that undoes work: each death by a poisonous block, each
//! worker that was broken for good and is found out only when it is given something, each round that starts after the
//! previous one. The bound is the sum. It is generous, and it is finite: what never ends is found.

use crate::fault::Fault;
use crate::plan::{Cancel, Plan, Submit};
use qjam_core::time::{Span, Time};

/// The bound of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// In virtual time.
    pub(crate) until: Time,
    /// In steps: a state machine in an endless loop does not advance time.
    pub(crate) events: u64,
}

/// The bound of a plan.
pub(crate) fn patience(plan: &Plan) -> Patience {
    let turns = turns(plan);
    let submitted = plan.rounds.iter().map(|r| match r.submit {
        Submit::At(at) => at,
        Submit::AfterPrevious(span) => Time(span.0),
    });
    let cancelled = plan.rounds.iter().map(|r| match r.cancel {
        Some(Cancel::After(span)) => span.0,
        _ => 0,
    });
    let added =
        plan.seats.iter().map(|s| s.added.max(s.removed.unwrap_or_default())).max().unwrap_or_default();
    let calm =
        plan.faults_end().max(added) + Span(submitted.map(|at| at.0).sum::<u64>() + cancelled.sum::<u64>());
    let blocks: u64 = plan.rounds.iter().map(|r| u64::from(r.cut.blocks())).sum();
    let until = calm + Span(turns * turn(plan).0);
    // Every seat may say a few things a second, and every block take a few steps each time it is given out.
    let seconds = until.0 / 1_000_000 + 1;
    Patience { until, events: 100_000 + (seconds * plan.seats.len() as u64 * 8 + blocks * 20) * (turns + 4) }
}

/// The longest wait for one thing to be done or done again.
fn turn(plan: &Plan) -> Span {
    let c = &plan.config;
    let pauses: u64 = (0..c.fruitless_max.saturating_sub(1)).map(|n| c.restart_after.0 << n.min(10)).sum();
    let starts = c.start_within.0 + plan.seats.iter().map(|s| 2 * s.start.0).max().unwrap_or(0);
    let hosts = match plan.seats.iter().any(|s| s.remote) {
        true => c.remote_patience.0 + c.remote_restart_max.0 + 2 * starts,
        false => 0,
    };
    let slowest = plan.faults.iter().map(|(_, fault)| match fault {
        Fault::SlowWorker { factor, .. } | Fault::SlowLink { factor, .. } => *factor,
        _ => 1,
    });
    let slowness = plan.seats.iter().map(|s| s.slowness).max().unwrap_or(1);
    let slowest = slowness * slowest.max().unwrap_or(1);
    let per_mib = plan.seats.iter().map(|s| s.per_mib.0).max().unwrap_or(0);
    let trip = plan
        .seats
        .iter()
        .map(|s| s.latency.0 + s.report.0 + s.merge.0 + s.collect.0 + 100)
        .max()
        .unwrap_or(0);
    let work = plan.rounds.iter().map(|r| {
        let blocks = u64::from(r.cut.blocks());
        let bytes = blocks * (r.params_bytes + r.partial_bytes) + u64::from(r.cut.chunks) * r.chunk_bytes;
        let once = 2 * r.block.0 + (((r.params_bytes + r.partial_bytes) * per_mib) >> 20) + 4 * trip;
        // What was begun while things were slow is finished slowly.
        let again = if r.is_held { plan.rounds.len() as u64 } else { 0 };
        slowness * (2 + again) * blocks * r.block.0
            + ((bytes * per_mib) >> 20)
            + 8 * blocks * trip
            + slowest * once
    });
    Span(
        c.lost_after.0
            + c.home_patience.0
            + c.let_go_within.0
            + c.remote_let_go_within.0
            + c.spare_within.0
            + starts
            + pauses
            + hosts
            + work.sum::<u64>()
            + 1_000_000,
    )
}

/// How often work can be undone, or a round begin, after the faults.
fn turns(plan: &Plan) -> u64 {
    let poisons: u64 = plan.rounds.iter().map(|r| r.poison.len() as u64).sum();
    let broken = plan.faults.iter().filter(|(_, fault)| {
        matches!(
            fault,
            Fault::Stop { for_span: None, .. }
                | Fault::Outage { for_span: None, .. }
                | Fault::Cut { master_learns: None, .. }
                | Fault::CrashSending { .. }
        )
    });
    let broken = broken.count() as u64;
    2 + plan.rounds.len() as u64 + broken + poisons * u64::from(plan.config.kills_max)
}
