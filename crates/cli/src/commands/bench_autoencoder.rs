//! How a real job scales.
//!
//! Three measurements in one run, so that they can be divided by each other: one worker, the workers asked for, and the
//! same number of workers that compute their shares over and over without exchanging anything. The last is the
//! machine's own ceiling: cores that share caches, memory and clock are slower together than alone. It is taken before
//! and after the job, since machines change their pace.

use super::progress::Progress;
use super::training;
use crate::args::Autoencoder;
use crate::output;
use qjam::{DataSet, Dense, Master};
use qjam_algos::images;
use qjam_algos::neural::autoencoder::{self, Params, Shape};
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

pub(super) const SIDE: usize = 8;
const HIDDEN: usize = 30;
/// Evaluations that the one worker is timed over.
const ALONE_EVALUATIONS: u32 = 20;
/// Rows that go through the gradient while it is timed alone.
const GRADIENT_ROWS: u64 = 1_000_000;
/// How long the workers that don't talk are to run.
const CEILING_US: u64 = 1_000_000;

#[derive(Serialize)]
struct Row {
    patches: u64,
    workers: String,
    evaluation_ms: f64,
    /// How many were made.
    evaluations: usize,
    /// The fastest cost and gradient of all patches on one thread, without a round or an optimiser around it.
    gradient_ms: f64,
    total_s: f64,
    speedup: f64,
    ceiling: f64,
    cost: f64,
    hash: String,
}

#[derive(qjam::Wire)]
struct Again {
    theta: Vec<f64>,
    times: u64,
}

/// Evaluates the same share again and again.
#[qjam::map]
fn evaluate_again(p: &Again, x: &Dense<f64>) -> u64 {
    for _ in 0..p.times {
        black_box(autoencoder::sums(&p.theta, black_box(x)));
    }
    p.times
}

pub(crate) fn run(args: &Autoencoder) -> anyhow::Result<()> {
    let params = Params::new(Shape::new(SIDE * SIDE, HIDDEN)?);
    if args.file.is_some() || args.memory_limit.is_some() {
        return super::bench_memory::run(args, &params);
    }
    // Made first: a wrong worker string is told before patches are drawn.
    let progress = Progress::default();
    let _dashboard;
    let m = progress.builder().connect(&args.workers)?;
    _dashboard = super::dashboard::of(&m, args.dashboard)?;
    let data = DataSet::dense(images::patches(args.patches as usize, SIDE, 1), SIDE * SIDE)?;
    let slots: u32 = m.workers().iter().map(|w| w.slots).sum();

    let gradient_ms = gradient_ms(&params, &data)?;
    let alone_us = {
        let kind = if args.workers.contains("proc") { "proc:1" } else { "local:1" };
        let one = Master::connect(kind)?;
        training::train(&one, &params, &data, args.evaluations.min(ALONE_EVALUATIONS), |_, _| {})?.median_us()
    };
    let ceiling_before_us = share_us(&m, &params, &data, slots, alone_us)?;
    progress.begin(args.evaluations);
    let trained =
        training::train(&m, &params, &data, args.evaluations, |n, cost| progress.step(&m, n, cost))?;
    output::moved();
    let ceiling_us = (ceiling_before_us + share_us(&m, &params, &data, slots, alone_us)?) / 2.0;
    if args.explain {
        output::explain(&m);
    }
    let row = Row {
        patches: args.patches,
        workers: args.workers.clone(),
        evaluation_ms: trained.median_us() as f64 / 1e3,
        evaluations: trained.spent.evaluations_us.len(),
        gradient_ms,
        total_s: trained.seconds,
        speedup: alone_us as f64 / trained.median_us().max(1) as f64,
        ceiling: alone_us as f64 / ceiling_us.max(1.0),
        cost: trained.cost,
        hash: trained.hash(),
    };
    if args.json {
        output::json(&row)?;
        return Ok(());
    }
    output::heading(&format!("sparse autoencoder, {} patches, {}", row.patches, row.workers));
    output::line(format!(
        "  evaluation  {:.2} ms   one worker needs {}",
        row.evaluation_ms,
        output::time(alone_us)
    ));
    output::line(format!("  gradient    {:.3} ms on one thread, outside any round", row.gradient_ms));
    output::line(format!(
        "  total       {:.2} s for {} evaluations",
        row.total_s,
        trained.spent.evaluations_us.len()
    ));
    output::line(format!(
        "  speed-up    {:.2} of {:.2}, which workers that don't talk reach: {:.0} %",
        row.speedup,
        row.ceiling,
        100.0 * row.speedup / row.ceiling
    ));
    let n = trained.spent.evaluations_us.len().max(1) as u64;
    output::line(format!(
        "  each        worker {}, master {}, overhead {}",
        output::time(trained.spent.worker_us / n),
        output::time(trained.spent.master_us / n),
        output::time(trained.spent.overhead_us / n)
    ));
    output::line(format!("  cost        {}", row.cost));
    output::line(format!("  hash        {}", row.hash));
    Ok(())
}

/// One cost and gradient of all patches as one chunk, the fastest of a few.
fn gradient_ms(params: &Params, data: &DataSet<Dense<f64>>) -> anyhow::Result<f64> {
    let (whole, theta) = (data.partitions(1)?.chunk(0)?, autoencoder::initial(&params.shape(), 1));
    let times = (GRADIENT_ROWS / data.records().max(1)).clamp(5, 1000);
    let mut fastest = f64::INFINITY;
    for _ in 0..times {
        let start = Instant::now();
        black_box(autoencoder::cost_of_slice(params, &theta, black_box(whole.as_slice())));
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok(fastest * 1e3)
}

/// Time of one evaluation when everybody has a share and nobody talks.
fn share_us(
    m: &Master,
    params: &Params,
    data: &DataSet<Dense<f64>>,
    slots: u32,
    alone_us: u64,
) -> anyhow::Result<f64> {
    let shares = data.partitions(slots as usize)?;
    let theta = autoencoder::initial(&params.shape(), 1);
    let times = (CEILING_US * u64::from(slots) / alone_us.max(1)).max(2);
    m.run(evaluate_again, &Again { theta: theta.clone(), times: 1 }, &shares)?;
    let start = Instant::now();
    m.run(evaluate_again, &Again { theta, times }, &shares)?;
    Ok(start.elapsed().as_micros() as f64 / times as f64)
}
