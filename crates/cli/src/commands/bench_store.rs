//! What rounds through a bucket cost.

use crate::args::BenchStore;
use crate::output;
use qjam_store::experiment::Experiment;
use qjam_store::{Address, Seal};
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Row {
    mappers: u32,
    work_ms: u64,
    iterations: u64,
    bytes: u64,
    slow: u32,
    backups: bool,
    wall_s: f64,
    communication_s: f64,
    efficiency: f64,
    /// Processor time of all mappers.
    cpu_s: f64,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Serialize)]
struct Counts {
    tasks: u64,
    blob_requests: u64,
    queue_requests: u64,
}

/// Processor time of this process, in seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

pub(crate) fn run(args: &BenchStore) -> anyhow::Result<()> {
    let (address, job) = Address::parse(&args.store)?;
    let experiment = Experiment {
        address,
        job: job.unwrap_or_else(|| format!("bench-{}", std::process::id())),
        mappers: args.mappers,
        work: Duration::from_millis(args.work_ms),
        iterations: args.iterations,
        bytes: args.bytes as usize,
        slow: args.slow.min(args.mappers),
        slowness: args.slowness,
        backups: !args.no_backups,
    };
    let cpu_before_s = cpu_s();
    let measured = experiment.run(&Seal::without_key())?;
    let wall_s = measured.wall.as_secs_f64();
    let work_s = experiment.work.as_secs_f64() * args.iterations as f64;
    let row = Row {
        mappers: args.mappers,
        work_ms: args.work_ms,
        iterations: args.iterations,
        bytes: args.bytes,
        slow: experiment.slow,
        backups: experiment.backups,
        wall_s,
        communication_s: wall_s - work_s,
        efficiency: work_s / wall_s,
        cpu_s: cpu_s() - cpu_before_s,
        counts: Counts {
            tasks: measured.tasks,
            blob_requests: measured.blob_requests,
            queue_requests: measured.queue_requests,
        },
    };
    if args.json {
        output::json(&row)?;
        return Ok(());
    }
    let us = |seconds: f64| output::time((seconds * 1e6) as u64);
    output::heading(&format!(
        "{} iterations of {} mappers that work for {}, prototypes of {}",
        row.iterations,
        row.mappers,
        us(work_s / row.iterations as f64),
        output::bytes(row.bytes)
    ));
    output::line(format!("  wall            {}", us(row.wall_s)));
    output::line(format!(
        "  communication   {}   {} an iteration",
        us(row.communication_s),
        us(row.communication_s / row.iterations as f64)
    ));
    output::line(format!("  efficiency      {:.1} %", 100.0 * row.efficiency));
    output::line(format!("  processor time  {} an iteration", us(row.cpu_s / row.iterations as f64)));
    output::line(format!(
        "  requests        {} to blobs and {} to the queue for each task",
        row.counts.blob_requests / row.counts.tasks.max(1),
        row.counts.queue_requests / row.counts.tasks.max(1)
    ));
    Ok(())
}
