//! What goes through the master's link, and what trees would make of it.
//!
//! Today the workers hang on the master like the points of a star: the parameters go out once to every host, and the
//! roots of what each has combined come back. How many roots that are is *simulated*. The times are *computed*: bytes
//! over bandwidth, plus the master's time for each message. Trees need links between workers, which are not built; their
//! columns are *computed* from a model:
//!
//! ```text
//! depth d: the least with k + k² + … + k^d ≥ P,  k = 8 children each
//! one way: k·S/B + (d − 1)·k·min(S, 1 MiB)/B + d·(L + k·c)
//! ```
//!
//! for S bytes over links of B bytes a second, in pieces of 1 MiB that are passed on as they come, with L = 0.5 ms from
//! host to host and c = 20 µs for a message. Both ways cost the same; combining is taken to cost nothing in either.

use super::picture::{self, Line, Picture};
use super::table::{Table, bytes, time, whole};
use super::{for_each, hosts, play, round};
use qjam_core::ids::{DataSetId, RoundId};
use qjam_core::order::OrderHead;
use qjam_core::reduce::{Cut, Node};
use qjam_core::time::Span;
use qjam_core::wire::frame;
use qjam_core::wire::message::{
    BlockRange, KIND_TO_MASTER, KIND_TO_WORKER, Part, Payload, ResultMessage, Task,
};
use qjam_core::wire::{ToMaster, ToWorker};

const CHILDREN: f64 = 8.0;
const PIECE: f64 = 1_048_576.0;
const LATENCY_S: f64 = 0.5e-3;
const MESSAGE_S: f64 = 20e-6;
/// Blocks of each worker.
const BLOCKS: u32 = 64;
/// What TCP, IP and ssh add to a short message, about.
pub const ENVELOPE_BYTES: f64 = 100.0;

const SIZES_BYTES: [f64; 3] = [8.0, 8e3, 8e6];
const LINKS: [(&str, f64); 2] = [("1 Gbit/s", 125e6), ("10 Gbit/s", 1.25e9)];

/// Roots that a worker sends in a round of which everybody gets so many blocks and that is over before anything must be
/// delivered early; simulated.
fn roots(workers: u32, blocks: u32) -> f64 {
    let mut plan = hosts(workers);
    let mut calm = round(0, blocks, Span(1_000_000 * u64::from(workers) / u64::from(blocks)));
    calm.spread_percent = 0;
    plan.rounds.push(calm);
    play(&plan).tally.parts as f64 / f64::from(workers)
}

/// Bytes of a task and of a result as they are on the wire, without parameters and values.
pub fn frames() -> (f64, f64) {
    let blocks = BlockRange { first: 640_000, len: BLOCKS, attempt: 1, alone: false, apart: false };
    let task = ToWorker::Task(Task {
        order: OrderHead {
            round: RoundId(1_000),
            function: "kmeans::assign".into(),
            seed: 7,
            dataset: DataSetId([9; 32]),
            cut: Cut::new(640_000, 0),
            held: None,
            slots_max: None,
            records: None,
            lineage: None,
        },
        chunks: Vec::new(),
        ranges: vec![blocks],
        params: Payload::Streamed { bytes: 8_000_000 },
        released: Vec::new(),
    });
    let part = Part {
        node: Node { level: 6, index: 10_000 },
        ranges: vec![blocks],
        payload: Payload::Streamed { bytes: 8_000_000 },
    };
    let result = ToMaster::Result(ResultMessage {
        round: RoundId(1_000),
        parts: vec![part],
        compute_us: 10_000_000,
        cache_hits: BLOCKS,
        cache_misses: 0,
        restored: Vec::new(),
    });
    let bytes = |kind, body: &[u8]| frame::encode(kind, body, b"").len() as f64;
    (bytes(KIND_TO_WORKER, &task.to_body()), bytes(KIND_TO_MASTER, &result.to_body()))
}

/// Seconds that a star takes: to send the parameters to all, and to get so many values from each.
fn star(workers: f64, size: f64, values: f64, link: f64) -> f64 {
    let (task, result) = frames();
    let out = workers * (size + task + ENVELOPE_BYTES);
    let back = workers * (values * size + result + ENVELOPE_BYTES);
    (out + back) / link + 2.0 * workers * MESSAGE_S + 2.0 * LATENCY_S
}

/// Seconds that two trees take, one to send and one to combine.
fn trees(workers: f64, size: f64, link: f64) -> f64 {
    let mut depth = 1.0;
    let mut reached = CHILDREN;
    while reached < workers {
        depth += 1.0;
        reached += CHILDREN.powf(depth);
    }
    let children = CHILDREN.min(workers);
    let one_way = children * size / link
        + (depth - 1.0) * children * size.min(PIECE) / link
        + depth * (LATENCY_S + children * MESSAGE_S);
    2.0 * one_way
}

/// From how many workers on trees are faster than the star.
fn crossover(size: f64, link: f64) -> u32 {
    let is_star = |p: &u32| star((*p).into(), size, 1.0, link) <= trees((*p).into(), size, link);
    // Up to as many as a node has children they are the same thing.
    (CHILDREN as u32..100_000).rev().find(is_star).unwrap_or(CHILDREN as u32) + 1
}

/// The largest star that takes no longer than this.
fn star_within(size: f64, link: f64, seconds: f64) -> u32 {
    (1..10_000_000).take_while(|&p| star(p.into(), size, 1.0, link) <= seconds).last().unwrap_or(0)
}

/// The tables, and the picture of 8 MB at 1 Gbit/s.
pub fn traffic(sizes: &[u32]) -> (Vec<Table>, Picture) {
    let mut tables = Vec::new();
    let mut combined = Table::new(
        "roots",
        "Values that each worker sends in a round that is over within two seconds. Simulated.",
        &["workers", "64 blocks each", "50 blocks each", "64 blocks without combining"],
    );
    let roots = for_each(sizes, |&p| (roots(p, p * BLOCKS), roots(p, p * 50)));
    for (p, (even, odd)) in sizes.iter().zip(&roots) {
        combined.row([whole((*p).into()), format!("{even:.2}"), format!("{odd:.2}"), BLOCKS.to_string()]);
    }
    tables.push(combined);
    for size in SIZES_BYTES {
        let name = match size as u64 {
            8 => "traffic-8b",
            8_000 => "traffic-8kb",
            _ => "traffic-8mb",
        };
        let mut table = Table::new(
            name,
            format!("Parameters and values of {}: a round's traffic at the master. Computed.", bytes(size)),
            &[
                "workers",
                "out",
                "back",
                "back, not combined",
                "star, 1 Gbit/s",
                "trees, 1 Gbit/s",
                "star, 10 Gbit/s",
                "trees, 10 Gbit/s",
            ],
        );
        for (p, (even, _)) in sizes.iter().zip(&roots) {
            let n = f64::from(*p);
            let (task, result) = frames();
            let mut cells = vec![
                whole((*p).into()),
                bytes(n * (size + task + ENVELOPE_BYTES)),
                bytes(n * (even * size + result + ENVELOPE_BYTES)),
                bytes(n * (f64::from(BLOCKS) * size + result + ENVELOPE_BYTES)),
            ];
            for (_, link) in LINKS {
                cells.extend([time(star(n, size, *even, link)), time(trees(n, size, link))]);
            }
            table.row(cells);
        }
        tables.push(table);
    }
    tables.push(crossovers());
    (tables, picture())
}

fn crossovers() -> Table {
    let mut table = Table::new(
        "crossover",
        "Where trees would begin to be faster, and how many workers a star serves within a second and within ten. Computed.",
        &["bytes each way", "link", "trees faster from", "star within 1 s", "star within 10 s"],
    );
    for size in SIZES_BYTES {
        for (name, link) in LINKS {
            let from = whole(crossover(size, link).into());
            let within = |s| whole(star_within(size, link, s).into());
            table.row([bytes(size), name.into(), from, within(1.0), within(10.0)]);
        }
    }
    table
}

fn picture() -> Picture {
    let sizes: Vec<f64> = (0..=30).map(|n| 10f64.powf(1.0 + f64::from(n) / 10.0)).collect();
    let line = |f: &dyn Fn(f64) -> f64| sizes.iter().map(|&p| (p, f(p))).collect::<Vec<_>>();
    let one = LINKS[0].1;
    Picture {
        name: "traffic",
        title: "Sending parameters and collecting values over 1 Gbit/s (computed)".into(),
        x: "workers".into(),
        y: "seconds in a round".into(),
        x_range: (10.0, 10_000.0),
        y_range: (1e-3, 1e4),
        y_is_log: true,
        x_marks: picture::sizes(&super::SIZES),
        y_marks: [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4].map(|y| (y, time(y))).into(),
        lines: vec![
            Line::new("8 MB, star", line(&|p| star(p, 8e6, 1.0, one))),
            Line::dashed("8 MB, trees", line(&|p| trees(p, 8e6, one))),
            Line::new("8 KB, star", line(&|p| star(p, 8e3, 1.0, one))),
            Line::dashed("8 KB, trees", line(&|p| trees(p, 8e3, one))),
            Line::new("8 MB, star, without combining in workers", line(&|p| star(p, 8e6, 64.0, one))),
            Line::new("8 B, star", line(&|p| star(p, 8.0, 1.0, one))),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_clusters_and_small_values_have_no_use_for_trees() {
        assert!(star(20.0, 8.0, 1.0, 125e6) < trees(20.0, 8.0, 125e6));
        assert!(trees(1_000.0, 8e6, 125e6) < star(1_000.0, 8e6, 1.0, 125e6) / 10.0);
    }

    #[test]
    fn a_worker_with_a_whole_subtree_sends_one_root() {
        assert_eq!(roots(16, 16 * 64), 1.0);
        let odd = roots(10, 10 * 50);
        assert!(odd > 1.0 && odd < 10.0, "{odd}");
    }
}
