//! Whether `auto` chooses well: jobs of five sizes, by it and by every fixed choice.
//!
//! A job is so many rounds of a cheap pass over data that nobody has seen before, by a master that knows nothing yet. Its
//! time is that of all its rounds, so what it takes to find the best choice counts, and so does data that is sent in vain.
//! The choices take turns, and the median of each counts.

use crate::args::Auto;
use crate::output;
use anyhow::{bail, ensure};
use qjam::{DataSet, Dense, Master};
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bytes of data, rounds of a job, and jobs.
const JOBS: [(u64, u32, usize); 5] =
    [(1 << 10, 20_000, 7), (32 << 10, 20_000, 7), (1 << 20, 2_000, 7), (32 << 20, 60, 7), (1 << 30, 12, 5)];
/// A job with many rounds ends after so long: nobody wants to wait for the worst choice.
const LONG: Duration = Duration::from_millis(400);
const ROUNDS_MIN: u32 = 60;
/// `auto` may take so many times as long as the best fixed choice.
const RATIO_MAX: f64 = 1.25;
const COLS: usize = 16;

#[derive(Serialize)]
struct Row {
    workers: String,
    bytes: u64,
    rounds: u32,
    /// Microseconds of a round, with each number of slots; 0 is the caller's thread.
    fixed_us: Vec<(u32, f64)>,
    auto_us: f64,
    /// Slots that `auto` came to.
    choice: u32,
    ratio: f64,
}

/// A cheap pass: two operations for each number.
#[qjam::map]
fn pass(theta: &[f64], x: &Dense<f64>) -> Vec<f64> {
    let mut sums = vec![0.0; theta.len()];
    for row in x.as_slice().chunks_exact(theta.len()) {
        for ((sum, x), t) in sums.iter_mut().zip(row).zip(theta) {
            *sum += x * t;
        }
    }
    sums
}

pub(crate) fn run(args: &Auto) -> anyhow::Result<ExitCode> {
    if args.workers.trim_start().starts_with("auto") {
        bail!("--workers names what to choose from, without `auto`: for example `proc:4`");
    }
    if !args.json {
        output::heading(&format!("auto:{}, against every fixed choice", args.workers));
    }
    let choices = choices(args)?;
    let mut seed = 0;
    let mut worst: f64 = 0.0;
    for (bytes, rounds, jobs) in JOBS {
        if args.mib_max.is_some_and(|mib| bytes > mib << 20) {
            continue;
        }
        let row = measure(args, &choices, (bytes, rounds, jobs), &mut seed)?;
        worst = worst.max(row.ratio);
        print(args, &row)?;
    }
    if args.check && worst > RATIO_MAX {
        bail!(
            "auto takes {worst:.2} times as long as the best fixed choice; at most {RATIO_MAX} are allowed"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn auto(args: &Auto) -> String {
    format!("auto:{}", args.workers)
}

/// The numbers of slots that can be chosen, as the master sees them.
fn choices(args: &Auto) -> anyhow::Result<Vec<u32>> {
    let m = Master::connect(&auto(args))?;
    let data = DataSet::dense(vec![1.0; COLS], COLS)?;
    m.run(pass, &[1.0; COLS][..], &data)?;
    let known = m.explain();
    ensure!(!known.is_empty(), "a master with `auto` explains nothing");
    Ok(known[0].predicted.iter().map(|p| p.slots).collect())
}

/// Time of a round in microseconds, over a whole job; and what was chosen last.
fn job(args: &Auto, slots: Option<u32>, bytes: u64, rounds: u32, seed: u64) -> anyhow::Result<(f64, u32)> {
    let numbers = bytes as usize / 8;
    // Other numbers in every chunk, so that no cache has them.
    let values: Vec<f64> = (0..numbers).map(|n| (n as u64 ^ seed << 32) as f64).collect();
    let data = DataSet::dense(values, COLS)?;
    let builder = slots.map_or(Master::builder(), |slots| Master::builder().fixed_slots(slots));
    let m = builder.connect(&auto(args))?;
    let theta = [0.5; COLS];
    let start = Instant::now();
    let mut done = 0;
    while done < rounds && (done < ROUNDS_MIN || start.elapsed() < LONG) {
        let sums = m.run(pass, &theta[..], &data)?;
        ensure!(sums.len() == COLS, "a sum is missing, which must not happen");
        done += 1;
    }
    let us = start.elapsed().as_secs_f64() * 1e6 / f64::from(done);
    let known = m.explain();
    if args.explain && slots.is_none() {
        known.iter().for_each(|known| output::note(&known.to_string()));
    }
    Ok((us, known.first().map_or(0, |known| known.choice)))
}

fn measure(
    args: &Auto,
    choices: &[u32],
    (bytes, rounds, jobs): (u64, u32, usize),
    seed: &mut u64,
) -> anyhow::Result<Row> {
    let mut fixed: Vec<(u32, Vec<f64>)> = choices.iter().map(|slots| (*slots, Vec::new())).collect();
    let mut chosen = Vec::new();
    for _ in 0..jobs {
        for (slots, times) in &mut fixed {
            *seed += 1;
            times.push(job(args, Some(*slots), bytes, rounds, *seed)?.0);
        }
        *seed += 1;
        chosen.push(job(args, None, bytes, rounds, *seed)?);
    }
    let fixed_us: Vec<(u32, f64)> = fixed.into_iter().map(|(slots, times)| (slots, median(times))).collect();
    let auto_us = median(chosen.iter().map(|(us, _)| *us).collect());
    let best = fixed_us.iter().map(|(_, us)| *us).fold(f64::INFINITY, f64::min);
    Ok(Row {
        workers: args.workers.clone(),
        bytes,
        rounds,
        fixed_us,
        auto_us,
        choice: chosen.last().map_or(0, |(_, slots)| *slots),
        ratio: auto_us / best,
    })
}

fn print(args: &Auto, row: &Row) -> anyhow::Result<()> {
    if args.json {
        output::line(serde_json::to_string(row)?);
        return Ok(());
    }
    let name = |slots: u32| if slots == 0 { "inline".into() } else { output::count(slots.into(), "slot") };
    let fixed: Vec<String> =
        row.fixed_us.iter().map(|(slots, us)| format!("{} {}", name(*slots), time(*us))).collect();
    output::line(format!(
        "  {:>9} x {:<5} {}; auto {} ({}): {:.2} x the best",
        output::bytes(row.bytes),
        row.rounds,
        fixed.join(", "),
        time(row.auto_us),
        name(row.choice),
        row.ratio
    ));
    Ok(())
}

fn time(us: f64) -> String {
    if us < 100.0 { format!("{us:.1} µs") } else { output::time(us as u64) }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
