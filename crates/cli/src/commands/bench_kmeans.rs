//! What an iteration of k-means costs, from given centres: `qjam bench kmeans`.
//!
//! What is counted: from the first iteration's start to the last one's end. Before that the data has been read and looked
//! through once, so it lies with the workers. Iterations end at the fixed point unless pruning is off; what that means for
//! the numbers is in the command's help.

use super::{npy, reading};
use crate::args::BenchKmeans;
use crate::output;
use anyhow::Context;
use qjam::{DataSet, Dense, Dtype, Master};
use qjam_algos::clustering::kmeans::{self, Centres, Lloyd, Model, Params, Points};
use qjam_algos::kernels::nearest::Real;
use qjam_algos::models::{Parts, hash};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Runs the command.
pub(crate) fn run(args: &BenchKmeans) -> anyhow::Result<()> {
    match npy::is_single(&args.data)? {
        true => measure::<f32>(args),
        false => measure::<f64>(args),
    }
}

#[derive(Serialize)]
struct Measured {
    workers: String,
    rows: u64,
    columns: usize,
    k: usize,
    /// Iterations that were made, and that were asked for.
    iterations: usize,
    iterations_asked: u32,
    fixed_point: bool,
    /// The whole time over those asked for, over those made, and the shortest one.
    ms_per_iteration: f64,
    ms_per_iteration_made: f64,
    ms_best: f64,
    ms_total: f64,
    inertia: f64,
    /// Share of the distances of those made that were computed.
    computed: f64,
    pruning: bool,
    hash: String,
}

fn measure<T: Real>(args: &BenchKmeans) -> anyhow::Result<()>
where
    Dense<T>: Points<Number = T>,
{
    let data = DataSet::<Dense<T>>::npy(&args.data)?;
    let centres = centres::<T>(&args.init)?;
    let (k, columns) = (centres.len(), centres.dims());
    let params = Params::new(k)?.with_pruning(!args.no_pruning);
    let _dashboard;
    let master = Master::connect(&args.workers)?;
    _dashboard = super::dashboard::of(&master, args.dashboard)?;
    let mut lloyd = Lloyd::from(&master, &params, &data, centres)?;
    // Iterations have a cut of their own; this brings its chunks to the workers.
    lloyd.inertia()?;
    let (mut best, mut computed) = (f64::INFINITY, 0.0);
    let start = Instant::now();
    for _ in 0..args.iterations {
        let before = Instant::now();
        computed += lloyd.step()?.computed;
        best = best.min(before.elapsed().as_secs_f64() * 1e3);
        if lloyd.is_fixed() && !args.no_pruning {
            break;
        }
    }
    let ms_total = start.elapsed().as_secs_f64() * 1e3;
    let made = lloyd.iterations();
    let measured = Measured {
        workers: args.workers.clone(),
        rows: data.records(),
        columns,
        k,
        iterations: made,
        iterations_asked: args.iterations,
        fixed_point: lloyd.is_fixed(),
        ms_per_iteration: ms_total / f64::from(args.iterations),
        ms_per_iteration_made: ms_total / made as f64,
        ms_best: best,
        ms_total,
        inertia: lloyd.inertia()?,
        computed: computed / made as f64,
        pruning: !args.no_pruning,
        hash: hash(lloyd.centres().values()),
    };
    if let Some(out) = &args.out {
        npy::write_matrix(out, lloyd.centres().values(), columns)?;
    }
    if args.json {
        output::json(&measured)?;
    } else {
        say(&measured);
    }
    Ok(())
}

fn say(measured: &Measured) {
    let Measured { rows, columns, k, workers, .. } = measured;
    output::heading(&format!("{rows} rows of {columns} columns, {k} centres, on {workers}"));
    let asked = output::count(measured.iterations_asked.into(), "iteration");
    output::line(format!("  {asked} asked for: {:.2} ms each", measured.ms_per_iteration));
    let end = if measured.fixed_point { ", where no centre moves any more" } else { "" };
    output::line(format!(
        "  {} made{end}: {:.2} ms each, the best {:.2}",
        measured.iterations, measured.ms_per_iteration_made, measured.ms_best
    ));
    output::line(format!("  {:.1} % of their distances computed", 100.0 * measured.computed));
    output::line(format!("  inertia {:.9e}, hash {}", measured.inertia, measured.hash));
}

/// First centres from a file of any kind.
fn centres<T: Real>(path: &Path) -> anyhow::Result<Centres<T>> {
    let dtype = if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 };
    let tensor = reading::matrix("--init", path, dtype, "a file of centres")?.named("centres");
    let parts = Parts::new(kmeans::model::FORMAT, vec![tensor]);
    Ok(Model::of_parts(&parts).with_context(|| format!("--init {}", path.display()))?.centres().clone())
}
