//! k-means from files: fitting, and measuring an iteration.
//!
//! Numbers stay what the file has, 32 or 64 bits; everything else is the learner's.

use super::npy;
use crate::args::{BenchKmeans, FitKmeans, StartFrom};
use crate::output;
use anyhow::Context;
use qjam::{DataSet, Dense, Master};
use qjam_algos::clustering::kmeans::{self, Centres, Fit, Iteration, Lloyd, Outcome, Params, Start};
use qjam_algos::kernels::nearest::Real;
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// `qjam bench kmeans`.
pub(crate) fn bench(args: &BenchKmeans) -> anyhow::Result<()> {
    match npy::is_single(&args.data)? {
        true => bench_of::<f32>(args),
        false => bench_of::<f64>(args),
    }
}

#[derive(Serialize)]
struct Measured {
    workers: String,
    rows: u64,
    columns: usize,
    k: usize,
    iterations: usize,
    ms_per_iteration: f64,
    ms_best: f64,
    inertia: f64,
    /// Share of the distances that were computed.
    computed: f64,
    hash: String,
}

fn bench_of<T: Real>(args: &BenchKmeans) -> anyhow::Result<()> {
    let data = DataSet::<Dense<T>>::npy(&args.data)?;
    let centres = centres::<T>(&args.init)?;
    let (k, columns) = (centres.len(), centres.dims());
    let params = Params::new(k)?.with_pruning(!args.no_pruning);
    let master = Master::connect(&args.workers)?;
    let mut lloyd = Lloyd::from(&master, &params, &data, centres)?;
    let (mut best, mut computed) = (f64::INFINITY, 0.0);
    let start = Instant::now();
    for _ in 0..args.iterations {
        let before = Instant::now();
        computed += lloyd.step()?.computed;
        best = best.min(before.elapsed().as_secs_f64() * 1e3);
    }
    let iterations = f64::from(args.iterations);
    let measured = Measured {
        workers: args.workers.clone(),
        rows: data.records(),
        columns,
        k,
        iterations: lloyd.iterations(),
        ms_per_iteration: start.elapsed().as_secs_f64() * 1e3 / iterations,
        ms_best: best,
        inertia: lloyd.inertia()?,
        computed: computed / iterations,
        hash: hash(lloyd.centres().values()),
    };
    if let Some(out) = &args.out {
        npy::write_matrix(out, lloyd.centres().values(), columns)?;
    }
    if args.json {
        output::line(serde_json::to_string(&measured)?);
        return Ok(());
    }
    output::heading(&format!(
        "{} rows of {columns} columns, {k} centres, on {}",
        measured.rows, args.workers
    ));
    output::line(format!("  {:.2} ms an iteration, the best {best:.2}", measured.ms_per_iteration));
    output::line(format!("  {:.1} % of all distances computed", 100.0 * measured.computed));
    output::line(format!("  inertia {:.9e}, hash {}", measured.inertia, measured.hash));
    Ok(())
}

/// `qjam fit kmeans`.
pub(crate) fn fit(args: &FitKmeans) -> anyhow::Result<()> {
    match npy::is_single(&args.data)? {
        true => fit_of::<f32>(args),
        false => fit_of::<f64>(args),
    }
}

#[derive(Serialize)]
struct Fitted<'a> {
    rows: u64,
    k: usize,
    inertia: f64,
    iterations: usize,
    outcome: &'a str,
    empty: usize,
    hash: String,
    seconds: f64,
}

fn fit_of<T: Real>(args: &FitKmeans) -> anyhow::Result<()> {
    let data = DataSet::<Dense<T>>::npy(&args.data)?;
    let params = Params::new(args.k)?
        .with_start(match args.start {
            StartFrom::PlusPlus => Start::PlusPlus,
            StartFrom::Parallel => Start::Parallel,
            StartFrom::Random => Start::Random,
        })
        .with_starts(args.starts)?
        .with_iterations_max(args.iterations)?
        .with_tolerance(args.tolerance)?
        .with_pruning(!args.no_pruning)
        .with_weights_last(args.weights_last)
        .with_seed(args.seed);
    let master = Master::connect(&args.workers)?;
    let start = Instant::now();
    let observer = |seen: &Iteration| {
        output::moving(&format!("iteration {}: centres moved {:.3e}", seen.number, seen.moved.sqrt()));
    };
    let fit = match (&args.init, args.batch) {
        (Some(init), _) => kmeans::fit_from(&master, &params, &data, centres::<T>(init)?, observer)?,
        (None, Some(rows)) => {
            kmeans::fit_minibatch(&master, &params.with_batch_rows(rows)?, &data, observer)?
        }
        (None, None) => kmeans::fit(&master, &params, &data, observer)?,
    };
    output::moved();
    fit.model.save(&args.out)?;
    if args.explain {
        output::explain(&master);
    }
    say(args, &data, &fit, start.elapsed().as_secs_f64())
}

fn say<T: Real>(
    args: &FitKmeans,
    data: &DataSet<Dense<T>>,
    fit: &Fit<T>,
    seconds: f64,
) -> anyhow::Result<()> {
    let outcome = match fit.outcome {
        Outcome::FixedPoint => "fixed point",
        Outcome::Tolerance => "tolerance",
        Outcome::NoImprovement => "the batches got no better",
        Outcome::IterationsUsedUp => "iterations used up",
    };
    let hash = hash(fit.model.centres().values());
    if args.json {
        let Fit { inertia, iterations, empty, .. } = *fit;
        let fitted =
            Fitted { rows: data.records(), k: args.k, inertia, iterations, outcome, empty, hash, seconds };
        output::line(serde_json::to_string(&fitted)?);
        return Ok(());
    }
    output::line(format!(
        "{} centres of {} rows after {} in {seconds:.2} s ({outcome})",
        args.k,
        data.records(),
        output::count(fit.iterations as u64, "iteration"),
    ));
    output::line(format!("inertia {:.9e}, hash {hash}, model in {}", fit.inertia, args.out.display()));
    if fit.empty > 0 {
        output::note(&format!("{} of the centres have no rows: there are fewer different rows", fit.empty));
    }
    Ok(())
}

fn centres<T: Real>(path: &Path) -> anyhow::Result<Centres<T>> {
    let rows = DataSet::<Dense<T>>::npy(path)
        .and_then(|rows| rows.partitions(1)?.chunk(0))
        .context("the first centres must be numbers of the same type as the data")?;
    Centres::new(rows.as_slice().to_vec(), rows.cols()).context("there are no first centres")
}

/// The first half of a cryptographic hash of the numbers.
fn hash<T: Real>(values: &[T]) -> String {
    let mut hasher = blake3::Hasher::new();
    values.iter().for_each(|v| {
        hasher.update(&v.to_f64().to_bits().to_le_bytes());
    });
    hasher.finalize().to_hex()[..32].to_string()
}
