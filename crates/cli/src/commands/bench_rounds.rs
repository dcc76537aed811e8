//! What a round costs by itself.

use crate::args::Rounds;
use crate::output;
use anyhow::ensure;
use qjam::{DataSet, Master, Nothing};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Rounds before the clock starts: processes fault their memory in, arenas are introduced.
const WARM_UP: usize = 5;

#[derive(Serialize)]
struct Row {
    workers: String,
    doubles: usize,
    median_us: f64,
    p99_us: f64,
    bytes_out: u64,
    bytes_in: u64,
    worker_us: u64,
    overhead_us: u64,
}

#[qjam::map]
fn double(v: &[f64], _: &Nothing) -> Vec<f64> {
    v.iter().map(|x| x * 2.0).collect()
}

#[derive(qjam::Wire)]
struct Slow {
    sleep_ms: u64,
    v: Vec<f64>,
}

#[qjam::map]
fn double_slowly(p: &Slow, _: &Nothing) -> Vec<f64> {
    std::thread::sleep(Duration::from_millis(p.sleep_ms));
    p.v.iter().map(|x| x * 2.0).collect()
}

pub(crate) fn run(args: &Rounds) -> anyhow::Result<()> {
    let _dashboard;
    let m = Master::connect(&args.workers)?;
    _dashboard = super::dashboard::of(&m, args.dashboard)?;
    let slots: u32 = m.workers().iter().map(|w| w.slots).sum();
    let data = DataSet::nothing(slots as usize)?;
    let (doubles, rounds) = (args.doubles as usize, args.rounds as usize);
    let v = vec![1.0; doubles];
    let slow = Slow { sleep_ms: args.sleep_ms, v: v.clone() };
    let mut times_us = Vec::with_capacity(rounds);
    let mut reports = Vec::with_capacity(rounds);
    for n in 0..WARM_UP + rounds {
        let start = Instant::now();
        let sum = if args.sleep_ms > 0 {
            m.run(double_slowly, &slow, &data)?
        } else {
            m.run(double, &v[..], &data)?
        };
        let took = start.elapsed();
        ensure!(
            sum.len() == doubles && sum.iter().all(|x| *x == 2.0 * f64::from(slots)),
            "the sum is wrong, which must not happen"
        );
        if n >= WARM_UP {
            times_us.push(took.as_nanos() as f64 / 1e3);
            reports.extend(m.last_round());
        }
    }
    if args.explain {
        output::explain(&m);
    }
    times_us.sort_by(f64::total_cmp);
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let row = Row {
        workers: args.workers.clone(),
        doubles,
        median_us: times_us[times_us.len() / 2],
        p99_us: times_us[(times_us.len() * 99 / 100).min(times_us.len() - 1)],
        bytes_out: median(reports.iter().map(|r| r.bytes_out).collect()),
        bytes_in: median(reports.iter().map(|r| r.bytes_in).collect()),
        worker_us: median(reports.iter().map(|r| r.worker_us).collect()),
        overhead_us: median(reports.iter().map(|r| r.overhead_us).collect()),
    };
    if args.json {
        output::json(&row)?;
        return Ok(());
    }
    output::heading(&format!("{} rounds of {} doubles on {}", args.rounds, args.doubles, args.workers));
    output::line(format!("  median    {}", output::time(row.median_us as u64)));
    output::line(format!("  p99       {}", output::time(row.p99_us as u64)));
    output::line(format!("  worker    {}   the slowest worker's own computing", output::time(row.worker_us)));
    output::line(format!("  overhead  {}   what distribution costs", output::time(row.overhead_us)));
    output::line(format!(
        "  out {}, in {} a round",
        output::bytes(row.bytes_out),
        output::bytes(row.bytes_in)
    ));
    Ok(())
}
