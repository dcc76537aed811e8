//! What a round costs in a bucket with the latencies of a cloud, for any number of workers: tables for the book.
//!
//! The protocol is the real one, in virtual time; nothing is computed by formula. The cloud is that of the paper on k-means over
//! blob storage: prototypes of 8 MB, work of 15 s, requests of tens of milliseconds, a limit to what one blob gives to all its
//! readers. The link of a worker is the one number that the paper does not tell. It is chosen so that 100 workers spend what the
//! paper measured, and the other sizes follow.

use super::job::{Job, JobEnding, play};
use super::{Faults, Latency};
use crate::study::for_each;
use crate::study::picture::{self, Line, Picture};
use crate::study::table::{Table, whole};
use qjam_core::bucket::{Settings, Shape};
use qjam_core::reduce::Cut;
use qjam_core::time::Span;

/// Prototypes of a thousand clusters in a thousand dimensions.
const BYTES: u64 = 8_000_000;
/// What a task takes.
const WORK_S: f64 = 15.0;
/// Rounds over which a figure is taken.
const ROUNDS: u64 = 2;
/// A single merge of more results takes longer than anybody waits.
const FLAT_MAX: u32 = 300;
/// Workers and seconds of communication in an iteration, as the paper measured them.
pub const PAPER: [(u32, f64); 13] = [
    (5, 13.7),
    (10, 15.0),
    (20, 18.5),
    (30, 20.9),
    (40, 24.2),
    (50, 27.1),
    (60, 28.4),
    (70, 31.8),
    (80, 32.9),
    (90, 35.9),
    (100, 38.3),
    (110, 54.7),
    (120, 44.1),
];

/// A job of one task for each worker, in the paper's cloud.
fn cloud(workers: u32, shape: Shape) -> Job {
    Job {
        seed: u64::from(workers),
        cut: Cut::new(workers, 0),
        tasks_max: workers,
        shape,
        rounds: ROUNDS,
        fused: true,
        workers,
        task_us: (WORK_S * 1e6) as u64,
        step_us: 0,
        latency: Latency {
            least_us: 20_000,
            most_us: 60_000,
            link_bytes_per_ms: 6_500,
            blob_bytes_per_ms: 60_000,
            bulk_bytes: BYTES,
            copies_max: 0,
        },
        faults: Faults::NONE,
        settings: Settings::default(),
    }
}

fn ending(job: &Job) -> JobEnding {
    play(job, false).unwrap_or_else(|violation| {
        panic!("a study failed, {} workers, {:?}: {violation}", job.workers, job.shape)
    })
}

/// Seconds of an iteration without the work.
fn communication_s(job: &Job) -> f64 {
    ending(job).took_us as f64 / 1e6 / job.rounds as f64 - WORK_S
}

fn seconds(s: f64) -> String {
    if s < 100.0 { format!("{s:.1}") } else { format!("{s:.0}") }
}

/// How results are merged, against the number of workers.
pub fn shapes(sizes: &[u32]) -> (Table, Picture) {
    const SHAPES: [(&str, Shape); 4] = [
        ("√P groups", Shape::SquareRoot),
        ("all at once", Shape::Flat),
        ("16 at a time", Shape::FanIn { bits: 4 }),
        ("4 at a time", Shape::FanIn { bits: 2 }),
    ];
    let mut columns = vec!["workers"];
    columns.extend(SHAPES.map(|(name, _)| name));
    let title = "Seconds of communication in an iteration, by how results are merged. Simulated.";
    let mut table = Table::new("bucket-shapes", title, &columns);
    let cases: Vec<(u32, Shape)> =
        sizes.iter().flat_map(|&workers| SHAPES.map(|(_, shape)| (workers, shape))).collect();
    let is_played = |workers: u32, shape: Shape| shape != Shape::Flat || workers <= FLAT_MAX;
    let spent = for_each(&cases, |&(workers, shape)| {
        is_played(workers, shape).then(|| communication_s(&cloud(workers, shape)))
    });
    for (&workers, row) in sizes.iter().zip(spent.chunks(SHAPES.len())) {
        let cells = row.iter().map(|s| s.map_or("–".into(), seconds));
        table.row([whole(workers.into())].into_iter().chain(cells));
    }
    let line = |n: usize| {
        let points = sizes.iter().zip(spent.chunks(SHAPES.len()));
        points.filter_map(|(&workers, row)| Some((f64::from(workers), row[n]?))).collect::<Vec<_>>()
    };
    let mut lines: Vec<Line> =
        SHAPES.iter().zip(0..).map(|((name, _), n)| Line::new(*name, line(n))).collect();
    let paper = PAPER.iter().filter(|(workers, _)| *workers >= 10);
    lines.push(Line::dashed("the paper", paper.map(|&(workers, s)| (f64::from(workers), s)).collect()));
    let picture = Picture {
        name: "bucket-shapes",
        title: "Communication in an iteration, prototypes of 8 MB".into(),
        x: "workers".into(),
        y: "seconds".into(),
        x_range: (10.0, 10_000.0),
        y_range: (1.0, 2_000.0),
        y_is_log: true,
        x_marks: picture::sizes(&crate::study::SIZES),
        y_marks: [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0].map(|y| (y, format!("{y}"))).into(),
        lines,
    };
    (table, picture)
}

/// Two stages against many, by the size of results.
pub fn stages(sizes: &[u32]) -> Table {
    const RESULTS: [(&str, u64); 4] = [("8 B", 8), ("80 kB", 80_000), ("800 kB", 800_000), ("8 MB", BYTES)];
    let title = "Seconds of communication in an iteration with √P groups / 4 at a time, by the size of prototypes and results. Simulated.";
    let mut columns = vec!["workers"];
    columns.extend(RESULTS.map(|(name, _)| name));
    let mut table = Table::new("bucket-stages", title, &columns);
    let rows = for_each(sizes, |&workers| {
        RESULTS.map(|(_, bytes)| {
            [Shape::SquareRoot, Shape::FanIn { bits: 2 }].map(|shape| {
                let mut job = cloud(workers, shape);
                job.latency.bulk_bytes = bytes;
                communication_s(&job)
            })
        })
    });
    for (&workers, row) in sizes.iter().zip(rows) {
        let cells = row.map(|[two, many]| format!("{} / {}", seconds(two), seconds(many)));
        table.row([whole(workers.into())].into_iter().chain(cells));
    }
    table
}

/// The sizes that the paper measured.
pub fn beside_the_paper(sizes: &[u32]) -> Table {
    let title = "Seconds of communication in an iteration, as the paper measured them and simulated.";
    let mut table = Table::new(
        "bucket-paper",
        title,
        &["mappers", "the paper", "simulated", "the paper over √P", "simulated over √P"],
    );
    let cases: Vec<(u32, f64)> = PAPER.into_iter().filter(|(workers, _)| sizes.contains(workers)).collect();
    let ours = for_each(&cases, |&(workers, _)| communication_s(&cloud(workers, Shape::SquareRoot)));
    for (&(workers, paper), ours) in cases.iter().zip(ours) {
        let root = f64::from(workers).sqrt();
        let numbers = [paper, ours, paper / root, ours / root];
        table.row([whole(workers.into())].into_iter().chain(numbers.map(|s| format!("{s:.1}"))));
    }
    table
}

/// One blob that all read, against √P copies of it.
pub fn copies(sizes: &[u32]) -> Table {
    let title =
        "Seconds of communication in an iteration, by the number of copies of the prototypes. Simulated.";
    let mut table = Table::new("bucket-copies", title, &["workers", "one copy", "√P copies"]);
    let rows = for_each(sizes, |&workers| {
        [1, 0].map(|copies_max| {
            let mut job = cloud(workers, Shape::SquareRoot);
            job.latency.copies_max = copies_max;
            communication_s(&job)
        })
    });
    for (&workers, row) in sizes.iter().zip(rows) {
        table.row([whole(workers.into())].into_iter().chain(row.map(seconds)));
    }
    table
}

/// Slow workers and blobs that are seen late, with and without backups.
pub fn trouble(sizes: &[u32]) -> Table {
    let title = "Seconds of an iteration when one worker of a hundred takes ten times as long, and when one blob of a hundred is seen up to a minute late. Simulated.";
    let columns =
        ["workers", "nothing wrong", "slow, no backups", "slow, backups", "late", "slow and late, backups"];
    let mut table = Table::new("bucket-trouble", title, &columns);
    let with = |workers: u32, slow_percent: u64, late_percent: u64, backups: bool| {
        let mut job = cloud(workers, Shape::SquareRoot);
        job.faults = Faults { slow_percent, late_percent, late_max_us: 60_000_000, ..Faults::NONE };
        job.faults.until_us = if late_percent > 0 { u64::MAX } else { 0 };
        if !backups {
            job.settings.help_every = Span(u64::MAX / 2);
        }
        ending(&job).took_us as f64 / 1e6 / job.rounds as f64
    };
    let rows = for_each(sizes, |&workers| {
        [(0, 0, true), (1, 0, false), (1, 0, true), (0, 1, true), (1, 1, true)]
            .map(|(slow, late, backups)| with(workers, slow, late, backups))
    });
    for (&workers, row) in sizes.iter().zip(rows) {
        table.row([whole(workers.into())].into_iter().chain(row.map(seconds)));
    }
    table
}

/// What an iteration costs in requests, but for those that remove what nobody needs.
pub fn requests(sizes: &[u32]) -> Table {
    let title = "Requests of an iteration for each worker. Simulated.";
    let columns = ["workers", "get", "put", "list", "send", "receive", "acknowledge or extend", "all"];
    let mut table = Table::new("bucket-requests", title, &columns);
    let rows = for_each(sizes, |&workers| ending(&cloud(workers, Shape::SquareRoot)).requests);
    for (&workers, counted) in sizes.iter().zip(rows) {
        let each = |n: u64| format!("{:.1}", n as f64 / (ROUNDS * u64::from(workers)) as f64);
        let counts =
            [counted.gets, counted.puts, counted.lists, counted.sends, counted.receives, counted.settles];
        table.row([whole(workers.into())].into_iter().chain(counts.map(each)).chain([each(counted.all())]));
    }
    table
}
