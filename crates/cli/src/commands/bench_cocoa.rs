//! Time of ridge, lasso or elastic net to a given objective or certificate: `qjam bench cocoa`.
//!
//! What is counted: from the first round to the last. Before that the matrix was read, dealt out by columns, and brought to
//! the workers; after it objective and gap are computed anew from the data and the coefficients.

use super::certificate::{Matrix, objective_and_bound};
use super::{choices, npy, reading, supervised};
use crate::args::BenchCocoa;
use crate::output;
use anyhow::{anyhow, bail};
use qjam::Master;
use qjam_algos::linear::{
    CocoaRound, Columns, Fit, Local, Loss, Objective, Params, Partitioned, Penalty, Scaling, fit,
    partitions_for,
};
use qjam_algos::models::hash;
use qjam_readers::{OpenOptions, ReadError, Rows, open};
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Measured {
    workers: String,
    rows: usize,
    columns: usize,
    entries: u64,
    partitions: usize,
    /// Why it ended.
    outcome: &'static str,
    seconds: f64,
    rounds: usize,
    /// Over the data, all rounds together.
    passes: f64,
    objective: f64,
    gap: f64,
    worker_s: f64,
    master_s: f64,
    overhead_s: f64,
    h: f64,
    sigma: f64,
    /// How often H or σ' changed, the first choice included.
    choices: usize,
    nonzero: usize,
    hash: String,
}

/// Runs the command.
pub(crate) fn run(args: &BenchCocoa) -> anyhow::Result<()> {
    // What was typed wrongly is told before anything is read.
    Penalty::elastic_net(args.lambda, args.eta, Scaling::HalfSum, 1)
        .map_err(|e| anyhow!("--lambda, --eta: {e}"))?;
    if args.target.is_some_and(|target| !target.is_finite()) {
        bail!("--target is no finite number; give an objective that can be reached");
    }
    params(args, 1)?;
    for (flag, path) in [("--out", &args.out), ("--choices", &args.choices)] {
        path.iter().try_for_each(|path| reading::can_be_written(flag, path))?;
    }
    let workers = args.workers.as_deref().or(args.engine.as_deref()).unwrap_or("local");
    let _dashboard;
    let master = Master::connect(workers)?;
    _dashboard = super::dashboard::of(&master, args.dashboard)?;
    let opened = open(&args.data, &OpenOptions::default()).map_err(|e| match e {
        ReadError::Options { .. } => anyhow!(
            "{} has no single matrix in it; save one by itself, with scipy.sparse.save_npz or numpy.save",
            args.data.display()
        ),
        e => e.into(),
    })?;
    let rows = usize::try_from(opened.rows.records()).unwrap_or(usize::MAX);
    let targets = targets(args, opened.labels()?, rows)?;
    let asked = args.partitions.map_or_else(|| partitions_for(opened.rows.entries()), |k| k as usize);
    let of_data = |e| anyhow!("{}: {e}", args.data.display());
    match &opened.rows {
        Rows::CsrF32(rows) => {
            measure(args, &master, rows, Partitioned::columns_of(rows, asked).map_err(of_data)?, targets)
        }
        Rows::CsrF64(rows) => {
            measure(args, &master, rows, Partitioned::columns_of(rows, asked).map_err(of_data)?, targets)
        }
        Rows::DenseF32(rows) => measure(
            args,
            &master,
            rows,
            Partitioned::dense_columns_of(rows, asked).map_err(of_data)?,
            targets,
        ),
        Rows::DenseF64(rows) => measure(
            args,
            &master,
            rows,
            Partitioned::dense_columns_of(rows, asked).map_err(of_data)?,
            targets,
        ),
    }
}

/// Targets of their own file, or of the data's.
fn targets(args: &BenchCocoa, own: Option<Vec<f64>>, rows: usize) -> anyhow::Result<Vec<f64>> {
    match (&args.labels, own) {
        (Some(path), _) => supervised::beside(path, "--labels", rows, &args.data),
        (None, Some(labels)) => Ok(labels),
        (None, None) => bail!("{} has no targets in it; name them with --labels B.npy", args.data.display()),
    }
}

fn params(args: &BenchCocoa, partitions: usize) -> anyhow::Result<Params> {
    let local = match (&args.replay, args.h, args.sigma) {
        (Some(path), ..) => Local::Replayed(choices::read(path)?),
        (None, h, sigma) => Local::given(h, sigma, args.combine.into(), partitions),
    };
    let params = Params::default()
        .with_tolerance(if args.target.is_some() { 0.0 } else { args.tol })?
        .with_rounds_max(args.rounds as usize)?
        .with_local(local)?
        .with_tuning(args.tuning.into())
        .with_combine(args.combine.into())
        .with_seed(args.seed)
        .with_delay(Duration::from_secs_f64(args.delay_ms / 1e3));
    Ok(match args.target {
        Some(target) => params.with_target(target),
        None => params,
    })
}

fn measure<C: Columns>(
    args: &BenchCocoa,
    master: &Master,
    rows: &dyn Matrix,
    data: Partitioned<C>,
    targets: Vec<f64>,
) -> anyhow::Result<()> {
    let partitions = data.partitions();
    if let Some(asked) = args.partitions.filter(|asked| *asked as usize > partitions) {
        output::note(&format!("{partitions} partitions instead of {asked}: there are no more columns"));
    }
    if let Some(sigma) = args.sigma.filter(|sigma| *sigma > partitions as f64) {
        bail!(
            "--sigma is {sigma} and there are {partitions} partitions; give a number from 1 to {partitions}"
        );
    }
    let penalty = Penalty::elastic_net(args.lambda, args.eta, Scaling::HalfSum, data.rows())?;
    let objective = Objective {
        loss: Loss::Squares { targets: targets.clone() },
        terms: penalty.into(),
        centred: false,
        free: false,
    };
    let params = params(args, partitions)?;
    let found = fit(master, &data, &objective, &params, |seen: &CocoaRound| {
        output::passing(&format!(
            "  round {}: objective {:.8e}, gap {:.2e}, {:.3} passes",
            seen.round, seen.objective, seen.gap, seen.passes
        ));
    });
    output::passed();
    let found = found.map_err(|e| anyhow!("{}: {e}", args.data.display()))?;
    let (value, bound) = objective_and_bound(rows, &targets, &found.coordinates, args.lambda, args.eta)?;
    // What is left of the targets may be nothing but the rounding of products, which is another one here.
    let rounding = 1e-18 * targets.iter().map(|b| b * b).sum::<f64>();
    if (value - found.objective).abs() > 1e-6 * value.abs() + rounding {
        bail!(
            "the objective is {value} and the fit has {}, which must not happen: please report it",
            found.objective
        );
    }
    if args.explain {
        found.choices.iter().for_each(|choice| output::note(&choice.to_string()));
    }
    if let Some(path) = &args.choices {
        choices::write(path, &found.choices)?;
    }
    if let Some(out) = &args.out {
        npy::write_matrix(out, &found.coordinates, 1)?;
    }
    let bound = bound.max(found.bound);
    if let Some(target) = args.target.filter(|target| *target < value) {
        output::note(&match target < bound {
            true => format!(
                "no coefficients come to the target of {target}: the objective is at least {bound:.9e}"
            ),
            false => format!("the target of {target} was not reached: the objective is {value:.9e}"),
        });
    }
    let gap = (value - bound).max(0.0);
    let measured = measured(args, &data, &found, value, gap);
    if args.json {
        output::json(&measured)?;
    } else {
        say(args, &measured);
    }
    Ok(())
}

fn measured<C: Columns>(
    args: &BenchCocoa,
    data: &Partitioned<C>,
    found: &Fit,
    objective: f64,
    gap: f64,
) -> Measured {
    let (h, sigma) = found.choices.last().map_or((0.0, 0.0), |choice| (choice.work, choice.sigma));
    let times = found.times;
    Measured {
        workers: args.workers.as_deref().or(args.engine.as_deref()).unwrap_or("local").into(),
        rows: data.rows(),
        columns: data.columns(),
        entries: data.entries(),
        partitions: data.partitions(),
        outcome: found.outcome.name(),
        seconds: times.total_s,
        rounds: found.rounds,
        passes: found.passes,
        objective,
        gap,
        worker_s: times.worker_s,
        master_s: times.master_s,
        overhead_s: times.overhead_s,
        h,
        sigma,
        choices: found.choices.len(),
        nonzero: found.coordinates.iter().filter(|a| **a != 0.0).count(),
        hash: hash(&found.coordinates),
    }
}

fn say(args: &BenchCocoa, measured: &Measured) {
    let Measured { rows, columns, entries, partitions, workers, .. } = measured;
    output::heading(&format!(
        "{}, {}, {entries} entries, in {} on {workers}",
        output::count(*rows as u64, "row"),
        output::count(*columns as u64, "column"),
        output::count(*partitions as u64, "partition")
    ));
    output::line(format!(
        "  {} after {} and {:.2} passes over the data, {:.4} s",
        measured.outcome,
        output::count(measured.rounds as u64, "round"),
        measured.passes,
        measured.seconds
    ));
    let share = |seconds: f64| 100.0 * seconds / measured.seconds.max(f64::MIN_POSITIVE);
    output::line(format!(
        "  workers {:.4} s ({:.0} %), master {:.4} s ({:.0} %), the rest {:.4} s ({:.0} %)",
        measured.worker_s,
        share(measured.worker_s),
        measured.master_s,
        share(measured.master_s),
        measured.overhead_s,
        share(measured.overhead_s)
    ));
    output::line(format!(
        "  objective {:.12e}, above the optimum by at most {:.2e} ({:.2e} of it)",
        measured.objective,
        measured.gap,
        measured.gap / measured.objective.abs().max(f64::MIN_POSITIVE)
    ));
    let how = if args.h.is_some() || args.sigma.is_some() { "given" } else { "at the end" };
    output::line(format!(
        "  {how}: {:.4} passes a round, σ' {:.2}; {} in all",
        measured.h,
        measured.sigma,
        output::count(measured.choices as u64, "choice")
    ));
    output::line(format!(
        "  {} of {columns} coefficients are not 0, hash {}",
        measured.nonzero, measured.hash
    ));
}
