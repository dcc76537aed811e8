//! What it costs the master to know that everybody is alive.
//!
//! A worker whose block runs for over a second says so every second; one that says nothing for 15 s is lost. How many
//! messages come at the master's process is *simulated*; bytes are those of the real message and an estimate of what TCP
//! and ssh add; the share of a core is *computed* from what a message was *measured* to cost. For other detection
//! times the beat is taken to be a fifteenth of them, as it is now.

use super::bandwidth::ENVELOPE_BYTES;
use super::picture::{self, Line, Picture};
use super::table::{Table, bytes, whole};
use super::{Costs, for_each, hosts, play, round};
use qjam_core::time::Span;
use qjam_core::wire::message::{KIND_TO_MASTER, State};
use qjam_core::wire::{ToMaster, frame};

/// A worker is lost after so many beats.
pub(super) const BEATS: f64 = 15.0;
/// Detection times, in seconds; the third is ours.
const DETECTIONS_S: [f64; 4] = [1.5, 5.0, 15.0, 60.0];

/// Messages to and from the master in a second of a long round; simulated.
fn messages(workers: u32) -> (f64, f64) {
    let mut plan = hosts(workers);
    let mut long = round(0, workers, Span::from_ms(20_000));
    long.spread_percent = 0;
    plan.rounds.push(long);
    let ending = play(&plan);
    let (asked, answered) = ending.rounds[0];
    let seconds = answered.since(asked).0 as f64 / 1e6;
    let hellos = f64::from(workers);
    ((ending.tally.messages_in as f64 - hellos) / seconds, ending.tally.messages_out as f64 / seconds)
}

/// Bytes of a sign of life on the wire.
pub(super) fn beat_bytes() -> f64 {
    let body = ToMaster::State(State::Running).to_body();
    frame::encode(KIND_TO_MASTER, &body, b"").len() as f64 + ENVELOPE_BYTES
}

/// Messages that the simulator counts.
pub fn counted(sizes: &[u32]) -> Table {
    let mut table = Table::new(
        "heartbeats",
        "Messages in a second at the master while every worker is in a block of 20 s; lost after 15 s. Simulated.",
        &["workers", "from workers", "to workers", "bytes a second"],
    );
    let rows = for_each(sizes, |&p| messages(p));
    for (p, (to_master, to_workers)) in sizes.iter().zip(rows) {
        let bytes_s = (to_master + to_workers) * beat_bytes();
        table.row([
            whole((*p).into()),
            whole(to_master.round() as u64),
            whole(to_workers.round() as u64),
            bytes(bytes_s),
        ]);
    }
    table
}

/// The share of a core, for several detection times; and the picture.
pub fn shares(sizes: &[u32], costs: Costs) -> (Table, Picture) {
    let mut table = Table::new(
        "heartbeat-cpu",
        format!(
            "Share of one of the master's cores, at {:.1} µs for a message, by detection time. Computed from a measured cost.",
            costs.beat_us
        ),
        &["workers", "1.5 s", "5 s", "15 s (ours)", "60 s"],
    );
    let share = |workers: f64, detection_s: f64| workers * BEATS / detection_s * costs.beat_us / 1e6;
    for p in sizes {
        let cells = DETECTIONS_S.map(|d| format!("{:.2} %", 100.0 * share((*p).into(), d)));
        table.row([whole((*p).into())].into_iter().chain(cells));
    }
    let range = [10.0, 100.0, 1e3, 1e4, 1e5];
    let line = |d: f64| range.iter().map(|&p| (p, 100.0 * share(p, d))).collect::<Vec<_>>();
    let picture = Picture {
        name: "heartbeats",
        title: "Heartbeats: share of one core of the master".into(),
        x: "workers".into(),
        y: "per cent of a core".into(),
        x_range: (10.0, 1e5),
        y_range: (1e-3, 1e3),
        y_is_log: true,
        x_marks: picture::sizes(&[10, 100, 1_000, 10_000, 100_000]),
        y_marks: [
            (1e-3, "0.001"),
            (1e-2, "0.01"),
            (0.1, "0.1"),
            (1.0, "1"),
            (10.0, "10"),
            (100.0, "100"),
            (1e3, "1000"),
        ]
        .map(|(y, label)| (y, label.to_string()))
        .into(),
        lines: DETECTIONS_S
            .iter()
            .map(|&d| {
                Line::new(format!("lost after {d} s{}", if d == 15.0 { " (ours)" } else { "" }), line(d))
            })
            .collect(),
    };
    (table, picture)
}
