//! Whether `auto` chooses well: jobs of five sizes, by it and by every fixed choice.
//!
//! A job is so many rounds of a cheap pass over data that nobody has seen before, by a master that knows nothing yet. Its
//! time is that of all its rounds, so what it takes to find the best choice counts, and so does data that is sent in vain.
//! The jobs of all choices run in short turns, so that a slow moment of the machine hits all of them; the median of a few
//! such runs counts.

use crate::args::Auto;
use crate::output;
use anyhow::{bail, ensure};
use qjam::{DataSet, Dense, Master};
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bytes of data, rounds of a job, and jobs.
const JOBS: [(u64, u32, usize); 5] =
    [(1 << 10, 50_000, 5), (32 << 10, 50_000, 5), (1 << 20, 5_000, 5), (32 << 20, 100, 5), (1 << 30, 12, 5)];
/// A job with many rounds ends after so long: nobody wants to wait for the worst choice.
const LONG: Duration = Duration::from_millis(800);
const ROUNDS_MIN: u32 = 100;
/// Jobs take turns of this length.
const TURN: Duration = Duration::from_millis(20);
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

/// A job under way.
struct Job {
    m: Master,
    data: DataSet<Dense<f64>>,
    rounds: u32,
    spent: Duration,
}

impl Job {
    fn new(args: &Auto, slots: Option<u32>, bytes: u64, seed: u64) -> anyhow::Result<Self> {
        let numbers = bytes as usize / 8;
        // Other numbers in every chunk, so that no cache has them.
        let values: Vec<f64> = (0..numbers).map(|n| (n as u64 ^ seed << 32) as f64).collect();
        let data = DataSet::dense(values, COLS)?;
        let builder = slots.map_or(Master::builder(), |slots| Master::builder().fixed_slots(slots));
        Ok(Job { m: builder.connect(&auto(args))?, data, rounds: 0, spent: Duration::ZERO })
    }

    /// Runs rounds for a while, or the rest; says whether there was anything left.
    fn turn(&mut self, rounds_max: u32) -> anyhow::Result<bool> {
        let is_over = |job: &Job| job.rounds >= rounds_max || job.rounds >= ROUNDS_MIN && job.spent >= LONG;
        if is_over(self) {
            return Ok(false);
        }
        let (theta, start) = ([0.5; COLS], Instant::now());
        while self.rounds < rounds_max && start.elapsed() < TURN {
            let sums = self.m.run(pass, &theta[..], &self.data)?;
            ensure!(sums.len() == COLS, "a sum is missing, which must not happen");
            self.rounds += 1;
        }
        self.spent += start.elapsed();
        Ok(true)
    }

    /// Microseconds of a round.
    fn round_us(&self) -> f64 {
        self.spent.as_secs_f64() * 1e6 / f64::from(self.rounds.max(1))
    }
}

fn measure(
    args: &Auto,
    choices: &[u32],
    (bytes, rounds, jobs): (u64, u32, usize),
    seed: &mut u64,
) -> anyhow::Result<Row> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); choices.len() + 1];
    let mut choice = 0;
    for _ in 0..jobs {
        let kinds = choices.iter().copied().map(Some).chain([None]);
        let running = kinds.map(|slots| {
            *seed += 1;
            Job::new(args, slots, bytes, *seed)
        });
        let mut running = running.collect::<anyhow::Result<Vec<Job>>>()?;
        loop {
            let mut goes_on = false;
            for job in &mut running {
                goes_on |= job.turn(rounds)?;
            }
            if !goes_on {
                break;
            }
        }
        for (times, job) in times.iter_mut().zip(&running) {
            times.push(job.round_us());
        }
        let known = running.last().map_or(Vec::new(), |job| job.m.explain());
        choice = known.first().map_or(0, |known| known.choice);
        if args.explain {
            known.iter().for_each(|known| output::note(&known.to_string()));
        }
    }
    let mut medians: Vec<f64> = times.into_iter().map(median).collect();
    let auto_us = medians.pop().unwrap_or(0.0);
    let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let fixed_us = choices.iter().copied().zip(medians).collect();
    let workers = args.workers.clone();
    Ok(Row { workers, bytes, rounds, fixed_us, auto_us, choice, ratio: auto_us / best })
}

fn print(args: &Auto, row: &Row) -> anyhow::Result<()> {
    if args.json {
        output::json(row)?;
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
