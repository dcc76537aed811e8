//! Which limit a growing cluster meets first. *Computed*, from costs that were *measured* and links that are assumed.

use super::Costs;
use super::bandwidth::{ENVELOPE_BYTES, frames};
use super::heartbeats::beat_bytes;
use super::table::{Table, bytes, time, whole};

/// A tenth of a round may be spent on distribution, and half of a core or link on signs of life.
const PART_OF_ROUND: f64 = 0.1;
const PART_OF_CORE: f64 = 0.5;
const LINK: f64 = 125e6;

/// So many workers until a limit is met.
fn limits(round_s: f64, size: f64, costs: Costs) -> [f64; 3] {
    let (task, result) = frames();
    let cpu = PART_OF_ROUND * round_s / (costs.exchange_us * 1e-6);
    let link = PART_OF_ROUND * round_s * LINK / (2.0 * size + task + result + 2.0 * ENVELOPE_BYTES);
    let beats = (PART_OF_CORE / (costs.beat_us * 1e-6)).min(PART_OF_CORE * LINK / beat_bytes());
    // Nobody speaks for being alive in a round that is over within a second.
    [cpu, link, if round_s > 1.0 { beats } else { f64::INFINITY }]
}

/// The table.
pub fn table(costs: Costs) -> Table {
    let mut table = Table::new(
        "limits",
        format!(
            "Workers at which distribution takes a tenth of a round, or signs of life half a core; 1 Gbit/s, {:.1} µs for a \
             task and its result, {:.1} µs for a sign of life. Computed from measured costs.",
            costs.exchange_us, costs.beat_us
        ),
        &["round", "bytes each way", "master's processor", "master's link", "heartbeats", "first"],
    );
    for round_s in [0.1, 1.0, 10.0, 60.0, 600.0] {
        for size in [8.0, 8e3, 8e6] {
            let limits = limits(round_s, size, costs);
            let names = ["processor", "link", "heartbeats"];
            let first = (0..3).min_by(|&a, &b| limits[a].total_cmp(&limits[b])).unwrap_or_default();
            let cell = |n: f64| if n.is_finite() { rounded(n) } else { "–".into() };
            table.row([
                time(round_s),
                bytes(size),
                cell(limits[0]),
                cell(limits[1]),
                cell(limits[2]),
                names[first].into(),
            ]);
        }
    }
    table
}

/// Two digits are all that such an estimate has.
fn rounded(n: f64) -> String {
    if n < 1.0 {
        return "none".into();
    }
    let step = 10f64.powf(n.max(1.0).log10().floor() - 1.0).max(1.0);
    whole(((n / step).floor() * step) as u64)
}
